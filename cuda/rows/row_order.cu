/*-------------------------------------------------------------------------
 *
 * row_order.cu
 *	  The order in which rows are quantized: partition labels, sorting, and a hash of the
 *	  order.
 *
 *-------------------------------------------------------------------------
 */
#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "rows/filter_rows.h"

namespace fasted
{

namespace
{

/* Labels of the rows of one side, as RowLabels describes them. */
std::vector<uint32_t>
labels_of(const FastedPartition *partitions, uint32_t npartitions, int side, uint32_t rows)
{
	std::vector<uint32_t> labels(rows);
	uint32_t	row = 0;

	for (uint32_t g = 0; g < npartitions; g++)
	{
		FastedSpan	span = fasted_partition_rows(&partitions[g], side);

		std::fill(labels.begin() + row, labels.begin() + span.first, 2 * g);
		std::fill(labels.begin() + span.first, labels.begin() + span.end, 2 * g + 1);
		row = span.end;
	}
	std::fill(labels.begin() + row, labels.end(), 2 * npartitions);
	return labels;
}

constexpr int kBlock = 256;

/* Sets numbers[i] = i; one thread per entry. */
__global__ void
count_up_kernel(uint32_t *numbers, uint32_t count)
{
	uint32_t	i = blockIdx.x * kBlock + threadIdx.x;

	if (i < count)
		numbers[i] = i;
}

/* Gathers the labels in the current order; one thread per row. */
__global__ void
labels_kernel(const uint32_t *labels, const uint32_t *order, uint32_t *to, uint32_t count)
{
	uint32_t	i = blockIdx.x * kBlock + threadIdx.x;

	if (i < count)
		to[i] = labels[order[i]];
}

/*
 * Sorts `rows` by `keys`; the sort is stable.  If `room` is null, only sets *bytes to the size of
 * the temporary buffer.
 */
template <class Key>
uint32_t *
sort_by(void *room, size_t *bytes, uint32_t *keys[2], uint32_t *rows[2], uint32_t count,
		cudaStream_t stream, const uint32_t **sorted = nullptr)
{
	cub::DoubleBuffer<Key> by((Key *) keys[0], (Key *) keys[1]);
	cub::DoubleBuffer<uint32_t> order(rows[0], rows[1]);

	check_cuda(cub::DeviceRadixSort::SortPairs(room, *bytes, by, order, count, 0, 32, stream),
			   "sorting rows");
	if (sorted != nullptr)
		*sorted = (const uint32_t *) by.Current();
	return order.Current();
}

size_t
room_for(uint64_t rows)
{
	uint32_t   *none[2] = {nullptr, nullptr};
	size_t		integers = 0;
	size_t		floats = 0;
	size_t		labels = 0;

	sort_by<int32_t>(nullptr, &integers, none, none, (uint32_t) rows, nullptr);
	sort_by<float>(nullptr, &floats, none, none, (uint32_t) rows, nullptr);
	sort_by<uint32_t>(nullptr, &labels, none, none, (uint32_t) rows, nullptr);
	return std::max<size_t>(1, std::max({integers, floats, labels}));
}

/*
 * Stretch s of the new order is stretch s * step mod `stretches` of the old one.  step and
 * `stretches` have no common factor.  Rows after the last full stretch keep their places.  One
 * thread per row.
 */
__global__ void
interleave_kernel(const uint32_t *from, uint32_t *to, uint32_t count, uint32_t stretches,
			  uint32_t step)
{
	uint32_t	i = blockIdx.x * kBlock + threadIdx.x;
	uint32_t	stretch = i / kStretch;

	if (i >= count)
		return;
	if (stretch < stretches)
		stretch = (uint32_t) ((uint64_t) stretch * step % stretches);
	to[i] = from[stretch * kStretch + i % kStretch];
}

uint32_t
common_factor(uint32_t a, uint32_t b)
{
	return b == 0 ? a : common_factor(b, a % b);
}

/* The minimum of each kMinimaColumns thresholds; one warp per minimum. */
template <class Number>
__global__ void
minima_kernel(const Number *thresholds, uint32_t count, Number *minima)
{
	uint32_t	i = blockIdx.x * (kBlock / 32) + threadIdx.x / 32;
	uint32_t	lane = threadIdx.x % 32;

	if (i >= count)
		return;

	Number		least = min(thresholds[i * kMinimaColumns + lane],
							thresholds[i * kMinimaColumns + lane + 32]);

	static_assert(kMinimaColumns == 64, "two thresholds for each lane");
	for (int o = 16; o > 0; o /= 2)
		least = min(least, __shfl_xor_sync(0xffffffff, least, o));
	if (lane == 0)
		minima[i] = least;
}

/* Adds a hash of each pair of place and row number to *sum; one thread per place. */
__global__ void
order_kernel(const RowTable rows, uint64_t seed, unsigned long long *sum)
{
	uint32_t	place = blockIdx.x * kBlock + threadIdx.x;
	unsigned long long value = 0;

	if (place < rows.rows)
		value = fasted_hash_order(seed, (uint64_t) place << 32 | rows.number_at(place));
	value = warp_sum(value);
	if (threadIdx.x % 32 == 0)
		atomicAdd(sum, value);
}

}								/* namespace */

bool
RowLabels::set(Budget &budget, const FastedPartition *partitions, uint32_t npartitions, int side,
			   uint32_t rows, cudaStream_t stream)
{
	std::vector<uint32_t> labels;

	if (partitions != nullptr)
		labels = labels_of(partitions, npartitions, side, rows);
	if (labels == known_)
		return false;
	known_.swap(labels);
	if (known_.empty())
		return true;
	labels_.make_room(budget, rows, "allocating device memory for the partitions of rows");
	/* the copy from pageable memory must be complete, since known_ may change */
	copy_and_wait(labels_.get(), known_.data(), rows, cudaMemcpyHostToDevice, stream,
				  "copying the partitions of rows");
	return true;
}

void
RowOrder::allocate(Budget &budget, uint64_t rows)
{
	const char *doing = "allocating device memory for the order of rows";

	keys_.allocate(budget, rows, doing);
	for (DeviceArray<uint32_t> &array : rows_)
		array.allocate(budget, rows, doing);
	room_.allocate(budget, room_for(rows), doing);
	order_ = nullptr;
}

void
RowOrder::sort(const uint32_t *thresholds, uint32_t rows, Precision precision,
			   cudaStream_t stream)
{
	uint32_t   *keys[2] = {keys_of(0), keys_of(1)};
	uint32_t   *numbers[2] = {rows_[0].get(), rows_[1].get()};
	size_t		bytes = room_.size();

	copy_async(keys[0], thresholds, rows, cudaMemcpyDeviceToDevice, stream, "sorting rows");
	count_up_kernel<<<(rows + kBlock - 1) / kBlock, kBlock, 0, stream>>>(numbers[0], rows);
	check_launch("sorting rows");
	if (precision == Precision::kInt8)
		order_ = sort_by<int32_t>(room_.get(), &bytes, keys, numbers, rows, stream);
	else
		order_ = sort_by<float>(room_.get(), &bytes, keys, numbers, rows, stream);
}

void
RowOrder::sort_by_label(const uint32_t *labels, uint32_t rows, cudaStream_t stream)
{
	uint32_t   *keys[2] = {keys_of(0), keys_of(1)};
	uint32_t   *numbers[2] = {order_, rows_[order_ == rows_[0].get()].get()};
	size_t		bytes = room_.size();

	launch_gather(labels, order_, keys[0], rows, stream);
	order_ = sort_by<uint32_t>(room_.get(), &bytes, keys, numbers, rows, stream);
}

void
RowOrder::sort_again(uint32_t rows, cudaStream_t stream)
{
	uint32_t   *keys[2] = {keys_of(0), keys_of(1)};
	int			now = order_ == rows_[0].get() ? 0 : 1;
	uint32_t   *numbers[2] = {rows_[now].get(), rows_[!now].get()};
	size_t		bytes = room_.size();

	order_ = sort_by<int32_t>(room_.get(), &bytes, keys, numbers, rows, stream, &sorted_keys_);
}

void
RowOrder::interleave(uint32_t rows, cudaStream_t stream)
{
	uint32_t   *to = rows_[order_ == rows_[0].get() ? 1 : 0].get();
	uint32_t	stretches = rows / kStretch;
	uint32_t	step = (uint32_t) (0.618 * stretches) + 1;	/* golden ratio */

	while (stretches > 0 && common_factor(step, stretches) != 1)
		step++;
	interleave_kernel<<<(rows + kBlock - 1) / kBlock, kBlock, 0, stream>>>(order_, to, rows,
																	   stretches, step);
	check_launch("interleaving rows");
	order_ = to;
}

void
launch_gather(const uint32_t *labels, const uint32_t *order, uint32_t *to, uint32_t rows,
			  cudaStream_t stream)
{
	labels_kernel<<<(rows + kBlock - 1) / kBlock, kBlock, 0, stream>>>(labels, order, to, rows);
	check_launch("sorting rows");
}

void
launch_minima(const uint32_t *thresholds, uint32_t rows, Precision precision,
			  uint32_t *minima, cudaStream_t stream)
{
	uint32_t	count = minima_of(rows);
	uint32_t	blocks = (count * 32 + kBlock - 1) / kBlock;

	if (precision == Precision::kInt8)
		minima_kernel<<<blocks, kBlock, 0, stream>>>((const int32_t *) thresholds, count,
													 (int32_t *) minima);
	else
		minima_kernel<<<blocks, kBlock, 0, stream>>>((const float *) thresholds, count,
													 (float *) minima);
	check_launch("computing minima of thresholds");
}

uint64_t
OrderHash::of(const RowTable &a, const RowTable &b, uint64_t more, cudaStream_t stream)
{
	unsigned long long sum = 0;
	uint64_t	seed = more;

	check_cuda(cudaMemsetAsync(sum_.get(), 0, sizeof(sum), stream), "clearing a hash");
	for (const RowTable *rows : {&a, &b})
	{
		seed = fasted_hash_order(seed, rows->rows);
		if (rows->rows > 0)
			order_kernel<<<(rows->rows + kBlock - 1) / kBlock, kBlock, 0, stream>>>(
				*rows, seed, sum_.get());
	}
	check_launch("hashing the row order");
	copy_and_wait(&sum, sum_.get(), 1, cudaMemcpyDeviceToHost, stream, "hashing the row order");
	return fasted_hash_order(seed, sum);
}

}								/* namespace fasted */
