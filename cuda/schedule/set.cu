/*-------------------------------------------------------------------------
 *
 * set.cu
 *	  Sets of rows on the device, and joins of sets.
 *
 *-------------------------------------------------------------------------
 */
#include "schedule/context.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace fasted
{

namespace
{

constexpr size_t kRegisterBytes = (size_t) 256 << 20;	/* page-locking is faster for larger sets */

void
check_nearest(const Context &context, const FastedProblem &problem, bool self)
{
	if (problem.k < 1 || problem.k > FASTED_MAX_NEIGHBORS)
		fail(FASTED_UNSUPPORTED,
			 "The number of nearest neighbors must be between 1 and %u, not %u.",
			 FASTED_MAX_NEIGHBORS, problem.k);
	if (problem.continues && self && problem.slices <= 1)
		fail(FASTED_INTERNAL, "there are no neighbor lists to continue");
	if (problem.components != nullptr && (self || problem.slices > 1))
		fail(FASTED_INTERNAL, "components require two different sets and a single slice");
}

}								/* namespace */

/* If the maximum number of rows is given, all memory is allocated here. */
Set::Set(Context &context, const FastedSetOptions &options)
	: context_(context), options_(options),
	shape_(context.shape_for(std::max(options.most_rows, options.expected_rows))),
	content_(context.new_content()), store_(shape_.chunks)
{
	shape_.neighbors = options.neighbors;
	if (options.most_rows > FASTED_MAX_ROWS)
		fail(FASTED_INTERNAL, "a set has too many rows");
	if (options.most_rows > 0)
	{
		check_cuda(store_.try_grow(context_.budget, options.most_rows),
				   "allocating device memory for rows", shape_.bytes(options.most_rows));
		allocate_for(options.most_rows);
		if (options.neighbors > 0)
			lists.allocate(context_.budget, options.most_rows, options.neighbors);
		granted_ = options.most_rows;
	}
	context_.add(this);
}

Set::~Set()
{
	context_.remove(this);
	unregister_memory();
	drop_buffer();
}

void
Set::check_open() const
{
	if (sealed_)
		fail(FASTED_INTERNAL, "the set is sealed");
}

void
Set::drop_buffer()
{
	if (buffer_ != nullptr)
		context_.staging.release(buffer_);
	buffer_ = nullptr;
}

/*
 * Allocates device memory for count more rows, or for fewer.  Returns for how many there is memory;
 * 0 if the set is full.
 */
uint64_t
Set::grow(uint64_t count)
{
	uint64_t	there = store_.rows;
	uint64_t	end = there + count;
	uint64_t	chunk = shape_.chunks.rows();
	size_t		memory;

	if (options_.most_rows > 0)
		return std::min(count, options_.most_rows - there);
	if (full_)
		return 0;
	if (end <= granted_)
		return count;

	/* Allocate up to the end of the chunk if that fits, because this check takes 10 us. */
	end = (end + chunk - 1) / chunk * chunk;
	memory = context_.memory_for(this);
	if (end > FASTED_MAX_ROWS || shape_.bytes(end) > memory)
	{
		while (count > 0 && there + count > granted_ && shape_.bytes(there + count) > memory)
			count /= 2;
		count = std::min<uint64_t>(count, FASTED_MAX_ROWS - there);
		end = there + count;
	}
	if (count == 0)
	{
		full_ = true;
		return 0;
	}

	cudaError_t error = store_.try_grow(context_.budget, end);

	if (error == cudaErrorMemoryAllocation && context_.shrink_to_free_memory())
	{
		full_ = true;
		return 0;
	}
	check_cuda(error, "allocating device memory for rows", shape_.chunks.bytes());
	granted_ = std::max(granted_, end);
	return count;
}

bool
Set::stage(float **rows, size_t *capacity)
{
	uint64_t	count;

	check_open();
	count = grow(context_.staging.rows());
	if (count == 0)
		return false;
	if (buffer_ == nullptr)
		buffer_ = context_.staging.acquire();
	*rows = buffer_->rows.get();
	*capacity = count;
	return true;
}

/* Copies rows, of the host or of any device, to the end of the set, which has memory for them. */
void
Set::send(const float *rows, size_t nrows)
{
	size_t		floats = shape_.chunks.row_floats();

	store_.for_pieces(store_.rows, nrows, [&](float *to, size_t done, size_t count)
	{
		copy_async(to, rows + done * floats, count * floats, cudaMemcpyDefault, context_.upload,
				   "copying rows to the device");
	});
	store_.rows += nrows;
}

void
Set::commit(size_t nrows)
{
	if (sealed_ || buffer_ == nullptr || store_.rows + nrows > granted_
		|| nrows > context_.staging.rows())
		fail(FASTED_INTERNAL, "more rows were committed than staged");
	send(buffer_->rows.get(), nrows);
	buffer_->sent.record(context_.upload);
	drop_buffer();
}

bool
Set::select_rows(const Set &from, const uint32_t *positions, size_t nrows)
{
	check_open();
	if (!from.sealed_ || &from.context_ != &context_)
		fail(FASTED_INTERNAL, "rows can only be selected from a sealed set of the same context");
	for (size_t i = 0; i < nrows; i++)
	{
		if (positions[i] >= from.store_.rows || (i > 0 && positions[i] <= positions[i - 1]))
			fail(FASTED_INTERNAL, "positions of selected rows are not ascending, or out of range");
	}
	drop_buffer();
	if (nrows == 0)
		return true;
	if (grow(nrows) < nrows)
		return false;
	from.wait_for_rows(context_.upload);
	store_.rows += nrows;
	store_.finish(context_.budget, context_.upload);
	counts_.make_room(context_.budget, capacity(), "allocating device memory for the selected positions");
	/* the caller may change the positions after this call */
	copy_and_wait(counts_.get(), positions, nrows, cudaMemcpyHostToDevice, context_.upload,
				  "copying the selected positions");
	launch_select(from.store_.table(), counts_.get(), (uint32_t) nrows, store_.table(),
				  context_.upload);
	return true;
}

/* Locking pages takes as long as copying 200 MB.  If it fails, rows are staged. */
bool
Set::register_memory(void *memory, size_t bytes)
{
	uint64_t	expected = std::max(options_.expected_rows, options_.most_rows);

	if (sealed_ || registered_ != nullptr)
		fail(FASTED_INTERNAL, "memory cannot be registered twice, or for a sealed set");
	if (!tuning.always_register && expected * shape_.chunks.row_bytes() < kRegisterBytes)
		return false;
	if (cudaHostRegister(memory, bytes, cudaHostRegisterDefault) != cudaSuccess)
	{
		(void) cudaGetLastError();
		return false;
	}
	registered_ = memory;
	return true;
}

/* Waits for all copies to the set. */
void
Set::unregister_memory() noexcept
{
	(void) cudaStreamSynchronize(context_.upload);
	if (registered_ == nullptr)
		return;
	(void) cudaHostUnregister(registered_);
	(void) cudaGetLastError();
	registered_ = nullptr;
}

size_t
Set::put(const float *rows, size_t nrows)
{
	if (sealed_ || registered_ == nullptr)
		fail(FASTED_INTERNAL, "put requires registered memory and an unsealed set");
	drop_buffer();

	size_t		count = grow(nrows);

	send(rows, count);
	return count;
}

void
Set::wait_read(bool all)
{
	if (!all)
	{
		settled_.wait("copying rows to the device");
		settled_.record(context_.upload);
		return;
	}
	check_cuda(cudaStreamSynchronize(context_.upload), "copying rows to the device");
}

void
Set::read_back(uint64_t first_row, size_t nrows, float *rows)
{
	check_open();
	if (first_row > store_.rows || nrows > store_.rows - first_row)
		fail(FASTED_INTERNAL, "row numbers out of range in read_back");
	store_.for_pieces(first_row, nrows, [&](const float *from, size_t done, size_t count)
	{
		size_t		floats = shape_.chunks.row_floats();

		copy_async(rows + done * floats, from, count * floats, cudaMemcpyDeviceToHost,
				   context_.upload, "reading rows back");
	});
	wait_read(true);
}

/* Allocates the memory that kernels need in addition to the rows. */
void
Set::allocate_for(uint64_t rows)
{
	store_.finish(context_.budget, context_.upload);
	filter.allocate(context_.budget, rows, shape_.row_bytes,
					 shape_.fold_bytes_of(rows));
	if (shape_.squares)
		squares_.make_room(context_.budget, rows, "allocating device memory for the rows' squares");
}

void
Set::seal()
{
	check_open();
	drop_buffer();
	if (store_.rows > 0)
		allocate_for(store_.rows);
	if (shape_.squares)
		launch_squares(store_.table(), squares_.get(), context_.upload);
	uploaded_.record(context_.upload);
	sealed_ = true;
}

/* Copies directly from GPU to GPU if peer access is supported, else through host memory. */
bool
Set::copy_set(const Set &from)
{
	uint64_t	rows = from.store_.rows;

	check_open();
	if (!from.sealed_ || store_.rows > 0)
		fail(FASTED_INTERNAL, "only a sealed set can be copied, and only to an empty one");
	if (grow(rows) < rows)
		return false;
	see_memory_of(context_.device.ordinal, from.context_.device.ordinal);
	from.wait_for_rows(context_.upload);
	from.store_.for_pieces(0, rows, [&](const float *piece, size_t, size_t count)
	{
		send(piece, count);
	});
	seal();
	return true;
}

/* No join uses the set, but kernels of the last join may still be running. */
void
Set::reset(uint64_t first_row)
{
	Event		unused;

	if (context_.rounds.stream() != nullptr)
	{
		unused.record(context_.rounds.stream());
		check_cuda(cudaStreamWaitEvent(context_.upload, unused, 0), "emptying a set");
	}
	drop_buffer();
	filter.forget();
	labels_.forget();
	by_component_ = false;
	lists.forget();
	options_.first_row = first_row;
	content_ = context_.new_content();
	store_.rows = 0;
	sealed_ = full_ = false;
}

void
Set::wait_for_rows(cudaStream_t stream) const
{
	check_cuda(cudaStreamWaitEvent(stream, uploaded_, 0), "waiting for rows");
}

void
Set::encode(const std::shared_ptr<Form> &form, cudaStream_t stream)
{
	const uint32_t *labels = labels_.get();

	if (labels == nullptr && by_component_)
		labels = counts_.get();
	if (!filter.is_in(form))
		filter.quantise(form, table(), true, stream, labels);
}

JoinSide
Set::side() const
{
	JoinSide	side = {table(), filter.get(), options_.first_row};

	side.table.order = filter.order();
	side.labels = labels_.get();
	if (by_component_)
	{
		side.components = counts_.get();
		side.cores = filter.doubles();
		side.quantised.components = sorted_components_;
	}
	return side;
}

/* If partitions or components change the order of rows, they have to be quantised again. */
void
Set::set_partitions(const FastedProblem &problem, int side, cudaStream_t stream)
{
	bool		components = problem.components != nullptr && store_.rows > 0;

	if (labels_.set(context_.budget, problem.partitions, problem.npartitions, side, store_.rows, stream)
		|| components || by_component_)
		filter.forget_order();
	by_component_ = components;
	if (!components)
		return;
	counts_.make_room(context_.budget, capacity(), "allocating device memory for the rows' components");
	copy_async(counts_.get(), problem.components->component[side], store_.rows,
			   cudaMemcpyHostToDevice, stream, "copying the rows' components");
}

void
Set::set_core_distances(const FastedComponents &components, int side, cudaStream_t stream)
{
	copy_async(filter.doubles(), components.core[side], store_.rows, cudaMemcpyHostToDevice, stream,
			   "copying the rows' core distances");
	sorted_components_ = nullptr;
	if (labels_.get() != nullptr)
		return;

	uint32_t   *sorted = labels_.unused(context_.budget, capacity());

	launch_gather(counts_.get(), filter.order(), sorted, store_.rows, stream);
	sorted_components_ = sorted;
}

void
Set::begin_lists(const FastedProblem &problem, cudaStream_t stream)
{
	if (store_.rows == 0)
		return;
	if (problem.continues && !lists.are_for(problem.k, problem.eps))
		fail(FASTED_INTERNAL, "there are no neighbor lists to continue");
	if (problem.continues)
		return;
	lists.allocate(context_.budget, capacity(), problem.k);
	lists.begin(store_.rows, problem.k, problem.eps,
				problem.components != nullptr ? problem.components->bound : nullptr, stream);
}

/* Copies ranks to the device.  Without ranks, those of an earlier join are ignored. */
void
Set::set_ranks(const uint32_t *ranks, cudaStream_t stream)
{
	ranked_ = ranks != nullptr && store_.rows > 0;
	if (!ranked_)
		return;
	ranks_.make_room(context_.budget, capacity(), "allocating device memory for the rows' ranks");
	copy_async(ranks_.get(), ranks, store_.rows, cudaMemcpyHostToDevice, stream,
			   "copying the rows' ranks");
}

NearSide
Set::near_side(uint32_t *thresholds) const
{
	return {side().table, filter.get().values, filter.norms(), filter.sorted_keys(), thresholds,
		labels_.get(), side().cores};
}

/* Returns the task for a join with set b, which must be quantised in the same form. */
NearTask
Set::near_task(Set &b, NearScalars *scalars)
{
	NearTask	task = {};

	task.table = lists.table();
	task.table.ranks = b.ranked_ ? b.ranks_.get() : nullptr;
	task.table.first_ranked = b.options_.first_row;
	task.self = this == &b;
	task.form = filter.form()->bound(shape_.chunks.dimensions);
	task.a = near_side(lists.thresholds());
	task.b = b.near_side(b.filter.reset_thresholds());
	task.row_bytes = filter.form()->row_bytes(shape_.chunks.dimensions);
	task.minima_b = b.filter.minima();
	task.scalars = scalars;
	task.levels = lists.levels();
	return task;
}

void
Set::order_by_radii(const NearTask &task, cudaStream_t stream)
{
	launch_radius_keys(task, filter.keys(), stream);
	filter.order_by_keys(stream);
	lists.restart(stream);
}

uint32_t *
Set::begin_counts(bool continues, cudaStream_t stream)
{
	if (store_.rows == 0)
		return nullptr;
	if (continues && counts_)
		return counts_.get();
	counts_.make_room(context_.budget, capacity(), "allocating device memory for the rows' counts");
	check_cuda(cudaMemsetAsync(counts_.get(), 0, store_.rows * sizeof(uint32_t), stream),
			   "clearing the rows' counts");
	return counts_.get();
}

Join::Join(Context &context, const FastedProblem &problem, Set &a, Set &b)
	: context_(context), sides_{&a, &a == &b ? nullptr : &b},
	counting_(fasted_counts_rows(&problem)),
	k_(problem.output == FASTED_OUTPUT_NEAREST ? problem.k : 0)
{
	bool		may_be_negative = fasted_metric_rules(context.options.metric)->negative_product;

	if (!(problem.eps >= 0 || (problem.eps < 0 && may_be_negative))
		|| (uint64_t) problem.slice + problem.more_slices >= std::max(1u, problem.slices))
		fail(FASTED_INTERNAL, "eps or slice is out of range");
	if (problem.output == FASTED_OUTPUT_NEAREST)
		check_nearest(context, problem, &a == &b);
	else if (problem.components != nullptr)
		fail(FASTED_INTERNAL, "components require a join for nearest neighbors");
	if (!a.is_sealed() || !b.is_sealed())
		fail(FASTED_INTERNAL, "a set must be sealed before it is joined");
	if (context.joining)
		fail(FASTED_INTERNAL, "the context has an open join already");
	context_.begin_join(problem, a, b);
}

Join::~Join()
{
	context_.stop_join();
}

/* Continues the join without waiting.  Returns true if *batch and *status are a result for next. */
bool
Join::advance(FastedBatch *batch, FastedStatus *status)
{
	Rounds	   &rounds = context_.rounds;

	*status = FASTED_OK;
	if (!context_.begin_rounds())
		return false;
	if (rounds.next_batch(batch))
		return true;
	rounds.pump();
	if (rounds.next_batch(batch))
		return true;
	done_ = rounds.finished() && !context_.begin_second_rounds();
	*status = FASTED_DONE;
	return done_;
}

FastedStatus
Join::next(int timeout_ms, FastedBatch *batch)
{
	using Clock = std::chrono::steady_clock;
	Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
	FastedStatus status;

	*batch = FastedBatch{};
	for (int polls = 0; !advance(batch, &status); polls++)
	{
		if (Clock::now() >= deadline)
			return FASTED_AGAIN;
		if (polls > 50)
			usleep(20);
	}
	/* launch the next work before the caller processes these pairs */
	if (status == FASTED_OK)
		context_.rounds.pump();
	context_.note_prepare_time();
	return status;
}

/* The first call copies all counts, because each copy takes 10 us, however short. */
void
Join::counts(int side, uint64_t first_row, size_t nrows, uint32_t *counts)
{
	Set		   *set = side == 0 || side == 1 ? sides_[side] : nullptr;

	if (!counting_ || !done_ || set == nullptr || first_row > set->rows()
		|| nrows > set->rows() - first_row)
		fail(FASTED_INTERNAL, "counts are not available, or row numbers are out of range");
	if (nrows == 0)
		return;
	if (counts_[side].empty())
	{
		counts_[side].resize(set->rows());
		copy_and_wait(counts_[side].data(), set->counts(), set->rows(), cudaMemcpyDeviceToHost,
					  context_.rounds.stream(), "reading the rows' counts");
	}
	std::copy_n(counts_[side].begin() + first_row, nrows, counts);
}

void
Join::check_neighbors(uint64_t first_row, size_t nrows) const
{
	uint64_t	rows = sides_[0]->rows();

	if (k_ == 0 || !done_ || first_row > rows || nrows > rows - first_row)
		fail(FASTED_INTERNAL, "neighbors are not available, or row numbers are out of range");
}

/* The first call sorts the lists. */
void
Join::nearest(uint64_t first_row, size_t nrows, uint32_t *lengths, FastedNeighbor *neighbors)
{
	Set		   &a = *sides_[0];

	check_neighbors(first_row, nrows);
	if (a.rows() == 0)
		return;
	if (reader_ == nullptr)
		reader_.reset(new ListReader(a.lists, a.rows(), context_.rounds.stream()));
	reader_->read((uint32_t) first_row, (uint32_t) nrows, lengths, neighbors);
}

/* Uses the pair buffers of rounds, which are done, for the lists of the other device. */
void
Join::merge_lists(const Join &from, uint64_t first_row, size_t nrows)
{
	DeviceArray<FastedPair> &room = context_.rounds.idle_buffer(0);
	DeviceArray<FastedPair> &more = context_.rounds.idle_buffer(1);

	static_assert(sizeof(FastedPair) == sizeof(FastedNeighbor) && kMostSorted <= kMostAtOnce,
				  "the buffers have room for a list");
	check_neighbors(first_row, nrows);
	from.check_neighbors(first_row, nrows);
	if (nrows == 0)
		return;
	if (k_ > kMostSorted || from.k_ != k_ || from.reader_ == nullptr)
		fail(FASTED_INTERNAL, "the other join has no sorted lists of the same length");
	nearest(0, 0, nullptr, nullptr);
	see_memory_of(context_.device.ordinal, from.context_.device.ordinal);
	reader_->add(*from.reader_, (uint32_t) first_row, (uint32_t) nrows,
				 (FastedNeighbor *) room.get(), (uint32_t *) more.get(), room.size());
}

}								/* namespace fasted */
