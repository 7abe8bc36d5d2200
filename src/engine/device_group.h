/*-------------------------------------------------------------------------
 *
 * device_group.h
 *	  An engine that spreads each join over several devices of another engine.
 *
 * All devices have all rows.  A join is cut into slices, which they take in turn: a
 * slower device does fewer.  If a device fails, so does the group, with an error that
 * names the device.
 *
 * Where not all rows fit, a set may be spread: each device has some parts of it.  They
 * take joins of parts in turn, copying them from each other.
 *
 * Devices must find the same slices, so they must be alike (engine.h, "devices").
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_DEVICE_GROUP_H
#define FASTED_DEVICE_GROUP_H

#include "engine.h"

#ifdef __cplusplus
extern "C"
{
#endif

/* No more devices work on one join. */
#define FASTED_GROUP_MOST 16

/* The engine of groups of base's devices; in one process always of the same base. */
extern const FastedEngine *fasted_device_group(const FastedEngine *base);

#ifdef __cplusplus
}
#endif

#endif							/* FASTED_DEVICE_GROUP_H */
