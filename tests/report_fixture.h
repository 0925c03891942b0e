/* SPDX-License-Identifier: Apache-2.0
 *
 * report_fixture: a report made by hand, for the tests of what is written and printed about it.
 *
 * Include after cmocka.h.
 */
#ifndef TESTS_REPORT_FIXTURE_H
#define TESTS_REPORT_FIXTURE_H

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/report.h"

#define N_RUNS 3

/* Three runs of a small trace: one good, one that failed requests, one that broke. */
struct fixture {
	struct gp_trace trace;
	struct gp_environment environment;
	struct gp_run *runs[N_RUNS];
	struct gp_report report;
	char folder[64];
};

static inline char *copy(const char *s)
{
	char *c = strdup(s);

	assert_non_null(c);
	return c;
}

static inline struct gp_run *make_run(const char *spec, const char *allocator, uint64_t ns)
{
	struct gp_run *run = calloc(1, sizeof(*run));

	assert_non_null(run);
	run->spec = copy(spec);
	run->label = copy(allocator);
	run->allocator = allocator;
	run->device = "sim";
	snprintf(run->device_name, sizeof(run->device_name), "a device");
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

static inline void give_options(struct gp_run *run)
{
	run->options = calloc(1, sizeof(*run->options));
	assert_non_null(run->options);
	run->options[0].name = "min_block";
	snprintf(run->options[0].value, sizeof(run->options[0].value), "512");
	run->n_options = 1;
}

static inline void give_windows(struct gp_run *run)
{
	run->windows = calloc(2, sizeof(*run->windows));
	assert_non_null(run->windows);
	run->n_windows = 2;
	run->windows[0] = (struct gp_window){
		.first_event = 0,
		.last_event = 9,
		.t_ns = 90,
		.requested = { 1, 3, 2 },
		.granted = { 4, 6, 5 },
		.reserved = { 7, 9, 8 },
		.internal = { 0, 0.5, 0.25 },
		.external = { 0, 1, 0.125 },
		.external_sq = { 0, 0.75, 1.0 / 3 },
	};
	run->windows[1] = run->windows[0];
	run->windows[1].first_event = 10;
	run->windows[1].last_event = 39;
}

static inline int set_up(void **state)
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

static inline void empty_folder(const char *dir)
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

static inline int tear_down(void **state)
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

#endif
