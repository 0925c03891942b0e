/* SPDX-License-Identifier: Apache-2.0
 *
 * fmt_case: tables of small files and of what a reader must make of each.
 *
 * A trace is spelled in one line: a0:512@7 allocates block 0 of 512 bytes at 7 ns, f0@9 frees it,
 * A1:64@0 was assumed to be live before, o:100@3 is out of memory, m{step 1}@4 is a mark; #2 is
 * stream 2 and /1 is thread 1, where they are not 0.
 *
 * Include after cmocka.h.
 */
#ifndef TESTS_FMT_CASE_H
#define TESTS_FMT_CASE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/formats/format.h"

struct fmt_good {
	const char *what; /* the case, in words */
	const char *text;
	const char *spelled;
	const char *note; /* in one of the notes; NULL: do not look */
	struct gp_trace_options options;
};

struct fmt_bad {
	const char *text;
	const char *place; /* "3: " is line 3 */
	const char *why;
	/* What lenient reading makes of it; NULL: it refuses too. */
	const char *lenient;
	enum gp_skip kind;
	uint64_t count;
	struct gp_trace_options options;
};

static inline int fmt_load(const char *text, size_t n, const struct gp_trace_options *options,
			   struct gp_trace **t, char *why, size_t why_size)
{
	struct gp_input *in = gp_input_open_memory("in", text, n);
	int r;

	assert_non_null(in);
	*t = NULL;
	memset(why, 0, why_size);
	r = gp_trace_load_input(in, options, t, why, why_size);
	gp_input_close(in);
	return r;
}

static inline void fmt_spell_event(FILE *f, const struct gp_trace *t, const struct gp_event *e)
{
	bool assumed = e->op == GP_OP_ALLOC && gp_event_flags(e) & GP_EVENT_ASSUMED;

	if (e->op == GP_OP_MARK)
		fprintf(f, "m{%s}", t->marks[e->id]);
	else if (e->op == GP_OP_ALLOC)
		fprintf(f, "%c%u:%llu", assumed ? 'A' : 'a', e->id, (unsigned long long)e->size);
	else if (e->op == GP_OP_FREE)
		fprintf(f, "f%u", e->id);
	else
		fprintf(f, "%s:%llu", e->op == GP_OP_OOM ? "o" : gp_op_name((enum gp_op)e->op),
			(unsigned long long)e->size);
	fprintf(f, "@%llu", (unsigned long long)e->t_ns);
	if (e->stream)
		fprintf(f, "#%u", e->stream);
	if (e->thread)
		fprintf(f, "/%u", e->thread);
}

/* The caller frees it. */
static inline char *fmt_spell(const struct gp_trace *t)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	for (size_t i = 0; i < t->n_events; i++) {
		if (i)
			fputc(' ', f);
		fmt_spell_event(f, t, &t->events[i]);
	}
	assert_int_equal(fclose(f), 0);
	return text;
}

static inline bool fmt_has_note(const struct gp_trace *t, const char *note)
{
	for (uint32_t i = 0; i < t->n_notes; i++)
		if (strstr(t->notes[i], note))
			return true;
	return false;
}

static inline void fmt_check_spelling(const struct gp_trace *t, const char *spelled,
				      const char *text)
{
	char *found = fmt_spell(t);

	if (strcmp(found, spelled))
		fail_msg("read as\n%s, expected\n%s, for:\n%.400s", found, spelled, text);
	free(found);
}

static inline void fmt_check_good(const struct fmt_good *c, const char *format)
{
	struct gp_trace *t;
	char why[512];

	if (fmt_load(c->text, strlen(c->text), &c->options, &t, why, sizeof(why)))
		fail_msg("%s: refused: %s", c->what, why);
	if (strcmp(t->format, format))
		fail_msg("%s: read by %s", c->what, t->format);
	fmt_check_spelling(t, c->spelled, c->text);
	if (c->note && !fmt_has_note(t, c->note))
		fail_msg("%s: no note has \"%s\"", c->what, c->note);
	for (enum gp_skip k = 0; k < GP_SKIP_N; k++)
		assert_int_equal(t->skipped[k], 0);
	gp_trace_destroy(t);
}

static inline void fmt_check_lenient(const struct fmt_bad *c)
{
	struct gp_trace_options options = c->options;
	struct gp_trace *t;
	char why[512];
	int r;

	options.lenient = true;
	r = fmt_load(c->text, strlen(c->text), &options, &t, why, sizeof(why));
	if (!c->lenient) {
		if (r != -EINVAL)
			fail_msg("lenient: result %d for:\n%.400s", r, c->text);
		return;
	}
	if (r)
		fail_msg("lenient: refused: %s, for:\n%.400s", why, c->text);
	fmt_check_spelling(t, c->lenient, c->text);
	for (enum gp_skip k = 0; k < GP_SKIP_N; k++)
		if (t->skipped[k] != (k == c->kind ? c->count : 0))
			fail_msg("lenient: %s counts %llu for:\n%.400s", gp_skip_name(k),
				 (unsigned long long)t->skipped[k], c->text);
	gp_trace_destroy(t);
}

static inline void fmt_check_bad(const struct fmt_bad *c)
{
	struct gp_trace *t;
	char why[512], place[64];
	int r = fmt_load(c->text, strlen(c->text), &c->options, &t, why, sizeof(why));

	snprintf(place, sizeof(place), "in:%s", c->place);
	if (r != -EINVAL || strncmp(why, place, strlen(place)) || !strstr(why, c->why) ||
	    !strstr(why, "expected") || strchr(why, '\n') || t)
		fail_msg("result %d, \"%s\"; expected -EINVAL and \"%s... %s ...\" for:\n%.400s", r,
			 why, place, c->why, c->text);
	fmt_check_lenient(c);
}

#endif
