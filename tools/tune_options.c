/* SPDX-License-Identifier: Apache-2.0
 *
 * tune_options: the command line of gpupool-tune.
 *
 * Threads   main thread only
 */
#include <stdlib.h>
#include <string.h>

#include "replay/profile.h"
#include "tune.h"

#define THREADS_MAX 1024u

static bool append(const char ***list, size_t *n, const char *item)
{
	const char **grown = realloc(*list, (*n + 1) * sizeof(*grown));

	if (!grown) {
		cli_error("out of memory");
		return false;
	}
	*list = grown;
	grown[(*n)++] = item;
	return true;
}

static bool parse_goal(void *ctx, const char *name, const char *value)
{
	static const char *const goals[] = {
		[TUNE_AUTO] = "auto",
		[TUNE_MEMORY] = "memory",
		[TUNE_SPEED] = "speed",
		[TUNE_FIT] = "fit",
		NULL,
	};
	struct tune_options *o = ctx;

	return cli_choice(name, value, goals, &o->goal);
}

static bool parse_grid(void *ctx, const char *name, const char *value)
{
	static const char *const extents[] = {
		[TUNE_FULL] = "full",
		[TUNE_SHORT] = "short",
		[TUNE_NONE] = "none",
		NULL,
	};
	struct tune_options *o = ctx;

	return cli_choice(name, value, extents, &o->extent);
}

static bool parse_size(void *ctx, const char *name, const char *value)
{
	struct tune_options *o = ctx;
	bool limit = strcmp(name, "limit") == 0;

	return cli_size(name, value, TUNE_PAGE, GP_SIZE_MAX, limit ? &o->limit : &o->capacity);
}

static bool parse_list(void *ctx, const char *name, const char *value)
{
	struct tune_options *o = ctx;

	if (strcmp(name, "conf") == 0)
		return append(&o->confs, &o->n_confs, value);
	return append(&o->allocs, &o->n_allocs, value);
}

static bool parse_text(void *ctx, const char *name, const char *value)
{
	struct tune_options *o = ctx;

	if (!value[0]) {
		cli_error("--%s=: expected a value", name);
		return false;
	}
	if (strcmp(name, "profile") == 0)
		o->profile_path = value;
	else
		o->version = value;
	return true;
}

static bool parse_number(void *ctx, const char *name, const char *value)
{
	struct tune_options *o = ctx;

	if (strcmp(name, "threads") == 0)
		return cli_count(name, value, 1, THREADS_MAX, &o->threads);
	if (strcmp(name, "top") == 0)
		return cli_count(name, value, 0, UINT32_MAX, &o->top);
	return cli_count(name, value, 0, UINT32_MAX, &o->allow_ooms);
}

static bool parse_flag(void *ctx, const char *name, const char *value)
{
	struct tune_options *o = ctx;

	(void)value;
	if (strcmp(name, "json") == 0)
		o->json = true;
	else if (strcmp(name, "no-search") == 0)
		o->no_search = true;
	else if (strcmp(name, "ignore-trims") == 0)
		o->ignore_trims = true;
	else if (strcmp(name, "list") == 0)
		o->list = true;
	else
		cli_set_quiet(true);
	return true;
}

static const struct cli_option options[] = {
	{ "capacity", "SIZE", "memory of the card (the recorded one's)", parse_size },
	{ "limit", "SIZE", "memory limit that the program sets (none)", parse_size },
	{ "goal", "auto|memory|speed|fit", "what the best setting is best in", parse_goal },
	{ "grid", "full|short|none", "built-in settings to try (full)", parse_grid },
	{ "conf", "KEY:VALUE,...", "this setting too (repeatable)", parse_list },
	{ "alloc", "NAME[:key=value,...]", "this back end too (repeatable)", parse_list },
	{ "torch-version", "2.N", "PyTorch release to behave as (2.11)", parse_text },
	{ "allow-ooms", "N", "failed requests that the program gets over (0)", parse_number },
	{ "ignore-trims", NULL, "leave out empty_cache() of the recorded program", parse_flag },
	{ "no-search", NULL, "do not look for the smallest card", parse_flag },
	{ "top", "N", "rows to show (15; 0: all)", parse_number },
	{ "threads", "N", "replay on N threads (one for each core)", parse_number },
	{ "profile", "FILE", "cost model of the card (an H200)", parse_text },
	READ_OPTIONS,
	{ "json", NULL, "the result as JSON, one document a line", parse_flag },
	{ "list", NULL, "list the settings that are tried", parse_flag },
	{ "quiet", NULL, "no progress bar and no notes", parse_flag },
	{ NULL, NULL, NULL, NULL },
};

static const struct cli_program program = {
	.name = "gpupool-tune",
	.synopsis = "[OPTION]... TRACE...",
	.about = "Which PYTORCH_CUDA_ALLOC_CONF would have served this job best? Replays a\n"
		 "recording under some 60 settings, without a GPU.",
	.options = options,
	.examples = "  gpupool-tune snapshot.pickle\n"
		    "  gpupool-tune --capacity=24GiB --goal=fit trace.json.gz\n"
		    "  gpupool-tune --grid=none --conf=max_split_size_mb:256 trace.json.gz\n",
};

int tune_options_parse(struct tune_options *o, int argc, char **argv, int *n_operands)
{
	char why[512];
	int r;

	*o = (struct tune_options){ .top = 15 };
	r = cli_parse(&program, o, argc, argv, n_operands);
	if (r >= 0 || o->list)
		return r;
	if (*n_operands == 0) {
		cli_error("expected a recording; --help shows examples");
		return CLI_USAGE;
	}
	if (o->profile_path && gp_profile_load(o->profile_path, &o->profile, why, sizeof(why))) {
		cli_error("--profile: %s", why);
		return CLI_USAGE;
	}
	if (o->no_search && o->goal == TUNE_FIT) {
		cli_error("--goal=fit: expected without --no-search, as it is about the smallest "
			  "card");
		return CLI_USAGE;
	}
	return -1;
}

void tune_options_fini(struct tune_options *o)
{
	free(o->confs);
	free(o->allocs);
	o->confs = o->allocs = NULL;
	o->profile = gp_profile_free(o->profile);
}
