/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool-calibrate: what do the driver's memory calls cost on this GPU? calibrate.h says which
 * file does what.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate.h"
#include "replay/atomic_file.h"
#include "replay/environment.h"

struct program {
	struct cal_options options;
	struct cal cal;
	struct gp_profile profile;
	struct gp_profile_row *rows;
	struct cal_notes notes;
	char out[64];     /* the file's name, where the user gave none */
	const char *path; /* NULL: no file */
};

static const struct gp_profile *usual(const struct program *p)
{
	return p->options.profile ? p->options.profile : gp_profile_builtin();
}

/* -- before ----------------------------------------------------------------------------------- */

static int open_device(struct program *p)
{
	struct gp_device_config config = { .profile = p->options.profile };
	bool cuda = p->options.device == CAL_CUDA;
	char why[256] = "";
	int r = (cuda ? gp_device_open_cuda : gp_device_open_sim)(&config, &p->cal.dev, why,
								  sizeof(why));

	if (!r)
		r = gp_device_mem_info(p->cal.dev, &p->cal.free_bytes, &p->cal.total_bytes);
	if (!r)
		return -1;
	cli_error("%s%s", why[0] ? why : strerror(r < 0 ? -r : ENOMEM),
		  cuda && !p->cal.dev ? "; --device=sim tries this program without one" : "");
	return CLI_DEVICE;
}

/* "NVIDIA H200" -> "nvidia_h200" */
static void slug(char *to, size_t size, const char *name)
{
	size_t n = 0;

	for (; *name && n + 1 < size; name++) {
		if (isalnum((unsigned char)*name))
			to[n++] = (char)tolower((unsigned char)*name);
		else if (n && to[n - 1] != '_')
			to[n++] = '_';
	}
	while (n && to[n - 1] == '_')
		n--;
	to[n] = '\0';
}

/* Where the profile goes, and whether it can: nobody wants to learn that after two minutes. */
static int check_output(struct program *p)
{
	struct gp_atomic_file file;
	char name[48];
	int r;

	slug(name, sizeof(name), p->cal.dev->info.name);
	snprintf(p->out, sizeof(p->out), "%s.json", name[0] ? name : "profile");
	p->path = p->options.out ? p->options.out : p->options.json ? NULL : p->out;
	if (!p->path)
		return -1;
	r = gp_atomic_open(&file, p->path);
	if (!r) {
		gp_atomic_discard(&file);
		return -1;
	}
	cli_error("%s: %s", p->path, strerror(-r));
	return CLI_USAGE;
}

/* -- the profile ------------------------------------------------------------------------------ */

/* The version of the kernel's driver: "580.95.05". What its file does not tell stays "". */
static void read_driver_version(char *out, size_t size)
{
	char line[256], *at = NULL;
	FILE *f = fopen("/proc/driver/nvidia/version", "r");

	if (f && fgets(line, sizeof(line), f))
		at = strstr(line, "Module  ");
	if (at) {
		at += strlen("Module  ");
		snprintf(out, size, "%.*s", (int)strcspn(at, " \n"), at);
	}
	if (f)
		fclose(f);
}

static void describe(struct program *p)
{
	const struct gp_device_info *info = &p->cal.dev->info;
	struct gp_profile *to = &p->profile;
	const char *card = info->simulated ? usual(p)->card : info->name;
	struct gp_environment env;

	gp_environment_gather(&env, info);
	to->simulated = info->simulated;
	slug(to->name, sizeof(to->name), strncmp(card, "NVIDIA ", 7) ? card : card + 7);
	snprintf(to->card, sizeof(to->card), "%.*s", (int)sizeof(to->card) - 1, card);
	snprintf(to->source, sizeof(to->source),
		 "gpupool-calibrate%s, %zu of %zu steps; clocks as the driver set them%s",
		 p->cal.quick ? " --quick" : "", p->cal.n_steps - p->cal.n_left_out, p->cal.n_steps,
		 info->simulated ? "; of a simulated device" : "");
	if (!info->simulated)
		read_driver_version(to->driver, sizeof(to->driver));
	snprintf(to->cuda, sizeof(to->cuda), "%s", info->driver);
	snprintf(to->cpu, sizeof(to->cpu), "%s", env.cpu);
	to->cores = env.cores;
	snprintf(to->os, sizeof(to->os), "%s", env.kernel);
	snprintf(to->date, sizeof(to->date), "%s", env.date);
	snprintf(to->gpupool, sizeof(to->gpupool), "%s", GP_VERSION);
	to->total_bytes = p->cal.total_bytes;
	to->free_bytes = p->cal.free_bytes;
	to->page_bytes = info->page_bytes;
}

/* The profile from what was measured: -1, or the exit code when it makes no device. */
static int make_profile(struct program *p)
{
	char why[160];
	uint64_t free_now = 0, total;

	p->rows = cal_rows(&p->cal, &p->profile.n_rows);
	if (!p->rows) {
		cli_error("out of memory");
		return CLI_USAGE;
	}
	p->profile.rows = p->rows;
	describe(p);
	if (gp_profile_price(&p->profile, why, sizeof(why))) {
		cli_error("too little was measured for a profile: %s; no file is written", why);
		return *p->cal.interrupted ? CLI_INTERRUPTED : CLI_DEVICE;
	}
	if (p->cal.n_left_out)
		cal_note(&p->notes, "partial: %zu of %zu steps were left out", p->cal.n_left_out,
			 p->cal.n_steps);
	cal_notes_find(&p->notes, &p->profile, usual(p));
	if (!gp_device_mem_info(p->cal.dev, &free_now, &total) &&
	    free_now + 2 * GP_MIB < p->cal.free_bytes) {
		char bytes[32];

		cal_note(&p->notes, "%s less are free than at the start",
			 cli_bytes(bytes, p->cal.free_bytes - free_now));
	}
	return -1;
}

/* -- after ------------------------------------------------------------------------------------ */

static int save(const struct program *p, const char *path)
{
	const char *notes[CAL_NOTES];
	char why[512];

	for (size_t i = 0; i < p->notes.n; i++)
		notes[i] = p->notes.text[i];
	if (!gp_profile_save(&p->profile, notes, p->notes.n, path, why, sizeof(why)))
		return CLI_OK;
	cli_error("%s", why);
	return CLI_USAGE;
}

static void print(const struct program *p)
{
	const struct gp_profile *to = &p->profile;
	char total[32], taken[32];

	printf("%s%s, driver %s, CUDA %s, %s; %s of memory, of which %s are not free to begin with\n\n",
	       to->simulated ? "simulated " : "", to->card, to->driver[0] ? to->driver : "-",
	       to->cuda, to->cpu, cli_bytes(total, to->total_bytes),
	       cli_bytes(taken, to->total_bytes - to->free_bytes));
	cal_table_print(stdout, to);
	printf("\nUnusual%s\n", p->notes.n ? "" : ": nothing");
	for (size_t i = 0; i < p->notes.n; i++)
		printf("  %s\n", p->notes.text[i]);
}

static int show(const struct program *p)
{
	int code = p->path ? save(p, p->path) : CLI_OK;

	if (code == CLI_OK && p->options.json)
		code = save(p, "-");
	if (code != CLI_OK)
		return code;
	if (!p->options.json)
		print(p);
	if (!cli_flush_output())
		return CLI_USAGE;
	if (p->path)
		cli_note("profile written: %s", p->path);
	return CLI_OK;
}

static int calibrate(struct program *p)
{
	int r, code;

	p->cal.clock = gp_clock_get();
	if (!p->cal.clock && !p->cal.dev->info.simulated) {
		cli_error("the time-stamp counter of this machine does not run steadily");
		return CLI_DEVICE;
	}
	p->cal.quick = p->options.quick;
	p->cal.budget = p->cal.free_bytes / 2;
	p->cal.interrupted = cli_interrupted();
	r = cal_run(&p->cal, p->options.limit_s);
	cli_progress_clear();
	if (r)
		cli_error("the device broke: %s", gp_device_error(p->cal.dev));
	code = make_profile(p);
	if (code < 0)
		code = show(p);
	if (code != CLI_OK || r)
		return code != CLI_OK ? code : CLI_DEVICE;
	if (!*p->cal.interrupted)
		return CLI_OK;
	cli_note("interrupted: what was measured until then was kept");
	return CLI_INTERRUPTED;
}

int main(int argc, char **argv)
{
	struct program p = { .path = NULL };
	int code = cal_options_parse(&p.options, argc, argv);

	if (code < 0)
		code = open_device(&p);
	if (code < 0)
		code = check_output(&p);
	if (code < 0)
		code = calibrate(&p);
	free(p.rows);
	cal_times_fini(&p.cal);
	gp_device_close(p.cal.dev);
	cal_options_fini(&p.options);
	return code;
}
