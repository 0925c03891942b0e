/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_explain: the first failed request of each run: a sentence with the reason, then the facts
 * that it follows from, then what would have helped.
 *
 * Threads   main thread only
 */
#include "replay_explain.h"

#include <stdarg.h>
#include <string.h>

#include "cli.h"
#include "replay/explain.h"

#define TEXT    32u /* of cli_bytes and the like */
#define COUNTED 48u

#define BOLD  "\033[1m"
#define PLAIN "\033[0m"

/* Streams that are told one by one. */
#define STREAMS_SHOWN 8

/* A line "    word      text"; a word of "" goes on with the one before. */
static void line(FILE *out, const char *word, const char *fmt, ...) GP_PRINTF(3, 4);

static void line(FILE *out, const char *word, const char *fmt, ...)
{
	va_list ap;

	fprintf(out, "    %-10s", word);
	va_start(ap, fmt);
	vfprintf(out, fmt, ap);
	va_end(ap);
	fputc('\n', out);
}

/* "1 block", "1 234 blocks" in text[COUNTED]. */
static const char *counted(char *text, uint64_t n, const char *what)
{
	char number[TEXT];

	snprintf(text, COUNTED, "%s %s%s", cli_number(number, n), what, n == 1 ? "" : "s");
	return text;
}

/* ---- the sentence ---- */

static void say_limit(FILE *out, const struct gp_oom *o)
{
	char a[TEXT], b[TEXT], c[TEXT];

	if (!o->limit)
		fprintf(out,
			"limit: the device has %s left, which were not taken: a limit of the "
			"allocator's own, or a decorator",
			cli_bytes(a, o->device_free));
	else if (o->requested + o->size > o->limit)
		fprintf(out,
			"limit: %s are live; with this request, that is %s over the limit of %s",
			cli_bytes(a, o->requested), cli_bytes(b, o->requested + o->size - o->limit),
			cli_bytes(c, o->limit));
	else
		fprintf(out, "limit: the allocator may hold %s and has %s; the device has %s left",
			cli_bytes(a, o->limit), cli_bytes(b, o->reserved),
			cli_bytes(c, o->device_free));
}

static void say_held(FILE *out, const struct gp_oom *o)
{
	char a[TEXT], b[TEXT];

	if (o->cause == GP_OOM_POOL_HELD)
		fprintf(out,
			"held by another pool: a piece of %s is free there; in its own, the largest "
			"is %s",
			cli_bytes(a, o->held_pool_bytes), cli_bytes(b, o->pool_largest));
	else if (o->held_stream_bytes)
		fprintf(out,
			"held by another stream: a piece of %s is free there; on its own, the "
			"largest is %s",
			cli_bytes(a, o->held_stream_bytes), cli_bytes(b, o->pool_largest));
	else
		fputs("held by another stream: memory is free, but on streams that it cannot be "
		      "taken from",
		      out);
}

static void say_rounding(FILE *out, const struct gp_oom *o)
{
	uint64_t hole = o->knows_pools ? o->pool_largest : o->largest_hole;
	char a[TEXT], b[TEXT], c[TEXT];

	if (o->largest_piece < o->size)
		fprintf(out, "rounding: blocks of %s take up %s, and this one takes %s",
			cli_bytes(a, o->requested), cli_bytes(b, o->granted_live),
			cli_bytes(c, o->granted));
	else if (o->largest_piece < o->granted)
		fprintf(out, "rounding: it takes %s, and the largest piece is %s",
			cli_bytes(a, o->granted), cli_bytes(b, o->largest_piece));
	else if (hole < o->granted && o->growth < o->segment)
		fprintf(out, "rounding: it takes %s of the device, which has %s left for it",
			cli_bytes(a, o->segment), cli_bytes(b, o->growth));
	else
		fprintf(out,
			"rounding: a piece of %s is free, but not of a size or at a place that this "
			"allocator can use for %s",
			cli_bytes(a, o->largest_piece), cli_bytes(b, o->granted));
}

static void say_why(FILE *out, const struct gp_oom *o)
{
	char a[TEXT], b[TEXT], c[TEXT];

	switch (o->cause) {
	case GP_OOM_REFUSED:
		fputs("refused: the allocator does not serve it, by its own rule", out);
		break;
	case GP_OOM_OVER_CAPACITY:
		fprintf(out, "over capacity: with %s live, that is %s more than the %s there are",
			cli_bytes(a, o->requested),
			cli_bytes(b, o->requested + o->size - o->capacity),
			cli_bytes(c, o->capacity));
		break;
	case GP_OOM_LIMIT:
		say_limit(out, o);
		break;
	case GP_OOM_STREAM_HELD:
	case GP_OOM_POOL_HELD:
		say_held(out, o);
		break;
	case GP_OOM_ROUNDING:
		say_rounding(out, o);
		break;
	case GP_OOM_FRAGMENTATION:
	case GP_OOM_N:
		fprintf(out, "fragmentation: %s are free, the largest piece is %s",
			cli_bytes(a, o->free_bytes + o->growth), cli_bytes(b, o->largest_piece));
		break;
	}
}

static void print_sentence(FILE *out, const struct gp_run *run, const char *bold, const char *plain)
{
	const struct gp_oom *o = run->oom;
	char event[TEXT], size[TEXT];

	fprintf(out, "%s%s%s: event %s: alloc of %s on stream %lu failed: ", bold, run->label,
		plain, cli_number(event, o->event), cli_bytes(size, o->size),
		(unsigned long)o->stream);
	say_why(out, o);
	fputc('\n', out);
}

/* ---- the facts ---- */

static void print_memory(FILE *out, const struct gp_oom *o)
{
	char a[TEXT], b[TEXT], c[TEXT], n[COUNTED];

	line(out, "live", "%s in %s, %s as granted", cli_bytes(a, o->requested),
	     counted(n, o->live_blocks, "block"), cli_bytes(c, o->granted_live));
	line(out, "request", "%s, %s as granted", cli_bytes(a, o->size), cli_bytes(b, o->granted));
	line(out, "reserved", "%s of %s; %s free in %s", cli_bytes(a, o->reserved),
	     cli_bytes(b, o->capacity), cli_bytes(c, o->free_bytes),
	     counted(n, o->n_holes, "hole"));
	line(out, "", "the largest hole has %s, the device has %s left",
	     cli_bytes(a, o->largest_hole), cli_bytes(b, o->device_free));
	if (!o->knows_pools)
		return;
	line(out, "pool", "%s%s: %s free on stream %lu, the largest piece %s",
	     o->large ? "large" : "small", o->pool ? ", private" : "", cli_bytes(a, o->pool_free),
	     (unsigned long)o->stream, cli_bytes(b, o->pool_largest));
}

static void print_stream(FILE *out, const struct gp_oom *o, const struct gp_oom_stream *s)
{
	char word[TEXT], a[TEXT], b[TEXT], blocks[COUNTED], text[160];
	int n = snprintf(text, sizeof(text), "%s in %s", cli_bytes(a, s->granted_bytes),
			 counted(blocks, s->live_blocks, "block"));

	if (s->deferred_bytes)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      ", %s of them still in use elsewhere",
			      cli_bytes(a, s->deferred_bytes));
	if (o->knows_pools)
		snprintf(text + n, sizeof(text) - (size_t)n, "; %s cached, the largest piece %s",
			 cli_bytes(a, s->free_bytes), cli_bytes(b, s->largest_bytes));
	snprintf(word, sizeof(word), "stream %lu", (unsigned long)s->stream);
	line(out, word, "%s", text);
}

static void print_streams(FILE *out, const struct gp_oom *o)
{
	char n[TEXT];

	for (size_t i = 0; i < o->n_streams && i < STREAMS_SHOWN; i++)
		print_stream(out, o, &o->streams[i]);
	if (o->n_streams > STREAMS_SHOWN)
		line(out, "", "and %s more streams (all are in result.json)",
		     cli_number(n, o->n_streams - STREAMS_SHOWN));
}

static void print_block(FILE *out, const struct gp_oom_block *b)
{
	char size[TEXT], event[TEXT], time[TEXT], age[COUNTED];

	if (b->assumed)
		line(out, "", "  %-9s stream %lu, older than the recording",
		     cli_bytes(size, b->granted), (unsigned long)b->stream);
	else /* a trace may have no times */
		line(out, "", "  %-9s stream %lu, since event %s: %s%s%s",
		     cli_bytes(size, b->granted), (unsigned long)b->stream,
		     cli_number(event, b->event), counted(age, b->age_events, "event"),
		     b->age_ns ? ", " : "", b->age_ns ? cli_time(time, (double)b->age_ns) : "");
}

static void print_pins(FILE *out, const struct gp_oom *o)
{
	char a[TEXT], b[TEXT], n[COUNTED];

	for (size_t i = 0; i < o->n_pins; i++) {
		const struct gp_oom_pin *p = &o->pins[i];

		line(out, i ? "" : "pinned", "%s of %s at 0x%llx, by %s of %s",
		     p->whole ? "a segment" : "a stretch", cli_bytes(a, p->range.size),
		     (unsigned long long)p->range.addr, counted(n, p->live_blocks, "block"),
		     cli_bytes(b, p->live_bytes));
		for (size_t k = 0; k < p->n_blocks; k++)
			print_block(out, &p->blocks[k]);
		if (p->live_blocks > p->n_blocks)
			line(out, "", "  and %s smaller",
			     cli_number(a, p->live_blocks - p->n_blocks));
	}
}

/* ---- what would have helped ---- */

static void print_setting(FILE *out, const char *word, const struct gp_oom *o,
			  const struct gp_oom_setting *s, int width)
{
	char a[TEXT];

	if (s->survived)
		line(out, word, "%-*s  serves the whole trace, %s reserved", width, s->text,
		     cli_bytes(a, s->peak_reserved));
	else if (s->first_event == o->event)
		line(out, word, "%-*s  fails there too", width, s->text);
	else
		line(out, word, "%-*s  %s, at event %s", width, s->text,
		     s->first_event > o->event ? "serves it, fails later" : "fails sooner",
		     cli_number(a, s->first_event));
}

static void print_settings(FILE *out, const struct gp_oom *o)
{
	char a[TEXT], b[TEXT];
	int width = 0;

	if (o->cause == GP_OOM_OVER_CAPACITY) {
		line(out, "nearest", "no setting helps: %s would be live at event %s",
		     cli_bytes(a, o->requested + o->size), cli_number(b, o->event));
		return;
	}
	if (!o->tried)
		return;
	for (size_t i = 0; i < o->n_settings; i++)
		width = (int)gp_max_u64((uint64_t)width, strlen(o->settings[i].text));
	for (size_t i = 0; i < o->n_settings; i++)
		print_setting(out, i ? "" : "tried", o, &o->settings[i], width);
	if (o->best < o->n_settings)
		line(out, "nearest", "--alloc=%s", o->settings[o->best].spec);
	else
		line(out, "nearest", "%s: --alloc=all compares the other allocators",
		     o->n_settings ? "none of these serves it" : "there is no setting to try");
}

void replay_explain_print(FILE *out, const struct gp_report *report, bool colour)
{
	for (size_t i = 0; i < report->n_runs; i++) {
		const struct gp_run *run = report->runs[i];

		if (!run->oom)
			continue;
		fputc('\n', out);
		print_sentence(out, run, colour ? BOLD : "", colour ? PLAIN : "");
		print_memory(out, run->oom);
		print_streams(out, run->oom);
		print_pins(out, run->oom);
		print_settings(out, run->oom);
	}
}
