/*-------------------------------------------------------------------------
 *
 * neighbor_lists.cu
 *	  Neighbour lists on the device.
 *
 *	  list(x) = the first k rows y of those offered to x, by (D(x, y), rank of y)
 *	  radius r_x = D(x, last of a full list): offers beyond it are dropped without a lock
 *
 *-------------------------------------------------------------------------
 */
#include "nearest/nearest.h"

#include <algorithm>

namespace fasted
{

namespace
{

constexpr int kBlock = 256;

/* Number of neighbours that a thread block sorts; several short lists share a block. */
constexpr uint32_t kSortRoom = 1024;
static_assert(kMostSorted <= kSortRoom, "a list fits");

/* Size of the lists that are copied to the host at a time. */
constexpr size_t kWindowBytes = (size_t) 2 << 20;

static_assert(sizeof(FastedNeighbor) == sizeof(int4), "one access reads a neighbour");

/* Bypasses the L1 cache, because other threads write lists concurrently. */
__device__ __forceinline__ FastedNeighbor
read_neighbor(const FastedNeighbor *from)
{
	int4		words = __ldcg((const int4 *) from);

	return {(uint32_t) words.x, __hiloint2double(words.w, words.z)};
}

__device__ __forceinline__ void
write_neighbor(FastedNeighbor *to, const FastedNeighbor &neighbor)
{
	__stcg((int4 *) to, make_int4((int) neighbor.row, 0, __double2loint(neighbor.dist),
								  __double2hiint(neighbor.dist)));
}

/* Inserts a neighbour into the heap, starting from the new leaf `hole`. */
__device__ void
sift_up(FastedNeighbor *heap, uint32_t hole, const FastedNeighbor &neighbor)
{
	while (hole > 0)
	{
		uint32_t	parent = (hole - 1) / 2;
		FastedNeighbor above = read_neighbor(&heap[parent]);

		if (!comes_before(above, neighbor))
			break;
		write_neighbor(&heap[hole], above);
		hole = parent;
	}
	write_neighbor(&heap[hole], neighbor);
}

/* Replaces the root of the heap by a neighbour. */
__device__ void
sift_down(FastedNeighbor *heap, uint32_t k, const FastedNeighbor &neighbor)
{
	uint32_t	hole = 0;
	uint32_t	child;

	while ((child = 2 * hole + 1) < k)
	{
		FastedNeighbor below = read_neighbor(&heap[child]);

		if (child + 1 < k)
		{
			FastedNeighbor right = read_neighbor(&heap[child + 1]);

			if (comes_before(below, right))
			{
				below = right;
				child++;
			}
		}
		if (!comes_before(neighbor, below))
			break;
		write_neighbor(&heap[hole], below);
		hole = child;
	}
	write_neighbor(&heap[hole], neighbor);
}

/* The pairs that a warp inserts into lists. */
struct Offers
{
	const FastedPair *pairs;
	unsigned long long first;	/* lane l has pair first + l */
	uint64_t	first_row;
	bool		to_b;			/* insert into the list of the row of b (self-join) */

	__device__ __forceinline__ uint32_t
	row(const FastedPair &pair) const
	{
		return (uint32_t) ((to_b ? pair.b : pair.a) - first_row);
	}

	__device__ __forceinline__ FastedNeighbor
	neighbor(const NeighborTable &table, const FastedPair &pair) const
	{
		uint32_t	number = to_b ? pair.a : pair.b;

		return {table.ranks == nullptr ? number : table.ranks[number - table.first_ranked],
			pair.dist};
	}
};

/* Inserts the pairs of these lanes into the list of one row.  The caller holds its lock. */
__device__ void
insert(const NeighborTable &table, uint32_t row, const Offers &offers, uint32_t lanes)
{
	FastedNeighbor *heap = table.lists + (size_t) row * table.k;
	uint32_t	length = __ldcg(&table.lengths[row]);

	for (; lanes != 0; lanes &= lanes - 1)
	{
		FastedNeighbor neighbor = offers.neighbor(table, offers.pairs[offers.first + __ffs(lanes) - 1]);

		if (length < table.k)
			sift_up(heap, length++, neighbor);
		else if (comes_before(neighbor, read_neighbor(heap)))
			sift_down(heap, table.k, neighbor);
	}
	__threadfence();			/* write the root before the length and the radius */
	__stcg(&table.lengths[row], length);
	if (length == table.k)
	{
		double		farthest = read_neighbor(heap).dist;

		if (farthest < __ldcg(&table.radii[row]))
			__stcg(&table.radii[row], farthest);
	}
}

/*
 * Returns whether the neighbour certainly does not belong to the list.  No lock is needed: the root
 * that is read may be outdated, but roots are only replaced by earlier neighbours.  If the distance
 * equals the radius, ranks are compared, to avoid contention for the lock with many equal rows.
 */
__device__ __forceinline__ bool
too_far(const NeighborTable &table, uint32_t row, const FastedNeighbor &neighbor)
{
	double		radius = *(volatile double *) &table.radii[row];

	if (neighbor.dist != radius || __ldcg(&table.lengths[row]) < table.k)
		return neighbor.dist > radius;
	__threadfence();
	return neighbor.row > *(volatile uint32_t *) &table.lists[(size_t) row * table.k].row;
}

/* Inserts pairs into lists.  One lane inserts the pairs of all lanes with the same row. */
__device__ __forceinline__ void
offer(const NeighborTable &table, const Offers &offers, const FastedPair &pair, bool mine)
{
	uint32_t	row = mine ? offers.row(pair) : 0;
	bool		wanted = mine && !too_far(table, row, offers.neighbor(table, pair));
	uint32_t	all = __ballot_sync(0xffffffff, wanted);
	uint32_t	lanes;
	bool		waiting;

	if (!wanted)
		return;
	lanes = __match_any_sync(all, row);
	waiting = threadIdx.x % 32 + 1 == (uint32_t) __ffs(lanes);
	while (waiting)
	{
		if (atomicCAS(&table.locks[row], 0u, 1u) == 0)
		{
			__threadfence();
			insert(table, row, offers, lanes);
			__threadfence();
			atomicExch(&table.locks[row], 0u);
			waiting = false;
		}
	}
}

__global__ void
__launch_bounds__(kBlock)
offer_kernel(const FastedPair *pairs, const WorkState *state, const NeighborTable table,
			 bool both, uint64_t first_row)
{
	unsigned long long count = state->pairs;
	uint32_t	lane = threadIdx.x % 32;

	for (unsigned long long first = (blockIdx.x * kBlock + threadIdx.x) / 32 * 32ULL; first < count;
		 first += gridDim.x * (unsigned long long) kBlock)
	{
		bool		mine = first + lane < count;
		FastedPair	pair = mine ? pairs[first + lane] : FastedPair{};

		offer(table, {pairs, first, first_row, false}, pair, mine);
		__syncwarp();
		if (both)
			offer(table, {pairs, first, first_row, true}, pair, mine);
		__syncwarp();
	}
}

__global__ void
begin_kernel(NeighborTable table, uint32_t rows, double eps, bool bounded)
{
	uint32_t	i = blockIdx.x * kBlock + threadIdx.x;

	if (i >= rows)
		return;
	table.lengths[i] = 0;
	table.locks[i] = 0;
	table.radii[i] = bounded ? fmin(eps, table.radii[i]) : eps;
}

/* Sorts lists of at most `room` neighbours, a power of two; kSortRoom / room lists per block. */
__global__ void
__launch_bounds__(kBlock)
sort_kernel(const NeighborTable table, uint32_t rows, uint32_t room)
{
	__shared__ FastedNeighbor all[kSortRoom];
	uint32_t	first = blockIdx.x * (kSortRoom / room);

	for (uint32_t i = threadIdx.x; i < kSortRoom; i += kBlock)
	{
		uint32_t	row = first + i / room;
		uint32_t	place = i % room;

		/* unused entries have the smallest distance, so that they are sorted to the end */
		all[i] = row < rows && place < table.lengths[row]
			? table.lists[(size_t) row * table.k + place] : FastedNeighbor{0, -INFINITY};
	}
	for (uint32_t size = 2; size <= room; size *= 2)
	{
		for (uint32_t stride = size / 2; stride > 0; stride /= 2)
		{
			__syncthreads();
			for (uint32_t i = threadIdx.x; i < kSortRoom / 2; i += kBlock)
			{
				uint32_t	low = i / stride * stride * 2 + i % stride;
				uint32_t	high = low + stride;
				bool		farthest_first = size == room || (low & size) == 0;
				FastedNeighbor x = all[low];
				FastedNeighbor y = all[high];

				if (farthest_first ? comes_before(x, y) : comes_before(y, x))
				{
					all[low] = y;
					all[high] = x;
				}
			}
		}
	}
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < kSortRoom; i += kBlock)
	{
		uint32_t	row = first + i / room;
		uint32_t	place = i % room;

		if (row < rows && place < table.lengths[row])
			table.lists[(size_t) row * table.k + place] = all[i];
	}
}

/* Two lists of a row, in descending order, to be merged into `mine`. */
struct TwoLists
{
	FastedNeighbor *mine;
	const FastedNeighbor *other;
	uint32_t	length;
	uint32_t	other_length;
	uint32_t	from_mine = 0;		/* number of nearest neighbours to take from mine */
	uint32_t	from_other = 0;		/* number to take from other, including duplicates */
	uint32_t	count = 0;		/* length of the merged list */

	__device__ void choose(uint32_t k);
	__device__ void merge();
};

__device__ __forceinline__ bool
are_same(const FastedNeighbor &x, const FastedNeighbor &y)
{
	return x.row == y.row && x.dist == y.dist;
}

__device__ void
TwoLists::choose(uint32_t k)
{
	while (count < k && (from_mine < length || from_other < other_length))
	{
		bool		other_first = from_mine == length;

		if (from_mine < length && from_other < other_length)
		{
			FastedNeighbor x = read_neighbor(&mine[length - 1 - from_mine]);
			FastedNeighbor y = read_neighbor(&other[other_length - 1 - from_other]);

			other_first = comes_before(y, x);
			from_other += are_same(x, y);
		}
		from_other += other_first;
		from_mine += !other_first;
		count++;
	}
}

/*
 * Merges in place, in descending order.  First moves the entries of mine that remain to the end, so
 * that no entry is overwritten before it is read.
 */
__device__ void
TwoLists::merge()
{
	uint32_t	next = count - from_mine;
	uint32_t	to = 0;

	for (uint32_t i = 0; count > length && i < from_mine; i++)
		write_neighbor(&mine[count - 1 - i], read_neighbor(&mine[length - 1 - i]));
	for (uint32_t i = other_length - from_other; i < other_length; i++)
	{
		FastedNeighbor y = read_neighbor(&other[i]);
		bool		both = false;

		while (next < count)
		{
			FastedNeighbor x = read_neighbor(&mine[next]);

			both = are_same(x, y);
			if (both || comes_before(x, y))
				break;
			write_neighbor(&mine[to++], x);
			next++;
		}
		if (!both)
			write_neighbor(&mine[to++], y);
	}
}

/* Merges lists, with one thread per row. */
__global__ void
__launch_bounds__(kBlock)
merge_kernel(const FastedNeighbor *lists, const uint32_t *lengths, const NeighborTable table,
			 uint32_t first_row, uint32_t rows)
{
	uint32_t	i = blockIdx.x * kBlock + threadIdx.x;
	uint32_t	row = first_row + i;

	if (i >= rows)
		return;

	TwoLists	two = {table.lists + (size_t) row * table.k, lists + (size_t) i * table.k,
		table.lengths[row], lengths[i]};

	two.choose(table.k);
	if (two.from_other == 0)
		return;
	two.merge();
	table.lengths[row] = two.count;
}

}								/* namespace */

void
NeighborLists::allocate(Budget &budget, uint64_t rows, uint32_t k)
{
	const char *doing = "allocating device memory for the rows' neighbors";

	if (lists_.size() < rows * k)
	{
		valid_ = false;
		lists_.allocate(budget, rows * k, doing);
	}
	if (radii_.size() < rows)
	{
		valid_ = false;
		lengths_.allocate(budget, rows, doing);
		locks_.allocate(budget, rows, doing);
		radii_.allocate(budget, rows, doing);
		thresholds_.allocate(budget, padded_thresholds(rows), doing);
		/* for the levels, and before that for the bounds of 128 buckets */
		levels_.allocate(budget, padded_thresholds(rows) / 512 + 128, doing);
	}
}

void
NeighborLists::begin(uint32_t rows, uint32_t k, double eps, const double *bounds,
					 cudaStream_t stream)
{
	table_ = {};
	table_.lists = lists_.get();
	table_.lengths = lengths_.get();
	table_.locks = locks_.get();
	table_.radii = radii_.get();
	table_.k = k;
	rows_ = rows;
	eps_ = eps;
	valid_ = true;
	if (bounds != nullptr)
		copy_async(radii_.get(), bounds, rows, cudaMemcpyHostToDevice, stream, "copying bounds");
	begin_kernel<<<(rows + kBlock - 1) / kBlock, kBlock, 0, stream>>>(table_, rows, eps,
																	  bounds != nullptr);
	check_launch("emptying the rows' lists of neighbors");
}

void
NeighborLists::restart(cudaStream_t stream)
{
	check_cuda(cudaMemsetAsync(table_.lengths, 0, rows_ * sizeof(uint32_t), stream),
			   "emptying the rows' lists of neighbors");
}

void
NeighborLists::sort(cudaStream_t stream)
{
	uint32_t	room = 2;

	if (table_.k < 2 || table_.k > kMostSorted)
		return;
	while (room < table_.k)
		room *= 2;

	uint32_t	lists = kSortRoom / room;

	sort_kernel<<<(rows_ + lists - 1) / lists, kBlock, 0, stream>>>(table_, rows_, room);
	check_launch("sorting the rows' neighbors");
}

void
launch_offer(const FastedPair *pairs, const WorkState *state, const NeighborTable &table,
			 bool both, uint64_t first_row, const Device &device, cudaStream_t stream)
{
	offer_kernel<<<device.multiprocessors * 8, kBlock, 0, stream>>>(pairs, state, table,
																   both, first_row);
	check_launch("offering neighbors");
}

void
launch_merge(const FastedNeighbor *lists, const uint32_t *lengths, const NeighborTable &table,
			 uint32_t first_row, uint32_t rows, cudaStream_t stream)
{
	merge_kernel<<<(rows + kBlock - 1) / kBlock, kBlock, 0, stream>>>(lists, lengths, table,
																	 first_row, rows);
	check_launch("merging neighbors of two GPUs");
}

ListReader::ListReader(NeighborLists &lists, uint32_t rows, cudaStream_t stream)
	: table_(lists.table()), rows_(rows), stream_(stream), lengths_(rows)
{
	size_t		a_row = table_.k * sizeof(FastedNeighbor);

	window_rows_ = (uint32_t) std::min<size_t>(rows, std::max<size_t>(1, kWindowBytes / a_row));
	lists.sort(stream);
	read_lengths(0, rows);
}

/* Reads the lengths of lists.  Waits for the device. */
void
ListReader::read_lengths(uint32_t first, uint32_t count)
{
	copy_and_wait(lengths_.data() + first, table_.lengths + first, count, cudaMemcpyDeviceToHost,
				  stream_, "reading the rows' neighbors");
}

/* Waits, because a window may still be being copied. */
ListReader::~ListReader()
{
	(void) cudaStreamSynchronize(stream_);
}

/* Starts to copy the lists of a window that begins at row `first`. */
void
ListReader::fetch(Window &window, uint32_t first)
{
	size_t		room = (size_t) window_rows_ * table_.k;

	window.first = first;
	window.end = std::min(rows_ - first, window_rows_) + first;
	if (window.lists.size() < room)
		window.lists.allocate(room, "allocating device memory for the rows' neighbors");
	copy_async(window.lists.get(), table_.lists + (size_t) first * table_.k,
			   (size_t) (window.end - first) * table_.k, cudaMemcpyDeviceToHost, stream_,
			   "reading the rows' neighbors");
	window.arrived.record(stream_);
	window.is_complete = false;
}

/* Returns the window that contains a row, and starts to copy the next one. */
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
	if (!window.is_complete)
		window.arrived.wait("reading the rows' neighbors");
	window.is_complete = true;
	return window;
}

/* Discards the windows, because they may contain lists that have changed. */
void
ListReader::add(const ListReader &from, uint32_t first, uint32_t count, FastedNeighbor *lists,
				uint32_t *lengths, size_t capacity)
{
	const char *doing = "copying neighbors from another GPU";
	uint32_t	most = (uint32_t) std::min<size_t>(count, capacity / table_.k);

	for (uint32_t done = 0; done < count;)
	{
		uint32_t	rows = std::min(count - done, most);
		uint32_t	row = first + done;

		copy_async(lists, from.table_.lists + (size_t) row * table_.k, (size_t) rows * table_.k,
				   cudaMemcpyDefault, stream_, doing);
		copy_async(lengths, from.table_.lengths + row, rows, cudaMemcpyDefault, stream_, doing);
		launch_merge(lists, lengths, table_, row, rows, stream_);
		done += rows;
	}
	read_lengths(first, count);
	for (Window &window : windows_)
		window.first = window.end = 0;
}

/* Lists on the device are in descending order; long ones are unsorted heaps. */
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
