/*-------------------------------------------------------------------------
 *
 * workers.c
 *	  Threads that do one piece of work together (workers.h).
 *
 *-------------------------------------------------------------------------
 */
#include <time.h>

#include "workers.h"

void
workers_init(Workers *workers)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&workers->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&workers->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	workers->started = 0;
	workers->running = 0;
}

static void *
thread_main(void *argument)
{
	Workers    *workers = argument;

	/* The number of threads must be known before the work begins. */
	pthread_mutex_lock(&workers->lock);
	while (workers->members == 0)
		pthread_cond_wait(&workers->changed, &workers->lock);
	pthread_mutex_unlock(&workers->lock);
	workers->work(workers->argument);
	pthread_mutex_lock(&workers->lock);
	workers->running--;
	pthread_cond_broadcast(&workers->changed);
	pthread_mutex_unlock(&workers->lock);
	return NULL;
}

void
workers_start(Workers *workers, int threads, void (*work) (void *argument), void *argument)
{
	int			started = 0;

	workers->work = work;
	workers->argument = argument;
	workers->members = 0;
	while (started < threads && started < MAX_WORKERS &&
		   fasted_start_thread(&workers->thread[started], 0, thread_main, workers))
		started++;
	pthread_mutex_lock(&workers->lock);
	workers->started = started;
	workers->running = started;
	workers->members = started > 0 ? started : 1;
	pthread_cond_broadcast(&workers->changed);
	pthread_mutex_unlock(&workers->lock);
	if (started == 0)
		work(argument);
}

static void
join_threads(Workers *workers)
{
	while (workers->started > 0)
		pthread_join(workers->thread[--workers->started], NULL);
}

bool
workers_wait(Workers *workers, int timeout_ms)
{
	struct timespec deadline = fasted_deadline(timeout_ms);
	bool		ended;

	pthread_mutex_lock(&workers->lock);
	while (workers->running > 0 &&
		   pthread_cond_timedwait(&workers->changed, &workers->lock, &deadline) == 0)
		;
	ended = workers->running == 0;
	pthread_mutex_unlock(&workers->lock);
	if (ended)
		join_threads(workers);
	return ended;
}

void
workers_destroy(Workers *workers)
{
	join_threads(workers);
	pthread_cond_destroy(&workers->changed);
	pthread_mutex_destroy(&workers->lock);
}
