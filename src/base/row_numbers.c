/*-------------------------------------------------------------------------
 *
 * row_numbers.c
 *	  Allocates and fills the arrays, and checks for interrupts meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "base/row_numbers.h"
#include "utils/memutils.h"

uint32 *
AllocRowNumbers(uint32 count)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, Max(1, (Size) count) * sizeof(uint32));
}

/* Makes an array with numbers[row] = first + row * step. */
static uint32 *
CountUp(uint32 count, uint32 first, uint32 step)
{
	uint32	   *numbers = AllocRowNumbers(count);

	for (uint32 row = 0; row < count; row++)
	{
		CheckEveryRows(row);
		numbers[row] = first + row * step;
	}
	return numbers;
}

uint32 *
OwnRowNumbers(uint32 count)
{
	return CountUp(count, 0, 1);
}

uint32 *
SameRowNumbers(uint32 count, uint32 number)
{
	return CountUp(count, number, 0);
}

void
CopyRowNumbers(uint32 *to, const uint32 *from, uint32 count)
{
	for (Size first = 0; first < count; first += CHECKED_ROWS)
	{
		CheckJoinInterrupts();
		memcpy(to + first, from + first, Min(CHECKED_ROWS, count - first) * sizeof(uint32));
	}
}

uint32 *
RowsOfNumbers(const uint32 *numbers, uint32 count)
{
	uint32	   *rows = AllocRowNumbers(count);

	for (uint32 row = 0; row < count; row++)
	{
		CheckEveryRows(row);
		rows[numbers[row]] = row;
	}
	return rows;
}
