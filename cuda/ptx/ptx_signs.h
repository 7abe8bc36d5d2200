/*-------------------------------------------------------------------------
 *
 * ptx_signs.h
 *	  Is any of many integers negative?  Two at a time, beside products.
 *
 * Read as FP32, an integer from -2^23 + 1 to -1 is a NaN, and one from 0 to 2^30 is
 * not.  A comparison of two numbers that asks whether either is a NaN writes a
 * predicate, no register, and so hardly gets into the way of products that do.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_PTX_SIGNS_H
#define FASTED_CUDA_PTX_SIGNS_H

#include <cstdint>

namespace fasted
{
namespace ptx
{

/*
 * In one block, or the compiler would make other instructions of it.  Six chains, for each
 * comparison waits for the predicate of the one before in its chain.
 */
template <int first, int kCount>
__device__ __forceinline__ int
any_of_64_negative(const int32_t (&d)[kCount])
{
	int			any;

	asm("{\n"
		".reg .pred p0, p1, p2, p3, p4, p5;\n"
		"setp.nan.f32 p0, %1, %2;\n"
		"setp.nan.f32 p1, %3, %4;\n"
		"setp.nan.f32 p2, %5, %6;\n"
		"setp.nan.f32 p3, %7, %8;\n"
		"setp.nan.f32 p4, %9, %10;\n"
		"setp.nan.f32 p5, %11, %12;\n"
		"setp.nan.or.f32 p0, %13, %14, p0;\n"
		"setp.nan.or.f32 p1, %15, %16, p1;\n"
		"setp.nan.or.f32 p2, %17, %18, p2;\n"
		"setp.nan.or.f32 p3, %19, %20, p3;\n"
		"setp.nan.or.f32 p4, %21, %22, p4;\n"
		"setp.nan.or.f32 p5, %23, %24, p5;\n"
		"setp.nan.or.f32 p0, %25, %26, p0;\n"
		"setp.nan.or.f32 p1, %27, %28, p1;\n"
		"setp.nan.or.f32 p2, %29, %30, p2;\n"
		"setp.nan.or.f32 p3, %31, %32, p3;\n"
		"setp.nan.or.f32 p4, %33, %34, p4;\n"
		"setp.nan.or.f32 p5, %35, %36, p5;\n"
		"setp.nan.or.f32 p0, %37, %38, p0;\n"
		"setp.nan.or.f32 p1, %39, %40, p1;\n"
		"setp.nan.or.f32 p2, %41, %42, p2;\n"
		"setp.nan.or.f32 p3, %43, %44, p3;\n"
		"setp.nan.or.f32 p4, %45, %46, p4;\n"
		"setp.nan.or.f32 p5, %47, %48, p5;\n"
		"setp.nan.or.f32 p0, %49, %50, p0;\n"
		"setp.nan.or.f32 p1, %51, %52, p1;\n"
		"setp.nan.or.f32 p2, %53, %54, p2;\n"
		"setp.nan.or.f32 p3, %55, %56, p3;\n"
		"setp.nan.or.f32 p4, %57, %58, p4;\n"
		"setp.nan.or.f32 p5, %59, %60, p5;\n"
		"setp.nan.or.f32 p0, %61, %62, p0;\n"
		"setp.nan.or.f32 p1, %63, %64, p1;\n"
		"or.pred p0, p0, p1;\n"
		"or.pred p2, p2, p3;\n"
		"or.pred p4, p4, p5;\n"
		"or.pred p0, p0, p2;\n"
		"or.pred p0, p0, p4;\n"
		"selp.s32 %0, 1, 0, p0;\n"
		"}\n"
		: "=r"(any)
		: "r"(d[first + 0]), "r"(d[first + 1]), "r"(d[first + 2]), "r"(d[first + 3]), "r"(d[first + 4]), "r"(d[first + 5]),
		   "r"(d[first + 6]), "r"(d[first + 7]), "r"(d[first + 8]), "r"(d[first + 9]), "r"(d[first + 10]), "r"(d[first + 11]),
		   "r"(d[first + 12]), "r"(d[first + 13]), "r"(d[first + 14]), "r"(d[first + 15]), "r"(d[first + 16]), "r"(d[first + 17]),
		   "r"(d[first + 18]), "r"(d[first + 19]), "r"(d[first + 20]), "r"(d[first + 21]), "r"(d[first + 22]), "r"(d[first + 23]),
		   "r"(d[first + 24]), "r"(d[first + 25]), "r"(d[first + 26]), "r"(d[first + 27]), "r"(d[first + 28]), "r"(d[first + 29]),
		   "r"(d[first + 30]), "r"(d[first + 31]), "r"(d[first + 32]), "r"(d[first + 33]), "r"(d[first + 34]), "r"(d[first + 35]),
		   "r"(d[first + 36]), "r"(d[first + 37]), "r"(d[first + 38]), "r"(d[first + 39]), "r"(d[first + 40]), "r"(d[first + 41]),
		   "r"(d[first + 42]), "r"(d[first + 43]), "r"(d[first + 44]), "r"(d[first + 45]), "r"(d[first + 46]), "r"(d[first + 47]),
		   "r"(d[first + 48]), "r"(d[first + 49]), "r"(d[first + 50]), "r"(d[first + 51]), "r"(d[first + 52]), "r"(d[first + 53]),
		   "r"(d[first + 54]), "r"(d[first + 55]), "r"(d[first + 56]), "r"(d[first + 57]), "r"(d[first + 58]), "r"(d[first + 59]),
		   "r"(d[first + 60]), "r"(d[first + 61]), "r"(d[first + 62]), "r"(d[first + 63]));
	return any;
}

/* None is below -2^23 + 1 or above 2^30. */
template <int kCount>
__device__ __forceinline__ bool
any_negative(const int32_t (&d)[kCount])
{
	int			any = any_of_64_negative<0>(d);

	static_assert(kCount == 64 || kCount == 128, "64 at a time");
	if constexpr (kCount == 128)
		any |= any_of_64_negative<64>(d);
	return any != 0;
}

}								/* namespace ptx */
}								/* namespace fasted */

#endif							/* FASTED_CUDA_PTX_SIGNS_H */
