/* SPDX-License-Identifier: Apache-2.0
 *
 * streams: see streams.h. `waited` is a square matrix, to * cap + from, of what `to` has seen of
 * `from`; a program has few streams (PyTorch rarely over a dozen), and growth doubles it.
 */
#include "streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* 64 MiB of matrix; nobody has more streams. */
#define STREAMS_MAX 2896

void gp_streams_init(struct gp_streams *s, struct gp_device *dev)
{
	*s = (struct gp_streams){ .dev = dev, .epoch = 1 };
}

void gp_streams_fini(struct gp_streams *s)
{
	free(s->freed);
	free(s->waited);
	*s = (struct gp_streams){ .dev = s->dev };
}

int gp_streams_grow(struct gp_streams *s, uint32_t stream)
{
	uint32_t cap = s->cap ? s->cap : 4;
	uint16_t *freed, *waited;

	if (stream >= STREAMS_MAX)
		return GP_REFUSED;
	while (cap <= stream)
		cap *= 2;
	if (cap != s->cap) {
		freed = calloc(cap, sizeof(*freed));
		waited = calloc((size_t)cap * cap, sizeof(*waited));
		if (!freed || !waited) {
			free(freed);
			free(waited);
			return -ENOMEM;
		}
		for (uint32_t to = 0; to < s->n; to++) {
			freed[to] = s->freed[to];
			memcpy(waited + (size_t)to * cap, s->waited + (size_t)to * s->cap,
			       s->n * sizeof(*waited));
		}
		free(s->freed);
		free(s->waited);
		s->freed = freed;
		s->waited = waited;
		s->cap = cap;
	}
	s->n = stream + 1;
	return 0;
}

static void streams_begin_anew(struct gp_streams *s)
{
	s->epoch = 1;
	memset(s->waited, 0, (size_t)s->cap * s->cap * sizeof(*s->waited));
	for (uint32_t i = 0; i < s->n; i++)
		s->freed[i] = s->epoch;
}

static int streams_wait_now(struct gp_streams *s, uint32_t from, uint32_t to)
{
	int r = gp_device_stream_wait(s->dev, from, to);

	if (r)
		return r;
	if (s->epoch == UINT16_MAX)
		streams_begin_anew(s);
	s->epoch++;
	s->waited[(size_t)to * s->cap + from] = s->epoch;
	s->waits++;
	/* What `to` takes now carries `from`'s work with it: whoever waited for `to` before this
	 * must do so again before taking it from there. */
	s->freed[to] = s->epoch;
	return 0;
}

int gp_streams_wait(struct gp_streams *s, uint32_t from, uint32_t to)
{
	if (from == to || from == GP_STREAM_FRESH)
		return 0;
	if (s->freed[from] < s->waited[(size_t)to * s->cap + from])
		return 0;
	return streams_wait_now(s, from, to);
}

int gp_streams_wait_for(struct gp_streams *s, struct gp_stream_users users, uint32_t to)
{
	int r = 0;

	for (uint32_t from = 0; from < s->n && !r; from++)
		if (from != to && users.set & gp_stream_bit(from) &&
		    users.epoch >= s->waited[(size_t)to * s->cap + from])
			r = streams_wait_now(s, from, to);
	return r;
}

/* Has the only stream in b.set waited for all of a.set since a.epoch? Then b's users, from b.epoch on,
 * stand for both. */
static bool streams_cover(const struct gp_streams *s, struct gp_stream_users a,
			  struct gp_stream_users *b)
{
	uint32_t to;
	uint16_t epoch = b->epoch;

	if (!gp_is_pow2(b->set) || s->n > GP_STREAM_BITS)
		return false;
	to = gp_lowest_bit(b->set);
	for (unsigned set = a.set & ~b->set; set; set &= set - 1) {
		uint16_t waited = s->waited[(size_t)to * s->cap + gp_lowest_bit(set)];

		if (a.epoch >= waited)
			return false;
		epoch = waited > epoch ? waited : epoch;
	}
	/* Who waited for that stream before it waited for the others must do so again. */
	b->epoch = a.set & b->set && a.epoch > epoch ? a.epoch : epoch;
	return true;
}

struct gp_stream_users gp_streams_join(const struct gp_streams *s, struct gp_stream_users a,
				       struct gp_stream_users b)
{
	if (streams_cover(s, a, &b))
		return b;
	if (streams_cover(s, b, &a))
		return a;
	a.set |= b.set;
	a.epoch = b.epoch > a.epoch ? b.epoch : a.epoch;
	return a;
}
