/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_queue: see sim_queue.h. Only the ends of work are kept: a piece begins when the one before it
 * on its stream has ended, or now.
 *
 * Invariants   1. until of the queue is the greatest of its streams'   2. ends of a stream ascend
 * Cost         a few operations a piece; 8 KiB for each stream that has had work
 */
#include "sim_queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device_sim.h"

#define STREAMS_MAX 65536 /* as on the real device */

void gp_sim_queue_fini(struct gp_sim_queue *q)
{
	for (uint32_t i = 0; i < q->n; i++)
		free(q->streams[i].ends);
	free(q->streams);
	*q = (struct gp_sim_queue){ 0 };
}

uint64_t gp_sim_now(const struct gp_sim *sim)
{
	return atomic_load_explicit(&sim->base.model_ns, memory_order_relaxed) +
	       sim->queue.elapsed_ns;
}

static int queue_grow(struct gp_sim *sim, uint32_t stream)
{
	struct gp_sim_queue *q = &sim->queue;
	struct gp_sim_stream *grown;
	uint32_t n = stream + 1;

	if (stream >= STREAMS_MAX)
		return gp_device_fault(&sim->base, -EINVAL, "stream %" PRIu32 ": at most %d",
				       stream, STREAMS_MAX);
	grown = realloc(q->streams, n * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(&grown[q->n], 0, (n - q->n) * sizeof(*grown));
	q->streams = grown;
	q->n = n;
	return 0;
}

static int queue_stream(struct gp_sim *sim, uint32_t stream, struct gp_sim_stream **out)
{
	int r = stream < sim->queue.n ? 0 : queue_grow(sim, stream);

	if (!r)
		*out = &sim->queue.streams[stream];
	return r;
}

/* The host does nothing until that moment; for how long. */
static uint64_t queue_wait(struct gp_sim *sim, uint64_t until)
{
	uint64_t now = gp_sim_now(sim), ns = until > now ? until - now : 0;

	if (ns)
		gp_device_charge(&sim->base, ns);
	return ns;
}

int gp_sim_queue_push(struct gp_sim *sim, uint32_t stream, uint64_t ns)
{
	struct gp_sim_stream *s;
	uint64_t *slot;
	int r = queue_stream(sim, stream, &s);

	if (!r && !s->ends) {
		s->ends = calloc(GP_SIM_QUEUE_DEPTH, sizeof(*s->ends));
		r = s->ends ? 0 : -ENOMEM;
	}
	if (r)
		return r;
	/* The piece that was here came GP_SIM_QUEUE_DEPTH before: its place must be free. */
	slot = &s->ends[s->n_pushed++ % GP_SIM_QUEUE_DEPTH];
	(void)queue_wait(sim, *slot);
	s->until = gp_max_u64(s->until, gp_sim_now(sim)) + ns;
	*slot = s->until;
	sim->queue.until = gp_max_u64(sim->queue.until, s->until);
	return 0;
}

int gp_sim_queue_order(struct gp_sim *sim, uint32_t from, uint32_t to)
{
	uint64_t until = gp_sim_queue_until(sim, from);
	struct gp_sim_stream *s;
	int r = queue_stream(sim, to, &s);

	if (!r)
		s->until = gp_max_u64(s->until, until);
	return r;
}

uint64_t gp_sim_queue_until(const struct gp_sim *sim, uint32_t stream)
{
	return stream < sim->queue.n ? sim->queue.streams[stream].until : 0;
}

void gp_sim_queue_drain(struct gp_sim *sim)
{
	uint64_t ns = queue_wait(sim, sim->queue.until);

	atomic_fetch_add_explicit(&sim->base.stall_ns, ns, memory_order_relaxed);
}

/* -- the hooks -------------------------------------------------------------------------------- */

int gp_sim_busy(struct gp_device *dev, uint32_t stream, uint64_t ns)
{
	struct gp_sim *sim = gp_sim_of(dev);
	int r;

	pthread_mutex_lock(&sim->lock);
	gp_sim_charge(sim, GP_COST_LAUNCH, 1);
	r = gp_sim_queue_push(sim, stream, ns);
	pthread_mutex_unlock(&sim->lock);
	return r;
}

/* All work is known: its ends need no marks. */
int gp_sim_mark(struct gp_device *dev, uint32_t stream)
{
	(void)dev;
	(void)stream;
	return 0;
}

int gp_sim_lull(struct gp_device *dev, unsigned slot)
{
	struct gp_sim *sim = gp_sim_of(dev);
	uint64_t now;
	int r = 0;

	pthread_mutex_lock(&sim->lock);
	now = gp_sim_now(sim);
	if (sim->queue.until > now)
		r = GP_WORKING;
	else
		sim->queue.lulls[slot] = now - sim->queue.until;
	pthread_mutex_unlock(&sim->lock);
	return r;
}

int gp_sim_lull_ns(struct gp_device *dev, unsigned slot, uint64_t *ns)
{
	*ns = gp_sim_of(dev)->queue.lulls[slot];
	return 0;
}

void gp_sim_elapse(struct gp_device *dev, uint64_t ns)
{
	struct gp_sim *sim = gp_sim_of(dev);

	pthread_mutex_lock(&sim->lock);
	sim->queue.elapsed_ns += ns;
	pthread_mutex_unlock(&sim->lock);
}
