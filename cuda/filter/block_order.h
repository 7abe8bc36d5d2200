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
 * only rows of one group meet, items are those of host_device.h.
 *
 * Plain arithmetic, for the device and for tests on the host.
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

/*
 * Which work is done, which is to do, and which has to be done again.
 *
 * A join is a sequence of rounds.  A round runs the filter over some items of
 * the tile order, rechecks the candidates, and hands the pairs on.  The blocks
 * of the filter take items from a queue.  A warp that finds no room for its
 * candidates puts the rest of its work on the list of voided work and raises
 * "stop"; no block takes a further item, and the next round, with an empty
 * buffer, begins with the voided work.  So nothing is lost whatever the number
 * of hits, and nobody has to count them first.
 *
 * What is left of whole items waits until all that single warps still have to do is
 * done: of it, much may have to be done again.  So the list stays as short as what
 * the blocks have in hand at once.
 *
 * All of this lives on the device: the host can launch a round before it knows
 * how the last one ended.
 */

constexpr uint32_t kAllWarps = 0xffffffff;

/* One item, or the part of it that one warp still has to do. */
struct Work
{
	uint64_t	item;
	uint32_t	warp;			/* kAllWarps, or the only warp to report hits */
	uint32_t	resume;			/* where it begins, in the kernel's terms */
};

struct WorkState
{
	/* This round's queue: "again" of redone work first, then fresh items. */
	unsigned long long taken;
	unsigned long long fresh_first;
	unsigned long long fresh_end;
	unsigned long long total;	/* where fresh items end in the last round */
	uint32_t	again;
	uint32_t	list;			/* which of the two lists holds that work */

	/* Nobody begins anything: in this round, because of it; and at all. */
	uint32_t	stop;
	uint32_t	cancelled;

	/* What happened in this round. */
	uint32_t	voided;
	uint32_t	chunks_used;
	unsigned long long candidates;
	unsigned long long pairs;
	unsigned long long handed_out;	/* of connections: pairs */

	/* In all rounds: pairs that are open (connect.h), or would be if there were room. */
	unsigned long long open;
};

/* The host's copy of how a round ended. */
struct RoundReport
{
	unsigned long long candidates;
	unsigned long long pairs;
	unsigned long long handed_out;
	unsigned long long open;	/* so far */
	unsigned long long items_done;	/* up to here, of all rounds; redone ones once */
	uint32_t	voided;
	uint32_t	overflow;		/* a value does not fit FP16 (approximate only) */
	uint32_t	finished;		/* no work is left */
	uint32_t	again;			/* work on the list for the next round */
};

/* The number of items in the queue of a round. */
FASTED_HD inline unsigned long long
queue_length(const WorkState &state)
{
	return state.again + (state.fresh_end - state.fresh_first);
}

/* Redone work of this round that no block took. */
FASTED_HD inline uint32_t
left_again(const WorkState &state)
{
	return state.taken < state.again ? (uint32_t) (state.again - state.taken) : 0;
}

/*
 * Where an entry goes in a list of so many for the next round; number: of those of its
 * kind before it.
 */
FASTED_HD inline uint32_t
place_again(const Work &work, uint32_t length, uint32_t number)
{
	return work.warp == kAllWarps ? length - 1 - number : number;
}

/*
 * Ends a round and plans the next, of at most "budget" fresh items.  The caller
 * has put the left_again(state) untaken entries and the voided ones into the
 * other list.
 */
FASTED_HD inline RoundReport
advance_state(WorkState &state, unsigned long long budget)
{
	unsigned long long length = queue_length(state);
	unsigned long long done = state.taken < length ? state.taken : length;
	uint32_t	again = left_again(state) + state.voided;
	RoundReport report;

	if (done > state.again)
		state.fresh_first += done - state.again;
	report.candidates = state.candidates;
	report.pairs = state.pairs;
	report.handed_out = state.handed_out;
	report.open = state.open;
	report.items_done = state.fresh_first;
	report.voided = state.voided;
	report.overflow = 0;
	report.again = again;
	report.finished = (again == 0 && state.fresh_first == state.total);

	state.again = again;
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
	state.handed_out = 0;
	return report;
}

/* Before the first round, of items [first, end). */
inline WorkState
first_state(unsigned long long first, unsigned long long end, unsigned long long budget)
{
	WorkState	state = {};

	state.fresh_first = first;
	state.fresh_end = end - first < budget ? end : first + budget;
	state.total = end;
	return state;
}

/* The items of the wgmma filter: runs, rows of tiles with the same A. */
namespace wgmma
{

constexpr uint32_t kTileN = 256;

/* The tiles of a run in which there are pairs. */
struct Run
{
	uint32_t	row;			/* of its first product */
	uint32_t	column;
	uint32_t	first;			/* tiles [first, end), of kTileN columns each */
	uint32_t	end;
};

/* The run of an item, whose "tile" is as wide as the run; false: it has none. */
FASTED_HD inline bool
locate_run(const TileOrder &order, uint64_t item, Square *square, Run *run)
{
	uint32_t	m;
	uint32_t	n;

	if (!order.locate(item, &m, &n, square))
		return false;
	run->row = m * order.tile_m;
	run->column = n * order.tile_n;

	if (order.groups.spans != nullptr)
	{
		FastedSpan	columns = order.columns_of(m, n);

		run->first = (columns.first - run->column) / kTileN;
		run->end = (columns.end - 1 - run->column) / kTileN + 1;
		return true;
	}

	/* the first tile whose last column lies past the first row */
	run->first = order.triangle && run->row >= run->column
		? (run->row - run->column + 1) / kTileN : 0;

	uint32_t	wide = order.tile_n / kTileN;
	uint32_t	left = (order.rows_b - run->column + kTileN - 1) / kTileN;

	run->end = wide < left ? wide : left;
	return true;
}

/* Is every product of the tile that begins here a pair that is asked for? */
FASTED_HD inline bool
whole_tile(const TileOrder &order, uint32_t row, uint32_t column)
{
	return row + order.tile_m <= order.rows_a && column + kTileN <= order.rows_b
		&& (!order.triangle || column >= row + order.tile_m);
}

}								/* namespace wgmma */

}								/* namespace fasted */

#endif							/* FASTED_CUDA_BLOCK_ORDER_H */
