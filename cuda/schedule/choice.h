/*-------------------------------------------------------------------------
 *
 * choice.h
 *	  In which form are two sets joined: INT8, FP16, or short rows?
 *
 * One set with itself has a form of its own.  Two sets that are in one form stay
 * there.  If the larger one has a form that suits both, the other one is brought
 * into it; else one is found from both.  Whether a form suits, and which precision
 * is faster, a join of a sample tells: INT8 multiplies at twice the rate, but moves
 * rows further, so that more pairs have to be rechecked.  Short rows (form.h) are
 * faster still, with still more to recheck.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CHOICE_H
#define FASTED_CUDA_CHOICE_H

#include <memory>

#include "rows/filter_rows.h"
#include "schedule/rounds.h"

namespace fasted
{

/* Fewer pairs than this are joined in FP16 before a sample would tell. */
constexpr double kLeastPairsForChoice = 16384.0 * 16383.0 / 2;

/* Nanoseconds: to find directions and try short forms takes a tenth of that. */
constexpr double kLeastSavedForShort = 0.08e9;

/* A set's rows, their number as Form::find has it, and the form they are in, if any. */
struct FormedRows
{
	RowTable	rows;
	uint64_t	content;
	std::shared_ptr<Form> form;
};

struct FormRequest
{
	FormedRows	a;
	FormedRows	b;
	bool		self;			/* a is b */
	bool		afresh;			/* not in a form that other joins left */
	double		eps;
	bool		to_choose;		/* else precision */
	Precision	precision;
	double		least_pairs = kLeastPairsForChoice; /* to choose from a sample */
	double		least_saved = kLeastSavedForShort;	/* to try short forms */
	bool		folds = false;	/* thresholds go into INT8 rows that are short (row_table.h) */
};

struct Choice
{
	std::shared_ptr<Form> form;
	bool		sampled = false;	/* else there was no need, or no room */
	uint64_t	candidates_fp16 = 0;	/* in the sample */
	uint64_t	candidates_int8 = 0;
	uint64_t	candidates_short[2] = {0, 0};	/* of each width; not tried: 0 */
	uint64_t	candidates = 0; /* in the form that was chosen */
	uint64_t	pairs = 0;
};

/*
 * Nearest rows of a set in itself: how many rows shall all meet first, so that they have
 * good radii, before each pair of rows meets once, for both of their lists?  0: every row
 * had better meet all others; kMeetNone: radii are good as they are.  candidates: of first
 * radii, if pairs met once.  divided: the answer is 0 or kMeetNone, for slices.
 */
constexpr uint32_t kMeetNone = UINT32_MAX;
uint32_t	rows_to_meet_first(const RoundSettings &settings, const FormKind &kind, uint32_t rows,
							   uint32_t k, const CandidateCounts &candidates, bool divided);

/*
 * Have the rows of the last kWorstParts of the places so much worse first radii than others
 * that they had better look once more, among themselves?
 */
constexpr uint32_t kWorstParts = kCountParts * 6 / 32;
bool		worst_look_again(const CandidateCounts &candidates, uint32_t k);

/* Joins samples of two sets, or of one, in forms that are tried. */
class SampleJoin
{
public:
	struct Found
	{
		double		compared;	/* pairs of rows */
		uint64_t	candidates;
		uint64_t	pairs;
	};

	static size_t bytes(const RoundSettings &settings);
	void		allocate(Budget &budget, const RoundSettings &settings);

	void		take(const FormRequest &request, cudaStream_t stream);
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
	/* settings.row_bytes: the most, in any form.  may_sample: there is room for a sample. */
	FormChooser(Budget &budget, const RoundSettings &settings, bool may_sample)
		: budget_(budget), settings_(settings), may_sample_(may_sample)
	{
	}

	/* Device memory that it takes for forms that are tried. */
	static size_t form_bytes(const RoundSettings &settings)
	{
		size_t		directions = settings.direction_bytes;

		return 2 * Form::bytes(settings.dimensions)
			+ (directions > 0
			   ? bytes_of<Directions>(settings.dimensions, directions, settings.cosine) : 0)
			+ (settings.short_bytes > 0 ? short_bytes(settings) : 0);
	}
	static size_t short_bytes(const RoundSettings &settings)
	{
		return 3 * Form::bytes(settings.dimensions, true)
			+ bytes_of<ShortRows>(settings.short_bytes, cudaStream_t())
			+ bytes_of<ProjectionFit>(settings.dimensions, settings.short_bytes / 2);
	}

	/*
	 * Waits for the device, some milliseconds, where it takes a sample: not if the last
	 * request that it took one for was the same.
	 */
	Choice		choose(const FormRequest &request, cudaStream_t stream);

private:
	Directions *directions();
	/* What a sample was taken for, and found. */
	struct Sampled
	{
		uint64_t	a;
		uint64_t	b;
		double		eps;
		Choice		choice;

		bool is_for(const FormRequest &request) const
		{
			return choice.form != nullptr && a != 0 && a == request.a.content
				&& b == request.b.content && eps == request.eps && request.to_choose;
		}
	};

	ShortRows  *short_rows(cudaStream_t stream);
	std::shared_ptr<const Projection> projection(const FormRequest &request, cudaStream_t stream);
	std::shared_ptr<Form> unused_form(FormKind kind, cudaStream_t stream);
	std::shared_ptr<Form> find(FormKind kind, const FormRequest &request, cudaStream_t stream);
	void		try_short(const FormRequest &request, double full, Choice *choice,
						  cudaStream_t stream);
	std::shared_ptr<Form> form_at_hand(const FormRequest &request, cudaStream_t stream);
	bool		suits(const std::shared_ptr<Form> &form, const FormRequest &request,
					  cudaStream_t stream);
	void		take_sample(const FormRequest &request, cudaStream_t stream);

	Budget	   &budget_;
	RoundSettings settings_;
	bool		may_sample_;
	std::unique_ptr<Directions> directions_;	/* before the forms, which read these */
	std::unique_ptr<ShortRows> short_rows_;
	std::unique_ptr<ProjectionFit> fit_;
	std::vector<std::shared_ptr<Projection>> projections_;	/* the first one is the last found */
	std::vector<std::shared_ptr<Form>> forms_;
	std::unique_ptr<SampleJoin> sample_;	/* from the first one on */
	Sampled		sampled_ = {};
	bool		taken_ = false; /* the sample is of the request in hand */
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_CHOICE_H */
