/*-------------------------------------------------------------------------
 *
 * cpu_filter.h
 *	  A strip is filtered: cpu_filter.c, cpu_nearest.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_FILTER_H
#define FASTED_CPU_FILTER_H

#include "cpu_levels.h"

typedef struct Tile
{
	size_t		row;
	size_t		col;
	uint8_t    *hits;			/* of its first row */
	size_t		hit_stride;
} Tile;

/* Does the filter go by the rows' radii now?  Not while a sample is looked at. */
static inline bool
cpu_goes_by_radii(const FastedJoin *join)
{
	return join->phase == PHASE_JOIN && cpu_finds_nearest(join);
}

/* cpu_filter.c: costs, in bytes of a tile's row, and the filter at one level or all */
extern double cpu_level_cost(const FastedContext *context, uint32_t level);
extern double cpu_full_cost(const FastedJoin *join);
extern double cpu_recheck_cost(const FastedContext *context);
extern uint32_t cpu_count_hits(const CpuKernel *kernel, const Tile *tile);
extern void cpu_sweep_tile(Worker *worker, const PackedRows *a, const PackedRows *b,
						   const Tile *tile);
extern void cpu_filter_strip(Worker *worker, const PackedRows *a, const PackedRows *b,
							 const Strip *strip);
extern void cpu_prune_strip(Worker *worker, const Strip *strip);

/* cpu_nearest.c */
extern void cpu_find_choice_eps(Worker *worker);
extern bool cpu_begin_nearest(FastedJoin *join);
extern void cpu_set_near_strip(Worker *worker, const Strip *strip);
extern void cpu_point_at_thresholds(Worker *worker, const PackedRows *a, size_t row, size_t col,
									TileSweep *sweep);

#endif							/* FASTED_CPU_FILTER_H */
