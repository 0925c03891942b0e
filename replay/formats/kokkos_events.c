/* SPDX-License-Identifier: Apache-2.0
 *
 * kokkos_events: what the memory-events tool of Kokkos writes (HOST-PID.mem_events).
 *
 *   # Memory Events
 *   # Time     Ptr                  Size        MemSpace      Op         Name
 *   0.120331   0x7f2200000000        8388608             Cuda Allocate   density
 *   0.120402 PushRegion step {
 *   0.245110   0x7f2200000000       -8388608             Cuda DeAllocate density
 *   0.245120 } PopRegion
 *
 * Memory      the spaces of one kind are taken (options.memory); of device memory these are Cuda,
 *             HIP and the like, not the managed and the pinned ones.
 * Lost        names of blocks; where a region ends. Its beginning is a mark.
 * Threads     caller serialises.
 */
#include <stdio.h>

#include "by_address.h"
#include "text.h"

struct kokkos {
	struct gp_text text;
	struct gp_trace_builder *builder;
	struct gp_by_address blocks;
	enum gp_memory_kind memory;
	int64_t base_ns, last_ns;
	bool has_base;
	uint64_t n_taken, n_left_out;
};

struct kokkos_line {
	struct gp_trace_record record;
	int64_t t_ns;
	struct gp_text_word space, region;
	bool is_region, is_end;
};

static bool kokkos_is_device(struct gp_text_word space)
{
	static const char *const names[] = {
		"Cuda", "HIP", "SYCLDeviceUSM", "OpenMPTargetSpace", "OpenACCSpace",
	};

	for (size_t i = 0; i < GP_ARRAY_LEN(names); i++)
		if (gp_text_is(space, names[i]))
			return true;
	return false;
}

static bool kokkos_is_comment(const struct gp_text *t)
{
	return t->p[0] == '#';
}

/* The words behind the time and the address. Of a free, the size is written negative. */
static bool kokkos_parse_block(struct gp_text *t, struct kokkos_line *out)
{
	struct gp_text_word size, op;

	if (!gp_text_word(t, &size) || !gp_text_word(t, &out->space) || !gp_text_word(t, &op))
		return false;
	out->record.op = gp_text_is(op, "Allocate") ? GP_OP_ALLOC : GP_OP_FREE;
	if (out->record.op == GP_OP_FREE) {
		if (!gp_text_is(op, "DeAllocate"))
			return false;
		if (size.p[0] == '-') {
			size.p++;
			size.n--;
		}
	}
	return gp_text_u64(size, &out->record.size);
}

static bool kokkos_parse(struct gp_text *t, struct kokkos_line *out)
{
	struct gp_text_word time, what;

	*out = (struct kokkos_line){ .is_end = false };
	if (!gp_text_word(t, &time) || !gp_text_decimal(time, 9, &out->t_ns) || out->t_ns < 0 ||
	    !gp_text_word(t, &what))
		return false;
	if (gp_text_is(what, "}")) {
		out->is_end = true;
		return gp_text_word(t, &what) && gp_text_is(what, "PopRegion");
	}
	if (!gp_text_is(what, "PushRegion"))
		return gp_text_address(what, &out->record.addr) && kokkos_parse_block(t, out);
	out->is_region = true;
	out->region = gp_text_rest(t);
	if (out->region.n && out->region.p[out->region.n - 1] == '{')
		out->region.n--;
	return true;
}

static int kokkos_region(struct kokkos *k, struct kokkos_line *line)
{
	char name[128];

	snprintf(name, sizeof(name), "%.*s", (int)gp_min_u64(line->region.n, sizeof(name) - 1),
		 line->region.p);
	line->record.op = GP_OP_MARK;
	line->record.mark = name;
	return gp_trace_builder_add(k->builder, &line->record, k->text.line);
}

static int kokkos_block(struct kokkos *k, struct kokkos_line *line)
{
	bool device = kokkos_is_device(line->space);

	if (k->memory != GP_MEMORY_ANY && device != (k->memory == GP_MEMORY_DEVICE)) {
		k->n_left_out++;
		return 0;
	}
	k->n_taken++;
	return line->record.op == GP_OP_ALLOC
		       ? gp_by_address_alloc(&k->blocks, &line->record, k->text.line)
		       : gp_by_address_free(&k->blocks, &line->record, k->text.line);
}

/* From the file's time to that since its first line. */
static int kokkos_time(struct kokkos *k, struct kokkos_line *line)
{
	int r = 0;

	if (!k->has_base)
		k->base_ns = k->last_ns = line->t_ns;
	k->has_base = true;
	if (line->t_ns < k->last_ns)
		r = gp_trace_builder_problem(k->builder, GP_SKIP_TIME_BACK, k->text.line,
					     "time goes back by %lld ns, expected it never to",
					     (long long)(k->last_ns - line->t_ns));
	else
		k->last_ns = line->t_ns;
	line->record.t_ns = (uint64_t)k->last_ns - (uint64_t)k->base_ns;
	return r < 0 ? r : 0;
}

static int kokkos_line(struct kokkos *k)
{
	struct gp_text_word whole = { k->text.p, (size_t)(k->text.end - k->text.p) };
	struct kokkos_line line;
	int r;

	if (kokkos_is_comment(&k->text))
		return 0;
	if (k->text.too_long || !kokkos_parse(&k->text, &line))
		return gp_trace_builder_problem(
			k->builder, GP_SKIP_BAD_EVENT, k->text.line,
			"\"%s\", expected \"TIME ADDRESS SIZE SPACE Allocate|DeAllocate NAME\" or "
			"a region",
			gp_text_quote(whole).text);
	r = kokkos_time(k, &line);
	if (r)
		return r;
	if (line.is_end)
		return 0;
	return line.is_region ? kokkos_region(k, &line) : kokkos_block(k, &line);
}

static int kokkos_end(struct kokkos *k)
{
	bool host = k->memory == GP_MEMORY_HOST;
	int r = gp_trace_builder_header(k->builder, NULL, "Kokkos memory-events", NULL, 0);

	if (!r && !k->n_taken && k->n_left_out)
		return gp_trace_builder_refuse(
			k->builder, gp_input_end_line(k->text.in),
			"none of the %llu events is of %s memory, expected some; %s",
			(unsigned long long)k->n_left_out,
			host ? "host" : "device (Cuda, HIP, ...)",
			host ? "leave --memory=host out" : "--memory=host takes the others");
	if (!r && k->n_left_out)
		r = gp_trace_builder_note(k->builder,
					  "left out: %llu events of memory of another kind "
					  "(--memory=host or any)",
					  (unsigned long long)k->n_left_out);
	return r ? r : gp_text_note_end(&k->text, k->builder);
}

static int kokkos_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct kokkos k = { .builder = b, .memory = gp_trace_builder_options(b)->memory };
	int r = gp_text_init(&k.text, in);

	gp_by_address_init(&k.blocks, b, "");
	if (r)
		gp_trace_builder_refuse(b, 1, "out of memory");
	while (r >= 0 && gp_text_next(&k.text))
		r = kokkos_line(&k);
	if (r >= 0)
		r = kokkos_end(&k);
	gp_by_address_fini(&k.blocks);
	gp_text_fini(&k.text);
	return r;
}

/* The tool's own heading, or, where it was cut off, lines of this form. */
static bool kokkos_fits(struct gp_text *t, unsigned i)
{
	struct kokkos_line line;

	if (kokkos_is_comment(t))
		return i || gp_text_is(gp_text_rest(t), "# Memory Events");
	return kokkos_parse(t, &line);
}

static enum gp_format_match kokkos_probe(const unsigned char *head, size_t n)
{
	return gp_text_probe(head, n, 1, kokkos_fits);
}

const struct gp_format gp_kokkos_events_format = {
	.name = "kokkos_events",
	.summary = "Kokkos memory-events tool (.mem_events)",
	.probe = kokkos_probe,
	.read = kokkos_read,
};
