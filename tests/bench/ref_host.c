/* SPDX-License-Identifier: Apache-2.0
 *
 * libc, mimalloc, jemalloc: allocators of host memory behind this project's interface, for
 * comparison. They hand out memory of the host, so sizes are divided by 1024; nobody touches the
 * blocks, but they keep their own words in and between them, which no allocator of device memory can.
 *
 * mimalloc and jemalloc are looked for when the program runs. Their thread-local data may need
 * more room than a program leaves for libraries that come late: GLIBC_TUNABLES in meson.build.
 */
#include "allocators/allocator.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#define LG_SCALE 10

struct host {
	void *library;
	void *(*alloc)(size_t size);
	void (*free)(void *p);
};

static int host_find(struct gp_allocator *a, const char *library, const char *alloc,
		     const char *free_name)
{
	struct host *h = gp_state(a);

	h->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!h->library)
		return gp_allocator_why(a, -ENOENT, "%s", dlerror());
	/* ISO C has no conversion from an object's pointer to a function's; POSIX promises it. */
	*(void **)&h->alloc = dlsym(h->library, alloc);
	*(void **)&h->free = dlsym(h->library, free_name);
	if (h->alloc && h->free)
		return 0;
	dlclose(h->library);
	return gp_allocator_why(a, -ENOENT, "%s has no %s", library, alloc);
}

static int libc_init(struct gp_allocator *a)
{
	struct host *h = gp_state(a);

	h->alloc = malloc;
	h->free = free;
	return 0;
}

static int mimalloc_init(struct gp_allocator *a)
{
	return host_find(a, "libmimalloc.so.2", "mi_malloc", "mi_free");
}

static int jemalloc_init(struct gp_allocator *a)
{
	return host_find(a, "libjemalloc.so.2", "malloc", "free");
}

/* The library stays: its threads and thread-local data do. */
static void host_fini(struct gp_allocator *a)
{
	(void)a;
}

static int host_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	const struct host *h = gp_state(a);
	void *p = h->alloc((req->size + (1 << LG_SCALE) - 1) >> LG_SCALE);

	if (GP_UNLIKELY(!p))
		return GP_NOMEM;
	out->addr = (uintptr_t)p;
	out->granted = req->size;
	return 0;
}

static int host_free(struct gp_allocator *a, uint64_t addr)
{
	((const struct host *)gp_state(a))->free((void *)(uintptr_t)addr);
	return 0;
}

static void host_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	(void)a;
	*out = (struct gp_usage){ 0 };
}

#define HOST(name_, summary_)                                                                      \
	const struct gp_allocator_ops gp_##name_##_ops = {                                         \
		.name = #name_,                                                                    \
		.summary = summary_ ", sizes / 1024; no device",                                   \
		.caps = GP_CAP_CONCURRENT,                                                         \
		.state_size = sizeof(struct host),                                                 \
		.init = name_##_init,                                                              \
		.fini = host_fini,                                                                 \
		.alloc = host_alloc,                                                               \
		.free = host_free,                                                                 \
		.usage = host_usage,                                                               \
	}

HOST(libc, "malloc of the C library");
HOST(mimalloc, "mi_malloc, by D. Leijen");
HOST(jemalloc, "jemalloc's malloc, by J. Evans");
