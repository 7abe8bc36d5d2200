/*-------------------------------------------------------------------------
 *
 * connect_pairs.cuh
 *	  What becomes of a pair when connections are wanted: dropped, kept open, handed out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CONNECT_PAIRS_CUH
#define FASTED_CUDA_CONNECT_PAIRS_CUH

#include "filter/refine.h"
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
count_pair(const RefineParams &p, uint2 rows)
{
	uint32_t	wanted = p.connect.core_pairs;

	if (wanted == 0)
		return true;

	uint32_t	a = atomicAdd(&p.counts_a[rows.x], 1u) + 1;
	uint32_t	b = atomicAdd(&p.counts_b[rows.y], 1u) + 1;

	return a >= wanted && b >= wanted;
}

/* Called by a whole warp: each lane that keeps one has a pair of the result. */
static __device__ __forceinline__ void
connect_pairs(const RefineParams &p, bool keep, uint2 rows, FastedPair pair)
{
	WorkState  *state = p.candidates.state;
	bool		open = keep && (p.connect.all_open || !count_pair(p, rows));
	bool		hand_out = keep && !open
		&& unite_sets(p.connect.parent, rows.x, p.connect.first_b + rows.y);

	if (__any_sync(0xffffffff, open))
	{
		unsigned long long at = place_for(open, &state->open);

		if (open && at < p.connect.open_room)
			p.connect.open[at] = pair;
		hand_out |= open && at >= p.connect.open_room;
	}
	if (__any_sync(0xffffffff, hand_out))
	{
		unsigned long long at = place_for(hand_out, &state->handed_out);

		if (hand_out)
			p.pairs[at] = pair;
	}
}

}								/* namespace fasted */

#endif							/* FASTED_CUDA_CONNECT_PAIRS_CUH */
