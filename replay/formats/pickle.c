/* SPDX-License-Identifier: Apache-2.0
 *
 * pickle: see pickle.h.
 *
 * Shape       one table of all opcodes (Python's pickletools): name, bytes of the argument, what to
 *             do. Without something to do, the name is what a refusal tells.
 * Bounds      memory follows the bytes read: a memo index is never beyond them, marks nest at most
 *             PICKLE_MARKS_MAX deep, and the stack holds PICKLE_STACK_MAX values at most.
 */
#include "pickle.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PICKLE_STACK_MAX ((size_t)1 << 26) /* 1.6 GB: a list of 64 million events in one go */
#define PICKLE_MARKS_MAX 1000u             /* levels; a snapshot has ten */
#define PICKLE_WORD_MAX  64u               /* bytes of a string that may be a word */
#define PICKLE_TEXT_MAX  4096u             /* bytes of a text that are kept */
#define PICKLE_STOP      2

struct gp_pickle_op {
	const char *name;
	int (*run)(struct gp_pickle *p); /* NULL: refused */
	uint8_t n_operand;               /* bytes, little-endian */
	uint8_t what;                    /* enum gp_plain_kind, or how many */
};

/* A memo entry: kind + 1 in the low bits (0: no entry), and the number of a word or text. */
#define MEMO_KIND_BITS 4u

_Static_assert(GP_PLAIN_N < 1u << MEMO_KIND_BITS, "a kind fits a memo entry");

GP_NOINLINE static int pickle_bad(struct gp_pickle *p, const char *fmt, ...) GP_PRINTF(2, 3);

static int pickle_bad(struct gp_pickle *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->error, sizeof(p->error), fmt, ap);
	va_end(ap);
	return GP_PICKLE_BAD;
}

GP_NOINLINE static int pickle_truncated(struct gp_pickle *p)
{
	p->truncated = true;
	p->at = p->taken;
	return pickle_bad(p, "the pickle ends in the middle (truncated), expected its STOP");
}

GP_NOINLINE static int pickle_underflow(struct gp_pickle *p)
{
	return pickle_bad(p, "an opcode needs more values than there are, expected a whole pickle");
}

/* ---- input ---- */

/* n (up to GP_INPUT_PEEK_MAX) bytes in one piece at in->p. */
static inline bool pickle_need(struct gp_pickle *p, size_t n)
{
	const unsigned char *data;

	if (GP_LIKELY((size_t)(p->in->end - p->in->p) >= n))
		return true;
	return gp_input_peek(p->in, &data) >= n;
}

static inline void pickle_take(struct gp_pickle *p, size_t n)
{
	p->in->p += n;
	p->taken += n;
}

static int pickle_skip(struct gp_pickle *p, uint64_t n)
{
	while (n) {
		size_t here;

		if (p->in->p == p->in->end && !gp_input_fill(p->in))
			return pickle_truncated(p);
		here = (size_t)gp_min_u64(n, (uint64_t)(p->in->end - p->in->p));
		pickle_take(p, here);
		n -= here;
	}
	return 0;
}

static inline uint64_t pickle_little_endian(const unsigned char *bytes, size_t n)
{
	uint64_t x = 0;

	while (n--)
		x = x << 8 | bytes[n];
	return x;
}

/* ---- the stack ---- */

static int pickle_grow(struct gp_pickle *p)
{
	size_t capacity = 2 * p->capacity;
	struct gp_plain *stack;

	if (capacity > PICKLE_STACK_MAX)
		return pickle_bad(p, "more than %zu values at once, expected fewer",
				  PICKLE_STACK_MAX);
	stack = realloc(p->stack, capacity * sizeof(*stack));
	if (!stack)
		return -ENOMEM;
	p->stack = stack;
	p->capacity = capacity;
	return 0;
}

static inline int pickle_push(struct gp_pickle *p, enum gp_plain_kind kind, uint64_t number)
{
	p->n_recent = 0;
	if (GP_UNLIKELY(p->n == p->capacity)) {
		int r = pickle_grow(p);

		if (r)
			return r;
	}
	p->stack[p->n++] = (struct gp_plain){ .kind = (uint8_t)kind, .number = number };
	return 0;
}

/* Opcodes see no further down than to the last MARK. */
static inline size_t pickle_floor(const struct gp_pickle *p)
{
	return p->n_marks ? p->marks[p->n_marks - 1] : 0;
}

static inline bool pickle_has(const struct gp_pickle *p, size_t n)
{
	return p->n - pickle_floor(p) >= n;
}

static int pickle_mark(struct gp_pickle *p)
{
	if (p->n_marks == PICKLE_MARKS_MAX)
		return pickle_bad(p, "nested deeper than %u levels, expected plain data",
				  PICKLE_MARKS_MAX);
	p->marks[p->n_marks++] = p->n;
	return 0;
}

/* Takes the last MARK away; the values above it begin at *from. */
static int pickle_unmark(struct gp_pickle *p, size_t *from)
{
	*from = 0;
	if (!p->n_marks)
		return pickle_bad(p, "an opcode without its MARK, expected a whole pickle");
	*from = p->marks[--p->n_marks];
	return 0;
}

static int pickle_pop(struct gp_pickle *p)
{
	if (p->n_marks && p->n == pickle_floor(p))
		p->n_marks--; /* as Python does: POP takes a MARK too */
	else if (!p->n)
		return pickle_underflow(p);
	else
		p->n--;
	return 0;
}

/* POP_MARK, and ADDITEMS and FROZENSET: nobody wants to know what is in a set. */
static int pickle_pop_mark(struct gp_pickle *p)
{
	size_t from;
	int r = pickle_unmark(p, &from);

	if (r)
		return r;
	p->n = from;
	return p->op->what ? pickle_push(p, (enum gp_plain_kind)p->op->what, 0) : 0;
}

/* ---- numbers, constants ---- */

static int pickle_value(struct gp_pickle *p)
{
	return pickle_push(p, (enum gp_plain_kind)p->op->what, p->operand);
}

/* Of 32 bits, signed. */
static int pickle_int(struct gp_pickle *p)
{
	bool negative = p->operand >> 31;

	return pickle_push(p, negative ? GP_PLAIN_NEGATIVE : GP_PLAIN_UNSIGNED,
			   p->operand | (negative ? UINT64_MAX << 32 : 0));
}

/* Two's complement in n bytes; n = 0 is the number 0. Nine of them are needed from 2^63 on. */
static int pickle_long(struct gp_pickle *p)
{
	uint64_t n = p->operand;
	size_t head = (size_t)gp_min_u64(n, 9), low = (size_t)gp_min_u64(n, 8);
	enum gp_plain_kind kind = GP_PLAIN_UNSIGNED;
	uint64_t x;
	int r;

	if (p->op->n_operand == 4 && n >> 31)
		return pickle_bad(p, "LONG4 of negative length, expected a whole pickle");
	if (!pickle_need(p, head))
		return pickle_truncated(p);
	x = pickle_little_endian(p->in->p, low);
	if (n > 9 || (n == 9 && p->in->p[8]))
		kind = GP_PLAIN_HUGE;
	else if (n && n < 9 && p->in->p[n - 1] >> 7)
		kind = GP_PLAIN_NEGATIVE;
	if (kind == GP_PLAIN_NEGATIVE && n < 8)
		x |= UINT64_MAX << (8 * n);
	r = pickle_skip(p, n);
	return r ? r : pickle_push(p, kind, x);
}

/* ---- strings ---- */

static int pickle_bytes(struct gp_pickle *p)
{
	uint64_t n = p->operand;
	int r = pickle_skip(p, n);

	return r ? r : pickle_push(p, GP_PLAIN_OTHER, 0);
}

/* Python has but one object for each string of up to one character: it may have been met elsewhere
 * before it comes up where it matters. */
static bool pickle_wants_text(const struct gp_pickle *p, uint64_t n)
{
	const struct gp_plain *key = p->n ? &p->stack[p->n - 1] : NULL;

	return n <= 1 ||
	       (key && key->kind == GP_PLAIN_WORD && p->reader->keeps((uint32_t)key->number));
}

static void pickle_remember(struct gp_pickle *p, const char *text, size_t n)
{
	n = n < sizeof(p->recent[0]) ? n : sizeof(p->recent[0]) - 1;
	memcpy(p->recent[0], p->recent[1], sizeof(p->recent[0]));
	memcpy(p->recent[1], text, n);
	p->recent[1][n] = 0;
}

static int pickle_string(struct gp_pickle *p)
{
	uint64_t n = p->operand;
	size_t head = (size_t)gp_min_u64(n, PICKLE_TEXT_MAX);
	enum gp_plain_kind kind = GP_PLAIN_STRING;
	unsigned n_recent = p->n_recent + 1;
	uint64_t number = 0;
	uint32_t word = GP_PICKLE_NO_WORD;
	const char *text;
	int r = 0;

	if (!pickle_need(p, head))
		return pickle_truncated(p);
	text = (const char *)p->in->p;
	if (n <= PICKLE_WORD_MAX)
		word = p->reader->word(text, head);
	pickle_remember(p, text, head);
	if (word != GP_PICKLE_NO_WORD) {
		kind = GP_PLAIN_WORD;
		number = word;
	} else if (pickle_wants_text(p, n)) {
		kind = GP_PLAIN_TEXT;
		r = p->reader->text(p->arg, text, head, &number);
	}
	if (!r)
		r = pickle_skip(p, n);
	if (!r)
		r = pickle_push(p, kind, number);
	p->n_recent = n_recent;
	return r;
}

/* ---- containers ---- */

/* The values from `from` on go into the container just below them, which is of this kind. */
static int pickle_fill(struct gp_pickle *p, size_t from, unsigned kind)
{
	struct gp_plain *container;
	size_t n = p->n - from;
	int r = 0;

	if (from == pickle_floor(p))
		return pickle_underflow(p);
	container = &p->stack[from - 1];
	if (container->kind != kind)
		return pickle_bad(p, "items for something that cannot hold them, expected a new %s",
				  kind == GP_PLAIN_LIST ? "list" : "dict");
	if (kind == GP_PLAIN_DICT && n % 2)
		return pickle_bad(p, "a key without a value, expected pairs");
	if (n && container->memo)
		p->memo[container->memo - 1] = GP_PLAIN_SHARED + 1;
	if (n && kind == GP_PLAIN_LIST)
		r = p->reader->list(p->arg, container, container + 1, n);
	else if (n)
		r = p->reader->dict(p->arg, container, container + 1, n / 2);
	p->n = from;
	return r;
}

/* APPEND, SETITEM */
static int pickle_fill_one(struct gp_pickle *p)
{
	size_t n = p->op->what == GP_PLAIN_DICT ? 2 : 1;

	return pickle_has(p, n + 1) ? pickle_fill(p, p->n - n, p->op->what) : pickle_underflow(p);
}

/* APPENDS, SETITEMS */
static int pickle_fill_many(struct gp_pickle *p)
{
	size_t from;
	int r = pickle_unmark(p, &from);

	return r ? r : pickle_fill(p, from, p->op->what);
}

/* Makes a container of the values from `from` on. */
static int pickle_wrap(struct gp_pickle *p, size_t from, unsigned kind)
{
	size_t n = p->n - from;
	int r = pickle_push(p, GP_PLAIN_NONE, 0);

	if (r)
		return r;
	memmove(&p->stack[from + 1], &p->stack[from], n * sizeof(*p->stack));
	p->stack[from] = (struct gp_plain){ .kind = (uint8_t)kind };
	return pickle_fill(p, from + 1, kind);
}

/* LIST, TUPLE, DICT */
static int pickle_wrap_many(struct gp_pickle *p)
{
	size_t from;
	int r = pickle_unmark(p, &from);

	return r ? r : pickle_wrap(p, from, p->op->what);
}

static int pickle_tuple(struct gp_pickle *p)
{
	if (!pickle_has(p, p->op->what))
		return pickle_underflow(p);
	return pickle_wrap(p, p->n - p->op->what, GP_PLAIN_LIST);
}

/* ---- the memo ---- */

static int pickle_grow_memo(struct gp_pickle *p, uint64_t index)
{
	size_t capacity = p->memo_capacity ? p->memo_capacity : 1024;
	uint32_t *memo;

	while (capacity <= index)
		capacity *= 2;
	memo = realloc(p->memo, capacity * sizeof(*memo));
	if (!memo)
		return -ENOMEM;
	p->memo = memo;
	p->memo_capacity = capacity;
	return 0;
}

static int pickle_put(struct gp_pickle *p)
{
	uint64_t index = p->operand;
	struct gp_plain *top;
	uint32_t entry;

	if (!pickle_has(p, 1))
		return pickle_underflow(p);
	top = &p->stack[p->n - 1];
	if (index > p->taken || index >= UINT32_MAX)
		return pickle_bad(p, "memo index %llu, expected them to count from 0",
				  (unsigned long long)index);
	if (index >= p->memo_capacity && pickle_grow_memo(p, index))
		return -ENOMEM;
	while (p->n_memo <= index)
		p->memo[p->n_memo++] = 0;
	entry = top->kind + 1u;
	if (top->kind == GP_PLAIN_WORD || top->kind == GP_PLAIN_TEXT)
		entry |= (uint32_t)(top->number << MEMO_KIND_BITS);
	else if (top->kind == GP_PLAIN_LIST || top->kind == GP_PLAIN_DICT)
		top->memo = (uint32_t)index + 1;
	else if (top->kind != GP_PLAIN_STRING)
		entry = GP_PLAIN_OTHER + 1;
	if (top->n || top->tag)
		entry = GP_PLAIN_SHARED + 1;
	p->n_memoized += !p->memo[index];
	p->memo[index] = entry;
	return 0;
}

static int pickle_memoize(struct gp_pickle *p)
{
	p->operand = p->n_memoized;
	return pickle_put(p);
}

static int pickle_get(struct gp_pickle *p)
{
	uint64_t index = p->operand;
	uint32_t entry = index < p->n_memo ? p->memo[index] : 0;

	if (!entry)
		return pickle_bad(p, "memo index %llu, expected one of the %zu entries",
				  (unsigned long long)index, p->n_memoized);
	return pickle_push(p, (enum gp_plain_kind)((entry & ((1u << MEMO_KIND_BITS) - 1)) - 1),
			   entry >> MEMO_KIND_BITS);
}

/* ---- the rest ---- */

static int pickle_proto(struct gp_pickle *p)
{
	uint64_t version = p->operand;

	if (version < 2 || version > 5)
		return pickle_bad(p, "pickle protocol %u, expected 2 to 5", (unsigned)version);
	return 0;
}

/* FRAME: how much to read at once. We have a window anyway. */
static int pickle_ignore(struct gp_pickle *p)
{
	(void)p;
	return 0;
}

static int pickle_stop(struct gp_pickle *p)
{
	if (p->n_marks || p->n != 1)
		return pickle_bad(p, "STOP with %zu values and %zu marks left, expected one value",
				  p->n, p->n_marks);
	return PICKLE_STOP;
}

/* clang-format off */
static const struct gp_pickle_op pickle_ops[256] = {
	['('] = { "MARK", pickle_mark, 0, 0 },
	['.'] = { "STOP", pickle_stop, 0, 0 },
	['0'] = { "POP", pickle_pop, 0, 0 },
	['1'] = { "POP_MARK", pickle_pop_mark, 0, 0 },
	['J'] = { "BININT", pickle_int, 4, 0 },
	['K'] = { "BININT1", pickle_value, 1, GP_PLAIN_UNSIGNED },
	['M'] = { "BININT2", pickle_value, 2, GP_PLAIN_UNSIGNED },
	['N'] = { "NONE", pickle_value, 0, GP_PLAIN_NONE },
	['P'] = { "PERSID", NULL, 0, 0 },
	['Q'] = { "BINPERSID", NULL, 0, 0 },
	['R'] = { "REDUCE", NULL, 0, 0 },
	['T'] = { "BINSTRING", pickle_string, 4, 0 },
	['U'] = { "SHORT_BINSTRING", pickle_string, 1, 0 },
	['X'] = { "BINUNICODE", pickle_string, 4, 0 },
	['a'] = { "APPEND", pickle_fill_one, 0, GP_PLAIN_LIST },
	['b'] = { "BUILD", NULL, 0, 0 },
	['c'] = { "GLOBAL", NULL, 0, 0 },
	['d'] = { "DICT", pickle_wrap_many, 0, GP_PLAIN_DICT },
	['}'] = { "EMPTY_DICT", pickle_value, 0, GP_PLAIN_DICT },
	['e'] = { "APPENDS", pickle_fill_many, 0, GP_PLAIN_LIST },
	['h'] = { "BINGET", pickle_get, 1, 0 },
	['i'] = { "INST", NULL, 0, 0 },
	['j'] = { "LONG_BINGET", pickle_get, 4, 0 },
	['l'] = { "LIST", pickle_wrap_many, 0, GP_PLAIN_LIST },
	[']'] = { "EMPTY_LIST", pickle_value, 0, GP_PLAIN_LIST },
	['o'] = { "OBJ", NULL, 0, 0 },
	['q'] = { "BINPUT", pickle_put, 1, 0 },
	['r'] = { "LONG_BINPUT", pickle_put, 4, 0 },
	['s'] = { "SETITEM", pickle_fill_one, 0, GP_PLAIN_DICT },
	['t'] = { "TUPLE", pickle_wrap_many, 0, GP_PLAIN_LIST },
	[')'] = { "EMPTY_TUPLE", pickle_value, 0, GP_PLAIN_LIST },
	['u'] = { "SETITEMS", pickle_fill_many, 0, GP_PLAIN_DICT },
	['G'] = { "BINFLOAT", pickle_value, 8, GP_PLAIN_FLOAT },
	['B'] = { "BINBYTES", pickle_bytes, 4, 0 },
	['C'] = { "SHORT_BINBYTES", pickle_bytes, 1, 0 },
	[0x80] = { "PROTO", pickle_proto, 1, 0 },
	[0x81] = { "NEWOBJ", NULL, 0, 0 },
	[0x82] = { "EXT1", NULL, 0, 0 },
	[0x83] = { "EXT2", NULL, 0, 0 },
	[0x84] = { "EXT4", NULL, 0, 0 },
	[0x85] = { "TUPLE1", pickle_tuple, 0, 1 },
	[0x86] = { "TUPLE2", pickle_tuple, 0, 2 },
	[0x87] = { "TUPLE3", pickle_tuple, 0, 3 },
	[0x88] = { "NEWTRUE", pickle_value, 0, GP_PLAIN_BOOL },
	[0x89] = { "NEWFALSE", pickle_value, 0, GP_PLAIN_BOOL },
	[0x8a] = { "LONG1", pickle_long, 1, 0 },
	[0x8b] = { "LONG4", pickle_long, 4, 0 },
	[0x8c] = { "SHORT_BINUNICODE", pickle_string, 1, 0 },
	[0x8d] = { "BINUNICODE8", pickle_string, 8, 0 },
	[0x8e] = { "BINBYTES8", pickle_bytes, 8, 0 },
	[0x8f] = { "EMPTY_SET", pickle_value, 0, GP_PLAIN_OTHER },
	[0x90] = { "ADDITEMS", pickle_pop_mark, 0, 0 },
	[0x91] = { "FROZENSET", pickle_pop_mark, 0, GP_PLAIN_OTHER },
	[0x92] = { "NEWOBJ_EX", NULL, 0, 0 },
	[0x93] = { "STACK_GLOBAL", NULL, 0, 0 },
	[0x94] = { "MEMOIZE", pickle_memoize, 0, 0 },
	[0x95] = { "FRAME", pickle_ignore, 8, 0 },
	[0x96] = { "BYTEARRAY8", pickle_bytes, 8, 0 },
	[0x97] = { "NEXT_BUFFER", NULL, 0, 0 },
	[0x98] = { "READONLY_BUFFER", NULL, 0, 0 },
};
/* clang-format on */

/* What GLOBAL or STACK_GLOBAL looks up, " torch.device", where it is at hand. */
static void pickle_global_name(struct gp_pickle *p, unsigned char op, char *name, size_t size)
{
	const unsigned char *text;
	unsigned lines = 0;
	size_t n;

	*name = 0;
	if (op == 0x93 && p->n_recent >= 2)
		snprintf(name, size, " %s.%s", p->recent[0], p->recent[1]);
	if (op != 'c')
		return;
	/* The module and the name in it, on a line each. */
	n = gp_input_peek(p->in, &text);
	*name++ = ' ';
	for (size_t i = 0; i < n && i < size - 2; i++) {
		lines += text[i] == '\n';
		if (lines == 2)
			break;
		*name++ = (char)(text[i] == '\n' ? '.' : text[i]);
	}
	*name = 0;
}

GP_NOINLINE static int pickle_refuse(struct gp_pickle *p, unsigned char byte)
{
	const struct gp_pickle_op *op = &pickle_ops[byte];
	char name[160];

	if (byte && strchr("FILSVgp", byte))
		return pickle_bad(p, "opcode '%c' of pickle protocol 0, expected protocol 2 to 5",
				  byte);
	if (!op->name)
		return pickle_bad(p, "unknown opcode 0x%02x, expected a pickle", byte);
	pickle_global_name(p, byte, name, sizeof(name));
	for (char *c = name; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return pickle_bad(p, "this pickle would build a Python object (%s%s), expected plain data",
			  op->name, name);
}

int gp_pickle_init(struct gp_pickle *p, struct gp_input *in, const struct gp_pickle_reader *reader,
		   void *arg)
{
	memset(p, 0, sizeof(*p));
	p->in = in;
	p->reader = reader;
	p->arg = arg;
	p->capacity = 1024;
	p->stack = malloc(p->capacity * sizeof(*p->stack));
	p->marks = malloc(PICKLE_MARKS_MAX * sizeof(*p->marks));
	return p->stack && p->marks ? 0 : -ENOMEM;
}

void gp_pickle_fini(struct gp_pickle *p)
{
	free(p->stack);
	free(p->marks);
	free(p->memo);
}

int gp_pickle_run(struct gp_pickle *p, struct gp_plain *out)
{
	int r = 0;

	while (!r) {
		unsigned char byte;
		size_t n;

		p->at = p->taken;
		if (!pickle_need(p, 1))
			return pickle_truncated(p);
		byte = *p->in->p;
		p->op = &pickle_ops[byte];
		n = p->op->n_operand;
		if (!pickle_need(p, 1 + n))
			return pickle_truncated(p);
		p->operand = pickle_little_endian(p->in->p + 1, n);
		pickle_take(p, 1 + n);
		r = GP_LIKELY(p->op->run) ? p->op->run(p) : pickle_refuse(p, byte);
	}
	if (r != PICKLE_STOP)
		return r;
	*out = p->stack[0];
	return 0;
}
