/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_merge: gpupool-trace merge: recordings of several ranks or processes as one.
 *
 * Shape       every recording begins at 0; of events at one time, those of the file named first
 *             come first. Blocks, streams and threads of different files never meet: streams and
 *             threads are numbered through (a note in the result says which are whose), recorded
 *             addresses get the file's number above bit 48, where no GPU has addresses.
 * Cost        one comparison per file and event: for a few files, not for thousands
 * Not done    clocks: recordings that did not begin together are not shifted.
 */
#include "trace_tool.h"

#include <errno.h>
#include <stdlib.h>

#define MERGE_MAX        1024u /* files; their numbers fit above an address */
#define MERGE_ADDR_SHIFT 48u

struct part {
	struct gp_trace *t;
	size_t next; /* event */
	uint64_t first_id, first_stream, first_thread, first_pool;
	uint64_t addr; /* added to each */
};

struct merge {
	struct trace_tool tool; /* the first: WRITE_OPTIONS, READ_OPTIONS */
	struct part *parts;
	size_t n_parts;
	struct gp_trace_builder *b;
};

/* The part whose next event comes first; NULL: no more. */
static struct part *merge_next(struct merge *m)
{
	struct part *first = NULL;
	uint64_t first_ns = 0;

	for (size_t i = 0; i < m->n_parts; i++) {
		struct part *p = &m->parts[i];
		uint64_t t_ns;

		if (p->next == p->t->n_events)
			continue;
		t_ns = p->t->events[p->next].t_ns;
		if (!first || t_ns < first_ns) {
			first = p;
			first_ns = t_ns;
		}
	}
	return first;
}

static uint8_t merge_last_pool(const struct gp_trace *t)
{
	uint8_t last = 0;

	for (size_t i = 0; t->pools && i < t->n_events; i++)
		last = t->pools[i] > last ? t->pools[i] : last;
	return last;
}

static int merge_event(struct merge *m, struct part *p)
{
	size_t i = p->next++;
	const struct gp_event *e = &p->t->events[i];
	struct gp_trace_record r;

	gp_trace_record_at(p->t, i, &r);
	r.id += p->first_id;
	r.stream = p->first_stream + e->stream;
	r.thread = p->first_thread + e->thread;
	r.addr += r.addr ? p->addr : 0;
	r.pool += r.pool ? p->first_pool : 0;
	return gp_trace_builder_add(m->b, &r, 0);
}

/* The folder is not worth telling. */
static const char *merge_file(const struct part *p)
{
	const char *slash = strrchr(p->t->path, '/');

	return slash ? slash + 1 : p->t->path;
}

/* "a.json + b.json", for the name and the source. */
static char *merge_text(const struct merge *m, bool files)
{
	size_t size = 1, used = 0;
	char *text;

	for (size_t i = 0; i < m->n_parts; i++)
		size += strlen(files ? merge_file(&m->parts[i]) : m->parts[i].t->name) + 3;
	text = malloc(size);
	for (size_t i = 0; text && i < m->n_parts; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " + " : "",
					 files ? merge_file(&m->parts[i]) : m->parts[i].t->name);
	return text;
}

/* The device, when all were recorded on the same kind. */
static const struct gp_trace *merge_device(const struct merge *m)
{
	const struct gp_trace *first = m->parts[0].t;

	for (size_t i = 1; i < m->n_parts; i++)
		if (strcmp(first->device_name, m->parts[i].t->device_name) != 0 ||
		    first->device_bytes != m->parts[i].t->device_bytes)
			return NULL;
	return first;
}

static int merge_header(struct merge *m)
{
	const struct gp_trace *device = merge_device(m);
	char *name = merge_text(m, false), *files = merge_text(m, true);
	char *source = files ? malloc(strlen(files) + 16) : NULL;
	int r = -ENOMEM;

	if (name && source) {
		sprintf(source, "merged: %s", files);
		r = gp_trace_builder_header(m->b, name, source, device ? device->device_name : "",
					    device ? device->device_bytes : 0);
	}
	free(name);
	free(files);
	free(source);
	return r;
}

static int merge_notes(struct merge *m)
{
	int r = 0;

	for (size_t i = 0; i < m->n_parts && !r; i++) {
		const struct part *p = &m->parts[i];

		r = gp_trace_builder_note(
			m->b, "streams %llu to %llu and threads %llu to %llu are those of %s",
			(unsigned long long)p->first_stream,
			(unsigned long long)p->first_stream + p->t->n_streams - 1,
			(unsigned long long)p->first_thread,
			(unsigned long long)p->first_thread + p->t->n_threads - 1, merge_file(p));
		for (uint32_t j = 0; j < p->t->n_notes && !r; j++)
			r = gp_trace_builder_note(m->b, "%s: %s", merge_file(p), p->t->notes[j]);
	}
	return r;
}

static int merge_build(struct merge *m, struct gp_trace **out)
{
	struct part *p;
	int r = -ENOMEM;

	m->b = gp_trace_builder_create("merged", NULL);
	if (m->b)
		r = merge_header(m);
	if (!r)
		r = merge_notes(m);
	while (!r && (p = merge_next(m)))
		r = merge_event(m, p);
	if (!r)
		r = gp_trace_builder_finish(m->b, out);
	if (r)
		cli_error("%s", r == -ENOMEM ? "out of memory" : gp_trace_builder_why(m->b));
	gp_trace_builder_destroy(m->b);
	return r ? CLI_USAGE : -1;
}

static int merge_load(struct merge *m, char **paths, size_t n)
{
	m->parts = calloc(n, sizeof(*m->parts));
	if (!m->parts) {
		cli_error("out of memory");
		return CLI_USAGE;
	}
	for (; m->n_parts < n; m->n_parts++) {
		struct part *p = &m->parts[m->n_parts], *before = p - 1;
		int r = read_options_load(&m->tool.read, paths[m->n_parts], &p->t);

		if (r >= 0)
			return r;
		p->addr = (uint64_t)m->n_parts << MERGE_ADDR_SHIFT;
		if (!m->n_parts)
			continue;
		p->first_id = before->first_id + before->t->n_ids;
		p->first_stream = before->first_stream + before->t->n_streams;
		p->first_thread = before->first_thread + before->t->n_threads;
		p->first_pool = before->first_pool + merge_last_pool(before->t);
	}
	return -1;
}

static const struct cli_option options[] = {
	WRITE_OPTIONS,
	READ_OPTIONS,
	{ NULL, NULL, NULL, NULL },
};

static const struct cli_program program = {
	.name = "gpupool-trace merge",
	.synopsis = "[OPTION]... --output=FILE FILE...",
	.about = "Joins recordings of several ranks or processes, in the order of their times.\n"
		 "Each begins at 0. Blocks, streams and threads of different files stay apart.",
	.options = options,
	.examples = "  gpupool-trace merge --output=node.gpt rank*.jsonl.gz\n"
		    "  gpupool-trace merge rank0.json rank1.json | gpupool-replay --threads=2 -\n",
};

int trace_merge_main(int argc, char **argv)
{
	struct merge m = { 0 };
	const struct gp_writer *writer = NULL;
	struct gp_trace *t = NULL;
	int n = 0, r = cli_parse(&program, &m, argc, argv, &n);

	if (r < 0 && (n < 2 || n > (int)MERGE_MAX)) {
		cli_error("expected 2 to %u traces to merge; --help shows examples", MERGE_MAX);
		r = CLI_USAGE;
	}
	if (r < 0)
		r = trace_tool_writer(&m.tool, &writer);
	if (r < 0)
		r = merge_load(&m, argv, (size_t)n);
	if (r < 0)
		r = merge_build(&m, &t);
	if (r < 0)
		r = trace_tool_save(&m.tool, writer, t);
	gp_trace_destroy(t);
	for (size_t i = 0; i < m.n_parts; i++)
		gp_trace_destroy(m.parts[i].t);
	free(m.parts);
	return r;
}
