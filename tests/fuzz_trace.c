/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: any bytes as a trace, strictly and leniently, and as a device profile. Whatever
 * comes in, a refusal is one whole line, and what is taken keeps the invariants that a replay and a
 * simulated device build on.
 *
 *   fuzz_trace -max_len=4096 -dict=tests/fuzz_seeds/trace.dict CORPUS tests/fuzz_seeds/trace
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/formats/format.h"
#include "replay/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "%s\n", what);
		abort();
	}
}

static void audit(const struct gp_trace *t)
{
	uint64_t live = 0;
	uint32_t ids = 0;

	for (size_t i = 0; i < t->n_events; i++) {
		const struct gp_event *e = &t->events[i];
		bool deferred = gp_event_flags(e) & GP_EVENT_DEFERRED;

		require(e->op < GP_OP_N, "op");
		require(e->stream < t->n_streams && e->thread < t->n_threads, "stream or thread");
		require(!i || e->t_ns >= e[-1].t_ns, "time");
		if (e->op == GP_OP_ALLOC) {
			require(e->id == ids++, "id of alloc");
			require(e->link == GP_EVENT_NONE || (e->link > i && e->link < t->n_events &&
							     t->events[e->link].op == GP_OP_FREE),
				"link of alloc");
			live += e->size;
			require(live >= e->size && live <= t->load_bytes, "load");
		} else if (e->op == GP_OP_FREE || e->op == GP_OP_RECLAIM) {
			require(e->link < t->n_events && t->events[e->link].id == e->id, "link");
			require(t->events[e->link].op == (deferred ? GP_OP_RECLAIM : GP_OP_ALLOC),
				"what a free or reclaim is linked to");
			live -= deferred ? 0 : e->size;
		} else if (e->op == GP_OP_MARK) {
			require(e->id < t->n_marks && t->marks[e->id], "mark");
		}
	}
	require(ids == t->n_ids && ids == t->n_allocs, "counts");
}

static void require_refusal(int r, const char *why)
{
	require(r == -EINVAL, "a refusal is -EINVAL");
	require(!strncmp(why, "input:", 6) && strstr(why, "expected"), "form of the refusal");
	for (const char *p = why; *p; p++)
		require((unsigned char)*p >= ' ', "a refusal is one line of text");
}

/* The number of events, or -1: refused. */
static long load(const uint8_t *data, size_t size, bool lenient, uint64_t *skipped)
{
	struct gp_trace_options options = { .lenient = lenient };
	struct gp_input *in = gp_input_open_memory("input", data, size);
	struct gp_trace *t = NULL;
	char why[512] = "";
	long n = -1;
	int r;

	if (!in)
		return -1;
	r = gp_trace_load_input(in, &options, &t, why, sizeof(why));
	gp_input_close(in);
	if (r) {
		require(!t, "nothing is handed out with a refusal");
		require_refusal(r, why);
		return -1;
	}
	audit(t);
	for (enum gp_skip k = 0; k < GP_SKIP_N; k++)
		*skipped += t->skipped[k];
	n = (long)t->n_events;
	gp_trace_destroy(t);
	return n;
}

static void load_profile(const uint8_t *data, size_t size)
{
	struct gp_input *in = gp_input_open_memory("input", data, size);
	struct gp_profile *p = NULL;
	char why[512] = "";
	int r;

	if (!in)
		return;
	r = gp_profile_read(in, &p, why, sizeof(why));
	gp_input_close(in);
	if (r) {
		require_refusal(r, why);
		return;
	}
	require(p->total_bytes && p->free_bytes <= p->total_bytes, "memory of the card");
	for (unsigned i = 0; i < GP_COST_N; i++) {
		const struct gp_cost_curve *c = &p->curves[i];

		for (unsigned k = 1; k < c->n; k++)
			require(c->at[k - 1].size < c->at[k].size, "sizes of a curve");
	}
	gp_profile_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t skipped = 0, skipped_lenient = 0;
	long strict = load(data, size, false, &skipped);
	long lenient = load(data, size, true, &skipped_lenient);

	load_profile(data, size);
	require(!skipped, "strict skips nothing");
	if (strict >= 0)
		require(strict == lenient && !skipped_lenient,
			"lenient takes a good trace as it is");
	else if (lenient >= 0)
		require(skipped_lenient > 0, "lenient counts what strict refuses");
	return 0;
}
