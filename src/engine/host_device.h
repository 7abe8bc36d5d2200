/*-------------------------------------------------------------------------
 *
 * host_device.h
 *	  Small functions that the host and the device compute from one source.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_HOST_DEVICE_H
#define FASTED_HOST_DEVICE_H

#include <stdint.h>

#ifdef __CUDACC__
#define FASTED_HD __host__ __device__
#else
#define FASTED_HD
#endif

#define FASTED_EVERYWHERE static inline FASTED_HD

/* Integer division, rounded up. */
FASTED_EVERYWHERE uint64_t
ceil_div(uint64_t n, uint64_t by)
{
	return (n + by - 1) / by;
}

/*
 * The number of sampled row i of `sampled` <= rows: one in each of equal stretches,
 * at a place that differs from one to the next, or data that repeat would show
 * always the same side.  The same in every run.
 */
FASTED_EVERYWHERE uint32_t
fasted_spread_row(uint32_t i, uint32_t sampled, uint32_t rows)
{
	uint32_t	first = (uint32_t) ((uint64_t) i * rows / sampled);
	uint32_t	next = (uint32_t) ((uint64_t) (i + 1) * rows / sampled);
	uint32_t	hash = (i + 1) * 0x9e3779b1U;

	hash = (hash ^ hash >> 15) * 0x85ebca77U;
	hash ^= hash >> 13;
	return first + (uint32_t) ((uint64_t) hash * (next - first) >> 32);
}

#endif							/* FASTED_HOST_DEVICE_H */
