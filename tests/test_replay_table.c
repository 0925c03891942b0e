/* SPDX-License-Identifier: Apache-2.0
 *
 * test_replay_table: the table of gpupool-replay, from runs made by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "report_fixture.h"
#include "tools/replay_mirror.h"
#include "tools/replay_table.h"

static void print_columns(const struct fixture *f, bool colour, unsigned n_columns, char *text,
			  size_t size)
{
	FILE *file = tmpfile();
	size_t n;

	assert_non_null(file);
	replay_table_print(file, &f->report, colour, n_columns);
	rewind(file);
	n = fread(text, 1, size - 1, file);
	text[n] = '\0';
	fclose(file);
}

static void print_table(const struct fixture *f, bool colour, char *text, size_t size)
{
	print_columns(f, colour, 0, text, size);
}

/* The line that starts with `start`, up to its end. */
static void find_line(const char *text, const char *start, char *line, size_t size)
{
	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, start, strlen(start)) == 0) {
			snprintf(line, size, "%.*s", (int)strcspn(p, "\n"), p);
			return;
		}
	}
	fail_msg("no line starts with '%s' in:\n%s", start, text);
}

static void test_table(void **state)
{
	struct fixture *f = *state;
	char text[8192], line[256];

	print_table(f, false, text, sizeof(text));
	assert_null(strchr(text, '\033'));
	find_line(text, "tiny: ", line, sizeof(line));
	assert_string_equal(line, "tiny: 40 events, load 1000 MiB, on a device with 141 GiB");
	find_line(text, "buddy ", line, sizeof(line));
	assert_non_null(strstr(line, "1.22 GiB"));
	assert_non_null(strstr(line, "+25.0 %"));
	assert_non_null(strstr(line, "10.0 %"));
	find_line(text, "  buddy ", line, sizeof(line));
	assert_string_equal(line, "  buddy      buddy:min_block=512");
	find_line(text, "raw ", line, sizeof(line));
	assert_string_equal(line + strlen(line) - 5, "error");
	assert_null(strstr(line, "GiB"));
	find_line(text, "  raw ", line, sizeof(line));
	assert_string_equal(line, "  raw        event 3: block overlaps");
	assert_non_null(strstr(text, "  buddy-2    3 (3 MiB), first at event 17: 3 fragmented\n"));
	assert_non_null(strstr(text, "Would have kept the job alive: buddy\n"));
	assert_non_null(strstr(text, "modelled"));
}

/* The mark goes to the best of those that served everything; with one such there is none. */
static void test_marks(void **state)
{
	struct fixture *f = *state;
	char text[8192], line[512];

	print_table(f, false, text, sizeof(text));
	find_line(text, "buddy ", line, sizeof(line));
	assert_null(strchr(line, '*'));

	f->runs[1]->failures.count = 0;
	print_table(f, false, text, sizeof(text));
	find_line(text, "buddy-2 ", line, sizeof(line));
	assert_non_null(strstr(line, "5 ns*"));
	assert_null(strstr(line, "GiB*")); /* both hold the same */
	find_line(text, "buddy ", line, sizeof(line));
	assert_null(strchr(line, '*'));

	print_table(f, true, text, sizeof(text));
	assert_non_null(strstr(text, "\033[1;32m5 ns\033[0m*"));
}

/* The same with the GPU: who is off, and by what. */
static void test_mirror(void **state)
{
	struct fixture *f = *state;
	struct gp_mirror m;
	char text[4096] = "", line[256];
	FILE *file = tmpfile();

	assert_non_null(file);
	f->runs[0]->calls[GP_CALL_MAP] = (struct gp_call_use){ 12, 2e6 };
	f->runs[1]->calls[GP_CALL_MAP] = (struct gp_call_use){ 12, 1e6 };
	f->runs[1]->calls[GP_CALL_CREATE] = (struct gp_call_use){ 3, 1e5 };
	gp_mirror_compare(f->runs[0], f->runs[1], &m);
	f->report.mirrors = &m;
	f->report.n_mirrors = 1;
	replay_mirror_print(file, &f->report, true);
	rewind(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	assert_non_null(strstr(text, ": 40 events, load 1000 MiB, on a device and simulated\n"));
	find_line(text, "buddy ", line, sizeof(line));
	/* No window is compared, but one of the two failed requests. */
	assert_string_equal(line, "buddy      1.22 GiB   \033[1;31m1.22 GiB\033[0m   12         15"
				  "  2 ms    1.10 ms   0.55  map   2 ms       1 ms   0.50");
	find_line(text, "  buddy ", line, sizeof(line));
	assert_string_equal(line, "  buddy      0 requests failed on the GPU, 3 simulated; "
				  "\033[1;31mmust be the same\033[0m");
	find_line(text, "  raw ", line, sizeof(line));
	assert_non_null(strstr(line, "block overlaps"));
}

static void test_table_without_runs(void **state)
{
	struct fixture *f = *state;
	char text[8192], line[256];

	f->report.n_runs = 0;
	f->report.partial = "interrupted";
	print_table(f, false, text, sizeof(text));
	find_line(text, "tiny: ", line, sizeof(line));
	assert_non_null(strstr(line, "partial"));
}

static void test_nobody_kept_the_job_alive(void **state)
{
	struct fixture *f = *state;
	char text[8192];

	f->runs[0]->failures = f->runs[1]->failures;
	print_table(f, false, text, sizeof(text));
	assert_non_null(strstr(text, "Would have kept the job alive: none of these\n"));
}

static void test_hint_quotes_what_a_shell_would_split(void **state)
{
	char text[256];
	FILE *file = tmpfile();
	size_t n;

	(void)state;
	assert_non_null(file);
	replay_table_hint(file, "a/b");
	replay_table_hint(file, "a b");
	rewind(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	assert_string_equal(text, "Results: a/b   Pictures: gpupool-plot a/b\n"
				  "Results: 'a b'   Pictures: gpupool-plot 'a b'\n");
}

/* A time that a decorator is part of must not be taken for the allocator's. */
static void test_settings_are_told(void **state)
{
	static const char *const wraps[] = { "check", "fault:nth=9" };
	struct gp_engine_config config = { .threads = 4, .wraps = wraps, .n_wraps = 2 };
	struct fixture *f = *state;
	char text[8192], line[256];

	f->report.config = &config;
	print_table(f, false, text, sizeof(text));
	find_line(text, "tiny: ", line, sizeof(line));
	assert_non_null(strstr(line, ", 4 threads; times include: check, fault:nth=9"));
}

/* Groups go one after the other, and no sooner than they have to. */
static void test_narrow_terminals(void **state)
{
	static const char *const groups[] = { " device -", " own -", " lost -", " memory -" };
	struct fixture *f = *state;
	char text[8192], line[512];
	unsigned width;

	print_columns(f, false, 0, text, sizeof(text));
	find_line(text, "raw ", line, sizeof(line));
	width = (unsigned)strlen(line) + 1; /* "status" is longer than "error" */
	for (unsigned hidden = 0; hidden < 4; hidden++) {
		print_columns(f, false, width, text, sizeof(text));
		for (unsigned k = 0; k < 4; k++)
			assert_int_equal(strstr(text, groups[k]) == NULL, k < hidden);
		assert_int_equal(strstr(text, "Too narrow for: device") != NULL, hidden > 0);
		find_line(text, "raw ", line, sizeof(line));
		assert_true(strlen(line) <= width);
		assert_string_equal(line + strlen(line) - 5, "error");
		width = (unsigned)strlen(line);
	}
	print_columns(f, false, 1, text, sizeof(text));
	assert_non_null(strstr(text, " memory -"));
}

/* A time below the clock's step is no time, and all such are alike. */
static void test_below_the_clock(void **state)
{
	struct fixture *f = *state;
	char text[8192], line[512];

	print_table(f, false, text, sizeof(text));
	find_line(text, "buddy-2 ", line, sizeof(line));
	assert_non_null(strstr(line, " 50 ns"));
	f->environment.timer_step_ns = 59.8;
	print_table(f, false, text, sizeof(text));
	find_line(text, "buddy-2 ", line, sizeof(line));
	assert_non_null(strstr(line, " <60 ns"));
	assert_null(strstr(line, " 50 ns"));
	find_line(text, "buddy ", line, sizeof(line));
	assert_non_null(strstr(line, " 100 ns"));
}

/* Columns of their own, for a replay with work for the device. */
static void test_stalls_are_shown(void **state)
{
	struct gp_engine_config config = { .work = { GP_WORK_BUSY, 1500 } };
	struct fixture *f = *state;
	struct gp_run_work *work = calloc(1, sizeof(*work));
	char text[8192], line[512];

	print_table(f, false, text, sizeof(text));
	assert_null(strstr(text, "stalled"));
	assert_non_null(work);
	f->runs[0]->work = work;
	for (unsigned i = 0; i < GP_METERED_N; i++) {
		gp_hist_init(&work->stall_ns[i]);
		gp_hist_init(&work->idle_ns[i]);
		gp_hist_record(&work->stall_ns[i], 2000000);
		gp_hist_record(&work->idle_ns[i], 11000);
	}
	f->report.config = &config;
	print_table(f, false, text, sizeof(text));
	find_line(text, "tiny: ", line, sizeof(line));
	assert_non_null(strstr(line, ", with work: busy:1.5"));
	find_line(text, "buddy ", line, sizeof(line));
	assert_non_null(strstr(line, " 6 ms "));
	assert_non_null(strstr(line, " 2 ms "));
	assert_non_null(strstr(line, " 33 us "));
	assert_non_null(strstr(text, "- stalled -"));
}

/* Threads wait for each other, and the simulated driver's time is in no call then. */
static void test_threads_are_explained(void **state)
{
	struct gp_engine_config config = { .threads = 2 };
	struct fixture *f = *state;
	char text[8192];

	print_table(f, false, text, sizeof(text));
	assert_null(strstr(text, "waiting for"));
	f->report.config = &config;
	print_table(f, false, text, sizeof(text));
	assert_non_null(strstr(text, "waiting for\nother threads counts"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_table),
		TEST(test_marks),
		TEST(test_mirror),
		TEST(test_table_without_runs),
		TEST(test_nobody_kept_the_job_alive),
		TEST(test_hint_quotes_what_a_shell_would_split),
		TEST(test_settings_are_told),
		TEST(test_narrow_terminals),
		TEST(test_below_the_clock),
		TEST(test_stalls_are_shown),
		TEST(test_threads_are_explained),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
