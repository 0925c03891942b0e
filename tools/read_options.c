/* SPDX-License-Identifier: Apache-2.0
 *
 * read_options: see read_options.h.
 */
#include "read_options.h"

#include <string.h>

#define FACTOR_MAX 1000000u

/* "N/M" or "N". */
static bool parse_factor(const char *name, const char *value, struct gp_trace_sizes *out)
{
	char times[16];
	size_t n = strcspn(value, "/");

	snprintf(times, sizeof(times), "%.*s", (int)n, value);
	out->over = 1;
	if (n < sizeof(times) &&
	    (!value[n] || cli_count("scale-sizes=N/", value + n + 1, 1, FACTOR_MAX, &out->over)))
		return cli_count(name, times, 1, FACTOR_MAX, &out->times);
	if (n >= sizeof(times))
		cli_error("--%s=%s: expected a fraction, such as 1/16", name, value);
	return false;
}

bool read_options_parse(void *ctx, const char *name, const char *value)
{
	static const char *const memories[] = {
		[GP_MEMORY_DEVICE] = "device",
		[GP_MEMORY_HOST] = "host",
		[GP_MEMORY_ANY] = "any",
		NULL,
	};
	static const char *const ends[] = { "exclusive", "inclusive", NULL };
	struct read_options *o = ctx;
	struct gp_trace_options *load = &o->load;
	uint64_t n = 0;
	unsigned choice = 0;
	bool ok = true;

	if (strcmp(name, "gpu") == 0) {
		ok = cli_count(name, value, 0, UINT32_MAX, &n);
		load->has_gpu = ok;
		load->gpu = (uint32_t)n;
	} else if (strcmp(name, "memory") == 0) {
		ok = cli_choice(name, value, memories, &choice);
		load->memory = (enum gp_memory_kind)choice;
	} else if (strcmp(name, "ends") == 0) {
		ok = cli_choice(name, value, ends, &choice);
		load->inclusive_ends = choice == 1;
	} else if (strcmp(name, "scale-sizes") == 0) {
		ok = parse_factor(name, value, &o->sizes);
	} else if (strcmp(name, "cap-sizes") == 0) {
		ok = cli_size(name, value, 1, GP_SIZE_MAX, &o->sizes.cap);
	} else {
		load->lenient = true;
	}
	return ok;
}

static void on_load(void *arg, uint64_t done, uint64_t total)
{
	(void)arg;
	cli_progress("loading", done, total);
}

static void note_skipped(const struct gp_trace *trace)
{
	char text[256];
	size_t used = 0;

	for (unsigned i = 0; i < GP_SKIP_N && used < sizeof(text); i++) {
		if (trace->skipped[i])
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%llu %s",
						 used ? ", " : "",
						 (unsigned long long)trace->skipped[i],
						 gp_skip_name((enum gp_skip)i));
	}
	if (used)
		cli_note("%s: --lenient skipped %s", trace->path, text);
}

static int change_sizes(const struct read_options *o, struct gp_trace **trace, char *why,
			size_t why_size)
{
	struct gp_trace *changed;
	int r;

	if (!o->sizes.times && !o->sizes.cap)
		return 0;
	r = gp_trace_scale(*trace, &o->sizes, &changed, why, why_size);
	gp_trace_destroy(*trace);
	*trace = r ? NULL : changed;
	return r;
}

int read_options_load(const struct read_options *o, const char *path, struct gp_trace **out)
{
	struct gp_trace_options load = o->load;
	char why[512];
	int r;

	load.progress = on_load;
	r = gp_trace_load(path, &load, out, why, sizeof(why));
	cli_progress_clear();
	if (!r)
		r = change_sizes(o, out, why, sizeof(why));
	if (r) {
		cli_error("%s", why);
		return CLI_USAGE;
	}
	if (o->own_words)
		return -1;
	note_skipped(*out);
	for (uint32_t i = 0; i < (*out)->n_notes; i++)
		cli_note("%s: note: %s", path, (*out)->notes[i]);
	return -1;
}
