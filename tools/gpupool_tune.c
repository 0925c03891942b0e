/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool-tune: which PYTORCH_CUDA_ALLOC_CONF would have served this job best? tune.h says which
 * file does what.
 */
#include <stdlib.h>
#include <string.h>

#include "tune.h"

static int out_of_memory(void)
{
	cli_error("out of memory");
	return CLI_USAGE;
}

static int show(const struct tune_options *o, const struct tune_result *r)
{
	char why[512];

	if (o->json && tune_json_print(r, why, sizeof(why))) {
		cli_error("%s", why);
		return CLI_USAGE;
	}
	if (!o->json)
		tune_table_print(stdout, r, o->top, cli_colour(stdout));
	return cli_flush_output() ? CLI_OK : CLI_USAGE;
}

static int run_rows(const struct tune_options *o, const struct tune_job *job,
		    const struct tune_grid *grid)
{
	struct tune_row *rows = calloc(grid->n, sizeof(*rows));
	struct tune_result result;
	int code;

	if (!rows || tune_work(job, grid, rows, (unsigned)o->threads) ||
	    !tune_result_make(job, o, rows, grid->n, &result)) {
		free(rows);
		return out_of_memory();
	}
	code = show(o, &result);
	if (code == CLI_OK && result.partial) {
		cli_note("interrupted: what is shown is partial");
		code = CLI_INTERRUPTED;
	}
	tune_result_fini(&result);
	free(rows);
	return code;
}

static int tune_one(const struct tune_options *o, const struct tune_grid *grid, const char *path,
		    const volatile sig_atomic_t *interrupted)
{
	struct gp_trace *t = NULL;
	struct tune_job job;
	char why[512] = "";
	int code = read_options_load(&o->read, path, &t);

	if (code >= 0)
		return code;
	if (tune_job_init(&job, t, o, why, sizeof(why))) {
		cli_error("%s: %s", path, why);
		code = CLI_USAGE;
	} else {
		job.interrupted = interrupted;
		code = run_rows(o, &job, grid);
	}
	tune_job_fini(&job);
	gp_trace_destroy(t);
	return code;
}

static int list(const struct tune_grid *grid)
{
	for (size_t i = 0; i < grid->n; i++)
		printf("%s\n", tune_label(&grid->settings[i]));
	return cli_flush_output() ? CLI_OK : CLI_USAGE;
}

int main(int argc, char **argv)
{
	struct tune_options o;
	struct tune_grid grid = { 0 };
	int n_operands = 0;
	int code = tune_options_parse(&o, argc, argv, &n_operands);

	if (code < 0)
		code = tune_grid_make(&o, &grid);
	if (code < 0 && o.list) {
		code = list(&grid);
	} else if (code < 0) {
		const volatile sig_atomic_t *interrupted = cli_interrupted();

		code = CLI_OK;
		for (int i = 0; i < n_operands && code == CLI_OK; i++) {
			if (i && !o.json)
				putchar('\n');
			code = tune_one(&o, &grid, argv[i], interrupted);
		}
	}
	tune_grid_fini(&grid);
	tune_options_fini(&o);
	return code;
}
