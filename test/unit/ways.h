/*-------------------------------------------------------------------------
 *
 * ways.h
 *	  The ways to find candidates: each kernel that runs here, with each filter, with
 *	  pruning and without.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WAYS_H
#define WAYS_H

#include "../../src/cpu/cpu_kernel.h"
#include "../../src/engine/engine.h"

#define MOST_WAYS 16

typedef struct Way
{
	const char *kernel;
	FastedFilter filter;		/* FP64, which is FP32 here, or INT8 */
	const char *name;			/* of the filter */
	FastedPrune prune;			/* off or forced */
	const char *pruned;			/* which of these */
} Way;

static inline int
add_ways(Way *ways, const char *kernel, FastedFilter filter, const char *name)
{
	ways[0] = (Way) {kernel, filter, name, FASTED_PRUNE_OFF, ""};
	ways[1] = (Way) {kernel, filter, name, FASTED_PRUNE_FORCE, ", pruned"};
	return 2;
}

static inline int
all_ways(Way *ways)
{
	int			count = 0;

	for (int k = 0; fasted_cpu_kernel(k) != NULL; k++)
	{
		const CpuKernel *kernel = fasted_cpu_kernel(k);

		if (!kernel->available())
			continue;
		count += add_ways(ways + count, kernel->name, FASTED_FILTER_FP64, "fp32");
		if (kernel->int8 != NULL)
			count += add_ways(ways + count, kernel->name, FASTED_FILTER_INT8, "int8");
	}
	return count;
}

#endif							/* WAYS_H */
