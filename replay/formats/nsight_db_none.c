/* SPDX-License-Identifier: Apache-2.0
 *
 * nsight_db_none: a build without sqlite3.
 */
#include "nsight_db.h"

int gp_nsight_read_db(const void *data, size_t size, struct gp_nsight *rows)
{
	(void)data;
	(void)size;
	return gp_trace_builder_refuse(
		rows->builder, 1,
		"an SQLite database, and this build has no sqlite3; expected its table as CSV: "
		"sqlite3 -csv -header FILE 'select * from CUDA_GPU_MEMORY_USAGE_EVENTS'");
}
