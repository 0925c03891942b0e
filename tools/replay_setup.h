/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_setup: everything that can be wrong with a replay, found before it begins.
 */
#ifndef GP_REPLAY_SETUP_H
#define GP_REPLAY_SETUP_H

#include "replay/engine.h"
#include "replay/environment.h"
#include "replay/plan.h"
#include "replay_options.h"

/* One trace and where its results go. */
struct replay_job {
	struct gp_trace *trace;
	char *dir;
	unsigned n_made; /* folders that did not exist before */
	bool saved;
	struct gp_plan *plan; /* NULL: not asked for, or none found */
};

struct replay_setup {
	struct replay_job *jobs; /* one per trace on the command line */
	size_t n_jobs;
	struct gp_profile *profile; /* of --profile; NULL: the built-in one */
	struct gp_environment environment;
	struct gp_engine_config engine;
	struct gp_engine_config mirror; /* --mirror: the same on the simulated device */
	const char *running;            /* the allocator at work, for the progress bar */
};

/* Loads the traces, opens the device, tries every allocator and creates the output folders, in
 * this order: -1 to go on, else the exit code after cli_error, and then no folder or file is left
 * behind. Call replay_setup_fini either way. */
int replay_setup_prepare(struct replay_setup *s, struct replay_options *o, char **paths,
			 size_t n_paths);
/* Also removes the folders that were made for results that never came. */
void replay_setup_fini(struct replay_setup *s);

#endif
