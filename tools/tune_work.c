/* SPDX-License-Identifier: Apache-2.0
 *
 * tune_work: all rows of a table, on several threads: each takes the next row that nobody has.
 *
 * Threads   rows[i] belongs to the thread that took it until it has counted it done; the lock
 *           guards the two counters. The main thread waits and keeps the progress bar.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tune.h"

#define REDRAW_NS 50000000L

struct work {
	const struct tune_job *job;
	struct tune_row *rows;
	size_t n_rows;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t next, n_done;
	unsigned n_running;
};

/* The next row to run, or n_rows. */
static size_t work_take(struct work *w)
{
	size_t i;

	pthread_mutex_lock(&w->lock);
	i = w->job->interrupted && *w->job->interrupted ? w->n_rows : w->next;
	if (i < w->n_rows)
		w->next++;
	pthread_mutex_unlock(&w->lock);
	return i;
}

static void work_tell(struct work *w, size_t n_done, unsigned n_ended)
{
	pthread_mutex_lock(&w->lock);
	w->n_done += n_done;
	w->n_running -= n_ended;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void *work_main(void *arg)
{
	struct work *w = arg;
	uint32_t n_ids = w->job->plain.n_ids;
	uint64_t *addrs = calloc(n_ids ? n_ids : 1, sizeof(*addrs));
	size_t i;

	while (addrs && (i = work_take(w)) < w->n_rows) {
		tune_row_run(w->job, &w->rows[i], addrs);
		work_tell(w, 1, 0);
	}
	free(addrs);
	work_tell(w, 0, 1);
	return NULL;
}

static void work_wait(struct work *w)
{
	pthread_mutex_lock(&w->lock);
	while (w->n_running) {
		struct timespec until;

		cli_progress("settings", w->n_done, w->n_rows + 1);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += REDRAW_NS;
		until.tv_sec += until.tv_nsec / 1000000000L;
		until.tv_nsec %= 1000000000L;
		pthread_cond_timedwait(&w->changed, &w->lock, &until);
	}
	pthread_mutex_unlock(&w->lock);
	cli_progress_clear();
}

static unsigned work_threads(unsigned threads, size_t n_rows)
{
	long cores = threads ? (long)threads : sysconf(_SC_NPROCESSORS_ONLN);

	if (cores < 1)
		cores = 1;
	return (size_t)cores < n_rows ? (unsigned)cores : (unsigned)n_rows;
}

int tune_work(const struct tune_job *job, const struct tune_grid *grid, struct tune_row *rows,
	      unsigned threads)
{
	struct work w = { .job = job, .rows = rows, .n_rows = grid->n };
	unsigned n = work_threads(threads, grid->n), made = 0;
	pthread_t *ids = calloc(n ? n : 1, sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < grid->n; i++)
		rows[i].s = &grid->settings[i];
	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.changed, NULL);
	w.n_running = n;
	while (made < n && !pthread_create(&ids[made], NULL, work_main, &w))
		made++;
	/* Those that could not be started; where none could, this one does it all. */
	work_tell(&w, 0, n - made);
	if (!made && n) {
		w.n_running = 1;
		work_main(&w);
	}
	work_wait(&w);
	for (unsigned i = 0; i < made; i++)
		pthread_join(ids[i], NULL);
	pthread_cond_destroy(&w.changed);
	pthread_mutex_destroy(&w.lock);
	free(ids);
	/* A thread without memory leaves its rows to the others; the last one cannot. */
	return w.n_done < w.n_rows && w.next < w.n_rows && !(job->interrupted && *job->interrupted)
		       ? -ENOMEM
		       : 0;
}
