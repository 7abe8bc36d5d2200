/*-------------------------------------------------------------------------
 *
 * list_reader.h
 *	  Lists of neighbours on their way to the host.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_LIST_READER_H
#define FASTED_CUDA_LIST_READER_H

#include <vector>

#include "nearest/neighbor_lists.h"

namespace fasted
{

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

#endif							/* FASTED_CUDA_LIST_READER_H */
