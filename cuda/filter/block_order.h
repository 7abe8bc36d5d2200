/*-------------------------------------------------------------------------
 *
 * block_order.h
 *	  The order in which block tiles of the distance matrix are computed.
 *
 * Work items 0, 1, 2, ... number the tiles of the distance matrix.  Concurrent blocks take
 * consecutive items.  Items therefore run through squares, for example of 1024 x 1024 distances
 * (8 x 8 tiles of 128 x 128). Many blocks read the rows of one square at the same time, so these
 * rows stay in the L2 cache (the paper, section 3.3.1).
 *
 * Unlike the paper, a self-join visits only the squares on or above the diagonal.  A tile may be
 * as wide as a square: a run of the wgmma kernel.  In a join by partitions, items are those of
 * engine/host_device.h.  In a join of different components, tiles with pairs of one component only
 * are skipped.
 *
 * This file is plain arithmetic and also compiles for the host, where tests use it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_BLOCK_ORDER_H
#define FASTED_CUDA_BLOCK_ORDER_H

#include <cmath>
#include <cstdint>

#include "engine/host_device.h"

namespace fasted
{

/* Default side of a square, in rows. */
constexpr uint32_t kSquareSide = 1024;

/*
 * Row i and column j of square number s of the upper triangle, counted down the columns: s is the
 * sum of j(j+1)/2 and i, with i <= j.  The computed root may be off by one for large s and is
 * corrected.
 */
template <class Real, class Integer>
FASTED_HD inline void
triangle_square_as(Integer s, uint32_t *i, uint32_t *j)
{
	Integer		column = (Integer) ((sqrt((Real) 8 * (Real) s + (Real) 1) - (Real) 1) * (Real) 0.5);

	while (column * (column + 1) / 2 > s)
		column--;
	while ((column + 1) * (column + 2) / 2 <= s)
		column++;
	*j = (uint32_t) column;
	*i = (uint32_t) (s - column * (column + 1) / 2);
}

/*
 * For up to 2^30 squares (47 million rows) 32-bit arithmetic suffices.  A single thread runs this
 * for every tile, and with 64 bits it would take longer than the other threads need for the tile.
 */
FASTED_HD inline void
triangle_square(uint64_t s, uint32_t *i, uint32_t *j)
{
	if (s < (uint64_t) 1 << 30)
		triangle_square_as<float>((uint32_t) s, i, j);
	else
		triangle_square_as<double>(s, i, j);
}

/* Number of a square, and its row and column in units of squares. */
struct Square
{
	uint64_t	number = ~(uint64_t) 0;
	uint32_t	i = 0;
	uint32_t	j = 0;
};

/*
 * The tiles of a row of tiles whose rows and columns are all of one component (FastedComponents).  Both
 * operands are sorted by component, so these tiles are contiguous.
 */
struct SkippedTiles
{
	uint32_t	first;
	uint32_t	count;
};

/*
 * Maps work items to tiles.  Operands have fewer than 2^31 rows, so row numbers at tile borders fit
 * 32 bits.
 */
struct TileOrder
{
	uint32_t	rows_a;			/* rows of the distance matrix */
	uint32_t	rows_b;			/* columns of the distance matrix */
	uint32_t	tile_m;			/* rows and columns of a tile; both divide `side` */
	uint32_t	tile_n;
	bool		triangle;		/* self-join: only pairs with row < column */
	uint32_t	side = kSquareSide;
	bool		down = false;	/* visit the squares of a rectangle column by column */

	/* If set, compares only rows of the same partition; items follow stripes, not squares. */
	FastedPartitionTiles partitions = {};

	/* If set, the tiles to skip, for each row of tiles. */
	const SkippedTiles *skipped = nullptr;

	FASTED_HD uint32_t tiles_m() const { return (rows_a + tile_m - 1) / tile_m; }
	FASTED_HD uint32_t tiles_n() const { return (rows_b + tile_n - 1) / tile_n; }

	/* Number of work items; some have no tile, see locate(). */
	FASTED_HD uint64_t items() const
	{
		if (partitions.spans != nullptr)
			return partitions.count;

		uint64_t	side_a = ((uint64_t) rows_a + side - 1) / side;
		uint64_t	side_b = ((uint64_t) rows_b + side - 1) / side;

		return per_square() * (triangle ? side_a * (side_a + 1) / 2
							   : side_a * side_b);
	}

	/* Returns true if tile (m, n) contains a requested pair (row < column if `triangle`). */
	FASTED_HD bool wanted(uint32_t m, uint32_t n) const
	{
		return m * tile_m < rows_a && n * tile_n < rows_b
			&& (!triangle || (n + 1) * tile_n - 1 > m * tile_m)
			&& (skipped == nullptr || n - skipped[m].first >= skipped[m].count);
	}

	/* Returns true if every element of tile (m, n) is a requested pair, regardless of components. */
	FASTED_HD bool whole(uint32_t m, uint32_t n) const
	{
		return (m + 1) * tile_m <= rows_a && (n + 1) * tile_n <= rows_b
			&& (!triangle || n * tile_n >= (m + 1) * tile_m);
	}

	/* Finds the tile (m, n) of an item; returns false if the item has no tile. */
	FASTED_HD bool locate(uint64_t item, uint32_t *m, uint32_t *n) const
	{
		Square		square;

		return locate(item, m, n, &square);
	}

	/* The same; *square must be the square of the previous item, as a cache. */
	FASTED_HD bool locate(uint64_t item, uint32_t *m, uint32_t *n, Square *square) const
	{
		if (partitions.spans != nullptr)
			return locate_in_stripe(item, m, n, square);

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

	/* Columns of tile (m, n) that share a partition with a row of tile row m. */
	FASTED_HD FastedSpan columns_of(uint32_t m, uint32_t n) const
	{
		return fasted_span_within(&partitions, m, (uint64_t) n * tile_n, tile_n);
	}

	/* Number of tiles with requested pairs; approximate with partitions or components. */
	uint64_t tiles() const
	{
		if (partitions.spans != nullptr)
			return partitions.count;
		if (!triangle)
			return (uint64_t) tiles_m() * tiles_n();

		uint64_t	sum = 0;

		for (uint64_t m = 0; m < tiles_m(); m++)
		{
			/* the first tile column whose last column is beyond row m * tile_m */
			uint64_t	first = (m * tile_m + 1) / tile_n;

			sum += first < tiles_n() ? tiles_n() - first : 0;
		}
		return sum;
	}

	FASTED_HD uint64_t per_square() const
	{
		return (uint64_t) (side / tile_m) * (side / tile_n);
	}

	/* locate() for partitions; *square caches the stripe. */
	FASTED_HD bool locate_in_stripe(uint64_t item, uint32_t *m, uint32_t *n,
									Square *square) const
	{
		uint32_t	stripe = fasted_stripe_of(&partitions, item, (uint32_t) square->number);
		FastedSpan	columns;

		square->number = stripe;
		*m = partitions.stripes[stripe].row + (uint32_t) (item - partitions.stripes[stripe].first);
		*n = stripe;
		columns = columns_of(*m, *n);
		return columns.first < columns.end;
	}
};

/*
 * State of the work queue of a join.
 *
 * A join is a sequence of rounds.  A round runs the filter on some items of the tile order,
 * rechecks the candidates, and emits the pairs.  The blocks of the filter take items from a queue.
 * A warp that finds the candidate buffer full adds the rest of its work to the list of unfinished
 * work and sets "stop". Blocks then take no further items, and the next round begins with the
 * unfinished work and an empty buffer.  No work is lost whatever the number of candidates, and no
 * counting pass is needed.
 *
 * Unfinished work of single warps is done before unfinished whole items, because much of it may
 * have to be repeated again.  This limits the list to what the blocks process at the same time.
 *
 * All of this state is in device memory, so the host can launch a round before it knows the result
 * of the previous one.
 */

constexpr uint32_t kAllWarps = 0xffffffff;

/* A work item, or the part of it that one warp has not finished. */
struct Work
{
	uint64_t	item;
	uint32_t	warp;			/* kAllWarps, or the only warp that emits candidates */
	uint32_t	resume;			/* where to resume within the item; defined by the kernel */
};

struct WorkState
{
	/* Queue of this round: `unfinished` entries of the list of unfinished work, then new items. */
	unsigned long long taken;
	unsigned long long fresh_first;
	unsigned long long fresh_end;
	unsigned long long total;	/* end of the new items of the last round */
	uint32_t	unfinished;
	uint32_t	list;			/* index of the list that holds the unfinished work */

	/* Nonzero: blocks take no further work, in this round (stop) or at all (cancelled). */
	uint32_t	stop;
	uint32_t	cancelled;

	/* Counters of this round. */
	uint32_t	voided;
	uint32_t	chunks_used;
	unsigned long long candidates;
	unsigned long long pairs;
	unsigned long long returned;	/* clustering: pairs emitted */

	/* Total of all rounds: open pairs (connect.h), including those beyond the buffer's capacity. */
	unsigned long long open;
};

/* Result of a round, copied to the host. */
struct RoundReport
{
	unsigned long long candidates;
	unsigned long long pairs;
	unsigned long long returned;
	unsigned long long open;	/* total of all rounds */
	unsigned long long items_done;	/* items taken in all rounds; repeated items count once */
	uint32_t	voided;
	uint32_t	finished;		/* no work remains */
	uint32_t	unfinished;			/* entries of unfinished work for the next round */
};

/* Length of the queue of this round. */
FASTED_HD inline unsigned long long
queue_length(const WorkState &state)
{
	return state.unfinished + (state.fresh_end - state.fresh_first);
}

/* Number of entries of unfinished work that no block has taken in this round. */
FASTED_HD inline uint32_t
unfinished_left(const WorkState &state)
{
	return state.taken < state.unfinished ? (uint32_t) (state.unfinished - state.taken) : 0;
}

/*
 * Position of an entry in the next round's list of `length` entries; `number` counts the earlier
 * entries of the same kind (single warps, or whole items). Whole items go to the end of the list.
 */
FASTED_HD inline uint32_t
place_of_unfinished(const Work &work, uint32_t length, uint32_t number)
{
	return work.warp == kAllWarps ? length - 1 - number : number;
}

/*
 * Ends a round and plans the next one, of at most `budget` new items.  Returns the report of the
 * round.  The caller has copied the unfinished_left(state) entries not taken, and the `voided` ones, to
 * the other list.
 */
FASTED_HD inline RoundReport
advance_state(WorkState &state, unsigned long long budget)
{
	unsigned long long length = queue_length(state);
	unsigned long long done = state.taken < length ? state.taken : length;
	uint32_t	unfinished = unfinished_left(state) + state.voided;
	RoundReport report;

	if (done > state.unfinished)
		state.fresh_first += done - state.unfinished;
	report.candidates = state.candidates;
	report.pairs = state.pairs;
	report.returned = state.returned;
	report.open = state.open;
	report.items_done = state.fresh_first;
	report.voided = state.voided;
	report.unfinished = unfinished;
	report.finished = (unfinished == 0 && state.fresh_first == state.total);

	state.unfinished = unfinished;
	state.list ^= 1;
	state.fresh_end = state.fresh_first
		+ (state.total - state.fresh_first < budget
		   ? state.total - state.fresh_first : budget);
	state.taken = 0;
	state.voided = 0;
	state.stop = 0;
	state.chunks_used = 0;
	state.candidates = 0;
	state.pairs = 0;
	state.returned = 0;
	return report;
}

/* State before the first round, for items [first, end). */
inline WorkState
first_state(unsigned long long first, unsigned long long end, unsigned long long budget)
{
	WorkState	state = {};

	state.fresh_first = first;
	state.fresh_end = end - first < budget ? end : first + budget;
	state.total = end;
	return state;
}

/* Work items of the wgmma filter: a run is a row of adjacent tiles that use the same rows of A. */
namespace wgmma
{

constexpr uint32_t kTileN = 256;

/* The tiles of a run that contain requested pairs. */
struct Run
{
	uint32_t	row;			/* matrix row and column of the run's first product */
	uint32_t	column;
	uint32_t	first;			/* tiles [first, end) of the run, kTileN columns each */
	uint32_t	end;
};

/*
 * Finds the run of an item; a tile of `order` is as wide as a run.  Returns false if the item has
 * no run.
 */
FASTED_HD inline bool
locate_run(const TileOrder &order, uint64_t item, Square *square, Run *run)
{
	uint32_t	m;
	uint32_t	n;

	if (!order.locate(item, &m, &n, square))
		return false;
	run->row = m * order.tile_m;
	run->column = n * order.tile_n;

	if (order.partitions.spans != nullptr)
	{
		FastedSpan	columns = order.columns_of(m, n);

		run->first = (columns.first - run->column) / kTileN;
		run->end = (columns.end - 1 - run->column) / kTileN + 1;
		return true;
	}

	/* the first tile whose last column is beyond the first row */
	run->first = order.triangle && run->row >= run->column
		? (run->row - run->column + 1) / kTileN : 0;

	uint32_t	wide = order.tile_n / kTileN;
	uint32_t	left = (order.rows_b - run->column + kTileN - 1) / kTileN;

	run->end = wide < left ? wide : left;
	return true;
}

/* Returns true if every product of the tile at (row, column) is a requested pair. */
FASTED_HD inline bool
whole_tile(const TileOrder &order, uint32_t row, uint32_t column)
{
	return row + order.tile_m <= order.rows_a && column + kTileN <= order.rows_b
		&& (!order.triangle || column >= row + order.tile_m);
}

}								/* namespace wgmma */

}								/* namespace fasted */

#endif							/* FASTED_CUDA_BLOCK_ORDER_H */
