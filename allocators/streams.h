/* SPDX-License-Identifier: Apache-2.0
 *
 * streams: when memory freed on one stream may be used on another.
 *
 * A pool keeps its free memory apart by the stream that freed it, so that the ordinary path (reuse
 * on the same stream) compares nothing and calls nothing. When a stream has nothing that fits, the
 * pool takes another stream's memory and calls gp_streams_wait: an event on the freeing stream and
 * a wait on the taking one, at that moment. The event covers everything freed on that stream so
 * far, so taking again from it needs no second wait until it frees something new.
 *
 * GP_STREAM_FRESH marks memory that no stream has used yet: anybody's, without a wait.
 */
#ifndef GP_STREAMS_H
#define GP_STREAMS_H

#include "device.h"

#define GP_STREAM_FRESH UINT32_MAX

struct gp_streams {
	struct gp_device *dev;
	uint32_t n; /* streams seen: 0 .. n-1                                     */
	uint32_t cap;
	uint64_t *freed;  /* [s]: frees and takings-over on s so far                    */
	uint64_t *waited; /* [to * cap + from]: freed[from] + 1 when `to` last waited   */
	uint64_t waits;   /* event waits made                                           */
};

void gp_streams_init(struct gp_streams *s, struct gp_device *dev);
void gp_streams_fini(struct gp_streams *s);
/* Makes stream `s` known; -ENOMEM. Cheap when it is. */
int gp_streams_grow(struct gp_streams *s, uint32_t stream);
static inline int gp_streams_know(struct gp_streams *s, uint32_t stream)
{
	return GP_LIKELY(stream < s->n) ? 0 : gp_streams_grow(s, stream);
}
/* Call on each free of a block of `stream`. */
static inline void gp_streams_freed(struct gp_streams *s, uint32_t stream)
{
	s->freed[stream]++;
}
/* Before memory freed on `from` is used on `to`. 0, or the device's fault. */
int gp_streams_wait(struct gp_streams *s, uint32_t from, uint32_t to);

#endif
