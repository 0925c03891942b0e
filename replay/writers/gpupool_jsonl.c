/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool_jsonl: gpupool trace, JSON Lines; json_text.c writes it.
 */
#include "json_text.h"
#include "writer.h"

static int jsonl_write(const struct gp_trace *t, struct gp_output *out)
{
	struct gp_json_text j = { .out = out, .lines = true };

	gp_json_text_trace(&j, t);
	return 0;
}

const struct gp_writer gp_gpupool_jsonl_writer = {
	.name = "gpupool_jsonl",
	.summary = "gpupool trace, JSON Lines",
	.ending = ".jsonl",
	.ops = GP_OPS_ALL,
	.keeps = GP_KEEP_ALL,
	.write = jsonl_write,
};
