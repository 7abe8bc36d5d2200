/*-------------------------------------------------------------------------
 *
 * near_thresholds.h
 *	  Thresholds of a strip in a nearest-neighbor join, from the radii of its rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_NEAR_THRESHOLDS_H
#define FASTED_CPU_NEAR_THRESHOLDS_H

#include "../state/worker.h"

/* Returns true if thresholds come from the rows' radii.  They do not while a sample is tested. */
static inline bool
cpu_uses_radii(const FastedJoin *join)
{
	return join->phase == PHASE_JOIN && join->nearest;
}

/* One side of the strip. */
struct NearSide
{
	const FastedJoin *join;
	const FastedSet *set;
	const PackedRows *packed;
	int			stage;
	bool		lists;			/* its rows have neighbor lists */
	bool		columns;
	double		rho_most;		/* bound of the packing error of most rows of this side */
	double		rho_other;		/* the same for the other side */
	double		spread;
};

/* Returns a row's radius, raised to the least one for which thresholds can be computed. */
extern double cpu_radius_at(const NearSide *side, size_t place);

/* Implements CpuFilter.near_thresholds for numbers. */
extern void cpu_near_thresholds_of_numbers(NearThresholds *near, const NearSide *a,
										   const NearSide *b, StageThresholds *stage);

/* Called when rows are packed.  Returns true if initial radii are to be computed. */
extern bool cpu_begin_nearest(FastedJoin *join);

/* Begins a strip: its thresholds are computed when they are first needed. */
extern void cpu_set_near_strip(Worker *worker, const Strip *strip);

/* Points a sweep at the thresholds of tiles that begin at this row and column. */
extern void cpu_point_at_thresholds(Worker *worker, const PackedRows *a, size_t row, size_t col,
									TileSweep *sweep);

#endif							/* FASTED_CPU_NEAR_THRESHOLDS_H */
