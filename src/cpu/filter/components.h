/*-------------------------------------------------------------------------
 *
 * components.h
 *	  Nearest neighbors in other components, by mutual reachability distance (FastedComponents).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_COMPONENTS_H
#define FASTED_CPU_COMPONENTS_H

#include "../state/worker.h"

/* Lowers the radius of each row of set a to its bound; of a row without neighbours, to -infinity. */
extern void cpu_bound_radii(FastedJoin *join);

/* Returns the mutual reachability distance of rows a and b, whose distance is dist. */
extern double cpu_mutual_reachability(const FastedJoin *join, size_t a, size_t b, double dist);

/* Returns whether the rows at places a and b may be a pair. */
extern bool cpu_are_components_apart(const FastedJoin *join, size_t a, size_t b);

/*
 * Removes a row's candidates, listed from `first` on, that are of the same component, and those
 * whose core distance is infinite or exceeds the radius.
 */
extern void cpu_keep_components(Worker *worker, const Strip *strip, uint32_t row, uint32_t first);

/*
 * Returns those row tiles of a strip that may have pairs of different components with the column
 * tile that begins at `col`, among the tiles given.
 */
extern FastedSpan cpu_mixed_tiles(const FastedJoin *join, const Strip *strip, size_t col,
								  FastedSpan tiles);

#endif							/* FASTED_CPU_COMPONENTS_H */
