/*-------------------------------------------------------------------------
 *
 * context.cu
 *	  A GPU, the memory that may be taken there, and what its joins share.
 *
 *-------------------------------------------------------------------------
 */
#include "schedule/context.h"

#include <algorithm>
#include <cstring>

#include "schedule/set.h"

namespace fasted
{

Tuning		tuning;

namespace
{

constexpr size_t kStagingBytes = (size_t) 2 << 20;
constexpr size_t kChunkBytes = (size_t) 32 << 20;	/* of staged rows */
constexpr size_t kDirectionBytes = (size_t) 32 << 20;	/* they stay in the L2 cache */
constexpr uint64_t kMostCandidates = (uint64_t) 8 << 20;	/* 320 MiB in all */

/* For tests: from here on short rows are of the greater width. */
constexpr uint32_t kForcedWide = 96;

/* Sets that must be there together at least, of one row each. */
constexpr int kLeastSets = 3;

/* Where a context may take what it likes, others should find something too. */
constexpr double kShareOfFree = 0.9;

}								/* namespace */

size_t
SetShape::bytes(uint64_t rows) const
{
	if (rows == 0)
		return 0;
	return chunks.bytes_for(rows) + Budget::rounded(rows * sizeof(uint32_t))
		+ (cosine ? Budget::rounded(rows * sizeof(double)) : 0)
		+ FilterRows::bytes(rows, row_bytes) + Form::bytes(chunks.dimensions, may_be_short);
}

Context::Context(const FastedOptions &options_, const Device &device_)
	: options(options_), device(device_)
{
	size_t		available;
	size_t		whole;
	uint64_t	rows = std::max<uint64_t>(1, kStagingBytes / (options.dimensions * sizeof(float)));

	check_cuda(cudaSetDevice(device.ordinal), "choosing the device");
	check_cuda(cudaMemGetInfo(&available, &whole), "asking for free device memory");
	budget.limit = (size_t) (available * kShareOfFree);
	if (options.device_memory_limit > 0)
	{
		budget.limit = std::min<size_t>(budget.limit, options.device_memory_limit);
		whole = std::min<size_t>(whole, options.device_memory_limit);
	}
	staging.set_size(tuning.staging_rows > 0 ? std::min(rows, tuning.staging_rows) : rows,
					 options.dimensions);
	choose_kernel();
	divide_memory(whole);
	upload.create();
}

Context::~Context()
{
	rounds.stop();
	if (upload != nullptr)
		(void) cudaStreamSynchronize(upload);
}

void
Context::choose_kernel()
{
	settings_.device = device;
	settings_.dimensions = options.dimensions;

	switch (options.filter)
	{
		case FASTED_FILTER_FP64:
			settings_.criterion = Criterion::kFp64;
			break;
		case FASTED_FILTER_AUTO:
			to_choose_ = !options.approximate;
			break;
		case FASTED_FILTER_FP16:
			break;
		case FASTED_FILTER_INT8:
			settings_.criterion = Criterion::kInt8;
			break;
	}
	if (settings_.criterion == Criterion::kInt8 && options.dimensions > kMostDimensionsInt8)
		fail(FASTED_UNSUPPORTED, "the INT8 filter takes at most %u dimensions",
			 kMostDimensionsInt8);
	if (settings_.criterion == Criterion::kInt8 && options.approximate)
		fail(FASTED_UNSUPPORTED, "the INT8 filter needs the exact recheck");
	if (options.approximate && is_cosine())
		fail(FASTED_UNSUPPORTED, "cosine distances need the exact recheck");
	if (options.approximate && options.filter != FASTED_FILTER_FP64)
		settings_.criterion = Criterion::kPaper;

	/* not yet chosen: FP16, the larger one */
	settings_.row_bytes = row_bytes(options.dimensions, precision_of(settings_.criterion));
	most_row_bytes_ = settings_.row_bytes;
	settings_.kernel = Kernel::kMma;
	if (settings_.criterion != Criterion::kFp64 && filter_wgmma_available(device)
		&& !(tuning.kernel && strcmp(tuning.kernel, "mma.sync") == 0))
		settings_.kernel = Kernel::kWgmma;
}

/* Short forms are chosen by samples, which are to be there for them, or forced. */
void
Context::plan_short_forms(size_t whole, bool may_sample)
{
	bool		force = options.prune == FASTED_PRUNE_FORCE;

	if (!to_choose_ || options.prune == FASTED_PRUNE_OFF
		|| (!force && (!may_sample || options.dimensions < 2 * kShortWidths[0])))
		return;
	settings_.short_bytes = std::min(kDirectionBytes, whole / 64);
	if (force)
		settings_.forced_width = kShortWidths[options.dimensions > kForcedWide ? 1 : 0];
	if (!force && FormChooser::short_bytes(settings_) > whole / 16)
		settings_.short_bytes = 0;
	else
		settings_.row_bytes = most_row_bytes_ = std::max(most_row_bytes_, kMostWidth);
}

/*
 * Divides the memory between candidates, samples, and rows.  Whether there are samples
 * does not depend on what others hold: slices must choose the same form everywhere.
 */
void
Context::divide_memory(size_t whole)
{
	bool		approximate = settings_.criterion == Criterion::kPaper;
	size_t		sampling = FormChooser::sample_bytes(settings_);
	bool		may_sample = !approximate && sampling <= whole / 16;
	size_t		fixed = may_sample ? sampling : 0;

	if (!approximate)
	{
		if (is_cosine())
			settings_.direction_bytes = std::min(kDirectionBytes, whole / 64);
		plan_short_forms(whole, may_sample);
		fixed += FormChooser::form_bytes(settings_);
	}
	candidates_ = tuning.candidates > 0 ? tuning.candidates : kMostCandidates;
	while (candidates_ > kMostAtOnce
		   && Rounds::bytes(device, candidates_, approximate) > budget.limit / 4)
		candidates_ /= 2;
	fixed += Rounds::bytes(device, candidates_, approximate);
	room_ = budget.limit > fixed ? budget.limit - fixed : 0;

	least_ = kLeastSets * shape_for(1).bytes(1);
	if (least_ > room_)
		fail(FASTED_OUT_OF_DEVICE_MEMORY,
			 "%.1f MiB of device memory are too few for rows of %u dimensions: "
			 "%.1f MiB are needed at least. Raise the limit on GPU memory, or "
			 "let other users of the GPU finish.",
			 budget.limit / 1048576.0, options.dimensions, (fixed + least_) / 1048576.0);
	chooser_.reset(new FormChooser(budget, settings_, may_sample));
}

/* Chunks are large, unless the memory is small or few rows are expected. */
SetShape
Context::shape_for(uint64_t expected_rows) const
{
	SetShape	shape = {{options.dimensions, 0}, most_row_bytes_, is_cosine(),
		settings_.short_bytes > 0};
	uint64_t	most = std::min<uint64_t>(kChunkBytes, budget.limit / 64);
	uint64_t	enough = std::max(expected_rows, staging.rows());

	while (shape.chunks.rows() * 2 * options.dimensions * sizeof(float) <= most
		   && (expected_rows == 0 || shape.chunks.rows() < enough))
		shape.chunks.shift++;
	return shape;
}

bool
Context::fits(const uint64_t *rows, int nsets) const
{
	size_t		sum = 0;

	for (int i = 0; i < nsets; i++)
	{
		if (rows[i] > FASTED_MAX_ROWS)
			return false;
		sum += shape_for(rows[i]).bytes(rows[i]);
	}
	return sum <= room_;
}

void
Context::remove(Set *set)
{
	sets_.erase(std::remove(sets_.begin(), sets_.end(), set), sets_.end());
}

size_t
Context::room_beside(const Set *set) const
{
	size_t		taken = 0;

	for (const Set *other : sets_)
	{
		if (other != set)
			taken += other->bytes_granted();
	}
	return room_ > taken ? room_ - taken : 0;
}

bool
Context::keep_to_what_is_held()
{
	size_t		held = 0;

	for (const Set *set : sets_)
		held += set->bytes_granted();
	if (held > 0)
		room_ = std::min(room_, std::max(held, least_));
	return held > 0;
}

/* No more room for candidates than there can be, but some for each warp. */
void
Context::allocate_rounds(const FastedProblem &problem, const Set &a, const Set &b)
{
	uint64_t	warps = device.multiprocessors * 16;	/* each holds a chunk */
	uint64_t	pairs = (uint64_t) a.rows() * b.rows() / (&a == &b ? 2 : 1);
	uint64_t	enough = pairs + (warps << kLargeChunkShift);
	uint64_t	candidates = candidates_;

	if (tuning.candidates == 0)
	{
		enough = (enough + kMostAtOnce - 1) / kMostAtOnce * kMostAtOnce;
		candidates = std::min(candidates, enough);
	}
	rounds.allocate(budget, settings_, candidates, problem.output == FASTED_OUTPUT_PAIRS);
}

std::shared_ptr<Form>
Context::choose_form(const FastedProblem &problem, const Set &a, const Set &b)
{
	FormRequest request = {a.formed_rows(), b.formed_rows(), &a == &b, problem.slices > 1,
		problem.eps, to_choose_, precision_of(settings_.criterion)};
	Choice		choice;

	if (tuning.always_choose)
		request.least_pairs = request.least_saved = 0;
	/* first radii are upper bounds, of distances of rows as they are quantised */
	request.whole = problem.output == FASTED_OUTPUT_NEAREST;
	choice = chooser_->choose(request, rounds.stream());
	if (choice.sampled)
	{
		sampled_ = true;
		sampled_pairs_ += choice.pairs;
		sampled_candidates_ += choice.candidates;
	}
	return choice.form;
}

/* Brings both sets into one form, and has their thresholds. */
void
Context::prepare(const FastedProblem &problem, Set &a, Set &b)
{
	cudaStream_t stream = rounds.stream();

	note_prepare_time();
	prepare_begun_.record(stream);
	if (settings_.criterion == Criterion::kPaper)
	{
		a.take_paper_form(stream);
		b.take_paper_form(stream);
	}
	else
	{
		std::shared_ptr<Form> form = choose_form(problem, a, b);

		for (Set *set : {&a, &b})
		{
			set->take_form(form, stream);
			set->set_eps(problem.eps, stream);
		}
		settings_.criterion = criterion_of(form->precision());
		settings_.row_bytes = form->row_bytes(options.dimensions);
		filter_width_ = form->kind().width;
		rounds.set_filter(settings_.criterion, settings_.row_bytes);
	}
	prepare_ended_.record(stream);
	prepare_timed_ = false;
}

/* Where there is no pair, rounds have nothing to do. */
void
Context::begin_join(const FastedProblem &problem, Set &a, Set &b)
{
	JoinTask	task = {};
	bool		self = &a == &b;

	allocate_rounds(problem, a, b);
	a.wait_for_rows(rounds.stream());
	b.wait_for_rows(rounds.stream());
	if (a.rows() > 0 && b.rows() > 0 && (!self || a.rows() > 1))
		prepare(problem, a, b);
	task.a = a.side();
	task.b = b.side();
	task.self = self;
	task.eps = problem.eps;
	task.slice = problem.slice;
	task.slices = std::max(1u, problem.slices);
	task.keep_pairs = problem.output == FASTED_OUTPUT_PAIRS;
	if (problem.output == FASTED_OUTPUT_COUNTS)
	{
		task.a.counts = a.clear_counts(rounds.stream());
		task.b.counts = self ? task.a.counts : b.clear_counts(rounds.stream());
	}
	rounds.begin(task, rounds.stream());
	joining = true;
}

void
Context::stop_join() noexcept
{
	if (!rounds.finished())
		rounds.stop();
	joining = false;
}

void
Context::note_prepare_time()
{
	if (prepare_timed_ || !prepare_ended_.done("quantising rows"))
		return;
	prepare_seconds_ += prepare_ended_.seconds_since(prepare_begun_);
	prepare_timed_ = true;
}

void
Context::stats(FastedStats *stats) const
{
	const RoundTotals &totals = rounds.totals();

	snprintf(stats->engine, sizeof(stats->engine), "cuda");
	snprintf(stats->device, sizeof(stats->device), "%s", device.name);
	snprintf(stats->kernel, sizeof(stats->kernel), "%s, sm_%d",
			 settings_.kernel == Kernel::kWgmma ? "wgmma" : "mma.sync", device.capability);
	snprintf(stats->filter, sizeof(stats->filter), "%s",
			 settings_.criterion == Criterion::kFp64 ? "fp64"
			 : settings_.criterion == Criterion::kInt8 ? "int8" : "fp16");
	stats->dimensions = options.dimensions;
	stats->filter_dimensions = filter_width_;
	stats->filter_sampled = sampled_;
	stats->sampled_pairs = sampled_pairs_;
	stats->sampled_candidates = sampled_candidates_;
	stats->units_total = totals.units_total;
	stats->units_done = totals.units_done;
	stats->candidates = totals.candidates;
	stats->pairs = totals.pairs;
	stats->redone_units = totals.redone_units;
	stats->host_bytes = staging.bytes() + rounds.pinned_bytes();
	stats->device_bytes = budget.peak;
	stats->prepare_seconds = prepare_seconds_;
	stats->filter_seconds = totals.filter_seconds;
	stats->refine_seconds = totals.refine_seconds;
	stats->device_seconds = totals.device_seconds;
}

}								/* namespace fasted */
