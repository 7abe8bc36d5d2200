/*-------------------------------------------------------------------------
 *
 * host_device.h
 *	  Small functions that several engines share: host and device code, the order of tiles, and
 *	  the tiles of groups.
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
	uint64_t	rows = ceil_div(order->rows, order->group);
	uint64_t	cols = ceil_div(order->cols, order->group);

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
		uint64_t	cols = ceil_div(order->cols, order->group);

		gi = number / area / cols;
		gj = number / area % cols;
	}
	*i = gi * order->group + inside / order->group;
	*j = gj * order->group + inside % order->group;
	return *i < order->rows && *j < order->cols &&
		(!order->triangle || *i <= *j);
}

/*
 * Which tiles of a join have rows of one group, where only those may meet.
 *
 * Groups ascend on both sides.  So the columns that a row of tiles has to meet are one
 * span, and the spans ascend from one row of tiles to the next.  Hence those that reach
 * into a stripe of columns, as wide as a tile, are neighbours.  Tiles are numbered
 * stripe by stripe, and down each stripe, so that those of neighbouring numbers share
 * their columns: of each stripe only the first number is stored, and whose it is.
 *
 * A span runs from the first group of its rows to the last one: rows between two
 * groups, and rows of different groups in one tile, are for whoever looks at pairs.
 */

/* Columns [first, end); none where both are the same. */
typedef struct FastedSpan
{
	uint32_t	first;
	uint32_t	end;
} FastedSpan;

typedef struct FastedStripe
{
	uint64_t	first;			/* number of its first tile */
	uint32_t	row;			/* the row of tiles that it belongs to */
	uint32_t	reserved;
} FastedStripe;

/* Tiles of a join; no groups: both are NULL. */
typedef struct FastedGroupTiles
{
	const FastedSpan *spans;	/* of each row of tiles */
	const FastedStripe *stripes;	/* and where the last one ends */
	uint32_t	nstripes;
	uint64_t	count;			/* numbers of tiles; a few are of no tile */
} FastedGroupTiles;

/* Are they as engine.h asks for? */
static inline bool
fasted_groups_are_valid(const FastedRowGroup *groups, uint32_t count, uint64_t rows_a,
						uint64_t rows_b, bool self)
{
	uint64_t	end_a = 0;
	uint64_t	end_b = 0;

	for (uint32_t g = 0; g < count; g++)
	{
		const FastedRowGroup *group = &groups[g];

		if (group->first_a < end_a || group->first_b < end_b ||
			(self && (group->first_a != group->first_b || group->rows_a != group->rows_b)))
			return false;
		end_a = (uint64_t) group->first_a + group->rows_a;
		end_b = (uint64_t) group->first_b + group->rows_b;
		if (end_a > rows_a || end_b > rows_b)
			return false;
	}
	return true;
}

/* Pairs of rows that meet. */
static inline double
fasted_group_pairs(const FastedRowGroup *groups, uint32_t count, bool self)
{
	double		pairs = 0.0;

	for (uint32_t g = 0; g < count; g++)
	{
		double		a = groups[g].rows_a;

		pairs += self ? 0.5 * a * (a - 1.0) : a * groups[g].rows_b;
	}
	return pairs;
}

/* Rows of a side, 0 or 1. */
static inline FastedSpan
fasted_group_rows(const FastedRowGroup *group, int side)
{
	FastedSpan	span;

	span.first = side == 0 ? group->first_a : group->first_b;
	span.end = span.first + (side == 0 ? group->rows_a : group->rows_b);
	return span;
}

/*
 * Groups of parts of two sets, in which rows are counted from 0 on: of each side's rows from first
 * on.  All groups are there, also those without rows in either: so a part's groups are the same in
 * all its joins.
 */
static inline void
fasted_clip_groups(const FastedRowGroup *groups, uint32_t count, const uint64_t *first,
				   const uint64_t *rows, FastedRowGroup *clipped)
{
	for (uint32_t g = 0; g < count; g++)
	{
		uint32_t	ends[2][2];

		for (int side = 0; side < 2; side++)
		{
			FastedSpan	span = fasted_group_rows(&groups[g], side);

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

/* The columns that a row of a side meets. */
static inline FastedSpan
fasted_columns_of_row(const FastedRowGroup *groups, uint32_t count, int side, uint32_t row)
{
	FastedSpan	none = {0, 0};
	uint32_t	low = 0;
	uint32_t	high = count;

	/* the last group that begins there or before */
	while (low < high)
	{
		uint32_t	middle = low + (high - low) / 2;

		if (fasted_group_rows(&groups[middle], side).first <= row)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || row >= fasted_group_rows(&groups[low - 1], side).end)
		return none;
	return fasted_group_rows(&groups[low - 1], !side);
}

/*
 * The spans of all rows of tiles, of height rows of a side each.  self: a column is
 * wanted for rows before it only.
 */
static inline void
fasted_find_spans(const FastedRowGroup *groups, uint32_t count, int side, bool self,
				  uint32_t height, FastedSpan *spans, uint32_t nspans)
{
	for (uint32_t m = 0; m < nspans; m++)
		spans[m].first = spans[m].end = 0;
	for (uint32_t g = 0; g < count; g++)
	{
		FastedSpan	rows = fasted_group_rows(&groups[g], side);
		FastedSpan	columns = fasted_group_rows(&groups[g], !side);

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

/* Numbers the tiles of stripes of this width; there are stripes + 1 of these.  How many they are. */
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

		/* without columns: first and end are the same */
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

/* The stripe of a tile by its number, below count.  guess: mostly it is this one. */
FASTED_EVERYWHERE uint32_t
fasted_stripe_of(const FastedGroupTiles *tiles, uint64_t number, uint32_t guess)
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

/* The part of a row of tiles' span in the columns [begin, begin + width). */
FASTED_EVERYWHERE FastedSpan
fasted_span_within(const FastedGroupTiles *tiles, uint32_t m, uint64_t begin, uint32_t width)
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
