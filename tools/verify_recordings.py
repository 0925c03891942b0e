#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the model of PyTorch's allocator against recordings: every address and every device call.

    tools/verify_recordings.py build/tools/gpupool-replay FILE-OR-FOLDER...

Of a folder, all that is in it: raw recordings (*.json.gz with "meta" and "events", as
tools/convert_recordings.py reads them), memory snapshots (*.pickle, *.pickle.gz) and traces with
recorded addresses (*.jsonl.gz). Settings and memory limit are taken from the recording; a trace was
made under the default ones. A line of TAP for each.

Exit: 0 all of it matches; 1 something differs; 2 bad usage or input.
"""

import argparse
import gzip
import json
import pathlib
import pickle
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENDINGS = (".json.gz", ".jsonl.gz", ".pickle", ".pickle.gz")


class PlainUnpickler(pickle.Unpickler):
    """A snapshot is made of plain values: nothing in it may name code."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name}: expected plain values only")


def read_raw(path):
    """The meta of a raw recording; None: it is something else."""
    with gzip.open(path, "rt", encoding="utf-8") as f:
        document = json.load(f)
    return document.get("meta") if "events" in document else None


def snapshot_conf(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as f:
        settings = PlainUnpickler(f).load().get("allocator_settings", {})
    return settings.get("PYTORCH_CUDA_ALLOC_CONF") or ""


def prepare(path, folder):
    """(trace to replay, conf, limit), or None for a file that is no recording."""
    if path.name.endswith(".json.gz"):
        meta = read_raw(path)
        if meta is None:
            return None
        trace = pathlib.Path(folder) / "trace.jsonl.gz"
        subprocess.run([sys.executable, ROOT / "tools/convert_recordings.py", path, trace], check=True)
        return trace, meta.get("conf") or "", meta.get("limit") or 0
    if ".pickle" in path.name:
        return path, snapshot_conf(path), 0
    return path, "", 0


def verify(replay, trace, conf, limit, folder):
    """(whether it matches, what to say)"""
    command = [replay, "--device=sim", "--quiet", "--json", "--repeat=1", "--verify-recording",
               f"--alloc=torch{f':limit={limit}' if limit else ''}", f"--out={folder}/out"]
    if conf:
        command.append(f"--conf={conf}")
    run = subprocess.run([*command, trace], capture_output=True, text=True, check=False)
    try:
        found = json.loads(run.stdout)["runs"][0]["recording"]
    except (ValueError, KeyError, IndexError):
        return False, (run.stderr.strip() or "no result").splitlines()[-1]
    text = f"{found['matched']} of {found['compared']}"
    return run.returncode == 0 and found["matched"] == found["compared"], text + (
        f"\n# {run.stderr.strip()}" if run.returncode else "")


def find(paths):
    for path in paths:
        inside = sorted(p for p in path.iterdir() if p.name.endswith(ENDINGS)) if path.is_dir() else [path]
        yield from inside


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    p.add_argument("replay", help="the program gpupool-replay")
    p.add_argument("paths", nargs="+", type=pathlib.Path, metavar="FILE-OR-FOLDER")
    p.add_argument("--except", dest="skip", action="append", default=[], metavar="WORD",
                   help="leave out names with this word (repeatable)")
    args = p.parse_args()
    missing = [path for path in args.paths if not path.exists()]
    if missing:
        p.error(f"{missing[0]}: no such file or folder")
    n = failed = 0
    for path in find(args.paths):
        if any(word in path.name for word in args.skip):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                what = prepare(path, folder)
                if what is None:
                    continue
                good, text = verify(args.replay, *what, folder)
            except Exception as e:  # whatever is wrong with one file, the others are still to be tried
                good, text = False, str(e)
        n += 1
        failed += not good
        print(f"{'ok' if good else 'not ok'} {n} - {path.name}: {text}", flush=True)
    print(f"1..{n}")
    if not n:
        p.error("nothing to verify was found")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
