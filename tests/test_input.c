/* SPDX-License-Identifier: Apache-2.0
 *
 * input: the window's edges, looking ahead, lines, and what gzip files can be like. The gzip part
 * is left out where there is no zlib: the build says so with GP_TEST_ZLIB.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef GP_TEST_ZLIB
#include <zlib.h>
#endif

#include "replay/formats/format.h"

#define TEXT_SIZE ((size_t)1000003) /* several windows, and no multiple of one */

static char path[64];
static unsigned char *text;

static int set_up(void **state)
{
	int fd;

	(void)state;
	text = malloc(TEXT_SIZE);
	if (!text)
		return -1;
	for (size_t i = 0; i < TEXT_SIZE; i++)
		text[i] = (unsigned char)(i % 61 == 60 ? '\n' : 'a' + i * i % 23);
	strcpy(path, "/tmp/gpupool-test-input-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
	(void)state;
	free(text);
	return unlink(path);
}

static void write_file(const void *data, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static struct gp_input *open_file(void)
{
	struct gp_input *in;
	char why[256] = "";

	if (gp_input_open(path, &in, why, sizeof(why)))
		fail_msg("%s", why);
	return in;
}

/* Every byte once, in order, with the right line; then the end, for good. */
static void expect_text(struct gp_input *in, size_t n)
{
	uint64_t line = 1;

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(in->line, line);
		assert_int_equal(gp_input_getc(in), text[i]);
		line += text[i] == '\n';
	}
	assert_int_equal(gp_input_getc(in), -1);
	assert_int_equal(gp_input_getc(in), -1);
	assert_int_equal(gp_input_error(in), 0);
	assert_int_equal(gp_input_end_line(in), line - (n && text[n - 1] == '\n'));
}

static void a_file_is_read_whole(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 61, 62, 131071, 131072, 262143, TEXT_SIZE };

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(sizes); i++) {
		struct gp_input *in;

		write_file(text, sizes[i]);
		in = open_file();
		expect_text(in, sizes[i]);
		assert_null(gp_input_close(in));
		in = gp_input_open_memory("memory", sizes[i] ? text : NULL, sizes[i]);
		expect_text(in, sizes[i]);
		gp_input_close(in);
	}
	assert_null(gp_input_close(NULL));
}

static void looking_ahead_takes_nothing(void **state)
{
	const unsigned char *head;
	struct gp_input *in;

	(void)state;
	write_file(text, TEXT_SIZE);
	in = open_file();
	assert_int_equal(gp_input_peek(in, &head), GP_INPUT_PEEK_MAX);
	assert_memory_equal(head, text, GP_INPUT_PEEK_MAX);
	expect_text(in, TEXT_SIZE);
	gp_input_close(in);
	write_file(text, 100);
	in = open_file();
	for (int i = 0; i < 40; i++)
		gp_input_getc(in);
	assert_int_equal(gp_input_peek(in, &head), 60);
	assert_memory_equal(head, text + 40, 60);
	gp_input_close(in);
}

/* A pipe gives a few bytes at a time. */
static void a_pipe_is_read_whole(void **state)
{
	char name[64], why[256] = "";
	const unsigned char *head;
	struct gp_input *in;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], text, 1), 1);
	assert_int_equal(write(ends[1], text + 1, 999), 999);
	close(ends[1]);
	snprintf(name, sizeof(name), "/dev/fd/%d", ends[0]);
	if (gp_input_open(name, &in, why, sizeof(why)))
		fail_msg("%s", why);
	assert_int_equal(gp_input_peek(in, &head), 1000);
	expect_text(in, 1000);
	assert_int_equal(in->n_total, 0);
	gp_input_close(in);
	close(ends[0]);
}

#ifdef GP_TEST_ZLIB

/* text[from .. from+n) as one gzip member behind what is in out already; the new length. */
static size_t put_member(unsigned char *out, size_t used, size_t from, size_t n)
{
	z_stream z = { 0 };

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, 0), Z_OK);
	z.next_in = text + from;
	z.avail_in = (uInt)n;
	z.next_out = out + used;
	z.avail_out = (uInt)(2 * TEXT_SIZE - used);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	used = (size_t)z.total_out + used;
	deflateEnd(&z);
	return used;
}

static void gzip_is_known_by_content(void **state)
{
	unsigned char *out = malloc(2 * TEXT_SIZE);
	struct gp_input *in;
	size_t n;

	(void)state;
	assert_non_null(out);
	n = put_member(out, 0, 0, TEXT_SIZE);
	write_file(out, n);
	in = open_file();
	expect_text(in, TEXT_SIZE);
	assert_int_equal(in->n_read, n);
	gp_input_close(in);
	/* Three members, one of them empty. */
	n = put_member(out, 0, 0, 300000);
	n = put_member(out, n, 0, 0);
	n = put_member(out, n, 300000, TEXT_SIZE - 300000);
	write_file(out, n);
	in = open_file();
	expect_text(in, TEXT_SIZE);
	gp_input_close(in);
	free(out);
}

/* Reads to the end; the fault's text, or "". */
static const char *fault_of(const void *data, size_t n)
{
	static char fault[128];
	struct gp_input *in;

	write_file(data, n);
	in = open_file();
	while (gp_input_getc(in) >= 0)
		;
	assert_true(gp_input_error(in) == 0 || gp_input_error(in) == -EINVAL);
	snprintf(fault, sizeof(fault), "%s", gp_input_error(in) ? in->error_text : "");
	gp_input_close(in);
	return fault;
}

static void broken_gzip_is_noticed(void **state)
{
	unsigned char *out = malloc(2 * TEXT_SIZE);
	size_t n;

	(void)state;
	assert_non_null(out);
	n = put_member(out, 0, 0, 5000);
	assert_string_equal(fault_of(out, n), "");
	for (size_t cut = 2; cut < n; cut += 7)
		assert_string_equal(fault_of(out, cut), "the gzip data end too early (truncated)");
	assert_string_equal(fault_of(out, n - 1), "the gzip data end too early (truncated)");
	out[n] = 'x';
	out[n + 1] = 'y';
	assert_string_equal(fault_of(out, n + 2), "the gzip data are damaged");
	out[n - 6] ^= 1; /* in the check sum */
	assert_string_equal(fault_of(out, n), "the gzip data are damaged");
	free(out);
}

/* Writes the first `size` bytes of the trace, compressed, without the last 4 of the gzip file. */
static void write_cut_gzip(const char *trace, size_t size)
{
	unsigned char *out = malloc(2 * TEXT_SIZE);

	assert_non_null(out);
	memcpy(text, trace, size);
	write_file(out, put_member(out, 0, 0, size) - 4);
	free(out);
}

/* The reader sees a file that just ends; what is reported is why. */
static void a_trace_in_broken_gzip_is_refused_or_cut(void **state)
{
	static const char trace[] = "{\"format\":\"gpupool-trace\",\"version\":1}\n"
				    "{\"op\":\"alloc\",\"id\":1,\"size\":10}\n"
				    "{\"op\":\"free\",\"id\":1}\n";
	static const struct {
		size_t size; /* bytes of the trace that are left */
		unsigned line;
		int lenient; /* events kept, or -1: refused too */
	} cuts[] = {
		{ sizeof(trace) - 1, 3, 2 }, /* between two lines */
		{ sizeof(trace) - 6, 3,
		  1 },         /* within an event: still one tail, though two see it */
		{ 30, 1, -1 }, /* within the header */
	};
	struct gp_trace_options options = { .lenient = true };
	char why[512], want[256];
	struct gp_trace *t;

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cuts); i++) {
		int r;

		write_cut_gzip(trace, cuts[i].size);
		snprintf(want, sizeof(want),
			 "%s:%u: the gzip data end too early (truncated), expected a whole file",
			 path, cuts[i].line);
		assert_int_equal(gp_trace_load(path, NULL, &t, why, sizeof(why)), -EINVAL);
		assert_string_equal(why, want);
		r = gp_trace_load(path, &options, &t, why, sizeof(why));
		if (cuts[i].lenient < 0) {
			assert_int_equal(r, -EINVAL);
			assert_string_equal(why, want);
			continue;
		}
		assert_int_equal(r, 0);
		assert_int_equal(t->n_events, cuts[i].lenient);
		assert_int_equal(t->skipped[GP_SKIP_TAIL], 1);
		gp_trace_destroy(t);
	}
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_read_whole),
		cmocka_unit_test(looking_ahead_takes_nothing),
		cmocka_unit_test(a_pipe_is_read_whole),
#ifdef GP_TEST_ZLIB
		cmocka_unit_test(gzip_is_known_by_content),
		cmocka_unit_test(broken_gzip_is_noticed),
		cmocka_unit_test(a_trace_in_broken_gzip_is_refused_or_cut),
#endif
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
