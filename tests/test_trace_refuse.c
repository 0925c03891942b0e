/* SPDX-License-Identifier: Apache-2.0
 *
 * What a bad trace is told, with the line, and what --lenient makes of it. Bad events are tried in
 * both spellings of the format: they must be refused in the same words on the same line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/formats/format.h"
#include "replay/formats/json_pull.h"

#define FORMAT "\"format\":\"gpupool-trace\",\"version\":1"
#define JSON   "{" FORMAT ",\"events\":[\n"
#define JSONL  "{" FORMAT "}\n"

static int load(const char *text, size_t n, bool lenient, struct gp_trace **t, char *why,
		size_t why_size)
{
	struct gp_trace_options options = { .lenient = lenient };
	struct gp_input *in = gp_input_open_memory("bad", text, n);
	int r;

	assert_non_null(in);
	*t = NULL;
	memset(why, 0, why_size);
	r = gp_trace_load_input(in, &options, t, why, why_size);
	gp_input_close(in);
	return r;
}

static void refuses(const char *text, size_t n, unsigned line, const char *what)
{
	char why[512], place[32];
	struct gp_trace *t;
	int r = load(text, n, false, &t, why, sizeof(why));

	snprintf(place, sizeof(place), "bad:%u: ", line);
	if (r != -EINVAL || strncmp(why, place, strlen(place)) || !strstr(why, what) ||
	    !strstr(why, "expected ") || strchr(why, '\n') || t)
		fail_msg("result %d, \"%s\"; expected -EINVAL and \"%s... %s ...\" for:\n%.*s", r,
			 why, place, what, (int)(n < 300 ? n : 300), text);
}

/* Loads leniently: so many events are kept, and only `kind` counts, so often. */
static void lenient(const char *text, size_t n, enum gp_skip kind, uint64_t count, size_t kept)
{
	char why[512];
	struct gp_trace *t;
	int r = load(text, n, true, &t, why, sizeof(why));

	if (r)
		fail_msg("lenient: result %d, \"%s\" for:\n%.*s", r, why, (int)(n < 300 ? n : 300),
			 text);
	for (enum gp_skip k = 0; k < GP_SKIP_N; k++) {
		if (t->skipped[k] != (k == kind ? count : 0))
			fail_msg("lenient: %s counts %llu for:\n%.*s", gp_skip_name(k),
				 (unsigned long long)t->skipped[k], (int)(n < 300 ? n : 300), text);
	}
	if (t->n_events != kept)
		fail_msg("lenient: %zu events, expected %zu for:\n%.*s", t->n_events, kept,
			 (int)(n < 300 ? n : 300), text);
	gp_trace_destroy(t);
}

/* ---- bad events, in both spellings ---- */

#define A1 "{\"op\":\"alloc\",\"id\":1,\"size\":10}\n"
#define F1 "{\"op\":\"free\",\"id\":1}\n"
#define R1 "{\"op\":\"reclaim\",\"id\":1}\n"

static const struct {
	const char *events; /* one a line, from line 2 of the file */
	unsigned line;
	const char *what;
	enum gp_skip kind;
	unsigned kept; /* events, under lenient */
} bad_events[] = {
	/* op */
	{ A1 "{\"op\":\"realloc\",\"id\":1}\n", 3, "unknown op \"realloc\"", GP_SKIP_UNKNOWN_OP,
	  1 },
	{ "{\"op\":\"\\u001b[2Jx\"}\n", 2, "unknown op \"?[2Jx\"", GP_SKIP_UNKNOWN_OP, 0 },
	{ "{\"op\":\"Alloc\",\"id\":1,\"size\":1}\n", 2, "unknown op", GP_SKIP_UNKNOWN_OP, 0 },
	{ "{\"op\":1,\"id\":1}\n", 2, "\"op\" is a number, expected a string", GP_SKIP_BAD_EVENT,
	  0 },
	{ "{\"id\":1}\n" A1, 2, "without \"op\"", GP_SKIP_BAD_EVENT, 1 },
	{ "{}\n", 2, "without \"op\"", GP_SKIP_BAD_EVENT, 0 },
	/* not an object */
	{ "5\n" A1, 2, "an event is a number, expected an object", GP_SKIP_BAD_EVENT, 1 },
	{ A1 "[{\"op\":\"free\"}]\n" F1, 3, "an event is an array", GP_SKIP_BAD_EVENT, 2 },
	{ "null\n", 2, "an event is null", GP_SKIP_BAD_EVENT, 0 },
	/* keys */
	{ "{\"op\":\"alloc\",\"id\":1}\n", 2, "alloc without \"size\"", GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"alloc\",\"size\":1}\n", 2, "alloc without \"id\"", GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"free\"}\n", 2, "free without \"id\"", GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"mark\"}\n", 2, "mark without \"name\"", GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"segment_map\",\"addr\":1}\n", 2, "segment_map without \"size\"",
	  GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":1,\"sizes\":[1,{\"a\":2}]}\n", 2,
	  "unknown key \"sizes\" in an event", GP_SKIP_UNKNOWN_KEY, 1 },
	{ A1 "{\"op\":\"free\",\"id\":1,\"align\":3}\n", 3, "\"align\" in a free event",
	  GP_SKIP_UNKNOWN_KEY, 2 },
	{ "{\"op\":\"sync\",\"size\":1}\n", 2, "\"size\" in a sync event", GP_SKIP_UNKNOWN_KEY, 1 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":1,\"id\":2}\n", 2, "key \"id\" twice",
	  GP_SKIP_DUPLICATE_KEY, 1 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":1,\"\\u0073ize\":2}\n", 2, "key \"size\" twice",
	  GP_SKIP_DUPLICATE_KEY, 1 },
	/* values */
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":\"10\"}\n", 2,
	  "\"size\" is a string, expected a whole number", GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":{\"x\":[1]}}\n" A1, 2, "\"size\" is an object",
	  GP_SKIP_BAD_EVENT, 1 },
	{ "{\"op\":\"alloc\",\"id\":null,\"size\":1}\n", 2, "\"id\" is null", GP_SKIP_BAD_EVENT,
	  0 },
	{ "{\"op\":\"alloc\",\"id\":true,\"size\":1}\n", 2, "\"id\" is true", GP_SKIP_BAD_EVENT,
	  0 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":-5}\n", 2, "\"size\" is -5, expected 0 or more",
	  GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":1.5}\n", 2,
	  "\"size\" is 1.5, expected a whole number", GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":1e3}\n", 2,
	  "\"size\" is 1e3, expected a whole number", GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":18446744073709551616}\n", 2,
	  "\"size\" is 18446744073709551616, expected less than 2^64", GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":9223372036854775809}\n", 2,
	  "alloc of 9223372036854775809 bytes, expected a size of at most 2^63", GP_SKIP_BAD_EVENT,
	  0 },
	{ "{\"op\":\"oom\",\"size\":18446744073709551615}\n", 2, "oom of", GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":1,\"pool\":256}\n", 2,
	  "\"pool\" is 256, expected at most 255", GP_SKIP_BAD_EVENT, 0 },
	{ A1 "{\"op\":\"free\",\"id\":1,\"pool\":300}\n", 3, "\"pool\" in a free event",
	  GP_SKIP_UNKNOWN_KEY, 2 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":1,\"align\":3}\n", 2,
	  "\"align\" is 3, expected a power of two", GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":1,\"align\":2305843009213693952}\n", 2,
	  "\"align\" is 2305843009213693952", GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":1,\"t\":-1}\n", 2, "\"t\" is -1", GP_SKIP_BAD_EVENT,
	  0 },
	{ "{\"op\":\"mark\",\"name\":7}\n", 2, "\"name\" is a number", GP_SKIP_BAD_EVENT, 0 },
	{ "{\"op\":\"alloc\",\"id\":1,\"size\":1,\"assumed\":1}\n", 2,
	  "\"assumed\" is a number, expected true or false", GP_SKIP_BAD_EVENT, 0 },
	{ A1 "{\"op\":\"free\",\"id\":1,\"assumed\":true}\n", 3, "\"assumed\" in a free event",
	  GP_SKIP_UNKNOWN_KEY, 2 },
	/* a bad event with two faults counts once */
	{ "{\"op\":\"alloc\",\"id\":-1,\"size\":-1}\n", 2, "\"id\" is -1", GP_SKIP_BAD_EVENT, 0 },
	/* ids */
	{ A1 "\n" A1 F1, 4, "alloc of id 1, which is live", GP_SKIP_DUPLICATE_ID, 2 },
	{ A1 "{\"op\":\"free\",\"id\":2}\n", 3, "free of unknown id 2", GP_SKIP_UNKNOWN_ID, 1 },
	{ A1 F1 F1, 4, "(double free)", GP_SKIP_UNKNOWN_ID, 2 },
	{ R1 A1, 2, "reclaim of unknown id 1", GP_SKIP_UNKNOWN_ID, 1 },
	{ A1 R1, 3, "reclaim of id 1, which is live", GP_SKIP_UNKNOWN_ID, 1 },
	{ A1 F1 R1 R1, 5, "which was reclaimed before", GP_SKIP_UNKNOWN_ID, 3 },
	{ A1 F1 A1 R1, 5, "reclaim of id 1, which is live", GP_SKIP_UNKNOWN_ID, 3 },
	{ A1 "{\"op\":\"free\",\"id\":1,\"size\":11}\n", 3,
	  "free of id 1 with 11 bytes, expected the 10", GP_SKIP_BAD_EVENT, 1 },
	/* time */
	{ "{\"op\":\"sync\",\"t\":5}\n{\"op\":\"sync\",\"t\":4}\n{\"op\":\"sync\",\"t\":5}\n", 3,
	  "time goes back to 4 ns, expected 5", GP_SKIP_TIME_BACK, 3 },
};

/* The lines as an array; the newline stays where it is, a comma comes before it. */
static char *as_json(const char *events)
{
	char *text = malloc(2 * strlen(events) + sizeof(JSON) + 8);
	char *to = text;

	assert_non_null(text);
	to += sprintf(to, "%s", JSON);
	for (const char *p = events; *p; p++) {
		bool blank = *p == '\n' && p > events && p[-1] == '\n';

		if (*p == '\n' && p[1] && !blank)
			*to++ = ',';
		*to++ = *p;
	}
	sprintf(to, "]}\n");
	return text;
}

static char *as_jsonl(const char *events)
{
	char *text = malloc(strlen(events) + sizeof(JSONL));

	assert_non_null(text);
	sprintf(text, "%s%s", JSONL, events);
	return text;
}

static void bad_events_are_refused_or_counted(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(bad_events); i++) {
		for (int lines = 0; lines < 2; lines++) {
			char *text = lines ? as_jsonl(bad_events[i].events)
					   : as_json(bad_events[i].events);

			refuses(text, strlen(text), bad_events[i].line, bad_events[i].what);
			lenient(text, strlen(text), bad_events[i].kind, 1, bad_events[i].kept);
			free(text);
		}
	}
}

/* ---- bad files ---- */

#define NEVER GP_SKIP_N /* lenient refuses too */

static const struct {
	const char *text;
	unsigned line;
	const char *what;
	enum gp_skip kind;
	unsigned kept;
} bad_files[] = {
	/* what is no trace at all */
	{ "", 1, "the file is empty", NEVER, 0 },
	{ "\n \n", 1, "text of an unknown format", NEVER, 0 },
	{ "hello\n", 1, "text of an unknown format", NEVER, 0 },
	{ "[1]\n", 1, "text of an unknown format", NEVER, 0 },
	{ "{", 1, "the file ends too early (truncated)", NEVER, 0 },
	{ "{\"a\":1}", 1, "no \"format\"", NEVER, 0 },
	{ "{format:1}", 1, "unexpected 'f', expected a key in quotes", NEVER, 0 },
	{ "\xef\xbb\xbf" JSON "]}", 1, "text of an unknown format", NEVER, 0 },
	/* header */
	{ "{\"format\":\"other\",\"version\":1,\n\"events\":[]}", 1,
	  "\"format\" is \"other\", expected \"gpupool-trace\"", NEVER, 0 },
	{ "{\n\"format\":7,\"version\":1,\"events\":[]}", 2, "\"format\" is a number", NEVER, 0 },
	{ "{\"version\":1,\"events\":[]\n}", 2, "no \"format\"", NEVER, 0 },
	{ "{" FORMAT ",\n\"notes\":\"x\",\"events\":[]}", 2,
	  "\"notes\" is a string, expected an array of strings", NEVER, 0 },
	{ "{" FORMAT ",\"notes\":[\"x\",\n1],\"events\":[]}", 2,
	  "one of the \"notes\" is a number, expected a string", NEVER, 0 },
	{ "{\"format\":\"gpupool-trace\",\n\"version\":2,\"events\":[]}", 2,
	  "\"version\" is 2, expected 1", NEVER, 0 },
	{ "{\"format\":\"gpupool-trace\",\"version\":\"1\",\"events\":[]}", 1,
	  "\"version\" is a string", NEVER, 0 },
	{ "{\"format\":\"gpupool-trace\",\"version\":1.0,\"events\":[]}", 1, "\"version\" is 1.0",
	  NEVER, 0 },
	{ "{\"format\":\"gpupool-trace\",\"events\":[]}", 1, "no \"version\"", NEVER, 0 },
	{ "{\"format\":\"gpupool-trace\"}\n" A1, 1, "no \"version\"", NEVER, 0 },
	{ "{" FORMAT "}", 1, "no \"events\"", NEVER, 0 },
	{ "{" FORMAT "}\n\n", 1, "no \"events\"", NEVER, 0 },
	{ "{" FORMAT ",\"events\":{}}", 1, "\"events\" is an object, expected an array", NEVER, 0 },
	{ "{" FORMAT ",\"events\":[],\n\"events\":[]}", 2, "key \"events\" twice", NEVER, 0 },
	{ "{" FORMAT ",\"name\":1,\"events\":[]}", 1, "\"name\" is a number", NEVER, 0 },
	{ "{" FORMAT ",\"source\":[],\"events\":[]}", 1, "\"source\" is an array", NEVER, 0 },
	{ "{" FORMAT ",\"device\":\"H200\",\"events\":[]}", 1, "\"device\" is a string", NEVER, 0 },
	{ "{" FORMAT ",\"device\":{\"total_bytes\":-1},\"events\":[]}", 1,
	  "\"total_bytes\" is -1, expected 0 or more", NEVER, 0 },
	{ "{" FORMAT ",\"name\":\"a\",\n\"name\":\"b\",\"events\":[]}", 2, "key \"name\" twice",
	  GP_SKIP_DUPLICATE_KEY, 0 },
	{ "{" FORMAT ",\"device\":{\"name\":\"a\",\"name\":\"b\"},\"events\":[]}", 1,
	  "key \"name\" twice", GP_SKIP_DUPLICATE_KEY, 0 },
	{ "{" FORMAT ",\n\"name\":\"x\"}\n" A1, 1, "the line ends too early, expected a key", NEVER,
	  0 },
	/* files that end too early, or late */
	{ JSON "{\"op\":\"alloc\",\"id\":1,\"size\":10}", 2, "(truncated), expected ',' or ']'",
	  GP_SKIP_TAIL, 1 },
	{ JSON "{\"op\":\"alloc\",\"id\":1,\"size\":10},\n", 2, "(truncated), expected a value",
	  GP_SKIP_TAIL, 1 },
	{ JSON "{\"op\":\"alloc\",\"id\":1,\"size\":10},\n{\"op\":\"fre", 3,
	  "(truncated), expected the '\"'", GP_SKIP_TAIL, 1 },
	{ JSON "]\n", 2, "(truncated), expected ',' or '}'", GP_SKIP_TAIL, 0 },
	{ JSONL A1 "{\"op\":\"free\",\"id\":1", 3, "(truncated), expected ',' or '}'", GP_SKIP_TAIL,
	  1 },
	{ JSON "]}\n\nx", 4, "trailing garbage", GP_SKIP_TAIL, 0 },
	{ JSON "]}]}", 2, "trailing garbage", GP_SKIP_TAIL, 0 },
	{ JSONL A1 F1 "{\"op\":\"sync\"} {}\n" A1, 4, "trailing garbage", GP_SKIP_BAD_EVENT, 4 },
	{ "{" FORMAT ",\"n_events\":3}\n" A1 F1, 3, "the file ends after 2 events", GP_SKIP_TAIL,
	  2 },
	{ "{" FORMAT ",\"n_events\":0,\"events\":[\n{\"op\":\"sync\"}]}", 2,
	  "the file ends after 1 events", GP_SKIP_TAIL, 1 },
	/* syntax */
	{ JSON "{\"op\":\"sync\"}\n{\"op\":\"sync\"}]}", 3, "unexpected '{', expected ',' or ']'",
	  GP_SKIP_TAIL, 1 },
	{ JSON "{\"op\":\"sync\"},\n]}", 3, "unexpected ']', expected a value", GP_SKIP_TAIL, 1 },
	{ JSON "{\"op\":\"sync\",}]}", 2, "unexpected '}', expected a key", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\"=\"sync\"}]}", 2, "unexpected '=', expected ':'", GP_SKIP_TAIL, 0 },
	{ JSON "{'op':1}]}", 2, "unexpected '''", GP_SKIP_TAIL, 0 },
	{ JSON "// no\n]}", 2, "unexpected '/'", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"sync\",\"t\":NaN}]}", 2, "\"NaN\" is no JSON value", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"sync\",\"t\":Infinity}]}", 2, "\"Infinity\" is no", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"sync\",\"t\":-Infinity}]}", 2, "unexpected 'I', expected a digit",
	  GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"sync\",\"t\":nulls}]}", 2, "\"nulls\" is no", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"sync\",\"t\":01}]}", 2, "expected no leading zeros", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"sync\",\"t\":+1}]}", 2, "unexpected '+'", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"sync\",\"t\":1.}]}", 2, "unexpected '}', expected a digit", GP_SKIP_TAIL,
	  0 },
	{ JSON "{\"op\":\"sync\",\"t\":1e}]}", 2, "expected a digit", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"sync\",\"t\":0x10}]}", 2, "unexpected 'x'", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"sync\",\"t\":\x01 0}]}", 2, "unexpected byte 0x01", GP_SKIP_TAIL, 0 },
	{ JSONL "{\"op\":\n{\"op\":\"sync\"}\n", 2, "the line ends too early", GP_SKIP_BAD_EVENT,
	  1 },
	/* strings */
	{ JSON "{\"op\":\"mark\",\"name\":\"a\nb\"}]}", 2, "the line ends too early", GP_SKIP_TAIL,
	  0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"a\tb\"}]}", 2, "unexpected byte 0x09", GP_SKIP_TAIL,
	  0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"\\x\"}]}", 2, "after a backslash", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"\\u12g4\"}]}", 2, "four hexadecimal", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"\\u0000\"}]}", 2, "without NUL", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"\\udc00\"}]}", 2, "low surrogate alone", GP_SKIP_TAIL,
	  0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"\\ud800x\"}]}", 2, "low half", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"\\ud800\\u0041\"}]}", 2, "high surrogate alone",
	  GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"\xff\"}]}", 2, "valid UTF-8", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"\xc0\xaf\"}]}", 2, "valid UTF-8", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"\xe0\x80\xaf\"}]}", 2, "valid UTF-8", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"\xed\xa0\x80\"}]}", 2, "valid UTF-8", GP_SKIP_TAIL, 0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"\xf4\x90\x80\x80\"}]}", 2, "valid UTF-8", GP_SKIP_TAIL,
	  0 },
	{ JSON "{\"op\":\"mark\",\"name\":\"\xe2\x82\"}]}", 2, "valid UTF-8", GP_SKIP_TAIL, 0 },
};

static void bad_files_are_refused_or_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(bad_files); i++) {
		const char *text = bad_files[i].text;
		char why[512];
		struct gp_trace *t;

		refuses(text, strlen(text), bad_files[i].line, bad_files[i].what);
		if (bad_files[i].kind != NEVER)
			lenient(text, strlen(text), bad_files[i].kind, 1, bad_files[i].kept);
		else if (load(text, strlen(text), true, &t, why, sizeof(why)) != -EINVAL)
			fail_msg("lenient took:\n%s", text);
	}
}

static void binary_files_are_refused(void **state)
{
	static const char png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
	static const char zeros[5000];

	(void)state;
	refuses(png, sizeof(png), 1, "binary data of an unknown format");
	refuses(zeros, sizeof(zeros), 1, "binary data of an unknown format");
}

/* One line a prefix; every file cut anywhere is refused, or is a whole trace in JSON Lines. */
static void every_truncation_is_noticed(void **state)
{
	static const char json[] = JSON A1 "]}";
	static const char jsonl[] = "{" FORMAT ",\"n_events\":2}\n" A1 "{\"op\":\"free\",\"id\":1}";
	char why[512];
	struct gp_trace *t;

	(void)state;
	for (size_t n = 0; n < sizeof(json) - 1; n++)
		assert_int_equal(load(json, n, false, &t, why, sizeof(why)), -EINVAL);
	assert_int_equal(load(json, sizeof(json) - 1, false, &t, why, sizeof(why)), 0);
	gp_trace_destroy(t);
	for (size_t n = 0; n < sizeof(jsonl) - 1; n++)
		assert_int_equal(load(jsonl, n, false, &t, why, sizeof(why)), -EINVAL);
	assert_int_equal(load(jsonl, sizeof(jsonl) - 1, false, &t, why, sizeof(why)), 0);
	gp_trace_destroy(t);
}

/* ---- limits ---- */

static char *repeated(const char *before, char c, size_t n, const char *after)
{
	char *text = malloc(strlen(before) + n + strlen(after) + 1);

	assert_non_null(text);
	strcpy(text, before);
	memset(text + strlen(before), c, n);
	strcpy(text + strlen(before) + n, after);
	return text;
}

static void limits_are_kept(void **state)
{
	static const struct {
		const char *before;
		char c;
		size_t good, bad;
		const char *after_good, *after_bad, *what;
	} limits[] = {
		{ "{" FORMAT ",\"x\":", '[', 0, 100000, "1,\"events\":[]}", "", "nested deeper" },
		{ "{" FORMAT ",\"x\":", '[', 0, GP_JSON_DEPTH, "1,\"events\":[]}", "",
		  "nested deeper than 64" },
		{ JSON "{\"op\":\"mark\",\"name\":\"", 'x', GP_JSON_TEXT - 1, GP_JSON_TEXT, "\"}]}",
		  "\"}]}", "too long" },
		{ JSON "{\"op\":\"sync\",\"t\":", '1', 19, 1000000, "}]}", "}]}", "too long" },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(limits); i++) {
		char *good = repeated(limits[i].before, limits[i].c, limits[i].good,
				      limits[i].after_good);
		char *bad =
			repeated(limits[i].before, limits[i].c, limits[i].bad, limits[i].after_bad);

		lenient(good, strlen(good), GP_SKIP_TAIL, 0, i < 2 ? 0 : 1);
		refuses(bad, strlen(bad), i < 2 ? 1 : 2, limits[i].what);
		free(good);
		free(bad);
	}
}

static void too_many_live_bytes_are_refused(void **state)
{
	static const char text[] =
		JSONL "{\"op\":\"alloc\",\"id\":1,\"size\":9223372036854775808}\n"
		      "{\"op\":\"alloc\",\"id\":2,\"size\":1}\n";
	struct gp_trace *t;
	char why[512];

	(void)state;
	assert_int_equal(load(text, strlen(text), false, &t, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "bad: event 2: more than 2^63 bytes live at once, expected less");
}

static void too_many_threads_are_refused(void **state)
{
	struct gp_trace_builder *b = gp_trace_builder_create("x", NULL);
	struct gp_trace_record r = { .op = GP_OP_SYNC };

	(void)state;
	assert_non_null(b);
	for (r.thread = 0; r.thread < 65536; r.thread++)
		assert_int_equal(gp_trace_builder_add(b, &r, 0), 0);
	assert_int_equal(gp_trace_builder_add(b, &r, 0), -EINVAL);
	assert_string_equal(gp_trace_builder_why(b), "x: event 65537: one thread more, expected at "
						     "most 65536 different ones");
	r.thread = 65535;
	assert_int_equal(gp_trace_builder_add(b, &r, 0), 0);
	gp_trace_builder_destroy(b);
}

/* Several bad lines, each of its own kind, in one file. */
static void lenient_counts_by_kind(void **state)
{
	static const char text[] =
		"{" FORMAT ",\"n_events\":14}\n" A1 A1 A1                /* duplicate_id 2 */
		"{\"op\":\"free\",\"id\":9}\n"                           /* unknown_id 1 */
		"{\"op\":\"x\"}\n{\"op\":\"y\"}\n{\"op\":\"z\"}\n"       /* unknown_op 3 */
		"not json\n{\"op\":\n{\"op\":\"alloc\",\"id\":3}\n17\n"  /* bad_event 4 */
		"{\"op\":\"sync\",\"t\":7}\n{\"op\":\"sync\",\"t\":6}\n" /* time_back 1 */
		"{\"op\":\"free\",\"id\":1,\"t\":8,\"t\":9,\"k\":0}\n"   /* duplicate, unknown key 1
									  */
		"{\"op\":\"fr";                                          /* tail 1 */
	static const uint64_t want[GP_SKIP_N] = {
		[GP_SKIP_UNKNOWN_OP] = 3,  [GP_SKIP_BAD_EVENT] = 4, [GP_SKIP_DUPLICATE_ID] = 2,
		[GP_SKIP_UNKNOWN_ID] = 1,  [GP_SKIP_TIME_BACK] = 1, [GP_SKIP_DUPLICATE_KEY] = 1,
		[GP_SKIP_UNKNOWN_KEY] = 1, [GP_SKIP_TAIL] = 1,
	};
	struct gp_trace *t;
	char why[512];

	(void)state;
	assert_int_equal(load(text, strlen(text), true, &t, why, sizeof(why)), 0);
	for (enum gp_skip k = 0; k < GP_SKIP_N; k++) {
		if (t->skipped[k] != want[k])
			fail_msg("%s counts %llu, expected %llu", gp_skip_name(k),
				 (unsigned long long)t->skipped[k], (unsigned long long)want[k]);
	}
	assert_int_equal(t->n_events, 4);
	assert_int_equal(t->events[2].t_ns, 7); /* time_back: that of the event before */
	assert_int_equal(t->events[3].t_ns, 9); /* duplicate_key: the last one counts */
	gp_trace_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_events_are_refused_or_counted),
		cmocka_unit_test(bad_files_are_refused_or_cut),
		cmocka_unit_test(binary_files_are_refused),
		cmocka_unit_test(every_truncation_is_noticed),
		cmocka_unit_test(limits_are_kept),
		cmocka_unit_test(too_many_live_bytes_are_refused),
		cmocka_unit_test(too_many_threads_are_refused),
		cmocka_unit_test(lenient_counts_by_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
