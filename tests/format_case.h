/* SPDX-License-Identifier: Apache-2.0
 *
 * format_case: files written down in a test, and what a reader makes of them.
 *
 * A good one is told by its events, one word group each:
 *
 *   "a0 1048576 s0 h0 +0; f0 h1 +391000; o 34359738368 s1 h0 +392000;"
 *
 * alloc, free, oom; block, bytes; dense stream; dense thread ("hand"); ns. '!' behind an 'a':
 * assumed. Include after cmocka.h.
 */
#ifndef TESTS_FORMAT_CASE_H
#define TESTS_FORMAT_CASE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/formats/format.h"

struct good_case {
	const char *text;
	const char *events;
	const char *note; /* a piece of one of its notes; NULL: it has none */
};

struct bad_case {
	const char *text;
	unsigned line;
	const char *what;
	enum gp_skip kind; /* what lenient counts, once; GP_SKIP_N: it refuses too */
	const char *kept;  /* events, under lenient */
};

static int format_load(const void *data, size_t n, const struct gp_trace_options *options,
		       struct gp_trace **t, char *why, size_t why_size)
{
	struct gp_input *in = gp_input_open_memory("file", data, n);
	int r;

	assert_non_null(in);
	*t = NULL;
	memset(why, 0, why_size);
	r = gp_trace_load_input(in, options, t, why, why_size);
	gp_input_close(in);
	return r;
}

static void format_tell_event(FILE *out, const struct gp_event *e)
{
	unsigned long long size = e->size, ns = e->t_ns;

	if (e->op == GP_OP_ALLOC)
		fprintf(out, "a%s%u %llu s%u h%u +%llu; ",
			gp_event_flags(e) & GP_EVENT_ASSUMED ? "!" : "", e->id, size, e->stream,
			e->thread, ns);
	else if (e->op == GP_OP_FREE)
		fprintf(out, "f%u h%u +%llu; ", e->id, e->thread, ns);
	else
		fprintf(out, "%c %llu s%u h%u +%llu; ", gp_op_name(e->op)[0], size, e->stream,
			e->thread, ns);
}

static void format_expect_events(const struct gp_trace *t, const char *want, const char *text)
{
	char *got = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&got, &n);

	assert_non_null(out);
	for (size_t i = 0; i < t->n_events; i++)
		format_tell_event(out, &t->events[i]);
	assert_int_equal(fclose(out), 0);
	while (n && got[n - 1] == ' ')
		got[--n] = 0;
	if (strcmp(got, want))
		fail_msg("events\n  %s\nexpected\n  %s\nof:\n%.400s", got, want, text);
	free(got);
}

static bool format_has_note(const struct gp_trace *t, const char *piece)
{
	for (uint32_t i = 0; i < t->n_notes; i++)
		if (strstr(t->notes[i], piece))
			return true;
	return false;
}

static void format_reads(const void *data, size_t n, const struct gp_trace_options *options,
			 const char *events, const char *note, const char *text)
{
	struct gp_trace *t;
	char why[512];

	if (format_load(data, n, options, &t, why, sizeof(why)))
		fail_msg("\"%s\" for:\n%.400s", why, text);
	format_expect_events(t, events, text);
	if (note && !format_has_note(t, note))
		fail_msg("no note \"%s\" for:\n%.400s", note, text);
	if (!note && t->n_notes)
		fail_msg("note \"%s\" for:\n%.400s", t->notes[0], text);
	gp_trace_destroy(t);
}

static void format_refuses(const void *data, size_t n, const struct gp_trace_options *options,
			   unsigned line, const char *what, const char *text)
{
	char why[512], place[32];
	struct gp_trace *t;
	int r = format_load(data, n, options, &t, why, sizeof(why));

	snprintf(place, sizeof(place), "file:%u: ", line);
	if (r != -EINVAL || strncmp(why, place, strlen(place)) || !strstr(why, what) ||
	    !strstr(why, "expected ") || strchr(why, '\n') || t)
		fail_msg("result %d, \"%s\"; expected -EINVAL and \"%s... %s ...\" for:\n%.400s", r,
			 why, place, what, text);
}

/* Lenient counts this once and nothing else. */
static void format_counts(const void *data, size_t n, enum gp_skip kind, const char *kept,
			  const char *text)
{
	struct gp_trace_options options = { .lenient = true };
	struct gp_trace *t;
	char why[512];
	int r = format_load(data, n, &options, &t, why, sizeof(why));

	if (kind == GP_SKIP_N) {
		if (r != -EINVAL)
			fail_msg("lenient: result %d, expected a refusal of:\n%.400s", r, text);
		return;
	}
	if (r)
		fail_msg("lenient: \"%s\" for:\n%.400s", why, text);
	for (enum gp_skip k = 0; k < GP_SKIP_N; k++)
		if (t->skipped[k] != (k == kind))
			fail_msg("lenient: %s counts %llu for:\n%.400s", gp_skip_name(k),
				 (unsigned long long)t->skipped[k], text);
	format_expect_events(t, kept, text);
	gp_trace_destroy(t);
}

static inline void format_good_cases(const struct good_case *cases, size_t n,
				     const struct gp_trace_options *options)
{
	for (size_t i = 0; i < n; i++)
		format_reads(cases[i].text, strlen(cases[i].text), options, cases[i].events,
			     cases[i].note, cases[i].text);
}

static inline void format_bad_cases(const struct bad_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *text = cases[i].text;

		format_refuses(text, strlen(text), NULL, cases[i].line, cases[i].what, text);
		format_counts(text, strlen(text), cases[i].kind, cases[i].kept, text);
	}
}

#endif
