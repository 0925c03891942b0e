/* SPDX-License-Identifier: Apache-2.0
 *
 * cli_text: sizes, times and numbers as people read them, and when colour is welcome, and
 * how wide a terminal is.
 *
 * Shape     three significant digits and a unit: the eye compares magnitudes, and a fourth digit
 *           of a measured time is noise. Exact values are in the result document.
 * Threads   any
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "allocators/base.h"
#include "cli.h"

#define TEXT_SIZE 32u

struct unit {
	const char *name;
	double step; /* this many make one of the next; the last has none */
};

/* x in the first unit of the table, as "1.23 name". */
static const char *scale(char *buf, double x, const struct unit *unit)
{
	/* Compared after rounding, so that 1023.9 KiB reads 1.00 MiB and never 1024 KiB. */
	while (unit->step > 0 && round(x) >= unit->step) {
		x /= unit->step;
		unit++;
	}
	/* A whole number is exact: no digits that say otherwise. */
	if (x == floor(x))
		snprintf(buf, TEXT_SIZE, "%.0f %s", x, unit->name);
	else
		snprintf(buf, TEXT_SIZE, "%.*f %s",
			 x < 9.995   ? 2
			 : x < 99.95 ? 1
				     : 0,
			 x, unit->name);
	return buf;
}

const char *cli_bytes(char *buf, uint64_t bytes)
{
	static const struct unit units[] = { { "KiB", 1024 }, { "MiB", 1024 }, { "GiB", 1024 },
					     { "TiB", 1024 }, { "PiB", 1024 }, { "EiB", 0 } };

	/* Bytes are whole: no digits behind a point. */
	if (bytes < GP_KIB) {
		snprintf(buf, TEXT_SIZE, "%u B", (unsigned)bytes);
		return buf;
	}
	return scale(buf, (double)bytes / 1024, units);
}

const char *cli_time(char *buf, double ns)
{
	static const struct unit units[] = {
		{ "ns", 1000 }, { "us", 1000 }, { "ms", 1000 }, { "s", 0 }
	};

	if (!isfinite(ns)) {
		snprintf(buf, TEXT_SIZE, "-");
		return buf;
	}
	return scale(buf, ns, units);
}

const char *cli_number(char *buf, uint64_t n)
{
	char digits[TEXT_SIZE];
	size_t length = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	char *out = buf;

	for (size_t i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*out++ = ' ';
		*out++ = digits[i];
	}
	*out = '\0';
	return buf;
}

bool cli_colour(FILE *stream)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	/* https://no-color.org: present and not empty, whatever the value. */
	if (no_color && no_color[0])
		return false;
	return term && term[0] && strcmp(term, "dumb") != 0 && isatty(fileno(stream));
}

unsigned cli_columns(FILE *stream)
{
	struct winsize size = { 0 };

	return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}
