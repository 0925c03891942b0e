/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool_json: gpupool trace, one JSON object; json_text.c writes it.
 */
#include "json_text.h"
#include "writer.h"

static int json_write(const struct gp_trace *t, struct gp_output *out)
{
	struct gp_json_text j = { .out = out, .lines = false };

	gp_json_text_trace(&j, t);
	return 0;
}

const struct gp_writer gp_gpupool_json_writer = {
	.name = "gpupool_json",
	.summary = "gpupool trace, one JSON object",
	.ending = ".json",
	.ops = GP_OPS_ALL,
	.keeps = GP_KEEP_ALL,
	.write = json_write,
};
