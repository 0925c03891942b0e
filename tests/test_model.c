/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model SPEC [SEED [OPERATIONS [MIX]]]: random operations on one allocator against a
 * reference: a plain interval set of live blocks, what the device holds, and for each byte that
 * was freed the stream and the moment (the spy in support.h).
 *
 * An operation is {kind, a, b}, and means something whatever came before it, so a failing list can
 * be cut: halves, quarters, ... are left out as long as the rest still fails. The smallest list is
 * printed. Not a cmocka suite, because a failure must not end the program: it speaks TAP itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS     4
#define AUDIT_EVERY 64 /* operations */

enum op_kind {
	OP_ALLOC, /* a: size, b: stream and alignment */
	OP_FREE,  /* a: picks a live block            */
	OP_FREE_NEWEST,
	OP_DOUBLE_FREE, /* a: picks an address freed before */
	OP_TRIM,        /* a: how much to keep, in 256ths of what is reserved */
	OP_FREE_ALL,
};

struct op {
	enum op_kind kind;
	uint64_t a, b;
};

/* What the random operations are like. */
struct mix {
	const char *name;
	uint64_t capacity;
	uint64_t lo, hi; /* sizes, each doubling as likely as another */
	unsigned alloc;  /* of 100 operations, while few blocks live  */
	uint64_t live;   /* around so many blocks live at once        */
	unsigned streams;
	unsigned aligned; /* of 100 requests have an alignment         */
};

static const struct mix mixes[] = {
	{ "small", 64 * GP_MIB, 1, 4 * GP_KIB, 60, 2000, 1, 0 },
	{ "medium", 256 * GP_MIB, 256, 4 * GP_MIB, 60, 200, 2, 10 },
	{ "large", 512 * GP_MIB, GP_MIB, 128 * GP_MIB, 55, 12, 2, 10 },
	{ "everything", 512 * GP_MIB, 1, 64 * GP_MIB, 60, 150, STREAMS, 20 },
	{ "pressure", 40 * GP_MIB, 1, 2 * GP_MIB, 75, 400, STREAMS, 5 },
};

/* ---- one run ---- */

struct model {
	struct pool p;
	uint64_t *freed; /* addresses that were blocks once */
	size_t n_freed, cap_freed;
	uint64_t newest;
	char wrong[240];
};

static bool model_wrong(struct model *m, const char *fmt, ...) GP_PRINTF(2, 3);

static bool model_wrong(struct model *m, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(m->wrong, sizeof(m->wrong), fmt, ap);
	va_end(ap);
	return false;
}

static bool model_alloc(struct model *m, const struct op *op)
{
	unsigned lg_align = (unsigned)(op->b >> 8);
	struct gp_request req = { .size = op->a,
				  .stream = op->b & 0xff,
				  .lg_align = (uint8_t)lg_align };
	struct gp_block block;
	const char *wrong;
	int r = gp_alloc(m->p.a, &req, &block);

	if (r > 0 && r <= GP_HELD)
		return true;
	if (r)
		return model_wrong(m, "alloc: %d: %s", r, m->p.a->why);
	if (block.addr & ((UINT64_C(1) << (lg_align < 8 ? 8 : lg_align)) - 1))
		return model_wrong(m, "0x%" PRIx64 " is not aligned to 2^%u", block.addr, lg_align);
	if (block.granted < op->a)
		return model_wrong(m, "granted %" PRIu64 " of %" PRIu64, block.granted, op->a);
	if (!test_intervals_add(&m->p.live, block.addr, block.granted, req.stream))
		return model_wrong(m, "0x%" PRIx64 " lies over a live block", block.addr);
	wrong = spy_block_given(&m->p.spy, block.addr, block.granted, req.stream);
	if (wrong)
		return model_wrong(m, "0x%" PRIx64 " for stream %u: %s", block.addr, req.stream,
				   wrong);
	m->newest = block.addr;
	return true;
}

static bool model_free(struct model *m, uint64_t addr)
{
	struct test_interval block = *test_intervals_overlap(&m->p.live, addr, 1);
	int r;

	spy_free_begins(&m->p.spy);
	r = gp_free(m->p.a, addr);
	if (r)
		return model_wrong(m, "free of 0x%" PRIx64 ": %d: %s", addr, r, m->p.a->why);
	spy_block_freed(&m->p.spy, block.addr, block.size, (uint32_t)block.tag);
	test_intervals_remove(&m->p.live, addr);
	if (m->n_freed == m->cap_freed) {
		m->cap_freed = m->cap_freed ? 2 * m->cap_freed : 256;
		m->freed = realloc(m->freed, m->cap_freed * sizeof(*m->freed));
		if (!m->freed)
			abort();
	}
	m->freed[m->n_freed++] = addr;
	return true;
}

static bool model_double_free(struct model *m, uint64_t pick)
{
	uint64_t addr;
	const struct test_interval *v;
	int r;

	if (!m->n_freed)
		return true;
	addr = m->freed[pick % m->n_freed];
	v = test_intervals_overlap(&m->p.live, addr, 1);
	if (v && v->addr == addr)
		return true;
	r = gp_free(m->p.a, addr);
	if (r == -EINVAL || (r == -EALREADY && !v))
		return true;
	return model_wrong(m, "free of 0x%" PRIx64 ", %s: %d", addr,
			   v ? "inside a block" : "which is free", r);
}

static bool model_trim(struct model *m, uint64_t keep)
{
	uint64_t reserved = pool_usage(&m->p).reserved_bytes, released = 0;
	int r = gp_trim(m->p.a, reserved / 256 * keep, &released);

	if (r)
		return model_wrong(m, "trim: %d: %s", r, m->p.a->why);
	if (pool_usage(&m->p).reserved_bytes + released != reserved)
		return model_wrong(m, "trim released %" PRIu64 ", reserved fell by %" PRIu64,
				   released, reserved - pool_usage(&m->p).reserved_bytes);
	return true;
}

static bool model_audit(struct model *m)
{
	struct gp_usage u = pool_usage(&m->p);
	uint64_t bytes = test_intervals_bytes(&m->p.live);
	char text[160] = "";
	FILE *why = fmemopen(text, sizeof(text), "w");
	int r = gp_check(m->p.a, why);

	fclose(why);
	text[strcspn(text, "\n")] = '\0';
	if (r)
		return model_wrong(m, "check: %d: %s", r, text);
	if (u.live_blocks != m->p.live.n || u.granted_bytes != bytes || u.reserved_bytes < bytes)
		return model_wrong(m,
				   "usage: %" PRIu64 " blocks, %" PRIu64 " of %" PRIu64
				   " bytes; the model has %zu, %" PRIu64,
				   u.live_blocks, u.granted_bytes, u.reserved_bytes, m->p.live.n,
				   bytes);
	if (u.event_waits != m->p.spy.waits)
		return model_wrong(m, "usage: %" PRIu64 " waits, the device saw %" PRIu64,
				   u.event_waits, m->p.spy.waits);
	return true;
}

static bool model_step(struct model *m, const struct op *op)
{
	switch (op->kind) {
	case OP_ALLOC:
		return model_alloc(m, op);
	case OP_FREE:
		return !m->p.live.n || model_free(m, m->p.live.at[op->a % m->p.live.n].addr);
	case OP_FREE_NEWEST: {
		const struct test_interval *v = test_intervals_overlap(&m->p.live, m->newest, 1);

		return !v || v->addr != m->newest || model_free(m, m->newest);
	}
	case OP_DOUBLE_FREE:
		return model_double_free(m, op->a);
	case OP_TRIM:
		return model_trim(m, op->a);
	case OP_FREE_ALL:
		while (m->p.live.n)
			if (!model_free(m, m->p.live.at[m->p.live.n / 2].addr))
				return false;
		return true;
	}
	return false;
}

/* Index of the operation at which it fails, or n; the words in wrong. audit_every as above. */
static size_t model_run(const char *spec, uint64_t capacity, const struct op *ops, size_t n,
			unsigned audit_every, char *wrong, size_t wrong_size)
{
	struct model m = { 0 };
	size_t i;

	pool_open(&m.p, spec, NULL, capacity, 1);
	for (i = 0; i < n; i++)
		if (!model_step(&m, &ops[i]) || ((i + 1) % audit_every == 0 && !model_audit(&m)))
			break;
	if (i == n && !(model_step(&m, &(struct op){ .kind = OP_FREE_ALL }) && model_audit(&m)))
		i = n ? n - 1 : 0;
	snprintf(wrong, wrong_size, "%s", m.wrong);
	free(m.freed);
	if (!m.wrong[0])
		pool_close(&m.p);
	/* A broken pool is not taken apart: that could end the program before it has spoken. */
	return m.wrong[0] ? i : n;
}

/* ---- making and cutting lists ---- */

static struct op random_op(const struct mix *mix, uint64_t *seed, uint64_t *live)
{
	uint64_t dice = test_below(seed, 1000);
	struct op op = { .kind = OP_FREE, .a = test_random(seed) };

	if (dice < 2)
		return (struct op){ .kind = OP_TRIM, .a = test_below(seed, 257) };
	if (dice < 3) {
		*live = 0;
		return (struct op){ .kind = OP_FREE_ALL };
	}
	if (dice < 20)
		return (struct op){ .kind = OP_DOUBLE_FREE, .a = op.a };
	if (test_below(seed, 100) < (*live < mix->live ? mix->alloc : 100 - mix->alloc)) {
		op.kind = OP_ALLOC;
		op.a = test_log_uniform(seed, mix->lo, mix->hi);
		op.b = test_below(seed, mix->streams);
		if (test_below(seed, 100) < mix->aligned)
			op.b |= test_below(seed, 22) << 8;
		++*live;
		return op;
	}
	if (dice < 300)
		op.kind = OP_FREE_NEWEST;
	*live -= *live > 0;
	return op;
}

/* Leaves out ever smaller runs of operations as long as the rest fails. Returns what is left. */
static size_t shrink(const char *spec, uint64_t capacity, struct op *ops, size_t n, char *wrong,
		     size_t wrong_size)
{
	struct op *tried = calloc(n ? n : 1, sizeof(*tried));

	if (!tried)
		abort();
	for (size_t run = n / 2; run; run /= 2)
		for (size_t at = 0; at + run <= n;) {
			size_t failed;

			memcpy(tried, ops, at * sizeof(*ops));
			memcpy(tried + at, ops + at + run, (n - at - run) * sizeof(*ops));
			failed = model_run(spec, capacity, tried, n - run, 1, wrong, wrong_size);
			if (failed == n - run) {
				at += run;
				continue;
			}
			n = failed + 1;
			memcpy(ops, tried, n * sizeof(*ops));
		}
	model_run(spec, capacity, ops, n, 1, wrong, wrong_size);
	free(tried);
	return n;
}

static void print_ops(const struct op *ops, size_t n)
{
	static const char *const kinds[] = { "alloc",      "free", "free-newest",
					     "free-again", "trim", "free-all" };

	for (size_t i = 0; i < n; i++) {
		printf("#   %s", kinds[ops[i].kind]);
		if (ops[i].kind == OP_ALLOC)
			printf(" size=%" PRIu64 " stream=%u lg_align=%u", ops[i].a,
			       (unsigned)(ops[i].b & 0xff), (unsigned)(ops[i].b >> 8));
		else if (ops[i].kind == OP_TRIM)
			printf(" keep=%" PRIu64 "/256", ops[i].a);
		else if (ops[i].kind == OP_FREE || ops[i].kind == OP_DOUBLE_FREE)
			printf(" pick=%" PRIu64, ops[i].a);
		printf("\n");
	}
}

static bool test_mix(const char *spec, const struct mix *mix, uint64_t seed, size_t n)
{
	struct op *ops = calloc(n, sizeof(*ops));
	uint64_t state = seed, live = 0;
	char wrong[240];
	size_t failed;

	if (!ops)
		abort();
	for (size_t i = 0; i < n; i++)
		ops[i] = random_op(mix, &state, &live);
	failed = model_run(spec, mix->capacity, ops, n, AUDIT_EVERY, wrong, sizeof(wrong));
	if (failed < n) {
		printf("# seed %" PRIu64 ", operation %zu: %s\n", seed, failed, wrong);
		n = shrink(spec, mix->capacity, ops, failed + 1, wrong, sizeof(wrong));
		printf("# smallest list on a card of %" PRIu64 " MiB, %zu operations: %s\n",
		       mix->capacity / GP_MIB, n, wrong);
		print_ops(ops, n < 100 ? n : 100);
	}
	free(ops);
	return !wrong[0];
}

/* ---- */

int main(int argc, char **argv)
{
	static char specs[TEST_SPECS][TEST_SPEC_SIZE];
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	size_t n_ops = argc > 3 ? strtoull(argv[3], NULL, 10) : 4000, number = 0;
	size_t n_specs = argc > 1 ? test_specs(argv[1], specs) : 0;
	bool ok = true;

	if (!n_specs || !n_ops) {
		fprintf(stderr, "usage: %s ALLOCATOR[:key=value,...] [SEED [OPERATIONS [MIX]]]\n",
			argv[0]);
		return 2;
	}
	for (size_t i = 0; i < n_specs; i++)
		for (size_t k = 0; k < GP_ARRAY_LEN(mixes); k++) {
			bool passed;

			if (argc > 4 && strcmp(argv[4], mixes[k].name))
				continue;
			passed = test_mix(specs[i], &mixes[k], seed, n_ops);
			printf("%s %zu - %s: %s, seed %" PRIu64 ", %zu operations\n",
			       passed ? "ok" : "not ok", ++number, specs[i], mixes[k].name, seed,
			       n_ops);
			fflush(stdout);
			ok = ok && passed;
		}
	printf("1..%zu\n", number);
	return !ok;
}
