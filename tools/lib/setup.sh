# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by quickstart.sh and check.sh: messages, packages, building. Wants $root, the project's
# folder. Prints progress to standard error; standard output is for results.

if [ -t 2 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
  bold=$(printf '\033[1m') plain=$(printf '\033[0m')
else
  bold='' plain=''
fi

say() {
  printf '%s==> %s%s\n' "$bold" "$*" "$plain" >&2
}

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

have() {
  command -v "$1" >/dev/null 2>&1
}

have_library() {
  have pkg-config && pkg-config --exists "$1"
}

# Meson 1.0 is the oldest that the build files are written for.
have_meson() {
  local version
  have meson && version=$(meson --version 2>/dev/null) || return 1
  [ "${version%%.*}" -ge 1 ] 2>/dev/null
}

have_compiler() {
  { [ -n "${CC:-}" ] && have "${CC%% *}"; } || { have cc && [ -e /usr/include/stdio.h ]; }
}

# missing_packages WHAT...: the Debian packages to install for each WHAT that is not there.
missing_packages() {
  local what
  for what in "$@"; do
    case $what in
      compiler) have_compiler || echo gcc libc6-dev ;;
      meson) have_meson || echo meson ;;
      ninja) have ninja || echo ninja-build ;;
      pkg-config) have pkg-config || echo pkg-config ;;
      jansson) have_library 'jansson >= 2.13' || echo libjansson-dev ;;
      sqlite) have_library sqlite3 || echo libsqlite3-dev ;;
      zlib) have_library zlib || echo zlib1g-dev ;;
      cmocka) have_library cmocka || echo libcmocka-dev ;;
      gnuplot) have gnuplot || echo gnuplot-nox ;;
      python) have python3 || echo python3 ;;
      valgrind) have valgrind || echo valgrind ;;
      *) die "setup.sh: \"$what\" is nothing it knows" ;;
    esac
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

# What apt-get says is shown only when it fails.
apt_quiet() {
  local said
  said=$(as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" 2>&1) && return 0
  printf '%s\n' "$said" | tail -n 20 >&2
  return 1
}

# install_missing WHAT...: installs what is not there; does nothing when all is.
install_missing() {
  local packages
  packages=$(missing_packages "$@" | tr '\n' ' ')
  packages=${packages% }
  [ -n "$packages" ] || return 0
  have apt-get || die "please install what these Debian packages hold: $packages"
  [ "$(id -u)" = 0 ] || have sudo || die "please run as root: apt-get install $packages"
  say "Installing $packages"
  apt_quiet update || say "The package lists could not be renewed; trying with those at hand"
  # shellcheck disable=SC2086 # a list of words
  apt_quiet install -y --no-install-recommends $packages || die "apt-get could not install $packages"
  packages=$(missing_packages "$@" | tr '\n' ' ')
  # An older system has a package of that name, but not the version that is needed.
  [ -z "$packages" ] || die "too old on this system: $packages" \
    "(README.md, "'"Two commands", has the versions; Meson also comes with: pip install meson)'
}

# build FOLDER MESON-OPTION...: configures the first time or when the options change, and compiles.
# What the tools say is shown only when they fail.
build() {
  local folder=$1 log
  shift
  log=$folder.log
  mkdir -p "${folder%/*}"
  if [ -f "$folder/build.ninja" ]; then
    set -- --reconfigure "$@"
  elif [ -e "$folder/meson-private" ]; then
    # An earlier setup was cut short.
    set -- --wipe "$@"
  fi
  say "Building ${folder#"$root"/}"
  if ! { meson setup "$@" "$folder" "$root" && meson compile -C "$folder"; } >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    printf '%s: the build failed; all of it is in %s\n' "${0##*/}" "$log" >&2
    return 1
  fi
  rm -f "$log"
}
