/*-------------------------------------------------------------------------
 *
 * thread.c
 *	  Threads that take no signals: each has the mask of the thread that starts it.
 *
 * Starting a thread takes some 20 us; what is done for each device takes a millisecond at least.
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <unistd.h>

#include "thread.h"

#define MOST_DEVICES 32

static bool
set_stack(pthread_attr_t *attr, size_t stack_bytes)
{
	long		least = sysconf(_SC_THREAD_STACK_MIN);

	if (pthread_attr_init(attr) != 0)
		return false;
	if (least > 0 && stack_bytes < 2 * (size_t) least)
		stack_bytes = 2 * (size_t) least;
	(void) pthread_attr_setstacksize(attr, stack_bytes);
	return true;
}

bool
fasted_start_thread(pthread_t *thread, size_t stack_bytes, void *(*work) (void *), void *argument)
{
	pthread_attr_t attr;
	sigset_t	all;
	sigset_t	before;
	bool		started = false;

	if (stack_bytes > 0 && !set_stack(&attr, stack_bytes))
		return false;
	sigfillset(&all);
	if (pthread_sigmask(SIG_SETMASK, &all, &before) == 0)
	{
		started = pthread_create(thread, stack_bytes > 0 ? &attr : NULL, work, argument) == 0;
		(void) pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (stack_bytes > 0)
		pthread_attr_destroy(&attr);
	return started;
}

typedef struct Errand
{
	DeviceWork	work;
	void	   *argument;
	int			device;
	bool		away;			/* in a thread */
	pthread_t	thread;
} Errand;

static void *
run_errand(void *argument)
{
	Errand	   *errand = argument;

	errand->work(errand->argument, errand->device);
	return NULL;
}

void
fasted_at_once(uint32_t devices, DeviceWork work, void *argument)
{
	Errand		errands[MOST_DEVICES];
	int			count = 0;

	for (int device = 0; device < MOST_DEVICES; device++)
	{
		if ((devices >> device & 1) != 0)
			errands[count++] = (Errand) {.work = work,.argument = argument,.device = device};
	}
	for (int i = 1; i < count; i++)
		errands[i].away = fasted_start_thread(&errands[i].thread, 0, run_errand, &errands[i]);
	for (int i = 0; i < count; i++)
	{
		if (!errands[i].away)
			run_errand(&errands[i]);
	}
	for (int i = 0; i < count; i++)
	{
		if (errands[i].away)
			(void) pthread_join(errands[i].thread, NULL);
	}
}
