/*-------------------------------------------------------------------------
 *
 * form.h
 *	  What makes rows of two sets comparable: one precision, centre and scale.
 *
 * Rows that are joined must have been brought into the same form.  A form is found
 * from a sample of one set or of two, and shared by the sets that are in it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_FORM_H
#define FASTED_CUDA_FORM_H

#include <memory>
#include <vector>

#include "device/device_memory.h"
#include "rows/directions.h"
#include "rows/form_bound.h"
#include "rows/quantise.h"
#include "rows/quantise_int8.h"
#include "rows/quantised.h"

namespace fasted
{

constexpr Precision
precision_of(Criterion criterion)
{
	return criterion == Criterion::kInt8 ? Precision::kInt8
		: criterion == Criterion::kFp64 ? Precision::kFp32 : Precision::kFp16;
}

constexpr Criterion
criterion_of(Precision precision)
{
	return precision == Precision::kInt8 ? Criterion::kInt8
		: precision == Precision::kFp32 ? Criterion::kFp64 : Criterion::kFp16;
}

class Form
{
public:
	/* directions: cosine; null: L2. */
	Form(Budget &budget, Precision precision, uint32_t dimensions, Directions *directions)
		: precision_(precision), directions_(directions)
	{
		if (precision == Precision::kInt8)
			int8_.allocate(budget, dimensions);
		else
			float_.allocate(budget, dimensions);
	}

	static size_t bytes(uint32_t dimensions)
	{
		return std::max(Transform::bytes(dimensions), Int8Transform::bytes(dimensions));
	}

	/* From rows that have these numbers, if Set::content gave them; 0 is no number. */
	void find(const SpreadRows &all, uint64_t from_a, uint64_t from_b, cudaStream_t stream)
	{
		SpreadRows	rows = directions_ != nullptr ? directions_->sample(all, stream) : all;

		if (precision_ == Precision::kInt8)
			int8_.find(rows, stream);
		else
			float_.find(rows, stream);
		from_a_ = from_a;
		from_b_ = from_b;
	}

	void quantise(const RowTable &rows, uint8_t *values, RowNorm *norms,
				  cudaStream_t stream) const
	{
		uint32_t	bytes = row_bytes(rows.dimensions, precision_);

		if (directions_ == nullptr)
			launch(rows, bytes, values, norms, stream);
		else
			directions_->for_pieces(rows, norms, stream, [&](const RowTable &piece, uint32_t first)
			{
				launch(piece, bytes, values + (size_t) first * bytes, norms + first, stream);
			});
	}

	void thresholds(const RowNorm *norms, const RowTable &rows, double eps, uint32_t *to,
					cudaStream_t stream) const
	{
		if (directions_ != nullptr)
			eps = fasted_direction_reach(eps, rows.dimensions);
		if (precision_ == Precision::kInt8)
			launch_thresholds_int8(norms, rows.rows, rows.dimensions, int8_, eps, to, stream);
		else
			launch_thresholds(norms, rows.rows, rows.dimensions, float_, precision_, eps, to,
							  stream);
	}

	/* What its thresholds are made with, for who makes others. */
	FormBound bound(uint32_t dimensions) const
	{
		return {precision_, dimensions, directions_ != nullptr, float_.exponent(), int8_.scale(),
			product_error(dimensions, precision_)};
	}

	Precision precision() const { return precision_; }
	bool is_from(uint64_t a, uint64_t b) const { return from_a_ == a && from_b_ == b; }

private:
	void launch(const RowTable &rows, uint32_t bytes, uint8_t *values, RowNorm *norms,
				cudaStream_t stream) const
	{
		if (precision_ == Precision::kInt8)
			launch_quantise_int8(rows, int8_, bytes, (int8_t *) values, norms, stream);
		else
			launch_quantise(rows, float_, precision_, values, norms, stream);
	}

	Precision	precision_;
	Directions *directions_;
	uint64_t	from_a_ = 0;
	uint64_t	from_b_ = 0;
	Transform	float_;			/* one of them is empty */
	Int8Transform int8_;
};

/* Forms that no set is in any more are used again: to make one takes a millisecond. */
class FormPool
{
public:
	std::shared_ptr<Form> take(Budget &budget, Precision precision, uint32_t dimensions,
							   Directions *directions)
	{
		for (const std::shared_ptr<Form> &form : forms_)
		{
			if (form.use_count() == 1 && form->precision() == precision)
				return form;
		}
		forms_.push_back(std::shared_ptr<Form>(new Form(budget, precision, dimensions,
														 directions)));
		return forms_.back();
	}

private:
	std::vector<std::shared_ptr<Form>> forms_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FORM_H */
