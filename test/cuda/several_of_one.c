/*-------------------------------------------------------------------------
 *
 * several_of_one.c
 *	  Uses the first GPU as three devices of the CUDA engine.
 *
 * This lets PostgreSQL run multi-GPU joins with one GPU. fasted.cuda_library names this library,
 * which calls the real one in the same directory.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

#define DEVICES 3

static const FastedEngine *real;

static int
same_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	int			count = real->devices(devices, names, 1);

	while (count > 0 && count < DEVICES && count < most)
		memcpy(names[count++], names[0], FASTED_DEVICE_NAME);
	return count;
}

__attribute__((visibility("default"))) const FastedEngine *
fasted_engine(void)
{
	static FastedEngine several;
	FastedEngineEntry entry = (FastedEngineEntry) (uintptr_t) dlsym(RTLD_NEXT, FASTED_ENGINE_ENTRY);

	if (entry == NULL)
		abort();
	real = entry();
	several = *real;
	several.devices = same_devices;
	return &several;
}
