/*-------------------------------------------------------------------------
 *
 * choice.h
 *	  Chooses the form (encoding) in which two sets are joined: INT8, FP16, or projected rows.
 *
 * A form is found for each self-join.  If two sets have the same form already, it is used again.
 * If the form of the larger set suits both sets, the smaller set is encoded in that form.
 * Otherwise a form is found from both sets.
 *
 * A join of a sample determines whether a form suits, and which precision is faster.  INT8 is
 * multiplied at twice the rate of FP16, but its quantisation error is larger, so that more pairs
 * have to be rechecked.  Rows projected to reduced dimensions (form.h) are even faster, with even
 * more pairs to recheck.  Rows of bits are folded to the number of bits that the sample shows to be
 * fastest.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CHOICE_H
#define FASTED_CUDA_CHOICE_H

#include <memory>

#include "engine/metric_rules.h"
#include "rows/filter_rows.h"
#include "schedule/rounds.h"

namespace fasted
{

/* With fewer pairs, joining them in FP16 is faster than joining a sample. */
constexpr double kLeastPairsForChoice = 16384.0 * 16383.0 / 2;

/* Minimum time to save, in ns, to try projections; finding and trying them takes a tenth of it. */
constexpr double kLeastSavedForProjection = 0.08e9;

/* The rows of a set, and the form in which they are encoded, or null. */
struct FormedRows
{
	RowTable	rows;
	uint64_t	content;		/* identifies the rows, see Form::find */
	std::shared_ptr<Form> form;
};

struct FormRequest
{
	FormedRows	a;
	FormedRows	b;
	bool		self;			/* a is b */
	bool		afresh;			/* do not reuse a form of earlier joins */
	double		eps;
	bool		to_choose;		/* choose the precision; false: use `precision` */
	Precision	precision;
	double		least_pairs = kLeastPairsForChoice; /* minimum number of pairs to take a sample */
	double		least_saved = kLeastSavedForProjection;	/* minimum time to save, to try projections */
	bool		folds = false;	/* thresholds are folded into small INT8 rows (row_table.h) */
};

struct Choice
{
	std::shared_ptr<Form> form;
	bool		sampled = false;	/* false: no sample was needed, or none possible */
	uint64_t	candidates = 0; /* of the sample, in the chosen form */
	uint64_t	pairs = 0;
	double		nanoseconds = INFINITY; /* estimated time per pair of rows */
};

/* Returns the estimated time of the filter for a pair of rows, in ns. */
double		nanoseconds_to_multiply(const RoundSettings &settings, const FormKind &kind, bool folds);

/* Joins samples of two sets, or of one set with itself, in the forms that are tried. */
class SampleJoin
{
public:
	struct Found
	{
		double		compared;	/* number of row pairs */
		uint64_t	candidates;
		uint64_t	pairs;
		double		nanoseconds;	/* estimated time per pair of rows; set by FormChooser */
	};

	static size_t bytes(const RoundSettings &settings);
	void		allocate(Budget &budget, const RoundSettings &settings);

	/* Copies a sample of the rows, and joins it in a form.  join() waits until it is done. */
	void		draw(const FormRequest &request, cudaStream_t stream);
	Found		join(const std::shared_ptr<Form> &form, double eps, cudaStream_t stream);

private:
	RowSample	sample_;
	bool		self_ = false;
	FilterRows	filter_[2];
	Rounds		rounds_;
};

class FormChooser
{
public:
	/* settings.row_bytes: maximum of all forms.  may_sample: memory is reserved for a sample. */
	FormChooser(Budget &budget, const RoundSettings &settings, bool may_sample)
		: budget_(budget), settings_(settings), may_sample_(may_sample)
	{
	}

	/* Returns the number of bytes of device memory for the forms that are tried. */
	static size_t form_bytes(const RoundSettings &settings)
	{
		size_t		directions = settings.direction_bytes;

		return 2 * Form::bytes(settings.dimensions)
			+ (directions > 0
			   ? bytes_of<Directions>(settings.dimensions, directions,
									  fasted_metric_rules(settings.metric)->has_direction) : 0)
			+ (settings.projected_bytes > 0 ? projected_bytes(settings) : 0);
	}
	static size_t projected_bytes(const RoundSettings &settings)
	{
		return 3 * Form::bytes(settings.dimensions, true)
			+ bytes_of<ProjectedRows>(settings.projected_bytes, cudaStream_t())
			+ bytes_of<ProjectionFit>(settings.dimensions, settings.projected_bytes / 2);
	}

	/*
	 * Chooses a form.  If it takes a sample, it waits some milliseconds for the device.  It takes
	 * no sample if the last request with a sample was the same.
	 */
	Choice		choose(const FormRequest &request, cudaStream_t stream);

private:
	Directions *directions();
	/* The last request with a sample, and its result. */
	struct Sampled
	{
		uint64_t	a;
		uint64_t	b;
		double		eps;
		Choice		choice;

		bool is_for(const FormRequest &request) const
		{
			return choice.form != nullptr && a != 0 && a == request.a.content
				&& b == request.b.content && eps == request.eps;
		}
	};

	Choice		choose_bits(const FormRequest &request, cudaStream_t stream);
	ProjectedRows  *projected_rows(cudaStream_t stream);
	std::shared_ptr<const Projection> projection(const FormRequest &request, cudaStream_t stream);
	std::shared_ptr<Form> unused_form(FormKind kind, cudaStream_t stream);
	std::shared_ptr<Form> find(FormKind kind, const FormRequest &request, cudaStream_t stream);
	SampleJoin::Found try_form(const std::shared_ptr<Form> &form, const FormRequest &request,
							   cudaStream_t stream);
	SampleJoin::Found try_form(const std::shared_ptr<Form> &form, const FormRequest &request,
							   Choice *choice, cudaStream_t stream);
	void		try_projected(const FormRequest &request, Choice *choice, cudaStream_t stream);
	std::shared_ptr<Form> form_at_hand(const FormRequest &request, cudaStream_t stream);
	bool		suits(const std::shared_ptr<Form> &form, const FormRequest &request,
					  cudaStream_t stream);

	Budget	   &budget_;
	RoundSettings settings_;
	bool		may_sample_;
	std::unique_ptr<Directions> directions_;	/* destroyed after the forms, which read these */
	std::unique_ptr<ProjectedRows> projected_rows_;
	std::unique_ptr<ProjectionFit> fit_;
	std::vector<std::shared_ptr<Projection>> projections_;	/* the most recent one is first */
	std::vector<std::shared_ptr<Form>> forms_;
	std::unique_ptr<SampleJoin> sample_;	/* created for the first sample */
	Sampled		sampled_ = {};
	bool		drawn_ = false; /* sample_ has the rows of the current request */
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_CHOICE_H */
