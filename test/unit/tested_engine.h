/*-------------------------------------------------------------------------
 *
 * tested_engine.h
 *	  The engine under test: the CPU engine, or the engine of another library.
 *
 * FASTED_ENGINE_LIBRARY names the library, which must have been built with the same engine.h.
 * If FASTED_ENGINE_DEVICES is a number, joins use that many devices; a device may act as several.  The
 * library of an engine may have an entry point for tuning (engine_tuning.h); another engine ignores it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TESTED_ENGINE_H
#define TESTED_ENGINE_H

#include <stdlib.h>

#include "../../src/engine/engine.h"
#include "engine_library.h"
#include "engine_tuning.h"
#include "ways.h"

/* Of the contexts that are opened next; their options name the kernel. */
static EngineTuning tuning;

static inline const char *
tested_library(void)
{
	return getenv("FASTED_ENGINE_LIBRARY");
}

/* Returns whether the engine under test runs on a GPU: cases may be larger, and it has other filters. */
static inline bool
on_gpu(void)
{
	return tested_library() != NULL;
}

/* Returns whether joins use several GPUs, or one as several. */
static inline bool
on_several_gpus(void)
{
	return on_gpu() && getenv("FASTED_ENGINE_DEVICES") != NULL;
}

/* For joins in panels of few rows. */
static inline void
use_small_buffers(bool small)
{
	tuning.few_candidates = small;
	tuning.staging_rows = small ? 100 : 0;
}

/* Returns whether only small joins are wanted, for compute-sanitizer. */
static inline bool
only_small(int argc, char **argv)
{
	return argc > 1 && strcmp(argv[1], "--small") == 0;
}

static inline const FastedEngine **
library_engine(void)
{
	static const FastedEngine *engine;

	return &engine;
}

static inline FastedStatus
open_tuned(const FastedOptions *options, FastedContext **context)
{
	void	   *library = dlopen(tested_library(), RTLD_NOW | RTLD_LOCAL);
	FastedTuneEntry tune = (FastedTuneEntry) (uintptr_t) dlsym(library, FASTED_TUNE_ENTRY);
	EngineTuning wanted = tuning;

	wanted.kernel = options->kernel;
	if (tune != NULL)
		tune(&wanted);
	return (*library_engine())->open(options, context);
}

/* Returns as many devices as FASTED_ENGINE_DEVICES requests; if there are fewer, some come several times. */
static inline int
same_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	const char *number = getenv("FASTED_ENGINE_DEVICES");
	int			count = (*library_engine())->devices(devices, names, most);
	int			wanted = number != NULL && count > 0 ? atoi(number) : count;

	for (int i = count; i < wanted && i < most; i++)
		memcpy(names[i], names[i - count], FASTED_DEVICE_NAME);
	return wanted < most ? wanted : most;
}

/* Returns the engine of the library; a multi-GPU engine if FASTED_ENGINE_DEVICES is set. */
static inline const FastedEngine *
tested_engine(void)
{
	static FastedEngine base;
	const char *path = tested_library();
	char		reason[300] = "";

	if (path == NULL)
		return fasted_cpu_engine();
	if (*library_engine() == NULL)
	{
		*library_engine() = engine_of_library(path, stdout, "Bail out! ");
		base = **library_engine();
		base.open = open_tuned;
		if (base.probe(NULL, reason, sizeof(reason)) != FASTED_OK)
		{
			printf("Bail out! %s\n", reason);
			exit(EXIT_FAILURE);
		}
	}
	if (!on_several_gpus())
		return &base;
	base.devices = same_devices;
	return fasted_multi_gpu_engine(&base);
}

/*
 * All ways of the CPU engine, or a GPU's kernels and filters.  A GPU without a kernel uses
 * "mma.sync".  Only L2 and cosine distances are projected (pruned).
 */
static inline int
tested_ways(Way *ways)
{
	static const Way others[] = {
		{"gpu", FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_OFF, ""},
		{"wgmma", FASTED_FILTER_FP16, "fp16", FASTED_PRUNE_OFF, ""},
		{"mma.sync", FASTED_FILTER_FP16, "fp16", FASTED_PRUNE_OFF, ""},
		{"wgmma", FASTED_FILTER_INT8, "int8", FASTED_PRUNE_OFF, ""},
		{"mma.sync", FASTED_FILTER_INT8, "int8", FASTED_PRUNE_OFF, ""},
		{"folded", FASTED_FILTER_INT8, "int8", FASTED_PRUNE_OFF, ""},
		{"gpu", FASTED_FILTER_FP64, "fp64", FASTED_PRUNE_OFF, ""},
		{"wgmma", FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_FORCE, ", projected"},
		{"mma.sync", FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_FORCE, ", projected"},
		{"folded", FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_FORCE, ", projected"},
	};
	int			count = (int) (sizeof(others) / sizeof(others[0]));

	if (!on_gpu())
		return all_ways(ways);
	memcpy(ways, others, sizeof(others));
	return count;
}

/* Some of the CPU engine's ways, for tests that try many inputs; all of a GPU. */
static inline int
some_tested_ways(Way *ways)
{
	int			count = tested_ways(ways);

	return on_gpu() ? count : some_ways(ways, count);
}

/* Returns the options of a way. */
static inline FastedOptions
options_of_way(const Way *way, uint32_t dimensions, FastedMetric metric)
{
	return (FastedOptions) {
		.dimensions = dimensions,.metric = metric,.kernel = way->kernel,.filter = way->filter,
		.prune = way->prune,.threads = 1 + (int) random_below(4)
	};
}

/* Returns whether the statistics name the way's kernel and filter, as far as it determines them. */
static inline bool
ran_in_way(const FastedStats *stats, const Way *way)
{
	return (on_gpu() || strcmp(stats->kernel, way->kernel) == 0) &&
		(way->filter == FASTED_FILTER_AUTO || strcmp(stats->filter, way->name) == 0) &&
		(way->prune == FASTED_PRUNE_FORCE || stats->pruned_tiles[0] == 0);
}

static inline bool
opens_with(FastedOptions options, uint64_t limit)
{
	FastedContext *context;
	FastedStatus status;

	options.device_memory_limit = limit;
	status = tested_engine()->open(&options, &context);
	tested_engine()->close(context);
	return status != FASTED_OUT_OF_DEVICE_MEMORY;
}

/* Returns the smallest memory limit with which a device can be opened, or up to 2% more. */
static inline uint64_t
least_device_memory(FastedOptions options)
{
	static struct
	{
		FastedOptions options;
		EngineTuning tuning;
		uint64_t	least;
	}			known[64];
	static unsigned next;
	uint64_t	least = 1 << 18;

	options.threads = 0;
	for (int i = 0; i < 64; i++)
	{
		if (memcmp(&known[i].options, &options, sizeof(options)) == 0 &&
			memcmp(&known[i].tuning, &tuning, sizeof(tuning)) == 0)
			return known[i].least;
	}
	known[next % 64].options = options;
	known[next % 64].tuning = tuning;
	while (least < 1 << 30 && !opens_with(options, least))
		least *= 2;
	for (uint64_t step = least / 4, last = least / 128; step >= last; step /= 2)
	{
		if (opens_with(options, least - step))
			least -= step;
	}
	known[next++ % 64].least = least;
	return least;
}

/* Limits memory for rows to `bytes`, in addition to a device's minimum. */
static inline void
limit_memory(FastedOptions *options, uint64_t bytes)
{
	if (on_gpu())
		options->device_memory_limit = least_device_memory(*options) + bytes;
	else
		options->memory_limit = bytes;
}

#endif							/* TESTED_ENGINE_H */
