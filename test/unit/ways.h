/*-------------------------------------------------------------------------
 *
 * ways.h
 *	  The ways to find candidates: each available kernel with each filter, with or without
 *	  pruning.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WAYS_H
#define WAYS_H

#include <stdlib.h>
#include <string.h>

#include "../../src/cpu/kernels/kernel.h"
#include "../../src/engine/engine.h"
#include "tap.h"

#define MOST_WAYS 32

typedef struct Way
{
	const char *kernel;
	FastedFilter filter;		/* FP64 (here the same as FP32), or INT8 (any integer filter) */
	const char *name;			/* name of the filter */
	FastedPrune prune;			/* off or forced */
	const char *pruned;			/* suffix for descriptions */
} Way;

/* Returns the name of a kernel's integer filter; "fp32" if it has none. */
static inline const char *
integer_filter(const CpuKernel *kernel)
{
	if (kernel->int8 == NULL)
		return "fp32";
	return kernel->int8->bytes == 2 ? "int16" : "int8";
}

/* Returns the kernel that the engine chooses by default. */
static inline const CpuKernel *
best_kernel(void)
{
	return fasted_cpu_choose_kernel(NULL);
}

/*
 * Returns whether the environment hides the better kernels.  Tests then check only what the
 * engine chooses with the best remaining kernel.
 */
static inline bool
kernels_hidden(void)
{
	return getenv("FASTED_BEST_KERNEL") != NULL;
}

/* Lists each filter of each kernel, with or without pruning. */
static inline int
ways_of(Way *ways, FastedPrune prune)
{
	const char *pruned = prune == FASTED_PRUNE_FORCE ? ", pruned" : "";
	int			count = 0;

	for (int k = 0; fasted_cpu_kernel(k) != NULL; k++)
	{
		const CpuKernel *kernel = fasted_cpu_kernel(k);

		if (!kernel->available())
			continue;
		ways[count++] = (Way) {kernel->name, FASTED_FILTER_FP64, "fp32", prune, pruned};
		if (kernel->int8 != NULL)
			ways[count++] = (Way) {kernel->name, FASTED_FILTER_INT8, integer_filter(kernel),
				prune, pruned};
	}
	return count;
}

/* Returns the best kernel that needs no emulation; all tests prune with this one. */
static inline const char *
pruning_kernel(void)
{
	Way			ways[MOST_WAYS];
	int			count = ways_of(ways, FASTED_PRUNE_FORCE);
	int			w = 0;

	while (w + 1 < count && strcmp(ways[w].kernel, "amx") == 0)
		w++;
	return ways[w].kernel;
}

/* All ways without pruning, and one kernel's with it; test_prune.c has the others. */
static inline int
all_ways(Way *ways)
{
	Way			pruned[MOST_WAYS];
	int			count = ways_of(ways, FASTED_PRUNE_OFF);
	int			npruned = ways_of(pruned, FASTED_PRUNE_FORCE);

	for (int w = 0; w < npruned; w++)
	{
		if (strcmp(pruned[w].kernel, pruning_kernel()) == 0)
			ways[count++] = pruned[w];
	}
	return count;
}

/* Returns true for the best kernel, and at random for one in `part` of the others. */
static inline bool
kernel_is_tried(const char *kernel, uint32_t part)
{
	return strcmp(kernel, best_kernel()->name) == 0 || random_below(part) == 0;
}

/*
 * Omits some ways at random, but not those of the best kernel; returns the number of ways left.  For
 * tests that try many inputs.
 */
static inline int
some_ways(Way *ways, int count)
{
	int			left = 0;

	for (int w = 0; w < count; w++)
	{
		if (kernel_is_tried(ways[w].kernel, quick() ? 6 : 3))
			ways[left++] = ways[w];
	}
	return left;
}

#endif							/* WAYS_H */
