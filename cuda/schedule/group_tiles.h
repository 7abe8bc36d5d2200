/*-------------------------------------------------------------------------
 *
 * group_tiles.h
 *	  The tiles of a join whose rows meet in groups: row_groups.h, on the device.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_GROUP_TILES_H
#define FASTED_CUDA_GROUP_TILES_H

#include "device/device_memory.h"
#include "filter/block_order.h"

namespace fasted
{

class GroupTiles
{
public:
	/* At most, of a set of so many rows, whichever its tiles are. */
	static size_t bytes(uint64_t rows);

	/* The groups of the join to come.  Nothing on the device reads an earlier one's. */
	void set(Budget &budget, const FastedProblem &problem)
	{
		budget_ = &budget;
		groups_ = problem.groups;
		ngroups_ = problem.ngroups;
	}

	/* Gives the order its tiles, which are there when this stream has come here. */
	void		find(TileOrder *order, cudaStream_t stream);

private:
	Budget	   *budget_ = nullptr;
	const FastedRowGroup *groups_ = nullptr;
	uint32_t	ngroups_ = 0;
	DeviceArray<FastedSpan> spans_;
	DeviceArray<FastedStripe> stripes_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_GROUP_TILES_H */
