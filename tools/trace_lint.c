/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_lint: gpupool-trace lint: every irregularity of a recording, each on a line of its own.
 *
 * Shape       the file is read leniently; what a strict reader would stop at is printed as it is
 *             met, with its place in the file. Then the trace that is left is looked at for what
 *             breaks no rule: recorded addresses that overlap, blocks that are never freed, sizes
 *             of 0.
 * Severity    error: a replay needs --lenient, or the recording contradicts itself (exit 1);
 *             warning: it may be meant so; note: unusual, and fine.
 * Cost        reading, and 24 bytes for each block that is live with a recorded address
 */
#include "trace_tool.h"

#include <errno.h>
#include <stdarg.h>

#include "allocators/range_set.h"

enum severity { LINT_ERROR, LINT_WARNING, LINT_NOTE, LINT_N };

static const char *const severity_names[LINT_N + 1] = {
	[LINT_ERROR] = "error",
	[LINT_WARNING] = "warning",
	[LINT_NOTE] = "note",
	[LINT_N] = NULL,
};

struct lint {
	struct read_options read; /* the first: READ_OPTIONS */
	unsigned level;           /* enum severity: the least that is printed */
	const char *path;
	uint64_t counts[LINT_N];
};

/* line 0: there is none, the event's number stands for it. */
GP_PRINTF(6, 7)
static void lint_tell(struct lint *l, enum severity severity, uint64_t line, uint64_t event,
		      const char *kind, const char *fmt, ...)
{
	va_list ap;

	l->counts[severity]++;
	if ((unsigned)severity > l->level)
		return;
	cli_progress_clear();
	if (line)
		printf("%s:%llu: %s: ", l->path, (unsigned long long)line,
		       severity_names[severity]);
	else
		printf("%s: event %llu: %s: ", l->path, (unsigned long long)event,
		       severity_names[severity]);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" [%s]\n", kind);
}

static void on_issue(void *arg, const struct gp_trace_issue *issue)
{
	lint_tell(arg, LINT_ERROR, issue->line, issue->event, gp_skip_name(issue->kind), "%s",
		  issue->text);
}

/* ---- recorded addresses ---- */

/* The live block that [addr, addr + size) meets. */
static const struct gp_range_entry *lint_neighbour(const struct gp_range_set *live, uint64_t addr)
{
	const struct gp_range_entry *e = gp_range_set_containing(live, addr);

	return e ? e : gp_range_set_ceiling(live, addr);
}

static bool lint_place(struct lint *l, const struct gp_trace *t, size_t i,
		       struct gp_range_set *live)
{
	uint64_t addr = t->addrs[i], size = t->events[i].size;
	const struct gp_range_entry *other;
	int r = addr && size ? gp_range_set_insert(live, addr, size, i) : 0;

	if (r == -EINVAL)
		lint_tell(l, LINT_ERROR, 0, i + 1, "overlap",
			  "a block of %llu bytes at 0x%llx, expected it to end below 2^64",
			  (unsigned long long)size, (unsigned long long)addr);
	if (r != -EEXIST)
		return r != -ENOMEM;
	other = lint_neighbour(live, addr);
	lint_tell(l, LINT_ERROR, 0, i + 1, "overlap",
		  "a block of %llu bytes at 0x%llx, where the block of event %llu is live "
		  "(0x%llx, %llu bytes), expected them apart",
		  (unsigned long long)size, (unsigned long long)addr,
		  (unsigned long long)other->tag + 1, (unsigned long long)other->addr,
		  (unsigned long long)other->size);
	return true;
}

static bool lint_overlaps(struct lint *l, const struct gp_trace *t)
{
	struct gp_range_set live;
	bool ok = true;

	gp_range_set_init(&live);
	for (size_t i = 0; i < t->n_events && ok; i++) {
		const struct gp_event *e = &t->events[i];
		bool deferred = (gp_event_flags(e) & GP_EVENT_DEFERRED) != 0;

		if (e->op == GP_OP_ALLOC) {
			ok = lint_place(l, t, i, &live);
		} else if (e->op == GP_OP_RECLAIM || (e->op == GP_OP_FREE && !deferred)) {
			size_t alloc = e->link; /* of a RECLAIM and of a FREE without one */
			const struct gp_range_entry *at = gp_range_set_at(&live, t->addrs[alloc]);

			/* Another block's when this one overlapped it and was not placed. */
			if (at && at->tag == alloc)
				gp_range_set_remove(&live, at->addr, NULL);
		}
	}
	gp_range_set_fini(&live);
	return ok;
}

/* ---- what breaks no rule ---- */

static void lint_blocks(struct lint *l, const struct gp_trace *t)
{
	for (size_t i = 0; i < t->n_events; i++) {
		const struct gp_event *e = &t->events[i];

		if (e->op == GP_OP_ALLOC && !e->size)
			lint_tell(l, LINT_NOTE, 0, i + 1, "zero_size", "an allocation of 0 bytes");
		if (e->op == GP_OP_ALLOC && e->link == GP_EVENT_NONE)
			lint_tell(l, LINT_WARNING, 0, i + 1, "leak",
				  "%llu bytes that are never freed", (unsigned long long)e->size);
	}
}

static int lint_file(struct lint *l, const char *path)
{
	struct gp_trace *t = NULL;
	char n[LINT_N][32];
	int r;

	l->path = path;
	memset(l->counts, 0, sizeof(l->counts));
	r = read_options_load(&l->read, path, &t);
	if (r >= 0)
		return r;
	lint_blocks(l, t);
	if (t->addrs && !lint_overlaps(l, t)) {
		cli_error("%s: out of memory", path);
		gp_trace_destroy(t);
		return CLI_USAGE;
	}
	for (uint32_t i = 0; i < t->n_notes && l->level == LINT_NOTE; i++)
		printf("%s: note: %s\n", path, t->notes[i]);
	for (unsigned i = 0; i < LINT_N; i++)
		cli_number(n[i], l->counts[i]);
	printf("%s: %s errors, %s warnings, %s notes\n", path, n[LINT_ERROR], n[LINT_WARNING],
	       n[LINT_NOTE]);
	gp_trace_destroy(t);
	return l->counts[LINT_ERROR] ? CLI_FAILED : CLI_OK;
}

/* ---- the command ---- */

static bool parse_level(void *ctx, const char *name, const char *value)
{
	return cli_choice(name, value, severity_names, &((struct lint *)ctx)->level);
}

static bool parse_quiet(void *ctx, const char *name, const char *value)
{
	(void)ctx;
	(void)name;
	(void)value;
	cli_set_quiet(true);
	return true;
}

static const struct cli_option options[] = {
	{ "level", "error|warning|note", "print what is at least so grave (note: all)",
	  parse_level },
	{ "quiet", NULL, "no progress bar and no notes of the reader", parse_quiet },
	READ_OPTIONS,
	{ NULL, NULL, NULL, NULL },
};

static const struct cli_program program = {
	.name = "gpupool-trace lint",
	.synopsis = "[OPTION]... FILE...",
	.about = "Lists every irregularity of a recording with its place: double and unknown\n"
		 "frees, overlapping addresses, time that goes back, leaks, sizes of 0.",
	.options = options,
	.examples = "  gpupool-trace lint rmm_log.csv\n"
		    "  gpupool-trace lint --level=error *.json && echo clean\n"
		    "Exit: 0 no errors, 1 errors, 2 usage, or a file that cannot be read at all.\n",
};

int trace_lint_main(int argc, char **argv)
{
	struct lint l = { .level = LINT_NOTE };
	int n = 0, worst = CLI_OK, r = cli_parse(&program, &l, argc, argv, &n);

	if (r >= 0)
		return r;
	if (!n) {
		cli_error("expected a trace; --help shows examples");
		return CLI_USAGE;
	}
	l.read.own_words = true;
	l.read.load.lenient = true;
	l.read.load.issue = on_issue;
	l.read.load.issue_arg = &l;
	for (int i = 0; i < n; i++) {
		r = lint_file(&l, argv[i]);
		worst = r > worst ? r : worst;
	}
	return cli_flush_output() ? worst : CLI_USAGE;
}
