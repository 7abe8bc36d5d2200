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
constexpr size_t kChunkBytes = (size_t) 32 << 20;	/* maximum size of a chunk of rows */
constexpr size_t kDirectionBytes = (size_t) 32 << 20;	/* fits into the L2 cache */
constexpr uint64_t kMostCandidates = (uint64_t) 8 << 20;	/* all buffers take 320 MiB */

/* For tests: if rows have more dimensions, the larger reduced dimension is used. */
constexpr uint32_t kForcedWide = 96;

/* Minimum numbers of pairs and rows for folding thresholds into rows, and for large tiles. */
constexpr double kLeastToFold = 5e8;
constexpr uint64_t kLeastRowsToFold = 8192;

/* There must be memory for at least this many sets of one row each. */
constexpr int kLeastSets = 3;

/* Nearest neighbours: number of looks at all rows, and maximum number of looks at the worst rows. */
constexpr uint32_t kLooks = 2;
constexpr uint32_t kMostWorstLooks = 6;

/* Maximum number of bounds from which a typical bound is computed. */
constexpr uint32_t kSampledBounds = 1023;

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
	reading->clear();
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
			settings_.criterion = Criterion::kFp64;
			break;
		case FASTED_FILTER_AUTO:
			to_choose_ = true;
			break;
		case FASTED_FILTER_FP16:
			break;
		case FASTED_FILTER_INT8:
			settings_.criterion = Criterion::kInt8;
			break;
	}
	if (is_of_bits(options.metric))
	{
		settings_.criterion = Criterion::kInt8;
		to_choose_ = false;
	}
	else if (settings_.criterion == Criterion::kInt8 && options.dimensions > kMostDimensionsInt8)
		fail(FASTED_UNSUPPORTED, "The INT8 filter supports at most %u dimensions.\n"
			 "Use \"SET fasted.filter = auto\".",
			 kMostDimensionsInt8);

	/* if the format is not chosen yet, assume FP16, which is larger */
	settings_.row_bytes = row_bytes(options.dimensions, precision_of(settings_.criterion));
	/* rows of bits: a byte for each bit of all words */
	if (is_of_bits(options.metric))
		settings_.row_bytes = 64 * settings_.dimensions;
	most_row_bytes_ = settings_.row_bytes;
	settings_.kernel = Kernel::kMma;
	if (settings_.criterion != Criterion::kFp64 && filter_wgmma_available(device)
		&& !(tuning.kernel && strcmp(tuning.kernel, "mma.sync") == 0))
		settings_.kernel = Kernel::kWgmma;
}

/* Returns the size of rows into which thresholds may be folded: small INT8 or projected rows. */
static uint32_t
bytes_to_fold(const RoundSettings &settings, bool int8)
{
	uint32_t	bytes = row_bytes(settings.dimensions, Precision::kInt8);

	if (is_of_bits(settings.metric))
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
	if (is_of_bits(options.metric) && force)
		settings_.forced_width = std::min(settings_.row_bytes, kShortWidths[0]);
	if (!to_choose_ || options.metric == FASTED_METRIC_INNER_PRODUCT || options.prune == FASTED_PRUNE_OFF
		|| (!force && (!may_sample || options.dimensions < 2 * kShortWidths[0])))
		return;
	settings_.projected_bytes = std::min(kDirectionBytes, whole / 64);
	if (force)
		settings_.forced_width = kShortWidths[options.dimensions > kForcedWide ? 1 : 0];
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

	size_t		fixed = fixed_ + round_bytes();

	room_ = memory > fixed ? memory - fixed : 0;
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

	fixed_ = (may_sample ? sampling : 0) + Budget::rounded(sizeof(NearScalars))
		+ Budget::rounded(kRadiusRoom * sizeof(float)) + bytes_of<OrderHash>();
	if (options.metric == FASTED_METRIC_COSINE || options.element == FASTED_ELEMENT_DOUBLE)
		settings_.direction_bytes = std::min(kDirectionBytes, whole / 64);
	plan_projected_forms(whole, may_sample);
	fixed_ += FormChooser::form_bytes(settings_);
	fold_bytes_ = bytes_to_fold(settings_, to_choose_ || settings_.criterion == Criterion::kInt8);
	candidates_ = tuning.candidates > 0 ? tuning.candidates : kMostCandidates;
	divide(budget.limit);
	least_ = kLeastSets * shape_for(1).bytes(1);
	if (least_ > room_)
		fail(FASTED_OUT_OF_DEVICE_MEMORY,
			 "Rows of %u dimensions require at least %.1f MiB of GPU memory, but only "
			 "%.1f MiB can be used.\nIncrease fasted.gpu_memory_limit, or try again when "
			 "other processes use less GPU memory.",
			 options.dimensions, (fixed_ + round_bytes() + least_) / 1048576.0,
			 budget.limit / 1048576.0);
	chooser_.reset(new FormChooser(budget, settings_, may_sample));
}

/* Returns the shape of a set.  Chunks are large unless memory is small or few rows are expected. */
SetShape
Context::shape_for(uint64_t expected_rows) const
{
	SetShape	shape = {{settings_.dimensions, 0, settings_.doubles, settings_.metric},
		most_row_bytes_, has_squares(settings_.metric), settings_.projected_bytes > 0, fold_bytes_};
	uint64_t	most = std::min<uint64_t>(kChunkBytes, budget.limit / 64);
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
	return sum <= room_;
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
Context::keep_to_what_is_left()
{
	size_t		room = room_;
	size_t		available;
	size_t		whole;

	if (std::none_of(sets_.begin(), sets_.end(), [](const Set *set) { return set->bytes_granted() > 0; }))
		return false;
	check_cuda(cudaMemGetInfo(&available, &whole), "asking for free device memory");
	divide(budget.used + (size_t) (available * kShareOfFree));
	room_ = std::min(room, std::max(room_, least_));
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

/*
 * Returns the median of the finite bounds of some rows, or NaN if there are none (or no components).
 */
double
Context::typical_bound(const FastedProblem &problem, const Set &a) const
{
	uint32_t	sampled = problem.components != nullptr ? std::min(a.rows(), kSampledBounds) : 0;
	std::vector<double> bounds;

	for (uint32_t i = 0; i < sampled; i++)
	{
		double		bound = problem.components->bound[fasted_sample_row(i, sampled, a.rows())];

		if (std::isfinite(bound))
			bounds.push_back(bound);
	}
	if (bounds.empty())
		return NAN;
	std::nth_element(bounds.begin(), bounds.begin() + bounds.size() / 2, bounds.end());
	return bounds[bounds.size() / 2];
}

/* Returns the eps for choosing a filter; for nearest neighbours, a typical distance of theirs. */
double
Context::choice_eps(const FastedProblem &problem, const Set &a, const Set &b)
{
	double		radius;

	if (problem.output != FASTED_OUTPUT_NEAREST)
		return problem.eps;
	radius = typical_bound(problem, a);
	if (!std::isnan(radius))
		return std::min(options.metric == FASTED_METRIC_INNER_PRODUCT ? radius : std::max(0.0, radius),
						problem.eps);
	if (!sampled_radii_)
		sampled_radii_.allocate(budget, kRadiusRoom, "allocating device memory for a sample");
	radius = find_typical_radius(a.formed_rows().rows, b.formed_rows().rows, &a == &b, problem.k,
								 sampled_radii_.get(), rounds.stream());
	return radius < problem.eps ? radius : problem.eps;
}

std::shared_ptr<Form>
Context::choose_form(const FastedProblem &problem, const Set &a, const Set &b)
{
	FormRequest request = {a.formed_rows(), b.formed_rows(), &a == &b, problem.slices > 1,
		choice_eps(problem, a, b), to_choose_, precision_of(settings_.criterion)};
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
		set->take_form(form, stream);
		if (!nearest)
			set->filter.set_eps(problem.eps, stream);
		if (may_fold(problem, a, b))
			set->filter.fold(stream);
	}
	settings_.criterion = criterion_of(form->precision());
	settings_.row_bytes = form->row_bytes(settings_.dimensions);
	stats_.filter_dimensions = form->kind().width;
	if (is_of_bits(options.metric) && form->kind().width >= options.dimensions)
		stats_.filter_dimensions = 0;
	rounds.set_filter(settings_.criterion, settings_.row_bytes);
	prepare_ended_.record(stream);
	prepare_timed_ = false;
}

void
Context::take_groups(const FastedProblem &problem, Set &a, Set &b)
{
	bool		self = &a == &b;

	if (problem.partitions != nullptr
		&& !fasted_partitions_are_valid(problem.partitions, problem.npartitions, a.rows(), b.rows(), self))
		fail(FASTED_INTERNAL, "partitions are not in ascending order");
	a.take_groups(problem, 0, rounds.stream());
	if (!self)
		b.take_groups(problem, 1, rounds.stream());
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

/* Returns whether this is another slice of the previous join, so that row orders are reused. */
bool
Context::is_next_slice(const FastedProblem &problem, const Set &a, const Set &b) const
{
	return problem.continues && problem.slices > 1 && look_.number + 1 == joins_
		&& look_.content_a == a.content() && look_.content_b == b.content();
}

/* Starts the steps before the rounds. */
void
Context::begin_look(const FastedProblem &problem, Set &a, Set &b)
{
	if (is_next_slice(problem, a, b))
	{
		take_near_task();
		return;
	}
	if (problem.continues && &a == &b)
		fail(FASTED_INTERNAL, "there are no neighbor lists to continue");
	look_.form.reset();
	prepare(problem, a, b);
	if (problem.components != nullptr)
	{
		a.take_cores(*problem.components, 0, rounds.stream());
		b.take_cores(*problem.components, 1, rounds.stream());
	}
	if (!scalars_)
		scalars_.allocate(budget, 1, "allocating device memory for thresholds");
	look_.form = a.formed_rows().form;
	look_.either = false;
	take_near_task();
	launch_usual_rho(look_.task.near, rounds.stream());
	prepare_timed_ = true;		/* preparation ends when the rows have first radii */
	look_.timed = true;
	/* if a has few rows, sorting both sides by keys takes longer than it saves */
	if (!problem.continues && problem.components == nullptr
		&& wants_first_radii(a.rows(), b.rows(), problem.k))
		look_.step = problem.partitions == nullptr && a.rows() >= b.rows() / 2
			? LookStep::kKeysOfA : LookStep::kLook;
	if (look_.step == LookStep::kKeysOfA && problem.k <= kMostMerged)
		look_.more = kLooks - 1;
}

/* Starts a join for nearest neighbours: prepares the lists, and the steps before the rounds. */
void
Context::begin_nearest(const FastedProblem &problem, Set &a, Set &b)
{
	bool		compared = a.rows() > 0 && b.rows() > (&a == &b ? 1 : 0);

	a.begin_lists(problem, rounds.stream());
	b.take_ranks(problem.ranks, rounds.stream());
	look_.a = &a;
	look_.b = &b;
	look_.second_set = nullptr;
	look_.next = look_.good = look_.more = look_.worst = 0;
	look_.ordered = look_.again = false;
	look_.met = problem.continues || !std::isnan(typical_bound(problem, a));
	look_.task = task_for(problem, a, b);
	look_.step = LookStep::kBegin;
	if (compared)
		begin_look(problem, a, b);
	else
		look_.task.b.table.rows = 0;	/* a single row is not compared with itself */
	look_.number = joins_;
	look_.content_a = a.content();
	look_.content_b = b.content();
	joining = true;
}

/* Updates the task after the order of rows has changed. */
void
Context::take_near_task()
{
	JoinTask   &task = look_.task;

	task.near = look_.a->near_task(*look_.b, scalars_.get());
	task.a = look_.a->side();
	task.b = look_.b->side();
	task.a.quantised.thresholds = task.near.a.thresholds;
}

/*
 * Reverses the order of slices.  If each pair is compared once, rows are sorted by radius, so that
 * the last slices take longest.  They are joined first, so that no device waits at the end.
 */
void
Context::take_worst_first()
{
	JoinTask   &task = look_.task;
	uint32_t	first = task.slices - task.end_slice;

	task.end_slice = task.slices - task.slice;
	task.slice = first;
}

/* Returns the task of the steps before the rounds, for all rows or the worst rows only. */
NearTask
Context::looking() const
{
	NearTask	task = look_.task.near;

	task.again = look_.again;
	for (NearSide *side : {&task.a, &task.b})
	{
		side->table.order += look_.good;
		side->table.rows -= look_.good;
		side->values = (const uint8_t *) side->values + (size_t) look_.good * task.row_bytes;
		side->norms += look_.good;
		side->keys = look_.ordered ? side->keys + look_.good : nullptr;
	}
	return task;
}

/* Launches the current step for some more rows.  Returns false if no rows are left. */
bool
Context::launch_piece(uint32_t rows)
{
	NearTask	near = looking();
	uint32_t	first = look_.next;
	uint32_t	count = std::min(rows - first, look_rows(near));

	if (first == rows)
		return false;
	if (look_.step == LookStep::kLook)
		launch_look(near, first, count, rounds.stream());
	else if (look_.step == LookStep::kRadii)
		launch_first_radii(near, first, count, rounds.stream());
	else
	{
		bool		of_b = look_.step == LookStep::kKeysOfB;

		launch_cell_keys(near, of_b, first, count,
						 (of_b ? look_.b : look_.a)->filter.keys() + look_.good, rounds.stream());
	}
	look_.piece.record(rounds.stream());
	look_.next += count;
	return true;
}

/* When all rows have keys: sorts rows by keys, for the computation of first radii. */
void
Context::take_keys()
{
	look_.a->filter.order_by_keys(rounds.stream());
	if (look_.a != look_.b)
		look_.b->filter.order_by_keys(rounds.stream());
	take_near_task();
	look_.ordered = true;
	launch_cells(looking(), rounds.stream());
}

/* Repeats the steps for the rows of the last parts of a set that is sorted by radius. */
void
Context::look_at_worst(uint32_t parts)
{
	uint32_t	rows = look_.a->rows();

	look_.worst++;
	/* there must be at least kLookColumns rows */
	parts = std::max(parts, kLookColumns / (rows / kCountParts) + 1);
	look_.good = rows - rows / kCountParts * parts;
	look_.next = 0;
	look_.step = LookStep::kKeysOfA;
	check_cuda(cudaMemsetAsync(look_.a->filter.keys(), 0, look_.good * sizeof(uint32_t),
							   rounds.stream()),
			   "ordering rows");
}

/* Self-join: sorts rows by radius, and estimates the candidates if each pair is compared once. */
void
Context::count_candidates()
{
	cudaStream_t stream = rounds.stream();
	NearTask   &near = look_.task.near;

	look_.a->order_by_radii(near, stream);
	take_near_task();
	near.either = true;
	launch_near_thresholds(near, stream);
	launch_count(near, stream);
	if (hits_.size() == 0)
		hits_.allocate(kCountParts, "allocating device memory for a sample");
	copy_async(hits_.get(), near.scalars->hits, kCountParts, cudaMemcpyDeviceToHost, stream,
			   "counting candidates of a sample");
	look_.piece.record(stream);
}

/* Restores the row order for comparing every row with all others. */
void
Context::order_as_before()
{
	look_.b->filter.set_interleaved(true);
	if (look_.a != look_.b)
		look_.a->filter.set_interleaved(false);
	look_.b->take_form(look_.form, rounds.stream());
	look_.a->take_form(look_.form, rounds.stream());
	take_near_task();
}

/* Returns how many rows of b to compare first: see rows_to_meet_first. */
uint32_t
Context::rows_first(const CandidateCounts &candidates)
{
	/* in a partitioned join, each row is compared with its whole partition */
	if (look_.form == nullptr || look_.a != look_.b || look_.task.partitions != nullptr
		|| look_.task.near.form.is_additive())
		return 0;
	if (look_.met)
		return look_.either ? kMeetNone : 0;
	return rows_to_meet_first(settings_, look_.form->kind(), look_.a->rows(),
							  look_.task.near.table.k, candidates, look_.task.slices > 1);
}

/* Starts the rounds: for the first rows of b; or, if first is kMeetNone, for each pair once. */
void
Context::begin_near_rounds(uint32_t first)
{
	JoinTask   &task = look_.task;

	look_.step = LookStep::kDone;
	if (look_.timed)
	{
		prepare_ended_.record(rounds.stream());
		look_.timed = prepare_timed_ = false;
	}
	look_.either = task.near.either = task.self = first == kMeetNone;
	task.near.met = look_.met;
	if (first > 0 && !task.self)
	{
		look_.second_set = look_.a;
		task.b.table.rows = task.b.quantised.rows = first;
	}
	note_order(task, *look_.a, *look_.b);
	if (task.self)
		take_worst_first();
	rounds.begin(task, rounds.stream());
	if (look_.second_set != nullptr)
		rounds.foresee(look_.second_set->rows());
}

/* Launches (a part of) the next step if the previous one is complete.  Returns true if all are. */
bool
Context::launch_next_step()
{
	uint32_t	a = look_.task.near.a.table.rows;
	CandidateCounts candidates = all_candidates(a);

	if (look_.step != LookStep::kBegin && !look_.piece.done("looking for near rows"))
		return false;
	switch (look_.step)
	{
		case LookStep::kKeysOfA:
		case LookStep::kKeysOfB:
			if (launch_piece(look_.step == LookStep::kKeysOfA ? a - look_.good : look_.task.near.b.table.rows))
				return false;
			look_.next = 0;
			if (look_.step == LookStep::kKeysOfA && look_.a != look_.b)
				look_.step = LookStep::kKeysOfB;
			else
			{
				take_keys();
				look_.step = LookStep::kLook;
			}
			return false;
		case LookStep::kLook:
			if (launch_piece(a - look_.good))
				return false;
			look_.next = 0;
			look_.again = look_.ordered && look_.task.near.table.k <= kMostMerged;
			look_.step = look_.more > 0 ? LookStep::kKeysOfA : LookStep::kRadii;
			if (look_.more > 0)
				look_.more--;
			return false;
		case LookStep::kRadii:
			if (launch_piece(a - look_.good))
				return false;
			if (look_.a == look_.b && a >= kLeastToCount && look_.task.partitions == nullptr
				&& !look_.task.near.form.is_additive())
			{
				count_candidates();
				look_.step = LookStep::kCount;
				return false;
			}
			break;
		case LookStep::kCount:
			candidates = candidates_of(hits_.get(), a);
			if (look_.worst < kMostWorstLooks && worst_parts(candidates, look_.task.near.table.k) > 0)
			{
				look_at_worst(worst_parts(candidates, look_.task.near.table.k));
				return false;
			}
			if (rows_first(candidates) == kMeetNone)
			{
				begin_near_rounds(kMeetNone);
				return true;
			}
			break;
		case LookStep::kBegin:
			begin_near_rounds(rows_first(candidates));
			return true;
		case LookStep::kDone:
			return true;
	}
	if (look_.ordered)
		order_as_before();
	begin_near_rounds(rows_first(candidates));
	return true;
}

bool
Context::begin_rounds()
{
	return look_.step == LookStep::kDone || launch_next_step();
}

/*
 * All rows have been compared with a sample of the set (the first rows in the interleaved order).
 * Now each pair of rows is compared once, for both of their lists.
 */
bool
Context::begin_second_rounds()
{
	JoinTask   &task = look_.task;

	if (look_.second_set == nullptr)
		return false;
	look_.second_set = nullptr;
	look_.a->order_by_radii(task.near, rounds.stream());
	take_near_task();
	task.near.either = task.self = task.near.met = true;
	rounds.begin(task, rounds.stream());
	return true;
}

/* Starts a join.  If there are no pairs, there are no rounds, either. */
void
Context::begin_join(const FastedProblem &problem, Set &a, Set &b)
{
	bool		self = &a == &b;

	joins_++;
	allocate_rounds(problem, a, b);
	a.wait_for_rows(rounds.stream());
	b.wait_for_rows(rounds.stream());
	take_groups(problem, a, b);
	if (problem.output == FASTED_OUTPUT_NEAREST)
	{
		begin_nearest(problem, a, b);
		return;
	}
	look_.form.reset();
	if (a.rows() > 0 && b.rows() > 0 && (!self || a.rows() > 1))
		prepare(problem, a, b);

	JoinTask	task = task_for(problem, a, b);

	task.self = self;
	begin_output(problem, a, b, &task);
	note_order(task, a, b);
	rounds.begin(task, rounds.stream());
	joining = true;
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
	if (!rounds.finished() || look_.step != LookStep::kDone)
		rounds.stop();
	look_.step = LookStep::kDone;
	look_.timed = false;
	look_.second_set = nullptr;
	joining = false;
}

void
Context::note_prepare_time()
{
	if (prepare_timed_ || !prepare_ended_.done("quantising rows"))
		return;
	stats_.prepare_seconds += prepare_ended_.seconds_since(prepare_begun_);
	prepare_timed_ = true;
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
			 fasted_metric_of_bits(options.metric) ? "bits"
			 : settings_.criterion == Criterion::kFp64 ? "fp64"
			 : settings_.criterion == Criterion::kInt8 ? "int8" : "fp16");
	stats->dimensions = options.dimensions;
	stats->host_bytes = staging.bytes() + rounds.pinned_bytes();
	stats->device_bytes = budget.peak;
}

}								/* namespace fasted */
