/*-------------------------------------------------------------------------
 *
 * join.cu
 *	  One join: rows in, start, pairs out.
 *
 * A row goes to the device once: through one of three small pinned buffers,
 * while the caller fills the next, or straight from the caller's memory, if that
 * was lent.  If all rows fit, start quantises them and the join is one sequence of
 * rounds.  If not, what was staged is dropped after the caller has read it back,
 * and panels.h says which panels come next.
 *
 *-------------------------------------------------------------------------
 */
#include "schedule/join.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace fasted
{

Tuning		tuning;

namespace
{

constexpr size_t kStagingBytes = (size_t) 2 << 20;
constexpr size_t kLendBytes = (size_t) 256 << 20;	/* of rows: page-locking pays */
constexpr size_t kChunkBytes = (size_t) 32 << 20;	/* of staged rows */
constexpr uint64_t kMostCandidates = (uint64_t) 8 << 20;	/* 320 MiB in all */

/* Where a join may take what it likes, others should find something too. */
constexpr double kShareOfFree = 0.9;

double
now()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

}								/* namespace */

Join::Join(const FastedProblem &problem, const Device &device)
	: problem_(problem), device_(device)
{
	size_t		available;
	size_t		whole;

	check_cuda(cudaSetDevice(device_.ordinal), "choosing the device");
	check_cuda(cudaMemGetInfo(&available, &whole), "asking for free device memory");
	budget_.limit = (size_t) (available * kShareOfFree);
	if (problem.device_memory_limit > 0)
		budget_.limit = std::min<size_t>(budget_.limit, problem.device_memory_limit);

	choose_kernel();
	choose_shape();

	upload_.create();
	for (StagingBuffer &buffer : staging_)
		buffer.rows.allocate(staging_rows() * problem.dimensions, "allocating staging buffers");
	if (settings_.row_bytes > 0 && settings_.criterion != Criterion::kPaper)
		quantiser_.allocate(budget_, problem.dimensions);
	rounds_.reset(new Rounds);
}

Join::~Join()
{
	/* Nothing may read staged rows any more. */
	if (upload_ != nullptr)
		(void) cudaStreamSynchronize(upload_);
	withdraw();
}

uint64_t
Join::staging_rows() const
{
	uint64_t	rows = std::max<uint64_t>(1, kStagingBytes / (problem_.dimensions * sizeof(float)));

	return tuning.staging_rows > 0 ? std::min(rows, tuning.staging_rows) : rows;
}

void
Join::choose_kernel()
{
	settings_.device = device_;
	settings_.eps = problem_.eps;
	settings_.dimensions = problem_.dimensions;

	switch (problem_.filter)
	{
		case FASTED_FILTER_FP64:
			settings_.kernel = Kernel::kFp64;
			return;
		case FASTED_FILTER_AUTO:
			to_choose_ = !problem_.approximate;
			break;
		case FASTED_FILTER_FP16:
			break;
		case FASTED_FILTER_INT8:
			settings_.criterion = Criterion::kInt8;
			break;
	}
	if (settings_.criterion == Criterion::kInt8 && problem_.dimensions > kMostDimensionsInt8)
		fail(FASTED_UNSUPPORTED, "the INT8 filter takes at most %u dimensions",
			 kMostDimensionsInt8);
	if (settings_.criterion == Criterion::kInt8 && problem_.approximate)
		fail(FASTED_UNSUPPORTED, "the INT8 filter needs the exact recheck");
	if (problem_.approximate)
		settings_.criterion = Criterion::kPaper;

	/* not yet chosen: FP16, the larger one */
	settings_.row_bytes = row_bytes(problem_.dimensions, precision_of(settings_.criterion));
	settings_.kernel = Kernel::kMma;
	if (filter_wgmma_available(device_)
		&& !(tuning.kernel && strcmp(tuning.kernel, "mma.sync") == 0))
		settings_.kernel = Kernel::kWgmma;
}

/* Divides the memory between candidates and rows. */
void
Join::choose_shape()
{
	uint64_t	staged_bytes = (uint64_t) problem_.dimensions * sizeof(float);
	bool		approximate = settings_.criterion == Criterion::kPaper;
	uint64_t	chunk_rows = 1;
	uint64_t	most = std::min<uint64_t>(kChunkBytes, budget_.limit / 32);
	uint64_t	enough = std::max(problem_.expected_rows, staging_rows());
	size_t		fixed = Quantiser::bytes(problem_.dimensions);
	size_t		choosing = to_choose_ ? choice_bytes(device_, problem_.dimensions) : 0;

	candidates_ = tuning.candidates > 0 ? tuning.candidates : kMostCandidates;
	while (candidates_ > kMostAtOnce
		   && Rounds::bytes(device_, candidates_, approximate) > budget_.limit / 4)
		candidates_ /= 2;
	fixed += Rounds::bytes(device_, candidates_, approximate);
	if (choosing <= budget_.limit / 16)
		fixed += choosing;
	room_ = budget_.limit > fixed ? budget_.limit - fixed : 0;

	while (chunk_rows * 2 * staged_bytes <= most
		   && (problem_.expected_rows == 0 || chunk_rows < enough))
		chunk_rows *= 2;

	shape_.dimensions = problem_.dimensions;
	shape_.row_bytes = settings_.row_bytes;
	shape_.shift = 0;
	while (chunk_rows > (uint64_t) 1 << shape_.shift)
		shape_.shift++;
	if (2 * shape_.bytes(1) > room_)
		fail(FASTED_OUT_OF_DEVICE_MEMORY,
			 "%.1f MiB of device memory are too few for rows of %u dimensions: "
			 "%.1f MiB are needed at least. Raise the limit on GPU memory, or "
			 "let other users of the GPU finish.",
			 budget_.limit / 1048576.0, problem_.dimensions,
			 (fixed + 2 * shape_.bytes(1)) / 1048576.0);
	for (RowStore &side : sides_)
		side.set_shape(shape_);
}

/*
 * Before start: device memory for so many further rows, or for fewer; 0: no more
 * from here on.
 */
uint64_t
Join::grow(uint64_t count)
{
	uint64_t	there = filling_->rows;
	uint64_t	end = there + count;

	if (full_)
		return 0;
	if (end <= granted_)
		return count;

	/* As far as the chunk goes, where that fits: to find out takes 10 us. */
	end = (end + shape_.chunk_rows() - 1) / shape_.chunk_rows() * shape_.chunk_rows();
	if (end > FASTED_MAX_ROWS || shape_.bytes(end) > room_)
	{
		while (count > 0 && shape_.bytes(there + count) > room_)
			count /= 2;
		count = std::min<uint64_t>(count, FASTED_MAX_ROWS - there);
		end = there + count;
	}
	if (count == 0)
	{
		full_ = true;
		return 0;
	}

	cudaError_t error = filling_->try_grow(budget_, end);

	/* Others took the memory: go on with what this join holds. */
	if (error == cudaErrorMemoryAllocation && there > 0)
	{
		full_ = true;
		room_ = std::min(room_, shape_.bytes(there));
		return 0;
	}
	check_cuda(error, "allocating device memory for rows", shape_.chunk_bytes());
	granted_ = end;
	return count;
}

bool
Join::stage(float **rows, size_t *capacity)
{
	StagingBuffer &buffer = staging_[buffers_used_ % kBuffers];
	uint64_t	count = buffer.rows.size() / shape_.dimensions;

	if (started_)
	{
		count = std::min(count, expected_ - filling_->rows);
		if (count == 0)
			fail(FASTED_INTERNAL, "no row is wanted");
	}
	else if ((count = grow(count)) == 0)
		return false;

	buffer.sent.wait("copying rows to the device");
	*rows = buffer.rows.get();
	*capacity = count;
	return true;
}

/* Rows that there is device memory for. */
void
Join::send(const float *rows, size_t nrows)
{
	while (nrows > 0)
	{
		uint64_t	together;
		float	   *to = filling_->at(filling_->rows, &together);
		size_t		count = std::min<uint64_t>(nrows, together);

		check_cuda(cudaMemcpyAsync(to, rows, count * shape_.dimensions * sizeof(float),
								   cudaMemcpyHostToDevice, upload_),
				   "copying rows to the device");
		filling_->rows += count;
		rows += count * shape_.dimensions;
		nrows -= count;
	}
	if (!started_)
		rows_ = filling_->rows;
}

void
Join::commit(size_t nrows)
{
	StagingBuffer &buffer = staging_[buffers_used_ % kBuffers];

	send(buffer.rows.get(), nrows);
	buffer.sent.record(upload_);
	buffers_used_++;
}

/* To lock pages takes as long as to copy 200 MB; where that fails, rows are staged. */
bool
Join::lend(void *memory, size_t bytes)
{
	if (started_ || lent_ != nullptr)
		fail(FASTED_INTERNAL, "memory is lent before the rows come, one piece at a time");
	if (!tuning.always_lend
		&& problem_.expected_rows * problem_.dimensions * sizeof(float) < kLendBytes)
		return false;
	if (cudaHostRegister(memory, bytes, cudaHostRegisterDefault) != cudaSuccess)
	{
		(void) cudaGetLastError();
		return false;
	}
	lent_ = memory;
	return true;
}

void
Join::withdraw() noexcept
{
	if (lent_ == nullptr)
		return;
	(void) cudaStreamSynchronize(upload_);
	(void) cudaHostUnregister(lent_);
	(void) cudaGetLastError();
	lent_ = nullptr;
}

size_t
Join::put(const float *rows, size_t nrows)
{
	if (started_ || lent_ == nullptr)
		fail(FASTED_INTERNAL, "rows are put after memory was lent, and before the start");

	size_t		count = grow(nrows);

	send(rows, count);
	return count;
}

void
Join::settle()
{
	check_cuda(cudaStreamSynchronize(upload_), "copying rows to the device");
}

void
Join::read_back(uint64_t first_row, size_t nrows, float *rows)
{
	if (started_ || first_row + nrows > filling_->rows)
		fail(FASTED_INTERNAL, "rows that are not staged cannot be read back");
	settle();
	while (nrows > 0)
	{
		uint64_t	together;
		const float *from = filling_->at(first_row, &together);
		size_t		count = std::min<uint64_t>(nrows, together);

		check_cuda(cudaMemcpy(rows, from, count * shape_.dimensions * sizeof(float),
							  cudaMemcpyDeviceToHost),
				   "reading rows back");
		rows += count * shape_.dimensions;
		first_row += count;
		nrows -= count;
	}
}

/* Panels of even size, as large as two of them may be. */
void
Join::choose_panels()
{
	uint64_t	low = 1;
	uint64_t	high = rows_;

	settle();
	sides_[0].clear();
	while (low < high)
	{
		uint64_t	middle = low + (high - low + 1) / 2;

		if (2 * shape_.bytes(middle) <= room_)
			low = middle;
		else
			high = middle - 1;
	}
	panels_ = (uint32_t) ((rows_ + low - 1) / low);
	panel_rows_ = (rows_ + panels_ - 1) / panels_;
	panels_ = (uint32_t) ((rows_ + panel_rows_ - 1) / panel_rows_);
	for (RowStore &side : sides_)
	{
		check_cuda(side.try_grow(budget_, panel_rows_),
				   "allocating device memory for a panel of rows",
				   shape_.bytes(panel_rows_));
		side.finish(budget_, panel_rows_, upload_);
	}
	schedule_ = PanelSchedule(panels_, false);
}

uint64_t
Join::panel_count(uint32_t panel) const
{
	return std::min(panel_rows_, rows_ - panel_first(panel));
}

void
Join::start(uint64_t total_rows)
{
	bool		resident = (total_rows == sides_[0].rows);
	uint64_t	pairs = 0;
	uint64_t	warps = device_.multiprocessors * 16;	/* each holds a chunk */

	if (started_ || total_rows < sides_[0].rows)
		fail(FASTED_INTERNAL, "the number of rows is wrong");
	rows_ = total_rows;
	started_ = true;
	if (rows_ < 2)
	{
		panels_ = 1;
		return;					/* step_ is kDone */
	}

	if (resident)
	{
		panel_rows_ = rows_;
		sides_[0].finish(budget_, rows_, upload_);
		schedule_ = PanelSchedule(1, true);
	}
	else
		choose_panels();

	/* No more room for candidates than there can be, but some for each warp. */
	pairs = rows_ * (rows_ - 1) / 2;
	if (tuning.candidates == 0)
	{
		uint64_t	enough = pairs + (warps << kLargeChunkShift);

		enough = (enough + kMostAtOnce - 1) / kMostAtOnce * kMostAtOnce;
		candidates_ = std::min(candidates_, enough);
	}
	rounds_->allocate(budget_, settings_, candidates_,
					  problem_.output == FASTED_OUTPUT_PAIRS);

	if (resident)
		prepare(sides_[0]);
	step_ = schedule_.next();
	begin_step();
}

/* INT8 or FP16, once the first rows are there. */
void
Join::choose_precision(const RowStore &store)
{
	if (!to_choose_)
		return;
	to_choose_ = false;
	choice_ = choose_filter(budget_, settings_, quantiser_, store.table(), upload_);
	settings_.criterion = choice_.criterion;
	settings_.row_bytes = row_bytes(problem_.dimensions, precision_of(choice_.criterion));
	rounds_->set_filter(settings_.criterion, settings_.row_bytes);
}

/* Quantises a panel that has been staged. */
void
Join::prepare(RowStore &store)
{
	if (settings_.row_bytes == 0)
		return;
	prepare_begun_.record(upload_);
	choose_precision(store);

	if (settings_.criterion == Criterion::kPaper)
	{
		/* the flag was cleared in another stream */
		check_cuda(cudaStreamSynchronize(rounds_->stream()), "clearing a flag");
		launch_quantise_paper(store.table(), settings_.row_bytes,
							  (__half *) store.room().values, store.room().thresholds,
							  rounds_->overflow(), upload_);
		launch_minima(store.room().thresholds, store.rows, Precision::kFp16,
					  store.room().minima, upload_);
	}
	else
		quantiser_.quantise(settings_.criterion, store.table(), settings_.eps, store.room(),
							upload_);
	prepare_ended_.record(upload_);
	prepare_timed_ = false;
}

void
Join::note_prepare_time()
{
	if (prepare_timed_ || !prepare_ended_.done("quantising rows"))
		return;
	prepare_seconds_ += prepare_ended_.seconds_since(prepare_begun_);
	prepare_timed_ = true;
}

void
Join::begin_step()
{
	if (step_.kind == PanelStep::kJoin)
		rounds_->begin(sides_[step_.side_a].side(), sides_[step_.side_b].side(),
					   step_.side_a == step_.side_b, upload_);
}

/*
 * Gets on as far as possible without waiting.  True: there is something to say.
 */
bool
Join::advance(FastedBatch *batch, FastedStatus *status)
{
	for (;;)
	{
		switch (step_.kind)
		{
			case PanelStep::kDone:
				*status = FASTED_DONE;
				return true;

			case PanelStep::kLoad:
				filling_ = &sides_[step_.side_b];
				expected_ = panel_count(step_.b);
				if (!asked_)
				{
					filling_->rows = 0;
					filling_->first_row = panel_first(step_.b);
					asked_ = true;
				}
				if (filling_->rows < expected_)
				{
					batch->first_row = filling_->first_row + filling_->rows;
					batch->row_count = expected_ - filling_->rows;
					*status = FASTED_WANT_ROWS;
					return true;
				}
				asked_ = false;
				prepare(*filling_);
				break;

			case PanelStep::kJoin:
				if (rounds_->take(batch))
				{
					*status = FASTED_OK;
					return true;
				}
				rounds_->pump();
				if (rounds_->take(batch))
				{
					*status = FASTED_OK;
					return true;
				}
				if (!rounds_->finished())
					return false;
				break;
		}

		step_ = schedule_.next();
		begin_step();
		note_prepare_time();
	}
}

FastedStatus
Join::next(int timeout_ms, FastedBatch *batch)
{
	double		deadline = now() + timeout_ms * 1e-3;
	FastedStatus status;

	*batch = FastedBatch{};
	if (!started_)
		fail(FASTED_INTERNAL, "next before start");
	for (int polls = 0; !advance(batch, &status); polls++)
	{
		if (now() >= deadline)
			return FASTED_AGAIN;
		if (polls > 50)
			usleep(20);
	}
	/* give the device its next work before the caller turns to these pairs */
	if (status == FASTED_OK)
		rounds_->pump();
	note_prepare_time();
	return status;
}

void
Join::stats(FastedStats *stats) const
{
	const RoundTotals &totals = rounds_->totals();

	snprintf(stats->engine, sizeof(stats->engine), "cuda");
	snprintf(stats->device, sizeof(stats->device), "%s", device_.name);
	snprintf(stats->kernel, sizeof(stats->kernel), "%s, sm_%d",
			 settings_.kernel == Kernel::kWgmma ? "wgmma"
			 : settings_.kernel == Kernel::kMma ? "mma.sync" : "fma",
			 device_.capability);
	snprintf(stats->filter, sizeof(stats->filter), "%s",
			 settings_.kernel == Kernel::kFp64 ? "fp64"
			 : settings_.criterion == Criterion::kInt8 ? "int8" : "fp16");
	stats->filter_sampled = choice_.sampled;
	stats->sampled_pairs = choice_.pairs;
	stats->sampled_candidates = choice_.criterion == Criterion::kInt8
		? choice_.candidates_int8 : choice_.candidates_fp16;
	stats->rows = rows_;
	stats->dimensions = problem_.dimensions;
	stats->panels = panels_;
	stats->units_total = totals.units_total;
	stats->units_done = totals.units_done;
	stats->candidates = totals.candidates;
	stats->pairs = totals.pairs;
	stats->redone_units = totals.redone_units;
	for (const StagingBuffer &buffer : staging_)
		stats->host_bytes += buffer.rows.size() * sizeof(float);
	stats->host_bytes += rounds_->pinned_bytes();
	stats->device_bytes = budget_.peak;
	stats->prepare_seconds = prepare_seconds_;
	stats->filter_seconds = totals.filter_seconds;
	stats->refine_seconds = totals.refine_seconds;
	stats->device_seconds = totals.device_seconds;
}

}								/* namespace fasted */
