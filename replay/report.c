/* SPDX-License-Identifier: Apache-2.0
 *
 * report: the result document, version 1, as JSON text.
 *
 * Shape       one function per object of the document, in its order. The keys are an interface:
 *             what is there stays; new ones may be added.
 * Invariants  1. always valid JSON: what is no finite number is null, what is no UTF-8 has each
 *                byte of it replaced by '?' (file names may hold any byte).
 *             2. byte for byte the same for the same input: keys keep the order written here.
 * Not done    the files beside the document: report_save.c
 * Threads     any
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/device/device_profile.h"
#include "explain.h"
#include "plan.h"
#include "report.h"

#define REPORT_SCHEMA 1

/* Nine digits: more than any figure here is known to, few enough to print 0.1 as 0.1. */
#define REPORT_PRECISION 9

static json_t *number(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

static json_t *whole(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

static json_t *text(const char *s)
{
	json_t *json = json_string(s);
	char *copy;

	if (json)
		return json;
	copy = strdup(s);
	for (char *p = copy; p && *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	json = copy ? json_string(copy) : NULL;
	free(copy);
	return json;
}

/* clang-format off: a key and its value to a line */

static json_t *report_environment(const struct gp_environment *env)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "date",
			 text(env->date), "cpu", text(env->cpu), "cores", whole(env->cores),
			 "kernel", text(env->kernel), "compiler", text(env->compiler), "build",
			 text(env->build), "timer_overhead_ns", number(env->timer_overhead_ns),
			 "timer_step_ns", number(env->timer_step_ns), "gpu", text(env->device.name),
			 "driver", text(env->device.driver), "gpu_bytes",
			 whole(env->device.total_bytes), "simulated", (int)env->device.simulated);
}

/* Faults on purpose; null: none. */
static json_t *report_inject(const struct gp_injection *inject)
{
	static const struct gp_injection none;

	if (memcmp(inject, &none, sizeof(none)) == 0)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "lost_call", whole(inject->lost_call),
			 "sticky_call", whole(inject->sticky_call), "fail_call",
			 whole(inject->fail_call), "slow_call", whole(inject->slow_call), "slow_ns",
			 whole(inject->slow_ns), "lose_bytes", whole(inject->lose_bytes));
}

/* The cost model of what is simulated; null: nothing is. */
static json_t *report_profile(const struct gp_report *report)
{
	const struct gp_profile *p = report->config->device_config.profile;

	for (size_t i = 0; i < report->n_runs; i++)
		if (strcmp(report->runs[i]->device, "sim") == 0)
			return text(p ? p->name : gp_profile_builtin()->name);
	return json_null();
}

/* What else than the runs' own options has a say in the figures. */
static json_t *report_settings(const struct gp_report *report)
{
	const struct gp_engine_config *config = report->config;
	json_t *wraps;
	char work[64];

	if (!config)
		return json_null();
	wraps = json_array();
	for (size_t i = 0; wraps && i < config->n_wraps; i++) {
		if (json_array_append_new(wraps, text(config->wraps[i])) != 0) {
			json_decref(wraps);
			return NULL;
		}
	}
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:o, s:o}", "profile",
			 report_profile(report), "capacity_bytes",
			 whole(config->device_config.capacity), "repeat", whole(config->repeat),
			 "threads", whole(config->threads), "pace", number(config->pace), "work",
			 gp_work_text(&config->work, work, sizeof(work)), "on_oom",
			 config->stop_on_oom ? "stop" : "skip", "wraps", wraps, "inject",
			 report_inject(&config->device_config.inject));
}

/* Adds "skipped" where --lenient left something out. */
static int report_skipped(json_t *object, const struct gp_trace *trace)
{
	json_t *skipped = NULL;
	int r = 0;

	for (unsigned i = 0; i < GP_SKIP_N && !r; i++) {
		if (!trace->skipped[i])
			continue;
		if (!skipped) {
			skipped = json_object();
			r = json_object_set_new(object, "skipped", skipped);
		}
		if (!r)
			r = json_object_set_new(skipped, gp_skip_name((enum gp_skip)i),
						whole(trace->skipped[i]));
	}
	return r;
}

/* The best plan of the trace that was found, where one was asked for; else NULL. */
static const struct gp_plan *report_plan_of(const struct gp_report *report)
{
	return report->config ? report->config->plan : NULL;
}

static json_t *report_plan(const struct gp_plan *plan)
{
	return json_pack("{s:o, s:o, s:s, s:o}", "height_bytes", whole(plan->placement.height),
			 "bound_bytes", whole(plan->bound), "found", plan->how, "seconds",
			 number(plan->seconds));
}

static json_t *report_trace(const struct gp_trace *trace, const struct gp_plan *plan)
{
	char name[256];
	json_t *object = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
				   text(gp_report_trace_name(trace, name, sizeof(name))), "path",
				   text(trace->path), "events", whole(trace->n_events), "allocs",
				   whole(trace->n_allocs), "frees", whole(trace->n_frees),
				   "load_bytes", whole(trace->load_bytes), "streams",
				   whole(trace->n_streams), "threads", whole(trace->n_threads));

	if (object && (report_skipped(object, trace) != 0 ||
		       (plan && json_object_set_new(object, "plan", report_plan(plan)) != 0))) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static json_t *report_options(const struct gp_run *run)
{
	json_t *object = json_object();

	for (size_t i = 0; object && i < run->n_options; i++) {
		if (json_object_set_new(object, run->options[i].name,
					text(run->options[i].value)) != 0) {
			json_decref(object);
			return NULL;
		}
	}
	return object;
}

static json_t *report_memory(const struct gp_run *run, const struct gp_plan *plan)
{
	/* What is inside the allocator is not followed while threads replay copies. */
	bool followed = run->threads_mode == GP_THREADS_SHARE;
	json_t *object = json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o}", "load_bytes", whole(run->memory.load),
		"peak_granted_bytes", followed ? whole(run->memory.peak_granted) : json_null(),
		"peak_reserved_bytes", whole(run->memory.peak_reserved), "end_reserved_bytes",
		whole(run->memory.end_reserved), "utilization", number(run->memory.utilization),
		"overhead", number(run->memory.overhead));

	if (object && plan && followed &&
	    json_object_set_new(object, "above_plan",
				number(gp_plan_above(plan, run->memory.peak_reserved))) != 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static json_t *report_fragmentation(const struct gp_run *run)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "internal_at_peak",
			 number(run->fragmentation.internal_at_peak), "internal_mean",
			 number(run->fragmentation.internal_mean), "external_at_peak",
			 number(run->fragmentation.external_at_peak), "external_mean",
			 number(run->fragmentation.external_mean), "external_sq_at_peak",
			 number(run->fragmentation.external_sq_at_peak));
}

static json_t *report_failures(const struct gp_run *run)
{
	json_t *reasons = json_object();

	/* Every reason, also those at zero: a reader need not know which exist. */
	for (unsigned i = 0; reasons && i < GP_REASON_N; i++) {
		if (json_object_set_new(reasons, gp_reason_name((enum gp_reason)i),
					whole(run->failures.reasons[i])) != 0) {
			json_decref(reasons);
			return NULL;
		}
	}
	return json_pack("{s:o, s:o, s:o, s:o}", "count", whole(run->failures.count), "first_event",
			 run->failures.count ? whole(run->failures.first_event) : json_null(),
			 "bytes", whole(run->failures.bytes), "reasons", reasons);
}

/* The kinds of call that were made, in the order of their enum. */
static json_t *report_calls(const struct gp_run *run)
{
	json_t *calls = json_object();

	for (unsigned i = 0; calls && i < GP_CALL_N; i++) {
		const struct gp_call_use *use = &run->calls[i];

		if (!use->count && !(use->time_ns > 0))
			continue;
		if (json_object_set_new(calls, gp_call_name((enum gp_call)i),
					json_pack("{s:o, s:o}", "count", whole(use->count),
						  "time_ns", number(use->time_ns))) != 0) {
			json_decref(calls);
			return NULL;
		}
	}
	return calls;
}

/* How often the allocator goes to the device. */
static double calls_per_1000_ops(const struct gp_run *run)
{
	uint64_t calls = run->driver.allocs + run->driver.frees + run->driver.maps +
			 run->driver.unmaps + run->driver.syncs + run->driver.event_waits;

	return run->throughput.ops ? 1000.0 * (double)calls / (double)run->throughput.ops : NAN;
}

static json_t *report_driver(const struct gp_run *run)
{
	bool modelled = strcmp(run->device, "sim") == 0;

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o}", "allocs",
			 whole(run->driver.allocs), "frees", whole(run->driver.frees), "maps",
			 whole(run->driver.maps), "unmaps", whole(run->driver.unmaps), "syncs",
			 whole(run->driver.syncs), "event_waits", whole(run->driver.event_waits),
			 "calls_per_1000_ops", number(calls_per_1000_ops(run)), "time_ns",
			 whole(run->driver.time_ns), "time_source",
			 modelled ? "modelled" : "measured", "calls", report_calls(run));
}

static json_t *report_hist(const struct gp_hist *h)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "count", whole(h->count),
			 "mean", number(gp_hist_mean(h)), "p50", whole(gp_hist_percentile(h, 50)),
			 "p90", whole(gp_hist_percentile(h, 90)), "p99",
			 whole(gp_hist_percentile(h, 99)), "p99_9",
			 whole(gp_hist_percentile(h, 99.9)), "p99_99",
			 whole(gp_hist_percentile(h, 99.99)), "max", whole(h->count ? h->max : 0));
}

static json_t *report_throughput(const struct gp_run *run)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "ops",
			 whole(run->throughput.ops), "ns_per_op", number(run->throughput.ns_per_op),
			 "ns_per_op_min", number(run->throughput.ns_per_op_min), "ns_per_op_max",
			 number(run->throughput.ns_per_op_max), "ops_per_s",
			 number(run->throughput.ops_per_s), "ops_per_s_min",
			 number(run->throughput.ops_per_s_min), "ops_per_s_max",
			 number(run->throughput.ops_per_s_max), "device_ns_per_op",
			 number(run->throughput.device_ns_per_op));
}

static json_t *file_name(const char *label, const char *suffix)
{
	char name[256];

	snprintf(name, sizeof(name), "%s%s", label, suffix);
	return text(name);
}

static json_t *report_verify(const struct gp_verify *v)
{
	return json_pack("{s:o, s:o, s:o}", "compared", whole(v->compared), "matched",
			 whole(v->matched), "first_divergence",
			 v->diverged ? json_pack("{s:o, s:o}", "event", whole(v->first_event),
						 "what", text(v->first))
				     : json_null());
}

/* Appends to an array that may be NULL: out of memory. */
static void append(json_t **array, json_t *item)
{
	if (*array && json_array_append_new(*array, item) == 0)
		return;
	json_decref(*array);
	*array = NULL;
}

static json_t *report_oom_pin(const struct gp_oom_pin *pin)
{
	json_t *blocks = json_array();

	for (size_t i = 0; i < pin->n_blocks; i++) {
		const struct gp_oom_block *b = &pin->blocks[i];

		append(&blocks,
		       json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "addr", whole(b->addr),
				 "requested_bytes", whole(b->requested), "granted_bytes",
				 whole(b->granted), "stream", whole(b->stream), "event",
				 whole(b->event), "age_events", whole(b->age_events), "age_ns",
				 whole(b->age_ns), "assumed", (int)b->assumed));
	}
	return json_pack("{s:o, s:o, s:b, s:o, s:o, s:o}", "addr", whole(pin->range.addr), "bytes",
			 whole(pin->range.size), "segment", (int)pin->whole, "live_bytes",
			 whole(pin->live_bytes), "live_blocks", whole(pin->live_blocks), "blocks",
			 blocks);
}

static json_t *report_oom_streams(const struct gp_oom *oom)
{
	json_t *streams = json_array();

	for (size_t i = 0; i < oom->n_streams; i++) {
		const struct gp_oom_stream *s = &oom->streams[i];

		append(&streams,
		       json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "stream",
				 whole(s->stream), "handle", whole(s->handle), "live_blocks",
				 whole(s->live_blocks), "requested_bytes",
				 whole(s->requested_bytes), "granted_bytes",
				 whole(s->granted_bytes), "deferred_bytes",
				 whole(s->deferred_bytes), "free_bytes",
				 oom->knows_pools ? whole(s->free_bytes) : json_null(),
				 "largest_free_bytes",
				 oom->knows_pools ? whole(s->largest_bytes) : json_null()));
	}
	return streams;
}

static json_t *report_oom_settings(const struct gp_oom *oom)
{
	json_t *settings = oom->tried ? json_array() : json_null();

	for (size_t i = 0; i < oom->n_settings; i++) {
		const struct gp_oom_setting *s = &oom->settings[i];

		append(&settings, json_pack("{s:o, s:o, s:b, s:b, s:o, s:o}", "change",
					    text(s->text), "spec", text(s->spec), "serves",
					    (int)(s->survived || s->first_event > oom->event),
					    "survives", (int)s->survived, "first_failure",
					    s->survived ? json_null() : whole(s->first_event),
					    "peak_reserved_bytes", whole(s->peak_reserved)));
	}
	return settings;
}

static json_t *report_oom_pool(const struct gp_oom *oom)
{
	if (!oom->knows_pools)
		return json_null();
	return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o}", "kind", oom->large ? "large" : "small",
			 "private", (int)oom->pool, "free_bytes", whole(oom->pool_free),
			 "largest_free_bytes", whole(oom->pool_largest),
			 "largest_on_other_streams_bytes", whole(oom->held_stream_bytes),
			 "largest_in_other_pools_bytes", whole(oom->held_pool_bytes));
}

/* The first failure, explained. */
static json_t *report_oom(const struct gp_oom *oom)
{
	json_t *pins = json_array();

	for (size_t i = 0; i < oom->n_pins; i++)
		append(&pins, report_oom_pin(&oom->pins[i]));
	return json_pack(
		"{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o,"
		" s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"class", gp_oom_class_name(oom->cause), "event", whole(oom->event), "t_ns",
		whole(oom->t_ns), "stream", whole(oom->stream), "stream_handle",
		whole(oom->stream_handle), "requested_bytes", whole(oom->size), "rounded_bytes",
		whole(oom->granted), "capacity_bytes", whole(oom->capacity), "limit_bytes",
		oom->limit ? whole(oom->limit) : json_null(), "live_blocks",
		whole(oom->live_blocks), "live_requested_bytes", whole(oom->requested),
		"live_granted_bytes", whole(oom->granted_live), "reserved_bytes",
		whole(oom->reserved), "device_free_bytes", whole(oom->device_free), "free_bytes",
		whole(oom->free_bytes), "holes", whole(oom->n_holes), "largest_hole_bytes",
		whole(oom->largest_hole), "segment_bytes", whole(oom->segment), "pool",
		report_oom_pool(oom), "streams", report_oom_streams(oom), "pins", pins, "settings",
		report_oom_settings(oom), "best_setting",
		oom->best < oom->n_settings ? text(oom->settings[oom->best].spec) : json_null());
}

/* The same with the sum of all values. */
static json_t *report_total(const struct gp_hist *h)
{
	json_t *object = report_hist(h);

	if (object && json_object_set_new(object, "total", whole(h->sum)) != 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static json_t *report_metered(const struct gp_hist hists[GP_METERED_N])
{
	return json_pack("{s:o, s:o, s:o}", "alloc", report_total(&hists[GP_METERED_ALLOC]), "free",
			 report_total(&hists[GP_METERED_FREE]), "trim",
			 report_total(&hists[GP_METERED_TRIM]));
}

static int report_work(json_t *object, const struct gp_run_work *w)
{
	bool busy = w->work.kind == GP_WORK_BUSY;
	int r = json_object_set_new(
		object, "work",
		json_pack("{s:s, s:o, s:o}", "kind", gp_work_name(w->work.kind), "us",
			  busy ? number((double)w->work.busy_ns / 1e3) : json_null(), "pieces",
			  whole(w->n_pieces)));

	r |= json_object_set_new(object, "stall_ns", report_metered(w->stall_ns));
	r |= json_object_set_new(object, "device_idle_ns", report_metered(w->idle_ns));
	return r;
}

/* What only some runs have. */
static int report_extras(json_t *object, const struct gp_report *report, const struct gp_run *run)
{
	static const char *const modes[] = { "share", "each", "chain" };
	int r = 0;

	if (run->status == GP_STATUS_ERROR)
		r |= json_object_set_new(object, "why", text(run->why));
	if (run->verified)
		r |= json_object_set_new(object, "recording", report_verify(&run->verify));
	if (run->oom)
		r |= json_object_set_new(object, "oom", report_oom(run->oom));
	if (run->work)
		r |= report_work(object, run->work);
	if (run->threads) {
		r |= json_object_set_new(object, "threads", whole(run->threads));
		r |= json_object_set_new(object, "threads_mode",
					 json_string(modes[run->threads_mode]));
		r |= json_object_set_new(object, "speedup", number(gp_report_speedup(report, run)));
	}
	if (run->paced) {
		r |= json_object_set_new(object, "lateness_ns", report_hist(&run->lateness_ns));
		r |= json_object_set_new(object, "response_ns",
					 json_pack("{s:o, s:o}", "alloc",
						   report_hist(&run->response_alloc_ns), "free",
						   report_hist(&run->response_free_ns)));
	}
	return r;
}

static json_t *report_run(const struct gp_report *report, const struct gp_run *run)
{
	json_t *object = json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:o,"
		" s:{s:o, s:o, s:o}}",
		"allocator", text(run->allocator), "spec", text(run->spec), "label",
		text(run->label), "options", report_options(run), "device", text(run->device),
		"device_name", text(run->device_name), "status", gp_status_name(run->status),
		"memory", report_memory(run, report_plan_of(report)), "fragmentation",
		report_fragmentation(run), "failures", report_failures(run), "driver",
		report_driver(run), "latency_ns", "alloc", report_hist(&run->alloc_ns), "free",
		report_hist(&run->free_ns), "throughput", report_throughput(run), "files", "curve",
		file_name(run->label, ".curve.tsv"), "alloc_hgrm",
		file_name(run->label, ".alloc.hgrm"), "free_hgrm",
		file_name(run->label, ".free.hgrm"));

	if (object && report_extras(object, report, run) != 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static json_t *report_both(json_t *cuda, json_t *sim)
{
	return json_pack("{s:o, s:o}", "cuda", cuda, "sim", sim);
}

static json_t *report_parting(const struct gp_mirror *m)
{
	if (!m->parting.what)
		return json_null();
	return json_pack("{s:o, s:o, s:s, s:o, s:o}", "first_event", whole(m->parting.first_event),
			 "last_event", whole(m->parting.last_event), "what", m->parting.what,
			 "cuda", whole(m->parting.cuda), "sim", whole(m->parting.sim));
}

/* Of the kinds of call that either run made: how many, how long, and simulated over real. */
static int report_mirror_calls(const struct gp_mirror *m, json_t *calls, json_t *ns, json_t *ratio)
{
	int r = json_object_set_new(ratio, "all", number(gp_mirror_ratio(m->cuda_ns, m->sim_ns)));

	r |= json_object_set_new(ns, "all", report_both(number(m->cuda_ns), number(m->sim_ns)));
	for (unsigned i = 0; i < GP_CALL_N; i++) {
		const struct gp_call_use *a = &m->cuda->calls[i], *b = &m->sim->calls[i];
		const char *name = gp_call_name((enum gp_call)i);
		double times = gp_mirror_ratio(a->time_ns, b->time_ns);

		if (!a->count && !b->count)
			continue;
		r |= json_object_set_new(calls, name,
					 report_both(whole(a->count), whole(b->count)));
		r |= json_object_set_new(ns, name,
					 report_both(number(a->time_ns), number(b->time_ns)));
		r |= json_object_set_new(ratio, name, number(times));
	}
	return r;
}

static json_t *report_mirror(const struct gp_mirror *m)
{
	const struct gp_run *a = m->cuda, *b = m->sim;
	json_t *calls = json_object(), *ns = json_object(), *ratio = json_object();
	int r = report_mirror_calls(m, calls, ns, ratio);
	json_t *object = json_pack(
		"{s:o, s:o, s:o, s:b, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"allocator", text(a->allocator), "spec", text(a->spec), "labels",
		report_both(text(a->label), text(b->label)), "complete", (int)m->whole,
		"memory_must_match", (int)m->must_match, "memory_equal", (int)m->memory_equal,
		"peak_reserved_bytes",
		report_both(whole(a->memory.peak_reserved), whole(b->memory.peak_reserved)),
		"end_reserved_bytes",
		report_both(whole(a->memory.end_reserved), whole(b->memory.end_reserved)),
		"peak_granted_bytes",
		report_both(whole(a->memory.peak_granted), whole(b->memory.peak_granted)),
		"failures", report_both(whole(a->failures.count), whole(b->failures.count)),
		"first_difference", report_parting(m), "calls", calls, "time_ns", ns, "time_ratio",
		ratio, "worst_call",
		m->worst < GP_CALL_N ? text(gp_call_name(m->worst)) : json_null());

	if (!r)
		return object;
	json_decref(object);
	return NULL;
}

/* clang-format on */

static json_t *report_mirrors(const struct gp_report *report)
{
	json_t *mirrors = json_array();

	for (size_t i = 0; i < report->n_mirrors; i++)
		append(&mirrors, report_mirror(&report->mirrors[i]));
	return mirrors;
}

static json_t *report_runs(const struct gp_report *report)
{
	json_t *runs = json_array();

	for (size_t i = 0; runs && i < report->n_runs; i++) {
		if (json_array_append_new(runs, report_run(report, report->runs[i])) != 0) {
			json_decref(runs);
			return NULL;
		}
	}
	return runs;
}

char *gp_report_json(const struct gp_report *report, bool one_line)
{
	size_t flags = JSON_REAL_PRECISION(REPORT_PRECISION) | (one_line ? 0 : JSON_INDENT(2));
	json_t *document = json_pack("{s:s, s:i, s:b, s:o, s:o, s:o, s:o}", "gpupool", GP_VERSION,
				     "schema", REPORT_SCHEMA, "partial", report->partial != NULL,
				     "environment", report_environment(report->environment),
				     "settings", report_settings(report), "trace",
				     report_trace(report->trace, report_plan_of(report)), "runs",
				     report_runs(report));
	char *body = NULL, *line = NULL;

	if (document && report->n_mirrors &&
	    json_object_set_new(document, "mirror", report_mirrors(report)) != 0) {
		json_decref(document);
		return NULL;
	}
	if (document)
		body = json_dumps(document, flags);
	line = body ? malloc(strlen(body) + 2) : NULL;
	if (line)
		strcat(strcpy(line, body), "\n");
	free(body);
	json_decref(document);
	return line;
}
