/*-------------------------------------------------------------------------
 *
 * order_hash.cu
 *	  A sum over the places of rows, of a hash of each place and its row.
 *
 *-------------------------------------------------------------------------
 */
#include "rows/order_hash.h"

#include "device/check.h"
#include "engine/engine.h"

namespace fasted
{

namespace
{

constexpr int kThreads = 256;

__global__ void
order_kernel(const RowTable rows, uint64_t seed, unsigned long long *sum)
{
	uint32_t	place = blockIdx.x * kThreads + threadIdx.x;
	unsigned long long value = 0;

	if (place < rows.rows)
		value = fasted_mix_order(seed, (uint64_t) place << 32 | rows.number_at(place));
	for (int o = 16; o > 0; o /= 2)
		value += __shfl_xor_sync(0xffffffff, value, o);
	if (threadIdx.x % 32 == 0)
		atomicAdd(sum, value);
}

}								/* namespace */

uint64_t
OrderHash::of(const RowTable &a, const RowTable &b, uint64_t more, cudaStream_t stream)
{
	unsigned long long sum = 0;
	uint64_t	seed = more;

	check_cuda(cudaMemsetAsync(sum_.get(), 0, sizeof(sum), stream), "clearing a sum");
	for (const RowTable *rows : {&a, &b})
	{
		seed = fasted_mix_order(seed, rows->rows);
		if (rows->rows > 0)
			order_kernel<<<(rows->rows + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
				*rows, seed, sum_.get());
	}
	check_launch("comparing orders of rows");
	check_cuda(cudaMemcpyAsync(&sum, sum_.get(), sizeof(sum), cudaMemcpyDeviceToHost, stream),
			   "reading a sum");
	check_cuda(cudaStreamSynchronize(stream), "comparing orders of rows");
	return fasted_mix_order(seed, sum);
}

}								/* namespace fasted */
