/*-------------------------------------------------------------------------
 *
 * host_device.h
 *	  Small functions that several engines share: host and device code, and the order of tiles.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_HOST_DEVICE_H
#define FASTED_HOST_DEVICE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define FASTED_HD __host__ __device__
#else
#define FASTED_HD
#endif

#define FASTED_EVERYWHERE static inline FASTED_HD

/* Integer division, rounded up. */
FASTED_EVERYWHERE uint64_t
ceil_div(uint64_t n, uint64_t by)
{
	return (n + by - 1) / by;
}

/*
 * The number of sampled row i of `sampled` <= rows: one in each of equal stretches,
 * at a place that differs from one to the next, or data that repeat would show
 * always the same side.  The same in every run.
 */
FASTED_EVERYWHERE uint32_t
fasted_spread_row(uint32_t i, uint32_t sampled, uint32_t rows)
{
	uint32_t	first = (uint32_t) ((uint64_t) i * rows / sampled);
	uint32_t	next = (uint32_t) ((uint64_t) (i + 1) * rows / sampled);
	uint32_t	hash = (i + 1) * 0x9e3779b1U;

	hash = (hash ^ hash >> 15) * 0x85ebca77U;
	hash ^= hash >> 13;
	return first + (uint32_t) ((uint64_t) hash * (next - first) >> 32);
}

/*
 * In which order the block pairs of a join are visited.
 *
 * Rows are cut into blocks, and a unit of work is a pair of blocks (i, j).  A self-join needs
 * i <= j only.  Units are numbered, so that workers can claim them with one atomic counter, in
 * square groups of blocks, so that workers of neighbouring numbers share operands in the cache.
 *
 * Groups at the border of the triangle are numbered as if they were full: some numbers name no
 * unit, and a worker that claims one of these goes on to the next.  That costs an increment and
 * keeps the map in closed form.
 */

/* A grid of blocks: the square rows x cols, or the triangle i <= j of it. */
typedef struct FastedOrder
{
	uint64_t	rows;
	uint64_t	cols;
	uint64_t	group;			/* blocks along one side of a group */
	bool		triangle;		/* rows == cols, and i <= j only */
} FastedOrder;

/* The number of pairs i <= j < t. */
static inline uint64_t
fasted_triangle(uint64_t t)
{
	return (t % 2 == 0) ? t / 2 * (t + 1) : (t + 1) / 2 * t;
}

/*
 * The p-th pair (i, j), i <= j, column by column: p = j (j + 1) / 2 + i.  The
 * square root of a large number is rounded, hence the correction.
 */
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

static inline uint64_t
fasted_order_groups(uint64_t blocks, uint64_t group)
{
	return (blocks + group - 1) / group;
}

/* How many units of work there are. */
static inline uint64_t
fasted_order_units(const FastedOrder *order)
{
	return order->triangle ? fasted_triangle(order->rows)
		: order->rows * order->cols;
}

/* How many numbers are to be claimed, those that name no unit included. */
static inline uint64_t
fasted_order_numbers(const FastedOrder *order)
{
	uint64_t	rows = fasted_order_groups(order->rows, order->group);
	uint64_t	cols = fasted_order_groups(order->cols, order->group);

	return (order->triangle ? fasted_triangle(cols) : rows * cols)
		* order->group * order->group;
}

/* The unit of this number; false when there is none. */
static inline bool
fasted_order_unit(const FastedOrder *order, uint64_t number,
				  uint64_t *i, uint64_t *j)
{
	uint64_t	area = order->group * order->group;
	uint64_t	inside = number % area;
	uint64_t	gi;
	uint64_t	gj;

	if (order->triangle)
		fasted_triangle_pair(number / area, &gi, &gj);
	else
	{
		uint64_t	cols = fasted_order_groups(order->cols, order->group);

		gi = number / area / cols;
		gj = number / area % cols;
	}
	*i = gi * order->group + inside / order->group;
	*j = gj * order->group + inside % order->group;
	return *i < order->rows && *j < order->cols &&
		(!order->triangle || *i <= *j);
}

#endif							/* FASTED_HOST_DEVICE_H */
