/*-------------------------------------------------------------------------
 *
 * connect.h
 *	  Which rows belong together, found out on the device pair by pair.
 *
 * Each set of connected rows is a tree whose root is its least row: parent[row] <= row.
 * A pair is handed out if it united two sets; so what is handed out is a forest, and
 * of n rows at most n - 1 pairs are.
 *
 * With core_pairs > 0 only core rows connect.  A row that has been seen to be one
 * remains one; a pair of which that is not known yet is kept open, and looked at again
 * when the join is done.  It came as one of the first core_pairs - 1 pairs of one of its
 * rows, which bounds the open pairs.  Where there is no room they are handed out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CONNECT_H
#define FASTED_CUDA_CONNECT_H

#include <cstdint>

#include "engine/engine.h"

namespace fasted
{

struct Connecting
{
	/* Where rows begin in the result, and where their pairs are counted; null: nowhere. */
	uint64_t	first_row_a = 0;
	uint64_t	first_row_b = 0;
	uint32_t   *counts_a = nullptr;
	uint32_t   *counts_b = nullptr;

	/* What is handed out, and how many that are; "cancelled": nobody wants them. */
	FastedPair *pairs = nullptr;
	unsigned long long *handed_out = nullptr;
	const uint32_t *cancelled = nullptr;

	uint32_t   *parent = nullptr;	/* of rows of a, then of those of b; null: nothing is connected */
	uint32_t	first_b = 0;	/* where those begin; of a set with itself they are a's */
	uint32_t	core_pairs = 0;
	FastedPair *open = nullptr;
	unsigned long long open_room = 0;
	unsigned long long *open_count = nullptr;	/* with those that there was no room for */
	bool		all_open = false;	/* every pair is kept so: keepers.h */

	/* Not all pairs are handed out as they come. */
	__host__ __device__ bool selects() const { return parent != nullptr || all_open; }
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_CONNECT_H */
