/*-------------------------------------------------------------------------
 *
 * connections.cu
 *	  Memory for connections, and the pairs that were open when the join was done.
 *
 *-------------------------------------------------------------------------
 */
#include "output/connections.h"

#include "device/check.h"
#include "output/connect_pairs.cuh"

namespace fasted
{

namespace
{

/* Open pairs at most: 4 GiB of them. */
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
	bool		hand_out = i < count;
	FastedPair	pair = {};

	if (hand_out)
	{
		pair = c.open[first + i];

		uint32_t	a = (uint32_t) (pair.a - c.first_row_a);
		uint32_t	b = (uint32_t) (pair.b - c.first_row_b);

		if (c.counts_a[a] >= c.core_pairs && c.counts_b[b] >= c.core_pairs)
			hand_out = unite_sets(c.parent, a, c.first_b + b);
	}
	hand_out_pairs(c, hand_out, pair);
}

}								/* namespace */

/* Memory that others need is left to them: open pairs do with little, or none. */
void
Connections::allocate_open(Budget &budget, uint64_t pairs)
{
	uint64_t	room = std::min<uint64_t>(std::min(pairs, kMostOpen),
										  budget.left() / 2 / sizeof(FastedPair));

	if (open_.size() >= pairs || open_.size() >= room)
		return;
	open_.release();
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
	if (parent_.size() < rows)
	{
		parent_.release();
		parent_.allocate(budget, rows, "allocating device memory for the rows' connections");
	}
	/* a bound on the pairs of which a row is not known to be a core row: connect.h */
	if (wanted > 1)
		allocate_open(budget, rows * std::min<uint64_t>(wanted - 1, rows));
	if (!problem.further)
	{
		separate_kernel<<<(uint32_t) ((rows + kBlock - 1) / kBlock), kBlock, 0, stream>>>
			(parent_.get(), (uint32_t) rows);
		check_launch("beginning to connect rows");
	}
	connect.parent = parent_.get();
	connect.first_b = (uint32_t) (rows_b > 0 ? rows_a : 0);
	connect.core_pairs = problem.core_pairs;
	connect.open = open_.get();
	connect.open_room = std::min<uint64_t>(open_.size(), open_pairs);
	return connect;
}

Connecting
Connections::keep_all(Budget &budget, uint64_t pairs, uint64_t open_pairs)
{
	Connecting	connect = {};

	allocate_open(budget, pairs);
	connect.open = open_.get();
	connect.open_room = std::min<uint64_t>(open_.size(), open_pairs);
	connect.all_open = connect.open_room > 0;
	return connect;
}

void
launch_connect_open(const Connecting &connect, unsigned long long first, uint32_t count,
					cudaStream_t stream)
{
	connect_open_kernel<<<(count + kBlock - 1) / kBlock, kBlock, 0, stream>>>(connect, first, count);
	check_launch("connecting open pairs");
}

}								/* namespace fasted */
