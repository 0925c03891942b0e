/* SPDX-License-Identifier: Apache-2.0
 *
 * cupti_csv: memory records of CUPTI (kind MEMORY2), one a row:
 *
 *   timestamp_ns,op,kind,address,bytes,pid,device,context,stream,async,...
 *   90001200,1,3,0x7f1200000000,4096,812,0,1,13,1,...
 *
 * As nsight_csv in all but the names of its columns and what their numbers mean.
 */
#include "nsight_rows.h"

static const struct gp_nsight_dialect cupti_dialect = {
	.names = { "timestamp_ns|timestamp", "address", "bytes", "kind", "op", "pid", "device",
		   "stream" },
	.unread = "context|async|correlation|pool_type|pool_address|pool_threshold|pool_size|"
		  "pool_used|name|source",
	.source = "CUPTI",
	.alloc = 1,
	.free = 2,
	.device = 3,
	.host = { 1, 2 },
};

static enum gp_format_match cupti_probe(const unsigned char *head, size_t n)
{
	return gp_nsight_probe_csv(&cupti_dialect, head, n);
}

static int cupti_read(struct gp_input *in, struct gp_trace_builder *b)
{
	return gp_nsight_read_csv(&cupti_dialect, in, b);
}

const struct gp_format gp_cupti_csv_format = {
	.name = "cupti_csv",
	.summary = "CUPTI memory records, CSV",
	.probe = cupti_probe,
	.read = cupti_read,
};
