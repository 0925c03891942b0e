/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_option: settings of the model of PyTorch's allocator, under PyTorch's own names, and what
 * they mean. What PyTorch refuses is refused here, so that it can't be asked for by another way
 * than the environment variable's (torch_conf.h).
 */
#include "torch_state.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIXED_ROUNDING_MB 20 /* max_non_split_rounding_mb before it was a setting */
#define TORCH_LARGE_MB    20 /* and large_segment_size_mb */
#define MINOR_MAX         99

const struct gp_option torch_option_table[] = {
	{ .name = "max_split_size_mb",
	  .help = "larger blocks are never cut (0: no limit)",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct torch, opt.max_split_size_mb),
	  .default_text = "0",
	  .max = 1 << 24 },
	{ .name = "max_non_split_rounding_mb",
	  .help = "what an uncut block may have too much",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct torch, opt.max_non_split_rounding_mb),
	  .default_text = "20",
	  .min = 20,
	  .max = 1 << 24 },
	{ .name = "roundup_power2_divisions",
	  .help = "steps in each doubling to round up to: N, or [256:1,512:2,>:4] (keys: MiB)",
	  .type = GP_OPTION_TEXT,
	  .offset = offsetof(struct torch, opt.divisions),
	  .default_text = "0" },
	{ .name = "garbage_collection_threshold",
	  .help = "part of the limit from which old segments are given back (0: never)",
	  .type = GP_OPTION_FRACTION,
	  .offset = offsetof(struct torch, opt.gc_threshold),
	  .default_text = "0" },
	{ .name = "expandable_segments",
	  .help = "segments grow page by page",
	  .type = GP_OPTION_BOOL,
	  .offset = offsetof(struct torch, opt.expandable),
	  .default_text = "false" },
	{ .name = "large_segment_size_mb",
	  .help = "segment that requests of 1 to 10 MiB share",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct torch, opt.large_segment_size_mb),
	  .default_text = "20",
	  .min = 11,
	  .max = 1 << 19 },
	{ .name = "per_process_memory_fraction",
	  .help = "of the card: memory that may be reserved",
	  .type = GP_OPTION_FRACTION,
	  .offset = offsetof(struct torch, opt.memory_fraction),
	  .default_text = "1" },
	{ .name = "limit",
	  .help = "the same in bytes (0: none)",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct torch, opt.limit),
	  .default_text = "0",
	  .max = GP_SIZE_MAX },
	{ .name = "lookup_after_flush",
	  .help = "look for a free block again after the flush (proposed for PyTorch)",
	  .type = GP_OPTION_BOOL,
	  .offset = offsetof(struct torch, opt.lookup_after_flush),
	  .default_text = "false" },
	{ .name = "torch_version",
	  .help = "PyTorch release to behave as",
	  .type = GP_OPTION_TEXT,
	  .offset = offsetof(struct torch, opt.version),
	  .default_text = "2.11" },
	{ .name = NULL },
};

/* ---- roundup_power2_divisions ---- */

static const char bad_value[] = "For roundups, the divisions has to be power of 2";

/* A number up to 2^31 at *p, which moves behind it. */
static bool torch_number(const char **p, uint32_t *out)
{
	char *end;
	unsigned long v;

	if (!isdigit((unsigned char)**p))
		return false;
	errno = 0;
	v = strtoul(*p, &end, 10);
	*p = end;
	*out = (uint32_t)v;
	return !errno && v <= UINT32_C(1) << 31;
}

/* "256:1,512:2,>:4]": the first pair also sets all slots before its own, ">" those after the last
 * one, which up to PyTorch 2.8 meant with the last one. */
static const char *torch_parse_list(const char *p, bool overwrites_last,
				    uint32_t divisions[TORCH_DIVISIONS])
{
	uint32_t slot = 0, key = 0, value;
	bool first = true;

	while (*p != ']') {
		bool rest = *p == '>';

		if (rest)
			p++;
		else if (!torch_number(&p, &key))
			return "expected a size in MiB, or >, before each :";
		else if (!gp_is_pow2(key))
			return "For roundups, the intervals have to be power of 2";
		if (*p++ != ':')
			return "expected pairs such as 256:4";
		if (!torch_number(&p, &value) || (value && !gp_is_pow2(value)))
			return "For roundups, the divisions has to be power of 2 or 0 to disable "
			       "roundup";
		if (!rest) {
			slot = (uint32_t)gp_min_u64(gp_floor_log2(key), TORCH_DIVISIONS - 1);
			for (uint32_t i = 0; i < slot && first; i++)
				divisions[i] = value;
			divisions[slot] = value;
			first = false;
		}
		for (uint32_t i = overwrites_last ? slot : slot + 1; rest && i < TORCH_DIVISIONS;
		     i++)
			divisions[i] = value;
		if (*p == ',' && p[1] != ']')
			p++;
		else if (*p != ']')
			return "expected , or ] after a pair";
	}
	return p[1] ? "expected nothing after ]" : NULL;
}

const char *torch_parse_divisions(const char *text, bool overwrites_last,
				  uint32_t divisions[TORCH_DIVISIONS])
{
	uint32_t value;

	memset(divisions, 0, TORCH_DIVISIONS * sizeof(*divisions));
	if (*text == '[')
		return torch_parse_list(text + 1, overwrites_last, divisions);
	if (!torch_number(&text, &value) || *text || (value && !gp_is_pow2(value)))
		return bad_value;
	for (unsigned i = 0; i < TORCH_DIVISIONS; i++)
		divisions[i] = value;
	return NULL;
}

/* ---- the whole ---- */

/* "2.11", "2.11.0+cu130": its minor number; UINT32_MAX: not one of PyTorch 2's. */
static uint32_t torch_minor(const char *version)
{
	uint32_t minor;

	if (strncmp(version, "2.", 2))
		return UINT32_MAX;
	version += 2;
	if (!torch_number(&version, &minor) || minor > MINOR_MAX || (*version && *version != '.'))
		return UINT32_MAX;
	return minor;
}

/* What is there only since a certain release. */
static int torch_check_version(struct gp_allocator *a, uint32_t minor)
{
	const struct torch_options *o = &((struct torch *)gp_state(a))->opt;

	if (minor == UINT32_MAX)
		return gp_allocator_why(
			a, -EINVAL, "torch_version=%.40s: expected one such as 2.11", o->version);
	if (o->expandable && minor < 1)
		return gp_allocator_why(a, -EINVAL, "expandable_segments: since PyTorch 2.1");
	if (o->max_non_split_rounding_mb != FIXED_ROUNDING_MB && minor < 6)
		return gp_allocator_why(a, -EINVAL, "max_non_split_rounding_mb: since PyTorch 2.6");
	if (o->large_segment_size_mb != TORCH_LARGE_MB && minor < 11)
		return gp_allocator_why(a, -EINVAL, "large_segment_size_mb: since PyTorch 2.11");
	return 0;
}

static int torch_check_values(struct gp_allocator *a)
{
	const struct torch_options *o = &((struct torch *)gp_state(a))->opt;

	if (o->max_split_size_mb && o->max_split_size_mb < o->large_segment_size_mb)
		return gp_allocator_why(a, -EINVAL,
					"max_split_size_mb=%llu: too small, must be >= %llu",
					(unsigned long long)o->max_split_size_mb,
					(unsigned long long)o->large_segment_size_mb);
	if (o->gc_threshold >= 1)
		return gp_allocator_why(a, -EINVAL,
					"garbage_collection_threshold=1: expected a "
					"number below 1, such as 0.8");
	if (o->limit && o->memory_fraction < 1)
		return gp_allocator_why(a, -EINVAL,
					"limit and per_process_memory_fraction are two "
					"ways to say the same: expected one of them");
	return 0;
}

int torch_configure(struct gp_allocator *a)
{
	struct torch *s = gp_state(a);
	const struct torch_options *o = &s->opt;
	uint32_t minor = torch_minor(o->version);
	int r = torch_check_version(a, minor);
	const char *fault;

	if (!r)
		r = torch_check_values(a);
	if (r)
		return r;
	fault = torch_parse_divisions(o->divisions, minor < 9, s->division_of);
	if (fault)
		return gp_allocator_why(a, -EINVAL, "roundup_power2_divisions=%.40s: %s",
					o->divisions, fault);
	s->max_split = o->max_split_size_mb ? o->max_split_size_mb * GP_MIB : UINT64_MAX;
	s->max_non_split_rounding = o->max_non_split_rounding_mb * GP_MIB;
	s->large_segment = o->large_segment_size_mb * GP_MIB;
	s->limit = o->limit ? o->limit : UINT64_MAX;
	if (o->memory_fraction < 1)
		s->limit = (uint64_t)(o->memory_fraction * (double)a->dev->info.total_bytes);
	s->gc_trigger = UINT64_MAX;
	if (s->limit != UINT64_MAX && o->gc_threshold > 0)
		s->gc_trigger = (uint64_t)(o->gc_threshold * (double)s->limit);
	return 0;
}
