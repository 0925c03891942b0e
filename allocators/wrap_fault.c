/* SPDX-License-Identifier: Apache-2.0
 *
 * fault: refuses requests on purpose, to see what a caller or a decorator above does then. The
 * inner allocator does not hear of a refused request.
 *
 * Failing driver calls are another matter and not done here: the device has switches for them
 * (gp_device_config.inject).
 *
 * Threads   adds nothing but an atomic counter: as safe as what it wraps, which the core makes
 *           safe when env.threads > 1
 */
#include "allocator.h"

#include <errno.h>
#include <stdatomic.h>

enum fault_result {
	FAULT_NOMEM,
	FAULT_REFUSED,
	FAULT_HELD,
	FAULT_ERROR,
};

static const char *const fault_results[] = { "nomem", "refused", "held", "error", NULL };

struct fault {
	/* Options. */
	uint64_t nth;    /* 0: none in particular */
	uint64_t every;  /* 0: no period          */
	unsigned result; /* enum fault_result     */

	_Atomic uint64_t requests;
};

static void fault_fini(struct gp_allocator *a)
{
	(void)a;
}

static const int fault_codes[] = {
	[FAULT_NOMEM] = GP_NOMEM,
	[FAULT_REFUSED] = GP_REFUSED,
	[FAULT_HELD] = GP_HELD,
	[FAULT_ERROR] = -EIO,
};

static int fault_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct fault *f = gp_state(a);
	uint64_t n = atomic_fetch_add_explicit(&f->requests, 1, memory_order_relaxed) + 1;

	if (n == f->nth || (f->every && n % f->every == 0))
		return fault_codes[f->result];
	return a->inner->ops->alloc(a->inner, req, out);
}

static int fault_free(struct gp_allocator *a, uint64_t addr)
{
	return a->inner->ops->free(a->inner, addr);
}

static int fault_defer(struct gp_allocator *a, uint64_t addr, uint32_t ticket)
{
	return a->inner->ops->defer(a->inner, addr, ticket);
}

static int fault_complete(struct gp_allocator *a, uint64_t addr, uint32_t ticket)
{
	return a->inner->ops->complete(a->inner, addr, ticket);
}

/* From the inner allocator to whoever is told. */
static void fault_completed(void *arg, uint64_t addr, uint32_t ticket)
{
	const struct gp_allocator *a = arg;

	if (a->completed)
		a->completed(a->completed_arg, addr, ticket);
}

static void fault_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	gp_usage(a->inner, out);
}

static int fault_check(const struct gp_allocator *a, FILE *why)
{
	return gp_check(a->inner, why);
}

static int fault_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	return gp_trim(a->inner, keep, released);
}

static int fault_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	return gp_walk(a->inner, fn, arg);
}

/* The words are set here, before any thread can read them. */
static int fault_init(struct gp_allocator *a)
{
	const struct fault *f = gp_state(a);

	a->inner->completed = fault_completed;
	a->inner->completed_arg = a;
	if (f->result == FAULT_ERROR)
		gp_allocator_why(a, -EIO, "fault: this request was to fail");
	return 0;
}

static const struct gp_option fault_options[] = {
	{ .name = "nth",
	  .help = "refuse this request, counted from 1 (0: none)",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct fault, nth),
	  .default_text = "0",
	  .max = UINT64_MAX },
	{ .name = "every",
	  .help = "refuse each request whose number is a multiple (0: none)",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct fault, every),
	  .default_text = "0",
	  .max = UINT64_MAX },
	{ .name = "result",
	  .help = "what a refused request is told",
	  .type = GP_OPTION_CHOICE,
	  .offset = offsetof(struct fault, result),
	  .default_text = "nomem",
	  .choices = fault_results },
	{ 0 },
};

const struct gp_allocator_ops gp_fault_ops = {
	.name = "fault",
	.summary = "refuses the n-th request, or every n-th, on purpose",
	.caps = GP_CAP_DECORATOR | GP_CAP_CONCURRENT,
	.state_size = sizeof(struct fault),
	.options = fault_options,
	.init = fault_init,
	.fini = fault_fini,
	.alloc = fault_alloc,
	.free = fault_free,
	.usage = fault_usage,
	.check = fault_check,
	.trim = fault_trim,
	.walk = fault_walk,
	.defer = fault_defer,
	.complete = fault_complete,
};
