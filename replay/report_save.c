/* SPDX-License-Identifier: Apache-2.0
 *
 * report_save: the files of a result, and what they are called.
 *
 * Shape       every file is written whole under a temporary name; only when all of them are on
 *             the disk are they renamed, the document last.
 * Invariants  1. a full disk costs the new files and nothing else: none of them appears, and those
 *                of an earlier run stay as they were.
 *             2. a name from a trace cannot leave the output folder: stems hold no '/' and do not
 *                start with '.'.
 * Threads     any, each in its own folder
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "atomic_file.h"
#include "report.h"

#define FILES_PER_RUN    3u
#define FILES_PER_REPORT 3u
#define STEM_MAX         100u /* bytes; a file system takes 255, and labels and endings follow */

/* ---- names ---- */

static bool ends_with(const char *s, size_t length, const char *end)
{
	size_t n = strlen(end);

	return length > n && memcmp(s + length - n, end, n) == 0;
}

const char *gp_report_trace_name(const struct gp_trace *trace, char *buf, size_t size)
{
	const char *slash = strrchr(trace->path, '/');
	const char *base = slash ? slash + 1 : trace->path;
	size_t length = strlen(base);
	const char *dot;

	if (trace->name[0])
		return trace->name;
	if (strcmp(trace->path, "-") == 0)
		return "stdin";
	if (ends_with(base, length, ".gz"))
		length -= 3;
	snprintf(buf, size, "%.*s", (int)gp_min_u64(length, size - 1), base);
	dot = strrchr(buf, '.');
	if (dot && dot > buf)
		buf[dot - buf] = '\0';
	return buf[0] ? buf : "trace";
}

const char *gp_report_trace_stem(const struct gp_trace *trace, char *buf, size_t size)
{
	char name[256];
	const char *p = gp_report_trace_name(trace, name, sizeof(name));
	size_t n = 0, max = gp_min_u64(STEM_MAX, size - 1);

	while (*p == '.')
		p++;
	for (; *p && n < max; p++) {
		bool fit = isalnum((unsigned char)*p) || strchr("._-", *p);

		buf[n++] = fit ? *p : '-';
	}
	buf[n] = '\0';
	return n ? buf : "trace";
}

/* Do the runs differ in their number of threads? */
static bool label_counts_threads(struct gp_run **runs, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (runs[i]->threads != runs[0]->threads)
			return true;
	return false;
}

static bool any_on_gpu(struct gp_run **runs, size_t n_runs)
{
	for (size_t i = 0; i < n_runs; i++)
		if (strcmp(runs[i]->device, "cuda") == 0)
			return true;
	return false;
}

/* Has one of the first n runs this series and this number of threads? */
static bool label_series_has(struct gp_run **runs, size_t n, const char *series, unsigned threads)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(runs[i]->series, series) == 0 && runs[i]->threads == threads)
			return true;
	return false;
}

/* The first run whose series run i belongs to: the same spec and device, on another number of
 * threads than those that are in the series already. NULL: none. */
static const struct gp_run *label_leader(struct gp_run **runs, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (strcmp(runs[j]->spec, runs[i]->spec) == 0 &&
		    strcmp(runs[j]->device, runs[i]->device) == 0 &&
		    !label_series_has(runs, i, runs[j]->series, runs[i]->threads))
			return runs[j];
	return NULL;
}

static bool label_taken(struct gp_run **runs, size_t n, const char *series)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(runs[i]->series, series) == 0)
			return true;
	return false;
}

static int label_set(char **where, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*where);
	*where = copy;
	return 0;
}

static int label_series(struct gp_run **runs, size_t i, bool apart)
{
	const char *where = apart && strcmp(runs[i]->device, "sim") == 0 ? "-sim" : "";
	const struct gp_run *leader = label_leader(runs, i);
	char series[64];

	if (leader)
		return label_set(&runs[i]->series, leader->series);
	snprintf(series, sizeof(series), "%.40s%s", runs[i]->allocator, where);
	for (unsigned n = 2; label_taken(runs, i, series); n++)
		snprintf(series, sizeof(series), "%.40s%s-%u", runs[i]->allocator, where, n);
	return label_set(&runs[i]->series, series);
}

int gp_report_label(struct gp_run **runs, size_t n_runs)
{
	bool apart = any_on_gpu(runs, n_runs), counts = label_counts_threads(runs, n_runs);

	for (size_t i = 0; i < n_runs; i++) {
		char label[64];

		if (label_series(runs, i, apart))
			return -ENOMEM;
		snprintf(label, sizeof(label), counts ? "%.50s-t%u" : "%.50s", runs[i]->series,
			 runs[i]->threads);
		if (label_set(&runs[i]->label, label))
			return -ENOMEM;
	}
	return 0;
}

double gp_report_speedup(const struct gp_report *report, const struct gp_run *run)
{
	for (size_t i = 0; i < report->n_runs; i++) {
		const struct gp_run *one = report->runs[i];

		if (one->threads == 1 && one->series && run->series &&
		    strcmp(one->series, run->series) == 0 && one->throughput.ops_per_s > 0)
			return run->throughput.ops_per_s / one->throughput.ops_per_s;
	}
	return NAN;
}

/* ---- contents ---- */

static void write_span(FILE *out, const struct gp_span_u64 *s)
{
	fprintf(out, "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, s->min, s->max, s->last);
}

/* Six digits: a millionth of the memory. */
static void write_ratio(FILE *out, const struct gp_span_f *s)
{
	fprintf(out, "\t%.6f\t%.6f\t%.6f", s->min, s->max, s->last);
}

int gp_report_write_curve(const struct gp_run *run, FILE *out)
{
	static const char *const spans[] = { "requested", "granted",  "reserved",
					     "internal",  "external", "external_sq" };

	fputs("first_event\tlast_event\tt_ns", out);
	for (size_t i = 0; i < GP_ARRAY_LEN(spans); i++)
		fprintf(out, "\t%s_min\t%s_max\t%s_last", spans[i], spans[i], spans[i]);
	fputc('\n', out);
	for (size_t i = 0; i < run->n_windows; i++) {
		const struct gp_window *w = &run->windows[i];

		fprintf(out, "%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, w->first_event, w->last_event,
			w->t_ns);
		write_span(out, &w->requested);
		write_span(out, &w->granted);
		write_span(out, &w->reserved);
		write_ratio(out, &w->internal);
		write_ratio(out, &w->external);
		write_ratio(out, &w->external_sq);
		fputc('\n', out);
	}
	return ferror(out) ? -EIO : 0;
}

/* ---- the set of files ---- */

struct file_set {
	const char *dir;
	struct gp_atomic_file *files;
	size_t n;
	char *path; /* scratch: of the file at hand, for messages */
	size_t path_size;
};

static int set_open(struct file_set *set, const char *stem, const char *suffix)
{
	int r;

	snprintf(set->path, set->path_size, "%s/%s%s", set->dir, stem, suffix);
	r = gp_atomic_open(&set->files[set->n], set->path);
	if (!r)
		set->n++;
	return r;
}

/* Ends the file opened last; r is what writing it said. */
static int set_finish(struct file_set *set, int r)
{
	int finished = gp_atomic_finish(&set->files[set->n - 1]);

	/* The reason of the second ("no space left") is the better one where both fail. */
	return finished ? finished : r;
}

static int save_run(struct file_set *set, const struct gp_run *run)
{
	int r = set_open(set, run->label, ".curve.tsv");

	if (!r)
		r = set_finish(set, gp_report_write_curve(run, set->files[set->n - 1].stream));
	if (!r)
		r = set_open(set, run->label, ".alloc.hgrm");
	if (!r)
		r = set_finish(set,
			       gp_hist_write_hgrm(&run->alloc_ns, set->files[set->n - 1].stream));
	if (!r)
		r = set_open(set, run->label, ".free.hgrm");
	if (!r)
		r = set_finish(set,
			       gp_hist_write_hgrm(&run->free_ns, set->files[set->n - 1].stream));
	return r;
}

static int save_table(struct file_set *set, const struct gp_report *report, const char *stem,
		      int (*write)(const struct gp_report *report, FILE *out))
{
	int r = set_open(set, stem, ".tsv");

	if (!r)
		r = set_finish(set, write(report, set->files[set->n - 1].stream));
	return r;
}

static int save_document(struct file_set *set, const struct gp_report *report)
{
	char *json = gp_report_json(report, false);
	int r = json ? set_open(set, "result", ".json") : -ENOMEM;

	if (!r) {
		int written = fputs(json, set->files[set->n - 1].stream);

		r = set_finish(set, written < 0 ? -EIO : 0);
	}
	free(json);
	return r;
}

static int save_all(struct file_set *set, const struct gp_report *report)
{
	int r = 0;

	for (size_t i = 0; i < report->n_runs && !r; i++)
		r = save_run(set, report->runs[i]);
	if (!r)
		r = save_table(set, report, "summary", gp_report_write_summary);
	if (!r && report->n_mirrors)
		r = save_table(set, report, "mirror", gp_report_write_mirror);
	if (!r)
		r = save_document(set, report);
	for (size_t i = 0; i < set->n && !r; i++) {
		snprintf(set->path, set->path_size, "%s", set->files[i].path);
		r = gp_atomic_publish(&set->files[i]);
	}
	return r;
}

int gp_report_save(const struct gp_report *report, const char *dir, char *why, size_t why_size)
{
	struct file_set set = { .dir = dir, .path_size = strlen(dir) + 128 };
	unsigned n_made;
	int r = gp_folder_create(dir, &n_made);

	if (r) {
		snprintf(why, why_size, "%s: cannot write here: %s", dir, strerror(-r));
		return r;
	}
	set.files = calloc(report->n_runs * FILES_PER_RUN + FILES_PER_REPORT, sizeof(*set.files));
	set.path = malloc(set.path_size);
	if (set.files && set.path) {
		set.path[0] = '\0';
		r = save_all(&set, report);
	} else {
		r = -ENOMEM;
	}
	if (r) {
		snprintf(why, why_size, "%s: %s; no result was saved",
			 set.path && set.path[0] ? set.path : dir, strerror(-r));
		for (size_t i = 0; i < set.n; i++)
			gp_atomic_discard(&set.files[i]);
		gp_folder_remove(dir, n_made);
	}
	free(set.path);
	free(set.files);
	return r;
}
