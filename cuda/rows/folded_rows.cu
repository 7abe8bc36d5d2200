/*-------------------------------------------------------------------------
 *
 * folded_rows.cu
 *	  INT8 rows with their thresholds among their numbers, for the folded filter.
 *
 *-------------------------------------------------------------------------
 */
#include "rows/folded_rows.h"

#include "device/check.h"
#include "rows/quantise_int8.h"

namespace fasted
{

namespace
{

constexpr uint32_t kThreads = 256;
static_assert(kThresholdPad % kThreads == 0, "whole blocks of padding");

/* Part number i of m = 127 (high parts) + low part. */
__device__ __forceinline__ int32_t
part_of(const FoldShape &shape, int32_t m, uint32_t i)
{
	int32_t		high = __float2int_rn(m / 127.0f);
	int32_t		size = min(127, max(0, abs(high) - 127 * (int32_t) i));

	if (i == shape.parts())
		return m - 127 * high;
	return high < 0 ? -size : size;
}

/* Byte number j after a row's numbers: its own parts, or what multiplies the other's. */
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

/* 16 bytes after a row's numbers. */
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

/* One thread a row. */
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
		/* far from the ends of an INT32, where the sums below might overflow */
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

}								/* namespace */

void
launch_fold(const QuantisedRows &rows, const FoldShape &shape, uint8_t *folded_a,
			uint8_t *folded_b, Unfit *unfit, cudaStream_t stream)
{
	fold_kernel<<<padded_folded(rows.rows) / kThreads, kThreads, 0, stream>>>(
		rows, shape, folded_a, folded_b, unfit);
	check_launch("folding thresholds into rows");
}

}								/* namespace fasted */
