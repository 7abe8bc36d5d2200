/*-------------------------------------------------------------------------
 *
 * pair_order.c
 *	  A radix sort of pairs: digit by digit, lowest first.
 *
 * Row numbers are small, so it takes two or three passes, and compares nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "groups/pair_order.h"

#define DIGIT_BITS 11
#define DIGIT_VALUES (1 << DIGIT_BITS)

/* Pairs between two looks for interrupts. */
#define PAIRS_PER_CHECK (256 * 1024)

static void
FindPositions(const FastedPair *pairs, size_t npairs, int shift, size_t *positions)
{
	size_t		sum = 0;

	memset(positions, 0, DIGIT_VALUES * sizeof(size_t));
	for (size_t i = 0; i < npairs; i++)
	{
		if (i % PAIRS_PER_CHECK == 0)
			CheckJoinInterrupts();
		positions[(pairs[i].b >> shift) % DIGIT_VALUES]++;
	}
	for (int digit = 0; digit < DIGIT_VALUES; digit++)
	{
		size_t		n = positions[digit];

		positions[digit] = sum;
		sum += n;
	}
}

FastedPair *
SortBySecond(FastedPair *pairs, FastedPair *scratch, size_t npairs, uint32 nrows)
{
	size_t		positions[DIGIT_VALUES];

	for (int shift = 0; shift < 32 && (nrows - 1) >> shift > 0; shift += DIGIT_BITS)
	{
		FastedPair *sorted = scratch;

		FindPositions(pairs, npairs, shift, positions);
		for (size_t i = 0; i < npairs; i++)
		{
			if (i % PAIRS_PER_CHECK == 0)
				CheckJoinInterrupts();
			sorted[positions[(pairs[i].b >> shift) % DIGIT_VALUES]++] = pairs[i];
		}
		scratch = pairs;
		pairs = sorted;
	}
	return pairs;
}
