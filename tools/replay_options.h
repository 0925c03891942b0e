/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_options: the command line of gpupool-replay.
 */
#ifndef GP_REPLAY_OPTIONS_H
#define GP_REPLAY_OPTIONS_H

#include "allocators/device/device.h"
#include "cli.h"
#include "read_options.h"
#include "replay/engine.h"

enum replay_device {
	REPLAY_DEVICE_AUTO,
	REPLAY_DEVICE_SIM,
	REPLAY_DEVICE_CUDA,
};

#define THREAD_COUNTS_MAX 32

/* Strings belong to argv or are constants, but for made. */
struct replay_options {
	struct read_options read; /* the first: READ_OPTIONS */
	const char **specs;       /* one run each, in this order */
	size_t n_specs;
	bool all;         /* some of them because `all` was asked for */
	const char *conf; /* PYTORCH_CUDA_ALLOC_CONF for each `torch` among them; NULL: none */
	const char *torch_version; /* for the same; NULL: the newest known */
	char **made;               /* [n_specs]: those that these two changed */
	const char **wraps;        /* innermost first */
	size_t n_wraps;
	unsigned device;     /* enum replay_device */
	uint64_t capacity;   /* bytes; 0: all that the device has */
	const char *profile; /* NULL: the built-in one */
	struct gp_injection inject;
	const char *out;       /* NULL: gpupool-out/TRACE */
	bool json;             /* the document instead of the table ... */
	const char *json_file; /* ... or as well, in this file */
	uint64_t repeat, windows;
	unsigned threads[THREAD_COUNTS_MAX]; /* replays of each allocator: on so many threads */
	size_t n_threads;                    /* 0: one replay, in recorded order              */
	unsigned threads_mode;               /* enum gp_threads_mode                          */
	double pace;                         /* 0: as fast as possible */
	struct gp_work work;
	double plan; /* seconds to look for the best placement; 0: do not */
	bool stop_on_oom, fail_on_oom, explain, list;
	bool verify; /* each `torch` against what the trace recorded */
	bool mirror; /* each on the GPU and on the simulated device */
};

/* The largest of the thread counts; 0: none. */
unsigned replay_most_threads(const struct replay_options *o);
/* Is it the model of PyTorch's allocator? */
bool replay_is_torch(const char *spec);
/* Parses argv into *o: -1 to go on, with the operands in argv[0..*n_operands-1]; else the exit
 * code. Call replay_options_fini either way. */
int replay_options_parse(struct replay_options *o, int argc, char **argv, int *n_operands);
/* Of what `all` added, drops that which this device cannot do, with a note. */
void replay_options_fit(struct replay_options *o, const struct gp_device_info *info);
void replay_options_fini(struct replay_options *o);

/* Is this one of those that --alloc=all stands for, and no use on such a device? */
bool replay_options_pass_over(const char *spec, const struct gp_device_info *info);

#endif
