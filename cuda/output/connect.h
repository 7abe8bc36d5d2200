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

#include "device/device.h"

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
	bool		all_open = false;	/* every pair is kept so: Keepers */

	/* Not all pairs are handed out as they come. */
	__host__ __device__ bool selects() const { return parent != nullptr || all_open; }
};

class Connections
{
public:
	/*
	 * For a join of sets of so many rows; of one with itself rows_b is 0.  Unless it goes
	 * on from the last one, every row is alone.  open_pairs: room for no more of them.
	 */
	Connecting	begin(Budget &budget, const FastedProblem &problem, uint64_t rows_a,
					  uint64_t rows_b, uint64_t open_pairs, cudaStream_t stream);

	/* The same room for all pairs of a join. */
	Connecting	keep_all(Budget &budget, uint64_t pairs, uint64_t open_pairs);

private:
	void		allocate_open(Budget &budget, uint64_t pairs);

	DeviceArray<uint32_t> parent_;
	DeviceArray<FastedPair> open_;
};

/*
 * Looks again at open pairs from number "first" on, when all have been counted: those of
 * core rows connect them; what united two sets, and every other one, is handed out.
 */
void launch_connect_open(const Connecting &connect, unsigned long long first, uint32_t count,
						 cudaStream_t stream);

/*
 * Which rows are kept, and the nearest of them to each other row.
 *
 * In order of rank a row is kept unless one that is kept is within eps.  All pairs of the
 * join stay on the device until it is done.  Then come rounds: a row that has no earlier
 * neighbour any more but dropped ones is kept, and later neighbours of kept rows are
 * dropped.  What is handed out is one pair for each dropped row: with its nearest
 * kept row, of several at the same distance the first by rank.
 *
 * Few rounds suffice but where rows come along a path.  If rows are undecided after
 * them, all pairs are handed out whose earlier row is not dropped, and the caller goes on;
 * if there is no room for all pairs, all of them are.
 */

/* Arrays by row, of the only set; null: pairs are handed out as they come. */
struct Keeping
{
	uint32_t	rows = 0;
	const uint32_t *rank = nullptr; /* null: rows are in order */
	uint8_t    *fate = nullptr;
	uint8_t    *blocked = nullptr;	/* by an earlier row that is undecided */
	unsigned long long *dist = nullptr; /* to the nearest kept row, its bits */
	uint32_t   *keeper = nullptr;	/* the rank of that row */
	uint32_t   *undecided = nullptr;	/* after each round: are there such rows? */
};

class Keepers
{
public:
	/*
	 * For a join of a set of so many rows with itself.  False: there is no memory, and all
	 * pairs are to be handed out.
	 */
	bool		begin(Budget &budget, const FastedProblem &problem, uint32_t rows, Keeping *keeping,
					  cudaStream_t stream);

private:
	bool		allocate(Budget &budget, uint32_t rows);

	DeviceArray<uint32_t> rank_;
	DeviceArray<uint8_t> fate_;
	DeviceArray<uint8_t> blocked_;
	DeviceArray<unsigned long long> dist_;
	DeviceArray<uint32_t> keeper_;
	DeviceArray<uint32_t> undecided_;
};

/* When all pairs have come, and if all are there: decides as far as some rounds go. */
void launch_keep_rounds(const Keeping &keeping, const Connecting &connect,
						unsigned long long pairs, cudaStream_t stream);

/* Hands out what is needed of so many pairs from number "first" on. */
void launch_keep_open(const Keeping &keeping, const Connecting &connect,
					  unsigned long long first, uint32_t count, cudaStream_t stream);

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

#endif							/* FASTED_CUDA_CONNECT_H */
