/*-------------------------------------------------------------------------
 *
 * thread.h
 *	  Threads that take no signals.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_THREAD_H
#define FASTED_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Starts a thread with a stack of that size, or more where the system wants it; 0: of the
 * usual size.  All signals are blocked in it, for a handler of the host program must not
 * run there.  False: none can be had.
 */
extern bool fasted_start_thread(pthread_t *thread, size_t stack_bytes, void *(*work) (void *),
								void *argument);

typedef void (*DeviceWork) (void *argument, int device);

/*
 * Calls work for each device that has a bit, each in a thread of its own, and returns when
 * all are done.  One device alone needs no thread; nor is one made that can't be had.
 */
extern void fasted_at_once(uint32_t devices, DeviceWork work, void *argument);

#endif							/* FASTED_THREAD_H */
