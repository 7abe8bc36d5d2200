/*-------------------------------------------------------------------------
 *
 * at_once.c
 *	  A thread for each device but the first, which is the caller's.
 *
 * To make a thread takes some 20 us; what is done so takes a millisecond at least.
 *
 *-------------------------------------------------------------------------
 */
#include "at_once.h"
#include "thread.h"

#define MOST 32

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
	Errand		errands[MOST];
	int			count = 0;

	for (int device = 0; device < MOST; device++)
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
