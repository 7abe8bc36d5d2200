/*-------------------------------------------------------------------------
 *
 * form.h
 *	  What makes rows of two sets comparable: one precision, centre and scale.
 *
 * Rows that are joined must have been brought into the same form.  A form is found
 * from a sample of one set or of two, and shared by the sets that are in it.  In a
 * short form (short_rows.h) the filter sees a few numbers a row, in INT8.
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
#include "rows/short_rows.h"

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

/* What the filter sees of rows. */
struct FormKind
{
	Precision	precision;
	uint32_t	width;			/* numbers of a short row; 0: all dimensions */

	FormKind(Precision precision_, uint32_t width_ = 0) : precision(precision_), width(width_) {}

	bool operator==(const FormKind &other) const
	{
		return precision == other.precision && width == other.width;
	}

	/* Bytes of a quantised row. */
	uint32_t row_bytes(uint32_t dimensions) const
	{
		return fasted::row_bytes(width > 0 ? width : dimensions, precision);
	}
};

class Form
{
public:
	/* directions: cosine, or doubles; null: neither.  short_rows: for a short form, else null. */
	Form(Budget &budget, FormKind kind, uint32_t dimensions, Directions *directions,
		 ShortRows *short_rows = nullptr)
		: kind_(kind), directions_(directions), short_rows_(short_rows)
	{
		if (kind.precision == Precision::kInt8)
			int8_.allocate(budget, kind.width > 0 ? kind.width : dimensions);
		else
			float_.allocate(budget, dimensions);
	}

	/* may_be_short: with a projection, which it may share with others. */
	static size_t bytes(uint32_t dimensions, bool may_be_short = false)
	{
		return std::max(Transform::bytes(dimensions),
						Int8Transform::bytes(may_be_short ? std::max(dimensions, kMostWidth)
											 : dimensions))
			+ (may_be_short ? Projection::bytes(dimensions) : 0);
	}

	/* A short form's, before find. */
	void project(const std::shared_ptr<const Projection> &projection) { projection_ = projection; }

	/* From rows that have these numbers, if Set::content gave them; 0 is no number. */
	void find(const SpreadRows &all, uint64_t from_a, uint64_t from_b, cudaStream_t stream)
	{
		SpreadRows	rows = directions_ != nullptr ? directions_->sample(all, stream) : all;

		if (kind_.width > 0)
			int8_.find(short_rows_->sample(rows, *projection_, kind_.width, stream), stream);
		else if (kind_.precision == Precision::kInt8)
			int8_.find(rows, stream);
		else
			float_.find(rows, stream);
		from_a_ = from_a;
		from_b_ = from_b;
	}

	void quantise(const RowTable &rows, uint8_t *values, RowNorm *norms,
				  cudaStream_t stream) const
	{
		uint32_t	bytes = row_bytes(rows.dimensions);

		if (directions_ == nullptr)
			launch(rows, bytes, values, norms, stream);
		else
			directions_->for_pieces(rows, norms, stream, [&](const RowTable &piece, uint32_t first)
			{
				launch(piece, bytes, values + (size_t) first * bytes, norms + first, stream);
				if (!directions_->is_cosine())
					launch_add_narrowed(rows, first, piece.rows, bound(rows.dimensions), stretch(),
										norms + first, stream);
			});
	}

	void thresholds(const RowNorm *norms, const RowTable &rows, double eps, uint32_t *to,
					cudaStream_t stream) const
	{
		if (is_cosine())
			eps = fasted_direction_reach(eps, rows.dimensions);
		if (kind_.width > 0)
			eps = short_reach(eps, *projection_, rows.dimensions);
		if (kind_.precision == Precision::kInt8)
			launch_thresholds_int8(norms, rows.rows, rows.dimensions, int8_, eps, to, stream);
		else
			launch_thresholds(norms, rows.rows, rows.dimensions, float_, kind_.precision, eps, to,
							  stream);
	}

	const FormKind &kind() const { return kind_; }
	Precision precision() const { return kind_.precision; }
	uint32_t row_bytes(uint32_t dimensions) const { return kind_.row_bytes(dimensions); }

	/* What its thresholds are made with, for who makes others. */
	FormBound bound(uint32_t dimensions) const
	{
		FormBound	bound = {kind_.precision, dimensions, is_cosine(),
			float_.exponent(), int8_.scale(), product_error(dimensions, kind_.precision)};

		if (kind_.width > 0)
		{
			bound.short_scale = projection_->scale;
			bound.short_stretch = short_stretch(*projection_);
		}
		return bound;
	}

	bool is_from(uint64_t a, uint64_t b) const { return from_a_ == a && from_b_ == b; }

private:
	bool is_cosine() const { return directions_ != nullptr && directions_->is_cosine(); }

	/* Short rows: how much further apart than rows they may be, before they are quantised. */
	double stretch() const
	{
		return kind_.width == 0 ? 1.0 : short_reach(1.0, *projection_, 0);
	}

	void launch(const RowTable &rows, uint32_t bytes, uint8_t *values, RowNorm *norms,
				cudaStream_t stream) const
	{
		if (kind_.width > 0)
			launch_short(rows, bytes, values, norms, stream);
		else if (kind_.precision == Precision::kInt8)
			launch_quantise_int8(rows, int8_, bytes, (int8_t *) values, norms, stream);
		else
			launch_quantise(rows, float_, kind_.precision, values, norms, stream);
	}

	void launch_short(const RowTable &rows, uint32_t bytes, uint8_t *values, RowNorm *norms,
					  cudaStream_t stream) const
	{
		short_rows_->for_pieces(rows, *projection_, kind_.width, stream,
								[&](const RowTable &piece, uint32_t first, const float *moved)
		{
			launch_quantise_int8(piece, int8_, bytes, (int8_t *) values + (size_t) first * bytes,
								 norms + first, stream);
			launch_add_moved(moved, piece.rows, int8_, norms + first, stream);
		});
	}

	FormKind	kind_;
	Directions *directions_;
	ShortRows  *short_rows_;
	std::shared_ptr<const Projection> projection_;	/* a short form's */
	uint64_t	from_a_ = 0;
	uint64_t	from_b_ = 0;
	Transform	float_;			/* one of them is empty */
	Int8Transform int8_;
};

/* Forms that no set is in any more are used again: to make one takes a millisecond. */
class FormPool
{
public:
	std::shared_ptr<Form> take(Budget &budget, FormKind kind, uint32_t dimensions,
							   Directions *directions, ShortRows *short_rows)
	{
		for (const std::shared_ptr<Form> &form : forms_)
		{
			if (form.use_count() > 1)
				continue;
			form->project(nullptr);	/* another form may need it */
			if (form->kind() == kind)
				return form;
		}
		forms_.push_back(std::shared_ptr<Form>(new Form(budget, kind, dimensions, directions,
														 short_rows)));
		return forms_.back();
	}

private:
	std::vector<std::shared_ptr<Form>> forms_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FORM_H */
