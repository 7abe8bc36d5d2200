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
constexpr double kProjectedPerPair = 0.025;

/* If this share of pairs are candidates, a larger reduced dimension does not help. */
constexpr double kHopeless = 0.1;

double
nanoseconds_to_recheck(const RoundSettings &settings)
{
	return (settings.doubles ? 16.0 : 8.0) * settings.dimensions / kBytesPerSecond * 1e9 + kRecheckEach;
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

double
nanoseconds_to_multiply(const RoundSettings &settings, const FormKind &kind, bool folds)
{
	uint32_t	bytes = kind.row_bytes(settings.dimensions);
	Precision	precision = kind.precision;
	double		rate = precision == Precision::kFp32 ? kRateFp64
		: settings.kernel == Kernel::kWgmma ? kRateWgmma : kRateMma;
	double		operations = precision == Precision::kFp32 ? bytes / 2 : bytes;
	double		least = kind.width > 0 ? kProjectedPerPair / settings.device.multiprocessors
		: kTilePerPair;

	if (folds && precision == Precision::kInt8 && bytes <= kMostFolded)
		return std::max(fold_shape(bytes).bytes / kRateFolded * 1e9, kFoldedPerPair)
			/ settings.device.multiprocessors;

	/* FP16 needs as many operations per pair as a row has bytes; INT8 rows have half the bytes */
	return std::max(operations / (settings.device.multiprocessors * rate) * 1e9, least);
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
SampleJoin::draw(const FormRequest &request, cudaStream_t stream)
{
	self_ = request.self;
	sample_.take(rows_of(request), stream);
}

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
	rounds_.set_filter(form->precision(),
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
		rounds_.totals().pairs - before.pairs, 0};
}

/* Returns the buffer for directions (cosine) or rounded rows (doubles); null if not needed. */
Directions *
FormChooser::directions()
{
	if (settings_.direction_bytes > 0 && directions_ == nullptr)
		directions_.reset(new Directions(budget_, settings_.dimensions,
										 settings_.direction_bytes,
										 fasted_metric_rules(settings_.metric)->has_direction));
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

/*
 * Returns a form that no set uses, or a new one; creating one takes 1 ms.  Sets may share a form of rows
 * of bits, which does not depend on rows.
 */
std::shared_ptr<Form>
FormChooser::unused_form(FormKind kind, cudaStream_t stream)
{
	bool		of_bits = fasted_metric_rules(settings_.metric)->of_bits;

	for (const std::shared_ptr<Form> &form : forms_)
	{
		if (!of_bits && form.use_count() > 1)
			continue;
		form->project(nullptr);	/* another form may need it */
		if (form->kind() == kind)
			return form;
	}
	forms_.push_back(std::make_shared<Form>(budget_, kind, settings_.dimensions, settings_.metric,
											directions(),
											kind.width > 0 && !of_bits ? projected_rows(stream) : nullptr));
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

/* Joins a sample in a form. */
SampleJoin::Found
FormChooser::try_form(const std::shared_ptr<Form> &form, const FormRequest &request, cudaStream_t stream)
{
	SampleJoin::Found found;

	if (sample_ == nullptr)
	{
		sample_.reset(new SampleJoin);
		sample_->allocate(budget_, settings_);
	}
	if (!drawn_)
		sample_->draw(request, stream);
	drawn_ = true;
	found = sample_->join(form, request.eps, stream);
	found.nanoseconds = nanoseconds_to_multiply(settings_, form->kind(), request.folds)
		+ found.candidates / found.compared * nanoseconds_to_recheck(settings_);
	return found;
}

/* The same; chooses the form if it is faster than the one chosen before. */
SampleJoin::Found
FormChooser::try_form(const std::shared_ptr<Form> &form, const FormRequest &request, Choice *choice,
					  cudaStream_t stream)
{
	SampleJoin::Found found = try_form(form, request, stream);

	if (found.nanoseconds < choice->nanoseconds)
		*choice = {form, true, found.candidates, found.pairs, found.nanoseconds};
	return found;
}

bool
FormChooser::suits(const std::shared_ptr<Form> &form, const FormRequest &request,
				   cudaStream_t stream)
{
	if (!may_sample_)
		return false;

	SampleJoin::Found found = try_form(form, request, stream);

	/* a projected form suits if it is faster than INT8 in all dimensions without any recheck */
	if (form->kind().width > 0)
		return found.nanoseconds < nanoseconds_to_multiply(settings_, {Precision::kInt8}, request.folds);

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

/* Chooses a projected form if it is faster than the full form chosen before. */
void
FormChooser::try_projected(const FormRequest &request, Choice *choice, cudaStream_t stream)
{
	double		least = request.least_saved;

	for (uint32_t width : kProjectedWidths)
	{
		FormKind	kind = {Precision::kInt8, width};
		double		saved = choice->nanoseconds - nanoseconds_to_multiply(settings_, kind, request.folds);

		if (2 * kind.width > settings_.dimensions || saved * pairs_of(request) < least)
			continue;

		std::shared_ptr<Form> form = find(kind, request, stream);

		if (form == nullptr)
			return;

		/* trying the next one costs less: only a join of the sample */
		least = request.least_saved / 8;

		SampleJoin::Found found = try_form(form, request, choice, stream);

		if (found.candidates > kHopeless * found.compared)
			return;
	}
}

/* Rows of bits: chooses the number of bits, which is reduced until the join takes longer. */
Choice
FormChooser::choose_bits(const FormRequest &request, cudaStream_t stream)
{
	uint32_t	all = settings_.row_bytes;
	FormKind	kind = {Precision::kInt8, settings_.forced_width > 0 ? settings_.forced_width : all};
	Choice		choice;

	choice.form = unused_form(kind, stream);
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
		while (kind.width >= kLeastBits)
		{
			std::shared_ptr<Form> form = unused_form(kind, stream);
			uint32_t	fewer = kLeastBits / 2;

			try_form(form, request, &choice, stream);
			if (choice.form != form)
				break;
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

	drawn_ = false;
	if (fasted_metric_rules(settings_.metric)->of_bits)
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

	try_form(choice.form, request, &choice, stream);
	try_form(int8, request, &choice, stream);
	if (settings_.projected_bytes > 0)
		try_projected(request, &choice, stream);
	sampled_ = {request.a.content, request.b.content, request.eps, choice};
	return choice;
}

}								/* namespace fasted */
