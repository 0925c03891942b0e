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
 * A pool that does not keep it apart (fit.h) notes with each free piece the streams that may still
 * use it, one bit each, and the epoch of the latest free: gp_streams_wait_for makes the wait where
 * the taking stream has not waited since. The epoch counts the waits, so what was freed before a
 * wait is told from what was freed after it. When the epoch has come to its end, all waits are
 * forgotten and it begins anew: what was freed before that makes a wait that may not be needed, until
 * the new epoch has passed the old one; none is missed.
 *
 * GP_STREAM_FRESH marks memory that no stream has used yet: anybody's, without a wait.
 */
#ifndef GP_STREAMS_H
#define GP_STREAMS_H

#include "device/device.h"

#define GP_STREAM_FRESH UINT32_MAX

struct gp_streams {
	struct gp_device *dev;
	uint32_t n; /* streams seen: 0 .. n-1                                     */
	uint32_t cap;
	uint16_t epoch;   /* waits so far, and one, below 2^16: see above           */
	uint16_t *freed;  /* [s]: epoch of the last free or taking-over on s            */
	uint16_t *waited; /* [to * cap + from]: epoch that began when `to` last waited  */
	uint64_t waits;   /* event waits made                                           */
};

/* Streams in a set: with more, some share a bit, and a wait is made for all of them. */
#define GP_STREAM_BITS 16

static inline uint16_t gp_stream_bit(uint32_t stream)
{
	return (uint16_t)(1u << stream % GP_STREAM_BITS);
}

void gp_streams_init(struct gp_streams *s, struct gp_device *dev);
void gp_streams_fini(struct gp_streams *s);
/* Makes a stream known: 0, GP_REFUSED (more than 2 896 of them) or -ENOMEM. Cheap when it is. */
int gp_streams_grow(struct gp_streams *s, uint32_t stream);
static inline int gp_streams_know(struct gp_streams *s, uint32_t stream)
{
	return GP_LIKELY(stream < s->n) ? 0 : gp_streams_grow(s, stream);
}
/* Call on each free of a block of `stream`. */
static inline void gp_streams_freed(struct gp_streams *s, uint32_t stream)
{
	s->freed[stream] = s->epoch;
}
/* Before memory freed on `from` is used on `to`. 0, or the device's fault. */
int gp_streams_wait(struct gp_streams *s, uint32_t from, uint32_t to);
/* Who may still use a piece of free memory: a set of streams, which freed it at `epoch` at the latest. */
struct gp_stream_users {
	uint16_t set, epoch;
};

/* The users of two pieces that become one. Streams that the only user of the other piece has waited
 * for since are left out: who waits for that one waits for them. */
struct gp_stream_users gp_streams_join(const struct gp_streams *s, struct gp_stream_users a,
				       struct gp_stream_users b);
/* Before memory with these users is used on `to`. */
int gp_streams_wait_for(struct gp_streams *s, struct gp_stream_users users, uint32_t to);

#endif
