/*-------------------------------------------------------------------------
 *
 * spread_row.h
 *	  Some rows, spread over all of them: which ones.
 *
 * For samples by which an engine chooses a centre, a scale or a filter.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SPREAD_ROW_H
#define FASTED_SPREAD_ROW_H

#include <stdint.h>

#ifdef __CUDACC__
#define FASTED_SPREAD_INLINE __host__ __device__ __forceinline__
#else
#define FASTED_SPREAD_INLINE static inline
#endif

/*
 * The number of sampled row i of `sampled` <= rows: one in each of equal stretches,
 * at a place that differs from one to the next, or data that repeat would show
 * always the same side.  The same in every run.
 */
FASTED_SPREAD_INLINE uint32_t
fasted_spread_row(uint32_t i, uint32_t sampled, uint32_t rows)
{
	uint32_t	first = (uint32_t) ((uint64_t) i * rows / sampled);
	uint32_t	next = (uint32_t) ((uint64_t) (i + 1) * rows / sampled);
	uint32_t	hash = (i + 1) * 0x9e3779b1U;

	hash = (hash ^ hash >> 15) * 0x85ebca77U;
	hash ^= hash >> 13;
	return first + (uint32_t) ((uint64_t) hash * (next - first) >> 32);
}

#endif							/* FASTED_SPREAD_ROW_H */
