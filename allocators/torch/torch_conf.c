/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_conf: see torch_conf.h. The syntax and the ranges are looked at here, in PyTorch's words
 * where it has some; what settings mean together is torch_option.c's.
 *
 *   max_split_size_mb:128, roundup_power2_divisions:[256:1,512:2,>:4]
 *   key               value key                    list
 */
#include "torch_conf.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch_state.h"

#define CONF_MAX 400 /* characters; what is longer is not meant seriously */

enum conf_type {
	CONF_MB,       /* a number of at least `min`          */
	CONF_INSIDE,   /* a number between 0 and 1, not those */
	CONF_FRACTION, /* those too                           */
	CONF_BOOL,     /* True or False                       */
	CONF_STEPS,    /* a number or a list                  */
	CONF_BACKEND,
	CONF_ANY,
};

/* Known to PyTorch. */
struct conf_key {
	const char *name;
	enum conf_type type;
	uint32_t min;
	const char *idle; /* why it changes nothing here; NULL: it is a setting of `torch` */
};

static const char host_only[] = "is about host memory";
static const char timing_only[] = "changes when, not what";

static const struct conf_key conf_keys[] = {
	{ "max_split_size_mb", CONF_MB, 20, NULL },
	{ "max_non_split_rounding_mb", CONF_MB, 20, NULL },
	{ "roundup_power2_divisions", CONF_STEPS, 0, NULL },
	{ "garbage_collection_threshold", CONF_INSIDE, 0, NULL },
	{ "expandable_segments", CONF_BOOL, 0, NULL },
	{ "large_segment_size_mb", CONF_MB, 11, NULL },
	{ "per_process_memory_fraction", CONF_FRACTION, 0, NULL },
	{ "backend", CONF_BACKEND, 0, "is what is modelled" },
	{ "release_lock_on_cudamalloc", CONF_BOOL, 0, timing_only },
	{ "release_lock_on_hipmalloc", CONF_BOOL, 0, timing_only },
	{ "graph_capture_record_stream_reuse", CONF_BOOL, 0, "is about captures" },
	{ "throw_on_cudamalloc_oom", CONF_BOOL, 0, "is not modelled" },
	{ "expandable_segments_reserve", CONF_ANY, 0, "is not modelled" },
	{ "expandable_segments_reserve_by_class", CONF_ANY, 0, "is not modelled" },
	{ "pinned_use_cuda_host_register", CONF_BOOL, 0, host_only },
	{ "pinned_use_hip_host_register", CONF_BOOL, 0, host_only },
	{ "pinned_use_background_threads", CONF_BOOL, 0, host_only },
	{ "pinned_num_register_threads", CONF_MB, 1, host_only },
	{ "pinned_reserve_segment_size_mb", CONF_MB, 0, host_only },
	{ "pinned_max_round_size_mb", CONF_MB, 0, host_only },
	{ "pinned_max_cached_size_mb", CONF_MB, 0, host_only },
	{ "pinned_free_catch_all", CONF_BOOL, 0, host_only },
};

static int conf_refuse(struct gp_torch_conf *out, const char *fmt, ...) GP_PRINTF(2, 3);

static int conf_refuse(struct gp_torch_conf *out, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out->why, sizeof(out->why), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static void conf_note(struct gp_torch_conf *out, const char *key, const char *text)
{
	size_t n = strlen(out->notes);

	snprintf(out->notes + n, sizeof(out->notes) - n, "%s%s %s", n ? "; " : "", key, text);
}

/* ---- keys ---- */

static const struct conf_key *conf_find(const char *name)
{
	for (size_t i = 0; i < GP_ARRAY_LEN(conf_keys); i++)
		if (!strcmp(conf_keys[i].name, name))
			return &conf_keys[i];
	return NULL;
}

static int conf_unknown(struct gp_torch_conf *out, const char *name)
{
	const char *names[GP_ARRAY_LEN(conf_keys) + 1] = { NULL }, *nearest;

	for (size_t i = 0; i < GP_ARRAY_LEN(conf_keys); i++)
		names[i] = conf_keys[i].name;
	nearest = gp_nearest_word(name, names);
	return conf_refuse(out, "Unrecognized CachingAllocator option: %.40s%s%s%s", name,
			   nearest ? ", did you mean " : "", nearest ? nearest : "",
			   nearest ? "?" : "");
}

/* ---- values ---- */

static int conf_check_mb(struct gp_torch_conf *out, const struct conf_key *key, const char *value)
{
	char *end = NULL;
	unsigned long long v;

	errno = 0;
	v = isdigit((unsigned char)*value) ? strtoull(value, &end, 10) : 0;
	if (!end || *end || errno)
		return conf_refuse(out, "%s:%.40s: expected a whole number, such as %u", key->name,
				   value, key->min ? key->min : 1);
	if (v < key->min)
		return conf_refuse(out, "CachingAllocator option %s too small, must be >= %u",
				   key->name, key->min);
	return 0;
}

static int conf_check_fraction(struct gp_torch_conf *out, const struct conf_key *key,
			       const char *value)
{
	bool inside = key->type == CONF_INSIDE;
	char *end = NULL;
	double v = isdigit((unsigned char)*value) || *value == '.' ? strtod(value, &end) : -1;

	if (end && end != value && !*end && v >= 0 && v <= 1 && !(inside && (v <= 0 || v >= 1)))
		return 0;
	return conf_refuse(out, "%s:%.40s is invalid, set it in %s", key->name, value,
			   inside ? "(0.0, 1.0)" : "[0.0, 1.0]");
}

static int conf_check_steps(struct gp_torch_conf *out, const struct conf_key *key,
			    const char *value)
{
	uint32_t divisions[TORCH_DIVISIONS];
	const char *fault = torch_parse_divisions(value, false, divisions);

	/* 0 turns it off inside a list only. */
	if (!fault && *value != '[' && !divisions[0])
		fault = "For roundups, the divisions has to be power of 2";
	if (!fault && strlen(value) >= GP_OPTION_TEXT_MAX)
		fault = "expected a shorter list";
	return fault ? conf_refuse(out, "%s:%.40s: %s", key->name, value, fault) : 0;
}

static int conf_check(struct gp_torch_conf *out, const struct conf_key *key, const char *value)
{
	if (!*value)
		return conf_refuse(out, "Error, expecting %s value", key->name);
	if (*value == '[' && key->type != CONF_STEPS && key->type != CONF_ANY)
		return conf_refuse(out, "%s:%.40s: expected one value, no list", key->name, value);
	switch (key->type) {
	case CONF_MB:
		return conf_check_mb(out, key, value);
	case CONF_INSIDE:
	case CONF_FRACTION:
		return conf_check_fraction(out, key, value);
	case CONF_STEPS:
		return conf_check_steps(out, key, value);
	case CONF_BOOL:
		if (!strcmp(value, "True") || !strcmp(value, "False"))
			return 0;
		return conf_refuse(out, "Expected a single True/False argument for %s", key->name);
	case CONF_BACKEND:
		if (!strcmp(value, "native"))
			return 0;
		if (!strcmp(value, "cudaMallocAsync"))
			return conf_refuse(out, "backend:cudaMallocAsync: the driver's allocator, "
						"which is not modelled; expected native");
		return conf_refuse(out, "Unknown allocator backend, options are native and "
					"cudaMallocAsync");
	case CONF_ANY:
		break;
	}
	return 0;
}

/* ---- the whole ---- */

static int conf_add(struct gp_torch_conf *out, const char *key, const char *value)
{
	size_t n = strlen(out->spec);
	int m;

	if (!strcmp(value, "True") || !strcmp(value, "False"))
		value = *value == 'T' ? "true" : "false";
	m = snprintf(out->spec + n, sizeof(out->spec) - n, "%c%s=%s",
		     strchr(out->spec, ':') ? ',' : ':', key, value);
	return m < (int)(sizeof(out->spec) - n) ? 0 : conf_refuse(out, "expected a shorter text");
}

static int conf_pair(struct gp_torch_conf *out, char *pair)
{
	char *value = strchr(pair, ':');
	const struct conf_key *key;
	int r;

	if (value)
		*value++ = '\0';
	key = conf_find(pair);
	if (!key)
		return conf_unknown(out, pair);
	if (!value)
		return conf_refuse(out,
				   "Error parsing CachingAllocator settings, expected : after "
				   "%s",
				   pair);
	r = conf_check(out, key, value);
	if (r)
		return r;
	if (!key->idle)
		return conf_add(out, pair, value);
	conf_note(out, pair, key->idle);
	return 0;
}

/* The text without its spaces. */
static bool conf_squeeze(const char *conf, char text[CONF_MAX])
{
	size_t n = 0;

	for (; *conf; conf++) {
		if (*conf == ' ')
			continue;
		if (n + 1 == CONF_MAX)
			return false;
		text[n++] = *conf;
	}
	text[n] = '\0';
	return true;
}

/* Cuts the first pair off; commas inside [brackets] are part of a value. */
static char *conf_next(char **rest)
{
	char *pair = *rest, *p;
	int depth = 0;

	for (p = pair; *p && (*p != ',' || depth > 0); p++)
		depth += (*p == '[') - (*p == ']');
	*rest = *p ? p + 1 : p;
	*p = '\0';
	return pair;
}

int gp_torch_conf_parse(const char *base, const char *conf, struct gp_torch_conf *out)
{
	char text[CONF_MAX], *rest = text;
	int r = 0;

	*out = (struct gp_torch_conf){ 0 };
	if (!base)
		base = "torch";
	if (strlen(base) >= sizeof(out->spec) || !conf_squeeze(conf, text))
		return conf_refuse(out, "expected a shorter text");
	strcpy(out->spec, base);
	while (*rest && !r)
		r = conf_pair(out, conf_next(&rest));
	if (!r && strstr(out->spec, "garbage_collection_threshold=") &&
	    !strstr(out->spec, "limit=") && !strstr(out->spec, "per_process_memory_fraction="))
		conf_note(out, "garbage_collection_threshold",
			  "does nothing without a memory limit (limit=BYTES)");
	return r;
}
