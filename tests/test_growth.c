/* SPDX-License-Identifier: Apache-2.0
 *
 * Every pool in every way of growing, and `stitch`, on the simulated device and on a GPU: random
 * blocks on three streams below `check`, which writes and compares them all; what is asked of the
 * device; and that everything goes back. Takes less than 2 GiB of the card and some seconds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "both_devices.h"
#include "support.h"

#include <inttypes.h>

#define MIB     GP_MIB
#define BLOCKS  24
#define INITIAL (1536 * MIB)
#define LARGEST (48 * MIB)

static void audit(struct gp_allocator *a, const char *spec)
{
	char text[200] = "";
	FILE *why = fmemopen(text, sizeof(text), "w");
	int r = gp_check(a, why);

	fclose(why);
	if (r)
		fail_msg("%s: %s", spec, text);
}

static void release(struct gp_allocator *a, const char *spec, uint64_t *addr)
{
	int r = gp_free(a, *addr);

	if (r)
		fail_msg("%s: free: %d: %s", spec, r, a->why);
	*addr = 0;
}

/* Comes, goes, and comes again after a trim. */
static void churn(struct gp_allocator *a, const char *spec, unsigned steps)
{
	uint64_t seed = 17, at[BLOCKS] = { 0 };

	for (unsigned i = 0; i < steps; i++) {
		struct gp_request req = { .size = test_log_uniform(&seed, 256, LARGEST),
					  .stream = (uint32_t)test_below(&seed, 3) };
		uint64_t *slot = &at[test_below(&seed, BLOCKS)];
		struct gp_block block;
		int r;

		if (*slot)
			release(a, spec, slot);
		r = gp_alloc(a, &req, &block);
		if (r < 0)
			fail_msg("%s: %" PRIu64 " bytes: %d: %s", spec, req.size, r, a->why);
		if (!r)
			*slot = block.addr;
		if (i == steps / 2 && gp_trim(a, 0, NULL))
			fail_msg("%s: trim: %s", spec, a->why);
	}
	audit(a, spec);
	for (unsigned i = 0; i < BLOCKS; i++)
		if (at[i])
			release(a, spec, &at[i]);
	assert_int_equal(gp_trim(a, 0, NULL), 0);
	audit(a, spec);
}

static struct gp_allocator *open_checked(const char *spec, struct gp_device *dev)
{
	const struct gp_env env = { .streams = 3, .typical_size = MIB, .typical_live = BLOCKS };
	struct gp_allocator *a = NULL;
	char why[200] = "";

	if (gp_allocator_create(spec, dev, &env, &a, why, sizeof(why)) ||
	    gp_allocator_wrap("check", a, &a, why, sizeof(why)))
		fail_msg("%s: %s", spec, why);
	return a;
}

/* By which calls the memory came. */
static void expect_calls(const struct gp_device_stats *s, const char *spec, const char *grow)
{
	uint64_t reserves = s->calls[GP_CALL_RESERVE], creates = s->calls[GP_CALL_CREATE];
	bool right = !strcmp(grow, "vmm") ? creates && s->calls[GP_CALL_MAP] >= creates && !reserves
		     : !strcmp(grow, "chunk") ? reserves && !creates
					      : reserves == 1 && !creates;

	if (!right)
		fail_msg("%s: %" PRIu64 " reservations, %" PRIu64 " handles", spec, reserves,
			 creates);
}

static void grows(const struct gp_allocator_ops *ops, const char *grow)
{
	struct gp_device *dev = open_device();
	struct gp_device_stats stats;
	struct gp_allocator *a;
	struct gp_usage usage;
	char spec[80];

	/* All blocks of `fixed` are of the largest size, if they are to be its own. */
	snprintf(spec, sizeof(spec), "%s:grow=%s,initial=%llu%s", ops->name, grow,
		 (unsigned long long)INITIAL,
		 strcmp(ops->name, "fixed") ? "" : ",block=48M,count=4,when_empty=grow");
	a = open_checked(spec, dev);
	churn(a, spec, 250);
	gp_usage(a, &usage);
	gp_device_stats(dev, &stats);
	assert_int_equal(usage.reserved_bytes, stats.reserved_bytes);
	if (ops->caps & GP_CAP_COALESCES && strcmp(grow, "prealloc"))
		assert_int_equal(stats.reserved_bytes, 0);
	expect_calls(&stats, spec, grow);
	gp_allocator_destroy(a);
	gp_device_stats(dev, &stats);
	assert_int_equal(stats.reserved_bytes, 0);
	assert_int_equal(stats.failures, 0);
	gp_device_close(dev);
}

static void pools_grow_in_every_way(void **state)
{
	static const char *const ways[] = { "vmm", "chunk", "prealloc" };

	(void)state;
	for (size_t i = 0; i < gp_allocator_count(); i++)
		for (size_t k = 0; k < GP_ARRAY_LEN(ways); k++)
			if (gp_allocator_at(i)->caps & GP_CAP_GROWS)
				grows(gp_allocator_at(i), ways[k]);
}

/* With nothing to spare, many blocks are views, and views are undone to make others. */
static void stitched_blocks_keep_their_contents(void **state)
{
	static const char spec[] = "stitch:slack=0,slack_min=0,large=1M,handle=16M,views=6";
	struct gp_device *dev = open_device();
	struct gp_device_stats stats;
	struct gp_allocator *a;

	(void)state;
	if (!dev->info.vmm) {
		gp_device_close(dev);
		print_message("# this device maps no memory\n");
		return;
	}
	a = open_checked(spec, dev);
	churn(a, spec, 600);
	gp_device_stats(dev, &stats);
	print_message("# %" PRIu64 " handles, mapped %" PRIu64 " times, %" PRIu64
		      " views undone, %" PRIu64 " waits for the device\n",
		      stats.calls[GP_CALL_CREATE], stats.calls[GP_CALL_MAP],
		      stats.calls[GP_CALL_UNMAP], stats.calls[GP_CALL_SYNC]);
	assert_int_equal(stats.reserved_bytes, 0);
	assert_true(stats.calls[GP_CALL_MAP] > stats.calls[GP_CALL_CREATE]);
	gp_allocator_destroy(a);
	gp_device_close(dev);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pools_grow_in_every_way),
		cmocka_unit_test(stitched_blocks_keep_their_contents),
	};

	return both_main(argc, argv, tests, GP_ARRAY_LEN(tests));
}
