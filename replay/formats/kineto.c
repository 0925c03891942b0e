/* SPDX-License-Identifier: Apache-2.0
 *
 * kineto: traces of PyTorch's profiler (Kineto, profile_memory=True) and of TensorFlow's, in
 * Chrome's JSON format. What the file looks like is in chrome_events.h.
 *
 * Shape       the memory events of the file are gathered; those of one device are taken, sorted by
 *             time, then by the profiler's number, then by place, and told to the builder.
 * Order       each thread stamps its own events, after the allocator's lock was released. So the
 *             free of a block can be stamped later than another thread's allocation of the same
 *             address: it is then put before it.
 * Lost        PyTorch's sizes are its blocks', rounded up; streams, segments and the moment when a
 *             freed block becomes reusable are not recorded.
 * Memory      what chrome_events.h says, and the sort's scratch, a quarter of that or more.
 * Threads     caller serialises.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "by_address.h"
#include "chrome_events.h"

/* How far a free may be stamped behind the reuse of its address. A thread that is not preempted
 * takes microseconds from the unlock to the stamp. */
#define KINETO_LATE_EVENTS 64u
#define KINETO_LATE_NS     1000000

struct kineto {
	struct gp_chrome chrome;
	struct gp_trace_builder *builder;
	const struct gp_trace_options *options;
	struct gp_by_address blocks;
	uint32_t owner; /* of the device that is taken */
	bool taken[GP_ARRAY_LEN(((struct gp_chrome *)0)->owners)];
	uint64_t n_left_out; /* events of others */
	uint64_t n_late;     /* frees put before a reuse */
	uint64_t assumed_bytes;
	int64_t base_ns;
};

/* ---- whose memory ---- */

static bool kineto_is_host(const struct gp_chrome_owner *o)
{
	return o->type == GP_CHROME_HOST;
}

/* The busiest owner that is asked for; UINT32_MAX: there is none. */
static uint32_t kineto_busiest(const struct kineto *k, bool host)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t i = 0; i < k->chrome.n_owners; i++) {
		const struct gp_chrome_owner *o = &k->chrome.owners[i];

		if (kineto_is_host(o) != host)
			continue;
		if (!host && k->options->has_gpu && o->device != (int64_t)k->options->gpu)
			continue;
		if (best == UINT32_MAX || o->n_events > k->chrome.owners[best].n_events)
			best = i;
	}
	return best;
}

/* The devices there are, for a message: "0, 1". */
static const char *kineto_list(const struct kineto *k, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < k->chrome.n_owners && used < size; i++)
		if (!kineto_is_host(&k->chrome.owners[i]))
			used += (size_t)snprintf(text + used, size - used, "%s%lld",
						 used ? ", " : "",
						 (long long)k->chrome.owners[i].device);
	return text;
}

/* There are memory events, but none of what is asked for. */
static int kineto_refuse_owner(const struct kineto *k)
{
	uint64_t line = k->chrome.line;
	char list[128];

	if (k->options->memory == GP_MEMORY_HOST)
		return gp_trace_builder_refuse(k->builder, line,
					       "the memory events are all of GPU memory, expected "
					       "the host's; leave --memory=host out");
	if (!kineto_list(k, list, sizeof(list))[0])
		return gp_trace_builder_refuse(
			k->builder, line,
			"all %zu memory events are of the host's memory (CPU), expected a GPU's; "
			"--memory=host takes them",
			k->chrome.n_events);
	return gp_trace_builder_refuse(k->builder, line,
				       "no memory events of GPU %u, expected --gpu= one of: %s",
				       k->options->gpu, list);
}

/* No memory event at all: what to switch on, or that switching on is not enough. */
static int kineto_refuse_empty(const struct kineto *k)
{
	unsigned long long n = (unsigned long long)k->chrome.n_all;

	if (k->chrome.profile_memory)
		return gp_trace_builder_refuse(
			k->builder, k->chrome.line,
			"no [memory] event among %llu, though profile_memory was on: this PyTorch "
			"does not export them (known of 2.12 and of profile_all_threads); expected "
			"some, or a snapshot of torch.cuda.memory._record_memory_history()",
			n);
	return gp_trace_builder_refuse(
		k->builder, k->chrome.line ? k->chrome.line : 1,
		"no [memory] event among %llu, expected a trace recorded with "
		"torch.profiler.profile(profile_memory=True)",
		n);
}

static int kineto_choose(struct kineto *k)
{
	bool host = k->options->memory == GP_MEMORY_HOST;

	if (!k->chrome.n_events)
		return kineto_refuse_empty(k);
	k->owner = kineto_busiest(k, host);
	if (k->owner == UINT32_MAX && k->options->memory == GP_MEMORY_ANY && !k->options->has_gpu)
		k->owner = kineto_busiest(k, true);
	if (k->owner == UINT32_MAX)
		return kineto_refuse_owner(k);
	k->taken[k->owner] = true;
	for (uint32_t i = 0; i < k->chrome.n_owners; i++) {
		const struct gp_chrome_owner *o = &k->chrome.owners[i];

		if (k->options->memory == GP_MEMORY_ANY && kineto_is_host(o) &&
		    o->process == k->chrome.owners[k->owner].process)
			k->taken[i] = true;
	}
	return 0;
}

/* ---- order ---- */

static int kineto_compare(const void *x, const void *y)
{
	const struct gp_chrome_event *a = x, *b = y;

	if (a->t_ns != b->t_ns)
		return a->t_ns < b->t_ns ? -1 : 1;
	if (a->order != b->order)
		return a->order < b->order ? -1 : 1;
	return a->place < b->place ? -1 : a->place > b->place;
}

/* Keeps what is taken, in the order in which it happened. */
static void kineto_sort(struct kineto *k)
{
	struct gp_chrome_event *events = k->chrome.events;
	size_t n = 0;
	bool sorted = true;

	for (size_t i = 0; i < k->chrome.n_events; i++) {
		if (!k->taken[events[i].owner]) {
			k->n_left_out++;
			continue;
		}
		events[n] = events[i];
		sorted &= !n || kineto_compare(&events[n - 1], &events[n]) <= 0;
		n++;
	}
	k->chrome.n_events = n;
	if (!sorted)
		qsort(events, n, sizeof(*events), kineto_compare);
	k->base_ns = n ? events[0].t_ns : 0;
}

/* ---- telling ---- */

static struct gp_trace_record kineto_record(const struct kineto *k, const struct gp_chrome_event *e)
{
	return (struct gp_trace_record){
		.op = (enum gp_op)e->op,
		.size = e->size,
		.thread = e->thread,
		.addr = e->addr,
		.t_ns = (uint64_t)(e->t_ns - k->base_ns),
	};
}

static int kineto_free(struct kineto *k, const struct gp_chrome_event *e, int64_t t_ns)
{
	const struct gp_by_address_block *block = gp_by_address_find(&k->blocks, e->addr);
	struct gp_trace_record r = kineto_record(k, e);

	r.t_ns = (uint64_t)(t_ns - k->base_ns);
	if (!block)
		k->assumed_bytes += e->owner == k->owner ? e->size : 0;
	else if (k->chrome.from_tensorflow)
		r.size = 0; /* some of its allocators say 0 or the block's size here */
	return gp_by_address_free(&k->blocks, &r, e->line);
}

/* Event i allocates at an address that is taken: is its free just late? */
static int kineto_late_free(struct kineto *k, size_t i)
{
	struct gp_chrome_event *events = k->chrome.events;
	size_t end = i + 1 + KINETO_LATE_EVENTS;

	for (size_t n = i + 1; n < k->chrome.n_events && n < end; n++) {
		struct gp_chrome_event *e = &events[n];

		if (e->t_ns - events[i].t_ns > KINETO_LATE_NS)
			break;
		if (e->addr != events[i].addr || e->done)
			continue;
		if (e->op != GP_OP_FREE || e->thread == events[i].thread)
			break;
		e->done = true;
		k->n_late++;
		return kineto_free(k, e, events[i].t_ns);
	}
	return 0;
}

static int kineto_event(struct kineto *k, size_t i)
{
	const struct gp_chrome_event *e = &k->chrome.events[i];
	const struct gp_by_address_block *block;
	struct gp_trace_record r = kineto_record(k, e);
	int ret = 0;

	if (e->done)
		return 0;
	if (e->op == GP_OP_FREE)
		return kineto_free(k, e, e->t_ns);
	if (e->op == GP_OP_OOM) {
		r.addr = 0;
		return gp_trace_builder_add(k->builder, &r, e->line);
	}
	block = gp_by_address_find(&k->blocks, e->addr);
	if (block && block->live)
		ret = kineto_late_free(k, i);
	return ret ? ret : gp_by_address_alloc(&k->blocks, &r, e->line);
}

/* ---- what to say ---- */

/* What was allocated before, by the profiler's running total: it must be the same at every event,
 * but where threads stamp out of order it is off for a moment. So only a value that two events in a
 * row agree on counts; the first such one and the last. False: there is none. */
static bool kineto_before(const struct kineto *k, uint64_t *first, uint64_t *last)
{
	uint64_t sum = 0, previous = 0;
	bool any = false, found = false;

	for (size_t i = 0; i < k->chrome.n_events; i++) {
		const struct gp_chrome_event *e = &k->chrome.events[i];

		if (e->owner != k->owner || e->op == GP_OP_OOM || !e->has_total)
			continue;
		sum += e->op == GP_OP_ALLOC ? e->size : -e->size; /* modulo 2^64 */
		if (any && e->total - sum == previous) {
			*first = found ? *first : previous;
			*last = previous;
			found = true;
		}
		previous = e->total - sum;
		any = true;
	}
	return found;
}

static int kineto_note_totals(struct kineto *k)
{
	uint64_t first, last;
	int r = 0;

	if (!kineto_before(k, &first, &last))
		return 0;
	if (first != last)
		r = gp_trace_builder_note(k->builder,
					  "the profiler's own count of allocated bytes ends %lld "
					  "bytes above what its events add up to: some are missing",
					  (long long)(last - first));
	if (r || first <= k->assumed_bytes || first > INT64_MAX)
		return r;
	return gp_trace_builder_note(
		k->builder,
		"%.1f MiB more were live from before the recording to its end: "
		"they are not in the trace, the load is higher by that",
		(double)(first - k->assumed_bytes) / (double)GP_MIB);
}

static int kineto_note_owner(struct kineto *k)
{
	const struct gp_chrome_owner *o = &k->chrome.owners[k->owner];

	if (!k->n_left_out)
		return 0;
	if (kineto_is_host(o))
		return gp_trace_builder_note(k->builder,
					     "taken: the host's memory; left out: %llu "
					     "events of other memory",
					     (unsigned long long)k->n_left_out);
	return gp_trace_builder_note(k->builder,
				     "taken: GPU %lld, %llu events; left out: %llu events of other "
				     "devices or of the host (--gpu=N, --memory=host or any)",
				     (long long)o->device, (unsigned long long)o->n_events,
				     (unsigned long long)k->n_left_out);
}

static int kineto_notes(struct kineto *k)
{
	int r = kineto_note_owner(k);

	if (!r && k->chrome.from_torch && !kineto_is_host(&k->chrome.owners[k->owner]))
		r = gp_trace_builder_note(k->builder,
					  "sizes are PyTorch's blocks, rounded up, not what was "
					  "asked for; streams and segments are not recorded (a "
					  "memory snapshot has all of these)");
	if (!r && k->n_late)
		r = gp_trace_builder_note(k->builder,
					  "%llu frees were stamped after another thread had taken "
					  "their address again; they are put before that",
					  (unsigned long long)k->n_late);
	if (!r && k->chrome.n_zero)
		r = gp_trace_builder_note(k->builder, "left out: %llu events of 0 bytes",
					  (unsigned long long)k->chrome.n_zero);
	return r ? r : kineto_note_totals(k);
}

static int kineto_header(struct kineto *k)
{
	const struct gp_chrome_owner *o = &k->chrome.owners[k->owner];
	const struct gp_chrome_device *device = NULL;
	const char *source = k->chrome.from_torch ? "PyTorch profiler" : "TensorFlow profiler";

	for (uint32_t i = 0; i < k->chrome.n_devices && !kineto_is_host(o); i++)
		if ((int64_t)k->chrome.devices[i].id == o->device)
			device = &k->chrome.devices[i];
	return gp_trace_builder_header(k->builder, NULL, source, device ? device->name : NULL,
				       device ? device->total_bytes : 0);
}

static int kineto_tell(struct kineto *k)
{
	int r = kineto_header(k);

	gp_by_address_init(&k->blocks, k->builder, "");
	for (size_t i = 0; !r && i < k->chrome.n_events; i++)
		r = kineto_event(k, i);
	gp_by_address_fini(&k->blocks);
	return r ? r : kineto_notes(k);
}

static int kineto_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct kineto k = { .builder = b, .options = gp_trace_builder_options(b) };
	int r = gp_chrome_read(&k.chrome, in, b);

	if (!r)
		r = kineto_choose(&k);
	if (!r) {
		kineto_sort(&k);
		r = kineto_tell(&k);
	}
	gp_chrome_fini(&k.chrome);
	return r;
}

const struct gp_format gp_kineto_format = {
	.name = "kineto",
	.summary = "PyTorch or TensorFlow profiler, Chrome trace with memory events",
	.probe = gp_chrome_probe,
	.read = kineto_read,
};
