/* SPDX-License-Identifier: Apache-2.0
 *
 * chrome_event: see chrome_event.h.
 *
 * Shape       values are gathered first, and what is wrong with one is only written down: whether
 *             it matters is known when the name is.
 */
#include "chrome_event.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

enum chrome_kind {
	CHROME_OTHER,
	CHROME_MEMORY, /* Kineto */
	CHROME_OOM,
	CHROME_TF_ALLOC, /* TensorFlow */
	CHROME_TF_FREE,
	CHROME_UNKNOWN, /* no name yet */
};

static const char *const chrome_names[] = {
	[CHROME_OTHER] = "",
	[CHROME_MEMORY] = "[memory]",
	[CHROME_OOM] = "[OutOfMemory]",
	[CHROME_TF_ALLOC] = "MemoryAllocation",
	[CHROME_TF_FREE] = "MemoryDeallocation",
};

enum chrome_arg {
	ARG_BYTES,
	ARG_ADDR,
	ARG_DEVICE_TYPE,
	ARG_DEVICE_ID,
	ARG_TOTAL,
	ARG_INDEX,
	ARG_OLD_INDEX, /* what Ev Idx was called before */
	ARG_TF_ADDR,
	ARG_TF_REQUESTED,
	ARG_TF_GRANTED,
	ARG_TF_NAME,
	ARG_N,
};

#define ARG_BIT(arg) (1u << ARG_##arg)

/* May be below 0: a free, the host. */
#define ARG_SIGNED (ARG_BIT(BYTES) | ARG_BIT(DEVICE_ID))
/* Numbers that an exporter may have put in quotes. */
#define ARG_QUOTED (ARG_BIT(TF_ADDR) | ARG_BIT(TF_REQUESTED) | ARG_BIT(TF_GRANTED))

static const char *const arg_names[] = {
	[ARG_BYTES] = "Bytes",
	[ARG_ADDR] = "Addr",
	[ARG_DEVICE_TYPE] = "Device Type",
	[ARG_DEVICE_ID] = "Device Id",
	[ARG_TOTAL] = "Total Allocated",
	[ARG_INDEX] = "Ev Idx",
	[ARG_OLD_INDEX] = "Profiler Event Index",
	[ARG_TF_ADDR] = "addr",
	[ARG_TF_REQUESTED] = "requested_bytes",
	[ARG_TF_GRANTED] = "allocation_bytes",
	[ARG_TF_NAME] = "allocator_name",
};

static const unsigned kind_needs[] = {
	[CHROME_MEMORY] = ARG_BIT(BYTES) | ARG_BIT(DEVICE_TYPE) | ARG_BIT(DEVICE_ID),
	[CHROME_OOM] = ARG_BIT(BYTES) | ARG_BIT(DEVICE_TYPE) | ARG_BIT(DEVICE_ID),
	[CHROME_TF_ALLOC] = ARG_BIT(TF_ADDR) | ARG_BIT(TF_REQUESTED) | ARG_BIT(TF_NAME),
	[CHROME_TF_FREE] = ARG_BIT(TF_ADDR) | ARG_BIT(TF_NAME),
};

struct chrome_raw {
	enum chrome_kind kind;
	uint64_t line;
	unsigned seen;     /* bit per argument */
	unsigned negative; /* likewise */
	uint64_t value[ARG_N];
	int64_t t_ns;
	bool has_time;
	uint64_t process, thread;
	uint32_t tf_type;
	int64_t tf_device;
	char fault[128]; /* the first one */
};

GP_PRINTF(2, 3) static void chrome_fault(struct chrome_raw *e, const char *fmt, ...)
{
	va_list ap;

	if (e->fault[0])
		return;
	va_start(ap, fmt);
	vsnprintf(e->fault, sizeof(e->fault), fmt, ap);
	va_end(ap);
}

/* ---- values ---- */

/* A process or thread: a number, or a name. */
static uint64_t chrome_party(const struct gp_json *j)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	if (j->token == GP_JSON_NUMBER && j->number_kind == GP_JSON_UNSIGNED)
		return j->number;
	if (j->token != GP_JSON_STRING && j->token != GP_JSON_NUMBER)
		return 0;
	for (size_t i = 0; i < j->text_len; i++)
		hash = (hash ^ (unsigned char)j->text[i]) * UINT64_C(0x100000001b3);
	return hash | UINT64_C(1) << 63; /* apart from all true numbers */
}

static void chrome_time(struct chrome_raw *e, const struct gp_json *j)
{
	struct gp_text_word w = { j->text, j->text_len };

	e->has_time = j->token == GP_JSON_NUMBER && gp_text_decimal(w, 3, &e->t_ns) &&
		      e->t_ns > -(INT64_MAX / 2) && e->t_ns < INT64_MAX / 2;
	if (!e->has_time)
		chrome_fault(e, "\"ts\" is %s, expected microseconds, less than 2^52",
			     j->token == GP_JSON_NUMBER ? gp_fields_quote(j).text
							: gp_json_token_name(j->token));
}

/* "GPU_0_bfc" is the first GPU; "cpu", "gpu_host_bfc" and the like are the host's memory. */
static void chrome_tf_name(struct chrome_raw *e, const struct gp_json *j)
{
	struct gp_text_word digits = { j->text + 4, 0 };
	uint64_t device;

	if (j->token != GP_JSON_STRING) {
		chrome_fault(e, "\"allocator_name\" is %s, expected a string",
			     gp_json_token_name(j->token));
		return;
	}
	e->tf_type = GP_CHROME_HOST;
	e->tf_device = -1;
	if (j->text_len < 5 || memcmp(j->text, "GPU_", 4))
		return;
	while (digits.p[digits.n] >= '0' && digits.p[digits.n] <= '9' && digits.n < 5)
		digits.n++;
	if (gp_text_u64(digits, &device)) {
		e->tf_type = 1;
		e->tf_device = (int64_t)device;
	}
}

static void chrome_number(struct chrome_raw *e, const struct gp_json *j, enum chrome_arg arg)
{
	struct gp_text_word w = { j->text, j->text_len };
	char text[96];
	const char *fault;

	if (j->token == GP_JSON_STRING && 1u << arg & ARG_QUOTED && gp_text_u64(w, &e->value[arg]))
		return;
	e->value[arg] = j->number;
	/* A sign and 19 digits: it cannot have overflowed. */
	if (j->token == GP_JSON_NUMBER && j->number_kind == GP_JSON_NEGATIVE &&
	    1u << arg & ARG_SIGNED && j->text_len <= 20) {
		e->negative |= 1u << arg;
		return;
	}
	fault = gp_fields_number_fault(j, text, sizeof(text));
	if (fault)
		chrome_fault(e, "\"%s\" %s", arg_names[arg], fault);
}

/* ---- walking ---- */

static enum chrome_arg chrome_find_arg(const struct gp_json *j)
{
	enum chrome_arg arg = 0;

	while (arg < ARG_N && !gp_fields_is(j, arg_names[arg]))
		arg++;
	return arg;
}

/* The current token opens "args". */
static void chrome_args(struct chrome_raw *e, struct gp_json *j)
{
	while (gp_json_next(j) == GP_JSON_KEY) {
		enum chrome_arg arg = chrome_find_arg(j);

		if (arg == ARG_N) {
			gp_json_pass(j);
			continue;
		}
		if (e->seen & 1u << arg)
			chrome_fault(e, "key \"%s\" twice, expected it once", arg_names[arg]);
		e->seen |= 1u << arg;
		if (gp_json_next(j) == GP_JSON_ERROR)
			return;
		if (arg == ARG_TF_NAME)
			chrome_tf_name(e, j);
		else
			chrome_number(e, j, arg);
		gp_json_skip(j);
	}
}

static enum chrome_kind chrome_kind_of(const struct gp_json *j)
{
	if (j->token != GP_JSON_STRING)
		return CHROME_OTHER;
	for (enum chrome_kind k = CHROME_MEMORY; k < CHROME_UNKNOWN; k++)
		if (gp_fields_is(j, chrome_names[k]))
			return k;
	return CHROME_OTHER;
}

/* The current token is a key of the event. */
static void chrome_event_member(struct chrome_raw *e, struct gp_json *j)
{
	if (gp_fields_is(j, "name")) {
		gp_json_next(j);
		e->kind = chrome_kind_of(j);
		gp_json_skip(j);
	} else if (gp_fields_is(j, "ts")) {
		if (gp_json_next(j) != GP_JSON_ERROR)
			chrome_time(e, j);
		gp_json_skip(j);
	} else if (gp_fields_is(j, "tid") || gp_fields_is(j, "pid")) {
		uint64_t *to = j->text[0] == 't' ? &e->thread : &e->process;

		gp_json_next(j);
		*to = chrome_party(j);
		gp_json_skip(j);
	} else if (gp_fields_is(j, "args")) {
		if (gp_json_next(j) == GP_JSON_OBJECT)
			chrome_args(e, j);
		else
			gp_json_skip(j);
	} else {
		gp_json_pass(j);
	}
}

/* ---- judging ---- */

static int chrome_owner(struct gp_chrome *c, const struct chrome_raw *e, struct gp_trace_builder *b,
			uint32_t *out)
{
	bool torch = e->kind == CHROME_MEMORY || e->kind == CHROME_OOM;
	uint64_t id = e->value[ARG_DEVICE_ID];
	struct gp_chrome_owner owner = { .process = e->process,
					 .type = e->tf_type,
					 .device = e->tf_device };
	uint32_t i = 0;

	if (torch) {
		owner.type = (uint32_t)e->value[ARG_DEVICE_TYPE];
		owner.device = e->negative & ARG_BIT(DEVICE_ID) ? -1 : (int64_t)id;
	}
	while (i < c->n_owners &&
	       (c->owners[i].process != owner.process || c->owners[i].type != owner.type ||
		c->owners[i].device != owner.device))
		i++;
	if (i == GP_ARRAY_LEN(c->owners))
		return gp_trace_builder_refuse(
			b, e->line, "memory of one device or process more, expected at most %zu",
			GP_ARRAY_LEN(c->owners));
	if (i == c->n_owners)
		c->owners[c->n_owners++] = owner;
	c->owners[i].n_events++;
	*out = i;
	return 0;
}

static void chrome_fill_torch(struct gp_chrome_event *to, const struct chrome_raw *e)
{
	bool negative = e->negative & ARG_BIT(BYTES);

	to->op = negative ? GP_OP_FREE : GP_OP_ALLOC;
	if (e->kind == CHROME_OOM)
		to->op = GP_OP_OOM;
	to->addr = e->value[ARG_ADDR];
	to->size = e->value[ARG_BYTES];
	to->total = e->value[ARG_TOTAL];
	to->has_total = e->seen & ARG_BIT(TOTAL);
	to->order = e->value[e->seen & ARG_BIT(INDEX) ? ARG_INDEX : ARG_OLD_INDEX];
}

static void chrome_fill_tf(struct gp_chrome_event *to, const struct chrome_raw *e)
{
	to->op = e->kind == CHROME_TF_FREE ? GP_OP_FREE : GP_OP_ALLOC;
	to->addr = e->value[ARG_TF_ADDR];
	to->size = e->value[ARG_TF_REQUESTED];
	if (!to->size)
		to->size = e->value[ARG_TF_GRANTED];
}

static int chrome_keep(struct gp_chrome *c, const struct gp_chrome_event *e,
		       struct gp_trace_builder *b)
{
	if (c->n_events == c->capacity) {
		size_t capacity = c->capacity ? 2 * c->capacity : 1024;
		struct gp_chrome_event *next =
			capacity > SIZE_MAX / sizeof(*next)
				? NULL
				: realloc(c->events, capacity * sizeof(*next));

		if (!next) {
			gp_trace_builder_refuse(b, e->line, "out of memory");
			return -ENOMEM;
		}
		c->events = next;
		c->capacity = capacity;
	}
	c->events[c->n_events++] = *e;
	return 0;
}

/* What is wrong with it, if anything. */
static void chrome_judge(struct chrome_raw *e)
{
	unsigned missing = kind_needs[e->kind] & ~e->seen;

	if (missing)
		chrome_fault(e, "without \"%s\", expected one", arg_names[gp_lowest_bit(missing)]);
	if (!e->has_time)
		chrome_fault(e, "without \"ts\", expected its time");
	if (e->seen & ARG_BIT(DEVICE_TYPE) && e->value[ARG_DEVICE_TYPE] > UINT16_MAX)
		chrome_fault(e, "\"Device Type\" is %llu, expected 0 (CPU), 1 (CUDA) or the like",
			     (unsigned long long)e->value[ARG_DEVICE_TYPE]);
	if (e->seen & ARG_BIT(DEVICE_ID) && e->value[ARG_DEVICE_ID] > UINT16_MAX)
		chrome_fault(e, "\"Device Id\" is %llu, expected the number of a device",
			     (unsigned long long)e->value[ARG_DEVICE_ID]);
	if (e->kind == CHROME_OOM && e->negative & ARG_BIT(BYTES))
		chrome_fault(e, "\"Bytes\" is negative, expected what was asked for");
}

static int chrome_finish(struct gp_chrome *c, struct chrome_raw *e, struct gp_trace_builder *b)
{
	struct gp_chrome_event event = {
		.t_ns = e->t_ns, .thread = e->thread, .line = e->line, .place = c->n_all
	};
	bool tf = e->kind == CHROME_TF_ALLOC || e->kind == CHROME_TF_FREE;
	int r;

	chrome_judge(e);
	if (e->fault[0])
		return gp_trace_builder_problem(
			b, GP_SKIP_BAD_EVENT, e->line, "traceEvents[%llu], %s: %s",
			(unsigned long long)c->n_all - 1, chrome_names[e->kind], e->fault);
	if (e->kind == CHROME_MEMORY && !(e->seen & ARG_BIT(ADDR)))
		return gp_trace_builder_refuse(
			b, e->line,
			"a [memory] event without \"Addr\", so that no free can be told from another: "
			"old versions of PyTorch wrote such files; expected one of a later version, or a "
			"memory snapshot");
	if (tf)
		chrome_fill_tf(&event, e);
	else
		chrome_fill_torch(&event, e);
	if (!event.size && event.op == GP_OP_ALLOC) {
		c->n_zero++;
		return 0;
	}
	c->from_tensorflow |= tf;
	c->from_torch |= !tf;
	r = chrome_owner(c, e, b, &event.owner);
	return r ? r : chrome_keep(c, &event, b);
}

int gp_chrome_event(struct gp_chrome *c, struct gp_json *j, struct gp_trace_builder *b)
{
	struct chrome_raw e = { .kind = CHROME_UNKNOWN, .line = j->line };

	while (gp_json_next(j) == GP_JSON_KEY) {
		chrome_event_member(&e, j);
		if (e.kind == CHROME_OTHER) {
			gp_json_leave(j);
			return 0;
		}
	}
	if (j->token != GP_JSON_OBJECT_END || e.kind == CHROME_UNKNOWN)
		return 0;
	return chrome_finish(c, &e, b);
}
