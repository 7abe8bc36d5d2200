/*-------------------------------------------------------------------------
 *
 * bits.cu
 *	  Rows of bits as INT8 rows, and their numbers of set bits.
 *
 * The INT8 filter reads a folded row (fasted_fold_bits) of F bits as F components of 1 and -1.  Two
 * such rows have the product F - 2 H and the squared distance 4 H, where H is the number of bits in
 * which the folded rows differ.
 *
 *-------------------------------------------------------------------------
 */
#include "rows/form.h"

namespace fasted
{

namespace
{

constexpr int kRowsPerBlock = 8;	/* one warp per row */
constexpr int kThreads = kRowsPerBlock * 32;

uint32_t
blocks_for(uint32_t rows)
{
	return (rows + kRowsPerBlock - 1) / kRowsPerBlock;
}

/* Returns the number of set bits of a row; called by all lanes of a warp. */
__device__ __forceinline__ uint32_t
ones_of(const uint64_t *row, uint32_t words)
{
	uint32_t	ones = 0;

	for (uint32_t w = threadIdx.x % 32; w < words; w += 32)
		ones += __popcll(row[w]);
	return __reduce_add_sync(0xffffffff, ones);
}

/* The number of set bits of each staged row; one warp per row. */
__global__ void
ones_kernel(const RowTable rows, double *ones)
{
	uint32_t	i = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;

	if (i >= rows.rows)
		return;

	uint32_t	count = ones_of(rows.staged<uint64_t>(i), rows.dimensions);

	if (threadIdx.x % 32 == 0)
		ones[i] = count;
}

/* Expands the four lowest bits to bytes: 1 for a bit that is zero, and -1 for a set bit. */
__device__ __forceinline__ uint32_t
bytes_of_bits(uint32_t bits)
{
	return ((bits & 15) * 0x00204081 & 0x01010101) * 0xfe ^ 0x01010101;
}

/* Folds rows to `folded` words of 32 bits and expands them to bytes; one warp per row. */
__global__ void
bits_kernel(const RowTable rows, uint32_t folded, uint8_t *values, RowNorm *norms)
{
	uint32_t	i = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;
	uint32_t	lane = threadIdx.x % 32;

	if (i >= rows.rows)
		return;

	const uint64_t *row = rows.row<uint64_t>(i);
	uint4	   *to = (uint4 *) (values + (size_t) i * folded * 32);
	uint32_t	ones = ones_of(row, rows.dimensions);

	for (uint32_t w = lane; w < folded; w += 32)
	{
		uint32_t	word = fasted_fold_bits((const uint32_t *) row, 2 * rows.dimensions, folded, w);

		for (int half = 0; half < 2; half++, word >>= 16)
			to[2 * w + half] = make_uint4(bytes_of_bits(word), bytes_of_bits(word >> 4),
										  bytes_of_bits(word >> 8), bytes_of_bits(word >> 12));
	}
	if (lane == 0)
		norms[i] = {32.0 * folded, (double) ones};
}

}								/* namespace */

void
launch_ones(const RowTable &rows, double *ones, cudaStream_t stream)
{
	ones_kernel<<<blocks_for(rows.rows), kThreads, 0, stream>>>(rows, ones);
	check_launch("counting the bits of rows");
}

void
launch_quantise_bits(const RowTable &rows, uint32_t row_bytes, uint8_t *values, RowNorm *norms,
					 cudaStream_t stream)
{
	bits_kernel<<<blocks_for(rows.rows), kThreads, 0, stream>>>(rows, row_bytes / 32, values, norms);
	check_launch("expanding the bits of rows");
}

}								/* namespace fasted */
