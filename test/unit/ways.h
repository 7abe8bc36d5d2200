/*-------------------------------------------------------------------------
 *
 * ways.h
 *	  The ways to find candidates: each kernel that runs here, with each filter.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WAYS_H
#define WAYS_H

#include "../../src/cpu/cpu_kernel.h"
#include "../../src/engine/engine.h"

#define MOST_WAYS 20

typedef struct Way
{
	const char *kernel;
	FastedFilter filter;		/* FP64, which is FP32 here, or INT8: of integers */
	const char *name;			/* of the filter */
} Way;

/* What a kernel's filter of integers is called. */
static inline const char *
integer_filter(const CpuKernel *kernel)
{
	return kernel->int8->bytes == 2 ? "int16" : "int8";
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
		ways[count++] = (Way) {kernel->name, FASTED_FILTER_FP64, "fp32"};
		if (kernel->int8 != NULL)
			ways[count++] = (Way) {kernel->name, FASTED_FILTER_INT8, integer_filter(kernel)};
	}
	return count;
}

#endif							/* WAYS_H */
