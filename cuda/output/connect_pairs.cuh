/*-------------------------------------------------------------------------
 *
 * connect_pairs.cuh
 *	  What becomes of a pair when connections are wanted: dropped, kept open, handed out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CONNECT_PAIRS_CUH
#define FASTED_CUDA_CONNECT_PAIRS_CUH

#include "output/connect.h"
#include "output/disjoint_sets.cuh"

namespace fasted
{

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
