/*-------------------------------------------------------------------------
 *
 * choice.cu
 *	  Chooses the form in which two sets are joined: INT8, FP16, projected rows, or folded bits.
 *
 *-------------------------------------------------------------------------
 */
#include "schedule/choice.h"

#include <unistd.h>

#include <cmath>

namespace fasted
{

namespace
{

constexpr size_t kSampleCandidates = 262144;

/*
 * Cost model, measured on an NVIDIA H200 (bench/kernel): FP16 operations per second and
 * multiprocessor, and the minimum time for a pair of rows in ns.
 */
constexpr double kRateWgmma = 5.0e12;
constexpr double kRateMma = 2.4e12;
constexpr double kRateFp64 = 4.0e11;	/* FP64 operations */
constexpr double kTilePerPair = 1.2e-5;

/* The same if thresholds are folded into rows (row_table.h): bytes of a row per second. */
constexpr double kRateFolded = 6.5e12;
constexpr double kFoldedPerPair = 0.012;	/* minimum per pair, in ns times multiprocessors */

/* The smallest number of bits to which rows of bits are folded. */
constexpr uint32_t kLeastBits = 64;

/* Recheck of a candidate: bytes per second to read both rows, and a constant time in ns. */
constexpr double kBytesPerSecond = 3.0e12;
constexpr double kRecheckEach = 0.3;

/*
 * A form suits if rechecking false candidates takes at most kVainShare of the filter's time.
 * Up to kFewVain false candidates in a sample are not significant.
 */
constexpr double kVainShare = 0.25;
constexpr uint64_t kFewVain = 32;

/*
 * Minimum time for a pair of projected rows, in ns times multiprocessors.  It is the time for tiles
 * of 64 dimensions, where the products take the smaller part.
 */
constexpr double kShortPerPair = 0.025;

/* If this share of pairs are candidates, a larger reduced dimension does not help. */
constexpr double kHopeless = 0.1;

/* Returns the estimated time of the filter for a pair of rows, in ns. */

double
nanoseconds_to_multiply(const RoundSettings &settings, const FormKind &kind, bool folds)
{
	uint32_t	bytes = kind.row_bytes(settings.dimensions);
	Precision	precision = kind.precision;
	double		rate = precision == Precision::kFp32 ? kRateFp64
		: settings.kernel == Kernel::kWgmma ? kRateWgmma : kRateMma;
	double		operations = precision == Precision::kFp32 ? bytes / 2 : bytes;
	double		least = kind.width > 0 ? kShortPerPair / settings.device.multiprocessors
		: kTilePerPair;

	if (folds && precision == Precision::kInt8 && bytes <= kMostFolded)
		return std::max(fold_shape(bytes).bytes / kRateFolded * 1e9, kFoldedPerPair)
			/ settings.device.multiprocessors;

	/* FP16 needs as many operations per pair as a row has bytes; INT8 rows have half the bytes */
	return std::max(operations / (settings.device.multiprocessors * rate) * 1e9, least);
}

double
nanoseconds_to_recheck(const RoundSettings &settings)
{
	return (settings.doubles ? 16.0 : 8.0) * settings.dimensions / kBytesPerSecond * 1e9 + kRecheckEach;
}

double
nanoseconds_a_pair(const RoundSettings &settings, const FormKind &kind, bool folds,
				   double candidates)
{
	return nanoseconds_to_multiply(settings, kind, folds)
		+ candidates * nanoseconds_to_recheck(settings);
}

/*
 * Cost model of a self-join for nearest neighbours, with n columns.  Suppose the radius of a row
 * would leave r candidates in all columns.  The number of candidates is proportional to the number
 * of columns until the row has been compared with k n / r columns; then its radius shrinks.  It
 * does not shrink before the end of the first block of columns.  After a row has been compared
 * with a share f of the columns, r is at most kMoreLater k / f.  If pairs are compared once, radii
 * shrink slightly, which leaves kLeftOnce of the candidates.
 */
constexpr double kMoreLater = 1.2;
constexpr double kLeftOnce = 0.6;
constexpr double kFirstBlock = 4096;
constexpr double kLeastPart = 1.0 / 64;
constexpr double kMostPart = 1.0 / 3;
constexpr uint32_t kLeastToMeet = 8192;
constexpr double kMuchWorse = 3;

/* For tests: always compare each pair once, so that this case is covered. */
#ifdef FASTED_TEST_MEET_ONCE
constexpr bool kAlwaysOnce = true;
#else
constexpr bool kAlwaysOnce = false;
#endif

/* Cost of a candidate (storing, rechecking, and adding it to lists): bytes per second, and ns. */
constexpr double kNearBytesPerSecond = 5.0e12;
constexpr double kNearEach = 0.7;

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

/* The same if each pair is compared once, and no row has more than `most` in all columns. */
double
candidates_once(double most, const CandidateCounts &counts)
{
	double		sum = 0;

	for (uint32_t part = 0; part < kCountParts; part++)
		sum += std::min(counts.of_part[part], most * CandidateCounts::share(part));
	return kLeftOnce * sum;
}

/* Returns the rows from which to take a sample. */
SampledRows
rows_of(const FormRequest &request)
{
	return request.self ? SampledRows(request.a.rows) : SampledRows(request.a.rows, request.b.rows);
}

double
pairs_of(const FormRequest &request)
{
	double		n = request.a.rows.rows;

	return request.self ? 0.5 * n * (n - 1) : n * request.b.rows.rows;
}

}								/* namespace */

uint32_t
worst_parts(const CandidateCounts &candidates, uint32_t k)
{
	double		others = 0;
	double		share = 0;
	uint32_t	good = 0;

	/* a part is worse if its rows have many more candidates than the rows before it */
	for (uint32_t part = 0; part < kCountParts; part++)
	{
		double		of_part = CandidateCounts::share(part);

		if (part >= kCountParts - kWorstParts
			&& candidates.of_part[part] / of_part > kMuchWorse * std::max((double) k, others / share))
			break;
		others += candidates.of_part[part];
		share += of_part;
		good++;
	}
	return kAlwaysOnce ? kWorstParts : kCountParts - good;
}

/*
 * The filter takes `once` per row to compare each pair once, and 2 f times that in addition to
 * compare all rows with a share f of the rows first.
 */
uint32_t
rows_to_meet_first(const RoundSettings &settings, const FormKind &kind, uint32_t rows, uint32_t k,
				   const CandidateCounts &candidates, bool divided)
{
	double		n = rows;
	double		once = 0.5 * n * nanoseconds_to_multiply(settings, kind, false);
	double		each = 8.0 * settings.dimensions / kNearBytesPerSecond * 1e9 + kNearEach;
	double		best = 2 * once + each * candidates_at(n, n, k, candidates);
	uint32_t	answer = 0;

	if (kAlwaysOnce)
		return k % 2 == 0 ? kMeetNone : divided ? 0 : std::min(rows, kThresholdPad);
	if (rows < kLeastToMeet)
		return 0;
	for (double part = kLeastPart; !divided && part <= kMostPart; part *= 1.2)
	{
		double		later = candidates_once(kMoreLater * k / part, candidates);
		double		cost = once * (1 + 2 * part)
			+ each * (candidates_at(part * n, n, k, candidates) + later);
		uint32_t	first = (uint32_t) (n * part) / kThresholdPad * kThresholdPad + kThresholdPad;

		if (cost >= best || k > first / 4)
			continue;
		best = cost;
		answer = std::min(rows, first);
	}
	return once + each * candidates_once(n, candidates) < best ? kMeetNone : answer;
}

size_t
SampleJoin::bytes(const RoundSettings &settings)
{
	uint32_t	rows = RowSample::most_rows(settings.dimensions);

	return bytes_of<RowSample>(settings.dimensions, settings.doubles)
		+ bytes_of<FilterRows>(rows, settings.row_bytes)
		+ bytes_of<FilterRows>(rows / 2, settings.row_bytes)
		+ Rounds::bytes(settings.device, kSampleCandidates);
}

void
SampleJoin::allocate(Budget &budget, const RoundSettings &settings)
{
	uint32_t	rows = RowSample::most_rows(settings.dimensions);

	sample_.allocate(budget, settings.dimensions, settings.doubles);
	filter_[0].allocate(budget, rows, settings.row_bytes);
	filter_[1].allocate(budget, rows / 2, settings.row_bytes);
	rounds_.allocate(budget, settings, kSampleCandidates);
}

void
SampleJoin::take(const FormRequest &request, cudaStream_t stream)
{
	self_ = request.self;
	sample_.take(rows_of(request), stream);
}

/* Joins the sample in a form, and waits until the join is done. */
SampleJoin::Found
SampleJoin::join(const std::shared_ptr<Form> &form, double eps, cudaStream_t stream)
{
	FastedStats before = rounds_.totals();
	JoinTask	task = {};
	JoinSide   *sides[2] = {&task.a, &task.b};
	double		n = sample_.table(0).rows;

	for (int i = 0; i < (self_ ? 1 : 2); i++)
	{
		filter_[i].quantise(form, sample_.table(i), false, stream);
		filter_[i].set_eps(eps, stream);
		sides[i]->table = sample_.table(i);
		sides[i]->quantised = filter_[i].get();
	}
	if (self_)
		task.b = task.a;
	task.self = self_;
	task.eps = eps;
	task.keep_pairs = false;
	rounds_.set_filter(criterion_of(form->precision()),
					   form->row_bytes(task.a.table.dimensions));
	rounds_.begin(task, stream);
	while (!rounds_.finished())
	{
		rounds_.pump();
		usleep(10);
	}
	/* release the form, so that it can be reused */
	for (FilterRows &filter : filter_)
		filter.forget();
	return {self_ ? 0.5 * n * (n - 1) : n * task.b.table.rows,
		rounds_.totals().candidates - before.candidates,
		rounds_.totals().pairs - before.pairs};
}

/* Returns the buffer for directions (cosine) or rounded rows (doubles); null if not needed. */
Directions *
FormChooser::directions()
{
	if (settings_.direction_bytes > 0 && directions_ == nullptr)
		directions_.reset(new Directions(budget_, settings_.dimensions,
										 settings_.direction_bytes,
										 settings_.metric == FASTED_METRIC_COSINE));
	return directions_.get();
}

ProjectedRows *
FormChooser::projected_rows(cudaStream_t stream)
{
	if (projected_rows_ == nullptr)
		projected_rows_.reset(new ProjectedRows(budget_, settings_.projected_bytes, stream));
	return projected_rows_.get();
}

/* Returns a projection for these rows, new or from the last call; null if none is found. */
std::shared_ptr<const Projection>
FormChooser::projection(const FormRequest &request, cudaStream_t stream)
{
	uint64_t	from_a = request.a.content;
	uint64_t	from_b = request.b.content;
	auto		unused = projections_.begin();

	if (unused != projections_.end() && (*unused)->from_a == from_a && (*unused)->from_b == from_b)
		return *unused;
	while (unused != projections_.end() && unused->use_count() > 1)
		++unused;
	if (unused == projections_.end())
		unused = projections_.insert(unused, std::shared_ptr<Projection>(
										 new Projection(budget_, settings_.dimensions)));
	std::swap(projections_.front(), *unused);
	if (fit_ == nullptr)
		fit_.reset(new ProjectionFit(budget_, settings_.dimensions, settings_.projected_bytes / 2));

	/* use other rows than SampleJoin, to avoid overfitting */
	SampledRows	rows = rows_of(request).at_most(fit_->most_rows());
	Projection *found = projections_.front().get();

	found->from_a = from_a;
	found->from_b = from_b;
	if (fit_->find(directions() != nullptr ? directions()->sample(rows, stream) : rows, found,
				   stream))
		return projections_.front();
	found->from_a = found->from_b = 0;
	return nullptr;
}

/* Returns a form that no set uses, or a new one.  Reuse is faster: creating one takes 1 ms. */
std::shared_ptr<Form>
FormChooser::unused_form(FormKind kind, cudaStream_t stream)
{
	for (const std::shared_ptr<Form> &form : forms_)
	{
		if (form.use_count() > 1)
			continue;
		form->project(nullptr);	/* another form may need it */
		if (form->kind() == kind)
			return form;
	}
	forms_.push_back(std::make_shared<Form>(budget_, kind, settings_.dimensions, settings_.metric,
											directions(),
											kind.width > 0 ? projected_rows(stream) : nullptr));
	return forms_.back();
}

/* Returns a form of this kind for these rows, new or existing; null if there is no projection. */
std::shared_ptr<Form>
FormChooser::find(FormKind kind, const FormRequest &request, cudaStream_t stream)
{
	for (const FormedRows *side : {&request.a, &request.b})
	{
		if (side->form != nullptr && side->form->kind() == kind
			&& side->form->is_from(request.a.content, request.b.content))
			return side->form;
	}

	std::shared_ptr<const Projection> along = kind.width > 0 ? projection(request, stream) : nullptr;

	if (kind.width > 0 && along == nullptr)
		return nullptr;

	std::shared_ptr<Form> form = unused_form(kind, stream);

	form->project(along);
	form->find(rows_of(request), request.a.content, request.b.content, stream);
	return form;
}

void
FormChooser::take_sample(const FormRequest &request, cudaStream_t stream)
{
	if (taken_)
		return;
	if (sample_ == nullptr)
	{
		sample_.reset(new SampleJoin);
		sample_->allocate(budget_, settings_);
	}
	sample_->take(request, stream);
	taken_ = true;
}

bool
FormChooser::suits(const std::shared_ptr<Form> &form, const FormRequest &request,
				   cudaStream_t stream)
{
	if (!may_sample_)
		return false;
	take_sample(request, stream);

	SampleJoin::Found found = sample_->join(form, request.eps, stream);

	/* a projected form suits if it is faster than INT8 in all dimensions without any recheck */
	if (form->kind().width > 0)
		return nanoseconds_a_pair(settings_, form->kind(), request.folds,
								  found.candidates / found.compared)
			< nanoseconds_to_multiply(settings_, {Precision::kInt8}, request.folds);

	uint64_t	vain = found.candidates - found.pairs;
	double		most = kVainShare * nanoseconds_to_multiply(settings_, form->kind(), request.folds)
		/ nanoseconds_to_recheck(settings_);

	return vain <= kFewVain || vain <= most * found.compared;
}

/* Join of two sets: returns the form of the larger set if it suits both sets, or null. */
std::shared_ptr<Form>
FormChooser::form_at_hand(const FormRequest &request, cudaStream_t stream)
{
	const std::shared_ptr<Form> &form = request.a.rows.rows >= request.b.rows.rows
		? request.a.form : request.b.form;

	if (form == nullptr || (!request.to_choose && form->precision() != request.precision))
		return nullptr;
	/* whether a projected form suits depends on eps, too */
	if (request.a.form == request.b.form && (form->kind().width == 0 || settings_.forced_width > 0))
		return form;
	return suits(form, request, stream) ? form : nullptr;
}

/* Chooses a projected form if it is faster than a full form, which takes `full` ns per pair. */
void
FormChooser::try_projected(const FormRequest &request, double full, Choice *choice,
					   cudaStream_t stream)
{
	double		best = full;
	double		least = request.least_saved;

	for (int i = 0; i < 2; i++)
	{
		FormKind	kind = {Precision::kInt8, kShortWidths[i]};
		double		saved = best - nanoseconds_to_multiply(settings_, kind, request.folds);

		if (2 * kind.width > settings_.dimensions || saved * pairs_of(request) < least)
			continue;

		std::shared_ptr<Form> form = find(kind, request, stream);

		if (form == nullptr)
			return;

		/* trying the next one costs less: only a join of the sample */
		least = request.least_saved / 8;

		SampleJoin::Found found = sample_->join(form, request.eps, stream);
		double		each = nanoseconds_a_pair(settings_, kind, request.folds,
												  found.candidates / found.compared);

		choice->candidates_projected[i] = found.candidates;
		if (found.candidates > kHopeless * found.compared)
			return;
		if (each >= best)
			continue;
		best = each;
		choice->form = form;
		choice->candidates = found.candidates;
	}
}

/* Returns the form of rows of bits that are folded to `bits` bits. */
std::shared_ptr<Form>
FormChooser::bits_form(uint32_t bits)
{
	FormKind	kind = {Precision::kInt8, bits};

	for (const std::shared_ptr<Form> &form : forms_)
	{
		if (form->kind() == kind)
			return form;
	}
	forms_.push_back(std::make_shared<Form>(budget_, kind, settings_.dimensions, settings_.metric,
											nullptr));
	return forms_.back();
}

/* Rows of bits: chooses the number of bits, which is reduced until the join takes longer. */
Choice
FormChooser::choose_bits(const FormRequest &request, cudaStream_t stream)
{
	uint32_t	all = settings_.row_bytes;
	FormKind	kind = {Precision::kInt8, settings_.forced_width > 0 ? settings_.forced_width : all};
	double		best = INFINITY;
	Choice		choice;

	choice.form = bits_form(kind.width);
	if (settings_.forced_width > 0 || !may_sample_ || pairs_of(request) < request.least_pairs
		|| pairs_of(request) * nanoseconds_to_multiply(settings_, kind, request.folds)
		< request.least_saved)
		return choice;
	/* an inner panel of a join takes the form of the earlier ones */
	if (request.a.form != nullptr && !request.afresh && sampled_.eps == request.eps)
		choice.form = request.a.form;
	else if (sampled_.is_for(request))
		choice.form = sampled_.choice.form;
	else
	{
		take_sample(request, stream);
		choice.sampled = true;
		while (kind.width >= kLeastBits)
		{
			std::shared_ptr<Form> form = bits_form(kind.width);
			SampleJoin::Found found = sample_->join(form, request.eps, stream);
			double		each = nanoseconds_a_pair(settings_, kind, request.folds,
												  found.candidates / found.compared);
			uint32_t	fewer = kLeastBits / 2;

			if (each >= best)
				break;
			best = each;
			choice.form = form;
			choice.candidates = found.candidates;
			choice.pairs = found.pairs;
			while (2 * fewer < kind.width)
				fewer *= 2;
			kind.width = fewer;
		}
		sampled_ = {request.a.content, request.b.content, request.eps, choice};
	}
	return choice;
}

Choice
FormChooser::choose(const FormRequest &request, cudaStream_t stream)
{
	Choice		choice;

	taken_ = false;
	if (is_of_bits(settings_.metric))
		return choose_bits(request, stream);
	if (!request.self && !request.afresh)
		choice.form = form_at_hand(request, stream);
	if (choice.form == nullptr && settings_.forced_width > 0 && request.to_choose)
		choice.form = find({Precision::kInt8, settings_.forced_width}, request, stream);
	if (choice.form == nullptr && request.to_choose && sampled_.is_for(request))
		choice.form = sampled_.choice.form;
	if (choice.form != nullptr)
		return choice;
	choice.form = find({request.to_choose ? Precision::kFp16 : request.precision}, request, stream);
	if (!request.to_choose || !may_sample_ || pairs_of(request) < request.least_pairs
		|| settings_.dimensions > kMostDimensionsInt8)
		return choice;

	/* find the form from all rows, not from the sample, because all rows will use it */
	std::shared_ptr<Form> int8 = find({Precision::kInt8}, request, stream);
	SampleJoin::Found fp16_found;
	SampleJoin::Found int8_found;

	take_sample(request, stream);
	fp16_found = sample_->join(choice.form, request.eps, stream);
	int8_found = sample_->join(int8, request.eps, stream);
	choice.sampled = true;
	choice.candidates_fp16 = fp16_found.candidates;
	choice.candidates_int8 = int8_found.candidates;
	choice.pairs = int8_found.pairs;
	choice.candidates = fp16_found.candidates;

	double		fp16_each = nanoseconds_a_pair(settings_, {Precision::kFp16}, request.folds,
											   fp16_found.candidates / fp16_found.compared);
	double		int8_each = nanoseconds_a_pair(settings_, {Precision::kInt8}, request.folds,
											   int8_found.candidates / int8_found.compared);

	if (int8_each < fp16_each)
	{
		choice.form = int8;
		choice.candidates = int8_found.candidates;
	}
	if (settings_.projected_bytes > 0)
		try_projected(request, std::min(int8_each, fp16_each), &choice, stream);
	sampled_ = {request.a.content, request.b.content, request.eps, choice};
	return choice;
}

}								/* namespace fasted */
