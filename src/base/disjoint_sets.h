/*-------------------------------------------------------------------------
 *
 * disjoint_sets.h
 *	  Which rows belong together, when that is told pair by pair.
 *
 * Each set is a tree whose root is its least row.  parent[row] is row itself at first.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_DISJOINT_SETS_H
#define FASTED_DISJOINT_SETS_H

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

#endif							/* FASTED_DISJOINT_SETS_H */
