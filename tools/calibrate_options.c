/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate_options: the command line of gpupool-calibrate.
 */
#include <string.h>

#include "calibrate.h"

static bool parse_device(void *ctx, const char *name, const char *value)
{
	static const char *const devices[] = { [CAL_CUDA] = "cuda", [CAL_SIM] = "sim", NULL };
	struct cal_options *o = ctx;

	return cli_choice(name, value, devices, &o->device);
}

static bool parse_text(void *ctx, const char *name, const char *value)
{
	struct cal_options *o = ctx;

	if (!value[0]) {
		cli_error("--%s=: expected a value", name);
		return false;
	}
	if (strcmp(name, "out") == 0)
		o->out = value;
	else
		o->profile_path = value;
	return true;
}

static bool parse_limit(void *ctx, const char *name, const char *value)
{
	struct cal_options *o = ctx;

	return cli_real(name, value, 1, 3600, &o->limit_s);
}

static bool parse_flag(void *ctx, const char *name, const char *value)
{
	struct cal_options *o = ctx;

	(void)value;
	if (strcmp(name, "json") == 0)
		o->json = true;
	else if (strcmp(name, "quick") == 0)
		o->quick = true;
	else
		cli_set_quiet(true);
	return true;
}

static const struct cli_option options[] = {
	{ "out", "FILE", "the profile (named after the card: nvidia_h200.json)", parse_text },
	{ "json", NULL, "the profile on standard output, and no file but --out", parse_flag },
	{ "quick", NULL, "a fifth of the repetitions, half of the sizes", parse_flag },
	{ "time-limit", "SECONDS", "stop measuring after that long (110)", parse_limit },
	{ "device", "cuda|sim", "a GPU, or the simulated one, to try the program (cuda)",
	  parse_device },
	{ "profile", "FILE", "compare with this one (h200); sim: measure it", parse_text },
	{ "quiet", NULL, "no progress bar and no notes", parse_flag },
	{ NULL, NULL, NULL, NULL },
};

static const struct cli_program program = {
	.name = "gpupool-calibrate",
	.synopsis = "[OPTION]...",
	.about =
		"Measures what the driver's memory calls cost on this GPU, in less than two minutes,\n"
		"and writes a device profile. With it the simulated device of gpupool-replay and\n"
		"gpupool-tune costs what this GPU does. Says what is unusual.\n"
		"\n"
		"Takes up to half of the GPU's free memory. Others at work on it are measured, too:\n"
		"best alone. Interrupted (Ctrl-C), it keeps what was measured.",
	.options = options,
	.examples =
		"  gpupool-calibrate                                  measure, write nvidia_h200.json\n"
		"  gpupool-calibrate --quick --out=this.json          a first look, some 15 seconds\n"
		"  gpupool-replay --profile=this.json trace.json      replay on such a device\n"
		"  gpupool-calibrate --device=sim --profile=this.json --json\n",
};

int cal_options_parse(struct cal_options *o, int argc, char **argv)
{
	char why[512];
	int n_operands = 0, r;

	*o = (struct cal_options){ .limit_s = 110 };
	r = cli_parse(&program, o, argc, argv, &n_operands);
	if (r >= 0)
		return r;
	if (n_operands) {
		cli_error("%s: expected options only; --help shows examples", argv[0]);
		return CLI_USAGE;
	}
	if (o->profile_path && gp_profile_load(o->profile_path, &o->profile, why, sizeof(why))) {
		cli_error("--profile: %s", why);
		return CLI_USAGE;
	}
	return -1;
}

void cal_options_fini(struct cal_options *o)
{
	o->profile = gp_profile_free(o->profile);
}
