/*-------------------------------------------------------------------------
 *
 * row_ranks.h
 *	  The ranks of rows by an order that is read apart.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_RANKS_H
#define FASTED_ROW_RANKS_H

#include "groups/grouping.h"

typedef struct RowRanks
{
	uint32	   *rank;			/* by row number */
	uint32	   *row;			/* by rank: its number */
} RowRanks;

/* Reads the order of the rows' source.  Allocates in the current memory context. */
extern RowRanks ReadRowRanks(const GroupRows *rows);

#endif							/* FASTED_ROW_RANKS_H */
