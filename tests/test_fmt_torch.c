/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch memory snapshots. Each case is written as JSON, and read three times: as it is; as Python
 * pickles it (protocol 4: frames, memo, batches, strings by reference); and as PyTorch's own C++
 * does (protocol 2: whole lists at once, wide integers). All three must come to the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "fmt_case.h"
#include "replay/formats/torch_snapshot.h"

/* ---- JSON made into a pickle ---- */

enum style { PYTHON, CXX };

struct pickle {
	enum style style;
	char *data;
	size_t n;
	FILE *f;
	json_t *memo; /* string -> index */
	unsigned n_memo;
};

static void put_le(struct pickle *p, uint64_t x, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fputc((int)(x >> 8 * i & 0xff), p->f);
}

static void put_memo(struct pickle *p)
{
	if (p->style == PYTHON) {
		fputc(0x94, p->f);
	} else if (p->n_memo < 256) {
		fputc('q', p->f);
		put_le(p, p->n_memo, 1);
	} else {
		fputc('r', p->f);
		put_le(p, p->n_memo, 4);
	}
	p->n_memo++;
}

static void put_string(struct pickle *p, const char *s)
{
	json_t *known = json_object_get(p->memo, s);
	size_t n = strlen(s);

	if (known) {
		json_int_t i = json_integer_value(known);

		fputc(i < 256 ? 'h' : 'j', p->f);
		put_le(p, (uint64_t)i, i < 256 ? 1 : 4);
		return;
	}
	if (p->style == PYTHON && n < 256) {
		fputc(0x8c, p->f);
		put_le(p, n, 1);
	} else {
		fputc('X', p->f);
		put_le(p, n, 4);
	}
	fwrite(s, 1, n, p->f);
	json_object_set_new(p->memo, s, json_integer((json_int_t)p->n_memo));
	put_memo(p);
}

static void put_integer(struct pickle *p, json_int_t x)
{
	if (p->style == PYTHON && x >= 0 && x < 256) {
		fputc('K', p->f);
		put_le(p, (uint64_t)x, 1);
	} else if (p->style == PYTHON && x >= 0 && x < 65536) {
		fputc('M', p->f);
		put_le(p, (uint64_t)x, 2);
	} else if (x >= INT32_MIN && x <= INT32_MAX) {
		fputc('J', p->f);
		put_le(p, (uint64_t)x, 4);
	} else {
		fputc(0x8a, p->f);
		put_le(p, 8, 1);
		put_le(p, (uint64_t)x, 8);
	}
}

static void put_value(struct pickle *p, const json_t *v);

/* MARK items APPENDS, a thousand at a time; one alone without a MARK. */
static void put_list(struct pickle *p, const json_t *v)
{
	size_t n = json_array_size(v), batch = p->style == PYTHON ? 1000 : n;

	fputc(']', p->f);
	put_memo(p);
	for (size_t i = 0; i < n; i += batch) {
		size_t end = i + batch < n ? i + batch : n;
		bool one = end - i == 1 && p->style == PYTHON;

		if (!one)
			fputc('(', p->f);
		for (size_t k = i; k < end; k++)
			put_value(p, json_array_get(v, k));
		fputc(one ? 'a' : 'e', p->f);
	}
}

static void put_dict(struct pickle *p, const json_t *v)
{
	bool one = json_object_size(v) == 1 && p->style == PYTHON;
	const char *key;
	json_t *value;

	fputc('}', p->f);
	put_memo(p);
	if (!json_object_size(v))
		return;
	if (!one)
		fputc('(', p->f);
	json_object_foreach((json_t *)(uintptr_t)v, key, value)
	{
		put_string(p, key);
		put_value(p, value);
	}
	fputc(one ? 's' : 'u', p->f);
}

static void put_value(struct pickle *p, const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		put_dict(p, v);
		break;
	case JSON_ARRAY:
		put_list(p, v);
		break;
	case JSON_STRING:
		put_string(p, json_string_value(v));
		break;
	case JSON_INTEGER:
		put_integer(p, json_integer_value(v));
		break;
	case JSON_REAL:
		fputc('G', p->f);
		put_le(p, 0, 8);
		break;
	default:
		fputc(json_is_null(v) ? 'N' : json_is_true(v) ? 0x88 : 0x89, p->f);
	}
}

static struct pickle pickle_of(const char *text, enum style style)
{
	struct pickle p = { .style = style, .memo = json_object() };
	json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);

	p.f = open_memstream(&p.data, &p.n);
	assert_non_null(v);
	assert_non_null(p.f);
	fputc(0x80, p.f);
	fputc(style == PYTHON ? 4 : 2, p.f);
	if (style == PYTHON) {
		fputc(0x95, p.f);
		put_le(&p, 1000, 8);
	}
	put_value(&p, v);
	fputc('.', p.f);
	assert_int_equal(fclose(p.f), 0);
	json_decref(p.memo);
	json_decref(v);
	return p;
}

/* ---- what is read ---- */

/* clang-format off */
#define E(action, rest) "{\"action\":\"" action "\"," rest ",\"stream\":0}"
#define T(action, rest, t)                                                                         \
	"{\"action\":\"" action "\"," rest ",\"stream\":0,\"time_us\":" #t                         \
	",\"compile_context\":\"N/A\",\"user_metadata\":\"\",\"frames\":[{\"name\":\"f\","         \
	"\"filename\":\"a.py\",\"line\":3}]}"
#define ONE(events) "{\"segments\":[],\"device_traces\":[[" events "]]}"
#define STATE(blocks, events)                                                                      \
	"{\"segments\":[" SEG(blocks) "],\"device_traces\":[[" events "]]}"
#define SEG(blocks)                                                                                \
	"{\"device\":0,\"address\":4096,\"total_size\":2097152,\"allocated_size\":0,"              \
	"\"stream\":0,\"segment_pool_id\":[0,0],\"frames\":[],\"blocks\":[" blocks "]}"
#define BLK(addr, size, req, state)                                                                \
	"{\"address\":" #addr ",\"size\":" #size ",\"requested_size\":" #req ",\"state\":\""       \
	state "\",\"frames\":[]}"
#define MARK(stage, name, rest)                                                                    \
	"{\"stage\":\"" stage "\",\"name\":\"" name "\"," rest "}"
#define A1 "\"addr\":4096,\"size\":100"
#define A2 "\"addr\":8192,\"size\":200"
#define SEG2M "\"addr\":4096,\"size\":2097152"

static const struct fmt_good good[] = {
	{ "one event alone",
	  ONE(T("alloc", A1, 7)),
	  "a0:100@0", NULL, { 0 } },
	{ "frees: folded, apart, viewer-made",
	  ONE(T("segment_alloc", SEG2M, 10) ","
	      T("alloc", A1, 10) ","
	      T("alloc", A2, 12) ","
	      T("free_requested", A1, 13) ","
	      T("free_requested", A2, 14) ","
	      T("free_completed", A2, 14) ","
	      T("free_completed", A1, 20) ","
	      T("alloc", A1, 21) ","
	      T("free", A1, 22) ","
	      T("snapshot", "\"addr\":0,\"size\":0", 23) ","
	      T("oom", "\"size\":512,\"device_free\":7", 24) ","
	      T("segment_free", SEG2M, 25)),
	  "segment_alloc:2097152@0 a0:100@0 a1:200@2000 f0@3000 f1@4000 reclaim:100@10000 "
	  "a2:100@11000 f2@12000 o:512@14000 segment_free:2097152@15000",
	  NULL, { 0 } },
	{ "live before: from a free, a completion, the state",
	  STATE(BLK(4096, 512, 100, "inactive") ","
		BLK(4608, 512, 300, "active_allocated") ","
		BLK(5120, 512, 40, "active_pending_free"),
		T("segment_map", "\"addr\":0,\"size\":1", 1) ","
		T("free_completed", A2, 2) ","
		T("free_requested", A1, 3) ","
		T("free_completed", A1, 3)),
	  "A0:200@0 A1:100@0 A2:300@0 A3:40@0 f0@0 f3@0 segment_map:1@0 reclaim:200@1000 f1@2000 "
	  "reclaim:40@2000",
	  "4 blocks of 640 bytes were live before", { 0 } },
	{ "a completion first of all",
	  ONE(T("free_completed", A1, 5)),
	  "A0:100@0 f0@0", NULL, { 0 } },
	{ "no completions recorded",
	  ONE(T("alloc", A1, 5) "," T("free_requested", A1, 6) "," T("alloc", A1, 7)),
	  "a0:100@0 f0@1000 a1:100@2000", NULL, { 0 } },
	{ "no requests recorded",
	  ONE(T("alloc", A1, 5) "," T("free_completed", A1, 6) "," T("free_completed", A2, 7)),
	  "A0:200@0 a1:100@0 f1@1000 f0@2000", NULL, { 0 } },
	{ "without times",
	  ONE(E("alloc", A1) "," E("free_requested", A1) "," E("free_completed", A1)),
	  "a0:100@0 f0@0", "no time", { 0 } },
	{ "time goes back",
	  ONE(T("alloc", A1, 50) "," T("alloc", A2, 40) "," T("oom", "\"size\":1", 52)),
	  "a0:100@0 a1:200@0 o:1@2000", "1 events are earlier", { 0 } },
	{ "streams, one negative",
	  ONE("{\"action\":\"alloc\"," A1 ",\"stream\":-2},"
	      "{\"action\":\"alloc\"," A2 ",\"stream\":94000000000000}"),
	  "a0:100@0 a1:200@0#1", NULL, { 0 } },
	{ "annotations",
	  "{\"external_annotations\":["
	  MARK("START", "late", "\"device\":0,\"time_us\":30") ","
	  MARK("START", "early", "\"device\":0,\"time_us\":5") ","
	  MARK("END", "early", "\"device\":0,\"time_us\":12") ","
	  MARK("START", "size", "\"time_us\":11") ","
	  MARK("START", "other", "\"device\":1,\"time_us\":12")
	  "],\"device_traces\":[[" T("alloc", A1, 10) "," T("alloc", A2, 12) "]]}",
	  "m{early}@0 a0:100@0 m{size}@1000 a1:200@2000 m{late}@20000", NULL, { 0 } },
	{ "the busiest of several",
	  "{\"device_traces\":[[" T("alloc", A1, 1) "],[],["
	  T("alloc", A2, 1) "," T("oom", "\"size\":9", 2) "]]}",
	  "a0:200@0 o:9@1000", "0 (1 events, 0 blocks in use), 2 (2 events", { 0 } },
	{ "the one asked for",
	  "{\"device_traces\":[[" T("alloc", A1, 1) "],[],["
	  T("alloc", A2, 1) "," T("oom", "\"size\":9", 2) "]]}",
	  "a0:100@0", NULL, { .has_gpu = true, .gpu = 0 } },
	{ "a state without events",
	  STATE(BLK(4096, 512, 100, "active_allocated"), ""),
	  "A0:100@0", "no history was recorded", { 0 } },
	{ "a list of segments alone",
	  "[" SEG(BLK(4096, 512, 100, "active_allocated")) ","
	  SEG(BLK(9000, 512, 7, "inactive")) "]",
	  "A0:100@0", "no history was recorded", { 0 } },
	{ "files of 2023: no addresses, sizes in the history",
	  STATE("{\"size\":512,\"state\":\"inactive\",\"requested_size\":1},"
		"{\"size\":1024,\"state\":\"active_allocated\",\"history\":["
		"{\"addr\":0,\"real_size\":600},{\"addr\":0,\"real_size\":5}]},"
		"{\"size\":2048,\"state\":\"active_allocated\"}",
		E("free_requested", "\"addr\":4608,\"size\":600")),
	  "A0:600@0 A1:2048@0 f0@0", NULL, { 0 } },
	{ "the state knows fewer blocks",
	  ONE(T("alloc", A1, 1)),
	  "a0:100@0", "1 blocks are live at the end by the events and 0", { 0 } },
	{ "keys and values nobody asked for",
	  "{\"extra\":{\"a\":[1,[2,[\"x\"]],{\"y\":null}],\"b\":2.5,\"c\":true},"
	  "\"allocator_settings\":{\"max_split_size\":-1,\"roundup_power2_divisions\":{\"1\":0}},"
	  "\"device_traces\":[[" T("alloc", A1, 1) "]],\"segments\":[],\"frames\":[[],[1]]}",
	  "a0:100@0", NULL, { 0 } },
};
/* clang-format on */

static void check_read(const struct fmt_good *c, const char *data, size_t n, const char *format)
{
	struct gp_trace *t;
	char why[512];

	if (fmt_load(data, n, &c->options, &t, why, sizeof(why)))
		fail_msg("%s, %s: refused: %s", c->what, format, why);
	assert_string_equal(t->format, format);
	fmt_check_spelling(t, c->spelled, c->what);
	if (c->note && !fmt_has_note(t, c->note))
		fail_msg("%s, %s: no note has \"%s\"", c->what, format, c->note);
	for (enum gp_skip k = 0; k < GP_SKIP_N; k++)
		assert_int_equal(t->skipped[k], 0);
	gp_trace_destroy(t);
}

static void test_good(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(good); i++) {
		check_read(&good[i], good[i].text, strlen(good[i].text), "torch_json");
		for (enum style s = PYTHON; s <= CXX; s++) {
			struct pickle p = pickle_of(good[i].text, s);

			check_read(&good[i], p.data, p.n, "torch_pickle");
			free(p.data);
		}
	}
}

/* ---- what is refused: `why` in both, at a line or a byte; and what lenient makes of it ---- */

/* clang-format off */
static const struct fmt_bad bad[] = {
	{ ONE(T("alloc", A1, 1) "," T("alloc", A1, 2)),
	  " event 2: ", "alloc at 0x1000, where the block of event 1 is live",
	  "a0:100@0", GP_SKIP_DUPLICATE_ID, 1, { 0 } },
	{ ONE(T("alloc", A1, 1) "," T("free_requested", A1, 2) ","
	      T("alloc", A1, 3) "," T("free_completed", A1, 4)),
	  " event 3: ", "where the block of event 2 is not reusable yet",
	  "a0:100@0 f0@1000 reclaim:100@3000", GP_SKIP_DUPLICATE_ID, 1, { 0 } },
	{ ONE(T("alloc", A1, 1) "," T("free", A1, 2) "," T("free", A1, 3)),
	  " event 3: ", "free at 0x1000, which event 2 freed (double free)",
	  "a0:100@0 f0@1000", GP_SKIP_UNKNOWN_ID, 1, { 0 } },
	{ ONE(T("alloc", A1, 1) "," T("alloc", "\"addr\":1,\"size\":-9223372036854775807", 1)),
	  NULL, "\"size\" is a negative number",
	  "a0:100@0", GP_SKIP_BAD_EVENT, 1, { 0 } },
	{ ONE(T("alloc", A1, 1) "," T("alloc", "\"addr\":\"8192\",\"size\":1", 1)),
	  NULL, "\"addr\" is a string",
	  "a0:100@0", GP_SKIP_BAD_EVENT, 1, { 0 } },
	{ ONE(T("alloc", "\"addr\":8192,\"size\":1.5", 1) "," T("alloc", A1, 1)),
	  NULL, "\"size\" is a fraction",
	  "a0:100@0", GP_SKIP_BAD_EVENT, 1, { 0 } },
	{ ONE(T("alloc", "\"addr\":8192,\"size\":[1]", 1) "," T("alloc", A1, 1)),
	  NULL, "\"size\" is a list",
	  "a0:100@0", GP_SKIP_BAD_EVENT, 1, { 0 } },
	{ ONE(T("alloc", "\"addr\":8192", 1) "," T("alloc", A1, 1)),
	  NULL, "no \"size\"",
	  "a0:100@0", GP_SKIP_BAD_EVENT, 1, { 0 } },
	{ ONE(T("alloc", "\"size\":8192", 1) "," T("alloc", A1, 1)),
	  NULL, "no \"addr\"",
	  "a0:100@0", GP_SKIP_BAD_EVENT, 1, { 0 } },
	{ ONE(T("alloc", A1, 1) "," T("re\\u0001lloc", A1, 1)),
	  NULL, "\"action\" is re?lloc",
	  "a0:100@0", GP_SKIP_UNKNOWN_OP, 1, { 0 } },
	{ ONE(T("alloc", A1, 1) ",5"),
	  NULL, "a number without \"action\" among events",
	  "a0:100@0", GP_SKIP_BAD_EVENT, 1, { 0 } },
	{ STATE(BLK(4096, 512, 100, "asleep"), T("alloc", A1, 1)),
	  NULL, "\"state\" of a block is asleep",
	  "a0:100@0", GP_SKIP_BAD_EVENT, 1, { 0 } },
	{ "{\"segments\":[{\"device\":70000,\"address\":1,\"blocks\":[]}],"
	  "\"device_traces\":[[" T("alloc", A1, 1) "]]}",
	  NULL, "a segment of device 70000",
	  "a0:100@0", GP_SKIP_BAD_EVENT, 1, { 0 } },
	{ "{\"external_annotations\":[{\"stage\":\"START\",\"time_us\":1}],"
	  "\"device_traces\":[[" T("alloc", A1, 1) "]]}",
	  NULL, "an annotation without a name",
	  "a0:100@0", GP_SKIP_BAD_EVENT, 1, { 0 } },
	{ ONE("{\"addr\":1},{\"addr\":2}"),
	  NULL, "\"device_traces\" is a list of other things, expected a list of lists of events",
	  NULL, 0, 0, { 0 } },
	{ "{\"device_traces\":{},\"segments\":[]}",
	  NULL, "\"device_traces\" is a dict",
	  NULL, 0, 0, { 0 } },
	{ "{\"device_traces\":[[]],\"segments\":[{\"blocks\":[1],\"address\":1}]}",
	  NULL, "\"blocks\" of a segment is a list of other things",
	  NULL, 0, 0, { 0 } },
	{ "{\"device_traces\":[[],[]],\"segments\":[]}",
	  " ", "no events and no blocks in use, expected a recording: call torch.cuda.memory._rec",
	  NULL, 0, 0, { 0 } },
	{ "{\"device_traces\":[[],[" T("alloc", A1, 1) "]]}",
	  " ", "nothing recorded of GPU 3, expected one of 1 (1 events, 0 blocks in use)",
	  NULL, 0, 0, { .has_gpu = true, .gpu = 3 } },
};
/* clang-format on */

static void check_refused(const struct fmt_bad *c, const char *data, size_t n, const char *place)
{
	struct gp_trace_options options = c->options;
	struct gp_trace *t;
	char why[512];
	int r = fmt_load(data, n, &options, &t, why, sizeof(why));

	if (r != -EINVAL || strncmp(why, "in:", 3) || strncmp(why + 3, place, strlen(place)) ||
	    !strstr(why, c->why) || !strstr(why, "expected") || t)
		fail_msg("result %d, \"%s\"; expected \"in:%s... %s\"", r, why, place, c->why);
	options.lenient = true;
	r = fmt_load(data, n, &options, &t, why, sizeof(why));
	if (!c->lenient) {
		assert_int_equal(r, -EINVAL);
		return;
	}
	if (r)
		fail_msg("lenient: refused: %s", why);
	fmt_check_spelling(t, c->lenient, c->why);
	for (enum gp_skip k = 0; k < GP_SKIP_N; k++)
		assert_int_equal(t->skipped[k], k == c->kind ? c->count : 0);
	gp_trace_destroy(t);
}

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(bad); i++) {
		const struct fmt_bad *c = &bad[i];

		check_refused(c, c->text, strlen(c->text), c->place ? c->place : "1: ");
		for (enum style s = PYTHON; s <= CXX; s++) {
			struct pickle p = pickle_of(c->text, s);

			check_refused(c, p.data, p.n, c->place ? c->place : " byte ");
			free(p.data);
		}
	}
}

/* ---- truncation, size ---- */

/* It may break off behind any byte: strictly refused, leniently read up to there. */
static void check_truncated(const char *data, size_t n, size_t whole)
{
	size_t most = 0;

	for (size_t i = 0; i < n; i++) {
		for (int lenient = 0; lenient < 2; lenient++) {
			struct gp_trace_options options = { .lenient = lenient };
			char *copy = malloc(i + 1), why[512]; /* so that a byte too far is seen */
			struct gp_trace *t;
			int r;

			memcpy(copy, data, i);
			r = fmt_load(copy, i, &options, &t, why, sizeof(why));
			free(copy);
			if (r != (lenient ? r : -EINVAL) || (r && !strstr(why, "expected")))
				fail_msg("cut at %zu: result %d, %s", i, r, why);
			if (r)
				continue;
			assert_int_equal(t->skipped[GP_SKIP_TAIL], 1);
			assert_true(t->n_events >= most && t->n_events <= whole);
			most = t->n_events;
			gp_trace_destroy(t);
		}
	}
	assert_int_equal(most, whole);
}

static void test_truncated(void **state)
{
	static const char text[] =
		"{\"device_traces\":[[],[" T("alloc", A1, 1) "," T("alloc", A2, 2) "," T(
			"free_requested", A1,
			3) "," T("free_completed", A1,
				 3) "," T("alloc", A1,
					  4) "]],\"allocator_settings\":{\"PYTORCH_CUDA_ALLOC_CONF\":\"\"}}";

	(void)state;
	check_truncated(text, sizeof(text) - 1, 4);
	for (enum style s = PYTHON; s <= CXX; s++) {
		struct pickle p = pickle_of(text, s);

		check_truncated(p.data, p.n, 4);
		free(p.data);
	}
}

/* Three thousand events are three batches; the memo outgrows one byte. */
static void test_batches(void **state)
{
	json_t *events = json_array(), *top;
	char *text;

	(void)state;
	for (int i = 0; i < 3001; i++)
		json_array_append_new(events, json_pack("{s:s,s:i,s:i,s:s}", "action", "alloc",
							"addr", i * 512, "size", i + 1, "x",
							i % 2 ? "odd" : "even"));
	top = json_pack("{s:[o]}", "device_traces", events);
	text = json_dumps(top, 0);
	for (enum style s = PYTHON; s <= CXX; s++) {
		struct pickle p = pickle_of(text, s);
		struct gp_trace *t;
		char why[512];

		if (fmt_load(p.data, p.n, NULL, &t, why, sizeof(why)))
			fail_msg("%s", why);
		assert_int_equal(t->n_allocs, 3001);
		assert_int_equal(t->load_bytes, 3001 * 3002 / 2);
		for (size_t i = 0; i < 3001; i++)
			assert_int_equal(t->addrs[i], i * 512);
		gp_trace_destroy(t);
		free(p.data);
	}
	free(text);
	json_decref(top);
}

static void test_settings(void **state)
{
	static const char *const conf[] = { "", "expandable_segments:True" };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		char text[512], expected[128];

		/* "" is met before, as Python has but one of them */
		snprintf(
			text, sizeof(text),
			"{\"x\":\"\",\"device_traces\":[[" E(
				"alloc",
				A1) "]],\"allocator_settings\":{\"PYTORCH_CUDA_ALLOC_CONF\":\"%s\","
				    "\"expandable_segments\":false}}",
			conf[i]);
		snprintf(expected, sizeof(expected),
			 "PyTorch memory snapshot, GPU 0; PYTORCH_CUDA_ALLOC_CONF=%s", conf[i]);
		for (enum style s = PYTHON; s <= CXX; s++) {
			struct pickle p = pickle_of(text, s);
			struct gp_trace *t;
			char why[512];

			assert_int_equal(fmt_load(p.data, p.n, NULL, &t, why, sizeof(why)), 0);
			assert_string_equal(t->source, expected);
			gp_trace_destroy(t);
			free(p.data);
		}
	}
}

/* clang-format off */
#define POOL_SEG(addr, size, id, rest)                                                             \
	"{\"address\":" #addr ",\"total_size\":" #size ",\"segment_pool_id\":" id rest ",\"blocks\":[]}"
#define POOLS                                                                                      \
	"{\"device_traces\":[["                                                                    \
	E("segment_alloc", SEG2M) "," E("alloc", A1) "," E("segment_free", SEG2M) ","              \
	E("free_requested", "\"addr\":3145828,\"size\":5") ","                                     \
	E("segment_alloc", SEG2M) "," E("alloc", A2) ","                                           \
	E("alloc", "\"addr\":2101247,\"size\":1") ","                                              \
	E("alloc", "\"addr\":2101248,\"size\":1") ","                                              \
	E("alloc", "\"addr\":12288,\"size\":1,\"pool_id\":[0,0]") ","                              \
	E("alloc", "\"addr\":0,\"size\":1,\"pool_id\":[7,0]")                                      \
	"]],\"segments\":["                                                                        \
	POOL_SEG(3145728, 1000, "[0,2]", "") "," POOL_SEG(4096, 2097152, "[2,0]", "") ","          \
	POOL_SEG(2101248, 9, "[2]", "") "," POOL_SEG(12288, 9, "[1,0]", ",\"device\":1") "]}"
/* clang-format on */

/* By the segments at the end: from the last segment_alloc of their address on. Else as told. */
static void test_pools(void **state)
{
	static const char text[] = POOLS;
	/* The assumed one first; [7,0] is met first, then [0,2], then [2,0]. */
	static const uint8_t expected[] = { 2, 0, 0, 0, 0, 3, 3, 3, 0, 0, 1 };

	(void)state;
	for (int s = PYTHON; s <= CXX + 1; s++) {
		struct pickle p = pickle_of(text, s > CXX ? CXX : (enum style)s);
		struct gp_trace *t;
		char why[512];

		if (s > CXX ? fmt_load(text, strlen(text), NULL, &t, why, sizeof(why))
			    : fmt_load(p.data, p.n, NULL, &t, why, sizeof(why)))
			fail_msg("%s", why);
		assert_int_equal(t->n_events, GP_ARRAY_LEN(expected));
		for (size_t i = 0; i < t->n_events; i++)
			assert_int_equal(gp_trace_pool(t, i), expected[i]);
		gp_trace_destroy(t);
		free(p.data);
	}
}

/* A trace has 255 numbers for them. */
static void test_many_pools(void **state)
{
	json_t *events = json_array(), *top;
	struct gp_trace *t;
	char *text, why[512];

	(void)state;
	for (int i = 0; i < 256; i++)
		json_array_append_new(events,
				      json_pack("{s:s,s:i,s:i,s:[i,i]}", "action", "alloc", "addr",
						i * 512, "size", 1, "pool_id", 0, i + 1));
	top = json_pack("{s:[o]}", "device_traces", events);
	text = json_dumps(top, 0);
	assert_int_equal(fmt_load(text, strlen(text), NULL, &t, why, sizeof(why)), 0);
	for (size_t i = 0; i < 256; i++)
		assert_int_equal(gp_trace_pool(t, i), i % 255 + 1);
	assert_true(fmt_has_note(t, "256 private pools"));
	gp_trace_destroy(t);
	free(text);
	json_decref(top);
}

/* The table that finds them by length knows each. */
static void test_words(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < GP_TORCH_WORDS; i++) {
		const char *name = gp_torch_word_name(i);
		char longer[64];

		assert_int_equal(gp_torch_word(name, strlen(name)), i);
		snprintf(longer, sizeof(longer), "%sx", name);
		assert_int_equal(gp_torch_word(longer, strlen(longer)), GP_TORCH_NO_WORD);
	}
	assert_int_equal(gp_torch_word("", 0), GP_TORCH_NO_WORD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),      cmocka_unit_test(test_bad),
		cmocka_unit_test(test_truncated), cmocka_unit_test(test_batches),
		cmocka_unit_test(test_settings),  cmocka_unit_test(test_words),
		cmocka_unit_test(test_pools),     cmocka_unit_test(test_many_pools),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
