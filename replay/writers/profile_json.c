/* SPDX-License-Identifier: Apache-2.0
 *
 * profile_json: writes a device profile; replay/profile.h has the keys.
 *
 * Shape       one line for each size, so that two profiles can be compared line by line; keys in
 *             one order, so that a profile has one text
 * Threads     caller serialises
 */
#include "output.h"
#include "replay/profile.h"

static void write_key(struct gp_output *o, const char *before, const char *key)
{
	gp_output_text(o, before);
	gp_output_text(o, "\"");
	gp_output_text(o, key);
	gp_output_text(o, "\": ");
}

static void write_text(struct gp_output *o, const char *before, const char *key, const char *value)
{
	write_key(o, before, key);
	gp_output_quoted(o, value);
}

static void write_number(struct gp_output *o, const char *before, const char *key, uint64_t value)
{
	write_key(o, before, key);
	gp_output_number(o, value);
}

static void write_head(struct gp_output *o, const struct gp_profile *p)
{
	gp_output_text(o, "{\n\"format\": \"" GP_PROFILE_FORMAT "\"");
	write_number(o, ",\n", "version", GP_PROFILE_VERSION);
	write_text(o, ",\n", "name", p->name);
	write_text(o, ",\n", "source", p->source);
	write_key(o, ",\n", "simulated");
	gp_output_text(o, p->simulated ? "true" : "false");
	write_text(o, ",\n\"machine\": {", "card", p->card);
	write_text(o, ", ", "driver", p->driver);
	write_text(o, ", ", "cuda", p->cuda);
	write_text(o, ", ", "cpu", p->cpu);
	write_number(o, ", ", "cores", p->cores);
	write_text(o, ", ", "os", p->os);
	write_text(o, ", ", "date", p->date);
	write_text(o, ", ", "gpupool", p->gpupool);
	write_number(o, "},\n\"memory\": {", "total_bytes", p->total_bytes);
	write_number(o, ", ", "free_bytes", p->free_bytes);
	write_number(o, ", ", "page_bytes", p->page_bytes);
	gp_output_text(o, "},\n\"calls\": {");
}

static void write_row(struct gp_output *o, const struct gp_profile_row *row)
{
	write_number(o, "\n {", "size", row->size);
	write_number(o, ", ", "n", row->n);
	write_number(o, ", ", "min_ns", row->min);
	write_number(o, ", ", "p50_ns", row->p50);
	write_number(o, ", ", "p90_ns", row->p90);
	write_number(o, ", ", "p99_ns", row->p99);
	write_number(o, ", ", "max_ns", row->max);
	if (row->mean)
		write_number(o, ", ", "mean_ns", row->mean);
	gp_output_text(o, "}");
}

static void write_calls(struct gp_output *o, const struct gp_profile *p)
{
	for (size_t i = 0; i < p->n_rows; i++) {
		const struct gp_profile_row *row = &p->rows[i];
		bool first = !i || strcmp(row[-1].call, row->call) != 0;

		if (first) {
			write_key(o, i ? "\n],\n" : "\n", row->call);
			gp_output_text(o, "[");
		} else {
			gp_output_text(o, ",");
		}
		write_row(o, row);
	}
	gp_output_text(o, p->n_rows ? "\n]\n}" : "\n}");
}

static void write_notes(struct gp_output *o, const char *const *notes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		gp_output_text(o, i ? ",\n " : ",\n\"notes\": [\n ");
		gp_output_quoted(o, notes[i]);
	}
	gp_output_text(o, n ? "\n]\n}\n" : "\n}\n");
}

int gp_profile_save(const struct gp_profile *p, const char *const *notes, size_t n_notes,
		    const char *path, char *why, size_t why_size)
{
	struct gp_output *o;
	int r = gp_output_open(path, gp_output_is_gzip(path), &o, why, why_size);

	if (r)
		return r;
	write_head(o, p);
	write_calls(o, p);
	write_notes(o, notes, n_notes);
	r = gp_output_commit(o, why, why_size);
	gp_output_close(o);
	return r;
}
