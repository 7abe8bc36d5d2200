/*-------------------------------------------------------------------------
 *
 * engine_tuning.h
 *	  Switches for tests of the CUDA engine, which has an entry point for them if it was built by
 *	  test/cuda/Makefile (test/cuda/tuning.cu).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ENGINE_TUNING_H
#define ENGINE_TUNING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct EngineTuning
{
	const char *kernel;			/* "mma.sync", "wgmma", or "folded" even for few rows */
	bool		few_candidates;	/* the smallest buffer for candidates */
	uint64_t	staging_rows;	/* maximum number of rows in a staging buffer; 0: depends on their size */
	bool		always_register;	/* register memory even for few rows */
	bool		always_choose;	/* choose a filter by a sample even for few rows */
} EngineTuning;

/* Contexts that are opened later use this tuning.  `kernel` must remain valid. */
#define FASTED_TUNE_ENTRY "fasted_tune"
typedef void (*FastedTuneEntry) (const EngineTuning *tuning);

#endif							/* ENGINE_TUNING_H */
