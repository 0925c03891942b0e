/* SPDX-License-Identifier: Apache-2.0
 *
 * `check` and the contents of blocks, on the simulated device and on a GPU: over an allocator that
 * gives out what it is told to, so that blocks share memory in every way that there is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "both_devices.h"

#include <errno.h>
#include <string.h>

#include "allocators/allocator.h"

/* Takes the place of a sound allocator's ops: the n-th block is at the n-th address. */
static struct {
	uint64_t at[4];
	size_t n_given;
	struct gp_usage usage;
	uint64_t granted[4];
} script;

static int script_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	size_t i = script.n_given++;

	(void)a;
	script.granted[i] = gp_align_up(req->size, 512);
	*out = (struct gp_block){ script.at[i], script.granted[i] };
	script.usage.live_blocks++;
	script.usage.granted_bytes += script.granted[i];
	return 0;
}

static int script_free(struct gp_allocator *a, uint64_t addr)
{
	size_t i = 0;

	(void)a;
	while (script.at[i] != addr)
		i++;
	script.usage.live_blocks--;
	script.usage.granted_bytes -= script.granted[i];
	return 0;
}

static void script_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	(void)a;
	*out = script.usage;
}

static const struct gp_allocator_ops *honest;
static struct gp_allocator_ops scripted;

static struct gp_allocator *check_open(struct gp_device *dev, const char *wrap)
{
	struct gp_allocator *a = NULL;
	char why[200] = "";

	memset(&script, 0, sizeof(script));
	if (gp_allocator_create("raw", dev, NULL, &a, why, sizeof(why)) ||
	    gp_allocator_wrap(wrap, a, &a, why, sizeof(why)))
		fail_msg("%s", why);
	honest = a->inner->ops;
	scripted = *honest;
	scripted.alloc = script_alloc;
	scripted.free = script_free;
	scripted.usage = script_usage;
	a->inner->ops = &scripted;
	script.usage.reserved_bytes = GP_GIB;
	return a;
}

static void check_close(struct gp_allocator *a)
{
	script.usage.reserved_bytes = 0;
	a->inner->ops = honest;
	gp_allocator_destroy(a);
}

static int ask(struct gp_allocator *a, uint64_t size, uint32_t stream)
{
	struct gp_request req = { .size = size, .stream = stream };
	struct gp_block block;

	return gp_alloc(a, &req, &block);
}

/* gp_check tells of the first violation, now or earlier, in words like these. */
static void caught(struct gp_allocator *a, const char *owner, const char *what)
{
	char text[400] = "";
	FILE *why = fmemopen(text, sizeof(text), "w");
	int r = gp_check(a, why);

	fclose(why);
	if (r != -EILSEQ || !strstr(text, owner) || !strstr(text, what))
		fail_msg("%d: \"%s\"; expected \"%s\" and \"%s\"", r, text, owner, what);
}

static void nothing_caught(struct gp_allocator *a)
{
	assert_int_equal(gp_check(a, stderr), 0);
}

static void check_sees_two_blocks_in_one_place(void **state)
{
	struct gp_device *dev = open_device();
	struct gp_allocator *a = check_open(dev, "check");
	uint64_t addr = reserve(dev, 4 * GP_MIB);

	(void)state;
	script.at[0] = addr;
	script.at[1] = addr + 256;
	assert_int_equal(ask(a, 5000, 3), 0);
	nothing_caught(a);
	assert_int_equal(ask(a, 6000, 0), -EILSEQ);
	caught(a, "of 6144 bytes over the live block of request 1 (", ", 5000 bytes, stream 3)");
	check_close(a);
	good(dev, gp_device_release(dev, addr));
	gp_device_close(dev);
}

/* Two blocks at different addresses that are the same page: nobody sees it but by the contents. */
struct twice {
	uint64_t va, page, handle;
};

static bool map_twice(struct gp_device *dev, struct twice *t)
{
	if (!dev->info.vmm)
		return false;
	t->page = dev->info.page_bytes;
	good(dev, gp_device_va_reserve(dev, 2 * t->page, &t->va));
	good(dev, gp_device_create(dev, t->page, &t->handle));
	good(dev, gp_device_map(dev, t->va, t->page, t->handle));
	good(dev, gp_device_map(dev, t->va + t->page, t->page, t->handle));
	script.at[0] = t->va + 4096;
	script.at[1] = t->va + t->page + 8192;
	return true;
}

static void unmap_twice(struct gp_device *dev, const struct twice *t)
{
	good(dev, gp_device_sync(dev));
	good(dev, gp_device_unmap(dev, t->va + t->page, t->page));
	good(dev, gp_device_unmap(dev, t->va, t->page)); /* last: device.h */
	good(dev, gp_device_destroy(dev, t->handle, t->page));
	good(dev, gp_device_va_release(dev, t->va, 2 * t->page));
}

static void check_sees_one_page_at_two_addresses(void **state)
{
	struct gp_device *dev = open_device();
	struct gp_allocator *a = check_open(dev, "check");
	struct twice t;

	(void)state;
	if (map_twice(dev, &t)) {
		assert_int_equal(ask(a, 100000, 0), 0);
		assert_int_equal(ask(a, 50000, 0), 0);
		/* The second owner is right, and leaves; its words are still there. */
		assert_true(gp_free(a, script.at[1]) >= 0);
		(void)gp_free(a, script.at[0]);
		caught(a, "request 1 (", "byte 4096 is the pattern of request 2 (");
		caught(a, ", 100000 bytes, stream 0)", ", 50000 bytes, stream 0, freed)");
		check_close(a);
		unmap_twice(dev, &t);
	} else {
		check_close(a);
	}
	gp_device_close(dev);
}

/* The same without a free: what is live is looked at by gp_check. */
static void check_looks_at_live_blocks(void **state)
{
	struct gp_device *dev = open_device();
	struct gp_allocator *a = check_open(dev, "check");
	struct twice t;

	(void)state;
	if (map_twice(dev, &t)) {
		assert_int_equal(ask(a, 100000, 0), 0);
		nothing_caught(a);
		assert_int_equal(ask(a, 50000, 0), 0);
		caught(a, "request 1 (", "is the pattern of request 2 (");
		check_close(a);
		unmap_twice(dev, &t);
	} else {
		check_close(a);
	}
	gp_device_close(dev);
}

/* One block of 1 000 bytes, of which 1 024 are granted; somebody writes to it; it is freed. */
static void write_and_free(const char *wrap, uint64_t offset, uint64_t size, const char *what)
{
	struct gp_device *dev = open_device();
	struct gp_allocator *a = check_open(dev, wrap);
	uint64_t addr = reserve(dev, 4096);

	script.at[0] = addr;
	assert_int_equal(ask(a, 1000, 0), 0);
	good(dev, gp_device_memset(dev, addr + offset, 0x5A, size));
	(void)gp_free(a, addr);
	if (what)
		caught(a, "request 1 (", what);
	else
		nothing_caught(a);
	check_close(a);
	good(dev, gp_device_release(dev, addr));
	gp_device_close(dev);
}

static void check_sees_writes_by_others(void **state)
{
	static const char *const none = "no block's pattern";

	(void)state;
	write_and_free("check", 0, 1, ": byte 0 is ");
	write_and_free("check", 500, 24, none);
	write_and_free("check", 999, 1, ": byte 999 is ");
	write_and_free("check", 1000, 1, ": byte 1000, in the guard, is ");
	write_and_free("check", 1016, 8, "in the guard, is 0x5a5a5a5a5a5a5a5a, no block's pattern");
	write_and_free("check", 1024, 512, NULL); /* behind what was granted: not this block's */
	write_and_free("check:contents=false", 0, 1024, NULL);
}

static void check_sees_what_is_not_device_memory(void **state)
{
	struct gp_device *dev = open_device();
	struct gp_allocator *a = check_open(dev, "check");

	(void)state;
	script.at[0] = 4096;
	assert_int_equal(ask(a, 1000, 0), -EILSEQ);
	caught(a, "request 1 (0x1000, 1000 bytes", "is not all device memory");
	check_close(a);
	gp_device_close(dev);
}

/* A block goes to another stream though its own is still at work. On the simulated device nothing
 * is ever late. */
static void check_sees_a_missing_wait(void **state)
{
	const uint64_t work = 200000000;
	struct gp_device *dev = open_device();
	struct gp_allocator *a = check_open(dev, "check");
	uint64_t addr = reserve(dev, 4 * GP_MIB), t0;

	(void)state;
	script.at[0] = addr;
	script.at[1] = addr;
	script.at[2] = addr;
	assert_int_equal(ask(a, GP_MIB, 1), 0); /* the kernels are loaded */
	(void)gp_free(a, addr);
	nothing_caught(a);
	assert_int_equal(ask(a, GP_MIB, 1), 0);
	t0 = now_ns();
	good(dev, gp_device_busy(dev, 1, work));
	(void)gp_free(a, addr);
	assert_true(ask(a, GP_MIB, 2) <= 0);
	/* Where the host was held up for that long, there was nothing to see. */
	if (on_cuda && now_ns() - t0 < work)
		caught(a, "request 2 (", "is the pattern of request 3 (");
	check_close(a);
	good(dev, gp_device_sync(dev));
	good(dev, gp_device_release(dev, addr));
	gp_device_close(dev);
}

/* More blocks than comparisons can be under way, and owners that are long forgotten. */
static void check_goes_on_for_long(void **state)
{
	struct gp_device *dev = open_device();
	struct gp_allocator *a = check_open(dev, "check");
	uint64_t addr = reserve(dev, 4 * GP_MIB);

	(void)state;
	script.at[0] = addr;
	good(dev, gp_device_busy(dev, 1, 20000000));
	for (unsigned i = 0; i < 5000; i++) {
		script.n_given = 0;
		assert_int_equal(ask(a, 1000, 1), 0);
		assert_int_equal(gp_free(a, addr), 0);
	}
	nothing_caught(a);
	script.n_given = 0;
	script.at[0] = addr + 8192;
	assert_int_equal(ask(a, 1000, 1), 0);
	good(dev, gp_device_sync(dev));
	good(dev, gp_device_memset(dev, addr + 8192, 0, 8));
	caught(a, "request 5001 (", "byte 0 is 0x0000000000000000");
	check_close(a);
	good(dev, gp_device_release(dev, addr));
	gp_device_close(dev);
}

/* The driver's pool frees a deferred block at once, on a stream of its own: it is compared before that,
 * and never after. */
static void check_is_done_with_what_the_driver_took(void **state)
{
	struct gp_device *dev = open_device();
	struct gp_request req = { .size = 5000 };
	struct gp_allocator *a = NULL;
	struct gp_block block;
	char why[200] = "";

	(void)state;
	if (dev->info.async) {
		if (gp_allocator_create("async:deferred=helper", dev, NULL, &a, why, sizeof(why)) ||
		    gp_allocator_wrap("check", a, &a, why, sizeof(why)))
			fail_msg("%s", why);
		assert_int_equal(gp_alloc(a, &req, &block), 0);
		assert_int_equal(gp_defer(a, block.addr, 1), 0);
		/* On a GPU nobody can write there any more. */
		if (!on_cuda)
			good(dev, gp_device_fill(dev, block.addr, 64, 7, 0));
		nothing_caught(a);
		assert_int_equal(gp_complete(a, block.addr, 1), 0);
		nothing_caught(a);
		assert_int_equal(gp_alloc(a, &req, &block), 0);
		good(dev, gp_device_fill(dev, block.addr, 64, 7, 0));
		(void)gp_defer(a, block.addr, 2);
		caught(a, "request 2 (", "byte 0 is ");
		(void)gp_complete(a, block.addr, 2);
		gp_allocator_destroy(a);
	}
	gp_device_close(dev);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_sees_two_blocks_in_one_place),
		cmocka_unit_test(check_sees_one_page_at_two_addresses),
		cmocka_unit_test(check_looks_at_live_blocks),
		cmocka_unit_test(check_sees_writes_by_others),
		cmocka_unit_test(check_sees_what_is_not_device_memory),
		cmocka_unit_test(check_sees_a_missing_wait),
		cmocka_unit_test(check_goes_on_for_long),
		cmocka_unit_test(check_is_done_with_what_the_driver_took),
	};

	return both_main(argc, argv, tests, GP_ARRAY_LEN(tests));
}
