/* SPDX-License-Identifier: Apache-2.0
 *
 * option_value: see option_value.h.
 */
#include "option_value.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* log2 of the unit that a size ends in; -1 when it is none. */
static int option_unit(const char *unit)
{
	static const char letters[] = "KMGT";

	if (!*unit || !strcmp(unit, "B"))
		return 0;
	for (int i = 0; letters[i]; i++) {
		if (toupper((unsigned char)unit[0]) != letters[i])
			continue;
		if (!unit[1] || !strcmp(unit + 1, "iB") || !strcmp(unit + 1, "ib"))
			return 10 * (i + 1);
	}
	return -1;
}

bool gp_parse_size(const char *text, uint64_t *out)
{
	uint64_t whole = 0;
	double fraction = 0, place = 0.1;
	const char *p = text;

	if (!isdigit((unsigned char)*p))
		return false;
	for (; isdigit((unsigned char)*p); p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (whole > (UINT64_MAX - digit) / 10)
			return false;
		whole = whole * 10 + digit;
	}
	if (*p == '.') {
		if (!isdigit((unsigned char)*++p))
			return false;
		for (; isdigit((unsigned char)*p); p++, place /= 10)
			fraction += place * (*p - '0');
	}
	int lg = option_unit(p);

	if (lg < 0 || (fraction > 0 && !lg) || whole > UINT64_MAX >> lg)
		return false;
	whole <<= lg;
	uint64_t part = (uint64_t)(fraction * (double)(UINT64_C(1) << lg) + 0.5);

	if (whole > UINT64_MAX - part)
		return false;
	*out = whole + part;
	return true;
}

int gp_option_refuse(char *why, size_t why_size, const char *fmt, ...)
{
	va_list ap;

	if (why && why_size) {
		va_start(ap, fmt);
		vsnprintf(why, why_size, fmt, ap);
		va_end(ap);
	}
	return -EINVAL;
}

static bool option_parse_bool(const char *text, bool *out)
{
	static const char *const words[][2] = {
		{ "false", "true" }, { "no", "yes" }, { "0", "1" }, { "off", "on" }
	};

	for (size_t i = 0; i < GP_ARRAY_LEN(words); i++)
		for (int v = 0; v < 2; v++)
			if (!strcmp(text, words[i][v])) {
				*out = v;
				return true;
			}
	return false;
}

static int option_set_number(const struct gp_option *o, const char *text, uint64_t *value,
			     const char *owner, char *why, size_t why_size)
{
	bool size = o->type == GP_OPTION_SIZE;
	uint64_t v = 0, max = o->max ? o->max : UINT64_MAX;
	char *end = NULL;
	bool ok;

	if (size) {
		ok = gp_parse_size(text, &v);
	} else {
		errno = 0;
		v = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
		ok = end && !*end && !errno;
	}
	if (!ok)
		return gp_option_refuse(why, why_size, "%s: %s=%s: expected a %s, such as %s",
					owner, o->name, text, size ? "size" : "number",
					size ? "64K or 2MiB" : "16");
	if (v < o->min || v > max)
		return gp_option_refuse(why, why_size, "%s: %s=%s: expected %llu to %llu%s", owner,
					o->name, text, (unsigned long long)o->min,
					(unsigned long long)max, size ? " bytes" : "");
	if (o->pow2 && v && !gp_is_pow2(v))
		return gp_option_refuse(why, why_size, "%s: %s=%s: expected a power of two", owner,
					o->name, text);
	*value = v;
	return 0;
}

static int option_set_choice(const struct gp_option *o, const char *text, unsigned *value,
			     const char *owner, char *why, size_t why_size)
{
	char list[96] = "";

	for (unsigned i = 0; o->choices[i]; i++) {
		size_t n = strlen(list);

		if (!strcmp(text, o->choices[i])) {
			*value = i;
			return 0;
		}
		snprintf(list + n, sizeof(list) - n, "%s%s", i ? " or " : "", o->choices[i]);
	}
	return gp_option_refuse(why, why_size, "%s: %s=%s: expected %s", owner, o->name, text,
				list);
}

static int option_set_fraction(const struct gp_option *o, const char *text, double *value,
			       const char *owner, char *why, size_t why_size)
{
	char *end = NULL;
	double v = isdigit((unsigned char)*text) || *text == '.' ? strtod(text, &end) : -1;

	if (!end || *end || !(v >= 0 && v <= 1))
		return gp_option_refuse(why, why_size,
					"%s: %s=%s: expected a number from 0 to 1, "
					"such as 0.8",
					owner, o->name, text);
	*value = v;
	return 0;
}

static int option_set_text(const struct gp_option *o, const char *text, char *value,
			   const char *owner, char *why, size_t why_size)
{
	size_t n = strlen(text);

	if (n >= GP_OPTION_TEXT_MAX)
		return gp_option_refuse(why, why_size, "%s: %s: expected at most %d characters",
					owner, o->name, GP_OPTION_TEXT_MAX - 1);
	memcpy(value, text, n + 1);
	return 0;
}

int gp_option_set(const struct gp_option *o, const char *text, void *value, const char *owner,
		  char *why, size_t why_size)
{
	switch (o->type) {
	case GP_OPTION_SIZE:
	case GP_OPTION_COUNT:
		return option_set_number(o, text, value, owner, why, why_size);
	case GP_OPTION_BOOL:
		if (option_parse_bool(text, value))
			return 0;
		return gp_option_refuse(why, why_size, "%s: %s=%s: expected true or false", owner,
					o->name, text);
	case GP_OPTION_CHOICE:
		return option_set_choice(o, text, value, owner, why, why_size);
	case GP_OPTION_FRACTION:
		return option_set_fraction(o, text, value, owner, why, why_size);
	case GP_OPTION_TEXT:
		return option_set_text(o, text, value, owner, why, why_size);
	}
	return -EINVAL;
}
