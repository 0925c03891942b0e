/* SPDX-License-Identifier: Apache-2.0
 *
 * test_report: the result document (its keys are an interface), the files beside it and their
 * names, all from runs made by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "report_fixture.h"

static json_t *load_document(const struct gp_report *report)
{
	char *text = gp_report_json(report, false);
	json_error_t error;
	json_t *document;

	assert_non_null(text);
	assert_int_equal(text[strlen(text) - 1], '\n');
	document = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	if (!document)
		fail_msg("not JSON: line %d: %s", error.line, error.text);
	free(text);
	return document;
}

/* ---- the document ---- */

/* Every key of the contract is there, and "." leads to it. */
static void test_keys_of_the_contract(void **state)
{
	static const char *const keys[] = {
		"gpupool",
		"schema",
		"environment",
		"trace.name",
		"trace.path",
		"trace.events",
		"trace.allocs",
		"trace.frees",
		"trace.load_bytes",
		"trace.streams",
		"trace.threads",
		"runs",
		"run.allocator",
		"run.options",
		"run.device",
		"run.status",
		"run.memory.load_bytes",
		"run.memory.peak_granted_bytes",
		"run.memory.peak_reserved_bytes",
		"run.memory.end_reserved_bytes",
		"run.memory.utilization",
		"run.memory.overhead",
		"run.fragmentation.internal_at_peak",
		"run.fragmentation.internal_mean",
		"run.fragmentation.external_at_peak",
		"run.fragmentation.external_mean",
		"run.fragmentation.external_sq_at_peak",
		"run.failures.count",
		"run.failures.first_event",
		"run.failures.bytes",
		"run.failures.reasons",
		"run.driver.allocs",
		"run.driver.frees",
		"run.driver.maps",
		"run.driver.unmaps",
		"run.driver.syncs",
		"run.driver.event_waits",
		"run.driver.time_ns",
		"run.latency_ns.alloc.count",
		"run.latency_ns.alloc.mean",
		"run.latency_ns.alloc.p50",
		"run.latency_ns.alloc.p90",
		"run.latency_ns.alloc.p99",
		"run.latency_ns.alloc.p99_9",
		"run.latency_ns.alloc.p99_99",
		"run.latency_ns.alloc.max",
		"run.latency_ns.free.count",
		"run.latency_ns.free.max",
		"run.throughput.ops",
		"run.throughput.ns_per_op",
		"run.throughput.ns_per_op_min",
		"run.throughput.ns_per_op_max",
		"run.throughput.ops_per_s",
	};
	struct fixture *f = *state;
	json_t *document = load_document(&f->report);
	json_t *run = json_array_get(json_object_get(document, "runs"), 0);

	for (size_t i = 0; i < GP_ARRAY_LEN(keys); i++) {
		char path[128], *rest = path;
		json_t *at = document;

		snprintf(path, sizeof(path), "%s", keys[i]);
		for (char *key = strtok_r(path, ".", &rest); key && at;
		     key = strtok_r(NULL, ".", &rest))
			at = strcmp(key, "run") == 0 ? run : json_object_get(at, key);
		if (!at)
			fail_msg("%s is missing", keys[i]);
	}
	assert_int_equal(json_integer_value(json_object_get(document, "schema")), 1);
	assert_int_equal(json_array_size(json_object_get(document, "runs")), N_RUNS);
	json_decref(document);
}

static const char *string_at(json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	assert_non_null(s);
	return s;
}

static void test_values(void **state)
{
	struct fixture *f = *state;
	json_t *document = load_document(&f->report), *runs, *run, *failures, *alloc;

	runs = json_object_get(document, "runs");
	run = json_array_get(runs, 0);
	assert_string_equal(string_at(run, "allocator"), "buddy");
	assert_string_equal(string_at(run, "spec"), "buddy:min_block=512");
	assert_string_equal(string_at(run, "status"), "ok");
	assert_string_equal(string_at(json_object_get(run, "options"), "min_block"), "512");
	assert_string_equal(string_at(json_object_get(run, "files"), "curve"), "buddy.curve.tsv");
	assert_string_equal(string_at(json_object_get(run, "driver"), "time_source"), "modelled");
	assert_true(fabs(json_number_value(json_object_get(json_object_get(run, "driver"),
							   "calls_per_1000_ops")) -
			 1000.0 * 7 / 40) < 1e-9);
	failures = json_object_get(run, "failures");
	assert_true(json_is_null(json_object_get(failures, "first_event")));
	alloc = json_object_get(json_object_get(run, "latency_ns"), "alloc");
	assert_int_equal(json_integer_value(json_object_get(alloc, "count")), 20);
	assert_int_equal(json_integer_value(json_object_get(alloc, "p50")), 100);
	assert_int_equal(json_integer_value(json_object_get(alloc, "max")), 200);
	assert_null(json_object_get(run, "why"));
	assert_null(json_object_get(run, "response_ns"));

	failures = json_object_get(json_array_get(runs, 1), "failures");
	assert_int_equal(json_integer_value(json_object_get(failures, "first_event")), 17);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(failures, "reasons"),
							    "fragmented")),
			 3);
	run = json_array_get(runs, 2);
	assert_string_equal(string_at(run, "status"), "error");
	assert_string_equal(string_at(run, "why"), "event 3: block overlaps");
	json_decref(document);
}

static void test_paced_runs_have_more(void **state)
{
	struct fixture *f = *state;
	json_t *document, *run;

	f->runs[0]->paced = true;
	gp_hist_record(&f->runs[0]->lateness_ns, 9);
	document = load_document(&f->report);
	run = json_array_get(json_object_get(document, "runs"), 0);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(run, "lateness_ns"), "max")), 9);
	assert_non_null(json_object_get(json_object_get(run, "response_ns"), "free"));
	json_decref(document);
}

static struct gp_run_work *make_work(void)
{
	struct gp_run_work *work = calloc(1, sizeof(*work));

	assert_non_null(work);
	work->work = (struct gp_work){ GP_WORK_BUSY, 1500 };
	work->n_pieces = 20;
	for (unsigned i = 0; i < GP_METERED_N; i++) {
		gp_hist_init(&work->stall_ns[i]);
		gp_hist_init(&work->idle_ns[i]);
	}
	gp_hist_record(&work->stall_ns[GP_METERED_FREE], 700);
	gp_hist_record(&work->stall_ns[GP_METERED_FREE], 0);
	gp_hist_record(&work->idle_ns[GP_METERED_TRIM], 30);
	return work;
}

static void test_runs_with_work_have_more(void **state)
{
	struct fixture *f = *state;
	json_t *document, *run, *work, *stall;

	f->runs[0]->work = make_work();
	document = load_document(&f->report);
	run = json_array_get(json_object_get(document, "runs"), 0);
	work = json_object_get(run, "work");
	assert_string_equal(string_at(work, "kind"), "busy");
	assert_true(json_number_value(json_object_get(work, "us")) == 1.5);
	assert_int_equal(json_integer_value(json_object_get(work, "pieces")), 20);
	stall = json_object_get(json_object_get(run, "stall_ns"), "free");
	assert_int_equal(json_integer_value(json_object_get(stall, "total")), 700);
	assert_int_equal(json_integer_value(json_object_get(stall, "count")), 2);
	assert_int_equal(json_integer_value(json_object_get(stall, "p50")), 0);
	stall = json_object_get(json_object_get(run, "device_idle_ns"), "trim");
	assert_int_equal(json_integer_value(json_object_get(stall, "max")), 30);
	run = json_array_get(json_object_get(document, "runs"), 1);
	assert_null(json_object_get(run, "work"));
	assert_null(json_object_get(run, "stall_ns"));
	json_decref(document);
}

/* File names and traces may hold any byte, figures may be no number: still JSON. */
static void test_hostile_content_is_still_json(void **state)
{
	struct fixture *f = *state;
	json_t *document, *run;

	free(f->trace.path);
	f->trace.path = copy("caf\xe9/\"\\\n\x01.json");
	f->runs[0]->throughput.ns_per_op = NAN;
	f->runs[0]->throughput.ops_per_s = INFINITY;
	f->runs[0]->failures.bytes = UINT64_MAX;
	document = load_document(&f->report);
	assert_string_equal(string_at(json_object_get(document, "trace"), "path"),
			    "caf?/\"\\\n\x01.json");
	run = json_object_get(json_array_get(json_object_get(document, "runs"), 0), "throughput");
	assert_true(json_is_null(json_object_get(run, "ns_per_op")));
	assert_true(json_is_null(json_object_get(run, "ops_per_s")));
	json_decref(document);
}

static void test_one_line_documents(void **state)
{
	struct fixture *f = *state;
	char *text = gp_report_json(&f->report, true);

	assert_non_null(text);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	free(text);
}

static void test_partial_and_skipped(void **state)
{
	struct fixture *f = *state;
	json_t *document;

	document = load_document(&f->report);
	assert_true(json_is_false(json_object_get(document, "partial")));
	assert_null(json_object_get(json_object_get(document, "trace"), "skipped"));
	json_decref(document);
	f->report.partial = "interrupted";
	f->report.n_runs = 0;
	f->trace.skipped[GP_SKIP_TAIL] = 2;
	document = load_document(&f->report);
	assert_true(json_is_true(json_object_get(document, "partial")));
	assert_int_equal(json_array_size(json_object_get(document, "runs")), 0);
	assert_int_equal(
		json_object_size(json_object_get(json_object_get(document, "trace"), "skipped")),
		1);
	json_decref(document);
}

/* ---- names ---- */

static void test_labels_are_unique(void **state)
{
	struct fixture *f = *state;

	assert_string_equal(f->runs[0]->label, "buddy");
	assert_string_equal(f->runs[1]->label, "buddy-2");
	assert_string_equal(f->runs[2]->label, "raw");
}

/* Runs that differ in their threads make a series. */
static void test_labels_count_threads(void **state)
{
	static const char *const labels[] = { "buddy-t1", "buddy-t16", "buddy-2-t1" };
	struct fixture *f = *state;

	for (size_t i = 0; i < N_RUNS; i++) {
		free(f->runs[i]->spec);
		f->runs[i]->spec = copy("buddy");
		f->runs[i]->allocator = "buddy";
		f->runs[i]->threads = i == 1 ? 16 : 1;
		f->runs[i]->throughput.ops_per_s = i == 1 ? 800 : 100;
	}
	assert_int_equal(gp_report_label(f->runs, N_RUNS), 0);
	for (size_t i = 0; i < N_RUNS; i++)
		assert_string_equal(f->runs[i]->label, labels[i]);
	assert_string_equal(f->runs[1]->series, "buddy");
	assert_true(gp_report_speedup(&f->report, f->runs[1]) == 8);
	f->runs[0]->threads = 2;
	assert_true(isnan(gp_report_speedup(&f->report, f->runs[1])));
}

static void test_trace_names(void **state)
{
	static const struct {
		const char *name, *path, *shown, *stem;
	} cases[] = {
		{ "llm", "x/y.json", "llm", "llm" },
		{ "", "x/y.json", "y", "y" },
		{ "", "x/y.default.json.gz", "y.default", "y.default" },
		{ "", "y", "y", "y" },
		{ "", "-", "stdin", "stdin" },
		{ "", "dir/.json", ".json", "json" },
		{ "", "dir/", "trace", "trace" },
		{ "", "...", "..", "trace" },
		{ "..", "a", "..", "trace" },
		{ "../../etc/passwd", "a", "../../etc/passwd", "-..-etc-passwd" },
		{ "a b\n\033[31m\xc3\xa9", "a", "a b\n\033[31m\xc3\xa9", "a-b---31m--" },
	};
	char buf[128];

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		struct gp_trace t = { .name = copy(cases[i].name), .path = copy(cases[i].path) };

		assert_string_equal(gp_report_trace_name(&t, buf, sizeof(buf)), cases[i].shown);
		assert_string_equal(gp_report_trace_stem(&t, buf, sizeof(buf)), cases[i].stem);
		free(t.name);
		free(t.path);
	}
}

static void test_long_trace_names_are_cut(void **state)
{
	struct gp_trace t = { .path = copy("a") };
	char buf[128];

	(void)state;
	t.name = malloc(5001);
	assert_non_null(t.name);
	memset(t.name, 'n', 5000);
	t.name[5000] = '\0';
	assert_int_equal(strlen(gp_report_trace_stem(&t, buf, sizeof(buf))), 100);
	free(t.name);
	free(t.path);
}

/* ---- files ---- */

static void read_file(const struct fixture *f, const char *name, char *text, size_t size)
{
	char path[256];
	size_t n;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", f->folder, name);
	file = fopen(path, "r");
	if (!file)
		fail_msg("%s is missing", path);
	n = fread(text, 1, size - 1, file);
	text[n] = '\0';
	fclose(file);
}

static unsigned count_files(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void test_curve(void **state)
{
	struct fixture *f = *state;
	FILE *file = tmpfile();
	char text[2048];
	size_t n;

	assert_non_null(file);
	assert_int_equal(gp_report_write_curve(f->runs[0], file), 0);
	rewind(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	assert_string_equal(
		text,
		"first_event\tlast_event\tt_ns\trequested_min\trequested_max\trequested_last"
		"\tgranted_min\tgranted_max\tgranted_last\treserved_min\treserved_max"
		"\treserved_last\tinternal_min\tinternal_max\tinternal_last\texternal_min"
		"\texternal_max\texternal_last\texternal_sq_min\texternal_sq_max"
		"\texternal_sq_last\n"
		"0\t9\t90\t1\t3\t2\t4\t6\t5\t7\t9\t8\t0.000000\t0.500000\t0.250000\t0.000000"
		"\t1.000000\t0.125000\t0.000000\t0.750000\t0.333333\n"
		"10\t39\t90\t1\t3\t2\t4\t6\t5\t7\t9\t8\t0.000000\t0.500000\t0.250000\t0.000000"
		"\t1.000000\t0.125000\t0.000000\t0.750000\t0.333333\n");
}

static void test_summary(void **state)
{
	struct fixture *f = *state;
	FILE *file = tmpfile();
	char line[1024];
	unsigned n_tabs[N_RUNS + 1] = { 0 };

	assert_non_null(file);
	free(f->trace.name);
	f->trace.name = copy("a\tb\n\"c\"");
	f->runs[0]->throughput.device_ns_per_op = 2.5;
	f->runs[0]->work = make_work();
	assert_int_equal(gp_report_write_summary(&f->report, file), 0);
	rewind(file);
	for (unsigned i = 0; i < N_RUNS + 1; i++) {
		assert_non_null(fgets(line, sizeof(line), file));
		for (const char *p = line; *p; p++)
			n_tabs[i] += *p == '\t';
		assert_int_equal(n_tabs[i], n_tabs[0]);
		if (i == 0)
			assert_int_equal(strncmp(line, "trace\tdevice\tlabel\tstatus\t", 26), 0);
		else
			assert_int_equal(strncmp(line, "a?b?'c'\t", 8), 0);
		if (i == 1)
			assert_non_null(strstr(
				line, "\t2.500\tbusy:1.5\t0\t700\t0\t700\t0\t0\t30\tbuddy\t0\t"
				      "100000000\t"));
		if (i == 2)
			assert_non_null(strstr(line, "\tnone\t0\t0\t0\t0\t0\t0\t0\tbuddy-2\t"));
	}
	assert_null(fgets(line, sizeof(line), file));
	fclose(file);
}

static void test_save(void **state)
{
	struct fixture *f = *state;
	char why[256] = "", text[16384], *json = gp_report_json(&f->report, false);

	assert_non_null(json);
	assert_int_equal(gp_report_save(&f->report, f->folder, why, sizeof(why)), 0);
	assert_int_equal(count_files(f->folder), 2 + 3 * N_RUNS);
	read_file(f, "result.json", text, sizeof(text));
	assert_string_equal(text, json);
	read_file(f, "buddy.curve.tsv", text, sizeof(text));
	assert_int_equal(strncmp(text, "first_event\t", 12), 0);
	read_file(f, "buddy-2.alloc.hgrm", text, sizeof(text));
	assert_non_null(strstr(text, "Percentile"));
	read_file(f, "raw.free.hgrm", text, sizeof(text));
	free(json);
}

/* With no room for the files, those of an earlier result stay, and nothing else is there. */
static void test_save_all_or_nothing(void **state)
{
	struct rlimit old, small;
	struct fixture *f = *state;
	char why[256] = "", before[16384], after[16384];
	int r;

	assert_int_equal(gp_report_save(&f->report, f->folder, why, sizeof(why)), 0);
	read_file(f, "result.json", before, sizeof(before));
	f->trace.n_events = 41;
	f->runs[0]->windows[0].t_ns = 1;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	/* Room for the curves and histograms, not for the document, which comes last. */
	small = (struct rlimit){ 4000, old.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	r = gp_report_save(&f->report, f->folder, why, sizeof(why));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(r, -EFBIG);
	assert_non_null(strstr(why, "result.json: File too large; no result was saved"));
	assert_int_equal(count_files(f->folder), 2 + 3 * N_RUNS);
	read_file(f, "result.json", after, sizeof(after));
	assert_string_equal(before, after);
	read_file(f, "buddy.curve.tsv", after, sizeof(after));
	assert_non_null(strstr(after, "0\t9\t90\t"));
}

static void test_save_where_no_folder_can_be(void **state)
{
	struct fixture *f = *state;
	char why[256] = "", dir[256];
	FILE *file;

	snprintf(dir, sizeof(dir), "%s/file", f->folder);
	file = fopen(dir, "w");
	assert_non_null(file);
	fclose(file);
	snprintf(dir, sizeof(dir), "%s/file/sub", f->folder);
	assert_int_equal(gp_report_save(&f->report, dir, why, sizeof(why)), -ENOTDIR);
	assert_non_null(strstr(why, "file/sub: cannot write here: Not a directory"));
	assert_int_equal(count_files(f->folder), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_keys_of_the_contract),
		TEST(test_values),
		TEST(test_paced_runs_have_more),
		TEST(test_runs_with_work_have_more),
		TEST(test_hostile_content_is_still_json),
		TEST(test_one_line_documents),
		TEST(test_partial_and_skipped),
		TEST(test_labels_are_unique),
		TEST(test_labels_count_threads),
		TEST(test_trace_names),
		TEST(test_long_trace_names_are_cut),
		TEST(test_curve),
		TEST(test_summary),
		TEST(test_save),
		TEST(test_save_all_or_nothing),
		TEST(test_save_where_no_folder_can_be),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
