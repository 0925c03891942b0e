/* SPDX-License-Identifier: Apache-2.0
 *
 * read_options: see read_options.h.
 */
#include "read_options.h"

#include <string.h>

bool read_options_parse(void *ctx, const char *name, const char *value)
{
	static const char *const memories[] = {
		[GP_MEMORY_DEVICE] = "device",
		[GP_MEMORY_HOST] = "host",
		[GP_MEMORY_ANY] = "any",
		NULL,
	};
	static const char *const ends[] = { "exclusive", "inclusive", NULL };
	struct gp_trace_options *load = &((struct read_options *)ctx)->load;
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

int read_options_load(const struct read_options *o, const char *path, struct gp_trace **out)
{
	struct gp_trace_options load = o->load;
	char why[512];
	int r;

	load.progress = on_load;
	r = gp_trace_load(path, &load, out, why, sizeof(why));
	cli_progress_clear();
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
