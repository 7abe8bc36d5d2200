/*-------------------------------------------------------------------------
 *
 * integer_rank.c
 *	  A radix sort of rows by integer keys.
 *
 * With parallel workers rows never come in the order of their keys, and
 * comparing a million of them takes as long as reading them.  So integers are
 * sorted digit by digit, lowest first, as far as they differ.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join/integer_rank.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#define DIGIT_BITS 11
#define DIGIT_VALUES (1 << DIGIT_BITS)

/* Rows between two looks for interrupts. */
#define ROWS_PER_CHECK (1 << 20)

typedef struct RankedRow
{
	uint64		key;			/* above the least one */
	uint32		row;
} RankedRow;

/* Returns how many bits the keys take. */
static int
FillRows(const Datum *keys, uint32 count, RankedRow *rows)
{
	int64		least = (int64) keys[0];
	uint64		all = 0;
	int			bits = 0;

	for (uint32 i = 1; i < count; i++)
		least = Min(least, (int64) keys[i]);
	for (uint32 i = 0; i < count; i++)
	{
		rows[i].key = (uint64) keys[i] - (uint64) least;
		rows[i].row = i;
		all |= rows[i].key;
	}
	while (bits < 64 && (all >> bits) != 0)
		bits++;
	return bits;
}

/* Sorts by one digit and keeps, within it, the order there was. */
static void
SortByDigit(const RankedRow *from, RankedRow *to, uint32 count, int shift)
{
	uint32		position[DIGIT_VALUES] = {0};
	uint32		sum = 0;

	for (uint32 i = 0; i < count; i++)
		position[(from[i].key >> shift) % DIGIT_VALUES]++;
	for (int digit = 0; digit < DIGIT_VALUES; digit++)
	{
		uint32		n = position[digit];

		position[digit] = sum;
		sum += n;
	}
	for (uint32 i = 0; i < count; i++)
	{
		if (i % ROWS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		to[position[(from[i].key >> shift) % DIGIT_VALUES]++] = from[i];
	}
}

uint32
RankIntegers(const Datum *keys, uint32 count, uint32 *rank)
{
	RankedRow  *rows;
	RankedRow  *other;
	int			bits;
	uint32		twice = count;

	if (count == 0)
		return count;
	rows = MemoryContextAllocHuge(CurrentMemoryContext, (Size) count * sizeof(RankedRow));
	other = MemoryContextAllocHuge(CurrentMemoryContext, (Size) count * sizeof(RankedRow));
	bits = FillRows(keys, count, rows);
	for (int shift = 0; shift < bits; shift += DIGIT_BITS)
	{
		RankedRow  *sorted = other;

		SortByDigit(rows, sorted, count, shift);
		other = rows;
		rows = sorted;
	}
	for (uint32 i = 0; i < count; i++)
	{
		if (i > 0 && rows[i].key == rows[i - 1].key)
			twice = rows[i].row;
		rank[rows[i].row] = i;
	}
	pfree(rows);
	pfree(other);
	return twice;
}
