/* SPDX-License-Identifier: Apache-2.0
 *
 * engine: replays one trace against one allocator and says what happened.
 *
 * Three passes, each from a fresh allocator on a device that holds nothing, so that measuring one
 * thing does not disturb another:
 *
 *   curve       metrics after every event, kept as min/max/last per window; failures are counted
 *               and explained here
 *   latency     every call between two time-stamp readings, into histograms
 *   throughput  no timer inside; repeated; median, fastest and slowest
 *
 * Streams     each stream of the trace is one of the device's. What `reclaim`, `sync` and `trim`
 *             do they do in every pass, at their place among the events.
 * Time        On a real device a call's latency is what the clock says. On the simulated one it is
 *             the allocator's own time (the clock, less the simulator's own work) plus the
 *             modelled time of the driver calls it made. ns_per_op is the allocator's own time
 *             alone on both; device time stands apart. With several threads a call's latency is
 *             always what the clock says (pass_threads.c).
 * Work        In the latency pass, paced or not, each block may be put to use after its allocation,
 *             on its stream and outside the timed call (struct gp_work), so that calls find the
 *             device at work. Each call of alloc, free or trim then has three times:
 *               latency      of the host, as ever; waiting for the device is in it
 *               stall        the part of the call until the last work queued before it had ended,
 *                            where the call made a driver call that waits for it, which
 *                            cudaFree and cudaDeviceSynchronize do and no other; else 0
 *               device idle  the part of the call in which no queued work was left for the device.
 *                            A call that reaches no driver counts as 0; its own few nanoseconds
 *                            keep a device waiting as any other code does
 *             replay/work.h says how they are measured.
 * Failures    A request that fails is counted with its reason; its later free is skipped.
 * Deferred    A block whose free is followed by a `reclaim` is freed at the reclaim: only then is
 *             it reusable, and only until then does it count as load. That is the recorded
 *             moment, by place among the events, also where work is queued here: the work that was
 *             waited for in the recording is not this.
 */
#ifndef GP_ENGINE_H
#define GP_ENGINE_H

#include <signal.h>

#include "allocators/allocator.h"
#include "hist.h"
#include "trace.h"
#include "verify.h"

enum gp_reason {
	GP_REASON_OVER_CAPACITY, /* live + this > capacity: no allocator could            */
	GP_REASON_FRAGMENTED,    /* it would fit in total, but not in one piece           */
	GP_REASON_STREAM_HELD,   /* GP_HELD: free, but on a stream it can't be taken from */
	GP_REASON_REFUSED,       /* GP_REFUSED: not a request this allocator serves       */
	GP_REASON_N
};

const char *gp_reason_name(enum gp_reason r); /* the JSON key: "over_capacity", ... */

enum gp_status {
	GP_STATUS_OK,
	GP_STATUS_STOPPED, /* --on-oom=stop ended it at the first failure            */
	GP_STATUS_PARTIAL, /* interrupted: holds what was measured until then        */
	GP_STATUS_ERROR,   /* the allocator or the device broke, or a check failed   */
};

const char *gp_status_name(enum gp_status s); /* "ok", "stopped", "partial", "error" */

/* What put a run's status to error. */
enum gp_blame {
	GP_BLAME_ALLOCATOR, /* it broke its contract, or a check failed                  */
	GP_BLAME_DEVICE,    /* the device broke                                          */
	GP_BLAME_NO_ROOM,   /* nothing broke: what it preallocates does not fit the card */
};

/* What each of several threads replays. */
enum gp_threads_mode {
	GP_THREADS_SHARE, /* its share of the trace's blocks                                   */
	GP_THREADS_EACH,  /* the whole trace, on streams of its own                            */
	GP_THREADS_CHAIN, /* the same, and its blocks are freed by the next thread             */
};

struct gp_span_u64 {
	uint64_t min, max, last;
};

struct gp_span_f {
	double min, max, last;
};

/* Everything that happened in some consecutive events of the curve pass. */
struct gp_window {
	uint64_t first_event, last_event;
	uint64_t t_ns; /* of the last */
	struct gp_span_u64 requested, granted, reserved;
	/* Fragmentation, 0 .. 1; NaN: not known. */
	struct gp_span_f internal, external, external_sq;
};

struct gp_oom;
struct gp_plan;

enum gp_work_kind {
	GP_WORK_NONE,
	GP_WORK_MEMSET,   /* a memset of the block */
	GP_WORK_BUSY,     /* busy_ns for each */
	GP_WORK_RECORDED, /* the recorded time until the next allocation, free or reclaim of a
			   * block of the same stream, at most
			   * GP_WORK_RECORDED_MAX_NS: beyond that, programs wait for something else */
};

#define GP_WORK_RECORDED_MAX_NS UINT64_C(1000000)

struct gp_work {
	enum gp_work_kind kind;
	uint64_t busy_ns;
};

const char *gp_work_name(enum gp_work_kind kind); /* "none", "memset", "busy", "recorded" */
/* As --work has it: "memset", "busy:50". */
const char *gp_work_text(const struct gp_work *work, char *buf, size_t size);

/* Calls that have a stall and a device idle time. */
enum gp_metered {
	GP_METERED_ALLOC,
	GP_METERED_FREE,
	GP_METERED_TRIM, /* trim events of the trace */
	GP_METERED_N
};

/* What queued work made the calls cost; zeros are recorded too. */
struct gp_run_work {
	struct gp_work work;
	uint64_t n_pieces; /* that were queued */
	struct gp_hist stall_ns[GP_METERED_N], idle_ns[GP_METERED_N];
};

struct gp_option_value {
	const char *name;
	char value[GP_OPTION_TEXT_MAX];
};

/* The result of one allocator on one trace. Bytes, nanoseconds, ratios 0 .. 1. */
struct gp_run {
	char *spec;   /* as given: "buddy:min_block=512" */
	char *label;  /* file name stem, unique in its document: "buddy", "buddy-2", "buddy-t16" */
	char *series; /* the label without a thread count; NULL until labelled */
	const char *allocator;
	struct gp_option_value *options; /* every option in force */
	size_t n_options;
	const char *device;   /* "sim", "cuda" */
	char device_name[64]; /* "NVIDIA H200", "simulated NVIDIA H200" */
	enum gp_status status;
	char why[320];       /* status error: one line; else "" */
	enum gp_blame blame; /* status error: what ended it */

	struct {
		/* Bytes. load: most requested bytes live at once in this run, which is the trace's
		 * load_bytes unless requests failed or the run ended early. */
		uint64_t load, peak_granted, peak_reserved, end_reserved;
		double utilization, overhead;
	} memory;
	struct {
		/* "at peak": at the event where reserved is at its maximum and, of those, requested
		 * is greatest (curve.h). "mean": weighted by recorded time, or by event where the
		 * trace has no times. */
		double internal_at_peak, internal_mean;
		/* NaN: not known, where the driver's pool does not tell where its memory lies. */
		double external_at_peak, external_mean;
		double external_sq_at_peak;
	} fragmentation;
	struct {
		uint64_t count, bytes;
		uint64_t first_event; /* index in the trace; meaningful when count > 0 */
		uint64_t reasons[GP_REASON_N];
	} failures;
	struct gp_oom *oom; /* the first failure, explained (explain.h); NULL: there was none */
	struct {
		uint64_t allocs, frees, maps, unmaps, syncs, event_waits;
		uint64_t time_ns; /* modelled on sim, measured on cuda */
	} driver;
	/* Of each kind, the allocator's creation included. Time: of one run through the trace in the
	 * throughput pass, median of the repetitions; the curve pass's where there was no other. */
	struct gp_call_use {
		uint64_t count; /* that succeeded, in the curve pass */
		double time_ns; /* modelled on sim, measured on cuda; those that failed included */
	} calls[GP_CALL_N];
	struct gp_hist alloc_ns, free_ns; /* service time */
	struct gp_run_work *work;         /* NULL: no work was queued */
	struct {
		uint64_t ops;
		double ns_per_op, ns_per_op_min, ns_per_op_max; /* allocator's own */
		double ops_per_s, ops_per_s_min, ops_per_s_max;
		double device_ns_per_op;
	} throughput;
	struct gp_window *windows;
	size_t n_windows;
	uint64_t curve_ns; /* what following the curve took, without the audits at its end */

	/* --verify-recording: what was compared with the recording (verify.h). */
	bool verified;
	struct gp_verify verify;

	/* --pace: how late calls started, and response time (from the deadline to the end). */
	bool paced;
	struct gp_hist lateness_ns, response_alloc_ns, response_free_ns;
	/* --threads: per-thread totals merged above; wall time of the threaded pass. */
	unsigned threads;
	enum gp_threads_mode threads_mode;
};

enum gp_pass {
	GP_PASS_CURVE = 1,
	GP_PASS_LATENCY = 2,
	GP_PASS_THROUGHPUT = 4,
	GP_PASS_ALL = 7,
};

struct gp_engine_config {
	const char *device; /* "sim" or "cuda", already resolved */
	struct gp_device_config device_config;
	unsigned passes;    /* enum gp_pass */
	unsigned repeat;    /* throughput repetitions, >= 1 (default 5) */
	unsigned n_windows; /* at most so many windows in the curve (default 2000) */
	bool stop_on_oom;
	bool explain; /* after a failure, find a setting that has none */
	/* Decorators to put on, innermost first ("check", "fault:nth=3"). */
	const char *const *wraps;
	size_t n_wraps;
	unsigned threads; /* 0: recorded order on one thread */
	enum gp_threads_mode threads_mode;
	unsigned window_ms;         /* EACH, CHAIN: how long calls are counted (default 200) */
	const struct gp_plan *plan; /* of this trace, for `plan` and the report; NULL: none */
	double pace;                /* 0: as fast as possible; 1: recorded speed; 2: twice that */
	struct gp_work work;
	const volatile sig_atomic_t *interrupted; /* may be NULL; polled between windows of work */
	void (*progress)(void *arg, const char *phase, uint64_t done, uint64_t total);
	void *progress_arg;
};

/* Replays. 0: *out holds a run (whose status may still be error: a broken allocator is a result);
 * -EINVAL: a bad spec or configuration, `why` says; -ENODEV: no device; -ENOTSUP: no steady clock;
 * -ENOMEM. */
int gp_engine_run(const struct gp_trace *trace, const char *spec,
		  const struct gp_engine_config *cfg, struct gp_run **out, char *why,
		  size_t why_size);
struct gp_run *gp_run_destroy(struct gp_run *run);

/* What the engine derives from a trace for allocators that ask (gp_env). */
void gp_engine_env(const struct gp_trace *trace, struct gp_env *out);
/* The same for a replay on several threads. */
void gp_engine_env_threads(const struct gp_trace *trace, unsigned threads,
			   enum gp_threads_mode mode, struct gp_env *out);

#endif
