/*-------------------------------------------------------------------------
 *
 * instruction_test.cu
 *	  Properties of mma.sync on this GPU that the proof of the error bound assumes.
 *
 *-------------------------------------------------------------------------
 */
#include <cuda_fp16.h>

#include <cmath>
#include <random>
#include <vector>

#include "device/ptx.h"
#include "tap.h"

constexpr double kStepError = 44.0 / 16777216.0;	/* as in cuda/rows/quantise.cu */
constexpr double kErrorFp64 = 4 * 0x1p-52;	/* likewise */

/* Computes one 16 x 8 tile over k dimensions: x is 16 x k, y is 8 x k. */
__global__ void
products(const __half *x, const __half *y, int k, float *out)
{
	int			lane = threadIdx.x;
	int			g = lane / 4;
	int			c = lane % 4 * 2;
	float		acc[4] = {};

	for (int s = 0; s < k; s += 16)
	{
		auto		two = [&](const __half *m, int row, int column)
		{
			return *(const uint32_t *) &m[row * k + s + column];
		};
		uint32_t	a[4] = {two(x, g, c), two(x, g + 8, c), two(x, g, c + 8), two(x, g + 8, c + 8)};

		fasted::ptx::mma_step(acc, a, two(y, g, c), two(y, g, c + 8));
	}
	out[g * 8 + c] = acc[0];
	out[g * 8 + c + 1] = acc[1];
	out[(g + 8) * 8 + c] = acc[2];
	out[(g + 8) * 8 + c + 1] = acc[3];
}

static std::vector<float>
run(const std::vector<__half> &x, const std::vector<__half> &y, int k)
{
	__half	   *dx;
	__half	   *dy;
	float	   *dout;
	std::vector<float> out(128);

	cudaMalloc(&dx, x.size() * 2);
	cudaMalloc(&dy, y.size() * 2);
	cudaMalloc(&dout, 128 * 4);
	cudaMemcpy(dx, x.data(), x.size() * 2, cudaMemcpyHostToDevice);
	cudaMemcpy(dy, y.data(), y.size() * 2, cudaMemcpyHostToDevice);
	products<<<1, 32>>>(dx, dy, k, dout);
	cudaMemcpy(out.data(), dout, 128 * 4, cudaMemcpyDeviceToHost);
	cudaFree(dx);
	cudaFree(dy);
	cudaFree(dout);
	return out;
}

/* The same for FP32 rows, whose products are summed in FP64. */
__global__ void
products_fp64(const float *x, const float *y, int k, double *out)
{
	int			g = threadIdx.x / 4;
	int			c = threadIdx.x % 4;
	double		acc[4] = {};

	for (int s = 0; s < k; s += 16)
	{
		double		a[8];
		double		b[4];

		for (int i = 0; i < 8; i++)
			a[i] = x[(g + i % 2 * 8) * k + s + c + i / 2 * 4];
		for (int i = 0; i < 4; i++)
			b[i] = y[g * k + s + c + i * 4];
		fasted::ptx::mma_step(acc, a, b);
	}
	for (int i = 0; i < 4; i++)
		out[(g + i / 2 * 8) * 8 + c * 2 + i % 2] = acc[i];
}

static std::vector<double>
run_fp64(const std::vector<float> &x, const std::vector<float> &y, int k)
{
	float	   *dx;
	float	   *dy;
	double	   *dout;
	std::vector<double> out(128);

	cudaMalloc(&dx, x.size() * sizeof(float));
	cudaMalloc(&dy, y.size() * sizeof(float));
	cudaMalloc(&dout, out.size() * sizeof(double));
	cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
	cudaMemcpy(dy, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice);
	products_fp64<<<1, 32>>>(dx, dy, k, dout);
	cudaMemcpy(out.data(), dout, out.size() * sizeof(double), cudaMemcpyDeviceToHost);
	cudaFree(dx);
	cudaFree(dy);
	cudaFree(dout);
	return out;
}

/* Error of one product relative to kErrorFp64; the reference sum has 64 bits. */
static double
error_fp64(const float *x, const float *y, int k, double product)
{
	long double sum = 0;
	double		xx = 0;
	double		yy = 0;

	for (int s = 0; s < k; s++)
	{
		sum += (long double) x[s] * y[s];
		xx += (double) x[s] * x[s];
		yy += (double) y[s] * y[s];
	}
	return (double) fabsl(product - sum) / (kErrorFp64 * k * sqrt(xx * yy));
}

static void
test_fp64(std::mt19937 &random)
{
	std::normal_distribution<float> normal;
	double		worst = 0;

	for (int trial = 0; trial < 300; trial++)
	{
		int			k = 16 << trial % 9;
		std::vector<float> x(16 * k);
		std::vector<float> y(8 * k);

		for (float &v : x)
			v = trial % 3 == 0 ? fabsf(normal(random))
				: normal(random) * exp2f(trial % 3 == 1 ? 0 : normal(random) * 8);
		for (size_t i = 0; i < y.size(); i++)
			y[i] = trial % 2 ? x[i] : normal(random);

		std::vector<double> out = run_fp64(x, y, k);

		for (int i = 0; i < 128; i++)
			worst = fmax(worst, error_fp64(&x[i / 8 * k], &y[i % 8 * k], k, out[i]));
	}
	tap::ok(worst <= 0.5, "the FP64 accumulation error is at most %.3f of the bound", worst);
}

int
main()
{
	std::mt19937 random(3);
	std::normal_distribution<float> normal;
	double		worst = 0;
	bool		subnormal = true;

	if (cudaFree(nullptr) != cudaSuccess)
	{
		tap::ok(false, "a GPU is available");
		return tap::done();
	}

	/* Subnormal operands and products are not flushed to zero. */
	for (int e = -24; e <= -14; e++)
	{
		std::vector<__half> x(16 * 16, __float2half(0));
		std::vector<__half> y(8 * 16, __float2half(0));

		x[3 * 16 + 5] = __float2half(ldexpf(1, e));
		y[2 * 16 + 5] = __float2half(ldexpf(1, -24));
		subnormal &= run(x, y, 16)[3 * 8 + 2] == ldexpf(1, e - 24);
	}
	tap::ok(subnormal, "mma.sync supports FP16 subnormals");

	/* The accumulation error is within the bound of the proof. */
	for (int trial = 0; trial < 300; trial++)
	{
		int			k = 16 << trial % 9;
		std::vector<__half> x(16 * k);
		std::vector<__half> y(8 * k);

		for (auto &v : x)
			v = __float2half(trial % 3 == 0 ? fabsf(normal(random))
							 : normal(random) * exp2f(trial % 3 == 1 ? 0 : normal(random) * 4));
		for (size_t i = 0; i < y.size(); i++)
			y[i] = trial % 2 ? x[i] : __float2half(normal(random));

		std::vector<float> out = run(x, y, k);

		for (int i = 0; i < 16; i++)
		{
			for (int j = 0; j < 8; j++)
			{
				double		sum = 0;
				double		xx = 0;
				double		yy = 0;

				for (int s = 0; s < k; s++)
				{
					double		a = __half2float(x[i * k + s]);
					double		b = __half2float(y[j * k + s]);

					sum += a * b;
					xx += a * a;
					yy += b * b;
				}
				worst = fmax(worst, fabs(out[i * 8 + j] - sum)
							 / (kStepError * (k / 16) * sqrt(xx * yy)));
			}
		}
	}
	tap::ok(worst <= 0.5, "the accumulation error is at most %.3f of the bound", worst);
	test_fp64(random);
	return tap::done();
}
