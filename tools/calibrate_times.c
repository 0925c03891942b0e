/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate_times: the times measured, and the rows of the profile made from them.
 *
 * Shape     one growing array for each call and size, found by a walk over some hundred of them,
 *           which happens outside the timed call
 * Cost      of a measurement, beside the call: two readings of the clock, whose own cost is taken
 *           off
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calibrate.h"

uint64_t cal_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

bool cal_goes_on(const struct cal *c)
{
	return !*c->interrupted && cal_now_ns() < c->slice_end_ns;
}

/* The times of a call at a size; NULL: out of memory. */
static struct cal_times *times_of(struct cal *c, const char *call, uint64_t size)
{
	size_t cap = c->cap_times ? 2 * c->cap_times : 64;
	struct cal_times *t;

	/* The last ones are asked for again and again. */
	for (size_t i = c->n_times; i--;) {
		if (c->times[i].size == size && !strcmp(c->times[i].call, call))
			return &c->times[i];
	}
	if (c->n_times == c->cap_times) {
		t = realloc(c->times, cap * sizeof(*t));
		if (!t)
			return NULL;
		c->times = t;
		c->cap_times = cap;
	}
	t = &c->times[c->n_times++];
	*t = (struct cal_times){ .size = size };
	snprintf(t->call, sizeof(t->call), "%s", call);
	return t;
}

int cal_add(struct cal *c, const char *call, uint64_t size, uint64_t ns)
{
	struct cal_times *t = times_of(c, call, size);

	if (t && t->n == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 64;
		uint32_t *grown = realloc(t->ns, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		t->ns = grown;
		t->cap = cap;
	}
	if (!t)
		return -ENOMEM;
	t->ns[t->n++] = (uint32_t)gp_min_u64(ns, UINT32_MAX);
	return 0;
}

void cal_rest(const struct cal *c, uint64_t ns)
{
	const struct timespec ts = { 0, (long)ns };

	if (ns && !c->dev->info.simulated)
		nanosleep(&ts, NULL);
}

int cal_probe_untimed(struct cal *c, struct gp_probe *p)
{
	return gp_device_probe(c->dev, p);
}

int cal_probe(struct cal *c, struct gp_probe *p, const char *variant, uint64_t size)
{
	const char *name = gp_probe_name(p->kind);
	uint64_t ns;
	char call[32];
	int r;

	cal_rest(c, c->rest_ns);
	r = gp_device_probe(c->dev, p);
	if (r)
		return r;
	ns = p->model_ns;
	if (!c->dev->info.simulated)
		ns = gp_clock_ns(c->clock, gp_clock_call(c->clock, 0, p->ticks));
	snprintf(call, sizeof(call), "%s%s%s", name, variant && variant[0] ? "." : "",
		 variant ? variant : "");
	r = cal_add(c, call, size, ns);
	if (!r && p->kind == GP_PROBE_MEMSET)
		r = cal_add(c, "memset.device", size, p->device_ns);
	return r;
}

/* -- rows ------------------------------------------------------------------------------------- */

static int by_ns(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The smallest time that at least this share of all are not above. */
static uint64_t percentile(const uint32_t *sorted, size_t n, unsigned percent)
{
	size_t rank = (n * percent + 99) / 100;

	return sorted[rank ? rank - 1 : 0];
}

static bool row_make(const struct cal_times *t, struct gp_profile_row *row)
{
	uint32_t *sorted = malloc(t->n * sizeof(*sorted));
	uint64_t sum = 0;

	if (!sorted)
		return false;
	memcpy(sorted, t->ns, t->n * sizeof(*sorted));
	qsort(sorted, t->n, sizeof(*sorted), by_ns);
	for (size_t i = 0; i < t->n; i++)
		sum += sorted[i];
	*row = (struct gp_profile_row){
		.size = t->size,
		.n = t->n,
		.min = sorted[0],
		.p50 = percentile(sorted, t->n, 50),
		.p90 = percentile(sorted, t->n, 90),
		.p99 = percentile(sorted, t->n, 99),
		.max = sorted[t->n - 1],
		.mean = (sum + t->n / 2) / t->n,
	};
	memcpy(row->call, t->call, sizeof(row->call));
	free(sorted);
	return true;
}

/* Puts a row behind those of its call that are smaller, or at the end. */
static void row_insert(struct gp_profile_row *rows, size_t n, struct gp_profile_row row)
{
	size_t at = n;

	for (size_t i = 0; i < n; i++) {
		if (!strcmp(rows[i].call, row.call)) {
			at = i + 1;
			if (rows[i].size > row.size) {
				at = i;
				break;
			}
		}
	}
	memmove(&rows[at + 1], &rows[at], (n - at) * sizeof(*rows));
	rows[at] = row;
}

struct gp_profile_row *cal_rows(const struct cal *c, size_t *n)
{
	struct gp_profile_row *rows = calloc(c->n_times + 1, sizeof(*rows)), row;

	*n = 0;
	for (size_t i = 0; i < c->n_times && rows; i++) {
		if (!c->times[i].n)
			continue;
		if (!row_make(&c->times[i], &row)) {
			free(rows);
			return NULL;
		}
		row_insert(rows, (*n)++, row);
	}
	return rows;
}

void cal_times_fini(struct cal *c)
{
	for (size_t i = 0; i < c->n_times; i++)
		free(c->times[i].ns);
	free(c->times);
	c->times = NULL;
	c->n_times = c->cap_times = 0;
}
