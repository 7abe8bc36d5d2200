/*-------------------------------------------------------------------------
 *
 * disjoint_sets.cuh
 *	  Disjoint sets of rows that many threads unite at a time.
 *
 * After J. Jaiganesh and M. Burtscher, A High-Performance Connected Components
 * Implementation for GPUs, HPDC 2018.  parent[row] <= row, and a root is its own parent.
 * Only a root is hooked, by compare-and-swap, to a lesser row; other writes shorten a way
 * up.  So what is read may be old, but is an ancestor all the same.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_DISJOINT_SETS_CUH
#define FASTED_CUDA_DISJOINT_SETS_CUH

#include <cstdint>

namespace fasted
{

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

}								/* namespace fasted */

#endif							/* FASTED_CUDA_DISJOINT_SETS_CUH */
