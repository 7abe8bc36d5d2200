/*-------------------------------------------------------------------------
 *
 * thread.h
 *	  A thread that takes no signals.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_THREAD_H
#define FASTED_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Starts a thread with a stack of that size, or more where the system wants it; 0: of the
 * usual size.  All signals are blocked in it, for a handler of the host program must not
 * run there.  False: none can be had.
 */
extern bool fasted_start_thread(pthread_t *thread, size_t stack_bytes, void *(*work) (void *),
								void *argument);

#endif							/* FASTED_THREAD_H */
