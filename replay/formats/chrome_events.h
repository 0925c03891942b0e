/* SPDX-License-Identifier: Apache-2.0
 *
 * chrome_events: the memory events of a trace in Chrome's format (an object with "traceEvents", or
 * the array alone), as PyTorch's profiler (Kineto) and TensorFlow's write it. All else in the file
 * is passed over without being kept.
 *
 *   {"name":"[memory]","ts":12.5,"pid":1,"tid":2,"args":{"Bytes":512,"Addr":4096,"Device Type":1,
 *    "Device Id":0,"Total Allocated":512,"Ev Idx":7}}                         Kineto
 *   {"name":"MemoryAllocation","ts":10.5,"args":{"allocator_name":"GPU_0_bfc","addr":"139900",
 *    "requested_bytes":"1000","allocation_bytes":"1024"}}                      TensorFlow
 *
 * Shape       an event is judged at its end, because its keys come in any order; but as soon as a
 *             name says that it is of another kind, the rest of it is left behind unread.
 * Memory      80 bytes a memory event, and the input's window.
 * Threads     caller serialises.
 */
#ifndef GP_CHROME_EVENTS_H
#define GP_CHROME_EVENTS_H

#include "format.h"

#define GP_CHROME_HOST 0u /* device type of the CPU; 1 is CUDA, others are other accelerators */

struct gp_chrome_event {
	int64_t t_ns;
	uint64_t order; /* the profiler's own number of it; 0: none */
	uint64_t addr;
	uint64_t size;
	uint64_t total; /* bytes allocated after it, as the profiler says */
	uint64_t thread;
	uint64_t line;
	uint64_t place; /* in the file: counts all events */
	uint32_t owner;
	uint8_t op; /* enum gp_op: ALLOC, FREE, OOM */
	bool has_total;
	bool done; /* for who replays them */
};

/* Whose memory: one device of one process. */
struct gp_chrome_owner {
	uint64_t process;
	uint32_t type;
	int64_t device; /* -1 for the host */
	uint64_t n_events;
};

struct gp_chrome_device {
	uint64_t id, total_bytes;
	char name[64];
};

struct gp_chrome {
	struct gp_chrome_event *events; /* as the file has them */
	size_t n_events, capacity;
	struct gp_chrome_owner owners[64];
	uint32_t n_owners;
	struct gp_chrome_device devices[32]; /* that the file describes */
	uint32_t n_devices;
	uint64_t n_all;  /* events of any kind */
	uint64_t n_zero; /* memory events of 0 bytes, left out */
	uint64_t line;   /* of the first event */
	bool from_tensorflow, from_torch;
	bool profile_memory; /* the file says that memory was profiled */
};

/* Reads the file to its end. 0, or the negative number that ends the reading; _fini either way. */
int gp_chrome_read(struct gp_chrome *c, struct gp_input *in, struct gp_trace_builder *b);
void gp_chrome_fini(struct gp_chrome *c);

enum gp_format_match gp_chrome_probe(const unsigned char *head, size_t n);

#endif
