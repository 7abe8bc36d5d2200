/*-------------------------------------------------------------------------
 *
 * workers.h
 *	  Threads that do one piece of work together, while the caller polls for its end.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_WORKERS_H
#define FASTED_WORKERS_H

#include "../engine/engine.h"

#define MAX_WORKERS 256

typedef struct Workers
{
	pthread_mutex_t lock;
	pthread_cond_t changed;		/* signalled when a thread has ended */
	pthread_t	thread[MAX_WORKERS];
	int			started;		/* number of threads that have not been joined */
	int			running;		/* number of threads that have not ended */
	int			members;		/* number of threads that execute work, at least 1; 0: not known yet */
	void		(*work) (void *argument);
	void	   *argument;
} Workers;

extern void workers_init(Workers *workers);

/* Starts to execute work(argument) in at most `threads` threads; without a thread, executes it. */
extern void workers_start(Workers *workers, int threads, void (*work) (void *argument),
						  void *argument);

/* Waits for at most timeout_ms milliseconds.  Returns whether all threads have ended. */
extern bool workers_wait(Workers *workers, int timeout_ms);

/* Waits for all threads, and frees what workers_init has allocated. */
extern void workers_destroy(Workers *workers);

#endif							/* FASTED_WORKERS_H */
