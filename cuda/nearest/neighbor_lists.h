/*-------------------------------------------------------------------------
 *
 * neighbor_lists.h
 *	  The nearest rows so far of every row of a set, on the device.
 *
 * A list is a heap of at most k neighbours, the last of them at its root; first comes
 * what is nearer, then what has the smaller rank, which is what a list has of a row.  A row's
 * radius is what a distance may be at most to be of its list: eps, or less where k rows are
 * known to be nearer, and the root's distance once the list is full.  It only shrinks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_NEIGHBOR_LISTS_H
#define FASTED_CUDA_NEIGHBOR_LISTS_H

#include <vector>

#include "device/device.h"
#include "engine/engine.h"
#include "filter/block_order.h"
#include "rows/row_table.h"

namespace fasted
{

/* What kernels are given; all by the rows' numbers in their set, from 0. */
struct NeighborTable
{
	FastedNeighbor *lists = nullptr;	/* k for each row; null: there are no lists */
	uint32_t   *lengths = nullptr;
	uint32_t   *locks = nullptr;	/* 0: free */
	double	   *radii = nullptr;
	uint32_t	k = 0;

	/* Of the rows that are offered, from this number on; null: ranks are numbers. */
	const uint32_t *ranks = nullptr;
	uint64_t	first_ranked = 0;
};

/* The order of a list, of which neighbours that are as far come by their numbers. */
FASTED_HD inline bool
comes_before(const FastedNeighbor &x, const FastedNeighbor &y)
{
	return x.dist < y.dist || (x.dist == y.dist && x.row < y.row);
}

class NeighborLists
{
public:
	/* What allocate takes for lists of k. */
	static size_t bytes(uint64_t rows, uint32_t k);

	/* Room for such lists; nothing happens where there is as much. */
	void		allocate(Budget &budget, uint64_t rows, uint32_t k);

	/* Empty lists for the first so many rows, of neighbours within eps. */
	void		begin(uint32_t rows, uint32_t k, double eps, cudaStream_t stream);

	/* Empties the lists; radii stay as they are. */
	void		restart(cudaStream_t stream);

	/* Are there such lists, of this set's rows? */
	bool are_there(uint32_t k, double eps) const { return there_ && table_.k == k && eps_ == eps; }
	void forget() { there_ = false; }

	/* Puts every list in order, the farthest first: heaps they stay. */
	void		sort(cudaStream_t stream);

	const NeighborTable &table() const { return table_; }

	/* Room for a threshold of each row, and for padding. */
	uint32_t   *thresholds() { return thresholds_.get(); }

	/* Room for a number of each kLevelRows of them (near_task.h). */
	float	   *levels() { return levels_.get(); }

private:
	NeighborTable table_;
	uint32_t	rows_ = 0;
	double		eps_ = 0;
	bool		there_ = false;
	DeviceArray<FastedNeighbor> lists_;
	DeviceArray<uint32_t> lengths_;
	DeviceArray<uint32_t> locks_;
	DeviceArray<double> radii_;
	DeviceArray<uint32_t> thresholds_;
	DeviceArray<float> levels_;
};

/* Lists of so many are sorted on the device; longer ones are left as they are. */
constexpr uint32_t kMostSorted = 1024;

/*
 * Offers the pairs of a round, state->pairs in number, to the lists of their rows a;
 * both: to those of their rows b too, which are of the same set.  No pair is offered
 * twice.
 */
void launch_offer(const FastedPair *pairs, const WorkState *state, const NeighborTable &table,
				  bool both, uint64_t first_row, const Device &device, cudaStream_t stream);

/*
 * Adds lists of so many rows to those of the table from a row on; all of them have been sorted.
 * What a row has in both is taken once.
 */
void launch_merge(const FastedNeighbor *lists, const uint32_t *lengths, const NeighborTable &table,
				  uint32_t first_row, uint32_t rows, cudaStream_t stream);

/*
 * Lists of neighbours on their way to the host.
 */

/* To be used while no kernel changes the lists. */
class ListReader
{
public:
	/* Sorts them. */
	ListReader(NeighborLists &lists, uint32_t rows, cudaStream_t stream);

	ListReader(const ListReader &) = delete;
	~ListReader();

	/* As FastedEngine.nearest.  Waits for the device. */
	void		read(uint32_t first, uint32_t count, uint32_t *lengths, FastedNeighbor *neighbors);

	/*
	 * Adds another device's lists of the same rows, which a reader has sorted there.  room: for
	 * so many neighbours here, and for as many numbers of them.  Waits for the device.
	 */
	void		add(const ListReader &from, uint32_t first, uint32_t count, FastedNeighbor *room,
					uint32_t *room_of_lengths, size_t room_size);

private:
	/* Rows come here some at a time, more than are asked for: a copy takes 10 us. */
	struct Window
	{
		PinnedArray<FastedNeighbor> lists;
		uint32_t	first = 0;
		uint32_t	end = 0;
		Event		arrived;
		bool		there = false;	/* that was waited for: to ask takes a microsecond */
	};

	void		fetch(Window &window, uint32_t first);
	const Window &window_with(uint32_t row);
	void		read_lengths(uint32_t first, uint32_t count);

	NeighborTable table_;
	uint32_t	rows_;
	uint32_t	window_rows_;
	cudaStream_t stream_;
	std::vector<uint32_t> lengths_;
	Window		windows_[2];	/* one is read while the next one comes */
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_NEIGHBOR_LISTS_H */
