/*-------------------------------------------------------------------------
 *
 * connections.h
 *	  What a context keeps to find connections: connect.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CONNECTIONS_H
#define FASTED_CUDA_CONNECTIONS_H

#include "device/device_memory.h"
#include "output/connect.h"

namespace fasted
{

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

}								/* namespace fasted */

#endif							/* FASTED_CUDA_CONNECTIONS_H */
