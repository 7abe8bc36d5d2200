/*-------------------------------------------------------------------------
 *
 * options.h
 *	  How a join is to be computed: the settings, as they are when it begins.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_OPTIONS_H
#define FASTED_OPTIONS_H

#include "base/guc.h"
#include "engine/engine.h"

typedef struct JoinOptions
{
	EngineChoice engine;
	FastedFilter filter;
	FastedPrune prune;
	FastedMetric metric;		/* not a setting: L2 until the caller says otherwise */
	FastedElement element;		/* nor is this: real until then */
	const char *kernel;			/* of the CPU engine; NULL: the best one */
	const char *devices;		/* GPUs, as device_list.h has it */
	GpuShareChoice share;		/* among several of them */
	bool		exact;			/* else the paper's result */
	bool		nearest;		/* not a setting: neighbours are wanted, which not every engine finds */
	int			threads;		/* 0: one for each processor */
	int			max_threads;	/* 0: no limit */
	uint64_t	memory_limit;	/* bytes, of the host */
	uint64_t	device_memory_limit;	/* bytes; 0: what is free */
} JoinOptions;

/* From fasted.*; whatever changes them while rows are read, these hold. */
extern JoinOptions OptionsFromSettings(void);

/* The same for an engine; the number of dimensions is the caller's to add. */
extern FastedOptions EngineOptions(const JoinOptions *options);

#endif							/* FASTED_OPTIONS_H */
