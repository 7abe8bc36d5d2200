/*-------------------------------------------------------------------------
 *
 * pack_body.h
 *	  Centring, scaling and interleaving one sliver of rows; widening a row.
 *
 * Inlined into each kernel's own function, to be compiled for its instruction
 * set.  Results need not be the same bits everywhere: norm2 and error2 are sums
 * in any order, and the bound knows that.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PACK_BODY_H
#define FASTED_PACK_BODY_H

#include <string.h>

#include "cpu_kernel.h"

typedef float Float4 __attribute__((vector_size(16)));
typedef double Double4 __attribute__((vector_size(32)));

/* Coordinates that are quantised before they are interleaved. */
#define PACK_STEP 64

/*
 * Quantises four coordinates: (x - centre) * scale, rounded to FP32.  The
 * difference is rounded once to FP64, the product is exact.
 */
static inline __attribute__((always_inline)) void
quantise4(const float *row, const float *centre, double scale, float *out,
		  Double4 *norms, Double4 *errors)
{
	Float4		x;
	Float4		c;
	Float4		q;
	Double4		v;
	Double4		back;

	memcpy(&x, row, sizeof(x));
	memcpy(&c, centre, sizeof(c));
	v = (__builtin_convertvector(x, Double4)
		 - __builtin_convertvector(c, Double4)) * scale;
	q = __builtin_convertvector(v, Float4);
	back = __builtin_convertvector(q, Double4);
	*norms += back * back;
	*errors += (v - back) * (v - back);
	memcpy(out, &q, sizeof(q));
}

/* Quantises `count` coordinates of one row and adds to its two sums. */
static inline __attribute__((always_inline)) void
quantise(const float *row, const float *centre, double scale, uint32_t count,
		 float *out, double *norm2, double *error2)
{
	Double4		norms = {0};
	Double4		errors = {0};
	uint32_t	k = 0;

	for (; k + 4 <= count; k += 4)
		quantise4(row + k, centre + k, scale, out + k, &norms, &errors);
	if (k < count)
	{
		float		last_row[4] = {0};
		float		last_centre[4] = {0};

		memcpy(last_row, row + k, (count - k) * sizeof(float));
		memcpy(last_centre, centre + k, (count - k) * sizeof(float));
		quantise4(last_row, last_centre, scale, out + k, &norms, &errors);
	}
	*norm2 += norms[0] + norms[1] + norms[2] + norms[3];
	*error2 += errors[0] + errors[1] + errors[2] + errors[3];
}

static inline __attribute__((always_inline)) void
pack_sliver(PackSliver *job, const uint32_t width)
{
	const PackLayout *layout = job->layout;
	float		buffer[FASTED_MAX_WIDTH][PACK_STEP] __attribute__((aligned(32)));

	memset(buffer, 0, sizeof(buffer));
	for (uint32_t r = 0; r < width; r++)
		job->norm2[r] = job->error2[r] = 0.0;

	for (uint32_t first = 0; first < layout->words; first += layout->slice)
	{
		uint32_t	left = layout->words - first;
		uint32_t	depth = left < layout->slice ? left : layout->slice;
		float	   *out = job->packed
			+ pack_offset(layout, width, job->sliver, first);

		/* the first sliver may bring a new large page with each slice */
		if (job->stop != NULL && atomic_load_explicit(job->stop, memory_order_relaxed))
			return;
		for (uint32_t k = 0; k < depth; k += PACK_STEP)
		{
			uint32_t	count = depth - k < PACK_STEP ? depth - k : PACK_STEP;

			for (uint32_t r = 0; r < width; r++)
			{
				if (job->rows[r] != NULL)
					quantise(job->rows[r] + first + k,
							 job->centre + first + k, job->scale, count,
							 buffer[r], &job->norm2[r], &job->error2[r]);
			}
			for (uint32_t l = 0; l < count; l++)
			{
				for (uint32_t r = 0; r < width; r += 4)
				{
					Float4		column = {buffer[r][l], buffer[r + 1][l],
					buffer[r + 2][l], buffer[r + 3][l]};

					memcpy(out + (size_t) (k + l) * width + r, &column,
						   sizeof(column));
				}
			}
		}
	}
}

/* A row in FP64, with zeros up to a multiple of 32 coordinates. */
static inline __attribute__((always_inline)) void
widen_row(const float *row, uint32_t dimensions, double *wide)
{
	uint32_t	k = 0;

	for (; k + 4 <= dimensions; k += 4)
	{
		Float4		x;
		Double4		w;

		memcpy(&x, row + k, sizeof(x));
		w = __builtin_convertvector(x, Double4);
		memcpy(wide + k, &w, sizeof(w));
	}
	for (; k < dimensions; k++)
		wide[k] = (double) row[k];
	for (; k % 32 != 0; k++)
		wide[k] = 0.0;
}

#endif							/* FASTED_PACK_BODY_H */
