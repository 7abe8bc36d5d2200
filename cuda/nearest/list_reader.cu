/*-------------------------------------------------------------------------
 *
 * list_reader.cu
 *	  Lists of neighbours on their way to the host.
 *
 *-------------------------------------------------------------------------
 */
#include "nearest/list_reader.h"

#include <algorithm>

#include "device/device.h"

namespace fasted
{

namespace
{

constexpr size_t kWindowBytes = (size_t) 2 << 20;

}								/* namespace */

ListReader::ListReader(NeighborLists &lists, uint32_t rows, cudaStream_t stream)
	: table_(lists.table()), rows_(rows), stream_(stream), lengths_(rows)
{
	size_t		a_row = table_.k * sizeof(FastedNeighbor);

	window_rows_ = (uint32_t) std::min<size_t>(rows, std::max<size_t>(1, kWindowBytes / a_row));
	lists.sort(stream);
	read_lengths(0, rows);
}

/* Waits for the device. */
void
ListReader::read_lengths(uint32_t first, uint32_t count)
{
	check_cuda(cudaMemcpyAsync(lengths_.data() + first, table_.lengths + first,
							   count * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream_),
			   "reading the rows' neighbors");
	check_cuda(cudaStreamSynchronize(stream_), "reading the rows' neighbors");
}

/* A window may be on its way still. */
ListReader::~ListReader()
{
	(void) cudaStreamSynchronize(stream_);
}

/* Begins to bring a window's rows. */
void
ListReader::fetch(Window &window, uint32_t first)
{
	size_t		room = (size_t) window_rows_ * table_.k;

	window.first = first;
	window.end = std::min(rows_ - first, window_rows_) + first;
	if (window.lists.size() < room)
		window.lists.allocate(room, "allocating room for the rows' neighbors");
	check_cuda(cudaMemcpyAsync(window.lists.get(), table_.lists + (size_t) first * table_.k,
							   (size_t) (window.end - first) * table_.k * sizeof(FastedNeighbor),
							   cudaMemcpyDeviceToHost, stream_),
			   "reading the rows' neighbors");
	window.arrived.record(stream_);
	window.there = false;
}

/* The window that has this row; what comes after it is on its way. */
const ListReader::Window &
ListReader::window_with(uint32_t row)
{
	auto		has = [&](const Window &window) { return window.first <= row && row < window.end; };
	int			i = has(windows_[1]) ? 1 : 0;
	Window	   &window = windows_[i];
	Window	   &other = windows_[!i];

	if (!has(window))
		fetch(window, row);
	if (window.end < rows_ && other.first != window.end)
		fetch(other, window.end);
	if (!window.there)
		window.arrived.wait("reading the rows' neighbors");
	window.there = true;
	return window;
}

/* What is in the windows may be of these rows: they are read again. */
void
ListReader::add(const ListReader &from, uint32_t first, uint32_t count, FastedNeighbor *room,
				uint32_t *room_of_lengths, size_t room_size)
{
	const char *doing = "copying neighbors from another GPU";
	uint32_t	most = (uint32_t) std::min<size_t>(count, room_size / table_.k);

	for (uint32_t done = 0; done < count;)
	{
		uint32_t	rows = std::min(count - done, most);
		uint32_t	row = first + done;

		check_cuda(cudaMemcpyAsync(room, from.table_.lists + (size_t) row * table_.k,
								   (size_t) rows * table_.k * sizeof(FastedNeighbor),
								   cudaMemcpyDefault, stream_), doing);
		check_cuda(cudaMemcpyAsync(room_of_lengths, from.table_.lengths + row,
								   rows * sizeof(uint32_t), cudaMemcpyDefault, stream_), doing);
		launch_merge(room, room_of_lengths, table_, row, rows, stream_);
		done += rows;
	}
	read_lengths(first, count);
	for (Window &window : windows_)
		window.first = window.end = 0;
}

/* On the device the farthest come first, or they are a heap. */
void
ListReader::read(uint32_t first, uint32_t count, uint32_t *lengths, FastedNeighbor *neighbors)
{
	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t	row = first + i;
		const Window &window = window_with(row);
		const FastedNeighbor *list = window.lists.get() + (size_t) (row - window.first) * table_.k;
		FastedNeighbor *to = neighbors + (size_t) i * table_.k;

		lengths[i] = lengths_[row];
		std::reverse_copy(list, list + lengths[i], to);
		if (table_.k > kMostSorted)
			std::sort(to, to + lengths[i], comes_before);
	}
}

}								/* namespace fasted */
