/* SPDX-License-Identifier: Apache-2.0
 *
 * test_oom_cuda: a real GPU that is full, by our own doing or another process's, that is lost
 * (injected), or whose context a kernel destroys: runs end, count or say what happened, and nothing
 * hangs. Skips where there is no GPU. Needs a card that nobody else uses: it is filled.
 *
 * What cannot be undone within a process, or must be another one, is done by this program again:
 *
 *   test_oom_cuda hog BYTES   takes all memory but so much, says so, and holds it until its
 *                             standard input ends
 *   test_oom_cuda sticky      destroys its context; exit code 0: all later calls said so
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine_job.h"
#include "without_gpu.h"

#define PATIENCE_S 120 /* what takes longer hangs */

/* Allocators whose memory comes by different calls; "async" where it exists. */
static const char *const takers[] = { "raw", "hybrid", "torch", "segregated:grow=chunk", "async" };

static bool is_known(const char *spec)
{
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(spec, ":"), spec);
	return gp_allocator_find(name) != NULL;
}

static struct gp_device *open_card(void)
{
	struct gp_device_config cfg = { 0 };
	struct gp_device *dev = NULL;
	char why[200] = "";

	if (gp_device_open_cuda(&cfg, &dev, why, sizeof(why)))
		fail_msg("cannot open: %s", why);
	return dev;
}

static uint64_t free_on_card(void)
{
	struct gp_device *dev = open_card();
	uint64_t free_bytes, total;

	assert_int_equal(gp_device_mem_info(dev, &free_bytes, &total), 0);
	gp_device_close(dev);
	return free_bytes;
}

static struct gp_engine_config on_card(unsigned passes)
{
	return (struct gp_engine_config){ .device = "cuda", .passes = passes, .repeat = 1 };
}

/* n blocks of a size, all of them alive at the end, then freed. */
static struct gp_trace *pile(size_t n, uint64_t size)
{
	struct gp_trace_record *records = calloc(2 * n, sizeof(*records));
	struct gp_trace *t;

	assert_non_null(records);
	for (size_t i = 0; i < n; i++) {
		records[i] = (struct gp_trace_record)ALLOC(.id = i, .size = size);
		records[n + i] = (struct gp_trace_record)FREE(.id = i);
	}
	t = trace_of(records, 2 * n);
	free(records);
	return t;
}

/* Some requests are served and some are not, in every pass, and that is a result. */
static void expect_full(const struct gp_run *r, size_t n, uint64_t most_bytes)
{
	if (r->status != GP_STATUS_OK)
		fail_msg("%s: %s", r->spec, r->why);
	print_message("# %s: %" PRIu64 " of %zu requests failed, %" PRIu64
		      " over capacity; peak %" PRIu64 " MiB\n",
		      r->spec, r->failures.count, n, r->failures.reasons[GP_REASON_OVER_CAPACITY],
		      r->memory.peak_reserved >> 20);
	assert_true(r->failures.count > 0 && r->failures.count < n);
	assert_true(r->memory.peak_reserved <= most_bytes);
	assert_int_equal(r->memory.end_reserved <= r->memory.peak_reserved, true);
}

static void fill_with(size_t n, uint64_t size, uint64_t most_bytes)
{
	struct gp_trace *t = pile(n, size);
	struct gp_engine_config cfg = on_card(GP_PASS_CURVE | GP_PASS_LATENCY);

	for (size_t i = 0; i < GP_ARRAY_LEN(takers); i++) {
		struct gp_run *r;

		if (!is_known(takers[i]))
			continue;
		alarm(PATIENCE_S);
		r = run(t, takers[i], &cfg);
		alarm(0);
		expect_full(r, n, most_bytes);
		gp_run_destroy(r);
	}
	gp_trace_destroy(t);
}

static void we_fill_the_card(void **state)
{
	uint64_t before = free_on_card();

	(void)state;
	fill_with(20, gp_align_down(before / 15, 2 * MIB), before);
	/* All of it came back. */
	assert_true(free_on_card() + 64 * MIB > before);
}

/* ---- another process ---- */

struct helper {
	pid_t pid;
	int to, from; /* its standard input and output */
};

static void helper_start(struct helper *h, const char *what, const char *argument)
{
	int in[2], out[2];

	fflush(stdout);
	assert_true(pipe(in) == 0 && pipe(out) == 0);
	h->pid = fork();
	assert_true(h->pid >= 0);
	if (h->pid == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		close(in[1]);
		close(out[0]);
		execl("/proc/self/exe", "test_oom_cuda", what, argument, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	h->to = in[1];
	h->from = out[0];
}

/* Its exit code; what it said is shown. */
static int helper_end(struct helper *h)
{
	char text[1000];
	int status = 0;
	ssize_t n;

	close(h->to);
	while ((n = read(h->from, text, sizeof(text) - 1)) > 0) {
		text[n] = '\0';
		print_message("%s", text);
	}
	close(h->from);
	assert_true(waitpid(h->pid, &status, 0) == h->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Takes all memory but so much, in ever smaller pieces. */
static int hog(uint64_t leave)
{
	struct gp_device_config cfg = { 0 };
	struct gp_device *dev = NULL;
	uint64_t free_bytes, total, addr;
	char why[200], byte;

	if (gp_device_open_cuda(&cfg, &dev, why, sizeof(why)))
		return 1;
	for (uint64_t piece = 4 * GP_GIB; piece >= 16 * MIB; piece /= 4) {
		while (!gp_device_mem_info(dev, &free_bytes, &total) &&
		       free_bytes > leave + piece && !gp_device_reserve(dev, piece, &addr))
			;
	}
	printf("# another process has left %" PRIu64 " MiB\n", free_bytes >> 20);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0; /* the process ends, and its memory with it */
}

static void another_process_takes_the_card(void **state)
{
	struct gp_device *dev = open_card(); /* our context comes first, whatever is left */
	struct helper h;
	char c = 0;

	(void)state;
	helper_start(&h, "hog", "2147483648");
	while (c != '\n')
		assert_int_equal(read(h.from, &c, 1), 1);
	fill_with(60, 64 * MIB, 3 * GP_GIB);
	assert_int_equal(helper_end(&h), 0);
	gp_device_close(dev);
}

/* ---- a destroyed context ---- */

static int say(const char *what, bool right)
{
	printf("# %s%s\n", what, right ? "" : ": WRONG");
	return !right;
}

/* Queues a write behind a kernel that takes its time, and takes the page away meanwhile. */
static int break_context(struct gp_device *dev)
{
	uint64_t page = dev->info.page_bytes, addr, handle;
	int r = gp_device_va_reserve(dev, page, &addr);

	if (!r)
		r = gp_device_create(dev, page, &handle);
	if (!r)
		r = gp_device_map(dev, addr, page, handle);
	/* Once, so that all there is to load is loaded. */
	if (!r)
		r = gp_device_fill(dev, addr, page, 1, 0);
	if (!r)
		r = gp_device_sync(dev);
	if (!r)
		r = gp_device_busy(dev, 0, 100 * 1000000);
	if (!r)
		r = gp_device_fill(dev, addr, page, 2, 0);
	if (!r)
		r = gp_device_unmap(dev, addr, page);
	return r ? r : gp_device_sync(dev);
}

/* An allocator with blocks, over a device whose context is gone. */
static int outlive_context(struct gp_device *dev, const char *spec)
{
	struct gp_request req = { .size = 3 * MIB };
	struct gp_allocator *a = NULL;
	struct gp_block block;
	char why[200] = "";
	int wrong = 0, r = gp_allocator_create(spec, dev, NULL, &a, why, sizeof(why));

	if (r)
		return say(why, false);
	for (int i = 0; i < 4; i++)
		wrong |= gp_alloc(a, &req, &block) != 0;
	if (!gp_device_broken(dev)) {
		r = break_context(dev);
		printf("# %s\n", gp_device_error(dev));
		wrong |= say("the sync behind an illegal address is an error", r == -EIO);
	}
	req.size = 40 * GP_GIB;
	wrong |= say("an allocation that needs the device fails", gp_alloc(a, &req, &block) < 0);
	wrong |= say("so does giving memory back",
		     gp_free(a, block.addr) < 0 || gp_trim(a, 0, NULL));
	gp_allocator_destroy(a);
	return say("the allocator's end comes", true) | wrong;
}

static int break_for_good(void)
{
	struct gp_engine_config cfg = on_card(GP_PASS_ALL);
	struct gp_trace *t = pile(3, MIB);
	struct gp_device_config device = { 0 };
	struct gp_device *dev = NULL;
	struct gp_run *r = NULL;
	uint64_t addr, total;
	char why[300] = "";
	int wrong;

	alarm(PATIENCE_S);
	if (gp_device_open_cuda(&device, &dev, why, sizeof(why)))
		return say(why, false);
	wrong = outlive_context(dev, "segregated");
	wrong |= say("the next one, too: reserve", gp_device_reserve(dev, 4096, &addr) == -EIO);
	wrong |= say("mem_info", gp_device_mem_info(dev, &addr, &total) == -EIO);
	wrong |= say("stream_wait", gp_device_stream_wait(dev, 0, 1) < 0);
	wrong |= say("its name is told", strstr(gp_device_error(dev), "cudaError") != NULL);
	wrong |= say("the device is broken", gp_device_broken(dev));
	gp_device_close(dev);
	wrong |= say("a replay is refused, with the reason",
		     gp_engine_run(t, "raw", &cfg, &r, why, sizeof(why)) < 0 &&
			     strstr(why, "cudaError"));
	printf("# %s\n", why);
	gp_trace_destroy(t);
	return wrong;
}

static void a_destroyed_context_is_told(void **state)
{
	struct gp_device *dev = open_card();
	bool vmm = dev->info.vmm;
	struct helper h;

	(void)state;
	gp_device_close(dev);
	if (!vmm)
		skip();
	helper_start(&h, "sticky", NULL);
	assert_int_equal(helper_end(&h), 0);
}

/* ---- a lost device ---- */

static void a_lost_card_ends_the_run(void **state)
{
	struct gp_trace *t = pile(6, 3 * MIB);
	struct gp_engine_config cfg = on_card(GP_PASS_ALL);
	uint64_t before = free_on_card();

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(takers); i++) {
		enum gp_status status = GP_STATUS_ERROR;
		uint64_t n = 1;

		for (; is_known(takers[i]) && status == GP_STATUS_ERROR; n++) {
			struct gp_run *r;

			cfg.device_config.inject.lost_call = n;
			alarm(PATIENCE_S);
			r = run(t, takers[i], &cfg);
			alarm(0);
			status = r->status;
			if (status == GP_STATUS_ERROR && r->blame != GP_BLAME_DEVICE)
				fail_msg("%s, call %" PRIu64 ": %s", takers[i], n, r->why);
			gp_run_destroy(r);
		}
		assert_true(n > 3 || !is_known(takers[i]));
	}
	gp_trace_destroy(t);
	assert_true(free_on_card() + 64 * MIB > before);
}

/* A leak, which eats the card as far as the capacity goes. */
static void a_leak_is_felt(void **state)
{
	struct gp_trace *t = churn(40, 8 * MIB, 0);
	struct gp_engine_config cfg = on_card(GP_PASS_CURVE);
	struct gp_run *r;

	(void)state;
	cfg.device_config.capacity = 64 * MIB;
	cfg.device_config.inject.lose_bytes = 4 * MIB;
	r = run(t, "raw", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	/* Of 64 MiB, 4 are gone after each of 15 releases; then 8 no longer fit. */
	assert_int_equal(r->failures.count, 25);
	finish(r, t);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(we_fill_the_card),
		cmocka_unit_test(another_process_takes_the_card),
		cmocka_unit_test(a_destroyed_context_is_told),
		cmocka_unit_test(a_lost_card_ends_the_run),
		cmocka_unit_test(a_leak_is_felt),
	};
	int code;

	if (argc == 3 && !strcmp(argv[1], "hog"))
		return hog(strtoull(argv[2], NULL, 10));
	if (argc == 2 && !strcmp(argv[1], "sticky"))
		return break_for_good();
	if (without_gpu(&code))
		return code;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
