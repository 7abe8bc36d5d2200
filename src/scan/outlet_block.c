/*-------------------------------------------------------------------------
 *
 * outlet_block.c
 *	  Fills blocks with the columns that a query asks for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "scan/outlet_block.h"
#include "scan/scan_node.h"

/* So many rows before it is used, an id is asked for. */
#define PREFETCH_DISTANCE 24

#if defined(__GNUC__)
#define Prefetch(address) __builtin_prefetch(address)
#else
#define Prefetch(address) ((void) 0)
#endif

void
InitRowMaker(RowMaker *maker, List *columns, bool ordered,
			 const PairFilter *filter, const KeySet *keys)
{
	bool		ids = false;
	ListCell   *cell;

	maker->keys = keys;
	maker->ordered = ordered;
	maker->filter = *filter;
	maker->ncolumns = 0;
	foreach(cell, columns)
	{
		int			column = lfirst_int(cell);

		maker->columns[maker->ncolumns++] = column;
		ids |= column != COLUMN_DIST;
	}
	maker->has_ids = ids;
	maker->filtered = filter->least > 0.0 || filter->most != HUGE_VAL ||
		!filter->below || (ordered && !filter->above);
}

static inline bool
PassesDistance(const PairFilter *filter, double dist)
{
	return dist >= filter->least && dist <= filter->most;
}

/* The pairs that make rows, in the direction in which they do. */
static size_t
Choose(RowMaker *maker, const FastedPair *pairs, size_t npairs, uint32 *nchosen)
{
	const PairFilter *filter = &maker->filter;
	bool		below = filter->below;
	bool		above = maker->ordered && filter->above;
	const uint32 *rank = maker->has_ids ? maker->keys->rank : NULL;
	FastedPair *chosen = maker->chosen;
	size_t		most = maker->ordered ? OUTLET_ROWS / 2 : OUTLET_ROWS;
	size_t		used = Min(npairs, most);
	uint32		n = 0;

	for (size_t i = 0; i < used; i++)
	{
		FastedPair	pair = pairs[i];

		if (!PassesDistance(filter, pair.dist))
			continue;
		if (rank != NULL)
		{
			if (i + PREFETCH_DISTANCE < used)
			{
				Prefetch(&rank[pairs[i + PREFETCH_DISTANCE].a]);
				Prefetch(&rank[pairs[i + PREFETCH_DISTANCE].b]);
			}
			if (rank[pair.a] > rank[pair.b])
			{
				pair.a = pairs[i].b;
				pair.b = pairs[i].a;
			}
		}
		chosen[n] = pair;
		n += below;
		chosen[n].a = pair.b;
		chosen[n].b = pair.a;
		chosen[n].dist = pair.dist;
		n += above;
	}
	*nchosen = n;
	return used;
}

/* One column of ids; the row numbers are those of the pairs' a or b. */
static pg_attribute_always_inline void
GatherIds(Datum *column, const Datum *ids, const FastedPair *pairs, uint32 n, bool second)
{
	uint32		ahead = n > PREFETCH_DISTANCE ? n - PREFETCH_DISTANCE : 0;
	uint32		i;

	for (i = 0; i < ahead; i++)
	{
		const FastedPair *later = &pairs[i + PREFETCH_DISTANCE];

		Prefetch(&ids[second ? later->b : later->a]);
		column[i] = ids[second ? pairs[i].b : pairs[i].a];
	}
	for (; i < n; i++)
		column[i] = ids[second ? pairs[i].b : pairs[i].a];
}

static void
GatherDistances(Datum *column, const FastedPair *pairs, uint32 n)
{
	for (uint32 i = 0; i < n; i++)
	{
#ifdef USE_FLOAT8_BYVAL
		column[i] = Float8GetDatum(pairs[i].dist);
#else
		column[i] = PointerGetDatum(&pairs[i].dist);
#endif
	}
}

static void
Translate(const RowMaker *maker, OutletBlock *block, const FastedPair *pairs, uint32 n)
{
	const Datum *ids = maker->keys->values;

	block->nrows = n;
	for (int c = 0; c < maker->ncolumns; c++)
	{
		switch (maker->columns[c])
		{
			case COLUMN_ID_A:
				GatherIds(block->values[c], ids, pairs, n, false);
				break;
			case COLUMN_ID_B:
				GatherIds(block->values[c], ids, pairs, n, true);
				break;
			default:
				GatherDistances(block->values[c], pairs, n);
				break;
		}
	}
}

size_t
FillBlock(RowMaker *maker, OutletBlock *block, const FastedPair *pairs, size_t npairs)
{
	uint32		nchosen;
	size_t		used;

	/* Mostly the pairs are as they should be. */
	if (!maker->filtered && !maker->ordered &&
		(!maker->has_ids || maker->keys->rank == NULL))
	{
		used = Min(npairs, OUTLET_ROWS);
		Translate(maker, block, pairs, used);
		return used;
	}
	used = Choose(maker, pairs, npairs, &nchosen);
	Translate(maker, block, maker->chosen, nchosen);
	return used;
}

static inline bool
SelfPairsPass(const RowMaker *maker)
{
	return maker->filter.equal && PassesDistance(&maker->filter, 0.0);
}

size_t
FillBlockWithSelfPairs(RowMaker *maker, OutletBlock *block, uint32 first)
{
	uint32		n = SelfPairsPass(maker) ? Min(maker->keys->count - first, OUTLET_ROWS) : 0;

	for (uint32 i = 0; i < n; i++)
	{
		maker->chosen[i].a = maker->chosen[i].b = first + i;
		maker->chosen[i].dist = 0.0;
	}
	Translate(maker, block, maker->chosen, n);
	return n > 0 ? n : maker->keys->count - first;
}

bool
TakesAllDistances(const PairFilter *filter)
{
	return filter->least <= 0.0 && filter->most >= 0.0;
}

uint64
RowsOfPairs(const RowMaker *maker, uint64 npairs)
{
	return npairs * (maker->filter.below + (maker->ordered && maker->filter.above));
}

uint64
CountRows(const RowMaker *maker, const FastedPair *pairs, size_t npairs)
{
	uint64		count = 0;

	for (size_t i = 0; i < npairs; i++)
		count += PassesDistance(&maker->filter, pairs[i].dist);
	return RowsOfPairs(maker, count);
}

uint64
CountSelfPairs(const RowMaker *maker)
{
	return SelfPairsPass(maker) ? maker->keys->count : 0;
}
