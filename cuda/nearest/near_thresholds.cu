/*-------------------------------------------------------------------------
 *
 * near_thresholds.cu
 *	  Thresholds that go by the rows' radii: doc/bound-nearest.md, section 3.
 *
 *-------------------------------------------------------------------------
 */
#include <cub/block/block_radix_sort.cuh>

#include "device/check.h"
#include "engine/spread_row.h"
#include "nearest/near_task.h"
#include "rows/row_order.h"

namespace fasted
{

namespace
{

constexpr int kBlock = 256;
static_assert(kThresholdPad % kBlock == 0, "whole blocks of padding");

/* Sampled rows that tell how far quantising moves rows: this part of them at most so far. */
constexpr uint32_t kRhoRows = 1024;
constexpr uint32_t kRhoPart = 64;	/* but for one in so many */

__device__ __forceinline__ bool
is_finite(double value)
{
	return fabs(value) <= DBL_MAX;
}

/* One block of kRhoRows threads. */
__global__ void
__launch_bounds__(kRhoRows)
usual_rho_kernel(const RowNorm *norms, uint32_t rows, NearScalars *scalars)
{
	using Sort = cub::BlockRadixSort<double, kRhoRows, 1>;
	__shared__ typename Sort::TempStorage room;
	__shared__ double sorted[kRhoRows];
	uint32_t	sampled = min(rows, kRhoRows);
	double		rho[1] = {INFINITY};
	int			count;

	if (threadIdx.x < sampled)
	{
		RowNorm		norm = norms[fasted_spread_row(threadIdx.x, sampled, rows)];

		if (norm.norm2 >= 0 && is_finite(norm.rho))
			rho[0] = norm.rho;
	}
	count = __syncthreads_count(is_finite(rho[0]));
	Sort(room).Sort(rho);
	sorted[threadIdx.x] = rho[0];
	__syncthreads();
	if (threadIdx.x == 0)
		scalars->usual_rho = count == 0 ? 0.0 : sorted[count - 1 - count / kRhoPart];
}

/* The rows' own thresholds, and the largest finite reach. */
__global__ void
__launch_bounds__(kBlock)
own_kernel(const NearTask task)
{
	uint32_t	place = blockIdx.x * kBlock + threadIdx.x;
	double		usual = task.scalars->usual_rho;
	double		largest = 0;
	uint32_t	threshold = task.form.padding();

	if (place < task.a.rows && task.norms_a[place].norm2 >= 0)
	{
		RowNorm		norm = task.norms_a[place];
		double		reach = task.form.reach(task.table.radii[task.a.number_at(place)]) + norm.rho;

		if (is_finite(reach))
			largest = reach;
		threshold = task.form.threshold(norm.norm2, sqrt(2.0) * (reach + usual)
										* (1.0 + 16 * FASTED_U64));
	}
	task.thresholds_a[place] = threshold;

	/* numbers that are not negative are in the order of their bits */
	for (int o = 16; o > 0; o /= 2)
		largest = fmax(largest, __shfl_xor_sync(0xffffffff, largest, o));
	if (threadIdx.x % 32 == 0 && largest > task.scalars->largest_reach)
		atomicMax((unsigned long long *) &task.scalars->largest_reach,
				  (unsigned long long) __double_as_longlong(largest));
}

/* The rows' thresholds for lists of the other side. */
__global__ void
__launch_bounds__(kBlock)
other_kernel(const NearTask task)
{
	uint32_t	place = blockIdx.x * kBlock + threadIdx.x;
	double		usual = task.scalars->usual_rho;
	double		largest = task.scalars->largest_reach;
	uint32_t	threshold = task.form.padding();

	if (place < task.rows_b && task.norms_b[place].norm2 >= 0)
	{
		RowNorm		norm = task.norms_b[place];
		double		more = 0;

		/* not "greater": NaN is of a row that everything may be near */
		if (!(norm.rho <= usual))
			more = (norm.rho - usual) * (2.0 * largest + norm.rho + usual);
		threshold = task.form.threshold(norm.norm2, sqrt(2.0 * more) * (1.0 + 16 * FASTED_U64));
	}
	task.thresholds_b[place] = threshold;
}

}								/* namespace */

void
launch_usual_rho(const NearTask &task, cudaStream_t stream)
{
	usual_rho_kernel<<<1, kRhoRows, 0, stream>>>(task.norms_b, task.rows_b, task.scalars);
	check_launch("looking how far quantising moves rows");
}

void
launch_near_thresholds(const NearTask &task, cudaStream_t stream)
{
	check_cuda(cudaMemsetAsync(&task.scalars->largest_reach, 0, sizeof(double), stream),
			   "clearing the largest reach");
	own_kernel<<<padded_thresholds(task.a.rows) / kBlock, kBlock, 0, stream>>>(task);
	other_kernel<<<padded_thresholds(task.rows_b) / kBlock, kBlock, 0, stream>>>(task);
	check_launch("finding the rows' thresholds");
	launch_minima(task.thresholds_b, task.rows_b, task.form.precision, task.minima_b, stream);
}

}								/* namespace fasted */
