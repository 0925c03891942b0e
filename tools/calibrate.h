/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate: what the files of gpupool-calibrate share.
 *
 *   gpupool_calibrate.c  main: options, device, the order of things
 *   calibrate_options.c  the command line
 *   calibrate_plan.c     which sizes, in which order, within the time limit
 *   calibrate_steps.c    the loops that call the driver
 *   calibrate_times.c    the times measured, and the rows of the profile made from them
 *   calibrate_notes.c    what is unusual
 *   calibrate_table.c    the table on the terminal
 *
 *   step -> cal_probe() -> times of (call, size) -> rows -> profile -> file, table, notes
 *
 * Threads   main thread only
 */
#ifndef GP_CALIBRATE_H
#define GP_CALIBRATE_H

#include <signal.h>

#include "allocators/device/device_probe.h"
#include "cli.h"
#include "replay/clock.h"
#include "replay/profile.h"

#define CAL_BUSY_NS UINT64_C(20000000) /* work queued before a call of .busy: easily told apart */

struct cal_options {
	const char *out;          /* NULL: by the card's name */
	const char *profile_path; /* of --profile; NULL: the built-in one */
	struct gp_profile *profile;
	unsigned device; /* enum cal_device */
	double limit_s;
	bool json, quick;
};

enum cal_device {
	CAL_CUDA,
	CAL_SIM,
};

/* -1 to go on, else the exit code. Call cal_options_fini either way. */
int cal_options_parse(struct cal_options *o, int argc, char **argv);
void cal_options_fini(struct cal_options *o);

/* The times of one call at one size, in the order they were measured. */
struct cal_times {
	char call[32];
	uint64_t size;
	uint32_t *ns;
	size_t n, cap;
};

struct cal {
	struct gp_device *dev;
	const struct gp_clock *clock;
	const volatile sig_atomic_t *interrupted;
	bool quick;
	uint64_t budget; /* bytes that may be held at once: half of what was free */
	uint64_t free_bytes, total_bytes;
	uint64_t end_ns, slice_end_ns; /* when to stop: altogether, and this step */
	uint64_t rest_ns;              /* before each call */
	uint64_t dirty;                /* bytes given back since the last long rest */

	struct cal_times *times;
	size_t n_times, cap_times;
	size_t n_steps, n_left_out; /* that never began */
};

/* ---- calibrate_times ---- */

uint64_t cal_now_ns(void);
/* May this step go on? Not when it was interrupted or its time is over. */
bool cal_goes_on(const struct cal *c);
/* Leaves the card alone for so long, below a second. */
void cal_rest(const struct cal *c, uint64_t ns);
/* One call; its time goes to CALL.VARIANT ("" and NULL: CALL alone) at `size`, p->size unless that
 * is of no interest to the call. 0, GP_NOMEM or -errno; -ENOTSUP where the device has none. */
int cal_probe(struct cal *c, struct gp_probe *p, const char *variant, uint64_t size);
/* The same, not kept. */
int cal_probe_untimed(struct cal *c, struct gp_probe *p);
int cal_add(struct cal *c, const char *call, uint64_t size, uint64_t ns);
/* The rows, sorted by call (in the order they were first measured) and size; the caller frees.
 * NULL: none, or out of memory. */
struct gp_profile_row *cal_rows(const struct cal *c, size_t *n);
void cal_times_fini(struct cal *c);

/* ---- calibrate_steps: each 0, or -errno when the device broke; what does not fit or does not
 * exist is left out ---- */

int cal_first(struct cal *c, uint64_t size);
int cal_held(struct cal *c, uint64_t size);
int cal_pair(struct cal *c, uint64_t size);
int cal_vmm(struct cal *c, uint64_t size);
int cal_vmm_held(struct cal *c, uint64_t size);
int cal_span(struct cal *c, uint64_t size);
int cal_pool_cold(struct cal *c, uint64_t size);
int cal_pool_warm(struct cal *c, uint64_t size);
int cal_memset(struct cal *c, uint64_t size);
int cal_streams(struct cal *c, uint64_t size);
int cal_busy(struct cal *c, uint64_t size);
int cal_rested(struct cal *c, uint64_t size);

/* ---- calibrate_plan ---- */

/* Runs all steps; 0, or -errno when the device broke. */
int cal_run(struct cal *c, double limit_s);

/* ---- calibrate_notes ---- */

#define CAL_NOTES 24u

struct cal_notes {
	char text[CAL_NOTES][200];
	size_t n;
};

void cal_note(struct cal_notes *notes, const char *fmt, ...) GP_PRINTF(2, 3);
/* What is unusual in a profile, alone and against another one. */
void cal_notes_find(struct cal_notes *notes, const struct gp_profile *p,
		    const struct gp_profile *usual);

/* ---- calibrate_table ---- */

void cal_table_print(FILE *out, const struct gp_profile *p);

#endif
