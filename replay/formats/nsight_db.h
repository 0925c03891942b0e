/* SPDX-License-Identifier: Apache-2.0
 *
 * nsight_db: the rows of an SQLite database that Nsight Systems exported. nsight_db_sqlite.c is the
 * one file that includes sqlite3.h; nsight_db_none.c stands in for it in a build without.
 */
#ifndef GP_NSIGHT_DB_H
#define GP_NSIGHT_DB_H

#include "nsight_rows.h"

/* data: the whole file. 0, or the negative number that ends the reading. */
int gp_nsight_read_db(const void *data, size_t size, struct gp_nsight *rows);

#endif
