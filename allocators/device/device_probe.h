/* SPDX-License-Identifier: Apache-2.0
 *
 * device_probe: one call of the driver, alone and timed: what gpupool-calibrate makes a device
 * profile of. The calls of device.h keep books and join what belongs together (a map is cuMemMap
 * and cuMemSetAccess); a probe does neither. The books do not know what a probe holds: the caller
 * gives back what it took, and reserves nothing else meanwhile.
 *
 *   cuda  device_cuda_probe.c  the clock runs from before the call to its return
 *   sim   sim_probe.c          books are kept, but for mappings, which are charged and not made
 */
#ifndef GP_DEVICE_PROBE_H
#define GP_DEVICE_PROBE_H

#include "device.h"

enum gp_probe_kind {
	GP_PROBE_MALLOC,      /* cudaMalloc: size -> addr                                        */
	GP_PROBE_FREE,        /* cudaFree: addr                                                  */
	GP_PROBE_ASYNC_ALLOC, /* cudaMallocFromPoolAsync: size, keep -> addr                     */
	GP_PROBE_ASYNC_FREE,  /* cudaFreeAsync: addr, keep                                       */
	GP_PROBE_SYNC,        /* cudaDeviceSynchronize                                           */
	GP_PROBE_VA_RESERVE,  /* cuMemAddressReserve: size -> addr                               */
	GP_PROBE_VA_RELEASE,  /* cuMemAddressFree: addr, size                                    */
	GP_PROBE_CREATE,      /* cuMemCreate: size -> handle                                     */
	GP_PROBE_DESTROY,     /* cuMemRelease: handle, size                                      */
	GP_PROBE_MAP,         /* cuMemMap: addr, size, handle                                    */
	GP_PROBE_SET_ACCESS,  /* cuMemSetAccess: addr, size; of one mapping or more              */
	GP_PROBE_UNMAP,       /* cuMemUnmap: addr, size; of one mapping or more                  */
	GP_PROBE_RECORD,      /* cudaEventRecord                                                 */
	GP_PROBE_WAIT,        /* cudaStreamWaitEvent, for that record, by another stream         */
	GP_PROBE_STREAM,      /* cudaStreamCreateWithFlags -> handle                             */
	GP_PROBE_STREAM_END,  /* cudaStreamDestroy: handle                                       */
	GP_PROBE_MEMSET,      /* cudaMemsetAsync: addr, size -> device_ns, waited for            */
	GP_PROBE_LAUNCH,      /* of a kernel that does nothing                                   */
	GP_PROBE_TRIM,        /* cudaMemPoolTrimTo 0: keep                                       */
	GP_PROBE_N
};

struct gp_probe {
	enum gp_probe_kind kind;
	uint64_t addr, size, handle;
	bool keep; /* which stream-ordered pool: one that keeps what it has, or nothing */

	/* Out. */
	uint64_t ticks;     /* cuda: gp_ticks() that passed during the call */
	uint64_t model_ns;  /* sim: what it was charged */
	uint64_t device_ns; /* MEMSET: time of the device */
};

/* What it is called in a device profile: "cudaMalloc". */
const char *gp_probe_name(enum gp_probe_kind kind);

/* As the calls of device.h: 0, GP_NOMEM or -errno; counted as the call it belongs to there.
 * -ENOTSUP: this device has no such call. Everything runs on the default stream. */
int gp_device_probe(struct gp_device *dev, struct gp_probe *p);

#endif
