/*-------------------------------------------------------------------------
 *
 * partitioned_rows.c
 *	  Buffers rows, assigns partition numbers, and pushes the rows in partition order.
 *
 * Sources are read in any order.  Rows are buffered in memory, and then in a temporary file, until
 * all have been read.  They are then pushed partition by partition.  Vectors of different
 * partitions may differ in their number of dimensions.  Shorter vectors are padded with zeros.
 * This does not change any bit of a distance, because each padded dimension adds zero to a sum.
 *
 * A join that finds only equal vectors (eps 0) has partitions, too: by a hash of the vectors.  So
 * equal rows are in the same partition, and few others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/guc.h"
#include "base/interrupts.h"
#include "base/large_memory.h"
#include "base/row_numbers.h"
#include "join/row_set.h"
#include "rows/reader.h"
#include "rows/source.h"
#include "rows/vector.h"
#include "utils/memutils.h"

/* Vectors are stored in pieces of this many floats.  No vector spans two pieces. */
#define PIECE_FLOATS ((uint64) 1024 * 1024)
#define PIECE_BYTES (PIECE_FLOATS * sizeof(float))

/* Rows pushed at a time. */
#define ROWS_AT_ONCE 64

/* Number of partitions by a hash. */
#define HASH_PARTITIONS 65536

/* A partition of both sides. */
typedef struct Partition
{
	/* The first row, whose number of dimensions all rows must have. */
	uint32		dimensions;		/* 0: the partition has no rows, or none to push */
	uint32		floats;			/* the length of a row */
	uint32		row;
	int			side;

	uint32		rows[2];		/* number of rows on each side */
	uint32		next[2];		/* next position in the order of pushed rows */
} Partition;

typedef struct BufferedRow
{
	uint64		place;			/* offset of the first float */
	uint32		partition;
} BufferedRow;

typedef struct PartitionedSide
{
	RowSink		sink;			/* receives the source's rows */
	PartitionedRows *all;
	const VectorSource *source;
	MemoryContext context;
	KeySet	   *keys;
	BufferedRow *rows;
	uint32		count;
	uint32		capacity;
	uint32		partition;		/* of the current row */
	uint32		dimensions;		/* of the current row */
	float	   *equality;		/* by hash: the current row as CopyForEquality copies it */

	float	  **pieces;			/* pieces in memory; if spilling, the last is the write buffer */
	uint64		npieces;
	uint64		most_pieces;
	uint64		end;			/* floats stored so far, including padding */
	SpillFile  *spill;			/* NULL if all pieces are in memory */
} PartitionedSide;

/* --- reading */

static void
BeginRow(RowSink *sink, Datum value, int dimensions, Datum key)
{
	PartitionedSide *side = (PartitionedSide *) sink;
	PartitionedRows *all = side->all;
	Partition  *partition;

	side->partition = GroupNumberOf(all->numbers, value);
	if (side->partition >= all->capacity)
	{
		all->partitions = repalloc_huge(all->partitions, 2 * (Size) all->capacity * sizeof(Partition));
		memset(all->partitions + all->capacity, 0, (Size) all->capacity * sizeof(Partition));
		all->capacity *= 2;
	}
	partition = &all->partitions[side->partition];
	if (partition->dimensions != 0 && partition->dimensions != (uint32) dimensions)
	{
		const PartitionedSide *first = &all->sides[partition->side];

		ReportDimensions(first->source, KeyName(first->source, first->keys->values[partition->row]),
						 partition->dimensions, side->source, KeyName(side->source, key), dimensions);
	}
	side->dimensions = dimensions;
}

/* Replaces BeginRow for partitions by a hash. */
static void
SetDimensions(RowSink *sink, int dimensions, const char *row_name)
{
	PartitionedSide *side = (PartitionedSide *) sink;

	side->dimensions = dimensions;
	side->equality = MemoryContextAlloc(side->context, RowBytes(side->source->element, dimensions));
}

static void
ExpectRows(RowSink *sink, uint64 rows)
{
}

/*
 * Adds a piece in memory if the limit permits.  Otherwise writes the last piece to the file and
 * reuses it.
 */
static void
AddPiece(PartitionedSide *side)
{
	MemoryContext old = MemoryContextSwitchTo(side->context);

	if (side->npieces < side->most_pieces)
	{
		if (side->pieces == NULL)
			side->pieces = palloc(side->most_pieces * sizeof(float *));
		side->pieces[side->npieces++] =
			(float *) TYPEALIGN(HUGE_PAGE, AllocPages(side->context, PIECE_BYTES + HUGE_PAGE));
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
BufferForRows(RowSink *sink, float **buffer)
{
	PartitionedSide *side = (PartitionedSide *) sink;
	uint64		left = (PIECE_FLOATS - side->end % PIECE_FLOATS) % PIECE_FLOATS;

	if (left < RowFloats(side->source->element, side->dimensions))
	{
		side->end += left;
		AddPiece(side);
	}
	*buffer = side->pieces[side->npieces - 1] + side->end % PIECE_FLOATS;
	return 1;
}

/* Returns the partition of the row in the buffer by the hash of its vector. */
static uint32
HashPartition(const PartitionedSide *side)
{
	const float *row = side->pieces[side->npieces - 1] + side->end % PIECE_FLOATS;
	FastedElement element = side->source->element;

	CopyForEquality(side->equality, row, element, side->dimensions);
	return RowHash(side->equality, RowBytes(element, side->dimensions), 0) % HASH_PARTITIONS;
}

static void
TakeRows(RowSink *sink, const Datum *keys, size_t nrows)
{
	PartitionedSide *side = (PartitionedSide *) sink;
	Partition  *partition;

	if (side->all->numbers == NULL)
		side->partition = HashPartition(side);
	partition = &side->all->partitions[side->partition];

	if (side->count == FASTED_MAX_ROWS)
		ReportManyRows(side->source);
	if (partition->dimensions == 0)
	{
		partition->dimensions = side->dimensions;
		partition->floats = RowFloats(side->source->element, side->dimensions);
		partition->row = side->count;
		partition->side = side - side->all->sides;
	}
	if (side->count == side->capacity)
		side->rows = GrowArray(side->context, side->rows, &side->capacity, sizeof(BufferedRow));
	KeySetAdd(side->keys, keys, 1);
	side->rows[side->count++] = (BufferedRow) {.place = side->end,.partition = side->partition};
	partition->rows[side - side->all->sides]++;
	side->end += partition->floats;
}

/* Lists the partitions that have rows on both sides.  Only rows of these partitions are pushed. */
static void
ListPartitions(PartitionedRows *all)
{
	uint32		count = all->numbers == NULL ? HASH_PARTITIONS : GroupNumbersCount(all->numbers);
	int			last = all->nsides - 1;

	all->pushed = MemoryContextAllocHuge(CurrentMemoryContext,
										 ((Size) count + 1) * sizeof(FastedPartition));
	for (uint32 i = 0; i < count; i++)
	{
		Partition  *partition = &all->partitions[i];

		if (partition->rows[0] == 0 || partition->rows[last] == 0)
		{
			partition->dimensions = 0;
			continue;
		}
		all->dimensions = Max(all->dimensions, partition->dimensions);
		all->pushed[all->npushed++] = (FastedPartition) {
			.first_a = all->count[0],.rows_a = partition->rows[0],
			.first_b = all->count[last],.rows_b = partition->rows[last]
		};
		for (int side = 0; side < all->nsides; side++)
		{
			partition->next[side] = all->count[side];
			all->count[side] += partition->rows[side];
		}
	}
}

/* Computes the order in which a side's rows are pushed: by partition, then by row number. */
static void
OrderRows(PartitionedRows *all, int number)
{
	const PartitionedSide *side = &all->sides[number];

	all->order[number] = AllocRowNumbers(all->count[number]);
	for (uint32 row = 0; row < side->count; row++)
	{
		Partition  *partition = &all->partitions[side->rows[row].partition];

		CheckEveryRows(row);
		if (partition->dimensions > 0)
			all->order[number][partition->next[number]++] = row;
	}
}

PartitionedRows *
ReadPartitionedRows(const VectorSource *const *sources, int nsides)
{
	bool		by_hash = sources[0]->partition_column == NULL;
	PartitionedRows *all = palloc0(sizeof(PartitionedRows));
	uint64		limit = (uint64) fasted_setting_memory_limit * 1024 / 2 / nsides;

	Assert(!by_hash || nsides == 1);
	all->numbers = by_hash ? NULL : GroupNumbersCreate(sources[0]);
	all->capacity = by_hash ? HASH_PARTITIONS : 256;
	all->partitions = palloc0(all->capacity * sizeof(Partition));
	all->nsides = nsides;
	all->sides = palloc0(nsides * sizeof(PartitionedSide));
	for (int i = 0; i < nsides; i++)
	{
		PartitionedSide *side = &all->sides[i];

		side->all = all;
		side->source = sources[i];
		side->context = CurrentMemoryContext;
		side->keys = KeySetCreate(sources[i]);
		side->most_pieces = Max(1, limit / PIECE_BYTES);
		side->sink = (RowSink) {
			.expect_rows = ExpectRows,.set_dimensions = SetDimensions,.begin_row = BeginRow,
			.buffer_for_rows = BufferForRows,.take_rows = TakeRows
		};
		ReadVectors(sources[i], &side->sink);
	}
	ListPartitions(all);
	for (int i = 0; i < nsides; i++)
		OrderRows(all, i);
	return all;
}

/* --- pushing */

/* Copies a row's vector to a buffer of stride floats, padded with zeros. */
static void
CopyRow(const PartitionedSide *side, const BufferedRow *buffered, float *to, size_t stride)
{
	size_t		floats = side->all->partitions[buffered->partition].floats;
	uint64		piece = buffered->place / PIECE_FLOATS;
	uint64		in_memory = side->spill == NULL ? side->npieces : side->npieces - 1;

	if (piece < in_memory || piece == (side->end - 1) / PIECE_FLOATS)
		memcpy(to, side->pieces[Min(piece, side->npieces - 1)] + buffered->place % PIECE_FLOATS,
			   floats * sizeof(float));
	else
		SpillRead(side->spill, buffered->place - in_memory * PIECE_FLOATS, to, floats);
	memset(to + floats, 0, (stride - floats) * sizeof(float));
}

void
PushPartitionedRows(PartitionedRows *all, int number, RowSink *sink)
{
	const PartitionedSide *side = &all->sides[number];
	const uint32 *order = all->order[number];
	uint32		count = all->count[number];
	size_t		stride = RowFloats(side->source->element, all->dimensions);
	size_t		n;

	sink->nworkers = side->sink.nworkers;
	sink->worker_rows = side->sink.worker_rows;
	if (count > 0)
	{
		sink->expect_rows(sink, count);
		sink->set_dimensions(sink, all->dimensions,
							 KeyName(side->source, side->keys->values[order[0]]));
	}
	for (uint32 done = 0; done < count; done += n)
	{
		Datum		keys[ROWS_AT_ONCE];
		float	   *buffer;

		CheckJoinInterrupts();
		n = Min(sink->buffer_for_rows(sink, &buffer), Min(ROWS_AT_ONCE, count - done));
		if (n == 0)
			break;
		for (size_t i = 0; i < n; i++)
		{
			uint32		row = order[done + i];

			CopyRow(side, &side->rows[row], buffer + i * stride, stride);
			keys[i] = side->keys->values[row];
		}
		sink->take_rows(sink, keys, n);
	}
	if (side->spill != NULL)
		SpillClose(side->spill);
}
