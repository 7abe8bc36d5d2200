/*-------------------------------------------------------------------------
 *
 * group_tiles.cu
 *	  The tiles of a join whose rows meet in groups: row_groups.h, on the device.
 *
 *-------------------------------------------------------------------------
 */
#include "schedule/group_tiles.h"

#include <vector>

namespace fasted
{

namespace
{

/* No tile is smaller. */
constexpr uint32_t kLeastTile = 128;

template <class T>
const T *
send(Budget &budget, const std::vector<T> &from, DeviceArray<T> &to, cudaStream_t stream)
{
	if (to.size() < from.size())
	{
		to.release();
		to.allocate(budget, from.size(), "allocating device memory for tiles");
	}
	check_cuda(cudaMemcpyAsync(to.get(), from.data(), from.size() * sizeof(T),
							   cudaMemcpyHostToDevice, stream),
			   "copying the places of tiles");
	/* pageable memory need not have been read before */
	check_cuda(cudaStreamSynchronize(stream), "copying the places of tiles");
	return to.get();
}

}								/* namespace */

size_t
GroupTiles::bytes(uint64_t rows)
{
	uint64_t	tiles = rows / kLeastTile + 2;

	return Budget::rounded(tiles * sizeof(FastedSpan))
		+ Budget::rounded(tiles * sizeof(FastedStripe));
}

void
GroupTiles::find(TileOrder *order, cudaStream_t stream)
{
	std::vector<FastedSpan> spans(order->tiles_m());
	std::vector<FastedStripe> stripes(order->tiles_n() + 1);

	fasted_find_spans(groups_, ngroups_, 0, order->triangle, order->tile_m, spans.data(),
					  order->tiles_m());
	order->groups.nstripes = order->tiles_n();
	order->groups.count = fasted_find_stripes(spans.data(), order->tiles_m(), order->tile_n,
											  stripes.data(), order->tiles_n());
	order->groups.spans = send(*budget_, spans, spans_, stream);
	order->groups.stripes = send(*budget_, stripes, stripes_, stream);
}

}								/* namespace fasted */
