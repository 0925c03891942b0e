/* SPDX-License-Identifier: Apache-2.0
 *
 * test_binary: the trace that is mapped: where its memory comes from, and that nothing in a damaged
 * or hostile file gets past the check.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <unistd.h>

#include "replay/formats/format.h"
#include "replay/formats/gpupool_binary.h"
#include "replay/writers/writer.h"
#include "same_trace.h"

/* A file in memory. */
struct file {
	char *bytes;
	size_t n;
};

static struct file rich_file(void)
{
	struct gp_trace *t = rich_trace();
	struct file f;
	char why[512];

	assert_int_equal(gp_writer_save(gp_writer_find("binary"), t, same_path("rich.gpt"), false,
					NULL, why, sizeof(why)),
			 0);
	gp_trace_destroy(t);
	f.bytes = same_slurp(same_path("rich.gpt"), &f.n);
	return f;
}

static int load(const void *bytes, size_t n, struct gp_trace **t, char *why, size_t why_size)
{
	struct gp_input *in = gp_input_open_memory("file", bytes, n);
	int r;

	assert_non_null(in);
	*t = NULL;
	r = gp_trace_load_input(in, NULL, t, why, why_size);
	gp_input_close(in);
	return r;
}

static void refuses(const struct file *f, size_t n, const char *what)
{
	struct gp_trace *t;
	char why[512] = "";
	int r = load(f->bytes, n, &t, why, sizeof(why));

	if (r != -EINVAL || t || !strstr(why, what) || !strstr(why, "expected") ||
	    strchr(why, '\n') || strncmp(why, "file:", 5) != 0)
		fail_msg("result %d, \"%s\" lacks \"%s\"", r, why, what);
}

/* ---- good files ---- */

static void a_file_is_mapped_and_all_else_is_copied(void **state)
{
	struct gp_trace *t = rich_trace(), *back;
	struct file f = rich_file();
	char why[512];
	int saved = dup(STDIN_FILENO);

	(void)state;
	back = same_load(same_path("rich.gpt"));
	assert_string_equal(back->format, "gpupool_binary");
	assert_int_equal(back->map_bytes, f.n);
	same_trace(t, back);
	gp_trace_destroy(back);

	assert_int_equal(load(f.bytes, f.n, &back, why, sizeof(why)), 0);
	memset(f.bytes, 0, f.n); /* the trace has its own */
	assert_int_equal(back->map_bytes, 0);
	same_trace(t, back);
	gp_trace_destroy(back);

	assert_non_null(freopen(same_path("rich.gpt"), "r", stdin));
	back = same_load("-");
	dup2(saved, STDIN_FILENO);
	close(saved);
	assert_int_equal(back->map_bytes, 0);
	same_trace(t, back);
	gp_trace_destroy(back);
	free(f.bytes);
	gp_trace_destroy(t);
}

static void an_empty_trace_is_a_trace(void **state)
{
	struct gp_trace *t = trace_of(NULL, 0), *back;
	char why[512];

	(void)state;
	assert_int_equal(gp_writer_save(gp_writer_find("binary"), t, same_path("empty.gpt"), false,
					NULL, why, sizeof(why)),
			 0);
	back = same_load(same_path("empty.gpt"));
	same_trace(t, back);
	gp_trace_destroy(back);
	gp_trace_destroy(t);
}

/* ---- damage ---- */

static void every_truncation_is_noticed(void **state)
{
	struct file f = rich_file();
	struct gp_trace *t;
	char why[512];

	(void)state;
	for (size_t n = 0; n < f.n; n++)
		refuses(&f, n, n < 4 ? "" : n < 8 ? "" : "truncated");
	/* The same through a map. */
	assert_int_equal(truncate(same_path("rich.gpt"), (off_t)f.n - 1), 0);
	assert_int_equal(gp_trace_load(same_path("rich.gpt"), NULL, &t, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "truncated"));
	f.bytes[f.n] = 'x'; /* same_slurp() left room */
	refuses(&f, f.n + 1, "something follows");
	free(f.bytes);
}

#define HEAD(f) ((struct gp_binary_header *)(void *)(f)->bytes)

static void sign_header(struct file *f)
{
	HEAD(f)->checksum = gp_binary_checksum(HEAD(f));
}

/* A header that lies, with its checksum right. */
#define LIES(what, ...)                                                                            \
	do {                                                                                       \
		struct file f = rich_file();                                                       \
		struct gp_binary_header *h = HEAD(&f);                                             \
                                                                                                   \
		__VA_ARGS__;                                                                       \
		sign_header(&f);                                                                   \
		refuses(&f, f.n, what);                                                            \
		free(f.bytes);                                                                     \
	} while (0)

static void no_header_is_believed(void **state)
{
	(void)state;
	LIES("line ends were changed", h->magic[4] = '\n');
	LIES("unknown format", h->magic[0] = 'x');
	LIES("another byte order", h->endian = 0x04030201);
	LIES("version 2, expected 1", h->version = 2);
	LIES("a header of 120", h->header_bytes = 120);
	LIES("events of 40 bytes", h->event_bytes = 40);
	LIES("truncated", h->file_bytes++);
	LIES("something follows", h->file_bytes--);
	LIES("truncated", h->file_bytes = UINT64_MAX);
	LIES("something follows", h->file_bytes = 0);
	LIES("a wrong tail", h->n_events++);
	LIES("a wrong tail", h->n_events = UINT64_MAX / 32 + 1);
	LIES("outside of the file", h->events_at = UINT64_MAX - 63);
	LIES("outside of the file", h->events_at = 0);
	LIES("outside of the file", h->events_at += 32);
	LIES("outside of the file", h->events_at = h->file_bytes & ~UINT64_C(63));
	LIES("outside of the file", h->addrs_at = h->file_bytes - 16);
	LIES("outside of the file", h->addrs_at++);
	LIES("outside of the file", h->pools_at = h->file_bytes - 16);
	LIES("outside of the file", h->pools_at = 1);
	LIES("outside of the file", h->streams_at += 4);
	LIES("outside of the file", h->n_streams = UINT32_MAX);
	LIES("outside of the file", h->n_threads = UINT32_MAX);
	LIES("outside of the file", h->texts_at = UINT64_MAX);
	LIES("outside of the file", h->texts_bytes = UINT64_MAX);
	LIES("impossible counts", h->n_streams = 0);
	LIES("impossible counts", h->n_threads = 0);
	LIES("impossible counts", h->n_notes = 1001);
	LIES("not as many texts", h->n_notes--);
	LIES("not as many texts", h->n_notes++);
	LIES("not as many texts", h->n_marks = UINT32_MAX);
	LIES("not as many texts", h->texts_bytes--);
	LIES("as many marks", (h->n_marks--, h->n_notes++));
	LIES("unknown stream or thread", h->n_streams--);
	LIES("unknown stream or thread", h->n_threads--);
}

static void a_flipped_header_is_noticed(void **state)
{
	struct file f = rich_file();

	(void)state;
	for (size_t bit = 0; bit < sizeof(struct gp_binary_header) * 8; bit++) {
		f.bytes[bit / 8] ^= (char)(1 << bit % 8);
		refuses(&f, f.n, "");
		f.bytes[bit / 8] ^= (char)(1 << bit % 8);
	}
	free(f.bytes);
}

static struct gp_event *event_of(struct file *f, size_t i)
{
	return (struct gp_event *)(void *)(f->bytes + HEAD(f)->events_at) + i;
}

/* An event that lies. In memory: 0, 1 assumed; 3 alloc, freed by 5; 4 never freed; 8 alloc, freed by
 * 11; 9 free of 0, reclaimed by 10; 2, 17 marks. */
#define EVENT_LIES(i, what, ...)                                                                   \
	do {                                                                                       \
		struct file f = rich_file();                                                       \
		struct gp_event *e = event_of(&f, i);                                              \
                                                                                                   \
		__VA_ARGS__;                                                                       \
		refuses(&f, f.n, what);                                                            \
		free(f.bytes);                                                                     \
	} while (0)

static void no_event_is_believed(void **state)
{
	(void)state;
	EVENT_LIES(3, "event 4: an alloc out of order", e->id++);
	EVENT_LIES(3, "event 4: an alloc whose free is not behind it", e->link = 3);
	EVENT_LIES(3, "event 4: an alloc whose free is not behind it", e->link = 0);
	EVENT_LIES(3, "event 4: an alloc whose free is not behind it", e->link = 18);
	EVENT_LIES(3, "event 6: a free that does not belong", e->link = 11);
	EVENT_LIES(3, "event 6: a free that does not belong", e->link = GP_EVENT_NONE);
	EVENT_LIES(4, "whose end is missing", e->link = 11);
	EVENT_LIES(4, "whose end is missing", e->link = 12);
	EVENT_LIES(3, "an alloc with impossible flags", e->lg_align_flags = 61);
	EVENT_LIES(3, "an alloc with impossible flags",
		   e->lg_align_flags |= GP_EVENT_DEFERRED << 6);
	EVENT_LIES(3, "an assumed alloc behind others", e->lg_align_flags |= GP_EVENT_ASSUMED << 6);
	EVENT_LIES(0, "event 2: an assumed alloc behind others", e->lg_align_flags = 0);
	EVENT_LIES(3, "more than 2^63 bytes", e->size = UINT64_C(1) << 63);
	EVENT_LIES(3, "more than 2^63 bytes", e->size = UINT64_MAX);
	EVENT_LIES(3, "event 6: a free that does not belong", e->size--);
	EVENT_LIES(3, "event 6: a free that does not belong", e->stream = 0);
	EVENT_LIES(5, "event 6: a free that does not belong", e->id = 0);
	EVENT_LIES(5, "event 6: a free that does not belong", e->link = 4);
	EVENT_LIES(5, "event 6: a free that does not belong", e->link = 2);
	EVENT_LIES(5, "event 6: a free whose alloc is not before it", e->link = 5);
	EVENT_LIES(5, "event 6: a free whose alloc is not before it", e->link = 8);
	EVENT_LIES(5, "event 6: a free whose alloc is not before it", e->link = GP_EVENT_NONE);
	EVENT_LIES(5, "event 6: a free whose alloc is not before it", e->lg_align_flags = 3);
	EVENT_LIES(9, "event 10: a free whose reclaim is not behind it", e->link = 9);
	EVENT_LIES(9, "event 10: a free whose reclaim is not behind it", e->link = 18);
	EVENT_LIES(9, "event 11: a reclaim that does not belong", e->link = 11);
	EVENT_LIES(9, "event 10: a free whose alloc", e->lg_align_flags = 0);
	EVENT_LIES(9, "event 11: a reclaim that does not belong", e->thread++);
	EVENT_LIES(10, "event 11: a reclaim that does not belong", e->link = 3);
	EVENT_LIES(10, "event 11: a reclaim that does not belong", e->link = 2);
	EVENT_LIES(10, "event 11: a reclaim that does not belong", e->link = UINT32_MAX);
	EVENT_LIES(10, "event 11: a reclaim that does not belong", e->size = 1);
	EVENT_LIES(
		10, "whose end is missing",
		*e = (struct gp_event){ .op = GP_OP_TRIM, .link = GP_EVENT_NONE, .t_ns = e->t_ns });
	EVENT_LIES(2, "an impossible number", e->id = 1);
	EVENT_LIES(2, "an unknown op", e->op = GP_OP_N);
	EVENT_LIES(2, "an unknown op", e->op = 255);
	EVENT_LIES(13, "an impossible value", e->size = 1);
	EVENT_LIES(13, "an impossible value", e->stream = 1);
	EVENT_LIES(13, "an impossible value", e->link = 0);
	EVENT_LIES(13, "an impossible number", e->id = 1);
	EVENT_LIES(12, "an impossible value", e->size = UINT64_MAX);
	EVENT_LIES(6, "an impossible value", e->thread = 1);
	EVENT_LIES(13, "time goes back", e->t_ns -= 2);
	EVENT_LIES(13, "unknown stream or thread", e->thread = UINT16_MAX);
	EVENT_LIES(3, "unknown stream or thread", e->stream = UINT32_MAX);
}

/* What a replay builds on. */
static void audit(const struct gp_trace *t)
{
	uint64_t live = 0, most = 0;
	uint32_t ids = 0;

	for (size_t i = 0; i < t->n_events; i++) {
		const struct gp_event *e = &t->events[i], *other = &t->events[e->link];
		bool deferred = (gp_event_flags(e) & GP_EVENT_DEFERRED) != 0;

		assert_true(e->op < GP_OP_N && e->stream < t->n_streams);
		assert_true(e->thread < t->n_threads && (!i || e->t_ns >= e[-1].t_ns));
		if (e->op == GP_OP_ALLOC) {
			assert_int_equal(e->id, ids++);
			assert_true(e->link == GP_EVENT_NONE ||
				    (e->link < t->n_events && other->op == GP_OP_FREE &&
				     other->id == e->id && other > e));
			live += e->size;
			most = gp_max_u64(most, live);
		} else if (e->op == GP_OP_FREE || e->op == GP_OP_RECLAIM) {
			assert_true(e->link < t->n_events && other->id == e->id);
			assert_int_equal(other->op, deferred ? GP_OP_RECLAIM : GP_OP_ALLOC);
			live -= deferred ? 0 : e->size;
		} else if (e->op == GP_OP_MARK) {
			assert_true(e->id < t->n_marks);
		}
	}
	assert_int_equal(ids, t->n_ids);
	assert_int_equal(most, t->load_bytes);
}

/* One bit after the other of all events: refused, or a trace that keeps the rules. */
static void a_flipped_event_is_refused_or_harmless(void **state)
{
	struct file f = rich_file();
	size_t from = HEAD(&f)->events_at, n = HEAD(&f)->n_events * sizeof(struct gp_event);
	unsigned refused = 0;

	(void)state;
	for (size_t bit = from * 8; bit < (from + n) * 8; bit++) {
		struct gp_trace *t;
		char why[512];

		f.bytes[bit / 8] ^= (char)(1 << bit % 8);
		if (load(f.bytes, f.n, &t, why, sizeof(why)) == 0)
			audit(t);
		else
			refused++;
		gp_trace_destroy(t);
		f.bytes[bit / 8] ^= (char)(1 << bit % 8);
	}
	/* Only times, sizes and alignments that are nobody else's can change unnoticed. */
	assert_in_range(refused, n * 8 / 2, n * 8);
	free(f.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_mapped_and_all_else_is_copied),
		cmocka_unit_test(an_empty_trace_is_a_trace),
		cmocka_unit_test(every_truncation_is_noticed),
		cmocka_unit_test(no_header_is_believed),
		cmocka_unit_test(a_flipped_header_is_noticed),
		cmocka_unit_test(no_event_is_believed),
		cmocka_unit_test(a_flipped_event_is_refused_or_harmless),
	};

	return cmocka_run_group_tests(tests, same_make_dir, same_remove_dir);
}
