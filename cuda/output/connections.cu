/*-------------------------------------------------------------------------
 *
 * connections.cu
 *	  Allocates memory for connect.h, and processes open pairs at the end of a join.
 *
 *	  representatives, by rank: kept(y) <=> no kept x before y with D(x, y) <= eps
 *
 *-------------------------------------------------------------------------
 */
#include <algorithm>

#include "output/connect.h"

namespace fasted
{

namespace
{

/* Maximum number of open pairs; they take 4 GiB. */
constexpr uint64_t kMostOpen = (uint64_t) 256 << 20;

constexpr uint32_t kBlock = 256;

__global__ void
separate_kernel(uint32_t *parent, uint32_t rows)
{
	uint32_t	row = blockIdx.x * kBlock + threadIdx.x;

	if (row < rows)
		parent[row] = row;
}

__global__ void
__launch_bounds__(kBlock)
connect_open_kernel(const __grid_constant__ Connecting c, unsigned long long first,
					uint32_t count)
{
	uint32_t	i = blockIdx.x * kBlock + threadIdx.x;
	bool		emit = i < count;
	FastedPair	pair = {};

	if (emit)
	{
		pair = c.open[first + i];

		uint32_t	a = (uint32_t) (pair.a - c.first_row_a);
		uint32_t	b = (uint32_t) (pair.b - c.first_row_b);

		if (c.counts_a[a] >= c.core_pairs && c.counts_b[b] >= c.core_pairs)
			emit = unite_sets(c.parent, a, c.first_b + b);
	}
	return_pairs(c, emit, pair);
}

/* Number of rounds that decide which rows are representatives. */
constexpr uint32_t kRounds = 32;

constexpr uint8_t kUndecided = 0;
constexpr uint8_t kKept = 1;
constexpr uint8_t kDropped = 2;

/* A pair whose rows are ordered by rank. */
struct Ranked
{
	uint32_t	earlier;
	uint32_t	later;
	uint32_t	rank;			/* rank of the earlier row */
};

__device__ __forceinline__ Ranked
ranked(const Keeping &k, const Connecting &c, const FastedPair &pair)
{
	uint32_t	a = (uint32_t) (pair.a - c.first_row_a);
	uint32_t	b = (uint32_t) (pair.b - c.first_row_b);
	uint32_t	rank_a = k.rank == nullptr ? a : k.rank[a];
	uint32_t	rank_b = k.rank == nullptr ? b : k.rank[b];

	return rank_a < rank_b ? Ranked{a, b, rank_a} : Ranked{b, a, rank_b};
}

/* Returns a distance as an integer, such that the order is the same; it is never -0. */
__device__ __forceinline__ unsigned long long
bits_of(double dist)
{
	long long	bits = __double_as_longlong(dist);

	return (unsigned long long) bits ^ (bits < 0 ? ~0ULL : 1ULL << 63);
}

/* Drops the later neighbours of representatives, and blocks those of undecided rows. */
__global__ void
__launch_bounds__(kBlock)
block_kernel(const __grid_constant__ Keeping k, const __grid_constant__ Connecting c,
			 unsigned long long pairs, uint32_t round)
{
	if (k.undecided[round] == 0 || *c.cancelled != 0)
		return;
	for (unsigned long long i = blockIdx.x * kBlock + threadIdx.x; i < pairs;
		 i += gridDim.x * kBlock)
	{
		Ranked		pair = ranked(k, c, c.open[i]);
		uint8_t		decision = k.decision[pair.earlier];

		if (decision == kDropped || k.decision[pair.later] != kUndecided)
			continue;
		if (decision == kKept)
			k.decision[pair.later] = kDropped;
		else
			k.blocked[pair.later] = 1;
	}
}

/* Makes representatives of the undecided rows that are not blocked. */
__global__ void
__launch_bounds__(kBlock)
keep_kernel(const __grid_constant__ Keeping k, uint32_t round)
{
	uint32_t	row = blockIdx.x * kBlock + threadIdx.x;

	if (k.undecided[round] == 0 || row >= k.rows || k.decision[row] != kUndecided)
		return;
	if (k.blocked[row])
	{
		k.blocked[row] = 0;
		k.undecided[round + 1] = 1;
	}
	else
		k.decision[row] = kKept;
}

/* Finds the distance of the nearest representative or, if by_rank, its rank, given the distance. */
__global__ void
__launch_bounds__(kBlock)
nearest_kernel(const __grid_constant__ Keeping k, const __grid_constant__ Connecting c,
			   unsigned long long pairs, bool by_rank)
{
	if (k.undecided[kRounds] != 0 || *c.cancelled != 0)
		return;
	for (unsigned long long i = blockIdx.x * kBlock + threadIdx.x; i < pairs;
		 i += gridDim.x * kBlock)
	{
		FastedPair	open = c.open[i];
		Ranked		pair = ranked(k, c, open);

		if (k.decision[pair.earlier] != kKept)
			continue;
		if (!by_rank)
			atomicMin(&k.dist[pair.later], bits_of(open.dist));
		else if (bits_of(open.dist) == k.dist[pair.later])
			atomicMin(&k.representative[pair.later], pair.rank);
	}
}

__device__ __forceinline__ bool
is_needed(const Keeping &k, const Connecting &c, const FastedPair &open)
{
	Ranked		pair = ranked(k, c, open);

	if (k.undecided[kRounds] != 0)
		return k.decision[pair.earlier] != kDropped;
	return k.decision[pair.earlier] == kKept && bits_of(open.dist) == k.dist[pair.later]
		&& pair.rank == k.representative[pair.later];
}

__global__ void
__launch_bounds__(kBlock)
emit_kernel(const __grid_constant__ Keeping k, const __grid_constant__ Connecting c,
				unsigned long long first, uint32_t count)
{
	uint32_t	i = blockIdx.x * kBlock + threadIdx.x;
	FastedPair	pair = {};
	bool		needed = false;

	if (i < count)
	{
		pair = c.open[first + i];
		needed = is_needed(k, c, pair);
	}
	return_pairs(c, needed, pair);
}

}								/* namespace */

/* Takes at most half of the remaining memory, and ignores failures: open pairs are optional. */
void
Connections::allocate_open(Budget &budget, uint64_t pairs)
{
	uint64_t	room = std::min<uint64_t>(std::min(pairs, kMostOpen),
										  budget.left() / 2 / sizeof(FastedPair));

	if (open_.size() >= pairs || open_.size() >= room)
		return;
	(void) open_.try_allocate(budget, room);
}

Connecting
Connections::begin(Budget &budget, const FastedProblem &problem, uint64_t rows_a,
				   uint64_t rows_b, uint64_t open_pairs, cudaStream_t stream)
{
	Connecting	connect = {};
	uint64_t	rows = rows_a + rows_b;
	uint64_t	wanted = problem.core_pairs;

	if (rows == 0)
		return connect;
	parent_.make_room(budget, rows, "allocating device memory for the rows' connections");
	/* the bound on the number of open pairs, see connect.h */
	if (wanted > 1)
		allocate_open(budget, rows * std::min<uint64_t>(wanted - 1, rows));
	if (!problem.continues)
	{
		separate_kernel<<<(uint32_t) ((rows + kBlock - 1) / kBlock), kBlock, 0, stream>>>
			(parent_.get(), (uint32_t) rows);
		check_launch("initializing connections");
	}
	connect.parent = parent_.get();
	connect.first_b = (uint32_t) (rows_b > 0 ? rows_a : 0);
	connect.core_pairs = problem.core_pairs;
	connect.open = open_.get();
	connect.open_capacity = std::min<uint64_t>(open_.size(), open_pairs);
	return connect;
}

Connecting
Connections::keep_all(Budget &budget, uint64_t pairs, uint64_t open_pairs)
{
	Connecting	connect = {};

	allocate_open(budget, pairs);
	connect.open = open_.get();
	connect.open_capacity = std::min<uint64_t>(open_.size(), open_pairs);
	connect.all_open = connect.open_capacity > 0;
	return connect;
}

void
launch_connect_open(const Connecting &connect, unsigned long long first, uint32_t count,
					cudaStream_t stream)
{
	connect_open_kernel<<<(count + kBlock - 1) / kBlock, kBlock, 0, stream>>>(connect, first, count);
	check_launch("connecting open pairs");
}

bool
Representatives::allocate(Budget &budget, uint32_t rows)
{
	uint64_t	bytes = (uint64_t) rows * (2 * sizeof(uint32_t) + 2 + sizeof(unsigned long long));

	if (representative_.size() >= rows)
		return true;
	if (bytes > budget.left() / 2)
		return false;
	return rank_.try_allocate(budget, rows) == cudaSuccess
		&& decision_.try_allocate(budget, rows) == cudaSuccess
		&& blocked_.try_allocate(budget, rows) == cudaSuccess
		&& dist_.try_allocate(budget, rows) == cudaSuccess
		&& undecided_.try_allocate(budget, kRounds + 1) == cudaSuccess
		&& representative_.try_allocate(budget, rows) == cudaSuccess;
}

bool
Representatives::begin(Budget &budget, const FastedProblem &problem, uint32_t rows, Keeping *keeping,
			   cudaStream_t stream)
{
	const char *doing = "initializing representatives";

	if (rows == 0 || !allocate(budget, rows))
		return false;
	if (problem.ranks != nullptr)
		check_cuda(cudaMemcpyAsync(rank_.get(), problem.ranks, rows * sizeof(uint32_t),
								   cudaMemcpyHostToDevice, stream), doing);
	check_cuda(cudaMemsetAsync(decision_.get(), kUndecided, rows, stream), doing);
	check_cuda(cudaMemsetAsync(blocked_.get(), 0, rows, stream), doing);
	check_cuda(cudaMemsetAsync(dist_.get(), 0xff, rows * sizeof(unsigned long long), stream), doing);
	check_cuda(cudaMemsetAsync(representative_.get(), 0xff, rows * sizeof(uint32_t), stream), doing);
	/* rows are undecided until a round has decided all of them */
	check_cuda(cudaMemsetAsync(undecided_.get(), 0xff, (kRounds + 1) * sizeof(uint32_t), stream),
			   doing);
	*keeping = {rows, problem.ranks != nullptr ? rank_.get() : nullptr, decision_.get(),
		blocked_.get(), dist_.get(), representative_.get(), undecided_.get()};
	return true;
}

void
launch_keep_rounds(const Keeping &keeping, const Connecting &connect,
				   unsigned long long pairs, cudaStream_t stream)
{
	uint32_t	all = (uint32_t) std::min<unsigned long long>((pairs + kBlock - 1) / kBlock, 1 << 14);
	uint32_t	rows = (keeping.rows + kBlock - 1) / kBlock;

	check_cuda(cudaMemsetAsync(keeping.undecided + 1, 0, kRounds * sizeof(uint32_t), stream),
			   "initializing representatives");
	for (uint32_t round = 0; round < kRounds; round++)
	{
		block_kernel<<<all, kBlock, 0, stream>>>(keeping, connect, pairs, round);
		keep_kernel<<<rows, kBlock, 0, stream>>>(keeping, round);
	}
	nearest_kernel<<<all, kBlock, 0, stream>>>(keeping, connect, pairs, false);
	nearest_kernel<<<all, kBlock, 0, stream>>>(keeping, connect, pairs, true);
	check_launch("choosing representatives");
}

void
launch_keep_open(const Keeping &keeping, const Connecting &connect, unsigned long long first,
				 uint32_t count, cudaStream_t stream)
{
	emit_kernel<<<(count + kBlock - 1) / kBlock, kBlock, 0, stream>>>(keeping, connect, first,
																			count);
	check_launch("returning pairs of representatives");
}

}								/* namespace fasted */
