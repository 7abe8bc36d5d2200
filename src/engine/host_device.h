/*-------------------------------------------------------------------------
 *
 * host_device.h
 *	  Small functions shared by several engines, for host and device code; the tiles of a
 *	  partitioned join.
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
 * Returns the row number of sample i of sampled <= rows.  There is one sample in each of `sampled` equal
 * strata, at a pseudorandom position, so that periodic data do not bias the sample.
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
 * The tiles of a partitioned join (FastedProblem.partitions) that may have pairs of rows of the same
 * partition.  The caller must check each pair.
 *
 * A row of tiles covers consecutive rows of one side.  As partitions ascend on both sides, the columns to
 * be compared with it form one span, from the first partition of its rows to the last one, and spans
 * ascend from one row of tiles to the next.  A stripe is a range of columns as wide as a tile.  The rows
 * of tiles whose spans overlap it are consecutive.  Tiles are numbered stripe by stripe, and from top to
 * bottom within a stripe, so that tiles with consecutive numbers share columns.
 */

/* Columns first ... end - 1; none if first == end. */
typedef struct FastedSpan
{
	uint32_t	first;
	uint32_t	end;
} FastedSpan;

/* The first tile of a stripe. */
typedef struct FastedStripe
{
	uint64_t	first;			/* its number */
	uint32_t	row;			/* the row of tiles that it belongs to */
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
 * Computes the partitions of rows[side] rows from first[side] on, relative to these.  The result includes
 * empty partitions, so that the partitions of a panel are the same in all of its joins.
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

/* Computes the spans of rows of tiles of this height.  self: a row is compared only with columns behind it. */
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

/* Computes nstripes + 1 stripes, `width` columns wide.  Returns how many tile numbers there are. */
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
