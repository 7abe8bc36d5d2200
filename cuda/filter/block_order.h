/*-------------------------------------------------------------------------
 *
 * block_order.h
 *	  In which order block tiles are computed.
 *
 * Work items 0, 1, 2, ... name the tiles of the distance matrix.  Concurrent
 * blocks take neighbouring items, so items run through squares, of 1024 x 1024
 * distances say (8 x 8 tiles of 128 x 128): the rows that one square reads are
 * read by many blocks at once and stay in the L2 cache (the paper, section
 * 3.3.1).  Past the paper, a self-join walks only the squares on or above the
 * diagonal.  A tile may be as wide as a square: a run of the wgmma kernel.  Where
 * only rows of one group meet, items are those of row_groups.h.
 *
 * Plain arithmetic, for the device and for tests on the host.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_BLOCK_ORDER_H
#define FASTED_CUDA_BLOCK_ORDER_H

#include <cmath>
#include <cstdint>

#include "engine/row_groups.h"

namespace fasted
{

/* Distances on one side of a square, where a kernel does not say otherwise. */
constexpr uint32_t kSquareSide = 1024;

/*
 * Square number s of the upper triangle, counted down the columns:
 * s = J (J + 1) / 2 + I with I <= J.  The root may be off by one for large s.
 * Up to 2^30 squares, that is 47 million rows, 32 bits do: a single thread
 * works this out for every tile, and 64 bits would take it longer than the
 * tile takes the others.
 */
FASTED_HD inline void
triangle_square(uint64_t s, uint32_t *i, uint32_t *j)
{
	if (s < (uint64_t) 1 << 30)
	{
		uint32_t	square = (uint32_t) s;
		uint32_t	column = (uint32_t) ((sqrtf(8.0f * (float) square + 1.0f) - 1.0f) * 0.5f);

		while (column * (column + 1) / 2 > square)
			column--;
		while ((column + 1) * (column + 2) / 2 <= square)
			column++;
		*j = column;
		*i = square - column * (column + 1) / 2;
	}
	else
	{
		uint64_t	column = (uint64_t) ((sqrt(8.0 * (double) s + 1.0) - 1.0) / 2.0);

		while (column * (column + 1) / 2 > s)
			column--;
		while ((column + 1) * (column + 2) / 2 <= s)
			column++;
		*j = (uint32_t) column;
		*i = (uint32_t) (s - column * (column + 1) / 2);
	}
}

/* A square, by its number and its place. */
struct Square
{
	uint64_t	number = ~(uint64_t) 0;
	uint32_t	i = 0;
	uint32_t	j = 0;
};

/* Rows stay below 2^31, so the rows where tiles begin and end fit 32 bits. */
struct TileOrder
{
	uint32_t	rows_a;			/* rows of the matrix */
	uint32_t	rows_b;			/* and its columns */
	uint32_t	tile_m;			/* rows and columns of a tile; they divide side */
	uint32_t	tile_n;
	bool		triangle;		/* a self-join: pairs with row < column only */
	bool		squares;		/* false: row by row, to measure what squares gain */
	uint32_t	side = kSquareSide;
	bool		down = false;	/* squares down the columns; of a rectangle */

	/* Only rows of one group meet: items run down stripes, not through squares. */
	FastedGroupTiles groups = {};

	FASTED_HD uint32_t tiles_m() const { return (rows_a + tile_m - 1) / tile_m; }
	FASTED_HD uint32_t tiles_n() const { return (rows_b + tile_n - 1) / tile_n; }

	/* Items include some that hold no tile: see locate. */
	FASTED_HD uint64_t items() const
	{
		if (groups.spans != nullptr)
			return groups.count;
		if (!squares)
			return (uint64_t) tiles_m() * tiles_n();

		uint64_t	side_a = ((uint64_t) rows_a + side - 1) / side;
		uint64_t	side_b = ((uint64_t) rows_b + side - 1) / side;

		return per_square() * (triangle ? side_a * (side_a + 1) / 2
							   : side_a * side_b);
	}

	/* Is there a pair in the tile, with row < column if that is asked for? */
	FASTED_HD bool wanted(uint32_t m, uint32_t n) const
	{
		return m * tile_m < rows_a && n * tile_n < rows_b
			&& (!triangle || (n + 1) * tile_n - 1 > m * tile_m);
	}

	/* Is every element of the tile a pair that is asked for? */
	FASTED_HD bool whole(uint32_t m, uint32_t n) const
	{
		return (m + 1) * tile_m <= rows_a && (n + 1) * tile_n <= rows_b
			&& (!triangle || n * tile_n >= (m + 1) * tile_m);
	}

	/* The tile of an item; false when the item has none. */
	FASTED_HD bool locate(uint64_t item, uint32_t *m, uint32_t *n) const
	{
		Square		square;

		return locate(item, m, n, &square);
	}

	/* The same, with the square of the item before: mostly it is this one's. */
	FASTED_HD bool locate(uint64_t item, uint32_t *m, uint32_t *n, Square *square) const
	{
		if (groups.spans != nullptr)
			return locate_in_stripe(item, m, n, square);
		if (!squares)
		{
			*m = (uint32_t) (item / tiles_n());
			*n = (uint32_t) (item % tiles_n());
			return wanted(*m, *n);
		}

		uint32_t	high = side / tile_m;
		uint32_t	wide = side / tile_n;
		uint64_t	number = item < (uint64_t) 1 << 32
			? (uint32_t) item / (high * wide) : item / (high * wide);
		uint32_t	within = (uint32_t) (item - number * (high * wide));

		if (number != square->number)
		{
			uint32_t	side_b = ((down ? rows_a : rows_b) + side - 1) / side;

			square->number = number;
			if (triangle)
				triangle_square(number, &square->i, &square->j);
			else if (number < (uint64_t) 1 << 32)
			{
				square->i = (uint32_t) number / side_b;
				square->j = (uint32_t) number % side_b;
			}
			else
			{
				square->i = (uint32_t) (number / side_b);
				square->j = (uint32_t) (number % side_b);
			}
			if (down && !triangle)
			{
				uint32_t	column = square->i;

				square->i = square->j;
				square->j = column;
			}
		}
		*m = square->i * high + within % high;
		*n = square->j * wide + within / high;
		return wanted(*m, *n);
	}

	/* The columns of groups of a row of tiles, in one of its tiles. */
	FASTED_HD FastedSpan columns_of(uint32_t m, uint32_t n) const
	{
		return fasted_span_within(&groups, m, (uint64_t) n * tile_n, tile_n);
	}

	/* Tiles that hold work; with groups, about. */
	uint64_t tiles() const
	{
		if (groups.spans != nullptr)
			return groups.count;
		if (!triangle)
			return (uint64_t) tiles_m() * tiles_n();

		uint64_t	sum = 0;

		for (uint64_t m = 0; m < tiles_m(); m++)
		{
			/* the first column tile whose last column lies past row m tile_m */
			uint64_t	first = (m * tile_m + 1) / tile_n;

			sum += first < tiles_n() ? tiles_n() - first : 0;
		}
		return sum;
	}

	FASTED_HD uint64_t per_square() const
	{
		return (uint64_t) (side / tile_m) * (side / tile_n);
	}

	/* With groups; the square is a stripe then. */
	FASTED_HD bool locate_in_stripe(uint64_t item, uint32_t *m, uint32_t *n,
									Square *square) const
	{
		uint32_t	stripe = fasted_stripe_of(&groups, item, (uint32_t) square->number);
		FastedSpan	columns;

		square->number = stripe;
		*m = groups.stripes[stripe].row + (uint32_t) (item - groups.stripes[stripe].first);
		*n = stripe;
		columns = columns_of(*m, *n);
		return columns.first < columns.end;
	}
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_BLOCK_ORDER_H */
