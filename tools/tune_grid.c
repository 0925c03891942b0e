/* SPDX-License-Identifier: Apache-2.0
 *
 * tune_grid: the settings to try, from plain ones to intricate ones: where two do equally well, the
 * earlier one is what to take.
 *
 * Shape     PyTorch's own text, which torch_conf makes into the spec of a back end, and refuses as
 *           PyTorch does. A built-in setting that the release in question does not have is left
 *           out; one that the user asked for is an error.
 * Not here  max_split_size_mb with expandable_segments: reserved memory then grows without bound
 *           (PyTorch issue 123548). Ask for it with --conf.
 * Threads   main thread only
 */
#include <stdlib.h>
#include <string.h>

#include "allocators/torch/torch_conf.h"
#include "tune.h"

#define FRACTION_MINOR 9 /* since PyTorch 2.9, the limit can be set by the variable */

struct builtin {
	const char *conf;
	bool is_short; /* in the short grid */
	bool collects; /* needs a limit: where there is none, it brings one along */
};

static const struct builtin builtins[] = {
	{ "", true, false },
	{ "expandable_segments:True", true, false },
	/* One key. */
	{ "max_split_size_mb:20", false, false },
	{ "max_split_size_mb:32", true, false },
	{ "max_split_size_mb:48", false, false },
	{ "max_split_size_mb:64", false, false },
	{ "max_split_size_mb:96", false, false },
	{ "max_split_size_mb:128", true, false },
	{ "max_split_size_mb:192", false, false },
	{ "max_split_size_mb:256", false, false },
	{ "max_split_size_mb:512", true, false },
	{ "max_split_size_mb:1024", false, false },
	{ "max_split_size_mb:2048", false, false },
	{ "roundup_power2_divisions:2", false, false },
	{ "roundup_power2_divisions:4", true, false },
	{ "roundup_power2_divisions:8", true, false },
	{ "roundup_power2_divisions:16", false, false },
	{ "roundup_power2_divisions:32", false, false },
	{ "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", false, false },
	{ "roundup_power2_divisions:[1:8,16:4,>:1]", false, false },
	{ "roundup_power2_divisions:[16:1,64:4,>:8]", false, false },
	{ "garbage_collection_threshold:0.6", false, true },
	{ "garbage_collection_threshold:0.7", false, true },
	{ "garbage_collection_threshold:0.8", true, true },
	{ "garbage_collection_threshold:0.9", false, true },
	{ "large_segment_size_mb:12", false, false },
	{ "large_segment_size_mb:32", false, false },
	{ "large_segment_size_mb:64", true, false },
	{ "large_segment_size_mb:128", false, false },
	{ "large_segment_size_mb:256", false, false },
	{ "large_segment_size_mb:512", false, false },
	/* Two. */
	{ "expandable_segments:True,roundup_power2_divisions:4", false, false },
	{ "expandable_segments:True,roundup_power2_divisions:8", true, false },
	{ "expandable_segments:True,roundup_power2_divisions:16", false, false },
	{ "expandable_segments:True,large_segment_size_mb:12", false, false },
	{ "expandable_segments:True,large_segment_size_mb:64", false, false },
	{ "expandable_segments:True,large_segment_size_mb:256", false, false },
	{ "max_split_size_mb:64,max_non_split_rounding_mb:64", false, false },
	{ "max_split_size_mb:128,max_non_split_rounding_mb:128", false, false },
	{ "max_split_size_mb:256,max_non_split_rounding_mb:256", false, false },
	{ "max_split_size_mb:512,max_non_split_rounding_mb:512", false, false },
	{ "max_split_size_mb:32,roundup_power2_divisions:8", false, false },
	{ "max_split_size_mb:64,roundup_power2_divisions:4", false, false },
	{ "max_split_size_mb:64,roundup_power2_divisions:8", false, false },
	{ "max_split_size_mb:128,roundup_power2_divisions:4", false, false },
	{ "max_split_size_mb:128,roundup_power2_divisions:8", true, false },
	{ "max_split_size_mb:256,roundup_power2_divisions:8", false, false },
	{ "max_split_size_mb:512,roundup_power2_divisions:8", false, false },
	{ "max_split_size_mb:64,garbage_collection_threshold:0.8", false, true },
	{ "max_split_size_mb:128,garbage_collection_threshold:0.8", true, true },
	{ "max_split_size_mb:512,garbage_collection_threshold:0.8", false, true },
	{ "roundup_power2_divisions:4,garbage_collection_threshold:0.8", false, true },
	{ "roundup_power2_divisions:8,garbage_collection_threshold:0.8", false, true },
	{ "large_segment_size_mb:64,roundup_power2_divisions:8", false, false },
	{ "large_segment_size_mb:256,roundup_power2_divisions:8", false, false },
	{ "large_segment_size_mb:64,max_split_size_mb:128", false, false },
	/* Three. */
	{ "max_split_size_mb:128,max_non_split_rounding_mb:128,roundup_power2_divisions:8", false,
	  false },
	{ "max_split_size_mb:128,roundup_power2_divisions:8,garbage_collection_threshold:0.8",
	  false, true },
	{ "max_split_size_mb:256,roundup_power2_divisions:8,garbage_collection_threshold:0.8",
	  false, true },
	{ "expandable_segments:True,large_segment_size_mb:12,roundup_power2_divisions:8", false,
	  false },
};

/* What arms garbage collection where no --limit does: memory that is left for others. */
static const char fraction[] = ",per_process_memory_fraction:0.95";

const char *tune_label(const struct tune_setting *s)
{
	return !s->conf ? s->spec : s->conf[0] ? s->conf : "(defaults)";
}

/* Pairs in a conf: its commas outside of brackets, and one. */
static unsigned count_keys(const char *conf)
{
	unsigned n = conf[0] != '\0';
	int depth = 0;

	for (; *conf; conf++) {
		depth += (*conf == '[') - (*conf == ']');
		n += *conf == ',' && depth == 0;
	}
	return n;
}

static int out_of_memory(void)
{
	cli_error("out of memory");
	return CLI_USAGE;
}

static int grid_append(struct tune_grid *g, const char *conf, const char *spec)
{
	struct tune_setting *s, *grown = realloc(g->settings, (g->n + 1) * sizeof(*grown));

	if (!grown)
		return out_of_memory();
	g->settings = grown;
	s = &g->settings[g->n++];
	*s = (struct tune_setting){
		.conf = conf ? strdup(conf) : NULL,
		.spec = strdup(spec),
		.n_keys = conf ? count_keys(conf) : 0,
		.has_fraction = strstr(spec, "per_process_memory_fraction=") != NULL,
	};
	return (conf && !s->conf) || !s->spec ? out_of_memory() : -1;
}

/* Is the spec one that gp_allocator_create takes? What does not fit is a result. */
static int grid_try(const char *spec, char *why, size_t why_size)
{
	struct gp_device_config config = { 0 };
	struct gp_device *dev = NULL;
	struct gp_allocator *a = NULL;
	int r = gp_device_open_sim(&config, &dev, why, why_size);

	if (!r)
		r = gp_allocator_create(spec, dev, NULL, &a, why, why_size);
	gp_allocator_destroy(a);
	gp_device_close(dev);
	return r > 0 ? 0 : r;
}

/* own: the user's. `base` carries the limit and the release. */
static int grid_conf(struct tune_grid *g, const char *base, const char *text, bool own)
{
	struct gp_torch_conf conf;
	char why[256] = "";
	int r = gp_torch_conf_parse(base, text, &conf);
	const char *reason = conf.why;

	if (!r) {
		r = grid_try(conf.spec, why, sizeof(why));
		reason = strncmp(why, "torch: ", 7) == 0 ? why + 7 : why;
	}
	if (r && !own)
		return -1;
	if (r) {
		cli_error("--conf=%s: %s", text, reason);
		return CLI_USAGE;
	}
	if (own && conf.notes[0])
		cli_note("--conf=%s: %s", text, conf.notes);
	return grid_append(g, text, conf.spec);
}

static bool grid_knows_fraction(const struct tune_options *o)
{
	return !o->version || strncmp(o->version, "2.", 2) != 0 ||
	       strtoul(o->version + 2, NULL, 10) >= FRACTION_MINOR;
}

static int grid_builtins(struct tune_grid *g, const struct tune_options *o, const char *base)
{
	int r = -1;

	for (size_t i = 0; i < GP_ARRAY_LEN(builtins) && r < 0; i++) {
		const struct builtin *b = &builtins[i];
		bool brings = b->collects && !o->limit;
		char text[160];

		if (i && (o->extent == TUNE_NONE || (o->extent == TUNE_SHORT && !b->is_short)))
			continue;
		if (brings && !grid_knows_fraction(o))
			continue;
		snprintf(text, sizeof(text), "%s%s", b->conf, brings ? fraction : "");
		r = grid_conf(g, base, text, false);
	}
	return r;
}

static int grid_alloc(struct tune_grid *g, const char *spec)
{
	const struct gp_allocator_ops *ops = gp_allocator_named_by(spec);
	char why[256] = "";

	if (ops && ops->caps & GP_CAP_DECORATOR) {
		cli_error("--alloc=%s: a decorator, expected an allocator", spec);
		return CLI_USAGE;
	}
	if (grid_try(spec, why, sizeof(why))) {
		cli_error("--alloc=%s: %s", spec, why);
		return CLI_USAGE;
	}
	return grid_append(g, NULL, spec);
}

/* "torch", with the limit and the release. */
static int grid_base(const struct tune_options *o, char *base, size_t size)
{
	char why[256] = "";
	int n = snprintf(base, size, "torch");

	if (o->version)
		n += snprintf(base + n, size - (size_t)n, ":torch_version=%.40s", o->version);
	if (o->limit)
		snprintf(base + n, size - (size_t)n, "%climit=%llu", o->version ? ',' : ':',
			 (unsigned long long)o->limit);
	if (!grid_try(base, why, sizeof(why)))
		return -1;
	cli_error("--torch-version=%s: %s", o->version ? o->version : "", why);
	return CLI_USAGE;
}

int tune_grid_make(const struct tune_options *o, struct tune_grid *out)
{
	char base[128];
	int r = grid_base(o, base, sizeof(base));

	*out = (struct tune_grid){ 0 };
	if (r < 0)
		r = grid_builtins(out, o, base);
	for (size_t i = 0; i < o->n_confs && r < 0; i++)
		r = grid_conf(out, base, o->confs[i], true);
	for (size_t i = 0; i < o->n_allocs && r < 0; i++)
		r = grid_alloc(out, o->allocs[i]);
	return r;
}

void tune_grid_fini(struct tune_grid *g)
{
	for (size_t i = 0; i < g->n; i++) {
		free(g->settings[i].conf);
		free(g->settings[i].spec);
	}
	free(g->settings);
	*g = (struct tune_grid){ 0 };
}
