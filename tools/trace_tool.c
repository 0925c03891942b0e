/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_tool: see trace_tool.h.
 *
 * Threads   main thread only
 */
#include "trace_tool.h"

#include <errno.h>

bool trace_tool_parse(void *ctx, const char *name, const char *value)
{
	struct trace_tool *o = ctx;

	if (strcmp(name, "output") == 0) {
		if (!value[0]) {
			cli_error("--output=: expected a path");
			return false;
		}
		o->output = value;
	} else if (strcmp(name, "to") == 0) {
		o->to = value;
	} else if (strcmp(name, "gzip") == 0) {
		o->gzip = true;
	} else {
		cli_set_quiet(true);
	}
	return true;
}

/* "gpupool_binary (.gpt), ..." */
static const char *list_writers(char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; gp_writer_at(i) && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", i ? ", " : "",
					 gp_writer_at(i)->name, gp_writer_at(i)->ending);
	return text;
}

int trace_tool_writer(const struct trace_tool *o, const struct gp_writer **out)
{
	char list[512];

	if (o->to) {
		*out = gp_writer_find(o->to);
		if (*out)
			return -1;
		cli_error("--to=%s: expected one of %s", o->to, list_writers(list, sizeof(list)));
		return CLI_USAGE;
	}
	if (!o->output || strcmp(o->output, "-") == 0)
		*out = gp_writer_find("gpupool_jsonl");
	else
		*out = gp_writer_for_path(o->output);
	if (*out)
		return -1;
	cli_error("%s: no format has this ending, expected --to=FORMAT or one of %s", o->output,
		  list_writers(list, sizeof(list)));
	return CLI_USAGE;
}

int trace_tool_save(const struct trace_tool *o, const struct gp_writer *w, const struct gp_trace *t)
{
	const char *output = o->output ? o->output : "-";
	char why[512], text[512], load[32], events[32];
	int r = gp_writer_save(w, t, output, o->gzip || gp_output_is_gzip(output),
			       cli_interrupted(), why, sizeof(why));

	if (r == -EINTR) {
		cli_error("interrupted; nothing was kept of %s", output);
		return CLI_INTERRUPTED;
	}
	if (r) {
		cli_error("%s", why);
		return CLI_USAGE;
	}
	gp_writer_losses(w, t, text, sizeof(text));
	cli_note("%s: %s, %s events, load %s%s%s", output, w->name, cli_number(events, t->n_events),
		 cli_bytes(load, t->load_bytes), text[0] ? "; this format has no place for: " : "",
		 text);
	return CLI_OK;
}

int trace_tool_operands(struct trace_tool *o, char **operands, int n)
{
	if (n == 1)
		return -1;
	if (n == 2 && !o->output) {
		o->output = operands[1];
		return -1;
	}
	if (n == 0)
		cli_error("expected a trace; --help shows examples");
	else if (n == 2)
		cli_error("%s: expected one output, %s is it already", operands[1], o->output);
	else
		cli_error("%s: expected one trace and one output", operands[2]);
	return CLI_USAGE;
}
