/* SPDX-License-Identifier: Apache-2.0
 *
 * tune: what the files of gpupool-tune share. One recording is replayed under each setting, on
 * simulated cards of several sizes:
 *
 *   tune_options.c   the command line
 *   tune_grid.c      the settings to try
 *   tune_job.c       the recording, made into programs; the caches that its program emptied
 *   tune_run.c       one replay: a probe
 *   tune_search.c    a row: the probe on the card asked for, and the smallest card that is enough
 *   tune_work.c      all rows, on all cores
 *   tune_advice.c    the order of the rows, and which setting to take
 *   tune_table.c, tune_json.c   the result
 *
 * Events are counted from 0 here, and from 1 wherever a person reads them.
 */
#ifndef GP_TUNE_H
#define GP_TUNE_H

#include "cli.h"
#include "read_options.h"
#include "replay/program.h"

#define TUNE_PAGE (2 * GP_MIB) /* of a device: what card sizes are multiples of */

enum tune_goal {
	TUNE_AUTO,   /* fit where the defaults do not survive, else memory */
	TUNE_MEMORY, /* least reserved on the card asked for */
	TUNE_SPEED,  /* least time in the driver */
	TUNE_FIT,    /* smallest card */
};

enum tune_extent {
	TUNE_FULL,
	TUNE_SHORT,
	TUNE_NONE,
};

struct tune_options {
	struct read_options read; /* the first: READ_OPTIONS */
	uint64_t capacity;        /* 0: the recorded card */
	uint64_t limit;           /* 0: none */
	unsigned goal, extent;    /* enum tune_goal, enum tune_extent */
	const char **confs;       /* settings of the user's own */
	size_t n_confs;
	const char **allocs; /* other back ends */
	size_t n_allocs;
	const char *version; /* of PyTorch; NULL: the model's default */
	const char *profile_path;
	struct gp_profile *profile; /* what that holds; NULL: the built-in one */
	uint64_t allow_ooms;        /* failed requests that the program gets over */
	uint64_t threads;           /* 0: one for each core */
	uint64_t top;               /* rows shown; 0: all */
	bool json, no_search, ignore_trims, list;
};

/* -1 to go on, with the operands in argv[0..*n_operands-1]; else the exit code. Call
 * tune_options_fini either way. */
int tune_options_parse(struct tune_options *o, int argc, char **argv, int *n_operands);
void tune_options_fini(struct tune_options *o);

/* ---- tune_grid.c ---- */

struct tune_setting {
	char *conf;      /* PYTORCH_CUDA_ALLOC_CONF, "" for the defaults; NULL: another back end */
	char *spec;      /* for gp_allocator_create */
	unsigned n_keys; /* of conf: how much there is to explain */
	bool has_fraction; /* its limit is a part of the card */
};

struct tune_grid {
	struct tune_setting *settings; /* the first is the defaults; from plain to intricate */
	size_t n;
};

/* -1, or the exit code after cli_error. Call tune_grid_fini either way. */
int tune_grid_make(const struct tune_options *o, struct tune_grid *out);
void tune_grid_fini(struct tune_grid *g);
/* "(defaults)", the conf or the spec. */
const char *tune_label(const struct tune_setting *s);

/* ---- tune_job.c ---- */

struct tune_job {
	const struct gp_trace *t;
	struct gp_program plain, deferring; /* without and with deferred frees */
	struct gp_env env;
	struct gp_device_config device; /* capacity: of the card asked for */
	struct gp_range *places;        /* where the recorded driver put segments: device.places */
	uint64_t allow_ooms;
	bool search; /* for the smallest card */
	/* Most requested bytes live at once up to their FREE, and the event that makes it so. A
	 * trace's load counts up to the RECLAIM, for which an allocator that is short of memory can
	 * wait: this is what no setting can do without. */
	uint64_t need_bytes;
	size_t need_event;
	uint32_t n_trims; /* caches that the recorded program seems to have emptied */
	const volatile sig_atomic_t *interrupted;
};

/* 0, or -errno with one line in `why`. Call tune_job_fini either way. */
int tune_job_init(struct tune_job *job, const struct gp_trace *t, const struct tune_options *o,
		  char *why, size_t why_size);
void tune_job_fini(struct tune_job *job);
/* Requested bytes that are live in front of an event, up to their FREE. */
uint64_t tune_live_at(const struct gp_trace *t, size_t event);

/* ---- tune_run.c ---- */

struct tune_probe {
	bool survived;
	int fault; /* -EINTR: interrupted; else the allocator is at fault, or what it was told */
	char why[160];
	uint64_t peak_reserved;
	uint64_t device_allocs, device_frees; /* as torch.cuda.memory_stats counts them */
	uint64_t device_ns;                   /* modelled */
	uint64_t retries, collections, ooms;
	/* Where it did not survive. */
	size_t failed_event;
	uint64_t failed_bytes, failed_reserved; /* asked for; held then */
};

/* One replay on a card of `capacity` bytes. addrs: [n_ids], for the replay's use. */
void tune_probe(const struct tune_job *job, const struct tune_setting *s, uint64_t capacity,
		uint64_t *addrs, struct tune_probe *out);

/* ---- tune_search.c ---- */

struct tune_row {
	const struct tune_setting *s;
	bool done;
	struct tune_probe at; /* on the card asked for */
	uint64_t smallest;    /* card on which it survives; 0: none was found, or not looked for */
	uint64_t fails_above; /* a larger card on which it does not; 0: none was found */
	uint64_t survives_below; /* a smaller one on which it does; 0: the same */
	unsigned n_probes;
};

/* Fills in the row for its setting. */
void tune_row_run(const struct tune_job *job, struct tune_row *row, uint64_t *addrs);

/* ---- tune_work.c ---- */

/* Runs rows[i] for grid->settings[i], on that many threads (0: one for each core). 0 or -ENOMEM. */
int tune_work(const struct tune_job *job, const struct tune_grid *grid, struct tune_row *rows,
	      unsigned threads);

/* ---- tune_advice.c ---- */

struct tune_result {
	const struct tune_job *job;
	const struct tune_row *defaults; /* the row of no settings */
	const struct tune_row **rows;    /* best first; done ones only */
	size_t n_rows;
	enum tune_goal goal; /* what was decided for */
	uint64_t limit;
	bool partial;                /* interrupted */
	const struct tune_row *best; /* to take instead of the defaults; NULL: nothing is better */
	char advice[512];            /* what it is expected to save, or why there is none */
};

/* Sorts the rows and decides; false: no memory. Call tune_result_fini after true. */
bool tune_result_make(const struct tune_job *job, const struct tune_options *o,
		      const struct tune_row *rows, size_t n_rows, struct tune_result *out);
void tune_result_fini(struct tune_result *r);

/* ---- the result ---- */

/* Shows `top` rows (0: all) and the advice. */
void tune_table_print(FILE *f, const struct tune_result *r, uint64_t top, bool colour);
/* One document on a line. 0 or -errno with one line in `why`. */
int tune_json_print(const struct tune_result *r, char *why, size_t why_size);

#endif
