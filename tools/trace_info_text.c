/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_info_text: gpupool-trace info for people: about a screen, the rest is in --json.
 *
 * Shape     bars and the curve are drawn with block elements where the locale says UTF-8, else with
 *           ASCII.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "trace_info.h"

#define TEXT_TOP   8u  /* lines of a list that may be long */
#define TEXT_MARKS 12u /* the same for phases */
#define TEXT_BAR   32u /* cells */

static bool text_is_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < GP_ARRAY_LEN(names); i++) {
		const char *value = getenv(names[i]);

		/* The first that is set decides, as in setlocale(). */
		if (value && value[0])
			return strstr(value, "UTF-8") || strstr(value, "utf8") ||
			       strstr(value, "UTF8") || strstr(value, "utf-8");
	}
	return false;
}

/* share of eight levels, 0 only for nothing */
static const char *text_level(uint64_t n, uint64_t most, bool utf8)
{
	static const char *const blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const ascii[] = { " ", "_", ".", ":", "-", "=", "+", "*", "#" };
	unsigned level = n && most ? 1 + (unsigned)((double)n / (double)most * 7.0) : 0;

	return utf8 ? blocks[level] : ascii[level];
}

static void text_bar(uint64_t n, uint64_t most, bool utf8)
{
	unsigned cells = most ? (unsigned)((double)n / (double)most * TEXT_BAR + 0.5) : 0;

	for (unsigned i = 0; i < cells; i++)
		fputs(utf8 ? "█" : "#", stdout);
	if (!cells && n)
		fputs(utf8 ? "▏" : "|", stdout);
	putchar('\n');
}

static void text_head(const struct trace_info *info)
{
	const struct gp_trace *t = info->t;
	char a[32], b[32], c[32];

	printf("%s: %s\n", t->path, t->format[0] ? t->format : "trace");
	if (t->name[0])
		printf("  name       %s\n", t->name);
	if (t->source[0])
		printf("  source     %s\n", t->source);
	if (t->device_name[0] || t->device_bytes)
		printf("  device     %s%s%s\n", t->device_name,
		       t->device_name[0] && t->device_bytes ? ", " : "",
		       t->device_bytes ? cli_bytes(a, t->device_bytes) : "");
	printf("  events     %s: %s allocations, %s frees", cli_number(a, t->n_events),
	       cli_number(b, t->n_allocs), cli_number(c, t->n_frees));
	for (enum gp_op op = GP_OP_RECLAIM; op < GP_OP_N; op++)
		if (info->n_ops[op])
			printf(", %s %s", cli_number(a, info->n_ops[op]), gp_op_name(op));
	putchar('\n');
	if (info->duration_ns)
		printf("  time       %s\n", cli_time(a, (double)info->duration_ns));
	printf("  load       %s (%llu bytes), first at event %s\n", cli_bytes(a, t->load_bytes),
	       (unsigned long long)t->load_bytes,
	       cli_number(b, t->n_events ? t->load_event + 1 : 0));
	printf("  requested  %s in all, %s still live at the end\n",
	       cli_bytes(a, info->requested_bytes), cli_bytes(b, info->live_bytes));
}

static void text_curve(const struct trace_info *info, bool utf8)
{
	if (!info->n_windows)
		return;
	printf("  live       ");
	for (unsigned i = 0; i < info->n_windows; i++)
		fputs(text_level(info->curve[i], info->t->load_bytes, utf8), stdout);
	putchar('\n');
}

static void text_recorded(const struct trace_info *info)
{
	const uint64_t *n = info->n_ops;
	const struct gp_trace *t = info->t;
	char a[32], b[32], c[32];

	if (info->recorded_peak_bytes) {
		printf("  recorded   the allocator held %s at most (%llu bytes)",
		       cli_bytes(a, info->recorded_peak_bytes),
		       (unsigned long long)info->recorded_peak_bytes);
		printf("; %s allocs, %s frees", cli_number(a, n[GP_OP_SEGMENT_ALLOC]),
		       cli_number(b, n[GP_OP_SEGMENT_FREE]));
		printf(", %s maps, %s unmaps, %s times out of memory\n",
		       cli_number(a, n[GP_OP_SEGMENT_MAP]), cli_number(b, n[GP_OP_SEGMENT_UNMAP]),
		       cli_number(c, n[GP_OP_OOM]));
	}
	if (t->n_assumed)
		printf("  assumed    %s blocks, %s, were live before the recording began\n",
		       cli_number(a, t->n_assumed), cli_bytes(b, t->assumed_bytes));
	for (enum gp_skip k = 0; k < GP_SKIP_N; k++)
		if (t->skipped[k])
			printf("  skipped    %s %s\n", cli_number(a, t->skipped[k]),
			       gp_skip_name(k));
	for (uint32_t i = 0; i < t->n_notes; i++)
		printf("  note       %s\n", t->notes[i]);
}

static void text_more(uint64_t n, uint64_t shown)
{
	char a[32];

	if (n > shown)
		printf("  %12s more\n", cli_number(a, n - shown));
}

static void text_sizes(const struct info_sizes *s, const char *title, bool utf8)
{
	char a[32], b[32], c[32];

	if (!s->count)
		return;
	printf("\n%s: %s blocks, %s, of %s sizes\n", title, cli_number(a, s->count),
	       cli_bytes(b, s->bytes), cli_number(c, s->n));
	for (uint32_t i = 0; i < s->n && i < TEXT_TOP; i++) {
		printf("  %12s  %9s x ", cli_bytes(a, s->items[i].size),
		       cli_number(b, s->items[i].count));
		text_bar(s->items[i].count, s->items[0].count, utf8);
	}
	text_more(s->n, TEXT_TOP);
}

/* Two classes a line: a factor of four. */
static uint64_t text_pair(const uint64_t *counts, unsigned i)
{
	return counts[i] + (i + 1 < INFO_LG ? counts[i + 1] : 0);
}

static void text_classes(const uint64_t *counts, const char *title,
			 const char *(*show)(char *buf, uint64_t n), bool utf8)
{
	uint64_t most = counts[0];
	unsigned first = INFO_LG, last = 0;
	char a[32], b[32];

	for (unsigned i = 1; i < INFO_LG; i += 2) {
		most = gp_max_u64(most, text_pair(counts, i));
		if (text_pair(counts, i)) {
			first = i < first ? i : first;
			last = i;
		}
	}
	if (!most)
		return;
	printf("\n%s\n", title);
	if (counts[0]) {
		printf("  %12s  %9s   ", show(a, 0), cli_number(b, counts[0]));
		text_bar(counts[0], most, utf8);
	}
	for (unsigned i = first; i <= last; i += 2) {
		printf("  %12s  %9s   ", show(a, UINT64_C(1) << (i - 1)),
		       cli_number(b, text_pair(counts, i)));
		text_bar(text_pair(counts, i), most, utf8);
	}
}

static const char *show_time(char *buf, uint64_t ns)
{
	return cli_time(buf, (double)ns);
}

static void text_callers(const struct trace_info *info, bool utf8)
{
	const struct gp_trace *t = info->t;
	uint64_t most = 0, calls = 0;
	char a[32], b[32];

	for (uint32_t i = 0; i < t->n_streams; i++)
		most = gp_max_u64(most, info->streams[i].n_allocs);
	for (uint32_t i = 0; i < t->n_threads; i++)
		calls = gp_max_u64(calls, info->threads[i]);
	printf("\nStreams: %s\n", cli_number(a, t->n_streams));
	for (uint32_t i = 0; i < t->n_streams && i < TEXT_TOP; i++) {
		printf("  %#12llx  %9s x %9s  ", (unsigned long long)t->stream_handles[i],
		       cli_number(a, info->streams[i].n_allocs),
		       cli_bytes(b, info->streams[i].bytes));
		text_bar(info->streams[i].n_allocs, most, utf8);
	}
	text_more(t->n_streams, TEXT_TOP);
	printf("\nThreads: %s\n", cli_number(a, t->n_threads));
	for (uint32_t i = 0; i < t->n_threads && i < TEXT_TOP; i++) {
		printf("  %12llu  %9s   ", (unsigned long long)t->thread_handles[i],
		       cli_number(a, info->threads[i]));
		text_bar(info->threads[i], calls, utf8);
	}
	text_more(t->n_threads, TEXT_TOP);
}

static void text_marks(const struct gp_trace *t)
{
	uint32_t shown = 0;
	char a[32], b[32];

	if (!t->n_marks)
		return;
	printf("\nMarks: %s\n", cli_number(a, t->n_marks));
	for (size_t i = 0; i < t->n_events && shown < TEXT_MARKS; i++) {
		const struct gp_event *e = &t->events[i];

		if (e->op != GP_OP_MARK)
			continue;
		printf("  %12s  event %s  %s\n", cli_time(a, (double)e->t_ns), cli_number(b, i + 1),
		       t->marks[e->id]);
		shown++;
	}
	text_more(t->n_marks, TEXT_MARKS);
}

void trace_info_text(const struct trace_info *info)
{
	bool utf8 = text_is_utf8();

	text_head(info);
	text_curve(info, utf8);
	text_recorded(info);
	text_sizes(&info->sizes, "Sizes, the most frequent first", utf8);
	text_classes(info->by_size, "Allocations by size, from", cli_bytes, utf8);
	if (info->duration_ns)
		text_classes(info->by_time, "Lifetimes, from", show_time, utf8);
	text_classes(info->by_events, "Lifetimes in events, from", cli_number, utf8);
	text_callers(info, utf8);
	text_sizes(&info->kept, "Never freed", utf8);
	text_marks(info->t);
}
