/* SPDX-License-Identifier: Apache-2.0
 *
 * Pickles by hand, opcode by opcode: what is refused, in which words, and what is read though Python
 * would not write it so. What a snapshot means is in test_fmt_torch.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fmt_case.h"

#define OPS(s) s, sizeof(s) - 1

/* clang-format off */
static const struct {
	const char *data;
	size_t n;
	const char *why;
} bad_ops[] = {
	{ OPS("\x80\4ctorch._C\n_CudaDeviceProperties\n."),
	  "byte 2: this pickle would build a Python object (GLOBAL torch._C._CudaDeviceProperties), "
	  "expected plain data (record with torch.cuda.memory._dump_snapshot)" },
	{ OPS("\x80\4ctorch"), "(GLOBAL torch)" },
	{ OPS("\x80\4\x8c\2os\x94\x8c\6system\x94\x93."), "(STACK_GLOBAL os.system)" },
	{ OPS("\x80\4)R."), "(REDUCE)" },
	{ OPS("\x80\4)b."), "(BUILD)" },
	{ OPS("\x80\4(iposix\nsystem\n."), "(INST)" },
	{ OPS("\x80\4(o."), "(OBJ)" },
	{ OPS("\x80\4)\x81."), "(NEWOBJ)" },
	{ OPS("\x80\4)\x92."), "(NEWOBJ_EX)" },
	{ OPS("\x80\4Pid\n."), "(PERSID)" },
	{ OPS("\x80\4NQ."), "(BINPERSID)" },
	{ OPS("\x80\4\x82\1."), "(EXT1)" },
	{ OPS("\x80\4\x83\1\1."), "(EXT2)" },
	{ OPS("\x80\4\x84\1\1\1\1."), "(EXT4)" },
	{ OPS("\x80\5\x97."), "(NEXT_BUFFER)" },
	{ OPS("\x80\6}."), "pickle protocol 6, expected 2 to 5" },
	{ OPS("}q\0X\1\0\0\0aq\1I1\ns."), "opcode 'I' of pickle protocol 0" },
	{ OPS("(dp0\nS'segments'\n"), "byte 2: opcode 'p' of pickle protocol 0" },
	{ OPS("\x80\4\xff."), "byte 2: unknown opcode 0xff" },
	{ OPS("\x80\4h\7."), "memo index 7, expected one of the 0 entries" },
	{ OPS("\x80\4j\377\377\377\377."), "memo index 4294967295" },
	{ OPS("\x80\4]r\377\377\377\377."),
	  "memo index 4294967295, expected them to count from 0" },
	{ OPS("\x80\4\x94."), "needs more values than there are" },
	{ OPS("\x80\4a."), "needs more values than there are" },
	{ OPS("\x80\4]a."), "needs more values than there are" },
	{ OPS("\x80\4](a."), "needs more values than there are" },
	{ OPS("\x80\4}K\1s."), "needs more values than there are" },
	{ OPS("\x80\4K\1\x86."), "needs more values than there are" },
	{ OPS("\x80\4]K\1(\x85."), "needs more values than there are" },
	{ OPS("\x80\4"
	      "0."),
	  "needs more values than there are" },
	{ OPS("\x80\4]e."), "without its MARK" },
	{ OPS("\x80\4}u."), "without its MARK" },
	{ OPS("\x80\4t."), "without its MARK" },
	{ OPS("\x80\4"
	      "1."),
	  "without its MARK" },
	{ OPS("\x80\4(e."), "needs more values than there are" },
	{ OPS("\x80\4](u."), "cannot hold them, expected a new dict" },
	{ OPS("\x80\4}(e."), "cannot hold them, expected a new list" },
	{ OPS("\x80\4K\1K\2a."), "cannot hold them" },
	{ OPS("\x80\4}(K\1u."), "a key without a value" },
	{ OPS("\x80\4."), "STOP with 0 values" },
	{ OPS("\x80\4NN."), "STOP with 2 values" },
	{ OPS("\x80\4N(."), "STOP with 1 values and 1 marks" },
	{ OPS("\x80\4\x8b\0\0\0\200."), "LONG4 of negative length" },
	{ OPS("\x80\4X\377\377\377\377abc"), "truncated" },
	{ OPS("\x80\4\x8d\377\377\377\377\377\377\377\377abc"), "truncated" },
	{ OPS("\x80\4K\1."), "a number without \"segments\"" },
	{ OPS("\x80\4}."), "a dict without \"segments\"" },
	{ OPS("\x80\4]."), "a list without \"segments\"" },
	{ OPS("\x80\4}\x8c\6"
	      "action\x8c\10snapshots\x8c\4"
	      "addrK\2s."),
	  "a dict comes in pieces" },
};
/* clang-format on */

static void test_bad_ops(void **state)
{
	struct gp_trace *t;
	char why[512];

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(bad_ops); i++) {
		int r = fmt_load(bad_ops[i].data, bad_ops[i].n, NULL, &t, why, sizeof(why));

		if (r != -EINVAL || !strstr(why, bad_ops[i].why) || !strstr(why, "expected") ||
		    strchr(why, '\n'))
			fail_msg("case %zu: result %d, \"%s\"; expected \"%s\"", i, r, why,
				 bad_ops[i].why);
	}
}

/* Opcodes that a snapshot does not need to have: pickled by hand, and read. */
#define HEAD                                                                                       \
	"\x80\5}(\x8c\15"                                                                          \
	"device_traces"
#define EVENT                                                                                      \
	"}(\x8c\6"                                                                                 \
	"action"                                                                                   \
	"\x8c\5"                                                                                   \
	"alloc"                                                                                    \
	"\x8c\4"                                                                                   \
	"addr"                                                                                     \
	"K\7\x8c\4size"
#define FINISH "uaa"

/* clang-format off */
static const struct {
	const char *data;
	size_t n;
	const char *spelled; /* NULL: refused */
} ops[] = {
	{ OPS(HEAD "]]" EVENT "K\1" FINISH "u."), "a0:1@0" },
	{ OPS(HEAD "]]" EVENT "M\1\1" FINISH "u."), "a0:257@0" },
	{ OPS(HEAD "]]" EVENT "\x8a\0" FINISH "u."), "a0:0@0" },
	{ OPS(HEAD "]]" EVENT "\x8a\2\1\1" FINISH "u."), "a0:257@0" },
	{ OPS(HEAD "]]" EVENT "\x8a\5\0\0\0\0\1" FINISH "u."), "a0:4294967296@0" },
	{ OPS(HEAD "]]" EVENT "\x8b\2\0\0\0\1\1" FINISH "u."), "a0:257@0" },
	{ OPS(HEAD "]]" EVENT "\x8a\11\0\0\0\0\0\0\0\200\0" FINISH "u."),
	  "a0:9223372036854775808@0" },
	{ OPS(HEAD "]]" EVENT "\x8a\11\0\0\0\0\0\0\0\0\1" FINISH "u."), NULL },
	{ OPS(HEAD "]]" EVENT "\x8a\2\1\200" FINISH "u."), NULL },
	{ OPS(HEAD "]]" EVENT "J\0\0\0\200" FINISH "u."), NULL },
	{ OPS(HEAD "]]" EVENT "G\0\0\0\0\0\0\0\0" FINISH "u."), NULL },
	/* Nine bytes, ten and two hundred where they do no harm. */
	{ OPS(HEAD "]]" EVENT "K\1" FINISH "\x8c\22"
		   "allocator_settings"
		   "}(\x8c\16max_split_size\x8a\11\377\377\377\377\377\377\377\377\0"
		   "\x8c\1y\x8a\12\0\0\0\0\0\0\0\0\0\1uu."),
	  "a0:1@0" },
	/* Tuples for lists; a list and a dict made of what a MARK holds. */
	{ OPS(HEAD "(" EVENT "K\1ut\x85u."), "a0:1@0" },
	{ OPS(HEAD "(" EVENT "K\1ulN0)0(0(NN1\x85u."), "a0:1@0" },
	{ OPS(HEAD "]](\x8c\6"
		   "action\x8c\5"
		   "alloc\x8c\4"
		   "addrK\7\x8c\4sizeK\1daau."),
	  "a0:1@0" },
	/* Python 2 strings, bytes, sets, constants; tuples of three; a frame size that is wrong. */
	{ OPS(HEAD
	      "]]" EVENT "K\1" FINISH "U\1xC\2abU\1yB\2\0\0\0abU\1z\x8e\1\0\0\0\0\0\0\0a"
	      "T\1\0\0\0v\x8f(K\1\x90U\1w(K\1\x91U\1uNU\1t\x88U\1sNNN\x87U\1r\x96\0\0\0\0\0\0\0\0"
	      "\x95\1\0\0\0\0\0\0\0u."),
	  "a0:1@0" },
	/* The same empty list for two GPUs. */
	{ OPS(HEAD "](]\x94h\0]" EVENT "K\1uaeu."), "a0:1@0" },
	/* The same list of events for two GPUs; a key out of the memo; a number out of it. */
	{ OPS(HEAD "](]\x94" EVENT "K\1uah\0eu."), NULL },
	{ OPS(HEAD "]]}(\x8c\6"
		   "action\x8c\5"
		   "alloc\x94\x8c\4"
		   "addrK\7\x8c\4sizeh\0uaau."),
	  NULL },
	{ OPS(HEAD "]]" EVENT "K\1\x94\x8c\6streamh\0" FINISH "u."), NULL },
	/* Something behind the end. */
	{ OPS(HEAD "]]" EVENT "K\1" FINISH "u.x"), NULL },
};
/* clang-format on */

static void test_ops(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(ops); i++) {
		struct gp_trace *t;
		char why[512];
		int r = fmt_load(ops[i].data, ops[i].n, NULL, &t, why, sizeof(why));

		if ((r == 0) != (ops[i].spelled != NULL) || (r && !strstr(why, "expected")))
			fail_msg("case %zu: result %d, %s", i, r, why);
		if (r)
			continue;
		fmt_check_spelling(t, ops[i].spelled, ops[i].spelled);
		gp_trace_destroy(t);
	}
}

/* Marks and containers a million deep; a string that is longer than any window. */
static void test_bombs(void **state)
{
	static const struct {
		char op;
		const char *why;
	} bombs[] = {
		{ '(', "nested deeper than 1000 levels" },
		{ ']', "truncated" },
		{ '}', "truncated" },
		{ ')', "truncated" },
	};
	const size_t n = (size_t)1 << 20;
	char *data = malloc(n), why[512];
	struct gp_trace *t;

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(bombs); i++) {
		memset(data, bombs[i].op, n);
		memcpy(data, "\x80\4", 2);
		assert_int_equal(fmt_load(data, n, NULL, &t, why, sizeof(why)), -EINVAL);
		assert_non_null(strstr(why, bombs[i].why));
	}
	memset(data, 'x', n);
	memcpy(data, OPS(HEAD "]]" EVENT "K\1" FINISH "X\0\0\17\0"));
	memcpy(data + sizeof(HEAD "]]" EVENT "K\1" FINISH "X\0\0\17\0") - 1 + 0xf0000, "Nu.", 3);
	if (fmt_load(data, sizeof(HEAD "]]" EVENT "K\1" FINISH "X\0\0\17\0") - 1 + 0xf0000 + 3,
		     NULL, &t, why, sizeof(why)))
		fail_msg("%s", why);
	fmt_check_spelling(t, "a0:1@0", "a long string");
	gp_trace_destroy(t);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_ops),
		cmocka_unit_test(test_ops),
		cmocka_unit_test(test_bombs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
