/*-------------------------------------------------------------------------
 *
 * join.cu
 *	  A join of two sets: its pairs, or what they count.
 *
 *-------------------------------------------------------------------------
 */
#include "schedule/join.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace fasted
{

namespace
{

double
now()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

void
check_nearest(const Context &context, const FastedProblem &problem, bool self)
{
	if (problem.k < 1 || problem.k > FASTED_MAX_NEIGHBORS)
		fail(FASTED_UNSUPPORTED,
			 "the number of nearest neighbors must be between 1 and %u, not %u",
			 FASTED_MAX_NEIGHBORS, problem.k);
	if (problem.further && self && problem.slices <= 1)
		fail(FASTED_INTERNAL, "there are no neighbors to go on with");
	if (context.options.approximate)
		fail(FASTED_UNSUPPORTED, "nearest neighbors need the exact recheck");
}

}								/* namespace */

Join::Join(Context &context, const FastedProblem &problem, Set &a, Set &b)
	: context_(context), sides_{&a, &a == &b ? nullptr : &b},
	counting_(fasted_counts_rows(&problem)),
	k_(problem.output == FASTED_OUTPUT_NEAREST ? problem.k : 0)
{
	if (!(problem.eps >= 0) || (uint64_t) problem.slice + problem.more_slices >= std::max(1u, problem.slices))
		fail(FASTED_INTERNAL, "the problem is out of range");
	if (problem.output == FASTED_OUTPUT_NEAREST)
		check_nearest(context, problem, &a == &b);
	if (!a.is_sealed() || !b.is_sealed())
		fail(FASTED_INTERNAL, "a set is joined before it is sealed");
	if (context.joining)
		fail(FASTED_INTERNAL, "a join is at work already");
	context_.begin_join(problem, a, b);
}

Join::~Join()
{
	context_.stop_join();
}

/* Gets on as far as possible without waiting.  True: there is something to say. */
bool
Join::advance(FastedBatch *batch, FastedStatus *status)
{
	Rounds	   &rounds = context_.rounds;

	*status = FASTED_OK;
	if (!context_.begin_rounds())
		return false;
	if (rounds.take(batch))
		return true;
	rounds.pump();
	if (rounds.take(batch))
		return true;
	done_ = rounds.finished() && !context_.begin_further_rounds();
	*status = FASTED_DONE;
	return done_;
}

FastedStatus
Join::next(int timeout_ms, FastedBatch *batch)
{
	double		deadline = now() + timeout_ms * 1e-3;
	FastedStatus status;

	*batch = FastedBatch{};
	for (int polls = 0; !advance(batch, &status); polls++)
	{
		if (now() >= deadline)
			return FASTED_AGAIN;
		if (polls > 50)
			usleep(20);
	}
	/* give the device its next work before the caller turns to these pairs */
	if (status == FASTED_OK)
		context_.rounds.pump();
	context_.note_prepare_time();
	return status;
}

/* All of them come at once: a copy takes 10 us, however short. */
void
Join::counts(int side, uint64_t first_row, size_t nrows, uint32_t *counts)
{
	Set		   *set = side == 0 || side == 1 ? sides_[side] : nullptr;

	if (!counting_ || !done_ || set == nullptr || first_row > set->rows()
		|| nrows > set->rows() - first_row)
		fail(FASTED_INTERNAL, "there are no such counts");
	if (nrows == 0)
		return;
	if (counts_[side].empty())
	{
		cudaStream_t stream = context_.rounds.stream();

		counts_[side].resize(set->rows());
		check_cuda(cudaMemcpyAsync(counts_[side].data(), set->counts(),
								   set->rows() * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream),
				   "reading the rows' counts");
		check_cuda(cudaStreamSynchronize(stream), "reading the rows' counts");
	}
	std::copy_n(counts_[side].begin() + first_row, nrows, counts);
}

void
Join::check_neighbors(uint64_t first_row, size_t nrows) const
{
	uint64_t	rows = sides_[0]->rows();

	if (k_ == 0 || !done_ || first_row > rows || nrows > rows - first_row)
		fail(FASTED_INTERNAL, "there are no such neighbors");
}

/* The lists are in order from the first question on. */
void
Join::nearest(uint64_t first_row, size_t nrows, uint32_t *lengths, FastedNeighbor *neighbors)
{
	Set		   &a = *sides_[0];

	check_neighbors(first_row, nrows);
	if (a.rows() == 0)
		return;
	if (reader_ == nullptr)
		reader_.reset(new ListReader(a.lists(), a.rows(), context_.rounds.stream()));
	reader_->read((uint32_t) first_row, (uint32_t) nrows, lengths, neighbors);
}

/* Lists come by the room of rounds, which are over. */
bool
Join::add_lists(const Join &from, uint64_t first_row, size_t nrows)
{
	DeviceArray<FastedPair> &room = context_.rounds.idle_room(0);
	DeviceArray<FastedPair> &more = context_.rounds.idle_room(1);

	static_assert(sizeof(FastedPair) == sizeof(FastedNeighbor), "there is room for as many");
	check_neighbors(first_row, nrows);
	from.check_neighbors(first_row, nrows);
	if (k_ > kMostSorted || k_ > room.size())
		return false;
	if (nrows == 0)
		return true;
	if (from.k_ != k_ || from.reader_ == nullptr)
		fail(FASTED_INTERNAL, "there are no neighbors to add");
	nearest(0, 0, nullptr, nullptr);
	see_memory_of(context_.device.ordinal, from.context_.device.ordinal);
	reader_->add(*from.reader_, (uint32_t) first_row, (uint32_t) nrows,
				 (FastedNeighbor *) room.get(), (uint32_t *) more.get(), room.size());
	return true;
}

}								/* namespace fasted */
