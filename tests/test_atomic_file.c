/* SPDX-License-Identifier: Apache-2.0
 *
 * test_atomic_file: an output file is there whole or not at all, whatever goes wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/atomic_file.h"

static char folder[64];

static int enter_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/gpupool-atomic-XXXXXX");
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
	(void)state;
	return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

static unsigned count_entries(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2; /* "." and ".." */
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static const char *get(const char *path)
{
	static char text[256];
	FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

static void test_old_file_stands_until_publish(void **state)
{
	struct gp_atomic_file f;

	(void)state;
	put("a", "old");
	assert_int_equal(gp_atomic_open(&f, "a"), 0);
	fputs("new", f.stream);
	assert_string_equal(get("a"), "old");
	assert_int_equal(gp_atomic_finish(&f), 0);
	assert_string_equal(get("a"), "old");
	assert_int_equal(count_entries("."), 2);
	assert_int_equal(gp_atomic_publish(&f), 0);
	assert_string_equal(get("a"), "new");
	assert_int_equal(count_entries("."), 1);
	gp_atomic_discard(&f);
	assert_string_equal(get("a"), "new");
	unlink("a");
}

static void test_discard_leaves_nothing(void **state)
{
	struct gp_atomic_file f;

	(void)state;
	assert_int_equal(gp_atomic_open(&f, "a"), 0);
	fputs("half", f.stream);
	gp_atomic_discard(&f);
	assert_int_equal(count_entries("."), 0);
	assert_int_equal(gp_atomic_open(&f, "a"), 0);
	assert_int_equal(gp_atomic_finish(&f), 0);
	gp_atomic_discard(&f);
	gp_atomic_discard(&f);
	assert_int_equal(count_entries("."), 0);
}

static void test_mode_follows_umask(void **state)
{
	struct gp_atomic_file f;
	struct stat st;
	mode_t old = umask(027);

	(void)state;
	assert_int_equal(gp_atomic_open(&f, "a"), 0);
	assert_int_equal(gp_atomic_close(&f), 0);
	umask(old);
	assert_int_equal(stat("a", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	unlink("a");
}

/* A limit on file size stands for a full disk: the write fails in the same place. */
static void test_full_disk_leaves_the_old_file(void **state)
{
	struct rlimit old, small = { 1000, RLIM_INFINITY };
	struct gp_atomic_file f;
	int r;

	(void)state;
	put("a", "old");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(gp_atomic_open(&f, "a"), 0);
	for (int i = 0; i < 100000; i++)
		fputc('x', f.stream);
	r = gp_atomic_close(&f);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(r, -EFBIG);
	assert_string_equal(get("a"), "old");
	assert_int_equal(count_entries("."), 1);
	unlink("a");
}

/* Devices and pipes must never be renamed over. */
static void test_devices_are_written_directly(void **state)
{
	struct gp_atomic_file f;
	struct stat st;

	(void)state;
	assert_int_equal(gp_atomic_open(&f, "/dev/null"), 0);
	assert_null(f.temp);
	fputs("text", f.stream);
	assert_int_equal(gp_atomic_close(&f), 0);
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	if (access("/dev/full", W_OK) != 0)
		return;
	assert_int_equal(gp_atomic_open(&f, "/dev/full"), 0);
	fputs("text", f.stream);
	assert_int_equal(gp_atomic_close(&f), -ENOSPC);
}

static void test_links_are_followed(void **state)
{
	struct gp_atomic_file f;
	struct stat st;

	(void)state;
	put("target", "old");
	assert_int_equal(symlink("target", "link"), 0);
	assert_int_equal(gp_atomic_open(&f, "link"), 0);
	fputs("new", f.stream);
	assert_int_equal(gp_atomic_close(&f), 0);
	assert_int_equal(lstat("link", &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_string_equal(get("target"), "new");
	unlink("link");
	unlink("target");
}

static void test_impossible_places(void **state)
{
	char longest[300];
	struct gp_atomic_file f;

	(void)state;
	assert_int_equal(gp_atomic_open(&f, "."), -EISDIR);
	assert_int_equal(gp_atomic_open(&f, "missing/a"), -ENOENT);
	put("file", "");
	assert_int_equal(gp_atomic_open(&f, "file/a"), -ENOTDIR);
	unlink("file");
	/* 255 bytes are a name, and the temporary one is no longer. */
	memset(longest, 'n', 255);
	longest[255] = '\0';
	assert_int_equal(gp_atomic_open(&f, longest), 0);
	assert_int_equal(gp_atomic_close(&f), 0);
	unlink(longest);
	/* One more is none, which must not come out only when the file is published. */
	memset(longest, 'n', 256);
	longest[256] = '\0';
	assert_int_equal(gp_atomic_open(&f, longest), -ENAMETOOLONG);
	assert_int_equal(symlink("self", "self"), 0);
	assert_int_equal(gp_atomic_open(&f, "self"), -ELOOP);
	unlink("self");
	assert_int_equal(count_entries("."), 0);
}

static void test_folders(void **state)
{
	static const struct {
		const char *dir;
		unsigned n_made;
	} cases[] = {
		{ "a", 1 },       { "a/b/c", 3 }, { "a//b/", 2 },
		{ "./a/./b", 2 }, { ".", 0 },     { "./", 0 },
	};
	unsigned n;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(gp_folder_create(cases[i].dir, &n), 0);
		if (n != cases[i].n_made)
			fail_msg("%s: made %u folders", cases[i].dir, n);
		assert_int_equal(access(cases[i].dir, W_OK), 0);
		gp_folder_remove(cases[i].dir, n);
		assert_int_equal(count_entries("."), 0);
	}
}

static void test_folders_that_cannot_be(void **state)
{
	char longest[300];
	unsigned n;

	(void)state;
	put("file", "");
	assert_int_equal(gp_folder_create("file", &n), -ENOTDIR);
	assert_int_equal(gp_folder_create("file/b", &n), -ENOTDIR);
	assert_int_equal(gp_folder_create("", &n), -ENOENT);
	assert_int_equal(gp_folder_create("/proc/nowhere", &n), -ENOENT);
	/* What was made on the way is removed again. */
	memset(longest, 'n', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	memcpy(longest, "a/b/", 4);
	assert_int_equal(gp_folder_create(longest, &n), -ENAMETOOLONG);
	unlink("file");
	assert_int_equal(count_entries("."), 0);
}

static void test_remove_keeps_what_is_used(void **state)
{
	unsigned n;

	(void)state;
	assert_int_equal(gp_folder_create("a/b", &n), 0);
	put("a/kept", "");
	gp_folder_remove("a/b", n);
	assert_int_equal(access("a/b", F_OK), -1);
	assert_int_equal(access("a/kept", F_OK), 0);
	unlink("a/kept");
	rmdir("a");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_old_file_stands_until_publish),
		cmocka_unit_test(test_discard_leaves_nothing),
		cmocka_unit_test(test_mode_follows_umask),
		cmocka_unit_test(test_full_disk_leaves_the_old_file),
		cmocka_unit_test(test_devices_are_written_directly),
		cmocka_unit_test(test_links_are_followed),
		cmocka_unit_test(test_impossible_places),
		cmocka_unit_test(test_folders),
		cmocka_unit_test(test_folders_that_cannot_be),
		cmocka_unit_test(test_remove_keeps_what_is_used),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
