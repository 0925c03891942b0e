/* SPDX-License-Identifier: Apache-2.0
 *
 * nsight_rows: see nsight_rows.h.
 */
#include "nsight_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "by_address.h"
#include "order.h"
#include "replay/id_map.h"

#define NSIGHT_ROWS_MIN 1024u

/* Ids of blocks: each process counts on from its own number, times this. */
#define NSIGHT_IDS (UINT64_C(1) << 40)

void gp_nsight_init(struct gp_nsight *n, struct gp_trace_builder *b)
{
	*n = (struct gp_nsight){ .builder = b };
}

void gp_nsight_fini(struct gp_nsight *n)
{
	free(n->rows);
	n->rows = NULL;
}

static int nsight_no_memory(struct gp_nsight *n)
{
	gp_trace_builder_refuse(n->builder, n->n ? n->rows[n->n - 1].line : 1, "out of memory");
	return -ENOMEM;
}

int gp_nsight_add(struct gp_nsight *n, const struct gp_nsight_row *row)
{
	if (n->n == n->capacity) {
		size_t capacity = n->capacity ? 2 * (size_t)n->capacity : NSIGHT_ROWS_MIN;
		struct gp_nsight_row *rows;

		if (capacity >= GP_ID_MAP_NONE)
			return gp_trace_builder_refuse(n->builder, row->line,
						       "one event more, expected at most 2^31");
		rows = realloc(n->rows, capacity * sizeof(*rows));
		if (!rows)
			return nsight_no_memory(n);
		n->rows = rows;
		n->capacity = (uint32_t)capacity;
	}
	n->rows[n->n++] = *row;
	return 0;
}

/* ---- names ---- */

static bool nsight_ends_in(const char *name, size_t n, const char *end)
{
	size_t length = strlen(end);
	struct gp_csv_field tail = { name + n - length, length };

	return n >= length && gp_csv_is(&tail, end);
}

enum gp_nsight_kind gp_nsight_kind_of(const char *name, size_t n)
{
	if (nsight_ends_in(name, n, "kind_device") || (n == 6 && nsight_ends_in(name, n, "device")))
		return GP_NSIGHT_DEVICE;
	if (nsight_ends_in(name, n, "pinned") || nsight_ends_in(name, n, "pageable"))
		return GP_NSIGHT_HOST;
	return GP_NSIGHT_OTHER;
}

enum gp_nsight_op gp_nsight_op_of(const char *name, size_t n)
{
	if (nsight_ends_in(name, n, "deallocation") || nsight_ends_in(name, n, "release"))
		return GP_NSIGHT_FREE;
	return nsight_ends_in(name, n, "allocation") ? GP_NSIGHT_ALLOC : GP_NSIGHT_NO_OP;
}

/* ---- what was asked for ---- */

static void nsight_keep(struct gp_nsight *n,
			bool (*wanted)(const struct gp_nsight_row *row, uint64_t value),
			uint64_t value)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n->n; i++)
		if (wanted(&n->rows[i], value))
			n->rows[kept++] = n->rows[i];
	n->n = kept;
}

static bool nsight_is_kind(const struct gp_nsight_row *row, uint64_t kind)
{
	return row->kind == kind;
}

static bool nsight_is_device(const struct gp_nsight_row *row, uint64_t device)
{
	return row->device == device;
}

static bool nsight_is_above(const struct gp_nsight_row *row, uint64_t address)
{
	return row->address > address;
}

/* Says how many events were dropped and why. */
static int nsight_note_dropped(struct gp_nsight *n, uint32_t before, const char *why)
{
	if (before == n->n)
		return 0;
	return gp_trace_builder_note(n->builder, "%lu of %lu events %s",
				     (unsigned long)before - n->n, (unsigned long)before, why);
}

static int nsight_choose_kind(struct gp_nsight *n)
{
	enum gp_memory_kind wanted = gp_trace_builder_options(n->builder)->memory;
	uint32_t before = n->n;
	int r;

	nsight_keep(n, nsight_is_above, 0);
	r = nsight_note_dropped(n, before, "are at address 0 (requests of no bytes); left out");
	before = n->n;
	if (r || wanted == GP_MEMORY_ANY)
		return r;
	nsight_keep(n, nsight_is_kind,
		    wanted == GP_MEMORY_HOST ? GP_NSIGHT_HOST : GP_NSIGHT_DEVICE);
	if (before && !n->n)
		return gp_trace_builder_refuse(n->builder, 1,
					       "none of %lu memory events is of %s memory, "
					       "expected one",
					       (unsigned long)before,
					       wanted == GP_MEMORY_HOST ? "host" : "device");
	return nsight_note_dropped(n, before, "are of another kind of memory; left out");
}

/* Counts the events of each device; the first of the busiest ones into *device. */
static int nsight_busiest(struct gp_nsight *n, uint64_t *device, uint32_t *n_devices)
{
	struct gp_id_map counts;
	uint32_t most = 0;

	gp_id_map_init(&counts);
	for (uint32_t i = 0; i < n->n; i++) {
		uint32_t count = gp_id_map_find(&counts, n->rows[i].device);

		count = count == GP_ID_MAP_NONE ? 1 : count + 1;
		if (gp_id_map_put(&counts, n->rows[i].device, count)) {
			gp_id_map_fini(&counts);
			return nsight_no_memory(n);
		}
		if (count > most) {
			most = count;
			*device = n->rows[i].device;
		}
	}
	*n_devices = counts.n;
	gp_id_map_fini(&counts);
	return 0;
}

static int nsight_choose_device(struct gp_nsight *n)
{
	const struct gp_trace_options *options = gp_trace_builder_options(n->builder);
	uint64_t busiest = 0, device;
	uint32_t n_devices = 0, before = n->n;
	int r = nsight_busiest(n, &busiest, &n_devices);

	if (r)
		return r;
	device = options->has_gpu ? options->gpu : busiest;
	nsight_keep(n, nsight_is_device, device);
	if (before && !n->n)
		return gp_trace_builder_refuse(n->builder, 1,
					       "no event is of GPU %llu, expected one of the GPUs "
					       "recorded (GPU %llu has most)",
					       (unsigned long long)device,
					       (unsigned long long)busiest);
	if (n_devices < 2 || options->has_gpu)
		return 0;
	return gp_trace_builder_note(n->builder,
				     "%lu GPUs were recorded; this is GPU %llu, which has the most "
				     "events (%lu of %lu); --gpu chooses another",
				     (unsigned long)n_devices, (unsigned long long)device,
				     (unsigned long)n->n, (unsigned long)before);
}

/* ---- to the builder ---- */

struct nsight_processes {
	struct gp_id_map places; /* process -> its place in blocks */
	struct gp_by_address *blocks;
	uint32_t n;
};

/* NULL: no memory. */
static struct gp_by_address *nsight_blocks(struct gp_nsight *n, struct nsight_processes *p,
					   uint64_t process)
{
	uint32_t at = gp_id_map_find(&p->places, process);
	struct gp_by_address *blocks;

	if (at != GP_ID_MAP_NONE)
		return &p->blocks[at];
	blocks = realloc(p->blocks, (p->n + 1) * sizeof(*blocks));
	if (!blocks)
		return NULL;
	p->blocks = blocks;
	if (gp_id_map_put(&p->places, process, p->n))
		return NULL;
	blocks += p->n++;
	gp_by_address_init(blocks, n->builder, "");
	blocks->next_id = (p->n - 1) * NSIGHT_IDS;
	return blocks;
}

static int nsight_emit(struct gp_nsight *n, struct nsight_processes *p,
		       const struct gp_nsight_row *row, uint64_t first_ns)
{
	struct gp_by_address *blocks = nsight_blocks(n, p, row->process);
	struct gp_trace_record r = {
		.size = row->bytes,
		.stream = row->stream,
		.thread = row->process,
		.t_ns = row->start_ns - first_ns,
		.addr = row->address,
	};

	if (!blocks)
		return nsight_no_memory(n);
	return row->op == GP_NSIGHT_ALLOC ? gp_by_address_alloc(blocks, &r, row->line)
					  : gp_by_address_free(blocks, &r, row->line);
}

static int nsight_emit_all(struct gp_nsight *n, const uint32_t *order)
{
	struct nsight_processes p = { .n = 0 };
	int r = 0;

	gp_id_map_init(&p.places);
	for (uint32_t i = 0; !r && i < n->n; i++)
		r = nsight_emit(n, &p, &n->rows[order[i]], n->rows[order[0]].start_ns);
	if (!r && p.n > 1)
		r = gp_trace_builder_note(n->builder,
					  "%lu processes were recorded; each is a thread of the "
					  "trace",
					  (unsigned long)p.n);
	for (uint32_t i = 0; i < p.n; i++)
		gp_by_address_fini(&p.blocks[i]);
	free(p.blocks);
	gp_id_map_fini(&p.places);
	return r;
}

int gp_nsight_finish(struct gp_nsight *n)
{
	uint64_t *times;
	uint32_t *order;
	int r = nsight_choose_kind(n);

	if (!r)
		r = nsight_choose_device(n);
	if (r || !n->n)
		return r;
	times = malloc(n->n * sizeof(*times));
	order = malloc(n->n * sizeof(*order));
	for (uint32_t i = 0; times && i < n->n; i++)
		times[i] = n->rows[i].start_ns;
	if (!times || !order || gp_order_by(times, n->n, order))
		r = nsight_no_memory(n);
	free(times);
	if (!r)
		r = nsight_emit_all(n, order);
	free(order);
	return r;
}
