/*-------------------------------------------------------------------------
 *
 * nearest_search.cu
 *	  The search for nearest neighbours: initial radii, and the strategy of the scan.
 *
 *-------------------------------------------------------------------------
 */
#include "schedule/nearest_search.h"

#include <algorithm>
#include <cmath>

#include "schedule/context.h"

namespace fasted
{

namespace
{

/* Number of probes of all rows, and maximum number of probes of the rows with the largest radii. */
constexpr uint32_t kProbes = 2;
constexpr uint32_t kMostRepeated = 6;

/* At most this many parts of the rows, the last ones, are probed again. */
constexpr uint32_t kMostPartsAgain = kCountParts * 6 / 32;

/* A part is probed again if its rows have this many times as many candidates as those before it. */
constexpr double kMuchWorse = 3;

/* Maximum number of bounds from which a typical bound is computed. */
constexpr uint32_t kSampledBounds = 1023;

/*
 * Cost model of a self-join, with n columns.  Suppose the radius of a row would leave r candidates in
 * all columns.  The number of candidates is proportional to the number of columns until the row has
 * been compared with k n / r columns; then its radius shrinks.  It does not shrink before the end of
 * the first block of columns.  After a row has been compared with a share f of the columns, r is at
 * most kMoreLater k / f.  In a symmetric scan, radii shrink slightly, which leaves kLeftSymmetric of
 * the candidates.
 */
constexpr double kMoreLater = 1.2;
constexpr double kLeftSymmetric = 0.6;
constexpr double kFirstBlock = 4096;
constexpr double kLeastSample = 1.0 / 64;
constexpr double kMostSample = 1.0 / 3;
constexpr uint32_t kLeastRows = 8192;

/* Cost of a candidate (storing, rechecking, and adding it to lists): bytes per second, and ns. */
constexpr double kNearBytesPerSecond = 5.0e12;
constexpr double kNearEach = 0.7;

/* For tests: always use a symmetric scan, so that this case is covered. */
#ifdef FASTED_TEST_SYMMETRIC
constexpr bool kAlwaysSymmetric = true;
#else
constexpr bool kAlwaysSymmetric = false;
#endif

/* Returns the estimated candidates of a row that is compared with `columns` of n columns. */
double
candidates_at(double columns, double n, double k, double r)
{
	double		block = std::min(columns, std::max(kFirstBlock, std::min(n, k * n / r)));

	return r * block / n + k * std::log(columns / block);
}

/* The average over all rows; r of each part of the rows is derived from its candidates. */
double
candidates_at(double columns, double n, double k, const CandidateCounts &counts)
{
	double		sum = 0;

	for (uint32_t part = 0; part < kCountParts; part++)
	{
		double		r = counts.of_part[part] / CandidateCounts::share(part);

		sum += candidates_at(columns, n, k, std::max(k, std::min(r, n))) / kCountParts;
	}
	return sum;
}

/* The same for a symmetric scan, if no row has more than `most` in all columns. */
double
candidates_symmetric(double most, const CandidateCounts &counts)
{
	double		sum = 0;

	for (uint32_t part = 0; part < kCountParts; part++)
		sum += std::min(counts.of_part[part], most * CandidateCounts::share(part));
	return kLeftSymmetric * sum;
}

/*
 * Returns the number of last parts of the rows, which are sorted by radius, whose rows have many more
 * candidates than the others.  A further probe of their rows pays.
 */
uint32_t
parts_to_probe_again(const CandidateCounts &candidates, uint32_t k)
{
	double		others = 0;
	double		share = 0;
	uint32_t	part = 0;

	if (kAlwaysSymmetric)
		return kMostPartsAgain;
	for (; part < kCountParts; part++)
	{
		double		of_part = CandidateCounts::share(part);

		if (part >= kCountParts - kMostPartsAgain
			&& candidates.of_part[part] / of_part > kMuchWorse * std::max((double) k, others / share))
			break;
		others += candidates.of_part[part];
		share += of_part;
	}
	return kCountParts - part;
}

/*
 * Returns the fastest plan of a self-join, given the candidates that a symmetric scan would have.  The
 * filter of such a scan takes `once` per row, and 2 f times that in addition to compare all rows with
 * a share f of the rows first.  divided: the join is a slice, which has no second scan.
 */
ScanPlan
fastest_plan(const RoundSettings &settings, const FormKind &kind, uint32_t rows, uint32_t k,
			 const CandidateCounts &candidates, bool divided)
{
	double		n = rows;
	double		once = 0.5 * n * nanoseconds_to_multiply(settings, kind, false);
	double		each = 8.0 * settings.dimensions / kNearBytesPerSecond * 1e9 + kNearEach;
	double		best = 2 * once + each * candidates_at(n, n, k, candidates);
	ScanPlan	plan;

	if (kAlwaysSymmetric && k % 2 == 0)
		return {Scan::kSymmetric};
	if (kAlwaysSymmetric && !divided)
		return {Scan::kSampleFirst, std::min(rows, kThresholdPad)};
	if (kAlwaysSymmetric || rows < kLeastRows)
		return plan;
	for (double part = kLeastSample; !divided && part <= kMostSample; part *= 1.2)
	{
		double		later = candidates_symmetric(kMoreLater * k / part, candidates);
		double		cost = once * (1 + 2 * part)
			+ each * (candidates_at(part * n, n, k, candidates) + later);
		uint32_t	sample = (uint32_t) (n * part) / kThresholdPad * kThresholdPad + kThresholdPad;

		if (cost >= best || k > sample / 4)
			continue;
		best = cost;
		plan = {Scan::kSampleFirst, std::min(rows, sample)};
	}
	if (once + each * candidates_symmetric(n, candidates) < best)
		plan = {Scan::kSymmetric};
	return plan;
}

/* Returns the median of the finite bounds of some rows, or NaN if there are none (or no components). */
double
typical_bound(const FastedProblem &problem, uint32_t rows)
{
	uint32_t	sampled = problem.components != nullptr ? std::min(rows, kSampledBounds) : 0;
	std::vector<double> bounds;

	for (uint32_t i = 0; i < sampled; i++)
	{
		double		bound = problem.components->bound[fasted_sample_row(i, sampled, rows)];

		if (std::isfinite(bound))
			bounds.push_back(bound);
	}
	if (bounds.empty())
		return NAN;
	std::nth_element(bounds.begin(), bounds.begin() + bounds.size() / 2, bounds.end());
	return bounds[bounds.size() / 2];
}

}								/* namespace */

size_t
NearestSearch::bytes()
{
	return Budget::rounded(sizeof(NearScalars)) + Budget::rounded(kRadiusBuffer * sizeof(float));
}

double
NearestSearch::typical_distance(const FastedProblem &problem, const Set &a, const Set &b,
								cudaStream_t stream)
{
	double		distance = typical_bound(problem, a.rows());

	if (!std::isnan(distance))
		return std::min(std::max(fasted_metric_rules(settings_.metric)->least, distance), problem.eps);
	if (!sampled_radii_)
		sampled_radii_.allocate(budget_, kRadiusBuffer, "allocating device memory for a sample");
	distance = find_typical_radius(a.formed_rows().rows, b.formed_rows().rows, &a == &b, problem.k,
								   sampled_radii_.get(), stream);
	return distance < problem.eps ? distance : problem.eps;
}

void
NearestSearch::begin(const FastedProblem &problem, Set &a, Set &b, const JoinTask &task,
					 cudaStream_t stream)
{
	if (!scalars_)
		scalars_.allocate(budget_, 1, "allocating device memory for thresholds");
	stream_ = stream;
	a_ = &a;
	b_ = &b;
	content_a_ = a.content();
	content_b_ = b.content();
	task_ = task;
	plan_ = {};
	phase_ = Phase::kReady;
	launched_ = skipped_ = probes_left_ = repeated_ = 0;
	by_cell_ = merges_ = false;
	update_task();
	task_.near.radii_are_small = problem.continues || !std::isnan(typical_bound(problem, a.rows()));
	launch_usual_rho(task_.near, stream_);
	if (problem.continues || problem.components != nullptr
		|| !may_have_initial_radii(a.rows(), b.rows(), problem.k))
	{
		choose_plan(all_candidates(a.rows()));
		return;
	}
	phase_ = Phase::kProbe;
	/* if a has few rows, sorting both sides by cell takes longer than it saves */
	if (problem.partitions == nullptr && a.rows() >= b.rows() / 2)
	{
		phase_ = Phase::kAssignA;
		probes_left_ = problem.k <= kMostMerged ? kProbes - 1 : 0;
	}
}

bool
NearestSearch::begin_next_slice(const FastedProblem &problem, const Set &a, const Set &b,
								const JoinTask &task)
{
	if (!problem.continues || problem.slices <= 1 || content_a_ != a.content()
		|| content_b_ != b.content())
		return false;
	task_ = task;
	update_task();
	task_.near.radii_are_small = true;
	phase_ = Phase::kReady;
	return true;
}

SearchStatus
NearestSearch::advance()
{
	if (phase_ == Phase::kScan)
		return SearchStatus::kScanning;
	if (phase_ != Phase::kReady)
	{
		if (!part_.done("computing initial radii") || launch_part())
			return SearchStatus::kPreparing;
		enter_next_phase();
		if (phase_ != Phase::kReady)
			return SearchStatus::kPreparing;
	}
	phase_ = Phase::kScan;
	set_scan();
	return SearchStatus::kReady;
}

bool
NearestSearch::begin_second_scan()
{
	if (plan_.scan != Scan::kSampleFirst)
		return false;
	plan_ = {Scan::kSymmetric};
	a_->order_by_radii(task_.near, stream_);
	update_task();
	task_.near.symmetric = task_.self = task_.near.radii_are_small = true;
	return true;
}

void
NearestSearch::end(bool forget)
{
	phase_ = Phase::kScan;
	if (plan_.scan == Scan::kSampleFirst)
		plan_ = {};
	if (forget)
		content_a_ = content_b_ = 0;
}

/* Returns the task of a probe, of all rows or of those that are not skipped. */
NearTask
NearestSearch::probe_task() const
{
	NearTask	task = task_.near;

	task.merges = merges_;
	for (NearSide *side : {&task.a, &task.b})
	{
		side->table.order += skipped_;
		side->table.rows -= skipped_;
		side->values = (const uint8_t *) side->values + (size_t) skipped_ * task.row_bytes;
		side->norms += skipped_;
		side->keys = by_cell_ ? side->keys + skipped_ : nullptr;
	}
	return task;
}

uint32_t
NearestSearch::rows_of_phase() const
{
	if (phase_ == Phase::kEstimate)
		return 0;
	return phase_ == Phase::kAssignB ? task_.near.b.table.rows : task_.near.a.table.rows - skipped_;
}

/* Launches the current phase for some more rows.  Returns false if no rows are left. */
bool
NearestSearch::launch_part()
{
	NearTask	task = probe_task();
	uint32_t	count = std::min(rows_of_phase() - launched_, rows_per_launch(task));
	bool		of_b = phase_ == Phase::kAssignB;

	if (launched_ == rows_of_phase())
		return false;
	if (phase_ == Phase::kProbe)
		launch_probe(task, launched_, count, stream_);
	else if (phase_ == Phase::kRadii)
		launch_initial_radii(task, launched_, count, stream_);
	else
		launch_cell_keys(task, of_b, launched_, count, (of_b ? b_ : a_)->filter.keys() + skipped_,
						 stream_);
	part_.record(stream_);
	launched_ += count;
	return true;
}

/* Called when the current phase is complete for all of its rows. */
void
NearestSearch::enter_next_phase()
{
	uint32_t	rows = task_.near.a.table.rows;
	uint32_t	k = task_.near.table.k;
	uint32_t	parts;

	launched_ = 0;
	switch (phase_)
	{
		case Phase::kAssignA:
			if (a_ != b_)
			{
				phase_ = Phase::kAssignB;
				break;
			}
			[[fallthrough]];
		case Phase::kAssignB:
			sort_by_cell();
			phase_ = Phase::kProbe;
			break;
		case Phase::kProbe:
			merges_ = by_cell_ && k <= kMostMerged;
			phase_ = probes_left_ > 0 ? Phase::kAssignA : Phase::kRadii;
			probes_left_ -= probes_left_ > 0;
			break;
		case Phase::kRadii:
			if (may_be_symmetric() && rows >= kLeastToCount)
				estimate_candidates();
			else
				choose_plan(all_candidates(rows));
			break;
		case Phase::kEstimate:
			parts = parts_to_probe_again(candidates_of(hits_.get(), rows), k);
			if (repeated_ < kMostRepeated && parts > 0)
				probe_last_parts(parts);
			else
				choose_plan(candidates_of(hits_.get(), rows));
			break;
		case Phase::kReady:
		case Phase::kScan:
			break;
	}
}

void
NearestSearch::sort_by_cell()
{
	a_->filter.order_by_keys(stream_);
	if (a_ != b_)
		b_->filter.order_by_keys(stream_);
	update_task();
	by_cell_ = true;
	launch_cells(probe_task(), stream_);
}

/* Repeats the phases for the rows of the last parts of a set that is sorted by radius. */
void
NearestSearch::probe_last_parts(uint32_t parts)
{
	uint32_t	rows = a_->rows();

	repeated_++;
	/* there must be at least kProbeColumns rows */
	parts = std::max(parts, kProbeColumns / (rows / kCountParts) + 1);
	skipped_ = rows - rows / kCountParts * parts;
	phase_ = Phase::kAssignA;
	check_cuda(cudaMemsetAsync(a_->filter.keys(), 0, skipped_ * sizeof(uint32_t), stream_),
			   "ordering rows");
}

/* Sorts rows by radius, and counts the candidates that a sample would have in a symmetric scan. */
void
NearestSearch::estimate_candidates()
{
	NearTask   &near = task_.near;

	phase_ = Phase::kEstimate;
	a_->order_by_radii(near, stream_);
	update_task();
	near.symmetric = true;
	launch_near_thresholds(near, stream_);
	launch_count(near, stream_);
	if (hits_.size() == 0)
		hits_.allocate(kCountParts, "allocating device memory for a sample");
	copy_async(hits_.get(), near.scalars->hits, kCountParts, cudaMemcpyDeviceToHost, stream_,
			   "counting candidates of a sample");
	part_.record(stream_);
}

/* Returns whether a symmetric scan is possible.  In a partition, each row is compared with all rows. */
bool
NearestSearch::may_be_symmetric() const
{
	return a_ == b_ && task_.partitions == nullptr && !task_.near.form.is_additive();
}

/* Chooses the strategy.  A symmetric scan uses the order by radius, if rows are sorted by it. */
void
NearestSearch::choose_plan(const CandidateCounts &candidates)
{
	bool		by_radius = phase_ == Phase::kEstimate;

	if (may_be_symmetric())
		plan_ = fastest_plan(settings_, a_->filter.form()->kind(), a_->rows(), task_.near.table.k,
							 candidates, task_.slices > 1);
	if (by_cell_ && !(by_radius && plan_.scan == Scan::kSymmetric))
		restore_order();
	phase_ = Phase::kReady;
}

/* Restores the order of rows for comparing every row with all others. */
void
NearestSearch::restore_order()
{
	std::shared_ptr<Form> form = a_->filter.form();

	b_->filter.set_interleaved(true);
	if (a_ != b_)
		a_->filter.set_interleaved(false);
	b_->encode(form, stream_);
	a_->encode(form, stream_);
	update_task();
}

/* Updates the task after the order of rows has changed. */
void
NearestSearch::update_task()
{
	bool		small = task_.near.radii_are_small;

	task_.near = a_->near_task(*b_, scalars_.get());
	task_.near.radii_are_small = small;
	task_.a = a_->side();
	task_.b = b_->side();
	task_.a.quantised.thresholds = task_.near.a.thresholds;
}

/*
 * Sets the task of the first scan.  A symmetric scan visits slices in reverse order: rows are sorted
 * by radius, so that the last slices take longest.  No device then waits for the others at the end.
 */
void
NearestSearch::set_scan()
{
	uint32_t	first = task_.slices - task_.end_slice;

	task_.near.symmetric = task_.self = plan_.scan == Scan::kSymmetric;
	if (plan_.scan == Scan::kSampleFirst)
		task_.b.table.rows = task_.b.quantised.rows = plan_.sample;
	if (!task_.self)
		return;
	task_.end_slice = task_.slices - task_.slice;
	task_.slice = first;
}

}								/* namespace fasted */
