/*-------------------------------------------------------------------------
 *
 * tested_engine.h
 *	  The engine that is tested: the CPU engine, or another one's library.
 *
 * FASTED_ENGINE_LIBRARY names the library, which must have been built from the same
 * engine.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TESTED_ENGINE_H
#define TESTED_ENGINE_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "ways.h"

static inline const char *
tested_library(void)
{
	return getenv("FASTED_ENGINE_LIBRARY");
}

static inline const FastedEngine *
tested_engine(void)
{
	const char *path = tested_library();
	void	   *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	void	   *entry = library != NULL ? dlsym(library, FASTED_ENGINE_ENTRY) : NULL;
	const FastedEngine *engine;

	if (path == NULL)
		return fasted_cpu_engine();
	if (entry == NULL)
	{
		printf("Bail out! %s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	engine = ((FastedEngineEntry) (uintptr_t) entry) ();
	if (engine->abi != FASTED_ENGINE_ABI)
	{
		printf("Bail out! %s is of ABI %u, not %d\n", path, engine->abi, FASTED_ENGINE_ABI);
		exit(EXIT_FAILURE);
	}
	return engine;
}

/* The tested engine's ways: of the CPU engine all, of another one its filters. */
static inline int
tested_ways(Way *ways)
{
	static const Way others[] = {
		{"gpu", FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_OFF, ""},
		{"gpu", FASTED_FILTER_FP16, "fp16", FASTED_PRUNE_OFF, ""},
		{"gpu", FASTED_FILTER_INT8, "int8", FASTED_PRUNE_OFF, ""},
		{"gpu", FASTED_FILTER_FP64, "fp64", FASTED_PRUNE_OFF, ""},
	};
	int			count = (int) (sizeof(others) / sizeof(others[0]));

	if (tested_library() == NULL)
		return all_ways(ways);
	memcpy(ways, others, sizeof(others));
	return count;
}

/* Little memory for rows: so many bytes, of the device beside what it needs at least. */
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
