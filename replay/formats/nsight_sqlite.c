/* SPDX-License-Identifier: Apache-2.0
 *
 * nsight_sqlite: what `nsys export --type sqlite` writes. Recognises the file and brings it into
 * memory, where the database is read (nsight_db.h); so a compressed one or a pipe do too.
 *
 * Memory      a plain file is mapped; a compressed one and a pipe are held whole. 64 bytes an
 * event.
 */
#include "input_map.h"
#include "nsight_db.h"

#include <string.h>

static enum gp_format_match nsight_probe(const unsigned char *head, size_t n)
{
	static const char magic[16] = "SQLite format 3";

	return n >= sizeof(magic) && !memcmp(head, magic, sizeof(magic)) ? GP_FORMAT_YES
									 : GP_FORMAT_NO;
}

static int nsight_read_map(const struct gp_input_map *map, struct gp_trace_builder *b)
{
	struct gp_nsight rows;
	int r;

	gp_nsight_init(&rows, b);
	r = gp_trace_builder_header(b, NULL, "Nsight Systems", NULL, 0);
	if (!r)
		r = gp_nsight_read_db(map->data, map->size, &rows);
	if (!r)
		r = gp_nsight_finish(&rows);
	gp_nsight_fini(&rows);
	return r;
}

static int nsight_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct gp_input_map map;
	int r = gp_input_map(in, SIZE_MAX, &map);

	if (r) {
		gp_trace_builder_refuse(b, 1, "out of memory");
		return r;
	}
	r = nsight_read_map(&map, b);
	gp_input_unmap(&map);
	return r;
}

const struct gp_format gp_nsight_sqlite_format = {
	.name = "nsight_sqlite",
	.summary = "Nsight Systems export, SQLite",
	.probe = nsight_probe,
	.read = nsight_read,
};
