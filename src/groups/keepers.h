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
	bool		by_number;		/* the rank of a row is its number, not its id's */
	const GroupRows *rows;
	const uint32 *rank;			/* by row number; NULL: is the number */
	PairStore	store;			/* pairs of ranks, a < b */
	PairMemory *scratch;		/* for sorting */

	/* by rank */
	uint32	   *keeper;			/* the rank of a kept row, maybe the row itself */
	double	   *dist;			/* to it, where it is another one */
} Keepers;

/* Results are kept, an id, and dist. */
extern Grouping *KeepersCreate(bool by_number);

#endif							/* FASTED_KEEPERS_H */
