/* SPDX-License-Identifier: Apache-2.0
 *
 * test_cli: the command line that every program shares: what it accepts, what it says when it does
 * not, and how numbers read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocators/base.h"
#include "tools/cli.h"

/* ---- what reaches standard error, or standard output ---- */

struct capture {
	FILE *file;
	int fd, saved;
	char text[8192];
};

static void capture_begin(struct capture *c, FILE *stream)
{
	fflush(stream);
	c->file = tmpfile();
	assert_non_null(c->file);
	c->fd = fileno(stream);
	c->saved = dup(c->fd);
	assert_true(dup2(fileno(c->file), c->fd) >= 0);
}

static const char *capture_end(struct capture *c, FILE *stream)
{
	size_t n;

	fflush(stream);
	assert_true(dup2(c->saved, c->fd) >= 0);
	close(c->saved);
	rewind(c->file);
	n = fread(c->text, 1, sizeof(c->text) - 1, c->file);
	c->text[n] = '\0';
	fclose(c->file);
	return c->text;
}

static size_t count_lines(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

/* ---- a small program ---- */

struct seen {
	uint64_t capacity;
	unsigned n_flags;
	char json[64];
	bool refuse;
};

static bool on_capacity(void *ctx, const char *name, const char *value)
{
	struct seen *s = ctx;

	return cli_size(name, value, 1, GP_SIZE_MAX, &s->capacity);
}

static bool on_flag(void *ctx, const char *name, const char *value)
{
	struct seen *s = ctx;

	assert_string_equal(name, "check");
	assert_null(value);
	s->n_flags++;
	return true;
}

static bool on_json(void *ctx, const char *name, const char *value)
{
	struct seen *s = ctx;

	(void)name;
	snprintf(s->json, sizeof(s->json), "%s", value ? value : "(none)");
	return true;
}

static const struct cli_option options[] = {
	{ "capacity", "SIZE", "memory", on_capacity },
	{ "check", NULL, "look", on_flag },
	{ "json", "[FILE]", "document", on_json },
	{ NULL, NULL, NULL, NULL },
};

static const struct cli_program program = {
	.name = "prog",
	.synopsis = "[OPTION]... FILE...",
	.about = "Does a thing.",
	.options = options,
	.examples = "  prog --check x\n",
};

/* Parses `line`, words separated by one space ("" is no word); the arguments stay in argv. */
static int parse(char *line, struct seen *seen, char **argv, int *n)
{
	int argc = 1;

	argv[0] = (char *)(uintptr_t) "prog";
	for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	*seen = (struct seen){ 0 };
	return cli_parse(&program, seen, argc, argv, n);
}

static void test_options_and_operands(void **state)
{
	char line[] = "a --capacity=2M b --check --capacity 64K - --json --check -- --check";
	char *argv[16];
	struct seen seen;
	int n;

	(void)state;
	assert_int_equal(parse(line, &seen, argv, &n), -1);
	assert_int_equal(n, 4);
	assert_string_equal(argv[0], "a");
	assert_string_equal(argv[1], "b");
	assert_string_equal(argv[2], "-");
	assert_string_equal(argv[3], "--check");
	assert_int_equal(seen.capacity, 64 * GP_KIB);
	assert_int_equal(seen.n_flags, 2);
	assert_string_equal(seen.json, "(none)");
}

static void test_optional_value_only_by_equals(void **state)
{
	char by_equals[] = "--json=f.json", by_space[] = "--json f.json", empty[] = "--json=";
	char *argv[8];
	struct seen seen;
	int n;

	(void)state;
	assert_int_equal(parse(by_equals, &seen, argv, &n), -1);
	assert_int_equal(n, 0);
	assert_string_equal(seen.json, "f.json");
	assert_int_equal(parse(by_space, &seen, argv, &n), -1);
	assert_int_equal(n, 1);
	assert_string_equal(seen.json, "(none)");
	assert_int_equal(parse(empty, &seen, argv, &n), -1);
	assert_string_equal(seen.json, "");
}

/* Each is refused with code 2 and exactly one line, which has these words. */
static void test_refusals(void **state)
{
	static const struct {
		const char *line, *say;
	} cases[] = {
		{ "--capcity=1", "prog: --capcity: unknown option; did you mean --capacity?" },
		{ "--hlep", "did you mean --help?" },
		{ "--chekc", "did you mean --check?" },
		{ "--entirely-else", "prog: --entirely-else: unknown option; --help lists them" },
		{ "--check=1", "--check=1: this option takes no value" },
		{ "--help=x", "--help=x: this option takes no value" },
		{ "--capacity", "--capacity: expected a value: --capacity=SIZE" },
		{ "-c", "prog: -c: unknown option; options are long ones" },
		{ "--=x", "unknown option" },
		{ "--capacity=", "--capacity=: expected a size, such as" },
		{ "--capacity=12Q", "--capacity=12Q: expected a size, such as" },
		{ "--capacity=-1", "expected a size, such as" },
		{ "--capacity=0", "--capacity=0: expected a size from 1 B to 1 EiB" },
		{ "--capacity=99999999999999999999", "expected a size" },
		{ "--capacity=1\033[31m", "--capacity=1?[31m: expected" },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		struct capture c;
		char line[128], *argv[8];
		struct seen seen;
		int n = 0, code;

		snprintf(line, sizeof(line), "%s", cases[i].line);
		capture_begin(&c, stderr);
		code = parse(line, &seen, argv, &n);
		capture_end(&c, stderr);
		if (code != 2 || count_lines(c.text) != 1 || !strstr(c.text, cases[i].say))
			fail_msg("%s: code %d, said: %s", cases[i].line, code, c.text);
	}
}

static void test_a_long_unknown_option_is_refused(void **state)
{
	char line[4096], *argv[4];
	struct capture c;
	struct seen seen;
	int n = 0, code;

	(void)state;
	memset(line, 'x', sizeof(line) - 1);
	memcpy(line, "--", 2);
	line[sizeof(line) - 1] = '\0';
	capture_begin(&c, stderr);
	code = parse(line, &seen, argv, &n);
	capture_end(&c, stderr);
	assert_int_equal(code, 2);
	assert_int_equal(count_lines(c.text), 1);
}

static void test_help_and_version(void **state)
{
	char help[] = "--check --help --nonsense", version[] = "--version", *argv[8];
	struct capture c;
	struct seen seen;
	int n = 0, code;

	(void)state;
	capture_begin(&c, stdout);
	code = parse(help, &seen, argv, &n);
	capture_end(&c, stdout);
	assert_int_equal(code, 0);
	assert_non_null(strstr(c.text, "Usage: prog [OPTION]... FILE...\nDoes a thing.\n"));
	assert_non_null(strstr(c.text, "  --capacity=SIZE  memory\n"));
	assert_non_null(strstr(c.text, "  --json[=FILE]    document\n"));
	assert_non_null(strstr(c.text, "  --help           this text\n"));
	assert_non_null(strstr(c.text, "Examples:\n  prog --check x\n"));

	capture_begin(&c, stdout);
	code = parse(version, &seen, argv, &n);
	capture_end(&c, stdout);
	assert_int_equal(code, 0);
	assert_int_equal(strncmp(c.text, "prog (gpupool) " GP_VERSION "\n",
				 strlen("prog (gpupool) " GP_VERSION "\n")),
			 0);
}

static void test_count(void **state)
{
	static const char *const bad[] = { "",   "0",  "-1",  "+3",  " 3",
					   "3 ", "3x", "3.5", "101", "99999999999999999999999",
					   NULL };
	uint64_t out = 7;
	struct capture c;

	(void)state;
	assert_true(cli_count("n", "1", 1, 100, &out));
	assert_int_equal(out, 1);
	assert_true(cli_count("n", "100", 1, 100, &out));
	assert_int_equal(out, 100);
	for (size_t i = 0; i < GP_ARRAY_LEN(bad); i++) {
		bool ok;

		capture_begin(&c, stderr);
		ok = cli_count("n", bad[i], 1, 100, &out);
		capture_end(&c, stderr);
		if (ok || !strstr(c.text, "expected a whole number from 1 to 100"))
			fail_msg("'%s' taken as a count: %s", bad[i] ? bad[i] : "NULL", c.text);
	}
	assert_int_equal(out, 100);
}

static void test_real(void **state)
{
	static const char *const bad[] = { "", "nan", "inf", "-1", "1e9", "2x", " 2", NULL };
	double out = 7;
	struct capture c;

	(void)state;
	assert_true(cli_real("pace", "0.5", 0.001, 1000, &out));
	assert_true(out == 0.5);
	assert_true(cli_real("pace", ".25", 0.001, 1000, &out));
	assert_true(out == 0.25);
	for (size_t i = 0; i < GP_ARRAY_LEN(bad); i++) {
		bool ok;

		capture_begin(&c, stderr);
		ok = cli_real("pace", bad[i], 0.001, 1000, &out);
		capture_end(&c, stderr);
		if (ok || !strstr(c.text, "expected a number from 0.001 to 1000"))
			fail_msg("'%s' taken as a number: %s", bad[i] ? bad[i] : "NULL", c.text);
	}
	assert_true(out == 0.25);
}

static void test_choice(void **state)
{
	static const char *const choices[] = { "auto", "sim", "cuda", NULL };
	struct capture c;
	unsigned out = 9;
	bool ok;

	(void)state;
	assert_true(cli_choice("device", "cuda", choices, &out));
	assert_int_equal(out, 2);
	capture_begin(&c, stderr);
	ok = cli_choice("device", "cud", choices, &out);
	capture_end(&c, stderr);
	assert_false(ok);
	assert_int_equal(out, 2);
	assert_string_equal(c.text, "prog: --device=cud: expected auto, sim or cuda\n");
}

static void test_distance(void **state)
{
	(void)state;
	assert_int_equal(cli_distance("", ""), 0);
	assert_int_equal(cli_distance("buddy", "buddy"), 0);
	assert_int_equal(cli_distance("", "raw"), 3);
	assert_int_equal(cli_distance("raw", ""), 3);
	assert_int_equal(cli_distance("bduddy", "buddy"), 1);
	assert_int_equal(cli_distance("budy", "buddy"), 1);
	assert_int_equal(cli_distance("bdudy", "buddy"), 1);
	assert_int_equal(cli_distance("kitten", "sitting"), 3);
	assert_true(cli_is_near(1, 3));
	assert_false(cli_is_near(3, 3));
}

static void test_texts(void **state)
{
	static const struct {
		uint64_t n;
		const char *bytes, *number;
	} whole[] = {
		{ 0, "0 B", "0" },
		{ 999, "999 B", "999" },
		{ 1023, "1023 B", "1 023" },
		{ 1024, "1 KiB", "1 024" },
		{ 1536, "1.50 KiB", "1 536" },
		{ 1048575, "1.00 MiB", "1 048 575" },
		{ 2 * GP_MIB, "2 MiB", "2 097 152" },
		{ UINT64_C(9961472000), "9.28 GiB", "9 961 472 000" },
		{ UINT64_MAX, "16 EiB", "18 446 744 073 709 551 615" },
	};
	static const struct {
		double ns;
		const char *text;
	} times[] = {
		{ 0, "0 ns" },          { 12.44, "12.4 ns" }, { 25, "25 ns" },
		{ 999.4, "999 ns" },    { 999.6, "1.00 us" }, { 38572, "38.6 us" },
		{ 1294953, "1.29 ms" }, { 22e6, "22 ms" },    { 1.25e9, "1.25 s" },
		{ 75.31e9, "75.3 s" },  { 7200e9, "7200 s" },
	};
	char buf[32];

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(whole); i++) {
		assert_string_equal(cli_bytes(buf, whole[i].n), whole[i].bytes);
		assert_string_equal(cli_number(buf, whole[i].n), whole[i].number);
	}
	for (size_t i = 0; i < GP_ARRAY_LEN(times); i++)
		assert_string_equal(cli_time(buf, times[i].ns), times[i].text);
}

static void test_quiet_keeps_errors(void **state)
{
	struct capture c;

	(void)state;
	capture_begin(&c, stderr);
	cli_note("one");
	cli_set_quiet(true);
	cli_note("two");
	cli_error("three");
	cli_set_quiet(false);
	capture_end(&c, stderr);
	assert_string_equal(c.text, "prog: one\nprog: three\n");
}

/* No terminal here: the bar prints nothing, and files never carry colour. */
static void test_silent_without_terminal(void **state)
{
	struct capture c;

	(void)state;
	capture_begin(&c, stderr);
	assert_false(cli_colour(stderr));
	cli_progress("work", 0, 10);
	usleep(120000);
	cli_progress("work", 5, 10);
	cli_progress("work", 10, 10);
	capture_end(&c, stderr);
	assert_string_equal(c.text, "");
}

static void test_interrupt_sets_the_flag(void **state)
{
	const volatile sig_atomic_t *flag = cli_interrupted();

	(void)state;
	assert_int_equal(*flag, 0);
	raise(SIGINT);
	assert_int_equal(*flag, 1);
	signal(SIGINT, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_and_operands),
		cmocka_unit_test(test_optional_value_only_by_equals),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_a_long_unknown_option_is_refused),
		cmocka_unit_test(test_help_and_version),
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_real),
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_quiet_keeps_errors),
		cmocka_unit_test(test_silent_without_terminal),
		cmocka_unit_test(test_interrupt_sets_the_flag),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
