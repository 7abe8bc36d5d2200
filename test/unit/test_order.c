/*-------------------------------------------------------------------------
 *
 * test_order.c
 *	  The tile order has every unit once, and its closed form is correct.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../../src/cpu/state/block_order.h"
#include "tap.h"

/* Checks that each unit of this grid comes exactly once, and their number. */
static bool
check_grid(uint64_t rows, uint64_t cols, uint64_t square, bool triangle)
{
	FastedOrder order = {
		.rows = rows,.cols = cols,.square = square,.triangle = triangle
	};
	unsigned char *seen = calloc(rows * cols + 1, 1);
	uint64_t	numbers = fasted_order_numbers(&order);
	uint64_t	units = 0;
	bool		good = seen != NULL;

	for (uint64_t number = 0; number < numbers && good; number++)
	{
		uint64_t	i;
		uint64_t	j;

		if (!fasted_order_unit(&order, number, &i, &j))
			continue;
		good = i < rows && j < cols && (!triangle || i <= j) &&
			seen[i * cols + j]++ == 0;
		units++;
	}
	free(seen);
	return good && units == fasted_order_units(&order);
}

/* Checks that blocks of one row of a square are adjacent; strips rely on it. */
static bool
check_strips(uint64_t blocks, uint64_t square)
{
	FastedOrder order = {
		.rows = blocks,.cols = blocks,.square = square,.triangle = true
	};

	for (uint64_t n = 0; n < fasted_order_numbers(&order); n += square)
	{
		uint64_t	first_i = 0;
		uint64_t	next_j = 0;
		int			found = 0;

		for (uint64_t in = 0; in < square; in++)
		{
			uint64_t	i;
			uint64_t	j;

			if (!fasted_order_unit(&order, n + in, &i, &j))
				continue;
			if (found++ > 0 && (i != first_i || j != next_j))
				return false;
			first_i = i;
			next_j = j + 1;
		}
	}
	return true;
}

/* Tests the inverse of p = j (j + 1) / 2 + i at the corners of column j. */
static bool
check_column(uint64_t j)
{
	uint64_t	base = fasted_triangle(j);
	uint64_t	places[] = {0, 1, j / 2, j - 1, j};

	for (int k = 0; k < 5; k++)
	{
		uint64_t	i;
		uint64_t	col;

		if (places[k] > j)
			continue;
		fasted_triangle_pair(base + places[k], &i, &col);
		if (i != places[k] || col != j)
			return false;
	}
	return true;
}

int
main(void)
{
	bool		good = true;

	random_seed();
	for (uint64_t t = 0; t <= 70; t++)
	{
		for (uint64_t square = 1; square <= 9; square++)
			good = good && check_grid(t, t, square, true) &&
				check_strips(t, square);
	}
	ok(good, "triangles of up to 70 blocks have each unit once, with squares of up to 9");

	good = true;
	for (uint64_t rows = 0; rows <= 20; rows++)
	{
		for (uint64_t cols = 0; cols <= 20; cols++)
			good = good && check_grid(rows, cols, 1 + rows % 9, false);
	}
	ok(good, "rectangles of up to 20 by 20 blocks have each unit once");

	good = true;
	for (uint64_t j = 0; j < 300000; j++)
		good = good && check_column(j);
	ok(good, "closed form of unit numbers, columns up to 300000");

	good = true;
	for (int i = 0; i < 2000000; i++)
		good = good && check_column(random_bits() >> (33 + random_below(20)));
	for (uint64_t j = UINT64_C(0x7fffff00); j < UINT64_C(0x7fffffff); j++)
		good = good && check_column(j);
	for (uint64_t j = UINT64_C(94906265); j < UINT64_C(94906265) + 1000; j++)
		good = good && check_column(j);
	ok(good, "closed form of unit numbers, columns up to 2^31");
	return tap_done();
}
