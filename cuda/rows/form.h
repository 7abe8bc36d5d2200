/*-------------------------------------------------------------------------
 *
 * form.h
 *	  What makes rows of two sets comparable: one precision, centre and scale.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_FORM_H
#define FASTED_CUDA_FORM_H

#include <cuda_fp16.h>

#include <memory>
#include <vector>

#include "device/device.h"
#include "engine/filter_bound.h"
#include "rows/row_table.h"

namespace fasted
{

/*
 * What a row's threshold is made of for any eps: the squared norm of its quantised
 * form, as computed, and rho, how far quantising moved it at most (filter_bound.h).
 */
struct alignas(16) RowNorm
{
	double		norm2;			/* negative: the row has no pairs */
	double		rho;
};

__host__ __device__ constexpr RowNorm
row_without_pairs()
{
	return {-1.0, 0.0};
}

/*
 * How every row of a set is transformed before it is rounded to FP16 or FP32:
 * subtract the centre, multiply by 2^exponent.  Found from a sample.  It need not
 * fit: a row that it fits badly, or that overflows, is clamped, and the distance
 * that this moved it is in its threshold.
 */
class Transform
{
public:
	void		allocate(Budget &budget, uint32_t dimensions);
	void		find(const SpreadRows &rows, cudaStream_t stream);

	const float *centre() const { return centre_.get(); }
	const int  *exponent() const { return exponent_.get(); }

private:
	DeviceArray<float> centre_;
	DeviceArray<int> exponent_; /* [0]: of the scale; [1]: of typical raw rows */
	DeviceArray<int> row_exponents_;
	DeviceArray<uint32_t> histogram_;
};

/* Quantises rows for the certified filters, in FP16 or in FP32. */
void launch_quantise(const RowTable &rows, const Transform &transform, Precision precision,
					 void *values, RowNorm *norms, cudaStream_t stream);

/* The relative error of a computed product of two rows against that of their norms. */
double product_error(uint32_t dimensions, Precision precision);

/*
 * The paper's own: FP16 as the rows are, and s_i, the sum of squares rounded
 * toward zero (its step 1).  *overflow becomes 1 when a value does not fit.
 */
void launch_quantise_paper(const RowTable &rows, uint32_t row_bytes,
						   __half *values, uint32_t *norms, uint32_t *overflow,
						   cudaStream_t stream);

/* Up to here INT32 sums cannot overflow, whatever the rows. */
constexpr uint32_t kMostDimensionsInt8 = FASTED_INT8_MOST_DIMENSIONS;

/*
 * Thresholds n are INT32.  A pair (x, y) is a candidate if p - n_y >= n_x, where
 * p is the exact product: this difference never overflows, n_x + n_y may.
 */
constexpr int32_t kInt8Every = FASTED_INT8_EVERY;		/* passes with every row */
constexpr int32_t kInt8Padding = FASTED_INT8_PADDING;	/* passes with none */

/* What the quantising kernel reads besides the centre. */
struct Int8Scale
{
	float		scale;
	uint32_t	lossless;		/* integers within a byte: no rotation, scale 1 */
};

/*
 * How every row of a set is transformed before it is rounded to INT8: subtract
 * the centre, scale, rotate.  The rotation spreads a row's norm evenly over its
 * coordinates, so that one scale fits all of them.  Rows of small integers (8-bit
 * data) are not rotated: they fit as they are, and lose nothing.
 *
 * Found from a sample, on the device.  It need not fit: coordinates beyond a byte are
 * clamped, of all rows alike, which brings no two further apart.
 */
class Int8Transform
{
public:
	void		allocate(Budget &budget, uint32_t dimensions);

	/* Asynchronous: nothing comes back to the host. */
	void		find(const SpreadRows &rows, cudaStream_t stream);

	const float *centre() const { return centre_.get(); }
	const Int8Scale *scale() const { return scale_.get(); }

private:
	void		find_scale(const SpreadRows &rows, cudaStream_t stream);

	Transform	mean_;			/* the mean, and the size of typical rows */
	DeviceArray<float> centre_;
	DeviceArray<float> integer_centre_;
	DeviceArray<Int8Scale> scale_;
	DeviceArray<float> largest_;	/* rotated coordinate, of each sampled row */
	DeviceArray<float> typical_;	/* the same, of all but outliers */
	DeviceArray<float> errors_; /* of each sampled row with each scale tried */
};

/*
 * Quantises rows for the certified filter.  row_bytes is the number of dimensions
 * rounded up to kStepBytes; values has room for rows x row_bytes.  Norms have the rho of
 * fasted_rho_clamped.
 */
void launch_quantise_int8(const RowTable &rows, const Int8Transform &transform,
						  uint32_t row_bytes, int8_t *values, RowNorm *norms,
						  cudaStream_t stream);

/* What turns a distance into a threshold of the rows of a Form, which owns the pointers' targets. */
struct FormBound
{
	Precision	precision;
	uint32_t	dimensions;
	bool		cosine;
	const int  *exponent;		/* of the scale; INT8: unused */
	const Int8Scale *int8;
	double		gamma;			/* relative error of a product */
	double		short_scale = 0;	/* short rows: of the projection; 0: rows are not short */
	double		short_stretch = 1;	/* by what distances of short rows may be larger */

	__device__ __forceinline__ double
	scale() const
	{
		return precision == Precision::kInt8 ? (double) int8->scale : ldexp(1.0, *exponent);
	}

	/* How far apart what is quantised of two rows may be: short rows, or the rows themselves. */
	__device__ __forceinline__ double
	short_reach(double eps, uint32_t rounded_dimensions) const
	{
		return short_scale > 0 ? fasted_eps_upper(eps, short_scale, rounded_dimensions)
			* short_stretch * (1.0 + 4 * FASTED_U64) : eps;
	}

	/* How far a row within this canonical distance is at most, in the form's scale. */
	__device__ __forceinline__ double
	reach(double dist) const
	{
		double		eps = cosine ? fasted_direction_reach(dist, dimensions) : dist;

		return fasted_eps_upper(short_reach(eps, dimensions), scale(), dimensions);
	}

	/* Absolute error of a product, and relative one of a norm. */
	__device__ __forceinline__ double
	alpha() const
	{
		return precision == Precision::kInt8 ? 0.0 : dimensions * (double) FLT_MIN;
	}

	__device__ __forceinline__ double
	slack() const
	{
		return precision == Precision::kInt8 ? 0.0 : fasted_sum_slack(dimensions);
	}

	/* The threshold norm2 / 2 - (reach + 2 rho)^2 / 4, less what rounding may take. */
	__device__ __forceinline__ uint32_t
	threshold(double norm2, double rho, double reach) const
	{
		if (precision == Precision::kInt8)
			return (uint32_t) fasted_threshold_int(norm2, rho, reach);
		return __float_as_uint(fasted_threshold(norm2 * (1.0 - slack()), norm2 * (1.0 + slack()),
												rho, reach, gamma, alpha()));
	}

	/* What no product reaches. */
	__device__ __forceinline__ uint32_t
	padding() const
	{
		return precision == Precision::kInt8 ? (uint32_t) kInt8Padding : __float_as_uint(INFINITY);
	}
};

/*
 * Thresholds of rows within eps, FP32 or INT32 in 32 bits.  There is room for
 * padded_thresholds(rows); what is beyond the rows becomes padding.
 */
void launch_thresholds(const RowNorm *norms, uint32_t rows, const FormBound &form, double eps,
					   uint32_t *thresholds, cudaStream_t stream);

/*
 * What the filter sees of rows where the distance is cosine: their directions; and
 * of rows of doubles: floats.
 *
 * Rows stay as they were staged, for the recheck, with x.x of each in FP64.  Whoever
 * quantises rows, or looks at a sample, reads x / |x| in FP32 instead, or x rounded to
 * FP32, a piece of the rows at a time, so that there is no second copy of them.  That
 * the filter then loses no pair is proved in doc/internals/bound-cosine.md and bound-double.md.
 */

/* Writes x.x of every row as staged, the canonical sum, to squares. */
void launch_squares(const RowTable &rows, double *squares, cudaStream_t stream);

/*
 * Adds how far rounding to FP32 moved rows of doubles to what their norms say, which are of
 * these rows alone; in the scale of the form.
 */
void launch_add_narrowed(const RowPiece &rows, const FormBound &form, RowNorm *norms,
						 cudaStream_t stream);

/* Rows of FP32 that fit, an even number from `least` to `most`. */
inline uint32_t
rows_that_fit(size_t bytes, uint32_t dimensions, size_t least, size_t most)
{
	return (uint32_t) std::clamp(bytes / (dimensions * sizeof(float)) / 2 * 2, least, most);
}

/* Room for the directions of some rows, or for rounded ones; to be used in one stream only. */
class Directions
{
public:
	/* Pieces as large as that, if it is enough for two rows. */
	Directions(Budget &budget, uint32_t dimensions, size_t most_bytes, bool cosine);

	bool is_cosine() const { return cosine_; }

	/* The directions of a sample; good until the next call. */
	SpreadRows	sample(const SpreadRows &rows, cudaStream_t stream);

	/*
	 * Calls quantise(piece, first) for one piece of the rows after the other, from
	 * their place `first` on, and marks those that have no direction.
	 */
	template <class Quantise>
	void for_pieces(const RowTable &rows, RowNorm *norms, cudaStream_t stream,
					const Quantise &quantise)
	{
		for (uint32_t first = 0; first < rows.rows; first += room_)
		{
			quantise(piece(rows, first, stream), first);
			if (cosine_)
				mark(rows, first, norms, stream);
		}
	}

private:
	RowTable	piece(const RowTable &rows, uint32_t first, cudaStream_t stream);
	void		mark(const RowTable &rows, uint32_t first, RowNorm *norms, cudaStream_t stream);

	bool		cosine_;		/* directions; else rounded rows */
	uint32_t	dimensions_;
	uint32_t	room_;			/* rows, an even number */
	DeviceArray<float> values_;
	DeviceArray<const float *> chunks_;
};

/*
 * Directions in which rows differ most, and rows as seen along them.
 *
 * A short row has `width` numbers: the products of a row's image w = s (x - c) with so
 * many directions but one, and the norm of what these leave of w.  Short rows are not
 * further apart than images, but for what prune_bound.h says: doc/internals/bound-pruning.md.
 */

/* Numbers of a short row: one of these. */
constexpr uint32_t kShortWidths[] = {64, 128};
constexpr uint32_t kMostWidth = 128;

/* What kernels read of a projection. */
struct ProjectionView
{
	const float *centre;		/* c: one number a dimension */
	const float *directions;	/* P': kMostWidth numbers a dimension, zeros beyond the last */
	float		scale;			/* s, a power of two */
	uint32_t	count;			/* directions, less than kMostWidth */
	double		eta;			/* bounds the Frobenius norm of P P' - I */
};

class Projection
{
public:
	Projection(Budget &budget, uint32_t dimensions);

	ProjectionView view() const
	{
		return {centre_.get(), directions_.get(), scale, count, eta};
	}
	float	   *centre() const { return centre_.get(); }
	float	   *directions() const { return directions_.get(); }

	/* Of a view; the numbers of the rows that it was found from (Form::find). */
	float		scale = 1;
	uint32_t	count = 0;
	double		eta = 0;
	uint64_t	from_a = 0;
	uint64_t	from_b = 0;

private:
	DeviceArray<float> centre_;
	DeviceArray<float> directions_;
};

/*
 * Short rows of this width, of a RowPiece or SpreadRows: count x width numbers.
 * moved gets how far each may be from the short row of the exact image: infinity for a
 * row that is not finite, or too long, whose short row is zeros.
 */
template <class Source>
void launch_project(const Source &rows, const ProjectionView &projection, uint32_t width,
					float *to, float *moved, cudaStream_t stream);

/* Room for short rows, which are quantised a piece at a time; to be used in one stream only. */
class ShortRows
{
public:
	/* Pieces as large as that, if it is enough for a few rows. */
	ShortRows(Budget &budget, size_t most_bytes, cudaStream_t stream);

	/* The short rows of a sample, of as many rows as there is room for; good until the next call. */
	SpreadRows	sample(const SpreadRows &rows, const Projection &projection, uint32_t width,
					   cudaStream_t stream);

	/*
	 * Calls quantise(piece, first, moved) for one piece of short rows after the other, from
	 * their place `first` on; moved as launch_project has it.
	 */
	template <class Quantise>
	void for_pieces(const RowTable &rows, const Projection &projection, uint32_t width,
					cudaStream_t stream, const Quantise &quantise)
	{
		uint32_t	most = room_ / width;

		for (uint32_t first = 0; first < rows.rows; first += most)
		{
			uint32_t	count = std::min(most, rows.rows - first);

			launch_project(RowPiece{rows, first, count}, projection.view(), width,
						   values_.get(), moved_.get(), stream);
			quantise(table(count, width), first, moved_.get());
		}
	}

private:
	RowTable table(uint32_t count, uint32_t width) const
	{
		return {chunk_.get(), 31, width, count};
	}

	uint32_t	room_;			/* numbers */
	DeviceArray<float> values_;
	DeviceArray<float> moved_;
	DeviceArray<const float *> chunk_;
};

/* Adds how far short rows were off before they were quantised to what their norms say. */
void launch_add_moved(const float *moved, uint32_t rows, const Int8Transform &transform,
					  RowNorm *norms, cudaStream_t stream);

/*
 * Rows that are joined must have been brought into the same form.  A form is found
 * from a sample of one set or of two, and shared by the sets that are in it.  In a
 * short form the filter sees a few numbers a row, in INT8.
 */

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
		return std::max(bytes_of<Transform>(dimensions),
						bytes_of<Int8Transform>(may_be_short ? std::max(dimensions, kMostWidth)
												: dimensions))
			+ (may_be_short ? bytes_of<Projection>(dimensions) : 0);
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
					launch_add_narrowed({rows, first, piece.rows}, bound(rows.dimensions),
										norms + first, stream);
			});
	}

	const FormKind &kind() const { return kind_; }
	Precision precision() const { return kind_.precision; }
	uint32_t row_bytes(uint32_t dimensions) const { return kind_.row_bytes(dimensions); }

	/* What its thresholds are made with, for who makes others. */
	FormBound bound(uint32_t dimensions) const
	{
		bool		cosine = directions_ != nullptr && directions_->is_cosine();
		FormBound	bound = {kind_.precision, dimensions, cosine,
			float_.exponent(), int8_.scale(), product_error(dimensions, kind_.precision)};

		if (kind_.width > 0)
		{
			bound.short_scale = projection_->scale;
			bound.short_stretch = fasted_prune_stretch(projection_->eta);
		}
		return bound;
	}

	bool is_from(uint64_t a, uint64_t b) const { return from_a_ == a && from_b_ == b; }

private:
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

/*
 * Finds a projection, the leading directions of a sample of rows.
 *
 * Subspace iteration from random signs, V = W' X, W = X V'.  V is made orthonormal in the
 * order of its rows, so that the first 63 of them are what an iteration of so many would
 * have found.  Any directions are right; how far they are from orthonormal is measured
 * in the end (eta).  Sums are in a fixed order: the same rows give the same projection.
 */
class ProjectionFit
{
public:
	/* A sample as large as that, but of some rows. */
	ProjectionFit(Budget &budget, uint32_t dimensions, size_t most_bytes);

	uint32_t most_rows() const { return most_rows_; }

	/*
	 * False: there are no directions, for all rows are the same.  Waits for the device,
	 * some milliseconds.
	 */
	bool		find(const SpreadRows &rows, Projection *to, cudaStream_t stream);

private:
	void		find_centre(const SpreadRows &rows, Projection *to, cudaStream_t stream);
	void		gram(cudaStream_t stream);
	void		orthonormalise(cudaStream_t stream);
	double		measure_eta(cudaStream_t stream);

	uint32_t	dimensions_;
	uint32_t	most_rows_;
	uint32_t	count_ = 0;		/* directions in hand */
	double		farthest_ = 0;	/* rows further than that from the centre are left out */
	Transform	mean_;
	DeviceArray<double> norms_; /* of the sampled rows about the centre */
	DeviceArray<float> x_;		/* [row][dimension] */
	DeviceArray<float> w_;		/* [row][direction] */
	DeviceArray<float> v_[2];	/* [direction][dimension] */
	DeviceArray<double> gram_;	/* V V', or what makes V orthonormal */
	std::vector<double> host_gram_;
	std::vector<double> host_turn_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FORM_H */
