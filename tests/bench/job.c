/* SPDX-License-Identifier: Apache-2.0
 *
 * job: what is replayed, made ready so that the loop holds the call and the array access.
 *
 * Churn       sizes as programs have them: SIZES different ones, spread evenly over the powers of
 *             two from SMALLEST to LARGEST; one stream. Memory for a million blocks: 150 GiB.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "replay/engine.h"
#include "tools/gen/rng.h"

#define SIZES    24
#define SMALLEST 8  /* log2: 256 bytes */
#define LARGEST  20 /* 1 MiB */

void *bench_memory(void *p)
{
	if (!p)
		bench_die("memory", "none left");
	return p;
}

/* What is live along the program, and what is at its end. Tells each free what it frees. */
static void job_follow(struct bench_job *job)
{
	struct gp_program *p = &job->program;
	const struct gp_action_op **by_id = bench_memory(calloc(p->n_ids + 1, sizeof(*by_id)));
	uint64_t live = 0, bytes = 0;

	for (size_t i = 0; i < p->n_ops; i++) {
		struct gp_action_op *op = &p->ops[i];

		if (op->action == GP_ACTION_ALLOC) {
			by_id[op->id] = op;
			bytes += op->req.size;
			job->largest = gp_max_u64(job->largest, op->req.size);
			job->load = gp_max_u64(job->load, bytes);
			if (++live > job->most_live) {
				job->most_live = live;
				job->most_live_at = i;
			}
		} else {
			op->req = by_id[op->id]->req;
			by_id[op->id] = NULL;
			bytes -= op->req.size;
			live--;
		}
	}
	job->kept = bench_memory(calloc(live + 1, sizeof(*job->kept)));
	for (uint32_t id = 0; id < p->n_ids; id++)
		if (by_id[id])
			job->kept[job->n_kept++] = id;
	free(by_id);
}

static void job_name(struct bench_job *job, const char *path)
{
	const char *slash = strrchr(path, '/');

	snprintf(job->name, sizeof(job->name), "%s", slash ? slash + 1 : path);
	job->name[strcspn(job->name, ".")] = '\0';
}

void bench_job_load(struct bench_job *job, const char *path)
{
	struct gp_program *p = &job->program;
	char why[512];
	size_t n = 0;

	*job = (struct bench_job){ 0 };
	job_name(job, path);
	if (gp_trace_load(path, NULL, &job->trace, why, sizeof(why)))
		bench_die(path, why);
	if (gp_program_compile(job->trace, 1, p))
		bench_die(path, "no memory");
	for (size_t i = 0; i < p->n_ops; i++)
		if (p->ops[i].action == GP_ACTION_ALLOC || p->ops[i].action == GP_ACTION_FREE)
			p->ops[n++] = p->ops[i];
	p->n_ops = n;
	if (!n)
		bench_die(path, "expected some allocations");
	job->addrs = bench_memory(calloc(p->n_ids + 1, sizeof(*job->addrs)));
	gp_engine_env(job->trace, &job->env);
	job_follow(job);
}

static struct gp_action_op churn_alloc(struct gen_rng *rng, uint32_t id)
{
	uint64_t lg = gen_rng_below(rng, SIZES) * (LARGEST - SMALLEST) + SIZES / 2;
	uint64_t whole = lg / SIZES, part = lg % SIZES;
	uint64_t size = (UINT64_C(1) << (SMALLEST + whole)) * (SIZES + part) / SIZES;

	return (struct gp_action_op){ .req = { .size = size },
				      .id = id,
				      .action = GP_ACTION_ALLOC };
}

static void churn_free(struct gp_program *p, uint32_t id)
{
	p->ops[p->n_ops++] = (struct gp_action_op){ .id = id, .action = GP_ACTION_FREE };
}

void bench_job_churn(struct bench_job *job, uint32_t live, uint32_t spare, size_t n_pairs)
{
	struct gp_program *p = &job->program;
	struct gen_rng rng;

	*job = (struct bench_job){ .n_setup = live + 2 * (size_t)spare };
	snprintf(job->name, sizeof(job->name), "%u of %u", live, live + spare);
	gen_rng_seed(&rng, live);
	p->n_ids = live + spare;
	p->ops = bench_memory(calloc(job->n_setup + 2 * n_pairs, sizeof(*p->ops)));
	for (uint32_t id = 0; id < live + spare; id++)
		p->ops[p->n_ops++] = churn_alloc(&rng, id);
	for (uint32_t id = live; id < live + spare; id++)
		churn_free(p, id);
	for (size_t i = 0; i < n_pairs; i++) {
		uint32_t id = (uint32_t)gen_rng_below(&rng, live);

		churn_free(p, id);
		p->ops[p->n_ops++] = churn_alloc(&rng, id);
	}
	job->addrs = bench_memory(calloc(p->n_ids, sizeof(*job->addrs)));
	job->env = (struct gp_env){ .threads = 1,
				    .streams = 1,
				    .typical_size = UINT64_C(1) << LARGEST,
				    .typical_live = live };
	job_follow(job);
}

void bench_job_close(struct bench_job *job)
{
	gp_program_fini(&job->program);
	gp_trace_destroy(job->trace);
	free(job->addrs);
	free(job->kept);
}
