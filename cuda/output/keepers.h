/*-------------------------------------------------------------------------
 *
 * keepers.h
 *	  Which rows are kept, and the nearest of them to each other row.
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
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_KEEPERS_H
#define FASTED_CUDA_KEEPERS_H

#include "device/device_memory.h"
#include "output/connect.h"

namespace fasted
{

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

}								/* namespace fasted */

#endif							/* FASTED_CUDA_KEEPERS_H */
