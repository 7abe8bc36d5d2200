/*-------------------------------------------------------------------------
 *
 * int8_avx512.h
 *	  From a row to its INT8 form by AVX-512, for all kernels that have it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INT8_AVX512_H
#define FASTED_INT8_AVX512_H

#include "cpu_kernel.h"

extern void fasted_transform_avx512(const Int8Transform *transform, const float *row,
									float *image);
extern void fasted_round_avx512(const float *image, float factor, uint32_t padded,
								int8_t *values, Int8Sums *sums);
extern void fasted_round_fine_avx512(const float *image, float factor, uint32_t padded,
									 int16_t *values, Int8Sums *sums);
extern int32_t fasted_dot_fine_avx512(const int16_t *x, const int16_t *y, uint32_t padded);

#endif							/* FASTED_INT8_AVX512_H */
