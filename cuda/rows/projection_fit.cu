/*-------------------------------------------------------------------------
 *
 * projection_fit.cu
 *	  Finds a projection: the leading directions of a sample of rows.
 *
 *-------------------------------------------------------------------------
 */
#include "rows/form.h"

#include <algorithm>
#include <cmath>

#include "engine/filter_bound.h"

namespace fasted
{

namespace
{

constexpr uint32_t kMostRows = 3072;
constexpr uint32_t kLeastRows = 64;
constexpr uint32_t kMostDirections = kMostWidth - 1;
constexpr int kRounds = 3;

/* Rows further from the centre than this many times the 75th percentile are ignored. */
constexpr double kFarRows = 3.0;

/*
 * Relative length of the rest below which a direction is linearly dependent on the previous ones.
 */
constexpr double kDependent = 1e-4;

/* Maximum eta: with directions less orthonormal, the filter would pass too many candidates. */
constexpr double kMostEta = 0.1;

constexpr int kThreads = 256;
constexpr int kRowsPerBlock = 8;	/* one warp per row */
constexpr int kTile = 64;		/* rows and columns of a product's tile */
constexpr int kDepth = 16;

/* A matrix with strides: element (i, j) is at[i * row + j * column]. */
template <class T>
struct Matrix
{
	T		   *at;
	uint32_t	rows;
	uint32_t	columns;
	size_t		row;
	size_t		column;

	__device__ __forceinline__ T get(uint32_t i, uint32_t j) const
	{
		return i < rows && j < columns ? at[i * row + j * column] : T(0);
	}
};

template <class T>
Matrix<T>
by_rows(T *at, uint32_t rows, uint32_t columns)
{
	return {at, rows, columns, columns, 1};
}

template <class T>
Matrix<T>
transposed(const Matrix<T> &matrix)
{
	return {matrix.at, matrix.columns, matrix.rows, matrix.column, matrix.row};
}

/*
 * C = A B, summed in type Sum.  One block per 64 x 64 elements, 16 x 16 threads of 4 x 4 elements
 * each.
 */
template <class Sum, class A, class B, class C>
__global__ void __launch_bounds__(kThreads)
multiply_kernel(const Matrix<A> a, const Matrix<B> b, const Matrix<C> c)
{
	__shared__ Sum as[kDepth][kTile + 1];
	__shared__ Sum bs[kDepth][kTile + 1];
	uint32_t	first_row = blockIdx.y * kTile;
	uint32_t	first_column = blockIdx.x * kTile;
	uint32_t	tx = threadIdx.x % 16;
	uint32_t	ty = threadIdx.x / 16;
	Sum			sums[4][4] = {};

	for (uint32_t begin = 0; begin < a.columns; begin += kDepth)
	{
		/* adjacent threads load adjacent elements */
		for (uint32_t place = threadIdx.x; place < kDepth * kTile; place += kThreads)
		{
			uint32_t	k = a.column == 1 ? place % kDepth : place / kTile;
			uint32_t	i = a.column == 1 ? place / kDepth : place % kTile;
			uint32_t	l = b.row == 1 ? place % kDepth : place / kTile;
			uint32_t	j = b.row == 1 ? place / kDepth : place % kTile;

			as[k][i] = (Sum) a.get(first_row + i, begin + k);
			bs[l][j] = (Sum) b.get(begin + l, first_column + j);
		}
		__syncthreads();
#pragma unroll
		for (int k = 0; k < kDepth; k++)
		{
#pragma unroll
			for (int i = 0; i < 4; i++)
			{
#pragma unroll
				for (int j = 0; j < 4; j++)
					sums[i][j] = fma(as[k][ty + i * 16], bs[k][tx + j * 16], sums[i][j]);
			}
		}
		__syncthreads();
	}
#pragma unroll
	for (int i = 0; i < 4; i++)
	{
#pragma unroll
		for (int j = 0; j < 4; j++)
		{
			uint32_t	row = first_row + ty + i * 16;
			uint32_t	column = first_column + tx + j * 16;

			if (row < c.rows && column < c.columns)
				c.at[row * c.row + column * c.column] = (C) sums[i][j];
		}
	}
}

template <class Sum, class A, class B, class C>
void
multiply(const Matrix<A> &a, const Matrix<B> &b, const Matrix<C> &c, cudaStream_t stream)
{
	dim3		blocks((c.columns + kTile - 1) / kTile, (c.rows + kTile - 1) / kTile);

	multiply_kernel<Sum><<<blocks, kThreads, 0, stream>>>(a, b, c);
	check_launch("finding the projection");
}

/* Distance of each sampled row to the centre; one warp per row. */
__global__ void
norms_kernel(const SampledRows rows, const float *centre, double *norms)
{
	uint32_t	i = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;
	double		sum = 0;

	if (i >= rows.count())
		return;

	const float *row = rows.row(i);

	for (uint32_t k = threadIdx.x % 32; k < rows.dimensions(); k += 32)
	{
		double		x = (double) row[k] - (double) centre[k];

		sum = fma(x, x, sum);
	}
	sum = warp_sum(sum);
	if (threadIdx.x % 32 == 0)
		norms[i] = sqrt(sum);
}

/* Images of the sampled rows, zeros for rows beyond `farthest`; one block per row. */
__global__ void
images_kernel(const SampledRows rows, const float *centre, const double *norms, double farthest,
			  float scale, float *x)
{
	uint32_t	i = blockIdx.x;
	const float *row = rows.row(i);
	bool		taken = norms[i] <= farthest;

	for (uint32_t k = threadIdx.x; k < rows.dimensions(); k += kThreads)
		x[(size_t) i * rows.dimensions() + k] = taken ? (row[k] - centre[k]) * scale : 0.0f;
}

/* Fills w (rows x directions) with pseudorandom signs; one thread per element. */
__global__ void
signs_kernel(float *w, uint32_t rows, uint32_t directions)
{
	uint32_t	place = blockIdx.x * kThreads + threadIdx.x;

	if (place < rows * directions)
	{
		uint64_t	bits = fasted_sign_bits(place / 64, 0);

		w[place] = (bits >> place % 64 & 1) != 0 ? 1.0f : -1.0f;
	}
}

/* Transposes the directions; one block per direction. */
__global__ void
transpose_kernel(const float *v, uint32_t dimensions, float *directions)
{
	for (uint32_t k = threadIdx.x; k < dimensions; k += kThreads)
		directions[(size_t) k * kMostWidth + blockIdx.x] = v[(size_t) blockIdx.x * dimensions + k];
}

/* a -= factor b, for elements [from, to). */
void
subtract(double *a, double factor, const double *b, uint32_t from, uint32_t to)
{
	for (uint32_t k = from; k < to; k++)
		a[k] -= factor * b[k];
}

/*
 * Gram-Schmidt orthonormalization from the Gram matrix `gram` of n rows, which is overwritten.
 * Returns the number k of independent rows, and in the first k rows of `basis` the coefficients of
 * the orthonormal rows, in order.
 */
uint32_t
orthonormalize_gram(std::vector<double> &gram, uint32_t n, std::vector<double> &basis)
{
	uint32_t	kept = 0;

	basis.assign((size_t) n * n, 0.0);
	for (uint32_t i = 0; i < n; i++)
	{
		/*
		 * row i minus its projection onto the previous rows, and its products with rows i and later
		 */
		std::vector<double> rest(n, 0.0);
		std::vector<double> products(gram.begin() + (size_t) i * n,
									 gram.begin() + (size_t) (i + 1) * n);
		double		before = products[i];

		rest[i] = 1.0;
		for (uint32_t j = 0; j < kept; j++)
		{
			/* gram row j now has the products of the j-th orthonormal row */
			double		factor = gram[(size_t) j * n + i];

			subtract(rest.data(), factor, &basis[(size_t) j * n], 0, i);
			subtract(products.data(), factor, &gram[(size_t) j * n], i, n);
		}
		if (!(products[i] > kDependent * kDependent * before) || !(products[i] <= 1e300))
			continue;

		double		norm = std::sqrt(products[i]);

		for (uint32_t k = 0; k < n; k++)
		{
			basis[(size_t) kept * n + k] = rest[k] / norm;
			gram[(size_t) kept * n + k] = products[k] / norm;
		}
		kept++;
	}
	return kept;
}

}								/* namespace */

ProjectionFit::ProjectionFit(Budget &budget, uint32_t dimensions, size_t most_bytes)
	: dimensions_(dimensions),
	most_rows_(rows_that_fit(most_bytes, dimensions, kLeastRows, kMostRows))
{
	const char *doing = "allocating device memory to find the projection";

	mean_.allocate(budget, dimensions);
	norms_.allocate(budget, most_rows_, doing);
	x_.allocate(budget, (size_t) most_rows_ * dimensions, doing);
	w_.allocate(budget, (size_t) most_rows_ * kMostDirections, doing);
	for (DeviceArray<float> &v : v_)
		v.allocate(budget, (size_t) kMostDirections * dimensions, doing);
	gram_.allocate(budget, kMostDirections * kMostDirections, doing);
}

/*
 * Finds the centre, and the power of two that scales typical images to length 1 approximately.
 * Rows far from the centre are ignored: a few would attract all directions, and their norm in the
 * projected row already separates them.
 */
void
ProjectionFit::find_centre(const SampledRows &rows, Projection *to, cudaStream_t stream)
{
	uint32_t	count = rows.count();
	std::vector<double> norms(count);
	double		typical;

	mean_.find(rows, stream);
	copy_async(to->centre(), mean_.centre(), dimensions_, cudaMemcpyDeviceToDevice, stream,
			   "copying the center of the rows");
	norms_kernel<<<(count + kRowsPerBlock - 1) / kRowsPerBlock, kRowsPerBlock * 32, 0, stream>>>(
		rows, to->centre(), norms_.get());
	check_launch("computing distances of sampled rows");
	copy_and_wait(norms.data(), norms_.get(), count, cudaMemcpyDeviceToHost, stream,
				  "reading norms of rows");
	for (double &norm : norms)
		norm = norm <= 1e300 ? norm : 1e300;
	std::sort(norms.begin(), norms.end());
	typical = norms[count / 2];
	farthest_ = kFarRows * norms[count - 1 - count / 4];
	if (!(farthest_ > 0))
		farthest_ = 1e300;
	if (!(typical > 0x1p-120))
		typical = 1.0;
	to->scale = (float) std::ldexp(1.0, -std::ilogb(std::min(typical, 0x1p120)));
}

/* Computes V V' in host memory. */
void
ProjectionFit::gram(cudaStream_t stream)
{
	Matrix<const float> v = by_rows((const float *) v_[0].get(), count_, dimensions_);

	host_gram_.resize((size_t) count_ * count_);
	multiply<double>(v, transposed(v), by_rows(gram_.get(), count_, count_), stream);
	copy_and_wait(host_gram_.data(), gram_.get(), host_gram_.size(), cudaMemcpyDeviceToHost,
				  stream, "reading products of directions");
}

/* Orthonormalizes the rows of V, to FP32 precision, and drops linearly dependent rows. */
void
ProjectionFit::orthonormalise(cudaStream_t stream)
{
	uint32_t	before = count_;

	gram(stream);
	count_ = orthonormalize_gram(host_gram_, before, host_basis_);
	if (count_ == 0)
		return;
	copy_async(gram_.get(), host_basis_.data(), host_basis_.size(), cudaMemcpyHostToDevice, stream,
			   "orthonormalizing directions");
	multiply<double>(by_rows((const double *) gram_.get(), count_, before),
					 by_rows((const float *) v_[0].get(), before, dimensions_),
					 by_rows(v_[1].get(), count_, dimensions_), stream);
	std::swap(v_[0], v_[1]);
}

/* Returns an upper bound of the Frobenius norm of V V' - I. */
double
ProjectionFit::measure_eta(cudaStream_t stream)
{
	double		sum = 0.0;

	gram(stream);
	for (uint32_t i = 0; i < count_; i++)
	{
		for (uint32_t j = 0; j < count_; j++)
		{
			double		off = std::fabs(host_gram_[(size_t) i * count_ + j] - (i == j ? 1.0 : 0.0))
				+ 2.0 * fasted_sum_slack(dimensions_);

			sum += off * off;
		}
	}
	return std::sqrt(sum) * (1.0 + fasted_sum_slack(count_ * count_));
}

bool
ProjectionFit::find(const SampledRows &all, Projection *to, cudaStream_t stream)
{
	SampledRows	rows = all.at_most(most_rows_);
	uint32_t	count = rows.count();

	if (count == 0)
		return false;
	find_centre(rows, to, stream);
	images_kernel<<<count, kThreads, 0, stream>>>(rows, to->centre(), norms_.get(), farthest_,
												  to->scale, x_.get());
	count_ = std::min(std::min(kMostDirections, dimensions_), count);
	signs_kernel<<<(count * count_ + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
		w_.get(), count, count_);
	check_launch("finding the projection");

	Matrix<const float> x = by_rows((const float *) x_.get(), count, dimensions_);

	for (int round = 0; round < kRounds && count_ > 0; round++)
	{
		if (round > 0)
			multiply<float>(x, transposed(by_rows((const float *) v_[0].get(), count_, dimensions_)),
							by_rows(w_.get(), count, count_), stream);
		multiply<float>(transposed(by_rows((const float *) w_.get(), count, count_)), x,
						by_rows(v_[0].get(), count_, dimensions_), stream);
		orthonormalise(stream);
	}
	if (count_ > 0)
		orthonormalise(stream);
	if (count_ == 0)
		return false;
	to->count = count_;
	to->eta = measure_eta(stream);

	/* one column per direction, padded with zeros */
	check_cuda(cudaMemsetAsync(to->directions(), 0,
							   (size_t) dimensions_ * kMostWidth * sizeof(float), stream),
			   "clearing directions");
	transpose_kernel<<<count_, kThreads, 0, stream>>>(v_[0].get(), dimensions_, to->directions());
	check_launch("storing the projection");
	return to->eta < kMostEta;
}

}								/* namespace fasted */
