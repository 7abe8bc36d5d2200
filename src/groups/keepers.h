/*-------------------------------------------------------------------------
 *
 * keepers.h
 *	  One row of each group of near ones: the first by rank.
 *
 * In order of rank, a row is kept unless one that is kept is within eps: the
 * lexicographically first maximal independent set of the graph of near rows.  A row
 * that is not kept goes to the nearest kept row before it, of those at the same
 * distance to the first.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_KEEPERS_H
#define FASTED_KEEPERS_H

#include "groups/grouping.h"
#include "groups/pair_store.h"

typedef struct Keepers
{
	Grouping	base;
	const GroupRows *rows;
	const uint32 *rank;			/* by row number; NULL: is the number */
	const uint32 *row_of_rank;
	bool		ranked;			/* the engine got ranks */
	PairStore	store;			/* pairs of ranks, a < b */
	PairMemory *scratch;		/* for sorting */

	/* by rank */
	uint32	   *keeper;			/* the rank of a kept row, maybe the row itself */
	double	   *dist;			/* to it, where it is another one */
} Keepers;

/*
 * The rank of a row is by its source's order, where that has one, else by its id.
 * Results are kept, an id, and dist.
 */
extern Grouping *KeepersCreate(void);

#endif							/* FASTED_KEEPERS_H */
