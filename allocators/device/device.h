/* SPDX-License-Identifier: Apache-2.0
 *
 * device: where address space and memory come from. Two implementations of one interface:
 *
 *   sim   device_sim.c    no GPU: capacity, page granularity, a cost model, switchable defects
 *   cuda  device_cuda.c   the CUDA runtime; device_cuda.h alone includes CUDA's headers
 *
 * Callers use the gp_device_*() functions, never the hooks: they count, time and report.
 *
 * Results     0; GP_NOMEM where the device has no memory (or address space) left, which is an
 *             outcome and leaves nothing changed; -errno for a fault, with gp_device_error()
 *             naming it. No hook leaves a sticky error behind.
 * Streams     dense indices. Index 0 is the default stream; others exist from their first use.
 * Threads     every function may be called from several threads at once.
 */
#ifndef GP_DEVICE_H
#define GP_DEVICE_H

#include <stdatomic.h>
#include <stdio.h>

#include "../base.h"

struct gp_device;
struct gp_probe;   /* device_probe.h */
struct gp_profile; /* device_profile.h */

/* What is counted. The driver does the same whatever the size, so calls are what costs. */
enum gp_call {
	GP_CALL_RESERVE,     /* cudaMalloc                         */
	GP_CALL_RELEASE,     /* cudaFree                           */
	GP_CALL_ASYNC_ALLOC, /* cudaMallocFromPoolAsync            */
	GP_CALL_ASYNC_FREE,  /* cudaFreeAsync                      */
	GP_CALL_ASYNC_TRIM,  /* cudaMemPoolTrimTo                  */
	GP_CALL_VA_RESERVE,  /* cuMemAddressReserve                */
	GP_CALL_VA_RELEASE,  /* cuMemAddressFree                   */
	GP_CALL_CREATE,      /* cuMemCreate                        */
	GP_CALL_DESTROY,     /* cuMemRelease                       */
	GP_CALL_MAP,         /* cuMemMap and cuMemSetAccess        */
	GP_CALL_UNMAP,       /* cuMemUnmap                         */
	GP_CALL_EVENT_WAIT,  /* cudaEventRecord, cudaStreamWaitEvent */
	GP_CALL_SYNC,        /* cudaDeviceSynchronize              */
	GP_CALL_MEMSET,      /* verification only                  */
	GP_CALL_READ,        /* verification only                  */
	GP_CALL_FILL,        /* verification only: a kernel        */
	GP_CALL_VERIFY,      /* verification only: two kernels     */
	GP_CALL_BUSY,        /* GPU work: a kernel that takes time */
	GP_CALL_TOUCH,       /* GPU work: cudaMemsetAsync          */
	GP_CALL_N
};

const char *gp_call_name(enum gp_call call);

/* Outcomes of verification: the contents are others; it is not known yet. */
enum gp_verify_outcome { GP_DIFFERS = 16, GP_PENDING };

struct gp_device_info {
	char name[64];        /* "NVIDIA H200", "simulated NVIDIA H200" */
	char driver[32];      /* "13.0", or the profile's name on sim   */
	uint64_t total_bytes; /* memory of the card, or the simulated capacity */
	uint64_t page_bytes; /* granularity of mappings and of large reservations; a power of two */
	bool vmm;            /* va_reserve .. unmap work */
	bool async;          /* async_open .. async_counts work */
	bool async_ranges;   /* the observer hears of the memory of such pools */
	bool simulated;
};

/* Counters since the device was opened. */
struct gp_device_stats {
	uint64_t calls[GP_CALL_N]; /* that succeeded */
	uint64_t failures;         /* GP_NOMEM or a fault */
	uint64_t reserved_bytes;   /* memory held now, mapped or not: whole pages */
	uint64_t host_ticks;       /* time spent inside the hooks (gp_ticks()). On cuda it is the
	                            * driver's time; on sim the simulator's own, to be left out */
	uint64_t model_ns;         /* sim: what the calls would have cost; 0 on cuda */
	uint64_t stall_ns;         /* sim: of that, waiting for queued work; 0 on cuda */
	/* The same two of each kind of call, those that failed included. Asking for memory
	 * information is of no kind. */
	uint64_t call_ticks[GP_CALL_N];
	uint64_t call_model_ns[GP_CALL_N];
};

/* A pool of stream-ordered allocations. Memory freed on a stream may be taken on it at once. By
 * another stream it is taken where one of these allows it, or after a synchronisation. */
struct gp_async_config {
	/* A synchronisation gives back what is free above so many reserved bytes. */
	uint64_t threshold;
	bool follow_events; /* what was freed before an event that the other stream waited for */
	bool opportunistic; /* what a stream freed that is done with all its work              */
	bool internal;      /* anything, before memory runs out: the driver makes the taker wait */
};

struct gp_async_counts {
	uint64_t used, used_high;         /* bytes of blocks, as asked for */
	uint64_t reserved, reserved_high; /* held from the device          */
};

struct gp_async; /* a pool */

/* How many measurements of gp_device_lull can be open at once. */
#define GP_LULLS 64
/* Outcome of gp_device_lull. */
#define GP_WORKING 1

/* A range of device memory appears or goes. `joins`: it is usable as one piece with a neighbour
 * at adjoining addresses (pages mapped into one address range); two separate reservations never
 * are, even where their addresses touch. same: 0, or the address at which this very memory has been
 * mapped before, all of it: the range is one more way to it, and no more memory. Called under no
 * lock the callee could need. */
typedef void gp_device_observer(void *arg, bool added, struct gp_range range, bool joins,
				uint64_t same);

struct gp_device_ops {
	const char *name;
	void (*close)(struct gp_device *dev);
	/* Required. Size > 0. A reservation of more than half a page starts on a page. */
	int (*reserve)(struct gp_device *dev, uint64_t size, uint64_t *addr);
	int (*release)(struct gp_device *dev, uint64_t addr);
	int (*stream_wait)(struct gp_device *dev, uint32_t from, uint32_t to);
	int (*sync)(struct gp_device *dev);
	int (*mem_info)(struct gp_device *dev, uint64_t *free_bytes, uint64_t *total_bytes);
	int (*memset)(struct gp_device *dev, uint64_t addr, uint8_t value, uint64_t size);
	int (*read)(struct gp_device *dev, uint64_t addr, void *host, size_t size);
	/* Optional: a device without contents has none of the first three, one without streams none of
	 * the others. */
	int (*fill)(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
		    uint32_t stream);
	int (*verify_begin)(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
			    uint32_t stream, uint32_t *ticket);
	int (*verify_end)(struct gp_device *dev, uint32_t ticket, bool wait, uint64_t *bad_offset,
			  uint64_t *found);
	int (*busy)(struct gp_device *dev, uint32_t stream, uint64_t ns);
	int (*touch)(struct gp_device *dev, uint64_t addr, uint64_t size, uint32_t stream);
	int (*mark)(struct gp_device *dev, uint32_t stream);
	int (*lull)(struct gp_device *dev, unsigned slot);
	int (*lull_ns)(struct gp_device *dev, unsigned slot, uint64_t *ns);
	void (*elapse)(struct gp_device *dev, uint64_t ns); /* sim alone */
	int (*use_stream)(struct gp_device *dev, uint32_t index, void *handle);
	int (*probe)(struct gp_device *dev, struct gp_probe *p);
	/* Where info.async. */
	int (*async_open)(struct gp_device *dev, const struct gp_async_config *cfg,
			  struct gp_async **out);
	void (*async_close)(struct gp_device *dev, struct gp_async *pool);
	int (*async_alloc)(struct gp_device *dev, struct gp_async *pool, uint64_t size,
			   uint32_t stream, uint64_t *addr);
	int (*async_free)(struct gp_device *dev, struct gp_async *pool, uint64_t addr,
			  uint32_t stream);
	int (*async_retire)(struct gp_device *dev, struct gp_async *pool, uint64_t addr,
			    uint32_t stream, uint64_t *number);
	void (*async_settle)(struct gp_device *dev, struct gp_async *pool, uint64_t number);
	int (*async_trim)(struct gp_device *dev, struct gp_async *pool, uint64_t keep);
	int (*async_counts)(struct gp_device *dev, struct gp_async *pool,
			    struct gp_async_counts *out);
	/* Memory of such pools that reserved_bytes has nothing of; NULL: there is none. */
	uint64_t (*async_reserved)(struct gp_device *dev);
	/* Where info.vmm. Sizes and addresses are multiples of page_bytes. A handle is mapped whole,
	 * at as many places as one likes; the place it was mapped at first is the last one to be
	 * undone. unmap takes one mapping, or several that lie side by side, whole. Destroyed memory
	 * is held until its last mapping is gone. Neither map, unmap nor destroy waits for the device:
	 * whoever undoes a mapping has seen to it that nothing uses its addresses any more. */
	int (*va_reserve)(struct gp_device *dev, uint64_t size, uint64_t *addr);
	int (*va_release)(struct gp_device *dev, uint64_t addr, uint64_t size);
	int (*create)(struct gp_device *dev, uint64_t size, uint64_t *handle);
	int (*destroy)(struct gp_device *dev, uint64_t handle, uint64_t size);
	int (*map)(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t handle);
	int (*unmap)(struct gp_device *dev, uint64_t addr, uint64_t size);
};

/* Faults on purpose, for tests. Calls are counted from 1 since the device was opened; 0: none. */
struct gp_injection {
	uint64_t lost_call;   /* from this call on every one answers -ENODEV, as a lost card does */
	uint64_t sticky_call; /* ... -EIO, as after a kernel's illegal address                  */
	/* Counted over the calls that take memory: reserve, async_alloc, create and map. */
	uint64_t fail_call; /* this one fails with GP_NOMEM, once */
	uint64_t slow_call; /* this one takes slow_ns more        */
	uint64_t slow_ns;
	uint64_t lose_bytes; /* each release or destroy leaks this much of the capacity */
};

/* The part every implementation embeds as its first member. */
struct gp_device {
	const struct gp_device_ops *ops;
	struct gp_device_info info;
	_Atomic uint64_t calls[GP_CALL_N];
	_Atomic uint64_t failures;
	_Atomic uint64_t reserved_bytes;
	_Atomic uint64_t host_ticks;
	_Atomic uint64_t model_ns;
	_Atomic uint64_t stall_ns;
	_Atomic uint64_t call_ticks[GP_CALL_N];
	_Atomic uint64_t call_model_ns[GP_CALL_N];
	struct gp_injection inject;
	bool injects;                      /* something that calls must look at */
	_Atomic uint64_t n_calls, n_takes; /* so far, where something is injected */
	_Atomic bool broken;
	gp_device_observer *observer;
	void *observer_arg;
	char error[160]; /* last fault; "" when none */
};

/* How to open a device. */
struct gp_device_config {
	/* Bytes. sim: size of the card; cuda: refuse to hold more. 0: all of it. */
	uint64_t capacity;
	/* sim: the cost model, which stays the caller's until the device is closed; NULL: the built-in
	 * one, of an H200 */
	const struct gp_profile *profile;
	/* sim: where a real driver put the first reservations of whole pages, in this order; until one is
	 * released, the next of a size gets the next of these places of that size. NULL: none. */
	const struct gp_range *places;
	size_t n_places;
	struct gp_injection inject;
};

/* Opens a device, which the caller closes. 0, or -errno with one line in `why`; *out is written
 * only on 0. cfg is copied, and the places are read here.
 * gp_device_open_cuda: -ENODEV no driver or no GPU; -ENOSYS built without CUDA. */
int gp_device_open_sim(const struct gp_device_config *cfg, struct gp_device **out, char *why,
		       size_t why_size);
int gp_device_open_cuda(const struct gp_device_config *cfg, struct gp_device **out, char *why,
			size_t why_size);
/* NULL is fine. Everything reserved must have been released. */
struct gp_device *gp_device_close(struct gp_device *dev);

int gp_device_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr);
int gp_device_release(struct gp_device *dev, uint64_t addr);
int gp_device_va_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr);
int gp_device_va_release(struct gp_device *dev, uint64_t addr, uint64_t size);
int gp_device_create(struct gp_device *dev, uint64_t size, uint64_t *handle);
int gp_device_destroy(struct gp_device *dev, uint64_t handle, uint64_t size);
int gp_device_map(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t handle);
int gp_device_unmap(struct gp_device *dev, uint64_t addr, uint64_t size);
/* Records an event on `from` and makes `to` wait for it: work queued on `to` from now on runs
 * after everything now queued on `from`. */
int gp_device_stream_wait(struct gp_device *dev, uint32_t from, uint32_t to);
/* For a program that brings its own streams: `handle` (a cudaStream_t, which stays the program's)
 * is from now on the stream of this index. To be called before anything uses the index: -EBUSY
 * after that. -ENOTSUP on sim. */
int gp_device_use_stream(struct gp_device *dev, uint32_t index, void *handle);
int gp_device_sync(struct gp_device *dev);
int gp_device_mem_info(struct gp_device *dev, uint64_t *free_bytes, uint64_t *total_bytes);
int gp_device_memset(struct gp_device *dev, uint64_t addr, uint8_t value, uint64_t size);
int gp_device_read(struct gp_device *dev, uint64_t addr, void *host, size_t size);

/* Contents, in the order of one stream and of no other: what is queued on the stream before is done
 * first, what other streams do is not waited for.
 *
 * Writes `word` over the range again and again; the byte at address x is that of the word at x % 8,
 * lowest first. addr is a multiple of 8; of an end that is not, the word's first bytes are written.
 * Does not wait. */
int gp_device_fill(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
		   uint32_t stream);
/* Compares the range with what fill would write, without waiting, and gives a ticket for the result.
 * GP_REFUSED: too many comparisons are under way (thousands); one must be ended first. */
int gp_device_verify_begin(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
			   uint32_t stream, uint32_t *ticket);
/* The result of a comparison: 0 where all was equal; GP_DIFFERS with the offset of the first byte
 * that was not, and in *found the eight bytes at the multiple of 8 there (those behind the range as
 * they should be). With `wait` it waits for the stream of the comparison, not for the device;
 * without, it may be GP_PENDING, and nothing else leaves the ticket valid. Not counted as a call. */
int gp_device_verify_end(struct gp_device *dev, uint32_t ticket, bool wait, uint64_t *bad_offset,
			 uint64_t *found);
/* Both, with waiting. */
int gp_device_verify(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
		     uint32_t stream, uint64_t *bad_offset, uint64_t *found);
/* Keeps the stream at work for `ns` nanoseconds after what is queued on it. Does not wait. */
int gp_device_busy(struct gp_device *dev, uint32_t stream, uint64_t ns);
/* Writes zeros to every byte of the range, in the order of the stream, as a program that uses its
 * block would. Does not wait. */
int gp_device_touch(struct gp_device *dev, uint64_t addr, uint64_t size, uint32_t stream);

/* How long the device has had nothing to do, by its own clock. These ask and change nothing: they
 * are not counted, and what they cost the host is in no counter.
 * mark: what is queued on the stream now is work whose end is of interest; one mark a stream.
 * lull: has all work that was marked ended? Then remembers under `slot` (below GP_LULLS) when the
 *       last of it did and that it is now, and forgets the marks. GP_WORKING: not yet; nothing
 *       changed. Some work must have been marked.
 * lull_ns: the time between these two, once for each slot, preferably much later: asking at once
 *       waits for the clock. On cuda it is too long by what a command takes to an idle stream, a
 *       few microseconds. */
int gp_device_mark(struct gp_device *dev, uint32_t stream);
int gp_device_lull(struct gp_device *dev, unsigned slot);
int gp_device_lull_ns(struct gp_device *dev, unsigned slot, uint64_t *ns);
/* sim: the program was at something else for so long, while the device went on with what is
 * queued. On cuda time passes by itself. */
void gp_device_elapse(struct gp_device *dev, uint64_t ns);

/* Stream-ordered pools, several at once. Opening, closing, settling and asking for counts are no calls
 * of a kind. close: every block must have been freed; gives all memory back, and waits for nothing.
 *
 * retire: the program is done with a block that streams nobody names may still use. It is freed on a
 * helper stream of the pool, which waits for what is queued on `stream` and until the use with this
 * number, and all before it, is said to be over: numbers rise by one from 1. settle says so, up to
 * the number. A synchronisation of the device settles all.
 * trim: gives back free memory of which a synchronisation has shown that nobody uses it any more, as
 * long as `keep` bytes stay reserved. */
int gp_device_async_open(struct gp_device *dev, const struct gp_async_config *cfg,
			 struct gp_async **out);
void gp_device_async_close(struct gp_device *dev, struct gp_async *pool);
int gp_device_async_alloc(struct gp_device *dev, struct gp_async *pool, uint64_t size,
			  uint32_t stream, uint64_t *addr);
int gp_device_async_free(struct gp_device *dev, struct gp_async *pool, uint64_t addr,
			 uint32_t stream);
int gp_device_async_retire(struct gp_device *dev, struct gp_async *pool, uint64_t addr,
			   uint32_t stream, uint64_t *number);
void gp_device_async_settle(struct gp_device *dev, struct gp_async *pool, uint64_t number);
int gp_device_async_trim(struct gp_device *dev, struct gp_async *pool, uint64_t keep);
int gp_device_async_counts(struct gp_device *dev, struct gp_async *pool,
			   struct gp_async_counts *out);

/* Bytes held now. Where only the driver knows what its pools hold, this asks it. */
uint64_t gp_device_reserved(struct gp_device *dev);
void gp_device_stats(struct gp_device *dev, struct gp_device_stats *out);
const char *gp_device_error(const struct gp_device *dev);
/* Has a call failed in a way that is the device's own doing (-EIO, -ENODEV)? What such a device
 * still holds is nobody's leak. */
bool gp_device_broken(const struct gp_device *dev);
/* One observer at a time; NULL ends it. Ranges already held are not reported. */
void gp_device_observe(struct gp_device *dev, gp_device_observer *fn, void *arg);

/* For implementations. */
void gp_device_init(struct gp_device *dev, const struct gp_device_ops *ops);
/* Calls are counted from here. A call that gives memory back reaches the device in any case, only
 * its answer is changed: what is merely said to be lost is not to be lost for good. */
void gp_device_inject(struct gp_device *dev, const struct gp_injection *inject);
/* sim: what the call at hand, on this thread, would cost (more). */
void gp_device_charge(struct gp_device *dev, uint64_t ns);
/* A reservation came or went: keeps reserved_bytes and tells the observer. */
void gp_device_range_added(struct gp_device *dev, struct gp_range range, bool joins);
void gp_device_range_gone(struct gp_device *dev, struct gp_range range, bool joins);
/* The same of virtual memory, apart: it is reserved from create to destroy, mapped or not. */
void gp_device_hold(struct gp_device *dev, uint64_t bytes);
void gp_device_unhold(struct gp_device *dev, uint64_t bytes);
void gp_device_mapped(struct gp_device *dev, bool added, struct gp_range range, uint64_t same);
/* Records a fault's text; returns err. */
int gp_device_fault(struct gp_device *dev, int err, const char *fmt, ...) GP_PRINTF(3, 4);

#endif
