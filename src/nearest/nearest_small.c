/*-------------------------------------------------------------------------
 *
 * nearest_small.c
 *	  All distances of few rows, by the canonical form.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "distance/distance.h"
#include "nearest/nearest_small.h"
#include "rows/vector.h"
#include "utils/memutils.h"

typedef struct SmallRows
{
	RowSink		sink;
	MemoryContext context;
	KeySet	   *keys;
	FastedElement element;
	float	   *vectors;
	uint32		room;			/* dimensions that there is memory for */
	uint32		dimensions;		/* zero: no row yet */
	char	   *first_row_name;
} SmallRows;

struct SmallGroup
{
	FastedMetric metric;
	double		most;
	uint32		k;
	int			sides;
	SmallRows	rows[2];
	FastedNeighbor neighbors[SMALL_GROUP_ROWS];
};

/* --- rows */

static const float *
RowAt(const SmallRows *rows, uint64 row)
{
	return rows->vectors + row * RowFloats(rows->element, rows->dimensions);
}

static void
ExpectRows(RowSink *sink, uint64 rows)
{
}

static void
SetDimensions(RowSink *sink, int dimensions, const char *row_name)
{
	SmallRows  *rows = (SmallRows *) sink;

	rows->dimensions = dimensions;
	rows->first_row_name = MemoryContextStrdup(rows->context, row_name);
	if (rows->room >= rows->dimensions)
		return;
	if (rows->vectors != NULL)
		pfree(rows->vectors);
	rows->vectors = MemoryContextAlloc(rows->context,
									   SMALL_GROUP_ROWS * RowBytes(rows->element, dimensions));
	rows->room = rows->dimensions;
}

static size_t
RoomForRows(RowSink *sink, float **room)
{
	SmallRows  *rows = (SmallRows *) sink;

	*room = (float *) RowAt(rows, rows->keys->count);
	return SMALL_GROUP_ROWS - rows->keys->count;
}

static void
TakeRows(RowSink *sink, const Datum *keys, size_t nrows)
{
	SmallRows  *rows = (SmallRows *) sink;

	for (size_t i = 0; i < nrows; i++)
		KeySetAdd(rows->keys, keys[i]);
}

static void
InitRows(SmallRows *rows, const VectorSource *source)
{
	rows->sink.expect_rows = ExpectRows;
	rows->sink.set_dimensions = SetDimensions;
	rows->sink.room_for_rows = RoomForRows;
	rows->sink.take_rows = TakeRows;
	rows->context = CurrentMemoryContext;
	rows->element = source->element;
	rows->keys = KeySetCreate(source);
}

static void
ResetRows(SmallRows *rows)
{
	KeySetReset(rows->keys);
	rows->dimensions = 0;
	if (rows->first_row_name != NULL)
		pfree(rows->first_row_name);
	rows->first_row_name = NULL;
}

/* --- a group */

SmallGroup *
SmallGroupCreate(const NearestProblem *problem)
{
	SmallGroup *group = palloc0(sizeof(SmallGroup));

	group->metric = problem->a->metric;
	group->most = problem->most;
	group->k = problem->k;
	group->sides = problem->b != NULL ? 2 : 1;
	InitRows(&group->rows[0], problem->a);
	if (problem->b != NULL)
		InitRows(&group->rows[1], problem->b);
	return group;
}

void
SmallGroupReset(SmallGroup *group)
{
	for (int side = 0; side < group->sides; side++)
		ResetRows(&group->rows[side]);
}

RowSink *
SmallGroupSink(SmallGroup *group, int side)
{
	return &group->rows[side].sink;
}

static const SmallRows *
NeighborRows(const SmallGroup *group)
{
	return &group->rows[group->sides - 1];
}

bool
SmallGroupIsAlike(const SmallGroup *group)
{
	uint32		a = group->rows[0].dimensions;
	uint32		b = NeighborRows(group)->dimensions;

	return a == b || a == 0 || b == 0;
}

void
SmallGroupPush(const SmallGroup *group, int side, RowSink *sink)
{
	const SmallRows *rows = &group->rows[side];
	uint32		done = 0;

	if (rows->dimensions == 0)
		return;
	sink->set_dimensions(sink, rows->dimensions, rows->first_row_name);
	while (done < rows->keys->count)
	{
		float	   *room;
		size_t		n = Min(sink->room_for_rows(sink, &room), rows->keys->count - done);

		if (n == 0)
			return;
		memcpy(room, RowAt(rows, done), n * RowBytes(rows->element, rows->dimensions));
		sink->take_rows(sink, rows->keys->values + done, n);
		done += n;
	}
}

void
SmallGroupFinish(SmallGroup *group)
{
	for (int side = 0; side < group->sides; side++)
		KeySetFinish(group->rows[side].keys);
}

KeySet *
SmallGroupKeys(const SmallGroup *group, int side)
{
	return group->rows[side < group->sides ? side : 0].keys;
}

void
SmallGroupAddTo(const SmallGroup *group, FastedStats *stats)
{
	for (int side = 0; side < group->sides; side++)
	{
		stats->rows += group->rows[side].keys->count;
		stats->dimensions = Max(stats->dimensions, group->rows[side].dimensions);
	}
}

/* --- neighbours */

static int
CompareNeighbors(const void *a, const void *b)
{
	const FastedNeighbor *x = a;
	const FastedNeighbor *y = b;

	if (x->dist != y->dist)
		return x->dist < y->dist ? -1 : 1;
	return x->row < y->row ? -1 : 1;
}

/* What is not a number, as a cosine distance may be, is within no distance. */
const FastedNeighbor *
SmallGroupNearest(SmallGroup *group, uint64 row, uint32 *length)
{
	const SmallRows *a = &group->rows[0];
	const SmallRows *b = NeighborRows(group);
	const float *vector = RowAt(a, row);
	uint32		n = 0;

	for (uint32 i = 0; i < b->keys->count; i++)
	{
		FastedNeighbor *neighbor = &group->neighbors[n];

		if (a == b && i == row)
			continue;
		neighbor->row = b->keys->rank != NULL ? b->keys->rank[i] : i;
		neighbor->dist = ExactDistance(group->metric, a->element, vector, RowAt(b, i), a->dimensions);
		if (neighbor->dist <= group->most)
			n++;
	}
	qsort(group->neighbors, n, sizeof(FastedNeighbor), CompareNeighbors);
	*length = Min(n, group->k);
	return group->neighbors;
}
