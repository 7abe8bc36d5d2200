/*-------------------------------------------------------------------------
 *
 * connect.h
 *	  Connected components (FASTED_OUTPUT_CONNECTIONS) and representatives
 *	  (FASTED_OUTPUT_REPRESENTATIVES), computed on the device.
 *
 * Connected components are a union-find forest.  The root of a component is its lowest row, and
 * parent[row] <= row.  A pair is returned only if it merges two components.  The returned pairs
 * therefore form a forest, with at most n - 1 pairs for n rows.
 *
 * If core_pairs > 0, only core rows connect.  The count of a row never decreases, so a row that
 * is known to be a core row remains one.  A pair is "open" if one of its rows is not known to be
 * a core row yet.  Open pairs are stored, and processed again when the join is done.  Each is
 * among the first core_pairs - 1 pairs of one of its rows, which bounds their number.  Open pairs
 * that do not fit into the buffer are returned.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CONNECT_H
#define FASTED_CUDA_CONNECT_H

#include <cstdint>

#include "device/device.h"

namespace fasted
{

struct Connecting
{
	/* Numbers of the first rows in the result, and number of pairs per row (or null). */
	uint64_t	first_row_a = 0;
	uint64_t	first_row_b = 0;
	uint32_t   *counts_a = nullptr;
	uint32_t   *counts_b = nullptr;

	/* Returned pairs and their number.  If *cancelled is set, the results are not needed. */
	FastedPair *pairs = nullptr;
	unsigned long long *returned = nullptr;
	const uint32_t *cancelled = nullptr;

	uint32_t   *parent = nullptr;	/* of rows of a, then of b; null: no components are computed */
	uint32_t	first_b = 0;	/* index of the first row of b in parent; 0 in a self-join */
	uint32_t	core_pairs = 0;
	FastedPair *open = nullptr;
	unsigned long long open_capacity = 0;	/* capacity of open */
	unsigned long long *open_count = nullptr;	/* includes pairs that did not fit */
	bool		all_open = false;	/* store every pair as an open pair: Representatives */

	/* Returns whether only selected pairs are returned. */
	__host__ __device__ bool selects() const { return parent != nullptr || all_open; }
};

class Connections
{
public:
	/*
	 * Prepares a join of sets with rows_a and rows_b rows; rows_b is 0 in a self-join.  Each row
	 * is a component of its own, unless the join continues the previous one (problem.continues).
	 * open_pairs limits the capacity for open pairs.
	 */
	Connecting	begin(Budget &budget, const FastedProblem &problem, uint64_t rows_a,
					  uint64_t rows_b, uint64_t open_pairs, cudaStream_t stream);

	/* Prepares a join that stores all of its pairs as open pairs, for Representatives. */
	Connecting	keep_all(Budget &budget, uint64_t pairs, uint64_t open_pairs);

private:
	void		allocate_open(Budget &budget, uint64_t pairs);

	DeviceArray<uint32_t> parent_;
	DeviceArray<FastedPair> open_;
};

/*
 * Processes count open pairs from number first on, when all pairs have been counted.  Returns a
 * pair of two core rows if it merges two components.  Returns all other pairs, too.
 */
void launch_connect_open(const Connecting &connect, unsigned long long first, uint32_t count,
						 cudaStream_t stream);

/*
 * Representatives (FASTED_OUTPUT_REPRESENTATIVES), and the nearest representative of each other
 * row.
 *
 * In order of rank, a row becomes a representative unless an earlier representative is within eps.
 * All pairs of the join are stored on the device until it is done.  Then rounds are run.  In each
 * round, a row becomes a representative (kKept) if all of its earlier neighbours are dropped, and
 * the later neighbours of representatives are dropped (kDropped).  One pair is returned for each
 * dropped row: the pair with its nearest representative; if several are equally near, that of
 * lowest rank.
 *
 * A few rounds suffice, unless rows form long chains.  If rows are still undecided after the last
 * round, all pairs whose earlier row is not dropped are returned, and the caller decides.  If the
 * buffer cannot store all pairs, all of them are returned.
 */

/* Arrays by row.  Null pointers: representatives are not computed on the device. */
struct Keeping
{
	uint32_t	rows = 0;
	const uint32_t *rank = nullptr; /* null: the rank is the position */
	uint8_t    *decision = nullptr;
	uint8_t    *blocked = nullptr;	/* an earlier neighbour is undecided */
	unsigned long long *dist = nullptr; /* distance of the nearest representative: bits_of */
	uint32_t   *representative = nullptr;	/* rank of the nearest representative */
	uint32_t   *undecided = nullptr;	/* by round: not zero if rows are still undecided */
};

class Representatives
{
public:
	/*
	 * Prepares a self-join of a set.  Returns false if there is not enough memory; the join must
	 * then return all pairs.
	 */
	bool		begin(Budget &budget, const FastedProblem &problem, uint32_t rows, Keeping *keeping,
					  cudaStream_t stream);

private:
	bool		allocate(Budget &budget, uint32_t rows);

	DeviceArray<uint32_t> rank_;
	DeviceArray<uint8_t> decision_;
	DeviceArray<uint8_t> blocked_;
	DeviceArray<unsigned long long> dist_;
	DeviceArray<uint32_t> representative_;
	DeviceArray<uint32_t> undecided_;
};

/* Runs the rounds.  All pairs of the join must be stored as open pairs. */
void launch_keep_rounds(const Keeping &keeping, const Connecting &connect,
						unsigned long long pairs, cudaStream_t stream);

/* Returns those of count stored pairs, from number first on, that the result needs. */
void launch_keep_open(const Keeping &keeping, const Connecting &connect,
					  unsigned long long first, uint32_t count, cudaStream_t stream);

/*
 * Concurrent union-find.
 *
 * After J. Jaiganesh and M. Burtscher, A High-Performance Connected Components
 * Implementation for GPUs, HPDC 2018.  parent[row] <= row, and a root is its own parent.
 * Only roots are attached to lower rows, by compare-and-swap.  Other writes shorten paths.
 * A value that is read may thus be outdated, but it always is an ancestor.
 */

/* Returns the root of the row's component, possibly outdated.  Halves the path to it. */
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

/* Merges the components of two rows.  Returns true if this call has merged two components. */
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
		/* another thread has attached this root meanwhile */
		a = find_root(parent, was);
		b = lesser;
	}
	return false;
}

/* Returns, for each lane of a full warp with wants, a unique index; advances *counter. */
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

/* Counts a pair for both of its rows.  Returns whether both are known to be core rows then. */
static __device__ __forceinline__ bool
count_pair(const Connecting &c, uint2 rows)
{
	if (c.core_pairs == 0)
		return true;

	uint32_t	a = atomicAdd(&c.counts_a[rows.x], 1u) + 1;
	uint32_t	b = atomicAdd(&c.counts_b[rows.y], 1u) + 1;

	return a >= c.core_pairs && b >= c.core_pairs;
}

/* Adds pairs to the returned pairs.  Must be called by a full warp; lanes may have no pair. */
static __device__ __forceinline__ void
return_pairs(const Connecting &c, bool emit, FastedPair pair)
{
	if (!__any_sync(0xffffffff, emit))
		return;

	unsigned long long at = place_for(emit, c.returned);

	if (emit)
		c.pairs[at] = pair;
}

/* Processes pairs of the result.  Must be called by a full warp; lanes with keep have a pair. */
static __device__ __forceinline__ void
connect_pairs(const Connecting &c, bool keep, uint2 rows, FastedPair pair)
{
	bool		open = keep && (c.all_open || !count_pair(c, rows));
	bool		emit = keep && !open && unite_sets(c.parent, rows.x, c.first_b + rows.y);

	if (__any_sync(0xffffffff, open))
	{
		unsigned long long at = place_for(open, c.open_count);

		if (open && at < c.open_capacity)
			c.open[at] = pair;
		emit |= open && at >= c.open_capacity;
	}
	return_pairs(c, emit, pair);
}

}								/* namespace fasted */

#endif							/* FASTED_CUDA_CONNECT_H */
