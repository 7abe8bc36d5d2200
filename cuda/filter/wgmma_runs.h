/*-------------------------------------------------------------------------
 *
 * wgmma_runs.h
 *	  The items of the wgmma filter: runs, rows of tiles with the same A.
 *
 * Plain arithmetic, for the device and for tests on the host.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_WGMMA_RUNS_H
#define FASTED_CUDA_WGMMA_RUNS_H

#include <cstdint>

#include "filter/block_order.h"

namespace fasted
{
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

#endif							/* FASTED_CUDA_WGMMA_RUNS_H */
