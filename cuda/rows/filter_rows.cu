/*-------------------------------------------------------------------------
 *
 * filter_rows.cu
 *	  The rows that a filter reads, and the folding of thresholds into INT8 rows.
 *
 *-------------------------------------------------------------------------
 */
#include "rows/filter_rows.h"

namespace fasted
{

namespace
{

constexpr uint32_t kThreads = 256;
static_assert(kThresholdPad % kThreads == 0, "whole blocks of padding");

/* Part i of m = 127 (sum of the high parts) + low part; part shape.parts() is the low part. */
__device__ __forceinline__ int32_t
part_of(const FoldShape &shape, int32_t m, uint32_t i)
{
	int32_t		high = __float2int_rn(m / 127.0f);
	int32_t		size = min(127, max(0, abs(high) - 127 * (int32_t) i));

	if (i == shape.parts())
		return m - 127 * high;
	return high < 0 ? -size : size;
}

/*
 * Byte j after a row's values: a part of its own threshold, or the factor (127 or 1) for a part of
 * the other operand's threshold.
 */
__device__ __forceinline__ int32_t
spare_byte(const FoldShape &shape, int32_t m, uint32_t j, bool b)
{
	uint32_t	each = shape.parts() + 1;
	uint32_t	i = j % each;

	if (j >= 2 * each)
		return 0;
	if ((j >= each) == b)
		return part_of(shape, m, i);
	return i == shape.parts() ? 1 : 127;
}

/* The 16 bytes beginning at offset k, after a row's values. */
__device__ __forceinline__ uint4
spare_piece(const FoldShape &shape, int32_t m, uint32_t k, bool b)
{
	uint32_t	words[4] = {0, 0, 0, 0};

#pragma unroll
	for (uint32_t i = 0; i < 16; i++)
		words[i / 4] |= ((uint32_t) spare_byte(shape, m, k - shape.numbers + i, b) & 0xff)
			<< i % 4 * 8;
	return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ __forceinline__ int32_t
sum_of(const uint4 &piece, int32_t sum)
{
	const int32_t ones = 0x01010101;

	sum = __dp4a((int32_t) piece.x, ones, sum);
	sum = __dp4a((int32_t) piece.y, ones, sum);
	sum = __dp4a((int32_t) piece.z, ones, sum);
	return __dp4a((int32_t) piece.w, ones, sum);
}

/* Copies one row per warp; a row consists of this many words. */
template <class Word>
__global__ void
select_kernel(const RowTable from, const uint32_t *numbers, uint32_t count, const RowTable to,
			  uint32_t words)
{
	uint32_t	i = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;

	if (i >= count)
		return;

	auto		start_of = [words](const RowTable &table, uint32_t number)
	{
		size_t		within = number & ((1u << table.shift) - 1);

		return (Word *) table.chunks[number >> table.shift] + within * words;
	};
	const Word *source = start_of(from, numbers[i]);
	Word	   *target = start_of(to, to.rows - count + i);

	for (uint32_t k = threadIdx.x % 32; k < words; k += 32)
		target[k] = source[k];
}

/* Writes each row and its threshold in the folded layout for both operands; one thread per row. */
__global__ void __launch_bounds__(kThreads)
fold_kernel(const QuantisedRows rows, const FoldShape shape, uint8_t *folded_a,
			uint8_t *folded_b, Unfit *unfit)
{
	uint32_t	i = blockIdx.x * kThreads + threadIdx.x;
	int32_t		threshold = ((const int32_t *) rows.thresholds)[i];
	bool		padding = threshold == kInt8Padding;
	const uint8_t *row = (const uint8_t *) rows.values + (size_t) i * shape.numbers;
	size_t		to = (size_t) (i / 8) * (8 * shape.bytes) + i % 8 * 16;
	int32_t		m_a = shape.most();
	int32_t		m_b = shape.most();
	int32_t		sum = 0;

	for (uint32_t k = 0; k < shape.numbers; k += 16)
	{
		uint4		b = padding ? make_uint4(0, 0, 0, 0) : *(const uint4 *) &row[k];
		uint4		a = padding ? b : make_uint4(~b.x, ~b.y, ~b.z, ~b.w);

		*(uint4 *) &folded_a[to + k * 8] = a;
		*(uint4 *) &folded_b[to + k * 8] = b;
		sum = sum_of(b, sum);
	}
	if (!padding)
	{
		/* limited, so that the sums below do not overflow an INT32 */
		threshold = max(threshold, -2 * shape.most());
		m_a = threshold - 1;
		m_b = threshold + sum;
		if (min(m_a, m_b) <= -shape.most())
			atomicAdd(&unfit->low, 1);
		else if (max(m_a, m_b) >= shape.most())
			atomicAdd(&unfit->high, 1);
		m_a = min(m_a, shape.most() - 1);
		m_b = min(m_b, shape.most() - 1);
	}
	for (uint32_t k = shape.numbers; k < shape.bytes; k += 16)
	{
		*(uint4 *) &folded_a[to + k * 8] = spare_piece(shape, m_a, k, false);
		*(uint4 *) &folded_b[to + k * 8] = spare_piece(shape, m_b, k, true);
	}
}

/*
 * Moves quantized rows into the order or, if kBack, back to the places of their row numbers.  One
 * thread per 16 bytes of a row.
 */
template <bool kBack>
__global__ void
move_kernel(const RowPlace from, const uint32_t *order, uint32_t rows, uint32_t pieces,
			const RowPlace to)
{
	uint64_t	i = (uint64_t) blockIdx.x * kThreads + threadIdx.x;
	uint32_t	place = (uint32_t) (i / pieces);
	uint32_t	piece = (uint32_t) (i % pieces);

	if (place >= rows)
		return;

	uint32_t	source = kBack ? place : order[place];
	uint32_t	target = kBack ? order[place] : place;

	((uint4 *) to.values)[(uint64_t) target * pieces + piece] =
		((const uint4 *) from.values)[(uint64_t) source * pieces + piece];
	if (piece == 0)
		to.norms[target] = from.norms[source];
}

template <bool kBack>
void
launch_move(const RowPlace &from, const uint32_t *order, uint32_t rows, uint32_t row_bytes,
			const RowPlace &to, cudaStream_t stream)
{
	uint32_t	pieces = row_bytes / (uint32_t) sizeof(uint4);
	uint64_t	threads = (uint64_t) rows * pieces;

	move_kernel<kBack><<<(uint32_t) ((threads + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
		from, order, rows, pieces, to);
	check_launch("moving quantized rows");
}

}								/* namespace */

void
launch_select(const RowTable &from, const uint32_t *numbers, uint32_t count, const RowTable &to,
			  cudaStream_t stream)
{
	uint32_t	floats = (from.doubles ? 2 : 1) * from.dimensions;
	uint32_t	blocks = (count + kThreads / 32 - 1) / (kThreads / 32);

	if (floats % 4 == 0)
		select_kernel<uint4><<<blocks, kThreads, 0, stream>>>(from, numbers, count, to, floats / 4);
	else
		select_kernel<uint32_t><<<blocks, kThreads, 0, stream>>>(from, numbers, count, to, floats);
	check_launch("selecting rows");
}

void
launch_fold(const QuantisedRows &rows, const FoldShape &shape, uint8_t *folded_a,
			uint8_t *folded_b, Unfit *unfit, cudaStream_t stream)
{
	fold_kernel<<<padded_folded(rows.rows) / kThreads, kThreads, 0, stream>>>(
		rows, shape, folded_a, folded_b, unfit);
	check_launch("folding thresholds into rows");
}

void
FilterRows::allocate(Budget &budget, uint64_t rows, uint32_t row_bytes, uint32_t fold_bytes)
{
	const char *doing = "allocating device memory for the quantized rows";

	if (rows <= room_)
		return;
	room_ = 0;
	values_.allocate(budget, rows * row_bytes, doing);
	norms_.allocate(budget, rows, doing);
	thresholds_.allocate(budget, padded_thresholds(rows), doing);
	minima_.allocate(budget, minima_of(rows), doing);
	order_.allocate(budget, rows);
	if (fold_bytes > 0)
	{
		for (DeviceArray<uint8_t> &fold : folds_)
			fold.allocate(budget, folded_bytes(rows, fold_bytes), doing);
		unfit_.allocate(budget, 1, doing);
	}
	room_ = rows;
}

void
FilterRows::forget()
{
	forget_order();
	form_.reset();
}

void
FilterRows::forget_order()
{
	ordered_ = by_keys_ = folded_ = false;
	eps_ = fold_eps_ = NAN;
}

/* The eps whose thresholds sort rows.  All thresholds of rows of bits are equal for eps = 0. */
static double
order_eps(FastedMetric metric)
{
	return is_of_union(metric) ? 0.5 : 0.0;
}

/*
 * Sets *aside to the free memory behind the ordered rows; returns false if it is too small for a
 * second copy.  There, rows are quantized before they are moved into order.  If rows have few
 * dimensions, moving them is faster than quantizing them again.
 */
bool
FilterRows::has_spare_memory(uint64_t rows, uint32_t row_bytes, RowPlace *aside) const
{
	size_t		bytes = Budget::rounded(rows * row_bytes);

	aside->values = values_.get() + bytes;
	aside->norms = (RowNorm *) (aside->values + bytes);
	return row_bytes % sizeof(uint4) == 0
		&& values_.size() >= 2 * bytes + rows * sizeof(RowNorm);
}

void
FilterRows::quantise(const std::shared_ptr<Form> &form, const RowTable &rows, bool order,
					 cudaStream_t stream, const uint32_t *labels)
{
	uint32_t	bytes = form->row_bytes(rows.dimensions);
	RowPlace	aside;
	bool		moves = order && has_spare_memory(rows.rows, bytes, &aside);

	forget();
	rows_ = rows;
	if (!moves)
		aside = place();
	form->quantise(rows_, aside.values, aside.norms, stream);
	if (order)
	{
		launch_thresholds(aside.norms, rows.rows, form->bound(rows.dimensions), order_eps(rows.metric),
						  thresholds_.get(), stream);
		order_.sort(thresholds_.get(), rows.rows, form->precision(), stream);
		if (labels != nullptr)
			order_.sort_by_label(labels, rows.rows, stream);
		if (interleaved_)
			order_.interleave(rows.rows, stream);
		rows_.order = order_.get();
		orders_++;
	}
	if (moves)
		launch_move<false>(aside, order_.get(), rows.rows, bytes, place(), stream);
	else if (order)
		form->quantise(rows_, values_.get(), norms_.get(), stream);
	ordered_ = order;
	form_ = form;
}

void
FilterRows::set_interleaved(bool interleaved)
{
	if (interleaved != interleaved_ || by_keys_)
		forget_order();
	interleaved_ = interleaved;
}

void
FilterRows::order_by_keys(cudaStream_t stream)
{
	uint32_t	bytes = form_->row_bytes(rows_.dimensions);
	RowPlace	aside;
	bool		moves = has_spare_memory(rows_.rows, bytes, &aside);

	eps_ = fold_eps_ = NAN;
	folded_ = false;
	if (moves)
		launch_move<true>(place(), order_.get(), rows_.rows, bytes, aside, stream);
	order_.sort_again(rows_.rows, stream);
	rows_.order = order_.get();
	orders_++;
	if (moves)
		launch_move<false>(aside, order_.get(), rows_.rows, bytes, place(), stream);
	else
		form_->quantise(rows_, values_.get(), norms_.get(), stream);
	by_keys_ = true;
}

uint32_t *
FilterRows::reset_thresholds()
{
	eps_ = fold_eps_ = NAN;
	folded_ = false;
	return thresholds_.get();
}

void
FilterRows::set_eps(double eps, cudaStream_t stream)
{
	if (eps == eps_)
		return;
	launch_thresholds(norms_.get(), rows_.rows, form_->bound(rows_.dimensions), eps,
					  thresholds_.get(), stream);
	launch_minima(thresholds_.get(), rows_.rows, form_->precision(), minima_.get(), stream);
	eps_ = eps;
	fold_eps_ = NAN;
	folded_ = false;
}

void
FilterRows::fold(cudaStream_t stream)
{
	uint32_t	bytes = form_->row_bytes(rows_.dimensions);
	Unfit		unfit;

	if (fold_eps_ == eps_)
		return;
	folded_ = false;
	fold_eps_ = eps_;
	if (form_->precision() != Precision::kInt8
		|| bytes > kMostFolded || folded_bytes(rows_.rows, bytes) > folds_[0].size())
		return;
	check_cuda(cudaMemsetAsync(unfit_.get(), 0, sizeof(Unfit), stream), "clearing counters");
	launch_fold(get(), fold_shape(bytes), folds_[0].get(), folds_[1].get(), unfit_.get(), stream);
	copy_and_wait(&unfit, unfit_.get(), 1, cudaMemcpyDeviceToHost, stream,
				  "folding thresholds into rows");
	folded_ = unfit.few(rows_.rows);
}

}								/* namespace fasted */
