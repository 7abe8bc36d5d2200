/*-------------------------------------------------------------------------
 *
 * block_order.h
 *	  The order in which the block pairs of a join are processed.
 *
 * A unit of work is a pair of blocks (i, j) of a grid of rows x cols, of which a self-join needs only
 * the triangle i <= j.  Units are numbered, so that workers can take them from an atomic counter.
 * Consecutive numbers run through squares of blocks, so that workers with nearby numbers share operands
 * in the cache.  Squares at the border are numbered as if they were full: some numbers have no unit, and
 * a worker skips them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_BLOCK_ORDER_H
#define FASTED_CPU_BLOCK_ORDER_H

#include "../../engine/host_device.h"

typedef struct FastedOrder
{
	uint64_t	rows;
	uint64_t	cols;
	uint64_t	square;			/* number of blocks along one side of a square */
	bool		triangle;		/* rows == cols */
} FastedOrder;

/* Returns the number of pairs (i, j) with i <= j < t. */
static inline uint64_t
fasted_triangle(uint64_t t)
{
	return (t % 2 == 0) ? t / 2 * (t + 1) : (t + 1) / 2 * t;
}

/* Computes pair p = j (j + 1) / 2 + i.  The loops correct the rounding of the square root for large p. */
static inline void
fasted_triangle_pair(uint64_t p, uint64_t *i, uint64_t *j)
{
	uint64_t	col = (uint64_t) ((sqrt(8.0 * (double) p + 1.0) - 1.0) / 2.0);

	while (col > 0 && fasted_triangle(col) > p)
		col--;
	while (fasted_triangle(col + 1) <= p)
		col++;
	*i = p - fasted_triangle(col);
	*j = col;
}

/* Returns the number of units of work. */
static inline uint64_t
fasted_order_units(const FastedOrder *order)
{
	return order->triangle ? fasted_triangle(order->rows)
		: order->rows * order->cols;
}

/* Returns how many numbers there are, including those without a unit. */
static inline uint64_t
fasted_order_numbers(const FastedOrder *order)
{
	uint64_t	rows = ceil_div(order->rows, order->square);
	uint64_t	cols = ceil_div(order->cols, order->square);

	return (order->triangle ? fasted_triangle(cols) : rows * cols)
		* order->square * order->square;
}

/* Computes the unit (i, j) with this number.  Returns false if the number has no unit. */
static inline bool
fasted_order_unit(const FastedOrder *order, uint64_t number,
				  uint64_t *i, uint64_t *j)
{
	uint64_t	area = order->square * order->square;
	uint64_t	inside = number % area;
	uint64_t	gi;
	uint64_t	gj;

	if (order->triangle)
		fasted_triangle_pair(number / area, &gi, &gj);
	else
	{
		uint64_t	cols = ceil_div(order->cols, order->square);

		gi = number / area / cols;
		gj = number / area % cols;
	}
	*i = gi * order->square + inside / order->square;
	*j = gj * order->square + inside % order->square;
	return *i < order->rows && *j < order->cols &&
		(!order->triangle || *i <= *j);
}

/* Returns the rows of the other side that are in the partition of a row; none if it has none. */
static inline FastedSpan
fasted_columns_of_row(const FastedPartition *partitions, uint32_t count, int side, uint32_t row)
{
	FastedSpan	none = {0, 0};
	uint32_t	low = 0;
	uint32_t	high = count;

	/* find the last partition that begins at the row or before it */
	while (low < high)
	{
		uint32_t	middle = low + (high - low) / 2;

		if (fasted_partition_rows(&partitions[middle], side).first <= row)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || row >= fasted_partition_rows(&partitions[low - 1], side).end)
		return none;
	return fasted_partition_rows(&partitions[low - 1], !side);
}

#endif							/* FASTED_CPU_BLOCK_ORDER_H */
