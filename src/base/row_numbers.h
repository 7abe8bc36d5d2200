/*-------------------------------------------------------------------------
 *
 * row_numbers.h
 *	  Arrays with a number for each row; disjoint sets of rows.
 *
 * The system allocates pages when they are first written, which takes more than 0.1 s for a
 * hundred million rows.  So all functions that fill an array check for interrupts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_NUMBERS_H
#define FASTED_ROW_NUMBERS_H

/* Allocates an uninitialized array in the current memory context. */
extern uint32 *AllocRowNumbers(uint32 count);

/* Makes an array with numbers[row] = row. */
extern uint32 *OwnRowNumbers(uint32 count);

/* Makes an array with numbers[row] = number. */
extern uint32 *SameRowNumbers(uint32 count, uint32 number);

extern void CopyRowNumbers(uint32 *to, const uint32 *from, uint32 count);

/* Returns the number of a row; numbers: NULL for OwnRowNumbers. */
static inline uint32
NumberOfRow(const uint32 *numbers, uint32 row)
{
	return numbers == NULL ? row : numbers[row];
}

/* The inverse of a permutation: result[numbers[row]] = row. */
extern uint32 *RowsOfNumbers(const uint32 *numbers, uint32 count);

/*
 * Disjoint sets (union-find), united pair by pair.  Each set is a tree whose root is its lowest
 * row.  Initially parent[row] = row.
 */

/* Returns the root of the row's set, with path halving; writes only if that shortens a path. */
static inline uint32
FindRoot(uint32 *parent, uint32 row)
{
	uint32		up = parent[row];

	while (up != row)
	{
		uint32		next = parent[up];

		if (next == up)
			return up;
		parent[row] = next;
		row = next;
		up = parent[row];
	}
	return row;
}

static inline void
UniteSets(uint32 *parent, uint32 a, uint32 b)
{
	/* after a while, most pairs are within one set */
	if (parent[a] == parent[b])
		return;
	a = FindRoot(parent, a);
	b = FindRoot(parent, b);
	if (a < b)
		parent[b] = a;
	else
		parent[a] = b;
}

#endif							/* FASTED_ROW_NUMBERS_H */
