/*-------------------------------------------------------------------------
 *
 * filter_mma.cu
 *	  The mma.sync filter in the configurations that the engine uses, and its FP64 products.
 *
 *-------------------------------------------------------------------------
 */
#include "filter/filter_mma.cuh"

namespace fasted
{

/*
 * The mma.sync filter in FP64: x.y = sum over k of (double) x_k (double) y_k, rounded up to FP32.
 *
 * Rows are FP32 after subtraction of a centre, which takes half the bytes of FP64. They are
 * converted to FP64 on the way from shared memory to registers.  The dimensions of one step may be
 * multiplied in any order that is the same for both operands.  A lane therefore reads four adjacent
 * dimensions of a row, where the instruction's layout would have every fourth.  Eight lanes that
 * read at the same time read units 0 to 3, or 4 to 7, of two adjacent rows.  Odd rows store their
 * halves exchanged, so these are eight different positions.
 *
 * A thread's 64 products take 128 registers.  One block of eight warps runs on a multiprocessor;
 * each warp has 32 x 64 products.
 */

namespace
{

struct Fp64Shape : mma::MmaShape
{
	static constexpr int kWarpsM = 4;
	static constexpr int kWarpsN = 2;
	static constexpr int kWarpRows = 32;
	static constexpr int kStep = kStepBytesFp32;
	static constexpr int kStages = 3;
	static constexpr int kBlocksPerSm = 1;

	static __device__ __forceinline__ int flip(int row) { return (row & 1) << 2; }
};

__device__ __forceinline__ float4
load_four(uint32_t address)
{
	float4		v;

	asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];\n"
				 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address) : "memory");
	return v;
}

}								/* namespace */

namespace mma
{

/* Lane l reads unit l % 4 of the step, of rows l / 4 + 8 i of both operands' warp tiles. */
template <class S>
__device__ __forceinline__ void
multiply_step(double (&acc)[64], uint32_t a_rows, uint32_t b_rows, int step)
{
	int			row = threadIdx.x % 32 / 4;
	int			unit = step * (S::kStep / kUnitBytes) + threadIdx.x % 4;
	uint32_t	at = place<S>(row, unit);	/* the same offset in every eighth row */
	double		a[2][8];
	double		(*tiles)[4] = reinterpret_cast<double (*)[4]>(acc);

#pragma unroll
	for (int i = 0; i < 4; i++)
	{
		float4		v = load_four(a_rows + at + i * 8 * kRowBytes);

		a[i / 2][i % 2] = v.x;
		a[i / 2][i % 2 + 2] = v.y;
		a[i / 2][i % 2 + 4] = v.z;
		a[i / 2][i % 2 + 6] = v.w;
	}
#pragma unroll
	for (int n = 0; n < 8; n++)
	{
		float4		v = load_four(b_rows + at + n * 8 * kRowBytes);
		double		b[4] = {v.x, v.y, v.z, v.w};

#pragma unroll
		for (int m = 0; m < 2; m++)
			ptx::mma_step(tiles[m * 8 + n], a[m], b);
	}
}

}								/* namespace mma */

void
launch_filter_mma(const FilterParams &params, Precision precision, const Device &device,
				  cudaStream_t stream)
{
	if (precision == Precision::kInt8)
		mma::launch<mma::MmaShape>(params, Int8Test{}, device, stream);
	else if (precision == Precision::kFp32)
		mma::launch<Fp64Shape>(params, Fp64Test{}, device, stream);
	else
		mma::launch<mma::MmaShape>(params, Fp16Test{}, device, stream);
}

}								/* namespace fasted */
