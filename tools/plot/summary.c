/* SPDX-License-Identifier: Apache-2.0
 *
 * summary: which allocators a result folder holds, and whether there is anything of them to draw.
 *
 * Shape       tab-separated lines, the first of which names the columns. Only `label` matters here;
 *             that the others are there is checked for the plot scripts, which read them, and so
 *             is mirror.tsv. Folders of older releases have no `threads`.
 * Hostile     A label becomes part of file names and of a word list: what does not look like one
 *             that gpupool-replay writes is refused.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "summary.h"

#define LABELS_MAX 1000u /* more pictures than anybody looks at */

static const char *const summary_columns[] = {
	"trace",
	"device",
	"label",
	"status",
	"load_bytes",
	"peak_granted_bytes",
	"peak_reserved_bytes",
	"failures",
	"alloc_p50_ns",
	"alloc_p99_ns",
	"free_p50_ns",
	"free_p99_ns",
	"ns_per_op",
	"device_ns_per_op",
	NULL,
};

static const char *const mirror_columns[] = {
	"label",
	"call",
	"cuda_ns",
	"sim_ns",
	"cuda_peak_reserved_bytes",
	"sim_peak_reserved_bytes",
	"memory",
	"memory_match",
	NULL,
};

/* The n-th field of a line, or NULL. *length is its length. */
static const char *field_at(const char *line, unsigned n, size_t *length)
{
	for (; n; n--) {
		line = strchr(line, '\t');
		if (!line)
			return NULL;
		line++;
	}
	*length = strcspn(line, "\t\r\n");
	return line;
}

static int field_find(const char *header, const char *name)
{
	size_t length;
	const char *field;

	for (unsigned n = 0; (field = field_at(header, n, &length)) != NULL; n++)
		if (length == strlen(name) && memcmp(field, name, length) == 0)
			return (int)n;
	return -1;
}

/* n < 0: there is no such field. */
static bool field_differs(const char *line, int n, const char *text)
{
	size_t length = 0;
	const char *field = n < 0 ? NULL : field_at(line, (unsigned)n, &length);

	return field && (length != strlen(text) || memcmp(field, text, length) != 0);
}

static unsigned field_count(const char *line)
{
	unsigned n = 1;

	while ((line = strchr(line, '\t')) != NULL) {
		line++;
		n++;
	}
	return n;
}

static bool label_is_good(const char *label, size_t length)
{
	if (length == 0 || length > PLOT_LABEL_MAX || label[0] == '.')
		return false;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)label[i]) && !strchr("._+-", label[i]))
			return false;
	return true;
}

static int summary_add(struct plot_summary *s, const char *label, size_t length)
{
	void *grown = realloc(s->labels, (s->n_labels + 1) * sizeof(*s->labels));

	if (!grown)
		return -ENOMEM;
	s->labels = grown;
	memcpy(s->labels[s->n_labels], label, length);
	s->labels[s->n_labels][length] = '\0';
	s->n_labels++;
	return 0;
}

static bool has_columns(const char *header, const char *const *columns)
{
	while (*columns && field_find(header, *columns) >= 0)
		columns++;
	return !*columns;
}

/* What is wrong with another line, or NULL. */
static const char *summary_line(struct plot_summary *s, const char *line, unsigned n_columns,
				int column, int *error)
{
	size_t length = 0;
	const char *label = field_at(line, (unsigned)column, &length);

	*error = -EINVAL;
	if (field_count(line) != n_columns)
		return "a line of another length, expected a field for each column";
	if (!label || !label_is_good(label, length))
		return "a bad label, expected letters, digits and ._+-";
	for (size_t i = 0; i < s->n_labels; i++)
		if (strlen(s->labels[i]) == length && memcmp(s->labels[i], label, length) == 0)
			return "the label of an earlier line, expected another";
	if (s->n_labels == LABELS_MAX)
		return "too many runs, expected at most 1000";
	*error = summary_add(s, label, length);
	return *error ? strerror(-*error) : NULL;
}

/* Notes whether this line's number of threads is another than the first line's. */
static void summary_threads(struct plot_summary *s, const char *line, int column, long *first)
{
	size_t length;
	const char *field = column < 0 ? NULL : field_at(line, (unsigned)column, &length);
	long threads = field ? strtol(field, NULL, 10) : 0;

	if (*first < 0)
		*first = threads;
	s->scaling |= threads != *first;
}

static int summary_read(FILE *file, const char *path, struct plot_summary *s, char *why,
			size_t why_size)
{
	const char *wrong = NULL;
	char *line = NULL;
	size_t size = 0;
	unsigned long number = 0;
	unsigned n_columns = 0;
	int column = -1, work = -1, threads = -1, error = 0;
	long first_threads = -1;

	while (!wrong && getline(&line, &size, file) >= 0) {
		if (number++ == 0) {
			if (!has_columns(line, summary_columns)) {
				wrong = "no summary, expected the columns that gpupool-replay"
					" writes";
				error = -EINVAL;
			}
			column = field_find(line, "label");
			work = field_find(line, "work"); /* older summaries have none */
			threads = field_find(line, "threads");
			n_columns = field_count(line);
		} else {
			wrong = summary_line(s, line, n_columns, column, &error);
			s->worked |= !wrong && field_differs(line, work, "none");
			summary_threads(s, line, threads, &first_threads);
		}
	}
	if (!wrong && (ferror(file) || number == 0)) {
		error = ferror(file) ? -EIO : -EINVAL;
		wrong = ferror(file) ? strerror(EIO) : "an empty file, expected a summary";
	}
	if (wrong)
		snprintf(why, why_size, "%s:%lu: %s", path, number ? number : 1, wrong);
	free(line);
	return error;
}

/* DIR/A B, to be freed. */
static char *path_of(const char *dir, const char *a, const char *b)
{
	size_t size = strlen(dir) + strlen(a) + strlen(b) + 2;
	char *path = malloc(size);

	if (path)
		snprintf(path, size, "%s/%s%s", dir, a, b);
	return path;
}

/* DIR/mirror.tsv, where there is one. */
static int mirror_check(const char *dir, struct plot_summary *s, char *why, size_t why_size)
{
	char *path = path_of(dir, "mirror", ".tsv");
	FILE *file = path ? fopen(path, "r") : NULL;
	unsigned long number = 0;
	unsigned n_columns = 0;
	char *line = NULL;
	size_t size = 0;
	bool good = true;

	s->mirrored = file;
	while (good && file && getline(&line, &size, file) >= 0) {
		good = number++ ? field_count(line) == n_columns
				: has_columns(line, mirror_columns);
		n_columns = field_count(line);
	}
	good = good && (!file || (number && !ferror(file)));
	if (!good)
		snprintf(why, why_size,
			 "%s:%lu: no table of a mirror, expected what gpupool-replay writes", path,
			 number ? number : 1);
	if (file)
		fclose(file);
	free(line);
	free(path);
	return good ? 0 : -EINVAL;
}

int plot_summary_load(const char *dir, struct plot_summary *out, char *why, size_t why_size)
{
	char *path = path_of(dir, "summary", ".tsv");
	FILE *file = path ? fopen(path, "r") : NULL;
	int r = path ? -errno : -ENOMEM;

	memset(out, 0, sizeof(*out));
	if (file) {
		r = summary_read(file, path, out, why, why_size);
		fclose(file);
	} else {
		snprintf(why, why_size, "%s: %s; expected a folder that gpupool-replay --out wrote",
			 path ? path : dir, strerror(-r));
	}
	if (!r)
		r = mirror_check(dir, out, why, why_size);
	if (r)
		plot_summary_free(out);
	free(path);
	return r;
}

void plot_summary_free(struct plot_summary *s)
{
	free(s->labels);
	s->labels = NULL;
	s->n_labels = 0;
}

int plot_data_lines(const char *dir, const char *label, const char *suffix)
{
	char *path = path_of(dir, label, suffix);
	FILE *file = path ? fopen(path, "r") : NULL;
	int r = path ? -errno : -ENOMEM;
	char *line = NULL;
	size_t size = 0;

	if (file) {
		r = 0;
		/* Another program's table under this name would confuse the scripts. */
		if (strcmp(suffix, PLOT_CURVE) == 0 &&
		    (getline(&line, &size, file) < 0 || strncmp(line, "first_event\t", 12) != 0))
			r = -EINVAL;
		while (!r && getline(&line, &size, file) >= 0)
			r = isdigit((unsigned char)line[strspn(line, " ")]) != 0;
		if (ferror(file))
			r = -EIO;
		fclose(file);
	}
	free(line);
	free(path);
	return r;
}
