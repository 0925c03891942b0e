/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_job: what the suites over the engine share: runs on a small simulated device.
 *
 * Include after cmocka.h.
 */
#ifndef TESTS_ENGINE_JOB_H
#define TESTS_ENGINE_JOB_H

#include <stdlib.h>
#include <time.h>

#include "replay/engine.h"
#include "trace_of.h"

#define MIB GP_MIB

static inline struct gp_engine_config sim(unsigned passes)
{
	return (struct gp_engine_config){
		.device = "sim", .device_config.capacity = 64 * MIB, .passes = passes, .repeat = 3
	};
}

static inline struct gp_run *run(struct gp_trace *trace, const char *spec,
				 const struct gp_engine_config *cfg)
{
	char why[200] = "";
	struct gp_run *r = NULL;

	if (gp_engine_run(trace, spec, cfg, &r, why, sizeof(why)))
		fail_msg("%s: %s", spec, why);
	return r;
}

static inline void finish(struct gp_run *r, struct gp_trace *t)
{
	gp_run_destroy(r);
	gp_trace_destroy(t);
}

/* n blocks of `size` bytes, one alive at a time. */
static inline struct gp_trace *churn(size_t n, uint64_t size, uint64_t step_ns)
{
	struct gp_trace_record *records = calloc(2 * n, sizeof(*records));
	struct gp_trace *t;

	assert_non_null(records);
	for (size_t i = 0; i < n; i++) {
		records[2 * i] = (struct gp_trace_record)ALLOC(.id = i, .size = size,
							       .t_ns = 2 * i * step_ns);
		records[2 * i + 1] =
			(struct gp_trace_record)FREE(.id = i, .t_ns = (2 * i + 1) * step_ns);
	}
	t = trace_of(records, 2 * n);
	free(records);
	return t;
}

static inline double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

#endif
