/* SPDX-License-Identifier: Apache-2.0
 *
 * registry: the list of allocators that Meson generates, and turning a text such as
 * "buddy:min_block=512,grow=chunk" into a live allocator.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "option_value.h"

#define GP_ALLOCATOR(name) extern const struct gp_allocator_ops gp_##name##_ops;
#include "allocator_list.inc"
#undef GP_ALLOCATOR

static const struct gp_allocator_ops *const registry[] = {
#define GP_ALLOCATOR(name) &gp_##name##_ops,
#include "allocator_list.inc"
#undef GP_ALLOCATOR
};

size_t gp_allocator_count(void)
{
	return GP_ARRAY_LEN(registry);
}

const struct gp_allocator_ops *gp_allocator_at(size_t i)
{
	return i < GP_ARRAY_LEN(registry) ? registry[i] : NULL;
}

const struct gp_allocator_ops *gp_allocator_find(const char *name)
{
	for (size_t i = 0; i < GP_ARRAY_LEN(registry); i++)
		if (!strcmp(registry[i]->name, name))
			return registry[i];
	return NULL;
}

const struct gp_allocator_ops *gp_allocator_named_by(const char *spec)
{
	size_t n = strcspn(spec, ":");

	for (size_t i = 0; i < GP_ARRAY_LEN(registry); i++)
		if (strlen(registry[i]->name) == n && !memcmp(registry[i]->name, spec, n))
			return registry[i];
	return NULL;
}

/* ---- the nearest known word, for suggestions ---- */

#define WORD_MAX 32

/* Levenshtein distance (V. I. Levenshtein 1966), one row at a time. */
static unsigned registry_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned row[WORD_MAX + 1];

	if (la > WORD_MAX || lb > WORD_MAX)
		return UINT32_MAX;
	for (size_t j = 0; j <= lb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[lb];
}

/* Keeps in *best the candidate nearest to word, if it is near enough to be what was meant. */
static void registry_nearer(const char *word, const char *candidate, const char **best,
			    unsigned *best_distance)
{
	unsigned d = registry_distance(word, candidate);
	size_t n = strlen(word);
	bool prefix = n >= 2 && !strncmp(word, candidate, n);

	if (prefix)
		d = d ? 1 : 0;
	if (d < *best_distance && (d <= 2 || (d == 3 && n > 6))) {
		*best = candidate;
		*best_distance = d;
	}
}

const char *gp_nearest_word(const char *word, const char *const *words)
{
	const char *best = NULL;
	unsigned distance = UINT32_MAX;

	for (; *words; words++)
		registry_nearer(word, *words, &best, &distance);
	return best;
}

const char *gp_allocator_nearest(const char *name)
{
	const char *best = NULL;
	unsigned distance = UINT32_MAX;

	for (size_t i = 0; i < GP_ARRAY_LEN(registry); i++)
		registry_nearer(name, registry[i]->name, &best, &distance);
	return best;
}

static const char *registry_nearest_option(const struct gp_option *options, const char *name)
{
	const char *best = NULL;
	unsigned distance = UINT32_MAX;

	for (const struct gp_option *o = options; o && o->name; o++)
		registry_nearer(name, o->name, &best, &distance);
	return best;
}

/* ---- options ---- */

/* "key=value" out of the user's list. */
static int registry_set_pair(struct gp_allocator *a, char *pair, char *why, size_t why_size)
{
	char *value = strchr(pair, '=');
	const struct gp_option *o = a->ops->options;
	const char *nearest;

	if (!value || value == pair)
		return gp_option_refuse(why, why_size, "%s: \"%s\": expected key=value",
					a->ops->name, pair);
	*value++ = '\0';
	while (o && o->name && strcmp(o->name, pair))
		o++;
	if (o && o->name)
		return gp_option_set(o, value, a->state + o->offset, a->ops->name, why, why_size);
	nearest = registry_nearest_option(a->ops->options, pair);
	return gp_option_refuse(why, why_size, "%s: unknown option \"%s\"%s%s%s", a->ops->name,
				pair, nearest ? ", did you mean \"" : "; --list shows the options",
				nearest ? nearest : "", nearest ? "\"?" : "");
}

/* Cuts the first pair off the list; commas inside [brackets] are part of a value. NULL: no more. */
static char *registry_next_pair(char **rest)
{
	char *pair = *rest, *p;
	int depth = 0;

	if (!pair)
		return NULL;
	for (p = pair; *p && (*p != ',' || depth > 0); p++)
		depth += (*p == '[') - (*p == ']');
	*rest = *p ? p + 1 : NULL;
	*p = '\0';
	return pair;
}

static int registry_set_all(struct gp_allocator *a, char *pairs, char *why, size_t why_size)
{
	int r = 0;

	for (const struct gp_option *o = a->ops->options; o && o->name && !r; o++)
		r = gp_option_set(o, o->default_text, a->state + o->offset, a->ops->name, why,
				  why_size);
	if (!pairs || r)
		return r;
	for (char *p; !r && (p = registry_next_pair(&pairs));)
		r = registry_set_pair(a, p, why, why_size);
	return r;
}

/* ---- creating and destroying ---- */

static int registry_unknown(const char *name, char *why, size_t why_size)
{
	const char *nearest = gp_allocator_nearest(name);

	return gp_option_refuse(why, why_size, "unknown allocator \"%s\"%s%s%s", name,
				nearest ? ", did you mean \"" : "; --list shows them all",
				nearest ? nearest : "", nearest ? "\"?" : "");
}

/* An allocator with its options set and nothing else done. */
static int registry_prepare(const char *spec, struct gp_allocator **out, char *why, size_t why_size)
{
	char *text = strdup(spec), *pairs = text ? strchr(text, ':') : NULL;
	const struct gp_allocator_ops *ops;
	struct gp_allocator *a = NULL;
	int r = -ENOMEM;

	if (!text)
		return -ENOMEM;
	if (pairs)
		*pairs++ = '\0';
	ops = gp_allocator_find(text);
	if (!ops) {
		r = registry_unknown(text, why, why_size);
		goto out;
	}
	a = aligned_alloc(_Alignof(struct gp_allocator),
			  gp_align_up(sizeof(*a) + ops->state_size, _Alignof(struct gp_allocator)));
	if (!a)
		goto out;
	memset(a, 0, sizeof(*a) + ops->state_size);
	a->ops = ops;
	r = registry_set_all(a, pairs, why, why_size);
	if (r) {
		free(a);
		a = NULL;
	}
out:
	free(text);
	*out = a;
	return r;
}

/* Runs init; on failure frees the allocator and explains. */
static int registry_start(struct gp_allocator *a, struct gp_allocator **out, char *why,
			  size_t why_size)
{
	int r = a->ops->init(a);

	if (!r) {
		*out = a;
		return 0;
	}
	if (why && why_size)
		snprintf(why, why_size, "%s: %s", a->ops->name,
			 a->why[0] ? a->why : gp_result_text(r));
	if (a->ops->caps & GP_CAP_DECORATOR)
		gp_allocator_destroy(a->inner);
	free(a);
	return r;
}

/* Instances that serve the threads of env; 0: it needs none of `threads`. */
static unsigned registry_arenas(const struct gp_allocator *a, const struct gp_env *env)
{
	unsigned n;

	if (!env || env->threads < 2 || a->ops->caps & GP_CAP_CONCURRENT)
		return 0;
	if (!(a->ops->caps & GP_CAP_ARENAS))
		return 1;
	n = env->arenas ? env->arenas : env->threads;
	return n < GP_ARENAS_MAX ? n : GP_ARENAS_MAX;
}

/* `first` is one of n: makes the others and puts `threads` over them all. */
static int registry_spread(const char *spec, struct gp_allocator *first, unsigned n,
			   const struct gp_env *env, struct gp_allocator **out, char *why,
			   size_t why_size)
{
	struct gp_allocator *last = first;
	struct gp_env alike = first->env;
	int r = 0;

	alike.sparing = NULL; /* each has its own */
	for (unsigned i = 1; i < n && !r; i++) {
		r = gp_allocator_create(spec, first->dev, &alike, &last->twin, why, why_size);
		if (!r)
			last = last->twin;
	}
	if (r) {
		gp_allocator_destroy(first);
		return r;
	}
	r = gp_allocator_wrap("threads", first, out, why, why_size);
	if (!r)
		(*out)->env = *env;
	return r;
}

int gp_allocator_create(const char *spec, struct gp_device *dev, const struct gp_env *env,
			struct gp_allocator **out, char *why, size_t why_size)
{
	struct gp_allocator *a;
	unsigned arenas;
	int r = registry_prepare(spec, &a, why, why_size);

	*out = NULL;
	if (r)
		return r;
	if (a->ops->caps & GP_CAP_DECORATOR) {
		r = gp_option_refuse(why, why_size,
				     "%s wraps another allocator: use it with --wrap=%s",
				     a->ops->name, a->ops->name);
		free(a);
		return r;
	}
	if (a->ops->caps & GP_CAP_OFFLINE && env && env->threads > 1) {
		r = gp_option_refuse(why, why_size,
				     "%s: requests come in one order: for one thread",
				     a->ops->name);
		free(a);
		return r;
	}
	a->dev = dev;
	if (env)
		a->env = *env;
	arenas = registry_arenas(a, env);
	if (arenas) {
		a->env.threads = 1;
		a->env.share = arenas;
	}
	/* One of several is told when to be sparing; what it is made of, with it. */
	if (a->env.share && !a->env.sparing)
		a->env.sparing = &a->sparing;
	r = registry_start(a, &a, why, why_size);
	if (!r && arenas)
		return registry_spread(spec, a, arenas, env, out, why, why_size);
	if (!r)
		*out = a;
	return r;
}

int gp_allocator_create_under(const char *spec, struct gp_allocator *parent,
			      struct gp_allocator **out, char *why, size_t why_size)
{
	struct gp_allocator *a;
	int r = registry_prepare(spec, &a, why, why_size);

	*out = NULL;
	if (r)
		return r;
	if (!(a->ops->caps & GP_CAP_TIER)) {
		r = gp_option_refuse(why, why_size, "%s can't be a tier below another allocator",
				     a->ops->name);
		free(a);
		return r;
	}
	a->dev = parent->dev;
	a->env = parent->env;
	a->inner = parent;
	return registry_start(a, out, why, why_size);
}

int gp_allocator_wrap(const char *spec, struct gp_allocator *inner, struct gp_allocator **out,
		      char *why, size_t why_size)
{
	struct gp_allocator *a;
	int r = registry_prepare(spec, &a, why, why_size);

	*out = NULL;
	if (!r && !(a->ops->caps & GP_CAP_DECORATOR)) {
		r = gp_option_refuse(why, why_size, "%s does not wrap another allocator",
				     a->ops->name);
		free(a);
	}
	if (r) {
		gp_allocator_destroy(inner);
		return r;
	}
	a->dev = inner->dev;
	a->env = inner->env;
	a->inner = inner;
	return registry_start(a, out, why, why_size);
}

struct gp_allocator *gp_allocator_destroy(struct gp_allocator *a)
{
	if (!a)
		return NULL;
	a->ops->fini(a);
	if (a->ops->caps & GP_CAP_DECORATOR)
		gp_allocator_destroy(a->inner);
	gp_allocator_destroy(a->twin);
	free(a);
	return NULL;
}

/* ---- the rest of allocator.h ---- */

int gp_allocator_why(struct gp_allocator *a, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(a->why, sizeof(a->why), fmt, ap);
	va_end(ap);
	return err;
}

const char *gp_result_text(int r)
{
	switch (r) {
	case GP_OK:
		return "ok";
	case GP_NOMEM:
		return "out of device memory";
	case GP_REFUSED:
		return "refused by the allocator";
	case GP_HELD:
		return "held by another stream";
	case -EINVAL:
		return "not a block of this allocator";
	case -EALREADY:
		return "freed twice";
	case -EILSEQ:
		return "an invariant is broken";
	case -E2BIG:
		return "more streams than a pool keeps apart (streams=ignore takes any number)";
	}
	return r < 0 ? strerror(-r) : "unknown outcome";
}

bool gp_can_defer(const struct gp_allocator *a)
{
	if (!a->ops->defer || !a->ops->complete)
		return false;
	return !(a->ops->caps & GP_CAP_DECORATOR) || gp_can_defer(a->inner);
}

bool gp_fills(const struct gp_allocator *a)
{
	while (a && !a->fills)
		a = a->inner;
	return a != NULL;
}

int gp_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	uint64_t unused = 0;

	return a->ops->trim ? a->ops->trim(a, keep, released ? released : &unused) : 0;
}

int gp_check(const struct gp_allocator *a, FILE *why)
{
	return a->ops->check ? a->ops->check(a, why) : 0;
}

int gp_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	return a->ops->walk ? a->ops->walk(a, fn, arg) : -ENOTSUP;
}
