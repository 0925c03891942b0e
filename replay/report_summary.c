/* SPDX-License-Identifier: Apache-2.0
 *
 * report_summary: one line per run, for programs that would rather not parse the document: the
 * plot scripts, awk, spreadsheets.
 *
 * Shape     tab-separated; the first line names the columns. A figure that was not measured is 0.
 * Hostile   A trace's name may hold anything: what would end a field or a line, or open a quoted
 *           one in gnuplot, is replaced.
 * Load      the trace's, also where a run failed requests and so saw less of it: one bound for all
 */
#include <errno.h>
#include <inttypes.h>

#include "report.h"

static void summary_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		fputc(c < ' ' || c == 0x7f ? '?' : c == '"' ? '\'' : c, out);
	}
}

/* Sums, in the order of enum gp_metered. */
static void summary_work(FILE *out, const struct gp_run_work *work)
{
	static const struct gp_work none = { GP_WORK_NONE, 0 };
	uint64_t longest = 0;
	char text[64];

	fprintf(out, "\t%s", gp_work_text(work ? &work->work : &none, text, sizeof(text)));
	for (unsigned i = 0; i < GP_METERED_N; i++) {
		fprintf(out, "\t%" PRIu64, work ? work->stall_ns[i].sum : 0);
		if (work)
			longest = gp_max_u64(longest, work->stall_ns[i].max);
	}
	fprintf(out, "\t%" PRIu64, longest);
	for (unsigned i = 0; i < GP_METERED_N; i++)
		fprintf(out, "\t%" PRIu64, work ? work->idle_ns[i].sum : 0);
}

static void summary_run(FILE *out, const struct gp_run *run, uint64_t load_bytes)
{
	const struct gp_hist *hists[] = { &run->alloc_ns, &run->free_ns };

	fprintf(out, "\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, run->label,
		gp_status_name(run->status), load_bytes, run->memory.peak_granted,
		run->memory.peak_reserved, run->failures.count);
	for (size_t i = 0; i < GP_ARRAY_LEN(hists); i++)
		fprintf(out, "\t%" PRIu64 "\t%" PRIu64, gp_hist_percentile(hists[i], 50),
			gp_hist_percentile(hists[i], 99));
	fprintf(out, "\t%.3f\t%.3f", run->throughput.ns_per_op, run->throughput.device_ns_per_op);
	summary_work(out, run->work);
	fprintf(out, "\t%s\t%u\t%.0f\t%.0f\t%.0f\n", run->series ? run->series : run->label,
		run->threads, run->throughput.ops_per_s, run->throughput.ops_per_s_min,
		run->throughput.ops_per_s_max);
}

int gp_report_write_summary(const struct gp_report *report, FILE *out)
{
	char name[256];

	fputs("trace\tdevice\tlabel\tstatus\tload_bytes\tpeak_granted_bytes\tpeak_reserved_bytes"
	      "\tfailures\talloc_p50_ns\talloc_p99_ns\tfree_p50_ns\tfree_p99_ns\tns_per_op"
	      "\tdevice_ns_per_op\twork\talloc_stall_ns\tfree_stall_ns\ttrim_stall_ns"
	      "\tlongest_stall_ns\talloc_idle_ns\tfree_idle_ns\ttrim_idle_ns\tseries\tthreads"
	      "\tops_per_s\tops_per_s_min\tops_per_s_max\n",
	      out);
	for (size_t i = 0; i < report->n_runs; i++) {
		summary_text(out, gp_report_trace_name(report->trace, name, sizeof(name)));
		fputc('\t', out);
		summary_text(out, report->runs[i]->device_name);
		summary_run(out, report->runs[i],
			    gp_max_u64(report->runs[i]->memory.load, report->trace->load_bytes));
	}
	return ferror(out) ? -EIO : 0;
}
