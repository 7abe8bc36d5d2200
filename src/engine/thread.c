/*-------------------------------------------------------------------------
 *
 * thread.c
 *	  Starts threads in which all signals are blocked, and times when waiting ends (engine.h).
 *
 * A new thread inherits the signal mask of the thread that creates it, so all signals are blocked
 * in the creating thread for a moment.
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"

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

struct timespec
fasted_deadline(int timeout_ms)
{
	struct timespec deadline;

	if (timeout_ms < 0)
		timeout_ms = 0;
	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += timeout_ms / 1000;
	deadline.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (deadline.tv_nsec >= 1000000000L)
	{
		deadline.tv_sec++;
		deadline.tv_nsec -= 1000000000L;
	}
	return deadline;
}
