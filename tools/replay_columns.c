/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_columns: the figures of a run, in units for people.
 *
 * Shape       one function a column: it writes the text and returns the figure that runs are
 *             compared by.
 * Threads     any
 */
#include "replay_columns.h"

#include <math.h>
#include <string.h>

#include "cli.h"

static double cell_name(const struct gp_run *run, char *text)
{
	snprintf(text, COLUMN_TEXT, "%s", run->label);
	return NAN;
}

static double cell_reserved(const struct gp_run *run, char *text)
{
	cli_bytes(text, run->memory.peak_reserved);
	return (double)run->memory.peak_reserved;
}

static double percent(double ratio, const char *sign, char *text)
{
	double p = ratio * 100;

	if (isnan(ratio)) {
		snprintf(text, COLUMN_TEXT, "-");
		return NAN;
	}
	snprintf(text, COLUMN_TEXT, "%s%.*f %%", p > 0 ? sign : "", p < 999.95 ? 1 : 0, p);
	return ratio;
}

static double cell_overhead(const struct gp_run *run, char *text)
{
	return percent(run->memory.overhead, "+", text);
}

static double cell_internal(const struct gp_run *run, char *text)
{
	return percent(run->fragmentation.internal_at_peak, "", text);
}

static double cell_external(const struct gp_run *run, char *text)
{
	return percent(run->fragmentation.external_at_peak, "", text);
}

static double percentile(const struct gp_hist *h, double p, char *text)
{
	double ns = (double)gp_hist_percentile(h, p);

	if (!h->count) {
		snprintf(text, COLUMN_TEXT, "-");
		return NAN;
	}
	cli_time(text, ns);
	return ns;
}

static double cell_alloc_p50(const struct gp_run *run, char *text)
{
	return percentile(&run->alloc_ns, 50, text);
}

static double cell_alloc_p99(const struct gp_run *run, char *text)
{
	return percentile(&run->alloc_ns, 99, text);
}

static double cell_free_p50(const struct gp_run *run, char *text)
{
	return percentile(&run->free_ns, 50, text);
}

static double cell_free_p99(const struct gp_run *run, char *text)
{
	return percentile(&run->free_ns, 99, text);
}

static double cell_own(const struct gp_run *run, char *text)
{
	if (!run->throughput.ops) {
		snprintf(text, COLUMN_TEXT, "-");
		return NAN;
	}
	cli_time(text, run->throughput.ns_per_op);
	return run->throughput.ns_per_op;
}

static double cell_device_time(const struct gp_run *run, char *text)
{
	cli_time(text, (double)run->driver.time_ns);
	return (double)run->driver.time_ns;
}

static double cell_device_calls(const struct gp_run *run, char *text)
{
	uint64_t calls = run->driver.allocs + run->driver.frees + run->driver.maps +
			 run->driver.unmaps + run->driver.syncs + run->driver.event_waits;

	cli_number(text, calls);
	return (double)calls;
}

/* Of calls of alloc, free and trim together. */
static double cell_stalled(const struct gp_run *run, char *text)
{
	double sum = 0;

	for (unsigned i = 0; run->work && i < GP_METERED_N; i++)
		sum += (double)run->work->stall_ns[i].sum;
	cli_time(text, sum);
	return run->work ? sum : NAN;
}

static double cell_longest(const struct gp_run *run, char *text)
{
	uint64_t max = 0;

	for (unsigned i = 0; run->work && i < GP_METERED_N; i++)
		if (run->work->stall_ns[i].count)
			max = gp_max_u64(max, run->work->stall_ns[i].max);
	cli_time(text, (double)max);
	return run->work ? (double)max : NAN;
}

static double cell_idle(const struct gp_run *run, char *text)
{
	double sum = 0;

	for (unsigned i = 0; run->work && i < GP_METERED_N; i++)
		sum += (double)run->work->idle_ns[i].sum;
	cli_time(text, sum);
	return run->work ? sum : NAN;
}

static double cell_failed(const struct gp_run *run, char *text)
{
	if (run->failures.count)
		cli_number(text, run->failures.count);
	else
		snprintf(text, COLUMN_TEXT, "-");
	return NAN;
}

static double cell_status(const struct gp_run *run, char *text)
{
	snprintf(text, COLUMN_TEXT, "%s",
		 run->status == GP_STATUS_OK ? "" : gp_status_name(run->status));
	return NAN;
}

const struct column columns[N_COLUMNS] = {
	{ "", "allocator", cell_name, false, false },
	{ "memory", "reserved", cell_reserved, true, false },
	{ "memory", "overhead", cell_overhead, true, false },
	{ "lost", "internal", cell_internal, true, false },
	{ "lost", "external", cell_external, true, false },
	{ "alloc", "p50", cell_alloc_p50, true, true },
	{ "alloc", "p99", cell_alloc_p99, true, true },
	{ "free", "p50", cell_free_p50, true, true },
	{ "free", "p99", cell_free_p99, true, true },
	{ "own", "per op", cell_own, true, false },
	{ "device", "time", cell_device_time, true, false },
	{ "device", "calls", cell_device_calls, true, false },
	{ COLUMN_WORK, "total", cell_stalled, true, false },
	{ COLUMN_WORK, "longest", cell_longest, true, false },
	{ COLUMN_WORK, "GPU idle", cell_idle, true, false },
	{ NULL, "failed", cell_failed, false, false },
	{ NULL, "status", cell_status, false, false },
};
