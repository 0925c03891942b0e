/* SPDX-License-Identifier: Apache-2.0
 *
 * test_report: the result document (its keys are an interface), the files beside it, their names,
 * and the table, all from runs made by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "replay/report.h"
#include "tools/replay_table.h"

#define N_RUNS 3

/* Three runs of a small trace: one good, one that failed requests, one that broke. */
struct fixture {
	struct gp_trace trace;
	struct gp_environment environment;
	struct gp_run *runs[N_RUNS];
	struct gp_report report;
	char folder[64];
};

static char *copy(const char *s)
{
	char *c = strdup(s);

	assert_non_null(c);
	return c;
}

static struct gp_run *make_run(const char *spec, const char *allocator, uint64_t ns)
{
	struct gp_run *run = calloc(1, sizeof(*run));

	assert_non_null(run);
	run->spec = copy(spec);
	run->label = copy(allocator);
	run->allocator = allocator;
	run->device = "sim";
	run->memory.load = 1000 * GP_MIB;
	run->memory.peak_granted = 1024 * GP_MIB;
	run->memory.peak_reserved = 1250 * GP_MIB;
	run->memory.utilization = 0.8;
	run->memory.overhead = 0.25;
	run->fragmentation.internal_at_peak = 0.1;
	run->driver.allocs = 7;
	run->driver.time_ns = 350000;
	run->throughput.ops = 40;
	run->throughput.ns_per_op = (double)ns;
	run->throughput.ops_per_s = 1e9 / (double)ns;
	gp_hist_init(&run->alloc_ns);
	gp_hist_init(&run->free_ns);
	gp_hist_init(&run->lateness_ns);
	gp_hist_init(&run->response_alloc_ns);
	gp_hist_init(&run->response_free_ns);
	for (uint64_t i = 1; i <= 20; i++)
		gp_hist_record(&run->alloc_ns, ns * i);
	return run;
}

static void give_options(struct gp_run *run)
{
	run->options = calloc(1, sizeof(*run->options));
	assert_non_null(run->options);
	run->options[0].name = "min_block";
	snprintf(run->options[0].value, sizeof(run->options[0].value), "512");
	run->n_options = 1;
}

static void give_windows(struct gp_run *run)
{
	run->windows = calloc(2, sizeof(*run->windows));
	assert_non_null(run->windows);
	run->n_windows = 2;
	run->windows[0] = (struct gp_window){
		.first_event = 0, .last_event = 9, .t_ns = 90,
		.requested = { 1, 3, 2 }, .granted = { 4, 6, 5 }, .reserved = { 7, 9, 8 },
		.internal = { 0, 0.5, 0.25 }, .external = { 0, 1, 0.125 },
		.external_sq = { 0, 0.75, 1.0 / 3 },
	};
	run->windows[1] = run->windows[0];
	run->windows[1].first_event = 10;
	run->windows[1].last_event = 39;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->trace.name = copy("tiny");
	f->trace.path = copy("dir/tiny.json.gz");
	f->trace.n_events = 40;
	f->trace.n_allocs = 20;
	f->trace.n_frees = 20;
	f->trace.n_streams = 2;
	f->trace.n_threads = 1;
	f->trace.load_bytes = 1000 * GP_MIB;
	snprintf(f->environment.date, sizeof(f->environment.date), "2025-01-31T17:45:00Z");
	snprintf(f->environment.device.name, sizeof(f->environment.device.name), "a device");
	f->environment.device.total_bytes = 141 * GP_GIB;
	f->environment.device.simulated = true;
	f->environment.build = "release";
	f->environment.timer_overhead_ns = 12.5;
	f->runs[0] = make_run("buddy:min_block=512", "buddy", 10);
	give_options(f->runs[0]);
	give_windows(f->runs[0]);
	f->runs[1] = make_run("buddy", "buddy", 5);
	f->runs[1]->failures.count = 3;
	f->runs[1]->failures.first_event = 17;
	f->runs[1]->failures.bytes = 3 * GP_MIB;
	f->runs[1]->failures.reasons[GP_REASON_FRAGMENTED] = 3;
	f->runs[2] = make_run("raw", "raw", 50000);
	f->runs[2]->status = GP_STATUS_ERROR;
	snprintf(f->runs[2]->why, sizeof(f->runs[2]->why), "event 3: block overlaps");
	f->report = (struct gp_report){
		.trace = &f->trace,
		.environment = &f->environment,
		.runs = f->runs,
		.n_runs = N_RUNS,
	};
	assert_int_equal(gp_report_label(f->runs, N_RUNS), 0);
	snprintf(f->folder, sizeof(f->folder), "/tmp/gpupool-report-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	*state = f;
	return 0;
}

static void empty_folder(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512];

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	empty_folder(f->folder);
	for (size_t i = 0; i < N_RUNS; i++)
		gp_run_destroy(f->runs[i]);
	free(f->trace.name);
	free(f->trace.path);
	free(f);
	return 0;
}

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
		"gpupool", "schema", "environment", "trace.name", "trace.path", "trace.events",
		"trace.allocs", "trace.frees", "trace.load_bytes", "trace.streams", "trace.threads",
		"runs", "run.allocator", "run.options", "run.device", "run.status",
		"run.memory.load_bytes", "run.memory.peak_granted_bytes",
		"run.memory.peak_reserved_bytes", "run.memory.end_reserved_bytes",
		"run.memory.utilization", "run.memory.overhead",
		"run.fragmentation.internal_at_peak", "run.fragmentation.internal_mean",
		"run.fragmentation.external_at_peak", "run.fragmentation.external_mean",
		"run.fragmentation.external_sq_at_peak", "run.failures.count",
		"run.failures.first_event", "run.failures.bytes", "run.failures.reasons",
		"run.driver.allocs", "run.driver.frees", "run.driver.maps", "run.driver.unmaps",
		"run.driver.syncs", "run.driver.event_waits", "run.driver.time_ns",
		"run.latency_ns.alloc.count", "run.latency_ns.alloc.mean",
		"run.latency_ns.alloc.p50", "run.latency_ns.alloc.p90", "run.latency_ns.alloc.p99",
		"run.latency_ns.alloc.p99_9", "run.latency_ns.alloc.p99_99",
		"run.latency_ns.alloc.max", "run.latency_ns.free.count", "run.latency_ns.free.max",
		"run.throughput.ops", "run.throughput.ns_per_op", "run.throughput.ns_per_op_min",
		"run.throughput.ns_per_op_max", "run.throughput.ops_per_s",
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
							    "fragmented")), 3);
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
	assert_int_equal(json_integer_value(json_object_get(json_object_get(run, "lateness_ns"),
							    "max")), 9);
	assert_non_null(json_object_get(json_object_get(run, "response_ns"), "free"));
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
	f->report.partial = true;
	f->report.n_runs = 0;
	f->trace.skipped[GP_SKIP_TAIL] = 2;
	document = load_document(&f->report);
	assert_true(json_is_true(json_object_get(document, "partial")));
	assert_int_equal(json_array_size(json_object_get(document, "runs")), 0);
	assert_int_equal(json_object_size(json_object_get(json_object_get(document, "trace"),
							  "skipped")), 1);
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

static void test_save(void **state)
{
	struct fixture *f = *state;
	char why[256] = "", text[16384], *json = gp_report_json(&f->report, false);

	assert_non_null(json);
	assert_int_equal(gp_report_save(&f->report, f->folder, why, sizeof(why)), 0);
	assert_int_equal(count_files(f->folder), 1 + 3 * N_RUNS);
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
	assert_int_equal(count_files(f->folder), 1 + 3 * N_RUNS);
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

/* ---- the table ---- */

static void print_table(const struct fixture *f, bool colour, char *text, size_t size)
{
	FILE *file = tmpfile();
	size_t n;

	assert_non_null(file);
	replay_table_print(file, &f->report, colour);
	rewind(file);
	n = fread(text, 1, size - 1, file);
	text[n] = '\0';
	fclose(file);
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
	assert_string_equal(line,
			    "tiny: 40 events, load 1000 MiB, on a device with 141 GiB");
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

static void test_table_without_runs(void **state)
{
	struct fixture *f = *state;
	char text[8192], line[256];

	f->report.n_runs = 0;
	f->report.partial = true;
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_keys_of_the_contract),
		TEST(test_values),
		TEST(test_paced_runs_have_more),
		TEST(test_hostile_content_is_still_json),
		TEST(test_one_line_documents),
		TEST(test_partial_and_skipped),
		TEST(test_labels_are_unique),
		TEST(test_trace_names),
		TEST(test_long_trace_names_are_cut),
		TEST(test_curve),
		TEST(test_save),
		TEST(test_save_all_or_nothing),
		TEST(test_save_where_no_folder_can_be),
		TEST(test_table),
		TEST(test_marks),
		TEST(test_table_without_runs),
		TEST(test_nobody_kept_the_job_alive),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
