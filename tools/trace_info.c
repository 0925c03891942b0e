/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_info: gpupool-trace info: the counting, and the command.
 *
 * Cost      two passes over the events; 32 bytes for each size that occurs
 * Threads   main thread only
 */
#include "trace_info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "read_options.h"
#include "replay/id_map.h"
#include "trace_tool.h"

static unsigned info_class(uint64_t n)
{
	return n ? gp_floor_log2(n) + 1 : 0;
}

/* ---- sizes ---- */

static int sizes_add(struct info_sizes *s, struct gp_id_map *map, uint64_t size)
{
	uint32_t at = gp_id_map_find(map, size);

	s->count++;
	s->bytes += size;
	if (at != GP_ID_MAP_NONE) {
		s->items[at].count++;
		return 0;
	}
	if (!s->n || gp_is_pow2(s->n)) {
		struct info_size *grown =
			realloc(s->items, (s->n ? 2 * (size_t)s->n : 1) * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->items = grown;
	}
	s->items[s->n] = (struct info_size){ size, 1 };
	return gp_id_map_put(map, size, s->n++);
}

static int sizes_compare(const void *a, const void *b)
{
	const struct info_size *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return (x->size < y->size) - (x->size > y->size);
}

static int sizes_count(struct info_sizes *s, const struct gp_trace *t, bool kept_only)
{
	struct gp_id_map map;
	int r = 0;

	gp_id_map_init(&map);
	for (size_t i = 0; i < t->n_events && !r; i++) {
		const struct gp_event *e = &t->events[i];

		if (e->op == GP_OP_ALLOC && (!kept_only || e->link == GP_EVENT_NONE))
			r = sizes_add(s, &map, e->size);
	}
	gp_id_map_fini(&map);
	if (s->n)
		qsort(s->items, s->n, sizeof(*s->items), sizes_compare);
	return r;
}

/* ---- events ---- */

static void info_ended(struct trace_info *info, size_t i)
{
	const struct gp_event *e = &info->t->events[i];
	const struct gp_event *alloc = &info->t->events[e->link];

	info->live_bytes -= e->size;
	info->by_events[info_class(i - e->link)]++;
	info->by_time[info_class(e->t_ns - alloc->t_ns)]++;
}

static void info_recorded(struct trace_info *info, const struct gp_event *e, uint64_t *reserved)
{
	if (e->op == GP_OP_SEGMENT_ALLOC || e->op == GP_OP_SEGMENT_MAP)
		*reserved += gp_min_u64(e->size, UINT64_MAX - *reserved);
	else if (e->op == GP_OP_SEGMENT_FREE || e->op == GP_OP_SEGMENT_UNMAP)
		*reserved -= gp_min_u64(e->size, *reserved);
	info->recorded_peak_bytes = gp_max_u64(info->recorded_peak_bytes, *reserved);
}

static void info_event(struct trace_info *info, size_t i)
{
	const struct gp_event *e = &info->t->events[i];
	bool deferred = (gp_event_flags(e) & GP_EVENT_DEFERRED) != 0;
	unsigned window = (unsigned)((uint64_t)i * info->n_windows / info->t->n_events);

	info->n_ops[e->op]++;
	if (gp_op_uses((enum gp_op)e->op) & GP_USE_THREAD)
		info->threads[e->thread]++;
	if (e->op == GP_OP_ALLOC) {
		info->requested_bytes += e->size;
		info->live_bytes += e->size;
		info->by_size[info_class(e->size)]++;
		info->streams[e->stream].n_allocs++;
		info->streams[e->stream].bytes += e->size;
	}
	/* Before the end of a block counts: it was live up to here. */
	info->curve[window] = gp_max_u64(info->curve[window], info->live_bytes);
	if (e->op == GP_OP_RECLAIM || (e->op == GP_OP_FREE && !deferred))
		info_ended(info, i);
}

int trace_info_count(struct trace_info *info, const struct gp_trace *t)
{
	uint64_t reserved = 0;
	int r;

	*info = (struct trace_info){ .t = t };
	info->streams = calloc(t->n_streams, sizeof(*info->streams));
	info->threads = calloc(t->n_threads, sizeof(*info->threads));
	if (!info->streams || !info->threads)
		return -ENOMEM;
	info->n_windows = (unsigned)gp_min_u64(t->n_events, INFO_WINDOWS);
	info->duration_ns = t->n_events ? t->events[t->n_events - 1].t_ns : 0;
	for (size_t i = 0; i < t->n_events; i++) {
		info_event(info, i);
		info_recorded(info, &t->events[i], &reserved);
	}
	r = sizes_count(&info->sizes, t, false);
	return r ? r : sizes_count(&info->kept, t, true);
}

void trace_info_fini(struct trace_info *info)
{
	free(info->sizes.items);
	free(info->kept.items);
	free(info->streams);
	free(info->threads);
	*info = (struct trace_info){ 0 };
}

/* ---- the command ---- */

struct info_options {
	struct read_options read; /* the first: READ_OPTIONS */
	bool json;
};

static bool parse_flag(void *ctx, const char *name, const char *value)
{
	struct info_options *o = ctx;

	(void)value;
	if (strcmp(name, "json") == 0)
		o->json = true;
	else
		cli_set_quiet(true);
	return true;
}

static const struct cli_option options[] = {
	{ "json", NULL, "as JSON, a document a file, nothing left out", parse_flag },
	{ "quiet", NULL, "no progress bar and no notes", parse_flag },
	READ_OPTIONS,
	{ NULL, NULL, NULL, NULL },
};

static const struct cli_program program = {
	.name = "gpupool-trace info",
	.synopsis = "[OPTION]... FILE...",
	.about = "Says what is in a recording: load, sizes, lifetimes, streams, what is never\n"
		 "freed, phases, and what the recorded allocator held.",
	.options = options,
	.examples = "  gpupool-trace info snapshot.pickle.gz\n"
		    "  gpupool-trace info --json trace.json | jq .load_bytes\n",
};

static int info_file(const struct info_options *o, const char *path)
{
	struct trace_info info = { 0 };
	struct gp_trace *t = NULL;
	char why[512] = "out of memory";
	int r = read_options_load(&o->read, path, &t);

	if (r >= 0)
		return r;
	r = trace_info_count(&info, t);
	if (!r && o->json)
		r = trace_info_json(&info, why, sizeof(why));
	else if (!r)
		trace_info_text(&info);
	if (r)
		cli_error("%s", why);
	trace_info_fini(&info);
	gp_trace_destroy(t);
	return r ? CLI_USAGE : CLI_OK;
}

int trace_info_main(int argc, char **argv)
{
	struct info_options o = { .read.own_words = true };
	int n = 0, r = cli_parse(&program, &o, argc, argv, &n);

	if (r >= 0)
		return r;
	if (!n) {
		cli_error("expected a trace; --help shows examples");
		return CLI_USAGE;
	}
	r = CLI_OK;
	for (int i = 0; i < n && r == CLI_OK; i++) {
		if (i && !o.json)
			putchar('\n');
		r = info_file(&o, argv[i]);
	}
	return cli_flush_output() ? r : CLI_USAGE;
}
