/* SPDX-License-Identifier: Apache-2.0
 *
 * pickle: runs the program that a Python pickle is, for plain data alone, and never builds a tree.
 *
 *   } MARK "action" "alloc" "addr" 4096 SETITEMS  ->  dict(["action", "alloc", "addr", 4096])
 *   ] MARK {...} {...} APPENDS                    ->  list([DICT, DICT])
 *
 * The reader's two callbacks reduce each container to a struct gp_plain when its contents are
 * known.
 *
 * Safety      whatever would call, import or build something is refused by name. Nothing recurses.
 * Strings     the reader knows some by heart (`word`) and keeps the values of some keys (`text`);
 *             the others are passed over, whatever their length.
 * Memory      24 bytes a value on the stack (what is not in its container yet: a thousand or so as
 *             Python writes, a whole list as PyTorch's C++ does), 4 bytes a memo entry. Numbers put
 *             into the memo, and containers that hold something, cannot be had back from it.
 * Not done    protocols 0 and 1; out-of-band buffers.
 * Threads     caller serialises.
 */
#ifndef GP_PICKLE_H
#define GP_PICKLE_H

#include "input.h"
#include "plain.h"

#define GP_PICKLE_NO_WORD UINT32_MAX
#define GP_PICKLE_BAD     1 /* gp_pickle_run(): `error` says what is wrong at byte `at` */

/* Callbacks return 0, or a negative number that ends the run and is its result. */
struct gp_pickle_reader {
	/* The number of a string the reader knows, below 2^28; or GP_PICKLE_NO_WORD. */
	uint32_t (*word)(const char *text, size_t n);
	/* The string that follows this word is kept, if it is no word itself. */
	bool (*keeps)(uint32_t word);
	/* Keeps a text; *out: its number, below 2^28. */
	int (*text)(void *arg, const char *text, size_t n, uint64_t *out);
	/* Adds n keys, each followed by its value: pairs[0 ... 2n - 1]. */
	int (*dict)(void *arg, struct gp_plain *dict, const struct gp_plain *pairs, size_t n);
	int (*list)(void *arg, struct gp_plain *list, const struct gp_plain *items, size_t n);
};

struct gp_pickle_op;

struct gp_pickle {
	uint64_t at; /* offset of the opcode at work */
	char error[256];
	bool truncated; /* the error is that the input ended */
	/* What is not in its container yet, oldest first. */
	struct gp_plain *stack;
	size_t n;

	/* Below: for pickle.c alone. */
	struct gp_input *in;
	const struct gp_pickle_op *op; /* at work */
	uint64_t operand;
	const struct gp_pickle_reader *reader;
	void *arg;
	uint64_t taken; /* bytes */
	size_t capacity;
	size_t *marks; /* heights of the stack */
	size_t n_marks;
	uint32_t *memo;
	size_t n_memo, memo_capacity, n_memoized;
	char recent[2][64]; /* the last two strings, for messages */
	unsigned n_recent;  /* strings pushed in a row */
};

/* The input stays the caller's. 0 or -ENOMEM. */
int gp_pickle_init(struct gp_pickle *p, struct gp_input *in, const struct gp_pickle_reader *reader,
		   void *arg);
void gp_pickle_fini(struct gp_pickle *p);
/* Up to and with STOP. 0: *out is the value; GP_PICKLE_BAD; -ENOMEM; or what a callback returned.
 */
int gp_pickle_run(struct gp_pickle *p, struct gp_plain *out);

#endif
