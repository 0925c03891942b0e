/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate_table: the calls that matter most by size, medians; all else is in the profile.
 */
#include <string.h>

#include "calibrate.h"

struct column {
	const char *head, *call;
};

static const struct column columns[] = {
	{ "cudaMalloc", "cudaMalloc.held" },
	{ "cudaFree", "cudaFree.held" },
	{ "async warm", "cudaMallocAsync.warm" },
	{ "async cold", "cudaMallocAsync.cold" },
	{ "create", "cuMemCreate.held" },
	{ "set access", "cuMemSetAccess.held" },
	{ "unmap", "cuMemUnmap.held" },
	{ "release", "cuMemRelease.held" },
	{ "memset", "memset.device" },
};

static const struct gp_profile_row *cell_row(const struct gp_profile *p, const char *call,
					     uint64_t size)
{
	size_t n;
	const struct gp_profile_row *row = gp_profile_rows(p, call, &n);

	while (n && row->size != size) {
		row++;
		n--;
	}
	return n ? row : NULL;
}

static void print_cell(FILE *out, const struct gp_profile_row *row)
{
	char text[32] = "-";

	if (row)
		cli_time(text, (double)row->p50);
	fprintf(out, "  %10s", text);
}

/* The next larger size that a column has; 0: none. */
static uint64_t next_size(const struct gp_profile *p, uint64_t size)
{
	uint64_t next = 0;

	for (size_t c = 0; c < GP_ARRAY_LEN(columns); c++) {
		size_t n;
		const struct gp_profile_row *row = gp_profile_rows(p, columns[c].call, &n);

		for (; n; row++, n--) {
			if (row->size > size && (!next || row->size < next))
				next = row->size;
		}
	}
	return next;
}

void cal_table_print(FILE *out, const struct gp_profile *p)
{
	char text[32];

	fprintf(out, "%10s", "size");
	for (size_t c = 0; c < GP_ARRAY_LEN(columns); c++)
		fprintf(out, "  %10s", columns[c].head);
	fputc('\n', out);
	for (uint64_t size = next_size(p, 0); size; size = next_size(p, size)) {
		fprintf(out, "%10s", cli_bytes(text, size));
		for (size_t c = 0; c < GP_ARRAY_LEN(columns); c++)
			print_cell(out, cell_row(p, columns[c].call, size));
		fputc('\n', out);
	}
}
