/* SPDX-License-Identifier: Apache-2.0
 *
 * tune_run: one replay of a recording under one setting, on one size of card. No clock, no
 * histograms: what is wanted is whether it survives and what it holds.
 *
 * Cost      the allocator's own, and a few ns an operation
 * Threads   any number of probes at once: each has a device and an allocator of its own
 */
#include <errno.h>
#include <string.h>

#include "allocators/torch/torch.h"
#include "tune.h"

#define POLL_OPS 65536u /* between two looks at the interrupted flag: some milliseconds */

struct run {
	const struct tune_job *job;
	struct gp_device *dev;
	struct gp_allocator *a;
	uint64_t *addrs; /* [id]; 0: not live */
	uint64_t held, peak;
	struct tune_probe *out;
};

/* Inside of an allocation more may be held than before and after it: a part that could be mapped
 * before the rest could not. */
static void run_observe(void *arg, enum gp_torch_event what, struct gp_range range, uint32_t stream)
{
	struct run *run = arg;

	(void)stream;
	if (what == GP_TORCH_SEGMENT_ALLOC || what == GP_TORCH_SEGMENT_MAP)
		run->held += range.size;
	else if (what == GP_TORCH_SEGMENT_FREE || what == GP_TORCH_SEGMENT_UNMAP)
		run->held -= range.size;
	run->peak = gp_max_u64(run->peak, run->held);
}

static void run_fault(struct run *run, int r, const char *text)
{
	run->out->fault = r;
	snprintf(run->out->why, sizeof(run->out->why), "%s", text);
}

static void run_failed(struct run *run, size_t event, uint64_t bytes)
{
	struct gp_usage u;

	gp_usage(run->a, &u);
	run->out->failed_event = event;
	run->out->failed_bytes = bytes;
	run->out->failed_reserved = u.reserved_bytes;
}

/* false: the program ends here. */
static bool run_alloc(struct run *run, const struct gp_action_op *op)
{
	struct gp_block block;
	struct gp_usage u;
	int r = gp_alloc(run->a, &op->req, &block);

	if (GP_LIKELY(!r)) {
		run->addrs[op->id] = block.addr;
		gp_usage(run->a, &u);
		run->peak = gp_max_u64(run->peak, u.reserved_bytes);
		return true;
	}
	run->addrs[op->id] = 0;
	if (r < 0) {
		run_fault(run, r, gp_result_text(r));
		return false;
	}
	if (++run->out->ooms <= run->job->allow_ooms)
		return true;
	run_failed(run, op->event, op->req.size);
	return false;
}

static int run_other(struct run *run, const struct gp_action_op *op)
{
	uint64_t addr = gp_action_frees(op->action) ? run->addrs[op->id] : 0;

	switch (op->action) {
	case GP_ACTION_DEFER:
		return gp_defer(run->a, addr, op->id);
	case GP_ACTION_COMPLETE:
		return gp_complete(run->a, addr, op->id);
	case GP_ACTION_TRIM:
		return gp_trim(run->a, 0, NULL);
	case GP_ACTION_SYNC:
		return gp_device_sync(run->dev);
	default:
		return gp_free(run->a, addr);
	}
}

static void run_program(struct run *run, const struct gp_program *p)
{
	for (size_t i = 0; i < p->n_ops; i++) {
		const struct gp_action_op *op = &p->ops[i];
		int r = 0;

		if (i % POLL_OPS == 0 && run->job->interrupted && *run->job->interrupted) {
			run_fault(run, -EINTR, "interrupted");
			return;
		}
		if (op->action == GP_ACTION_ALLOC) {
			if (!run_alloc(run, op))
				return;
			continue;
		}
		r = run_other(run, op);
		if (GP_UNLIKELY(r < 0)) {
			run_fault(run, r, gp_result_text(r));
			return;
		}
	}
	run->out->survived = true;
}

static void run_count(struct run *run)
{
	struct tune_probe *out = run->out;
	struct gp_torch_stats torch;
	struct gp_device_stats d;

	gp_device_stats(run->dev, &d);
	out->peak_reserved = run->peak;
	out->device_ns = d.model_ns;
	if (gp_torch_stats(run->a, &torch)) {
		out->device_allocs = torch.num_device_alloc;
		out->device_frees = torch.num_device_free;
		out->retries = torch.num_alloc_retries;
		out->collections = torch.num_gc;
		return;
	}
	out->device_allocs =
		d.calls[GP_CALL_RESERVE] + d.calls[GP_CALL_ASYNC_ALLOC] + d.calls[GP_CALL_MAP];
	out->device_frees =
		d.calls[GP_CALL_RELEASE] + d.calls[GP_CALL_ASYNC_FREE] + d.calls[GP_CALL_UNMAP];
}

static void run_begin(struct run *run, const struct tune_setting *s, uint64_t capacity)
{
	struct gp_device_config config = run->job->device;
	char why[160] = "";
	int r;

	config.capacity = capacity;
	r = gp_device_open_sim(&config, &run->dev, why, sizeof(why));
	if (!r)
		r = gp_allocator_create(s->spec, run->dev, &run->job->env, &run->a, why,
					sizeof(why));
	if (r == GP_NOMEM)
		run->out->ooms++; /* what it takes beforehand does not fit */
	else if (r)
		run_fault(run, r, why[0] ? why : gp_result_text(r));
}

void tune_probe(const struct tune_job *job, const struct tune_setting *s, uint64_t capacity,
		uint64_t *addrs, struct tune_probe *out)
{
	struct run run = { .job = job, .addrs = addrs, .out = out };

	*out = (struct tune_probe){ 0 };
	run_begin(&run, s, capacity);
	if (run.a) {
		memset(addrs, 0, job->plain.n_ids * sizeof(*addrs));
		gp_torch_observe(run.a, run_observe, &run);
		run_program(&run, gp_can_defer(run.a) ? &job->deferring : &job->plain);
		run_count(&run);
		gp_torch_observe(run.a, NULL, NULL);
	}
	gp_allocator_destroy(run.a);
	gp_device_close(run.dev);
}
