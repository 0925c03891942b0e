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
	*s = (struct gp_streams){ .dev = dev };
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
	uint64_t *freed, *waited;

	if (stream >= STREAMS_MAX)
		return -E2BIG;
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

int gp_streams_wait(struct gp_streams *s, uint32_t from, uint32_t to)
{
	uint64_t *seen;
	int r;

	if (from == to || from == GP_STREAM_FRESH)
		return 0;
	seen = &s->waited[(size_t)to * s->cap + from];
	if (*seen == s->freed[from] + 1)
		return 0;
	r = gp_device_stream_wait(s->dev, from, to);
	if (r)
		return r;
	*seen = s->freed[from] + 1;
	s->waits++;
	/* What `to` takes now carries `from`'s work with it: whoever waited for `to` before this
	 * must do so again before taking it from there. */
	s->freed[to]++;
	return 0;
}
