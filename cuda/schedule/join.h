/*-------------------------------------------------------------------------
 *
 * join.h
 *	  A join of two sets: its pairs, or what they count.
 *
 * The functions are those of engine.h and throw a Failure (device.h) where those
 * return a status.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_JOIN_H
#define FASTED_CUDA_JOIN_H

#include <vector>

#include "nearest/list_reader.h"
#include "schedule/context.h"
#include "schedule/set.h"

namespace fasted
{

class Join
{
public:
	Join(Context &context, const FastedProblem &problem, Set &a, Set &b);
	~Join();

	FastedStatus next(int timeout_ms, FastedBatch *batch);
	void		counts(int side, uint64_t first_row, size_t nrows, uint32_t *counts);
	void		nearest(uint64_t first_row, size_t nrows, uint32_t *lengths,
						FastedNeighbor *neighbors);

	/* False: lists are too long. */
	bool		add_lists(const Join &from, uint64_t first_row, size_t nrows);

private:
	void		check_neighbors(uint64_t first_row, size_t nrows) const;
	bool		advance(FastedBatch *batch, FastedStatus *status);

	Context	   &context_;
	Set		   *sides_[2];		/* the second one is null if there is but one */
	bool		counting_;
	uint32_t	k_;				/* nearest rows: so many; else 0 */
	bool		done_ = false;
	std::unique_ptr<ListReader> reader_;	/* once neighbours are asked for */
	std::vector<uint32_t> counts_[2];	/* once they are asked for */
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_JOIN_H */
