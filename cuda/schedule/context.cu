/*-------------------------------------------------------------------------
 *
 * context.cu
 *	  Contexts: choice of kernels, division of memory, and the steps that start a join.
 *
 *-------------------------------------------------------------------------
 */
#include "schedule/context.h"

#include <algorithm>
#include <cmath>
#include <cstring>


namespace fasted
{

Tuning		tuning;

namespace
{

constexpr size_t kStagingBytes = (size_t) 2 << 20;
/* Maximum size of a chunk of rows: large if so many are expected, because each allocation takes 0.1 ms. */
constexpr size_t kChunkBytes = (size_t) 256 << 20;
constexpr size_t kUnexpectedBytes = (size_t) 32 << 20;
constexpr size_t kDirectionBytes = (size_t) 32 << 20;	/* fits into the L2 cache */
constexpr uint64_t kMostCandidates = (uint64_t) 8 << 20;	/* all buffers take 320 MiB */

/* For tests: if rows have more dimensions, the larger reduced dimension is used. */
constexpr uint32_t kForcedWide = 96;

/* Minimum numbers of pairs and rows for folding thresholds into rows, and for large tiles. */
constexpr double kLeastToFold = 5e8;
constexpr uint64_t kLeastRowsToFold = 8192;

/* There must be memory for at least this many sets of one row each. */
constexpr int kLeastSets = 3;

/* Share of the free memory that a context may use; the rest is left to other processes. */
constexpr double kShareOfFree = 0.9;

bool
always_folds()
{
	return tuning.kernel != nullptr && strcmp(tuning.kernel, "folded") == 0;
}

}								/* namespace */

size_t
SetShape::bytes(uint64_t rows) const
{
	if (rows == 0)
		return 0;
	/*
	 * The two 32-bit arrays are counts and connections; or components and ranks.  Without
	 * partitions, the array of their labels has the sorted components.
	 */
	return chunks.bytes_for(rows) + 2 * Budget::rounded(rows * sizeof(uint32_t))
		+ RowLabels::bytes(rows) + PartitionTiles::bytes(rows)
		+ (squares ? Budget::rounded(rows * sizeof(double)) : 0)
		+ (neighbors > 0 ? bytes_of<NeighborLists>(rows, neighbors) : 0)
		+ bytes_of<FilterRows>(rows, row_bytes, fold_bytes_of(rows))
		+ Form::bytes(chunks.dimensions, may_be_projected);
}

uint32_t
SetShape::fold_bytes_of(uint64_t rows) const
{
	return rows >= kLeastRowsToFold || always_folds() ? fold_bytes : 0;
}

Context::Context(const FastedOptions &options_, const Device &device_)
	: options(options_), device(device_)
{
	size_t		available;
	size_t		whole;
	uint64_t	rows = std::max<uint64_t>(1, kStagingBytes / fasted_row_bytes(&options));

	check_cuda(cudaSetDevice(device.ordinal), "choosing the device");
	check_cuda(cudaMemGetInfo(&available, &whole), "asking for free device memory");
	budget.limit = (size_t) (available * kShareOfFree);
	if (options.device_memory_limit > 0)
	{
		budget.limit = std::min<size_t>(budget.limit, options.device_memory_limit);
		whole = std::min<size_t>(whole, options.device_memory_limit);
	}
	staging.set_size(tuning.staging_rows > 0 ? std::min(rows, tuning.staging_rows) : rows,
					 fasted_row_floats(&options));
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
	settings_.metric = options.metric;
	settings_.doubles = options.element != FASTED_ELEMENT_REAL;
	settings_.dimensions = fasted_row_floats(&options) / (settings_.doubles ? 2 : 1);

	switch (options.filter)
	{
		case FASTED_FILTER_FP64:
			settings_.precision = Precision::kFp32;
			break;
		case FASTED_FILTER_AUTO:
			to_choose_ = true;
			break;
		case FASTED_FILTER_FP16:
			break;
		case FASTED_FILTER_INT8:
			settings_.precision = Precision::kInt8;
			break;
	}
	if (rules_.of_bits)
	{
		settings_.precision = Precision::kInt8;
		to_choose_ = false;
	}
	else if (settings_.precision == Precision::kInt8 && options.dimensions > kMostDimensionsInt8)
		fail(FASTED_UNSUPPORTED, "The INT8 filter supports at most %u dimensions.\n"
			 "Use \"SET fasted.filter = auto\".",
			 kMostDimensionsInt8);

	/* if the format is not chosen yet, assume FP16, which is larger */
	settings_.row_bytes = row_bytes(options.dimensions, settings_.precision);
	/* rows of bits: a byte for each bit of all words */
	if (rules_.of_bits)
		settings_.row_bytes = 64 * settings_.dimensions;
	most_row_bytes_ = settings_.row_bytes;
	settings_.kernel = Kernel::kMma;
	if (settings_.precision != Precision::kFp32 && filter_wgmma_available(device)
		&& !(tuning.kernel && strcmp(tuning.kernel, "mma.sync") == 0))
		settings_.kernel = Kernel::kWgmma;
}

/* Returns the size of rows into which thresholds may be folded: small INT8 or projected rows. */
static uint32_t
bytes_to_fold(const RoundSettings &settings, bool int8)
{
	uint32_t	bytes = row_bytes(settings.dimensions, Precision::kInt8);

	if (fasted_metric_rules(settings.metric)->of_bits)
		bytes = std::min(settings.row_bytes, kMostFolded);
	if (settings.kernel != Kernel::kWgmma || !int8)
		return 0;
	return bytes <= kMostFolded ? bytes : settings.projected_bytes > 0 ? kMostWidth : 0;
}

/* Decides whether rows may be projected to reduced dimensions; this needs samples, or is forced. */
void
Context::plan_projected_forms(size_t whole, bool may_sample)
{
	bool		force = options.prune == FASTED_PRUNE_FORCE;

	/* for tests: rows of bits are folded to few bits */
	if (rules_.of_bits && force)
		settings_.forced_width = std::min(settings_.row_bytes, kProjectedWidths[0]);
	if (!to_choose_ || rules_.negative_product || options.prune == FASTED_PRUNE_OFF
		|| (!force && (!may_sample || options.dimensions < 2 * kProjectedWidths[0])))
		return;
	settings_.projected_bytes = std::min(kDirectionBytes, whole / 64);
	if (force)
		settings_.forced_width = kProjectedWidths[options.dimensions > kForcedWide ? 1 : 0];
	if (!force && FormChooser::projected_bytes(settings_) > whole / 16)
		settings_.projected_bytes = 0;
	else
		settings_.row_bytes = most_row_bytes_ = std::max(most_row_bytes_, kMostWidth);
}

size_t
Context::round_bytes() const
{
	return Rounds::bytes(device, candidates_);
}

/* Divides memory (bytes) between candidates and rows.  May reduce the number of candidates. */
void
Context::divide(size_t memory)
{
	while (candidates_ > kMostAtOnce && round_bytes() > memory / 4)
		candidates_ /= 2;

	size_t		reserved = reserved_ + round_bytes();

	row_memory_ = memory > reserved ? memory - reserved : 0;
}

/*
 * Divides the memory between candidates, samples and rows.  `whole` is the total memory of the
 * device, or the limit if that is less.  Whether samples are taken must not depend on the free
 * memory, because all processes must choose the same form for the slices of a join.
 */
void
Context::divide_memory(size_t whole)
{
	size_t		sampling = SampleJoin::bytes(settings_);
	bool		may_sample = sampling <= whole / 16;

	reserved_ = (may_sample ? sampling : 0) + NearestSearch::bytes() + bytes_of<OrderHash>();
	if (rules_.has_direction || options.element == FASTED_ELEMENT_DOUBLE)
		settings_.direction_bytes = std::min(kDirectionBytes, whole / 64);
	plan_projected_forms(whole, may_sample);
	reserved_ += FormChooser::form_bytes(settings_);
	fold_bytes_ = bytes_to_fold(settings_, to_choose_ || settings_.precision == Precision::kInt8);
	candidates_ = tuning.candidates > 0 ? tuning.candidates : kMostCandidates;
	divide(budget.limit);
	least_row_memory_ = kLeastSets * shape_for(1).bytes(1);
	if (least_row_memory_ > row_memory_)
		fail(FASTED_OUT_OF_DEVICE_MEMORY,
			 "Rows of %u dimensions require at least %.1f MiB of GPU memory, but only "
			 "%.1f MiB can be used.\nIncrease fasted.gpu_memory_limit, or try again when "
			 "other processes use less GPU memory.",
			 options.dimensions, (reserved_ + round_bytes() + least_row_memory_) / 1048576.0,
			 budget.limit / 1048576.0);
	chooser_.reset(new FormChooser(budget, settings_, may_sample));
}

/* Returns the shape of a set.  Chunks are large unless memory is small or few rows are expected. */
SetShape
Context::shape_for(uint64_t expected_rows) const
{
	SetShape	shape = {{settings_.dimensions, 0, settings_.doubles, settings_.metric},
		most_row_bytes_, has_squares(settings_.metric), settings_.projected_bytes > 0, fold_bytes_};
	uint64_t	most = std::min<uint64_t>(expected_rows > 0 ? kChunkBytes : kUnexpectedBytes,
										  budget.limit / 64);
	uint64_t	enough = std::max(expected_rows, staging.rows());

	while (shape.chunks.rows() * 2 * shape.chunks.row_bytes() <= most
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
	return sum <= row_memory_;
}

uint64_t
Context::rows_for_lists(uint64_t rows, uint32_t k) const
{
	uint64_t	a_row = fasted_row_bytes(&options) + most_row_bytes_ + sizeof(RowNorm)
		+ 6 * sizeof(uint32_t);

	return bytes_of<NeighborLists>(rows, k) / a_row + 1;
}

void
Context::remove(Set *set)
{
	sets_.erase(std::remove(sets_.begin(), sets_.end(), set), sets_.end());
}

size_t
Context::memory_for(const Set *set) const
{
	size_t		used = 0;

	for (const Set *other : sets_)
	{
		if (other != set)
			used += other->bytes_granted();
	}
	return row_memory_ > used ? row_memory_ - used : 0;
}

bool
Context::shrink_to_free_memory()
{
	size_t		before = row_memory_;
	size_t		available;
	size_t		whole;

	if (std::none_of(sets_.begin(), sets_.end(), [](const Set *set) { return set->bytes_granted() > 0; }))
		return false;
	check_cuda(cudaMemGetInfo(&available, &whole), "asking for free device memory");
	divide(budget.used + (size_t) (available * kShareOfFree));
	row_memory_ = std::min(before, std::max(row_memory_, least_row_memory_));
	return true;
}

/* Allocates buffers for rounds, at most for all pairs plus one chunk per warp. */
void
Context::allocate_rounds(const FastedProblem &problem, const Set &a, const Set &b)
{
	uint64_t	warps = device.multiprocessors * 16;	/* each holds a chunk */
	bool		nearest = problem.output == FASTED_OUTPUT_NEAREST;
	uint64_t	pairs = (uint64_t) a.rows() * b.rows() / (&a == &b && !nearest ? 2 : 1);
	uint64_t	enough = pairs + (warps << kLargeChunkShift);
	uint64_t	candidates = candidates_;

	if (tuning.candidates == 0)
	{
		enough = (enough + kMostAtOnce - 1) / kMostAtOnce * kMostAtOnce;
		candidates = std::min(candidates, enough);
	}
	rounds.allocate(budget, settings_, candidates,
					nearest || fasted_returns_pairs(&problem));
}

std::shared_ptr<Form>
Context::choose_form(const FastedProblem &problem, const Set &a, const Set &b)
{
	double		eps = problem.output != FASTED_OUTPUT_NEAREST ? problem.eps
		: search_.typical_distance(problem, a, b, rounds.stream());
	FormRequest request = {a.formed_rows(), b.formed_rows(), &a == &b, problem.slices > 1,
		eps, to_choose_, settings_.precision};
	Choice		choice;

	/* rows of a usually are rows of b, whose form was chosen for an earlier join */
	if (problem.components != nullptr)
		request.a.form = request.b.form;
	if (tuning.always_choose)
		request.least_pairs = request.least_saved = 0;
	else if (problem.partitions != nullptr
			 && fasted_partition_pairs(problem.partitions, problem.npartitions, &a == &b)
			 < request.least_pairs)
		request.least_pairs = HUGE_VAL;
	request.folds = may_fold(problem, a, b);
	choice = chooser_->choose(request, rounds.stream());
	if (choice.sampled)
	{
		stats_.filter_sampled = true;
		stats_.sampled_pairs += choice.pairs;
		stats_.sampled_candidates += choice.candidates;
	}
	return choice.form;
}

/* Returns whether thresholds may be folded into rows.  Small joins do not use this. */
bool
Context::may_fold(const FastedProblem &problem, const Set &a, const Set &b) const
{
	if (settings_.kernel != Kernel::kWgmma || fold_bytes_ == 0
		|| problem.output == FASTED_OUTPUT_NEAREST || problem.partitions != nullptr)
		return false;
	return (double) a.rows() * b.rows() / (&a == &b ? 2 : 1) >= kLeastToFold
		|| always_folds();
}

/* Quantises both sets in the same form, and computes their thresholds. */
void
Context::prepare(const FastedProblem &problem, Set &a, Set &b)
{
	cudaStream_t stream = rounds.stream();

	note_prepare_time();
	prepare_begun_.record(stream);

	std::shared_ptr<Form> form = choose_form(problem, a, b);
	bool		nearest = problem.output == FASTED_OUTPUT_NEAREST;

	b.filter.set_interleaved(nearest && problem.partitions == nullptr
							 && problem.components == nullptr);
	if (&a != &b)
		a.filter.set_interleaved(false);
	for (Set *set : {&a, &b})
	{
		set->encode(form, stream);
		if (!nearest)
			set->filter.set_eps(problem.eps, stream);
		if (may_fold(problem, a, b))
			set->filter.fold(stream);
	}
	settings_.precision = form->precision();
	settings_.row_bytes = form->row_bytes(settings_.dimensions);
	stats_.filter_dimensions = form->kind().width;
	if (rules_.of_bits && form->kind().width >= options.dimensions)
		stats_.filter_dimensions = 0;
	rounds.set_filter(settings_.precision, settings_.row_bytes);
	prepare_ended_.record(stream);
	prepare_time_ = PrepareTime::kEnded;
}

void
Context::set_partitions(const FastedProblem &problem, Set &a, Set &b)
{
	bool		self = &a == &b;

	if (problem.partitions != nullptr
		&& !fasted_partitions_are_valid(problem.partitions, problem.npartitions, a.rows(), b.rows(), self))
		fail(FASTED_INTERNAL, "partitions are not in ascending order");
	a.set_partitions(problem, 0, rounds.stream());
	if (!self)
		b.set_partitions(problem, 1, rounds.stream());
	partitions_.set(budget, problem);
}

JoinTask
Context::task_for(const FastedProblem &problem, const Set &a, const Set &b)
{
	JoinTask	task = {};

	task.a = a.side();
	task.b = b.side();
	task.eps = problem.eps;
	task.partitions = problem.partitions != nullptr ? &partitions_ : nullptr;
	task.components = problem.components != nullptr && problem.partitions == nullptr
		? &partitions_ : nullptr;
	task.slice = problem.slice;
	task.end_slice = problem.slice + problem.more_slices + 1;
	task.slices = std::max(1u, problem.slices);
	return task;
}

/* Prepares counts, connections or representatives, depending on the output of the join. */
void
Context::begin_output(const FastedProblem &problem, Set &a, Set &b, JoinTask *task)
{
	cudaStream_t stream = rounds.stream();
	bool		whole = task->self && task->slices == 1;

	task->keep_pairs = fasted_returns_pairs(&problem);
	if (fasted_counts_rows(&problem))
	{
		task->a.counts = a.begin_counts(problem.continues, stream);
		task->b.counts = task->self ? task->a.counts : b.begin_counts(problem.continues, stream);
	}
	if (problem.output == FASTED_OUTPUT_CONNECTIONS)
		task->connect = connections.begin(budget, problem, a.rows(), task->self ? 0 : b.rows(),
										  tuning.open_pairs, stream);
	if (problem.output == FASTED_OUTPUT_REPRESENTATIVES && whole
		&& representatives.begin(budget, problem, a.rows(), &task->keeping, stream))
		task->connect = connections.keep_all(budget, (uint64_t) a.rows() * (a.rows() - 1) / 2,
											 tuning.open_pairs);
}

/*
 * Starts a search for nearest neighbours: prepares the lists and, unless there are no pairs, the rows.
 * Returns false if the rounds can start at once, without a search.
 */
bool
Context::begin_search(const FastedProblem &problem, Set &a, Set &b, bool has_pairs)
{
	cudaStream_t stream = rounds.stream();

	a.begin_lists(problem, stream);
	b.set_ranks(problem.ranks, stream);
	if (!has_pairs || search_.begin_next_slice(problem, a, b, task_for(problem, a, b)))
		return has_pairs;
	if (problem.continues && &a == &b)
		fail(FASTED_INTERNAL, "there are no neighbor lists to continue");
	prepare(problem, a, b);
	if (problem.components != nullptr)
	{
		a.set_core_distances(*problem.components, 0, stream);
		b.set_core_distances(*problem.components, 1, stream);
	}
	search_.begin(problem, a, b, task_for(problem, a, b), stream);
	prepare_time_ = PrepareTime::kRunning;	/* until the rows have initial radii */
	return true;
}

bool
Context::begin_rounds()
{
	SearchStatus status = search_.advance();

	if (status != SearchStatus::kReady)
		return status == SearchStatus::kScanning;
	if (prepare_time_ == PrepareTime::kRunning)
	{
		prepare_ended_.record(rounds.stream());
		prepare_time_ = PrepareTime::kEnded;
	}
	note_order(search_.task(), search_.a(), search_.b());
	rounds.begin(search_.task(), rounds.stream());
	if (search_.plan().scan == Scan::kSampleFirst)
		rounds.expect(search_.a().rows());
	return true;
}

bool
Context::begin_second_rounds()
{
	if (!search_.begin_second_scan())
		return false;
	rounds.begin(search_.task(), rounds.stream());
	return true;
}

/* Starts a join.  If there are no pairs, there are no rounds, either. */
void
Context::begin_join(const FastedProblem &problem, Set &a, Set &b)
{
	bool		self = &a == &b;
	bool		has_pairs = a.rows() > 0 && b.rows() > (self ? 1 : 0);
	bool		nearest = problem.output == FASTED_OUTPUT_NEAREST;

	allocate_rounds(problem, a, b);
	a.wait_for_rows(rounds.stream());
	b.wait_for_rows(rounds.stream());
	set_partitions(problem, a, b);
	joining = true;
	if (nearest && begin_search(problem, a, b, has_pairs))
		return;
	search_.end(true);
	if (has_pairs)
		prepare(problem, a, b);

	JoinTask	task = task_for(problem, a, b);

	task.self = self;
	begin_output(problem, a, b, &task);
	note_order(task, a, b);
	rounds.begin(task, rounds.stream());
}

/* Updates the order hash of slices.  Most slices have the hash of the previous one. */
void
Context::note_order(const JoinTask &task, const Set &a, const Set &b)
{
	bool		folded = task.a.quantised.folded_a != nullptr && task.b.quantised.folded_b != nullptr;
	uint64_t	more = 2 * (uint64_t) settings_.row_bytes + folded;
	decltype(hashed_) these = {a.content(), a.filter.orders(), b.content(), b.filter.orders(),
		task.a.table.rows, task.b.table.rows, more};

	stats_.join_order = 0;
	if (task.slices <= 1)
		return;
	if (!order_hash_)
		order_hash_.allocate(budget);
	if (these != hashed_)
		hash_ = order_hash_.of(task.a.table, task.b.table, more, rounds.stream());
	hashed_ = these;
	stats_.join_order = hash_;
	stats_.order_hash = fasted_hash_order(stats_.order_hash, stats_.join_order);
}

void
Context::stop_join() noexcept
{
	if (!rounds.finished() || search_.is_preparing())
		rounds.stop();
	search_.end(false);
	if (prepare_time_ == PrepareTime::kRunning)
		prepare_time_ = PrepareTime::kNone;
	joining = false;
}

void
Context::note_prepare_time()
{
	if (prepare_time_ != PrepareTime::kEnded || !prepare_ended_.done("quantising rows"))
		return;
	stats_.prepare_seconds += prepare_ended_.seconds_since(prepare_begun_);
	prepare_time_ = PrepareTime::kNone;
}

void
Context::stats(FastedStats *stats) const
{
	*stats = stats_;
	fasted_add_stats(stats, &rounds.totals());
	snprintf(stats->engine, sizeof(stats->engine), "cuda");
	snprintf(stats->device, sizeof(stats->device), "%s", device.name);
	snprintf(stats->kernel, sizeof(stats->kernel), "%s%s, sm_%d",
			 settings_.kernel == Kernel::kWgmma ? "wgmma" : "mma.sync",
			 rounds.folded() ? " folded" : "", device.capability);
	snprintf(stats->filter, sizeof(stats->filter), "%s",
			 rules_.of_bits ? "bits"
			 : settings_.precision == Precision::kFp32 ? "fp64"
			 : settings_.precision == Precision::kInt8 ? "int8" : "fp16");
	stats->dimensions = options.dimensions;
	stats->host_bytes = staging.bytes() + rounds.pinned_bytes();
	stats->device_bytes = budget.peak;
}

}								/* namespace fasted */
