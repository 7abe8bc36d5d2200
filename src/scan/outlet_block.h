/*-------------------------------------------------------------------------
 *
 * outlet_block.h
 *	  Pairs of row numbers become blocks of column values.
 *
 * A row costs a few nanoseconds, most of them for the two ids, which lie all
 * over memory.  So ids are looked up for a block of pairs at a time, one column
 * after the other: then many of the loads are under way at once.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_OUTLET_BLOCK_H
#define FASTED_OUTLET_BLOCK_H

#include "engine/engine.h"
#include "join/row_set.h"
#include "scan/scan_conditions.h"

#define OUTLET_ROWS 1024
#define OUTLET_COLUMNS 4

/* Rows of the result, column by column, for the columns that are used. */
typedef struct OutletBlock
{
	uint32		nrows;
	Datum		values[OUTLET_COLUMNS][OUTLET_ROWS];
} OutletBlock;

/* How pairs become rows. */
typedef struct RowMaker
{
	const KeySet *keys;
	bool		ordered;		/* (a, b) and (b, a) */
	bool		has_ids;		/* does it matter which id is the lower one? */
	bool		filtered;		/* does the filter hold back anything? */
	PairFilter	filter;
	int			ncolumns;
	int			columns[3];		/* COLUMN_ID_A, ... */

	/* Pairs chosen for the block at work: a is id_a's row, b id_b's; and one to spare. */
	FastedPair	chosen[OUTLET_ROWS + 1];
} RowMaker;

extern void InitRowMaker(RowMaker *maker, List *columns, bool ordered,
						 const PairFilter *filter, const KeySet *keys);

/* Fills the block from the first of these pairs; returns how many were used. */
extern size_t FillBlock(RowMaker *maker, OutletBlock *block,
						const FastedPair *pairs, size_t npairs);

/* The same for pairs of a row with itself, from row number first on. */
extern size_t FillBlockWithSelfPairs(RowMaker *maker, OutletBlock *block, uint32 first);

/* Does every pair that the engine finds pass the filter's distances, but for eps? */
extern bool TakesAllDistances(const PairFilter *filter);

/* The number of rows that so many pairs make, of which each passes. */
extern uint64 RowsOfPairs(const RowMaker *maker, uint64 npairs);

/* The number of rows that these pairs make. */
extern uint64 CountRows(const RowMaker *maker, const FastedPair *pairs, size_t npairs);
extern uint64 CountSelfPairs(const RowMaker *maker);

#endif							/* FASTED_OUTLET_BLOCK_H */
