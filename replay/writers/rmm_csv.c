/* SPDX-License-Identifier: Apache-2.0
 *
 * rmm_csv: the log of the RAPIDS Memory Manager, in the form of RMM 24.12 and later, for its own
 * replay benchmark and for whoever reads such logs.
 *
 * Shape       a row per allocation and free. The log names a block by its address; where none was
 *             recorded, each block gets one of its own, so that nothing overlaps.
 * Not done    RMM has no word for a block that becomes reusable later than its free (`reclaim`).
 * Cost        8 bytes per allocation for the addresses
 */
#include <errno.h>
#include <stdlib.h>

#include "writer.h"

#define RMM_ADDR_FIRST UINT64_C(0x7e0000000000) /* below the addresses that recordings show */
#define RMM_DAY_US     UINT64_C(86400000000)

/* Local time of day: it starts at midnight, and wraps there. */
static void rmm_time(struct gp_output *out, uint64_t t_ns)
{
	uint64_t us = t_ns / 1000 % RMM_DAY_US, s = us / 1000000;

	gp_output_padded(out, s / 3600, 2);
	gp_output_text(out, ":");
	gp_output_padded(out, s / 60 % 60, 2);
	gp_output_text(out, ":");
	gp_output_padded(out, s % 60, 2);
	gp_output_text(out, ".");
	gp_output_padded(out, us % 1000000, 6);
}

static void rmm_stream(struct gp_output *out, uint64_t handle)
{
	if (handle)
		gp_output_hex(out, handle);
	else
		gp_output_text(out, "0"); /* as "%p" of nothing is spelled there */
}

/* addr 0: a failure. */
static void rmm_row(struct gp_output *out, const struct gp_trace *t, const struct gp_event *e,
		    const char *action, uint64_t addr)
{
	gp_output_number(out, t->thread_handles[e->thread]);
	gp_output_text(out, ",");
	rmm_time(out, e->t_ns);
	gp_output_text(out, action);
	if (addr)
		gp_output_hex(out, addr);
	else
		gp_output_text(out, "(nil)");
	gp_output_text(out, ",");
	gp_output_number(out, e->size);
	gp_output_text(out, ",");
	rmm_stream(out, t->stream_handles[e->stream]);
	gp_output_text(out, "\n");
}

static int rmm_write(const struct gp_trace *t, struct gp_output *out)
{
	uint64_t *addrs = malloc((t->n_ids + (size_t)1) * sizeof(*addrs));
	uint64_t next = RMM_ADDR_FIRST;

	if (!addrs)
		return -ENOMEM;
	gp_output_text(out, "Thread,Time,Action,Pointer,Size,Stream\n");
	for (size_t i = 0; i < t->n_events && !out->error; i++) {
		const struct gp_event *e = &t->events[i];

		if (e->op == GP_OP_ALLOC) {
			addrs[e->id] = t->addrs ? t->addrs[i] : 0;
			if (!addrs[e->id]) {
				addrs[e->id] = next;
				next += gp_align_up(e->size | 1, GP_ALIGN);
			}
			rmm_row(out, t, e, ",allocate,", addrs[e->id]);
		} else if (e->op == GP_OP_FREE) {
			rmm_row(out, t, e, ",free,", addrs[e->id]);
		} else if (e->op == GP_OP_OOM) {
			rmm_row(out, t, e, ",allocate failure,", 0);
		}
	}
	free(addrs);
	return 0;
}

const struct gp_writer gp_rmm_csv_writer = {
	.name = "rmm_csv",
	.summary = "log of the RAPIDS Memory Manager, CSV",
	.ending = ".rmm.csv",
	.ops = 1u << GP_OP_ALLOC | 1u << GP_OP_FREE | 1u << GP_OP_OOM,
	.keeps = GP_KEEP_TIME | GP_KEEP_STREAM | GP_KEEP_THREAD | GP_KEEP_ADDR,
	.write = rmm_write,
};
