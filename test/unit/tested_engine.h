/*-------------------------------------------------------------------------
 *
 * tested_engine.h
 *	  The engine under test: the CPU engine, or the engine of another library.
 *
 * FASTED_ENGINE_LIBRARY names the library, which must have been built with the same engine.h.
 * If FASTED_ENGINE_DEVICES is a number, the first device is used as that many devices.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TESTED_ENGINE_H
#define TESTED_ENGINE_H

#include <stdlib.h>

#include "../../src/engine/engine.h"
#include "engine_library.h"
#include "ways.h"

static inline const char *
tested_library(void)
{
	return getenv("FASTED_ENGINE_LIBRARY");
}

static inline const FastedEngine **
library_engine(void)
{
	static const FastedEngine *engine;

	return &engine;
}

/* Returns the first device as many times as FASTED_ENGINE_DEVICES requests. */
static inline int
same_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	const char *number = getenv("FASTED_ENGINE_DEVICES");
	int			count = (*library_engine())->devices(devices, names, 1);
	int			wanted = number != NULL && count > 0 ? atoi(number) : count;

	for (int i = 1; i < wanted && i < most; i++)
		memcpy(names[i], names[0], FASTED_DEVICE_NAME);
	return wanted < most ? wanted : most;
}

/* Returns a multi-GPU engine if FASTED_ENGINE_DEVICES is set. */
static inline const FastedEngine *
alone_or_group(const FastedEngine *engine)
{
	static FastedEngine base;

	*library_engine() = engine;
	if (getenv("FASTED_ENGINE_DEVICES") == NULL)
		return engine;
	base = *engine;
	base.devices = same_devices;
	return fasted_multi_gpu_engine(&base);
}

static inline const FastedEngine *
tested_engine(void)
{
	const char *path = tested_library();

	return path == NULL ? fasted_cpu_engine() :
		alone_or_group(engine_of_library(path, stdout, "Bail out! "));
}

/* All ways of the CPU engine, or the filters of another engine. */
static inline int
tested_ways(Way *ways)
{
	static const Way others[] = {
		{"gpu", FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_OFF, ""},
		{"gpu", FASTED_FILTER_FP16, "fp16", FASTED_PRUNE_OFF, ""},
		{"gpu", FASTED_FILTER_INT8, "int8", FASTED_PRUNE_OFF, ""},
		{"gpu", FASTED_FILTER_FP64, "fp64", FASTED_PRUNE_OFF, ""},
		{"gpu", FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_FORCE, ", projected"},
	};
	int			count = (int) (sizeof(others) / sizeof(others[0]));

	if (tested_library() == NULL)
		return all_ways(ways);
	memcpy(ways, others, sizeof(others));
	return count;
}

/* Limits memory for rows to `bytes`, in addition to a device's minimum. */
static inline void
limit_memory(FastedOptions *options, uint64_t bytes)
{
	const FastedEngine *engine = tested_engine();
	FastedContext *context;
	FastedStatus status = FASTED_OUT_OF_DEVICE_MEMORY;

	if (tested_library() == NULL)
	{
		options->memory_limit = bytes;
		return;
	}
	options->device_memory_limit = 1 << 18;
	while (status == FASTED_OUT_OF_DEVICE_MEMORY && options->device_memory_limit < 1 << 30)
	{
		options->device_memory_limit += options->device_memory_limit / 16;
		status = engine->open(options, &context);
		engine->close(context);
	}
	options->device_memory_limit += bytes;
}

#endif							/* TESTED_ENGINE_H */
