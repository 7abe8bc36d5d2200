/*-------------------------------------------------------------------------
 *
 * row_numbers.h
 *	  Arrays with a number of each row; disjoint sets of rows.
 *
 * The system makes their memory as it is first written, which takes more than a tenth
 * of a second for a hundred million rows.  So all of these answer interrupts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_NUMBERS_H
#define FASTED_ROW_NUMBERS_H

/* Room for them, in the current memory context; what is in there is not known. */
extern uint32 *AllocRowNumbers(uint32 count);

/* Each row has its own number, from zero on. */
extern uint32 *OwnRowNumbers(uint32 count);

/* Each row has this one. */
extern uint32 *SameRowNumbers(uint32 count, uint32 number);

extern void CopyRowNumbers(uint32 *to, const uint32 *from, uint32 count);

/* The row that has each number, where no two have the same and the greatest is count - 1. */
extern uint32 *RowsOfNumbers(const uint32 *numbers, uint32 count);

/*
 * Disjoint sets: which rows belong together, when that is told pair by pair.  Each set is a
 * tree whose root is its least row.  parent[row] is row itself at first.
 */

/* The root of the row's set; halves the way to it, and writes where that is shorter. */
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
	/* most pairs are of one set by then */
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
