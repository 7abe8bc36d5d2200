/*-------------------------------------------------------------------------
 *
 * join_groups.h
 *	  Equalities beside the distance: only rows with equal keys meet.
 *
 * Rows are put into groups by the hash of their keys.  Different keys may have one
 * hash: the equalities themselves are checked on what is found, as all clauses are.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_GROUPS_H
#define FASTED_JOIN_GROUPS_H

#include "nodes/pathnodes.h"

/* One equality, of an expression of each side. */
typedef struct GroupKey
{
	Expr	   *outer;
	Expr	   *inner;
	Oid			outer_hash;		/* functions that give equal values one hash */
	Oid			inner_hash;
	Oid			collation;
	RestrictInfo *rinfo;
} GroupKey;

/* The clause as such a key; NULL: it is none. */
extern GroupKey *AsGroupKey(RestrictInfo *rinfo, Relids outer, Relids inner);

/* A row and the hash of its keys. */
typedef struct GroupedRow
{
	uint64		hash;
	uint32		row;
} GroupedRow;

/* Puts rows with one hash side by side.  Answers interrupts. */
extern void SortGroups(GroupedRow *rows, uint32 count);

/*
 * Goes on to the next hash that both sides have, behind the rows that outer and inner
 * have come to; their counts are those of its rows.  False: there is none.
 */
typedef struct GroupPlace
{
	const GroupedRow *rows;
	uint32		total;
	uint32		first;			/* of the group */
	uint32		count;
} GroupPlace;

extern bool NextGroup(GroupPlace *outer, GroupPlace *inner);

#endif							/* FASTED_JOIN_GROUPS_H */
