/* SPDX-License-Identifier: Apache-2.0
 *
 * tune_json: the result of gpupool-tune as JSON, a document on a line, exact.
 *
 *   {"gpupool","schema","trace":{},"capacity_bytes","limit_bytes","goal","partial",
 *    "rows":[{"setting","conf"|"allocator","survives",...}],
 *    "advice":{"conf","text"}}
 *
 * Shape     rows are in the order of the table, and all of them. What does not apply is null.
 * Threads   main thread only
 */

#include "replay/writers/output.h"
#include "tune.h"

struct doc {
	struct gp_output *out;
	bool more; /* a member was written before in this object or array */
};

static void doc_key(struct doc *d, const char *key)
{
	if (d->more)
		gp_output_text(d->out, ",");
	d->more = true;
	if (key) {
		gp_output_quoted(d->out, key);
		gp_output_text(d->out, ":");
	}
}

static void doc_open(struct doc *d, const char *key, const char *bracket)
{
	doc_key(d, key);
	gp_output_text(d->out, bracket);
	d->more = false;
}

static void doc_close(struct doc *d, const char *bracket)
{
	gp_output_text(d->out, bracket);
	d->more = true;
}

static void doc_word(struct doc *d, const char *key, const char *word)
{
	doc_key(d, key);
	gp_output_text(d->out, word);
}

static void doc_bool(struct doc *d, const char *key, bool value)
{
	doc_word(d, key, value ? "true" : "false");
}

static void doc_number(struct doc *d, const char *key, uint64_t n)
{
	doc_key(d, key);
	gp_output_number(d->out, n);
}

/* applies: else null */
static void doc_maybe(struct doc *d, const char *key, bool applies, uint64_t n)
{
	if (applies)
		doc_number(d, key, n);
	else
		doc_word(d, key, "null");
}

static void doc_text(struct doc *d, const char *key, const char *text)
{
	doc_key(d, key);
	gp_output_quoted(d->out, text);
}

static void doc_trace(struct doc *d, const struct tune_job *job)
{
	const struct gp_trace *t = job->t;

	doc_open(d, "trace", "{");
	doc_text(d, "name", t->name);
	doc_text(d, "path", t->path);
	doc_number(d, "events", t->n_events);
	doc_number(d, "load_bytes", t->load_bytes);
	doc_maybe(d, "load_event", t->n_events, t->load_event + 1);
	doc_number(d, "need_bytes", job->need_bytes);
	doc_maybe(d, "need_event", t->n_events, job->need_event + 1);
	doc_number(d, "device_bytes", t->device_bytes);
	doc_number(d, "assumed_allocs", t->n_assumed);
	doc_number(d, "assumed_bytes", t->assumed_bytes);
	doc_number(d, "inferred_trims", job->n_trims);
	doc_close(d, "}");
}

static void doc_failure(struct doc *d, const struct tune_job *job, const struct tune_probe *p)
{
	if (p->survived || p->fault) {
		doc_word(d, "failure", "null");
		return;
	}
	doc_open(d, "failure", "{");
	doc_number(d, "event", p->failed_event + 1);
	doc_number(d, "size", p->failed_bytes);
	doc_number(d, "reserved_bytes", p->failed_reserved);
	doc_number(d, "live_bytes", tune_live_at(job->t, p->failed_event));
	doc_close(d, "}");
}

static void doc_row(struct doc *d, const struct tune_job *job, const struct tune_row *row)
{
	const struct tune_probe *p = &row->at;
	char share[32];

	doc_open(d, NULL, "{");
	doc_text(d, row->s->conf ? "conf" : "allocator",
		 row->s->conf ? row->s->conf : row->s->spec);
	doc_bool(d, "survives", p->survived);
	doc_number(d, "peak_reserved_bytes", p->peak_reserved);
	snprintf(share, sizeof(share), "%.6f",
		 p->peak_reserved ? (double)job->t->load_bytes / (double)p->peak_reserved : 1);
	doc_word(d, "utilization", p->survived ? share : "null");
	doc_number(d, "device_allocs", p->device_allocs);
	doc_number(d, "device_frees", p->device_frees);
	doc_number(d, "device_ns", p->device_ns);
	doc_number(d, "retries", p->retries);
	doc_number(d, "ooms", p->ooms);
	doc_maybe(d, "smallest_capacity_bytes", row->smallest != 0, row->smallest);
	doc_maybe(d, "fails_above_bytes", row->fails_above != 0, row->fails_above);
	doc_maybe(d, "survives_below_bytes", row->survives_below != 0, row->survives_below);
	doc_number(d, "replays", row->n_probes);
	doc_failure(d, job, p);
	if (p->fault)
		doc_text(d, "error", p->why);
	doc_close(d, "}");
}

static void doc_result(struct doc *d, const struct tune_result *r)
{
	static const char *const goals[] = {
		[TUNE_AUTO] = "auto",
		[TUNE_MEMORY] = "memory",
		[TUNE_SPEED] = "speed",
		[TUNE_FIT] = "fit",
	};

	doc_open(d, NULL, "{");
	doc_text(d, "gpupool", GP_VERSION);
	doc_number(d, "schema", 1);
	doc_trace(d, r->job);
	doc_number(d, "capacity_bytes", r->job->device.capacity);
	doc_maybe(d, "limit_bytes", r->limit != 0, r->limit);
	doc_text(d, "goal", goals[r->goal]);
	doc_bool(d, "partial", r->partial);
	doc_open(d, "rows", "[");
	for (size_t i = 0; i < r->n_rows; i++)
		doc_row(d, r->job, r->rows[i]);
	doc_close(d, "]");
	doc_open(d, "advice", "{");
	if (r->best)
		doc_text(d, "conf", r->best->s->conf);
	else
		doc_word(d, "conf", "null");
	doc_text(d, "text", r->advice);
	doc_close(d, "}");
	doc_close(d, "}");
	gp_output_text(d->out, "\n");
}

int tune_json_print(const struct tune_result *r, char *why, size_t why_size)
{
	struct doc d = { 0 };
	int err = gp_output_open("-", false, &d.out, why, why_size);

	if (err)
		return err;
	doc_result(&d, r);
	err = gp_output_commit(d.out, why, why_size);
	gp_output_close(d.out);
	return err;
}
