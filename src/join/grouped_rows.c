/*-------------------------------------------------------------------------
 *
 * grouped_rows.c
 *	  Keeps rows, numbers their partitions, and hands rows on in that order.
 *
 * Sources are read in any order.  Rows are kept here, in memory and then in a temporary file,
 * until all have come; then they go on, partition by partition.  Vectors of different numbers of
 * dimensions, in different partitions, are filled up with zeros: distances are the same to the
 * last bit, for each of these adds a zero to a sum.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/guc.h"
#include "base/interrupts.h"
#include "join/row_set.h"
#include "rows/reader.h"
#include "rows/source.h"
#include "rows/vector.h"
#include "utils/memutils.h"

/* Vectors are kept in pieces of so many floats; no vector is in two. */
#define PIECE_FLOATS ((uint64) 1024 * 1024)

/* Rows that go on at a time. */
#define ROWS_AT_ONCE 64

typedef struct KeptRow
{
	uint64		place;			/* of the first float */
	uint32		group;
	uint32		dimensions;
} KeptRow;

typedef struct Side
{
	RowSink		sink;			/* of the source's rows */
	GroupedRows *all;
	const VectorSource *source;
	MemoryContext context;
	KeySet	   *keys;
	KeptRow    *rows;
	uint32		count;
	uint32		room;
	KeptRow		next;			/* the row that comes */

	float	  **pieces;			/* in memory; then one that is on its way into the file */
	uint64		npieces;
	uint64		most_pieces;
	uint64		end;			/* floats so far */
	SpillFile  *spill;			/* NULL: all are in memory */

	uint32	   *order;			/* rows by partition, in each as they came */
	uint32	   *first;			/* where each partition's begin there, and the last one ends */
} Side;

/* What the rows of a partition have in common: what the first one has. */
typedef struct Group
{
	uint32		dimensions;		/* zero: there is no row yet */
	uint32		row;
	int			side;
} Group;

struct GroupedRows
{
	MemoryContext context;
	int			nsides;
	Side		sides[2];
	GroupNumbers *numbers;
	Group	   *groups;
	uint32		room;
	uint32		dimensions;		/* the largest number of those that go on */
};

/* --- in */

static void
ReportDimensions(const GroupedRows *all, const Group *group, const Side *side, int dimensions,
				 Datum key)
{
	const Side *first = &all->sides[group->side];
	const VectorSource *a = first->source;
	const VectorSource *b = side->source;
	char	   *name = KeyName(a, first->keys->values[group->row]);

	ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("vectors of one partition have different numbers of dimensions"),
			 first == side ?
			 errdetail("The number of dimensions of column \"%s\" of \"%s\" is %u in the row with %s, and %d in the row with %s.",
					   a->vector_column, a->relation, group->dimensions, name,
					   dimensions, KeyName(b, key)) :
			 errdetail("The number of dimensions of column \"%s\" of \"%s\" is %u in the row with %s, and that of column \"%s\" of \"%s\" is %d in the row with %s.",
					   a->vector_column, a->relation, group->dimensions, name,
					   b->vector_column, b->relation, dimensions, KeyName(b, key)),
			 errhint("Only vectors of different partitions may have different numbers of dimensions.")));
}

static void
BeginRow(RowSink *sink, Datum value, int dimensions, Datum key)
{
	Side	   *side = (Side *) sink;
	GroupedRows *all = side->all;
	uint32		number = GroupNumberOf(all->numbers, value);

	if (number >= all->room)
	{
		uint32		room = 2 * all->room;

		all->groups = repalloc_huge(all->groups, (Size) room * sizeof(Group));
		memset(all->groups + all->room, 0, (Size) all->room * sizeof(Group));
		all->room = room;
	}
	if (all->groups[number].dimensions != 0 && all->groups[number].dimensions != (uint32) dimensions)
		ReportDimensions(all, &all->groups[number], side, dimensions, key);
	side->next.group = number;
	side->next.dimensions = dimensions;
}

static void
ExpectRows(RowSink *sink, uint64 rows)
{
}

static void
SetDimensions(RowSink *sink, int dimensions, const char *row_name)
{
}

/* The piece that is full goes into the file, unless there is memory for another one. */
static void
AddPiece(Side *side)
{
	MemoryContext old = MemoryContextSwitchTo(side->context);

	if (side->npieces < side->most_pieces)
	{
		side->pieces = side->npieces == 0 ? palloc(sizeof(float *)) :
			repalloc_huge(side->pieces, (side->npieces + 1) * sizeof(float *));
		side->pieces[side->npieces++] = MemoryContextAllocHuge(side->context,
															   PIECE_FLOATS * sizeof(float));
	}
	else
	{
		if (side->spill == NULL)
			side->spill = SpillCreate(sizeof(float));
		SpillAppend(side->spill, side->pieces[side->npieces - 1], PIECE_FLOATS);
	}
	MemoryContextSwitchTo(old);
}

static size_t
RoomForRows(RowSink *sink, float **room)
{
	Side	   *side = (Side *) sink;
	uint64		floats = RowFloats(side->source->element, side->next.dimensions);
	uint64		left = (PIECE_FLOATS - side->end % PIECE_FLOATS) % PIECE_FLOATS;

	if (left < floats)
	{
		side->end += left;
		AddPiece(side);
	}
	side->next.place = side->end;
	*room = side->pieces[side->npieces - 1] + side->end % PIECE_FLOATS;
	return 1;
}

static void
TakeRows(RowSink *sink, const Datum *keys, size_t nrows)
{
	Side	   *side = (Side *) sink;
	Group	   *group = &side->all->groups[side->next.group];

	if (side->count == FASTED_MAX_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("\"%s\" has too many rows to join", side->source->relation),
				 errhint("At most %u rows can be joined at once.", FASTED_MAX_ROWS)));
	if (group->dimensions == 0)
		*group = (Group) {
			.dimensions = side->next.dimensions,.row = side->count,.side = side - side->all->sides
		};
	if (side->count == side->room)
	{
		side->room = Max(1024, 2 * side->room);
		side->rows = side->rows == NULL ?
			MemoryContextAllocHuge(side->context, (Size) side->room * sizeof(KeptRow)) :
			repalloc_huge(side->rows, (Size) side->room * sizeof(KeptRow));
	}
	KeySetAdd(side->keys, keys[0]);
	side->rows[side->count++] = side->next;
	side->end += RowFloats(side->source->element, side->next.dimensions);
}

/* By partition, in each as they came. */
static void
SortSide(Side *side, uint32 ngroups)
{
	uint32	   *next;

	side->order = MemoryContextAllocHuge(side->context, Max(1, (Size) side->count) * sizeof(uint32));
	side->first = MemoryContextAllocExtended(side->context, ((Size) ngroups + 2) * sizeof(uint32),
											 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	/* first[g + 2] counts, then first[g + 1] runs from the group's first row to its end */
	for (uint32 row = 0; row < side->count; row++)
		side->first[side->rows[row].group + 2]++;
	for (uint32 g = 0; g < ngroups; g++)
		side->first[g + 2] += side->first[g + 1];
	next = side->first + 1;
	for (uint32 row = 0; row < side->count; row++)
	{
		if (row % 1024 == 0)
			CheckJoinInterrupts();
		side->order[next[side->rows[row].group]++] = row;
	}
}

static uint32
RowsOfGroup(const Side *side, uint32 g)
{
	return side->first[g + 1] - side->first[g];
}

static bool
GoesOn(const GroupedRows *all, uint32 g)
{
	return RowsOfGroup(&all->sides[0], g) > 0 && RowsOfGroup(&all->sides[all->nsides - 1], g) > 0;
}

GroupedRows *
ReadGroupedRows(const VectorSource *const *sources, int sides)
{
	GroupedRows *all = palloc0(sizeof(GroupedRows));
	uint64		limit = (uint64) fasted_setting_memory_limit * 1024 / 2 / sides;

	all->context = CurrentMemoryContext;
	all->nsides = sides;
	all->numbers = GroupNumbersCreate(sources[0]);
	all->room = 256;
	all->groups = palloc0(all->room * sizeof(Group));
	for (int i = 0; i < sides; i++)
	{
		Side	   *side = &all->sides[i];

		side->all = all;
		side->source = sources[i];
		side->context = CurrentMemoryContext;
		side->keys = KeySetCreate(sources[i]);
		side->most_pieces = Max(1, limit / (PIECE_FLOATS * sizeof(float)));
		side->sink.expect_rows = ExpectRows;
		side->sink.set_dimensions = SetDimensions;
		side->sink.room_for_rows = RoomForRows;
		side->sink.take_rows = TakeRows;
		side->sink.begin_row = BeginRow;
		ReadVectors(sources[i], &side->sink);
	}
	for (int i = 0; i < sides; i++)
		SortSide(&all->sides[i], GroupNumbersCount(all->numbers));
	for (uint32 g = 0; g < GroupNumbersCount(all->numbers); g++)
		if (GoesOn(all, g))
			all->dimensions = Max(all->dimensions, all->groups[g].dimensions);
	return all;
}

/* --- out */

const FastedRowGroup *
GroupsOfRows(const GroupedRows *all, uint32 *ngroups)
{
	uint32		count = GroupNumbersCount(all->numbers);
	FastedRowGroup *groups = MemoryContextAllocHuge(all->context,
													((Size) count + 1) * sizeof(FastedRowGroup));
	uint32		a = 0;
	uint32		b = 0;

	*ngroups = 0;
	for (uint32 g = 0; g < count; g++)
	{
		FastedRowGroup group = {
			.first_a = a,.rows_a = RowsOfGroup(&all->sides[0], g),
			.first_b = b,.rows_b = RowsOfGroup(&all->sides[all->nsides - 1], g)
		};

		if (!GoesOn(all, g))
			continue;
		groups[(*ngroups)++] = group;
		a += group.rows_a;
		b += group.rows_b;
	}
	return groups;
}

/* To the next row that goes on, number i in the order, of partition g; false: there is none. */
static bool
NextRow(const GroupedRows *all, const Side *side, uint32 *g, uint32 *i)
{
	while (*g < GroupNumbersCount(all->numbers) && (!GoesOn(all, *g) || *i >= side->first[*g + 1]))
	{
		(*g)++;
		*i = side->first[*g];
	}
	return *g < GroupNumbersCount(all->numbers);
}

static void
CopyRow(const GroupedRows *all, const Side *side, const KeptRow *kept, float *to)
{
	size_t		floats = RowFloats(side->source->element, kept->dimensions);
	uint64		piece = kept->place / PIECE_FLOATS;
	uint64		in_memory = side->spill == NULL ? side->npieces : side->npieces - 1;

	if (piece < in_memory)
		memcpy(to, side->pieces[piece] + kept->place % PIECE_FLOATS, floats * sizeof(float));
	else if (piece == (side->end - 1) / PIECE_FLOATS)
		memcpy(to, side->pieces[side->npieces - 1] + kept->place % PIECE_FLOATS,
			   floats * sizeof(float));
	else
		SpillRead(side->spill, kept->place - in_memory * PIECE_FLOATS, to, floats);
	memset(to + floats, 0, (RowFloats(side->source->element, all->dimensions) - floats) * sizeof(float));
}

void
PushGroupedRows(GroupedRows *all, int number, RowSink *sink)
{
	Side	   *side = &all->sides[number];
	size_t		stride = RowFloats(side->source->element, all->dimensions);
	uint32		g = 0;
	uint32		i = side->first[0];

	if (!NextRow(all, side, &g, &i))
		return;
	sink->expect_rows(sink, side->count);
	sink->set_dimensions(sink, all->dimensions,
						 KeyName(side->source, side->keys->values[side->order[i]]));
	while (NextRow(all, side, &g, &i))
	{
		Datum		keys[ROWS_AT_ONCE];
		float	   *room;
		size_t		most = Min(sink->room_for_rows(sink, &room), ROWS_AT_ONCE);
		size_t		n = 0;

		CheckJoinInterrupts();
		if (most == 0)
			return;
		for (; n < most && NextRow(all, side, &g, &i); n++, i++)
		{
			uint32		row = side->order[i];

			CopyRow(all, side, &side->rows[row], room + n * stride);
			keys[n] = side->keys->values[row];
		}
		sink->take_rows(sink, keys, n);
	}
}

uint32 *
OrderOfGroupedRows(const GroupedRows *all, int number)
{
	const Side *side = &all->sides[number];
	uint32	   *order = MemoryContextAllocHuge(CurrentMemoryContext,
											   Max(1, (Size) side->count) * sizeof(uint32));
	uint32		g = 0;
	uint32		i = 0;

	for (uint32 n = 0; NextRow(all, side, &g, &i); n++, i++)
		order[n] = side->order[i];
	return order;
}
