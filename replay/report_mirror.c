/* SPDX-License-Identifier: Apache-2.0
 *
 * report_mirror: real and simulated device calls side by side, for programs that would rather not
 * parse the document: the plot script, awk, spreadsheets.
 *
 * Shape     tab-separated; the first line names the columns. A ratio that there is none of is 0.
 *           Pairs of which a run has no result are left out.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "report.h"

static void mirror_line(FILE *out, const struct gp_mirror *m, const char *call, uint64_t counts[2],
			double cuda_ns, double sim_ns)
{
	double ratio = gp_mirror_ratio(cuda_ns, sim_ns);

	fprintf(out, "%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%.0f\t%.0f\t%.4f", m->cuda->label, call,
		counts[0], counts[1], cuda_ns, sim_ns, isnan(ratio) ? 0 : ratio);
	fprintf(out, "\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\n", m->cuda->memory.peak_reserved,
		m->sim->memory.peak_reserved, m->memory_equal ? "equal" : "differs",
		m->must_match ? "must" : "may");
}

static void mirror_lines(FILE *out, const struct gp_mirror *m)
{
	uint64_t all[2] = { 0, 0 };

	for (unsigned i = 0; i < GP_CALL_N; i++) {
		const struct gp_call_use *cuda = &m->cuda->calls[i], *sim = &m->sim->calls[i];
		uint64_t counts[2] = { cuda->count, sim->count };

		if (!cuda->count && !sim->count)
			continue;
		all[0] += cuda->count;
		all[1] += sim->count;
		mirror_line(out, m, gp_call_name((enum gp_call)i), counts, cuda->time_ns,
			    sim->time_ns);
	}
	mirror_line(out, m, "all", all, m->cuda_ns, m->sim_ns);
}

int gp_report_write_mirror(const struct gp_report *report, FILE *out)
{
	fputs("label\tcall\tcuda_calls\tsim_calls\tcuda_ns\tsim_ns\tratio"
	      "\tcuda_peak_reserved_bytes\tsim_peak_reserved_bytes\tmemory\tmemory_match\n",
	      out);
	for (size_t i = 0; i < report->n_mirrors; i++)
		if (report->mirrors[i].whole)
			mirror_lines(out, &report->mirrors[i]);
	return ferror(out) ? -EIO : 0;
}
