/*-------------------------------------------------------------------------
 *
 * devices.h
 *	  Which GPU a context uses, and what became of each in this process.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_DEVICES_H
#define FASTED_CUDA_DEVICES_H

#include "device/device.h"
#include "engine/engine.h"

namespace fasted
{

/*
 * The device of a context: the first one that is capable of those that are
 * named (device_list.h), in their order, or of all.  Fails where there is none,
 * and where one of the names is nobody's.
 */
Device		find_device(const char *names = nullptr);

/* That one and those like it, by their UUIDs; how many. */
int			list_alike(const char *names, char (*list)[FASTED_DEVICE_NAME], int most);

/*
 * Describes the device with this ordinal, usable or not, in a text of at most size bytes.
 * Creates no context on it.  Returns false if there is no such device.
 */
bool		describe_device(int ordinal, char *text, size_t size);

/*
 * A context uses a device from begin_use to end_use.  After an error of the device
 * (note_lost) no call of this process reaches it any more.  The last one gives
 * CUDA's own context up, and with it all memory on the device; find_device says whether
 * a new one can be had.
 */
void		begin_use(int ordinal);
void		note_lost(int ordinal);
void		end_use(int ordinal);

/* From here on copies to this device read the other one's memory directly, if they can. */
void		see_memory_of(int ordinal, int other);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_DEVICES_H */
