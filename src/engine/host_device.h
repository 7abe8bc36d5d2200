/*-------------------------------------------------------------------------
 *
 * host_device.h
 *	  Small functions shared by several engines, for host and device code: the order of tiles,
 *	  and the tiles of a partitioned join.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_HOST_DEVICE_H
#define FASTED_HOST_DEVICE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine.h"

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
 * Deterministic stratified sample: returns the row number of sample i, with sampled <= rows
 * samples in total.  There is one sample in each of `sampled` equal strata, at a pseudorandom
 * position, so that periodic data do not bias the sample.  The result is the same in every run.
 */
FASTED_EVERYWHERE uint32_t
fasted_sample_row(uint32_t i, uint32_t sampled, uint32_t rows)
{
	uint32_t	first = (uint32_t) ((uint64_t) i * rows / sampled);
	uint32_t	next = (uint32_t) ((uint64_t) (i + 1) * rows / sampled);
	uint32_t	hash = (i + 1) * 0x9e3779b1U;

	hash = (hash ^ hash >> 15) * 0x85ebca77U;
	hash ^= hash >> 13;
	return first + (uint32_t) ((uint64_t) hash * (next - first) >> 32);
}

/*
 * The order in which the block pairs of a join are processed.
 *
 * Rows are divided into blocks, and a unit of work is a pair of blocks (i, j).  A self-join needs
 * only the units with i <= j.  Units are numbered, so that workers can take them from an atomic
 * counter.  Consecutive numbers run through squares of blocks, so that workers with
 * nearby numbers share operands in the cache.
 *
 * Squares at the border are numbered as if they were full.  Some numbers therefore have no unit,
 * and a worker skips them.  This costs one increment and keeps the mapping in closed form.
 */

/* A grid of blocks: the rectangle rows x cols, or its triangle i <= j. */
typedef struct FastedOrder
{
	uint64_t	rows;
	uint64_t	cols;
	uint64_t	square;			/* number of blocks along one side of a square */
	bool		triangle;		/* rows == cols, and i <= j only */
} FastedOrder;

/* Returns the number of pairs (i, j) with i <= j < t. */
static inline uint64_t
fasted_triangle(uint64_t t)
{
	return (t % 2 == 0) ? t / 2 * (t + 1) : (t + 1) / 2 * t;
}

/*
 * Computes the p-th pair (i, j) with i <= j, numbered column by column: p = j (j + 1) / 2 + i.
 * The loops correct the rounding of the square root for large p.
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

/*
 * The tiles of a partitioned join (FastedProblem.partitions).  Such a join computes only the tiles
 * that may have pairs of rows of the same partition.
 *
 * A row of tiles covers consecutive rows of one side.  Partitions are in ascending order on both
 * sides.  The columns to be compared with a row of tiles therefore form one span, and spans ascend
 * from one row of tiles to the next.  A stripe is a range of columns as wide as a tile.  The rows
 * of tiles whose spans overlap a stripe are therefore consecutive.  Tiles are numbered stripe by
 * stripe, and from top to bottom within a stripe, so that tiles with consecutive numbers share
 * columns.  Only the first tile of each stripe is stored: its number and its row.
 *
 * A span extends from the first partition of its rows to the last one.  A tile may have pairs of
 * different partitions, or rows of no partition; the caller must check each pair.
 */

/* Columns first ... end - 1; none if first == end. */
typedef struct FastedSpan
{
	uint32_t	first;
	uint32_t	end;
} FastedSpan;

typedef struct FastedStripe
{
	uint64_t	first;			/* number of the stripe's first tile */
	uint32_t	row;			/* row of tiles that this tile belongs to */
	uint32_t	reserved;
} FastedStripe;

/* The tiles of a partitioned join.  In other joins both pointers are NULL. */
typedef struct FastedPartitionTiles
{
	const FastedSpan *spans;	/* one per row of tiles */
	const FastedStripe *stripes;	/* nstripes, and one more for the end of the last */
	uint32_t	nstripes;
	uint64_t	count;			/* number of tile numbers; a few of them have no tile */
} FastedPartitionTiles;

/* Checks that partitions are disjoint and ascending, as engine.h requires. */
static inline bool
fasted_partitions_are_valid(const FastedPartition *partitions, uint32_t count, uint64_t rows_a,
						uint64_t rows_b, bool self)
{
	uint64_t	end_a = 0;
	uint64_t	end_b = 0;

	for (uint32_t g = 0; g < count; g++)
	{
		const FastedPartition *partition = &partitions[g];

		if (partition->first_a < end_a || partition->first_b < end_b ||
			(self && (partition->first_a != partition->first_b ||
					  partition->rows_a != partition->rows_b)))
			return false;
		end_a = (uint64_t) partition->first_a + partition->rows_a;
		end_b = (uint64_t) partition->first_b + partition->rows_b;
		if (end_a > rows_a || end_b > rows_b)
			return false;
	}
	return true;
}

/* Returns the number of row pairs within partitions. */
static inline double
fasted_partition_pairs(const FastedPartition *partitions, uint32_t count, bool self)
{
	double		pairs = 0.0;

	for (uint32_t g = 0; g < count; g++)
	{
		double		a = partitions[g].rows_a;

		pairs += self ? 0.5 * a * (a - 1.0) : a * partitions[g].rows_b;
	}
	return pairs;
}

/* Returns the rows of a partition on side 0 or 1. */
static inline FastedSpan
fasted_partition_rows(const FastedPartition *partition, int side)
{
	FastedSpan	span;

	span.first = side == 0 ? partition->first_a : partition->first_b;
	span.end = span.first + (side == 0 ? partition->rows_a : partition->rows_b);
	return span;
}

/*
 * Computes the partitions of a part of each side: rows[side] rows from first[side] on.
 * Positions in the result are relative to the part.  The result has as many partitions as the
 * input, including empty ones, so that the partitions of a part are the same in all of its joins.
 */
static inline void
fasted_clip_partitions(const FastedPartition *partitions, uint32_t count, const uint64_t *first,
				   const uint64_t *rows, FastedPartition *clipped)
{
	for (uint32_t g = 0; g < count; g++)
	{
		uint32_t	ends[2][2];

		for (int side = 0; side < 2; side++)
		{
			FastedSpan	span = fasted_partition_rows(&partitions[g], side);

			for (int i = 0; i < 2; i++)
			{
				uint64_t	row = i == 0 ? span.first : span.end;

				row = row > first[side] ? row - first[side] : 0;
				ends[side][i] = (uint32_t) (row < rows[side] ? row : rows[side]);
			}
		}
		clipped[g].first_a = ends[0][0];
		clipped[g].rows_a = ends[0][1] - ends[0][0];
		clipped[g].first_b = ends[1][0];
		clipped[g].rows_b = ends[1][1] - ends[1][0];
	}
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

/*
 * Computes the spans of all rows of tiles; a row of tiles covers `height` rows of `side`.  If self
 * is true, a row is compared only with columns behind it.
 */
static inline void
fasted_find_spans(const FastedPartition *partitions, uint32_t count, int side, bool self,
				  uint32_t height, FastedSpan *spans, uint32_t nspans)
{
	for (uint32_t m = 0; m < nspans; m++)
		spans[m].first = spans[m].end = 0;
	for (uint32_t g = 0; g < count; g++)
	{
		FastedSpan	rows = fasted_partition_rows(&partitions[g], side);
		FastedSpan	columns = fasted_partition_rows(&partitions[g], !side);

		if (rows.first == rows.end)
			continue;
		for (uint32_t m = rows.first / height; m <= (rows.end - 1) / height; m++)
		{
			uint32_t	first = columns.first;

			if (self && m * height > rows.first)
				first = m * height;
			first += self;
			if (first >= columns.end)
				continue;
			if (spans[m].first == spans[m].end)
				spans[m].first = first;
			spans[m].end = columns.end;
		}
	}
}

/*
 * Computes nstripes + 1 stripes, which are `width` columns wide.  Returns how many tile numbers
 * there are.
 */
static inline uint64_t
fasted_find_stripes(const FastedSpan *spans, uint32_t nspans, uint32_t width,
					FastedStripe *stripes, uint32_t nstripes)
{
	uint64_t	count = 0;
	uint32_t	low = 0;
	uint32_t	high = 0;

	for (uint32_t n = 0; n < nstripes; n++)
	{
		uint64_t	begin = (uint64_t) n * width;

		/* skip empty spans, and spans that end before the stripe */
		while (low < nspans && (spans[low].first == spans[low].end || spans[low].end <= begin))
			low++;
		if (high < low)
			high = low;
		while (high < nspans &&
			   (spans[high].first == spans[high].end || spans[high].first < begin + width))
			high++;
		stripes[n].first = count;
		stripes[n].row = low;
		stripes[n].reserved = 0;
		count += high - low;
	}
	stripes[nstripes].first = count;
	stripes[nstripes].row = nspans;
	stripes[nstripes].reserved = 0;
	return count;
}

/* Returns the stripe of the tile with this number, which is below count.  Tries guess first. */
FASTED_EVERYWHERE uint32_t
fasted_stripe_of(const FastedPartitionTiles *tiles, uint64_t number, uint32_t guess)
{
	uint32_t	low = 0;
	uint32_t	high = tiles->nstripes;

	if (guess < tiles->nstripes && tiles->stripes[guess].first <= number &&
		number < tiles->stripes[guess + 1].first)
		return guess;
	while (high - low > 1)
	{
		uint32_t	middle = low + (high - low) / 2;

		if (tiles->stripes[middle].first <= number)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Returns the columns of row of tiles m within begin ... begin + width - 1. */
FASTED_EVERYWHERE FastedSpan
fasted_span_within(const FastedPartitionTiles *tiles, uint32_t m, uint64_t begin, uint32_t width)
{
	FastedSpan	span = tiles->spans[m];

	if (span.first < begin)
		span.first = (uint32_t) begin;
	if (span.end > begin + width)
		span.end = (uint32_t) (begin + width);
	if (span.end < span.first)
		span.end = span.first;
	return span;
}

#endif							/* FASTED_HOST_DEVICE_H */
