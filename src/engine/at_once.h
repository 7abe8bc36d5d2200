/*-------------------------------------------------------------------------
 *
 * at_once.h
 *	  The same work for several devices, at the same time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_AT_ONCE_H
#define FASTED_AT_ONCE_H

#include <stdint.h>

typedef void (*DeviceWork) (void *argument, int device);

/*
 * Calls work for each device that has a bit, each in a thread of its own, and returns when
 * all are done.  One device alone needs no thread; nor is one made that can't be had.
 */
extern void fasted_at_once(uint32_t devices, DeviceWork work, void *argument);

#endif							/* FASTED_AT_ONCE_H */
