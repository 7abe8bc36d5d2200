/*-------------------------------------------------------------------------
 *
 * connect_pairs.cuh
 *	  What becomes of a pair when connections are wanted: dropped, kept open, handed out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CONNECT_PAIRS_CUH
#define FASTED_CUDA_CONNECT_PAIRS_CUH

#include <cstdint>

#include "output/connect.h"

namespace fasted
{

/*
 * Disjoint sets of rows that many threads unite at a time.
 *
 * After J. Jaiganesh and M. Burtscher, A High-Performance Connected Components
 * Implementation for GPUs, HPDC 2018.  parent[row] <= row, and a root is its own parent.
 * Only a root is hooked, by compare-and-swap, to a lesser row; other writes shorten a way
 * up.  So what is read may be old, but is an ancestor all the same.
 */

/* The root of the row's set, or what was it a moment ago; halves the way to it. */
static __device__ __forceinline__ uint32_t
find_root(volatile uint32_t *parent, uint32_t row)
{
	uint32_t	up = parent[row];

	while (up != row)
	{
		uint32_t	next = parent[up];

		if (next == up)
			return up;
		parent[row] = next;
		row = next;
		up = parent[row];
	}
	return row;
}

/* True: these were two sets, and this call has united them. */
static __device__ __forceinline__ bool
unite_sets(uint32_t *parent, uint32_t a, uint32_t b)
{
	a = find_root(parent, a);
	b = find_root(parent, b);
	while (a != b)
	{
		uint32_t	greater = max(a, b);
		uint32_t	lesser = min(a, b);
		uint32_t	was = atomicCAS(&parent[greater], greater, lesser);

		if (was == greater)
			return true;
		/* somebody else hooked it */
		a = find_root(parent, was);
		b = lesser;
	}
	return false;
}

/* Gives every lane of a whole warp that wants one its place, counted in "counter". */
static __device__ __forceinline__ unsigned long long
place_for(bool wants, unsigned long long *counter)
{
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	wanting = __ballot_sync(0xffffffff, wants);
	unsigned long long base = 0;

	if (lane == 0 && wanting != 0)
		base = atomicAdd(counter, (unsigned long long) __popc(wanting));
	base = __shfl_sync(0xffffffff, base, 0);
	return base + __popc(wanting & ((1u << lane) - 1));
}

/* Counts a pair for both rows: are both core rows by then? */
static __device__ __forceinline__ bool
count_pair(const Connecting &c, uint2 rows)
{
	if (c.core_pairs == 0)
		return true;

	uint32_t	a = atomicAdd(&c.counts_a[rows.x], 1u) + 1;
	uint32_t	b = atomicAdd(&c.counts_b[rows.y], 1u) + 1;

	return a >= c.core_pairs && b >= c.core_pairs;
}

/* Called by a whole warp, whose lanes may have a pair to hand out. */
static __device__ __forceinline__ void
hand_out_pairs(const Connecting &c, bool hand_out, FastedPair pair)
{
	if (!__any_sync(0xffffffff, hand_out))
		return;

	unsigned long long at = place_for(hand_out, c.handed_out);

	if (hand_out)
		c.pairs[at] = pair;
}

/* Called by a whole warp: each lane that keeps one has a pair of the result. */
static __device__ __forceinline__ void
connect_pairs(const Connecting &c, bool keep, uint2 rows, FastedPair pair)
{
	bool		open = keep && (c.all_open || !count_pair(c, rows));
	bool		hand_out = keep && !open && unite_sets(c.parent, rows.x, c.first_b + rows.y);

	if (__any_sync(0xffffffff, open))
	{
		unsigned long long at = place_for(open, c.open_count);

		if (open && at < c.open_room)
			c.open[at] = pair;
		hand_out |= open && at >= c.open_room;
	}
	hand_out_pairs(c, hand_out, pair);
}

}								/* namespace fasted */

#endif							/* FASTED_CUDA_CONNECT_PAIRS_CUH */
