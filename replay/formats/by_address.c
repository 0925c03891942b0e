/* SPDX-License-Identifier: Apache-2.0
 *
 * by_address: see by_address.h.
 */
#include "by_address.h"

#include <errno.h>
#include <stdlib.h>

void gp_by_address_init(struct gp_by_address *m, struct gp_trace_builder *b, const char *hint)
{
	*m = (struct gp_by_address){ .builder = b, .hint = hint };
	gp_id_map_init(&m->at);
}

void gp_by_address_fini(struct gp_by_address *m)
{
	gp_id_map_fini(&m->at);
	free(m->blocks);
	m->blocks = NULL;
}

const struct gp_by_address_block *gp_by_address_find(const struct gp_by_address *m, uint64_t addr)
{
	uint32_t i = gp_id_map_find(&m->at, addr);

	return i == GP_ID_MAP_NONE ? NULL : &m->blocks[i];
}

static int by_address_no_memory(struct gp_by_address *m, uint64_t line)
{
	gp_trace_builder_refuse(m->builder, line, "out of memory");
	return -ENOMEM;
}

/* The place for what is at this address; NULL: out of memory. */
static struct gp_by_address_block *by_address_place(struct gp_by_address *m, uint64_t addr)
{
	uint32_t i = gp_id_map_find(&m->at, addr), n = m->n_blocks;

	if (i != GP_ID_MAP_NONE)
		return &m->blocks[i];
	/* The array grows whenever its length is a power of two. */
	if (!n || gp_is_pow2(n)) {
		struct gp_by_address_block *next =
			realloc(m->blocks, (n ? 2 * (size_t)n : 1) * sizeof(*next));

		if (!next)
			return NULL;
		m->blocks = next;
	}
	if (n == GP_ID_MAP_NONE - 1 || gp_id_map_put(&m->at, addr, n))
		return NULL;
	m->blocks[n] = (struct gp_by_address_block){ .id = m->next_id++ };
	m->n_blocks = n + 1;
	return &m->blocks[n];
}

static int by_address_end(struct gp_by_address *m, struct gp_by_address_block *block,
			  const struct gp_trace_record *r, uint64_t line)
{
	struct gp_trace_record end = *r;

	end.op = GP_OP_FREE;
	end.id = block->id;
	end.size = 0; /* that of its allocation */
	block->live = false;
	return gp_trace_builder_add(m->builder, &end, line);
}

static int by_address_begin(struct gp_by_address *m, struct gp_by_address_block *block,
			    const struct gp_trace_record *r, bool assumed, uint64_t line)
{
	struct gp_trace_record begin = *r;

	block->size = r->size;
	block->stream = r->stream;
	block->live = true;
	begin.op = GP_OP_ALLOC;
	begin.id = block->id;
	begin.assumed = assumed;
	return gp_trace_builder_add(m->builder, &begin, line);
}

int gp_by_address_alloc(struct gp_by_address *m, const struct gp_trace_record *r, uint64_t line)
{
	struct gp_by_address_block *block = by_address_place(m, r->addr);
	int ret = 0;

	if (!block)
		return by_address_no_memory(m, line);
	if (block->live) {
		ret = gp_trace_builder_problem(
			m->builder, GP_SKIP_DUPLICATE_ID, line,
			"an allocation at 0x%llx, where a block of %llu bytes is live, expected "
			"its free before%s",
			(unsigned long long)r->addr, (unsigned long long)block->size, m->hint);
		if (ret == GP_REFUSED) /* it must have been free, or it would not be taken again */
			ret = by_address_end(m, block, r, line);
	}
	return ret ? ret : by_address_begin(m, block, r, false, line);
}

/* An address that the recording did not speak of yet. */
static int by_address_free_unknown(struct gp_by_address *m, const struct gp_trace_record *r,
				   uint64_t line)
{
	struct gp_by_address_block *block;
	int ret;

	if (!r->size) {
		ret = gp_trace_builder_problem(m->builder, GP_SKIP_UNKNOWN_ID, line,
					       "a free at 0x%llx, where no block is known, "
					       "expected its allocation before",
					       (unsigned long long)r->addr);
		return ret == GP_REFUSED ? 0 : ret;
	}
	block = by_address_place(m, r->addr);
	if (!block)
		return by_address_no_memory(m, line);
	ret = by_address_begin(m, block, r, true, line);
	return ret ? ret : by_address_end(m, block, r, line);
}

int gp_by_address_free(struct gp_by_address *m, const struct gp_trace_record *r, uint64_t line)
{
	uint32_t i = gp_id_map_find(&m->at, r->addr);
	struct gp_by_address_block *block;
	int ret = 0;

	if (i == GP_ID_MAP_NONE)
		return by_address_free_unknown(m, r, line);
	block = &m->blocks[i];
	if (!block->live) {
		ret = gp_trace_builder_problem(m->builder, GP_SKIP_UNKNOWN_ID, line,
					       "a free at 0x%llx, which was freed before (double "
					       "free), expected a live block",
					       (unsigned long long)r->addr);
		return ret == GP_REFUSED ? 0 : ret;
	}
	if (r->size && r->size != block->size)
		ret = gp_trace_builder_problem(
			m->builder, GP_SKIP_BAD_EVENT, line,
			"a free of %llu bytes at 0x%llx, expected the %llu of its allocation",
			(unsigned long long)r->size, (unsigned long long)r->addr,
			(unsigned long long)block->size);
	return ret < 0 ? ret : by_address_end(m, block, r, line);
}
