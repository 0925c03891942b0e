/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_sizes: the same trace with other sizes: to fit many copies of a job on one card, or to
 * look at its small blocks alone.
 */
#ifndef GP_TRACE_SIZES_H
#define GP_TRACE_SIZES_H

#include "trace.h"

struct gp_trace_sizes {
	uint64_t times, over; /* each size becomes size * times / over, rounded up; 0: as it is */
	uint64_t cap;         /* larger ones become this; 0: none                               */
};

/* A new trace, which the caller destroys; its notes say what was done. Zero stays zero, nothing
 * else becomes zero. What the recorded driver did (addresses, segments, out of memory) belongs to
 * the recorded sizes and is left out. 0; -EINVAL: a size or the load becomes too large, `why`
 * says; -ENOMEM. */
int gp_trace_scale(const struct gp_trace *t, const struct gp_trace_sizes *how,
		   struct gp_trace **out, char *why, size_t why_size);

#endif
