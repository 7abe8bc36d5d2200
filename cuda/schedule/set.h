/*-------------------------------------------------------------------------
 *
 * set.h
 *	  A set of rows on the device.
 *
 * A row goes there once: through a small pinned buffer, while the caller fills the
 * next, or straight from the caller's memory, if that was lent.  All of that is in
 * the context's stream for uploads, beside a join of other sets.
 *
 * The functions are those of engine.h and throw a Failure (device.h) where those
 * return a status.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_SET_H
#define FASTED_CUDA_SET_H

#include "schedule/context.h"

namespace fasted
{

class Set
{
public:
	Set(Context &context, const FastedSetOptions &options);
	~Set();

	/* False: full. */
	bool		stage(float **rows, size_t *capacity);
	void		commit(size_t nrows);

	/* Rows in the room of a set of another context; false: full. */
	bool		take_staged(const Set &from, size_t nrows);

	/* Rows of a sealed set of another context, which stays until settle. */
	void		copy_rows(const Set &from, uint64_t first, size_t nrows);

	/* lend: false where staging is as good.  put: how many it takes; 0: full. */
	bool		lend(void *memory, size_t bytes);
	void		withdraw() noexcept;
	size_t		put(const float *rows, size_t nrows);
	void		settle(bool all);

	void		read_back(uint64_t first_row, size_t nrows, float *rows);
	void		seal();
	void		reset(uint64_t first_row);

	/* For the context and its joins. */
	bool is_sealed() const { return sealed_; }
	uint32_t rows() const { return store_.rows; }
	uint64_t content() const { return content_; }
	uint64_t orders() const { return filter_.orders(); }
	size_t bytes_granted() const { return shape_.bytes(granted_); }
	FormedRows formed_rows() const { return {table(), content_, filter_.form()}; }
	void		wait_for_rows(cudaStream_t stream) const;
	void		take_form(const std::shared_ptr<Form> &form, cudaStream_t stream);
	void		take_paper_form(cudaStream_t stream);
	void		set_eps(double eps, cudaStream_t stream) { filter_.set_eps(eps, stream); }
	void		fold(cudaStream_t stream) { filter_.fold(stream); }
	void		set_spread(bool spread) { filter_.set_spread(spread); }
	JoinSide	side() const;

	/* The side 0 or 1 of groups whose rows stay together from here on; null: none do. */
	void		take_groups(const FastedProblem &problem, int side, cudaStream_t stream);

	/* Room for the number of each row's pairs: zero, or (further) as it was. */
	uint32_t   *begin_counts(bool further, cudaStream_t stream);

	/* Lists of neighbours: empty ones, or those that the last such join left. */
	void		begin_lists(uint32_t k, double eps, bool further, cudaStream_t stream);
	void		take_ranks(const uint32_t *ranks, cudaStream_t stream);
	NearTask	near_task(Set &b, NearScalars *scalars);

	/* Rows for whoever has written keys of their places: orders them by these. */
	uint32_t   *keys() { return filter_.keys(); }
	void		order_by_keys(cudaStream_t stream) { filter_.order_by_keys(stream); }

	/* Radii are good: orders rows by them, and empties the lists. */
	void		order_by_radii(const NearTask &task, cudaStream_t stream);
	NeighborLists &lists() { return lists_; }
	const uint32_t *counts() const { return counts_.get(); }

private:
	RowTable table() const
	{
		RowTable	table = store_.table();

		table.squares = shape_.cosine ? squares_.get() : nullptr;
		return table;
	}
	void		check_open() const;
	void		drop_buffer();
	uint64_t	grow(uint64_t count);
	void		send(const float *rows, size_t nrows);
	void		allocate_for(uint64_t rows);

	Context	   &context_;
	FastedSetOptions options_;
	SetShape	shape_;
	uint64_t	content_;		/* a number for the rows that it has now */
	bool		sealed_ = false;
	bool		full_ = false;
	uint64_t	granted_ = 0;	/* rows that there is memory for */
	StagingBuffer *buffer_ = nullptr;	/* that the caller fills */
	void	   *lent_ = nullptr;	/* the caller's memory, page-locked */
	bool		locked_ = false;	/* by this set */

	RowStore	store_;
	FilterRows	filter_;
	RowLabels	labels_;
	DeviceArray<uint32_t> counts_;
	NeighborLists lists_;
	DeviceArray<uint32_t> ranks_;	/* as a neighbour */
	bool		ranked_ = false;	/* it has them in the join at hand */
	DeviceArray<double> squares_;	/* cosine */
	Event		settled_;		/* after what was put before the last settle */
	Event		uploaded_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_SET_H */
