/*-------------------------------------------------------------------------
 *
 * join_groups.c
 *	  Recognises equalities, sorts rows by hash, and merges both sides.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join_node/join_groups.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"

GroupKey *
AsGroupKey(RestrictInfo *rinfo, Relids outer, Relids inner)
{
	OpExpr	   *clause = (OpExpr *) rinfo->clause;
	GroupKey   *key;
	Oid			left;
	Oid			right;
	bool		swapped;

	if (!rinfo->can_join || !OidIsValid(rinfo->hashjoinoperator) || !IsA(clause, OpExpr) ||
		list_length(clause->args) != 2 || !op_strict(rinfo->hashjoinoperator) ||
		!get_op_hash_functions(rinfo->hashjoinoperator, &left, &right))
		return NULL;
	swapped = !bms_is_subset(rinfo->left_relids, outer);
	if (!bms_is_subset(swapped ? rinfo->right_relids : rinfo->left_relids, outer) ||
		!bms_is_subset(swapped ? rinfo->left_relids : rinfo->right_relids, inner))
		return NULL;
	key = palloc(sizeof(GroupKey));
	key->outer = swapped ? lsecond(clause->args) : linitial(clause->args);
	key->inner = swapped ? linitial(clause->args) : lsecond(clause->args);
	key->outer_hash = swapped ? right : left;
	key->inner_hash = swapped ? left : right;
	key->collation = clause->inputcollid;
	key->rinfo = rinfo;
	return key;
}

/* In order of row within a group, as they are read from memory or a file. */
static int
CompareGroupedRows(const void *x, const void *y, void *arg)
{
	const GroupedRow *a = x;
	const GroupedRow *b = y;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return (a->row > b->row) - (a->row < b->row);
}

void
SortGroups(GroupedRow *rows, uint32 count)
{
	qsort_interruptible(rows, count, sizeof(GroupedRow), CompareGroupedRows, NULL);
}

/* Rows of one hash, from first on. */
static uint32
CountGroup(const GroupPlace *place)
{
	uint32		end = place->first;

	while (end < place->total && place->rows[end].hash == place->rows[place->first].hash)
	{
		CHECK_FOR_INTERRUPTS();
		end++;
	}
	return end - place->first;
}

bool
NextGroup(GroupPlace *outer, GroupPlace *inner)
{
	outer->first += outer->count;
	inner->first += inner->count;
	while (outer->first < outer->total && inner->first < inner->total)
	{
		uint64		x = outer->rows[outer->first].hash;
		uint64		y = inner->rows[inner->first].hash;

		CHECK_FOR_INTERRUPTS();
		if (x < y)
			outer->first++;
		else if (x > y)
			inner->first++;
		else
		{
			outer->count = CountGroup(outer);
			inner->count = CountGroup(inner);
			return true;
		}
	}
	outer->count = inner->count = 0;
	return false;
}
