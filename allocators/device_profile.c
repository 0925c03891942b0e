/* SPDX-License-Identifier: Apache-2.0
 *
 * device_profile: reads a table of driver call costs and interpolates in it. The header says which
 * rows count and why.
 *
 * Invariants   a curve has 1 to GP_COST_POINTS points of ascending size, or none where its rows
 *              are optional and absent
 * Cost         a look-up scans at most 32 sizes and takes one logarithm: about 20 ns
 */
#include "device_profile.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A slower call than this, in microseconds, is a mistake in the table: 1000 s. */
#define US_MAX         1e9
#define LINE_MAX_BYTES 1024

/* Which rows make which curve: call name and the open interval of sizes. */
struct cost_rows {
	const char *call;
	uint64_t above, below;
	double assumed_ns; /* where no row is there; 0: such rows are needed */
	bool optional;     /* the device then lacks the calls */
	bool flat;         /* does not grow beyond the largest size measured */
};

static const struct cost_rows cost_rows[GP_COST_N] = {
	[GP_COST_MALLOC_SHARED] = { "cudaMalloc.held", 0, GP_MIB, .flat = true },
	[GP_COST_MALLOC_PAGES] = { "cudaMalloc.held", GP_MIB, UINT64_MAX, .flat = false },
	[GP_COST_FREE_SHARED] = { "cudaFree.held", 0, GP_MIB, .flat = true },
	[GP_COST_FREE_PAGES] = { "cudaFree.held", GP_MIB, UINT64_MAX, .flat = false },
	[GP_COST_ASYNC_WARM] = { "cudaMallocAsync.warm", 0, UINT64_MAX, .optional = true },
	[GP_COST_ASYNC_COLD] = { "cudaMallocAsync.cold", 0, UINT64_MAX, .optional = true },
	[GP_COST_ASYNC_FREE] = { "cudaFreeAsync.warm", 0, UINT64_MAX, .optional = true },
	[GP_COST_SYNC] = { "sync.warm", 0, UINT64_MAX, .assumed_ns = 700, .flat = true },
	[GP_COST_CREATE] = { "cuMemCreate", 0, UINT64_MAX, .optional = true },
	[GP_COST_MAP] = { "cuMemMap", 0, UINT64_MAX, .optional = true },
	[GP_COST_SET_ACCESS] = { "cuMemSetAccess", 0, UINT64_MAX, .optional = true },
	[GP_COST_UNMAP] = { "cuMemUnmap", 0, UINT64_MAX, .optional = true },
	[GP_COST_DESTROY] = { "cuMemRelease", 0, UINT64_MAX, .optional = true },
	/* Assumed: reserving and mapping 1 GiB took 140 us in all on an H200, of which the other
	 * three calls explain 141, so that an address range costs next to nothing. */
	[GP_COST_VA_RESERVE] = { "cuMemAddressReserve", 0, UINT64_MAX, .assumed_ns = 2000,
				 .flat = true },
	[GP_COST_VA_RELEASE] = { "cuMemAddressFree", 0, UINT64_MAX, .assumed_ns = 2000,
				 .flat = true },
	/* Assumed, not measured: both only write a command into the stream's queue, which on
	 * such hosts takes on the order of a microsecond. */
	[GP_COST_EVENT_RECORD] = { "cudaEventRecord", 0, UINT64_MAX, .assumed_ns = 1000,
				   .flat = true },
	[GP_COST_EVENT_WAIT] = { "cudaStreamWaitEvent", 0, UINT64_MAX, .assumed_ns = 1000,
				 .flat = true },
};

struct profile_parser {
	struct gp_profile *p;
	const char *file;
	unsigned line;
	char *why;
	size_t why_size;
};

static int profile_bad(const struct profile_parser *in, const char *what)
{
	snprintf(in->why, in->why_size, "%s:%u: %s", in->file, in->line, what);
	return -EINVAL;
}

static bool parse_u64(const char *text, uint64_t *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && (*end == '\0' || *end == ' ' || *end == '\n' || *end == '\r');
}

/* The number behind a word such as " total ". */
static bool number_after(const char *line, const char *word, uint64_t *out)
{
	const char *at = strstr(line, word);

	return at && parse_u64(at + strlen(word), out) && *out;
}

static int parse_comment(const struct profile_parser *in, const char *line)
{
	struct gp_profile *p = in->p;
	const char *driver = strstr(line, " driver ");
	uint64_t total, free_bytes;

	if (!strncmp(line, "# granularity ", 14)) {
		if (!number_after(line, " min ", &p->page_bytes) || p->page_bytes != 2 * GP_MIB)
			return profile_bad(in, "pages of another size than 2097152 bytes are not "
					       "simulated");
		return 0;
	}
	if (!driver || driver < line + 3 || !number_after(line, " free ", &free_bytes) ||
	    !number_after(line, " total ", &total))
		return 0; /* any other remark */
	if (free_bytes > total || total > GP_SIZE_MAX)
		return profile_bad(in, "memory sizes make no sense; expected free <= total");
	p->total_bytes = total;
	p->free_bytes = free_bytes;
	snprintf(p->card, sizeof(p->card), "%.*s", (int)(driver - line) - 2, line + 2);
	return 0;
}

static int curve_add(const struct profile_parser *in, struct gp_cost_curve *c, uint64_t size,
		     double us)
{
	if (c->n && c->at[c->n - 1].size >= size)
		return profile_bad(in, "sizes of one call must ascend");
	if (c->n == GP_COST_POINTS)
		return profile_bad(in, "too many sizes for one call; at most 32");
	c->at[c->n].size = size;
	c->at[c->n].lg_size = log2((double)size);
	c->at[c->n].ns = us * 1000.0;
	c->n++;
	return 0;
}

/* Cuts the line at its tabs; the number of fields, at most max. */
static unsigned split_fields(char *line, char **field, unsigned max)
{
	unsigned n = 0;

	line[strcspn(line, "\r\n")] = '\0';
	while (n < max) {
		field[n++] = line;
		line = strchr(line, '\t');
		if (!line)
			break;
		*line++ = '\0';
	}
	return n;
}

static int parse_row(const struct profile_parser *in, char *line)
{
	char *field[6], *end;
	uint64_t size;
	double us;
	int r = 0;

	if (split_fields(line, field, GP_ARRAY_LEN(field)) < 5)
		return profile_bad(in, "expected at least 5 fields: call, size, n, min, p50");
	if (!parse_u64(field[1], &size) || !size || size > GP_SIZE_MAX)
		return profile_bad(in, "bad size in field 2; expected bytes, at least 1");
	us = strtod(field[4], &end);
	if (end == field[4] || *end || !isfinite(us) || us < 0 || us > US_MAX)
		return profile_bad(in, "bad time in field 5; expected microseconds");
	for (unsigned i = 0; i < GP_COST_N && !r; i++) {
		const struct cost_rows *rows = &cost_rows[i];

		if (!strcmp(field[0], rows->call) && size > rows->above && size < rows->below)
			r = curve_add(in, &in->p->curves[i], size, us);
	}
	return r;
}

static int parse_line(struct profile_parser *in, char *line)
{
	in->line++;
	if (line[0] == '#')
		return parse_comment(in, line);
	if (line[0] == '\n' || line[0] == '\r' || line[0] == '\0')
		return 0;
	return parse_row(in, line);
}

/* All lines are read: is everything there? */
static int profile_finish(const struct profile_parser *in)
{
	struct gp_profile *p = in->p;

	if (!p->total_bytes) {
		snprintf(in->why, in->why_size,
			 "%s: no line '# NAME driver N runtime N free BYTES "
			 "total BYTES'",
			 in->file);
		return -EINVAL;
	}
	if (!p->page_bytes)
		p->page_bytes = 2 * GP_MIB;
	for (unsigned i = 0; i < GP_COST_N; i++) {
		const struct cost_rows *rows = &cost_rows[i];
		struct gp_cost_curve *c = &p->curves[i];

		if (c->n || rows->optional)
			continue;
		if (rows->assumed_ns <= 0) {
			snprintf(in->why, in->why_size,
				 "%s: no row '%s' with a size above %" PRIu64 " and below %" PRIu64,
				 in->file, rows->call, rows->above, rows->below);
			return -EINVAL;
		}
		c->at[0].size = 1;
		c->at[0].ns = rows->assumed_ns;
		c->n = 1;
	}
	return 0;
}

int gp_profile_builtin(struct gp_profile *out, char *why, size_t why_size)
{
	static const char *const lines[] = {
#include "device_profile_builtin.inc"
	};
	struct profile_parser in = { out, "built-in profile", 0, why, why_size };
	char line[LINE_MAX_BYTES];
	int r = 0;

	memset(out, 0, sizeof(*out));
	snprintf(out->name, sizeof(out->name), "h200");
	for (size_t i = 0; i < GP_ARRAY_LEN(lines) && !r; i++) {
		snprintf(line, sizeof(line), "%s", lines[i]);
		r = parse_line(&in, line);
	}
	return r ? r : profile_finish(&in);
}

/* "profiles/h200.tsv" -> "h200" */
static void profile_name(struct gp_profile *p, const char *path)
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	snprintf(p->name, sizeof(p->name), "%.*s", (int)gp_min_u64(strcspn(base, "."), 31), base);
}

int gp_profile_load(const char *path, struct gp_profile *out, char *why, size_t why_size)
{
	struct profile_parser in = { out, path, 0, why, why_size };
	char line[LINE_MAX_BYTES];
	FILE *f = fopen(path, "r");
	int r = 0;

	if (!f) {
		r = -errno;
		snprintf(why, why_size, "%s: %s", path, strerror(errno));
		return r;
	}
	memset(out, 0, sizeof(*out));
	profile_name(out, path);
	while (!r && fgets(line, sizeof(line), f)) {
		if (strlen(line) == sizeof(line) - 1) {
			in.line++;
			r = profile_bad(&in, "line too long");
		} else {
			r = parse_line(&in, line);
		}
	}
	if (!r && ferror(f)) {
		r = -EIO;
		snprintf(why, why_size, "%s: read error", path);
	}
	fclose(f);
	return r ? r : profile_finish(&in);
}

uint64_t gp_profile_ns(const struct gp_profile *p, enum gp_cost cost, uint64_t size)
{
	const struct gp_cost_curve *c = &p->curves[cost];
	unsigned i = 0;
	double part;

	if (!c->n)
		return 0;
	while (i < c->n && c->at[i].size <= size)
		i++;
	if (!i)
		return (uint64_t)(c->at[0].ns + 0.5);
	i--;
	if (i + 1 == c->n) {
		part = cost_rows[cost].flat ? 1 : (double)size / (double)c->at[i].size;
		return (uint64_t)(c->at[i].ns * part + 0.5);
	}
	part = (log2((double)size) - c->at[i].lg_size) / (c->at[i + 1].lg_size - c->at[i].lg_size);
	return (uint64_t)(c->at[i].ns + part * (c->at[i + 1].ns - c->at[i].ns) + 0.5);
}
