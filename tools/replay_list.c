/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_list: the registry for people.
 *
 * Shape     everything comes from the vtables, so that a new allocator is listed by itself.
 * Threads   main thread only
 */
#include <string.h>

#include "allocators/allocator.h"
#include "replay_list.h"

#define OPTION_SIZE 128u

/* "min_block=SIZE", "fit=good|best" */
static void option_text(char *buf, const struct gp_option *o)
{
	size_t used;

	switch (o->type) {
	case GP_OPTION_SIZE:
		snprintf(buf, OPTION_SIZE, "%s=SIZE", o->name);
		return;
	case GP_OPTION_COUNT:
		snprintf(buf, OPTION_SIZE, "%s=N", o->name);
		return;
	case GP_OPTION_BOOL:
		snprintf(buf, OPTION_SIZE, "%s=true|false", o->name);
		return;
	case GP_OPTION_FRACTION:
		snprintf(buf, OPTION_SIZE, "%s=0..1", o->name);
		return;
	case GP_OPTION_TEXT:
		snprintf(buf, OPTION_SIZE, "%s=TEXT", o->name);
		return;
	case GP_OPTION_CHOICE:
		break;
	}
	snprintf(buf, OPTION_SIZE, "%s=", o->name);
	used = strlen(buf);
	for (size_t i = 0; o->choices[i] && used < OPTION_SIZE; i++, used = strlen(buf))
		snprintf(buf + used, OPTION_SIZE - used, "%s%s", i ? "|" : "", o->choices[i]);
}

/* Of the widest option, over all allocators. */
static int option_width(void)
{
	char text[OPTION_SIZE];
	size_t width = 0;

	for (size_t i = 0; i < gp_allocator_count(); i++) {
		const struct gp_option *o = gp_allocator_at(i)->options;

		for (; o && o->name; o++) {
			option_text(text, o);
			width = gp_max_u64(width, strlen(text));
		}
	}
	return (int)width;
}

static void print_entry(FILE *out, const struct gp_allocator_ops *ops, int width)
{
	char text[OPTION_SIZE];

	fprintf(out, "\n%-12s %s\n", ops->name, ops->summary);
	for (const struct gp_option *o = ops->options; o && o->name; o++) {
		option_text(text, o);
		fprintf(out, "    %-*s  %-7s  %s\n", width, text, o->default_text, o->help);
	}
}

static void print_kind(FILE *out, bool decorators, int width)
{
	for (size_t i = 0; i < gp_allocator_count(); i++) {
		const struct gp_allocator_ops *ops = gp_allocator_at(i);

		if (!(ops->caps & GP_CAP_DECORATOR) == !decorators)
			print_entry(out, ops, width);
	}
}

void replay_list_print(FILE *out)
{
	int width = option_width();

	fprintf(out, "Allocators: --alloc=NAME[:key=value,...]\n    %-*s  %-7s  %s\n", width,
		"option", "default", "meaning");
	print_kind(out, false, width);
	fputs("\nDecorators, around any allocator: --wrap=NAME[:key=value,...]\n", out);
	print_kind(out, true, width);
}
