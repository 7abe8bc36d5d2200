/*-------------------------------------------------------------------------
 *
 * form.h
 *	  Forms: the encoding (precision, centre, scale) that makes rows of two sets comparable.
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
 * The parts of a row's threshold that do not depend on eps: the squared norm of the quantized row,
 * as computed, and rho. rho is an upper bound of the distance between the row and its quantized
 * form (filter_bound.h). Both are in the scale of the form.
 */
struct alignas(16) RowNorm
{
	double		norm2;			/* negative: the row has no pairs */
	double		rho;			/* inner products: the row's share of squared distances for eps = 0;
								 * rows of bits: its number of set bits */
};

__host__ __device__ constexpr RowNorm
row_without_pairs()
{
	return {-1.0, 0.0};
}

/*
 * The transformation of rows before they are rounded to FP16 or FP32: subtract the centre, then
 * multiply by 2^exponent.  It is found from a sample and need not fit all rows.  A coordinate that
 * overflows is clamped, and the row's threshold accounts for the error.
 */
class Transform
{
public:
	void		allocate(Budget &budget, uint32_t dimensions);
	void		find(const SampledRows &rows, cudaStream_t stream);

	const float *centre() const { return centre_.get(); }
	const int  *exponent() const { return exponent_.get(); }

private:
	DeviceArray<float> centre_;
	DeviceArray<int> exponent_; /* [0]: exponent of the scale; [1]: of typical raw rows */
	DeviceArray<int> row_exponents_;
	DeviceArray<uint32_t> histogram_;
};

/*
 * Quantizes rows to `precision` (FP16 or FP32) for the certified filters.  `values` has rows x
 * row_bytes() bytes, `norms` one entry per row.
 */
void launch_quantise(const RowTable &rows, const Transform &transform, Precision precision,
					 void *values, RowNorm *norms, cudaStream_t stream);

/* Bound of the error of a computed inner product, relative to the product of the rows' norms. */
double product_error(uint32_t dimensions, Precision precision);

/* Maximum number of dimensions for which INT32 sums cannot overflow with any rows. */
constexpr uint32_t kMostDimensionsInt8 = FASTED_INT8_MOST_DIMENSIONS;

/*
 * INT8 thresholds n are INT32. A pair (x, y) is a candidate if p - n_y >= n_x, where p is the exact
 * product.  This difference never overflows, but n_x + n_y might.
 */
constexpr int32_t kInt8Every = FASTED_INT8_EVERY;	/* a candidate with every row */
constexpr int32_t kInt8Padding = FASTED_INT8_PADDING;	/* a candidate with no row */

/* Scale of INT8 rows, in device memory. */
struct Int8Scale
{
	float		scale;
	uint32_t	lossless;		/* rows are integers that fit a byte: no rotation, scale 1 */
};

/*
 * The transformation of rows before they are rounded to INT8: subtract the centre, scale, rotate.
 * The rotation distributes a row's norm evenly over its coordinates, so one scale fits all
 * coordinates.  Rows of small integers (8-bit data) are not rotated: they fit without loss.
 *
 * The transformation is found from a sample, on the device, and need not fit all rows.  Coordinates
 * outside of a byte are clamped.  Clamping is the same function for all rows, so it moves no two
 * rows further apart.
 */
class Int8Transform
{
public:
	void		allocate(Budget &budget, uint32_t dimensions);

	/* Asynchronous: no result is copied to the host. */
	void		find(const SampledRows &rows, cudaStream_t stream);

	const float *centre() const { return centre_.get(); }
	const Int8Scale *scale() const { return scale_.get(); }

private:
	void		find_scale(const SampledRows &rows, cudaStream_t stream);

	Transform	mean_;			/* mean and typical size of the rows */
	DeviceArray<float> centre_;
	DeviceArray<float> integer_centre_;
	DeviceArray<Int8Scale> scale_;
	DeviceArray<float> largest_;	/* largest rotated coordinate of each sampled row */
	DeviceArray<float> typical_;	/* upper bound of largest_, except for outliers */
	DeviceArray<float> errors_; /* squared error of each sampled row with each scale tried */
};

/*
 * Quantizes rows to INT8 for the certified filter.  row_bytes is the number of dimensions rounded
 * up to kStepBytes; `values` has rows x row_bytes bytes.  `norms` receive rho as computed by
 * fasted_rho_clamped.
 */
void launch_quantise_int8(const RowTable &rows, const Int8Transform &transform,
						  uint32_t row_bytes, int8_t *values, RowNorm *norms,
						  cudaStream_t stream);

/* The same for rows of bits, which are folded to row_bytes bits (bits.cu). */
void launch_quantise_bits(const RowTable &rows, uint32_t row_bytes, uint8_t *values, RowNorm *norms,
						  cudaStream_t stream);

/* Computes the number of set bits of every staged row. */
void launch_ones(const RowTable &rows, double *ones, cudaStream_t stream);

/* Computes thresholds of rows in a form for a distance.  The Form owns the pointers' memory. */
struct FormBound
{
	Precision	precision;
	uint32_t	dimensions;
	FastedMetric metric;
	const int  *exponent;		/* exponent of the scale; unused for INT8 */
	const Int8Scale *int8;
	double		gamma;			/* relative error of a product */
	double		projected_scale = 0;	/* scale of the projection; 0: rows are not projected */
	double		projected_stretch = 1;	/* maximum factor by which projection increases a distance */

	__device__ __forceinline__ double
	scale() const
	{
		return precision == Precision::kInt8 ? (double) int8->scale : ldexp(1.0, *exponent);
	}

	/* Maximum distance of two rows within eps before quantization, and after any projection. */
	__device__ __forceinline__ double
	projected_reach(double eps, uint32_t rounded_dimensions) const
	{
		return projected_scale > 0 ? fasted_eps_upper(eps, projected_scale, rounded_dimensions)
			* projected_stretch * (1.0 + 4 * FASTED_U64) : eps;
	}

	/* Maximum distance of two rows within canonical distance `dist`, in the form's scale. */
	__device__ __forceinline__ double
	reach(double dist) const
	{
		double		eps = has_direction(metric) ? fasted_direction_reach(dist, dimensions) : dist;

		return fasted_eps_upper(projected_reach(eps, dimensions), scale(), dimensions);
	}

	/*
	 * Inner products: the argument of fasted_product_half, about the ratio of quantization errors to
	 * distances.
	 */
	__device__ __forceinline__ double
	error_ratio() const
	{
		return precision == Precision::kFp32 ? 0x1p-23 : precision == Precision::kFp16 ? 0x1p-11
			: int8->lossless ? 0x1p-12 : 0x1.8p-5;
	}

	/*
	 * A row's share of the squared distance of two quantized rows within canonical distance `dist`:
	 * the squared distance is at most the sum of both shares.  For inner products, the share is a
	 * linear function of the distance (doc/internals/bound.md, section 8).
	 */
	__device__ __forceinline__ double
	half(const RowNorm &norm, double dist) const
	{
		if (is_of_bits(metric))
			return 4.0 * fasted_bits_reach(is_of_union(metric), dist,
										   (uint32_t) norm.rho);
		if (is_negative_product(metric))
		{
			double		more = (1.0 + error_ratio()) * scale() * scale() * dist;

			return norm.rho + more + 16.0 * FASTED_U64 * (norm.rho + fabs(more)) + DBL_MIN;
		}
		return fasted_reach_half(norm.rho, reach(dist));
	}

	/* Returns whether nearest neighbours are found with own_half and other_half. */
	__host__ __device__ bool
	is_additive() const
	{
		return !is_euclidean(metric);
	}

	/* Returns whether the row has no pair within canonical distance `dist`. */
	__device__ __forceinline__ bool
	has_no_pair(const RowNorm &norm, double dist) const
	{
		return norm.norm2 < 0
			|| (is_of_union(metric) && norm.rho == 0 && dist < 1.0);
	}

	/* alpha: absolute error of a product; slack: relative error of a computed norm. */
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

	/* The threshold (norm2 - half) / 2, lowered by the rounding error. */
	__device__ __forceinline__ uint32_t
	threshold(double norm2, double half) const
	{
		if (precision == Precision::kInt8)
			return (uint32_t) fasted_threshold_int(norm2, half);
		return __float_as_uint(fasted_threshold(norm2 * (1.0 - slack()), norm2 * (1.0 + slack()),
												half, gamma, alpha()));
	}

	/* The threshold of padding, which no product reaches. */
	__device__ __forceinline__ uint32_t
	padding() const
	{
		return precision == Precision::kInt8 ? (uint32_t) kInt8Padding : __float_as_uint(INFINITY);
	}
};

/*
 * Computes the thresholds of rows for eps, in FP32 or INT32. `thresholds` has
 * padded_thresholds(rows) entries; those after the last row become padding.
 */
void launch_thresholds(const RowNorm *norms, uint32_t rows, const FormBound &form, double eps,
					   uint32_t *thresholds, cudaStream_t stream);

/*
 * Conversion of rows before they are quantized.  For the cosine distance, the filter reads the
 * directions of rows.  For rows of doubles, it reads floats.
 *
 * Rows remain unchanged for the recheck, with x.x of each row in FP64. The quantization kernels and
 * the samples read x / |x| in FP32, or x rounded to FP32. The conversion is done one piece of the
 * rows at a time, so there is no second copy of all rows.  The proofs that the filter then loses no
 * pair are in doc/internals/bound.md, sections 7 and 9.
 */

/* Computes x.x of every staged row, as the canonical sum in FP64; see has_squares. */
void launch_squares(const RowTable &rows, double *squares, cudaStream_t stream);

/* Replaces the rho of rows by their shares of squared distances (RowNorm), for inner products. */
void launch_product_halves(const RowTable &rows, const FormBound &form, RowNorm *norms,
						   cudaStream_t stream);

/*
 * Adds the error of rounding rows of doubles to FP32 to the rho of their norms, in the scale of the
 * form.  norms[0] belongs to the first row of the piece.
 */
void launch_add_narrowed(const RowPiece &rows, const FormBound &form, RowNorm *norms,
						 cudaStream_t stream);

/* Number of FP32 rows that fit into `bytes`: an even number from `least` to `most`. */
inline uint32_t
rows_that_fit(size_t bytes, uint32_t dimensions, size_t least, size_t most)
{
	return (uint32_t) std::clamp(bytes / (dimensions * sizeof(float)) / 2 * 2, least, most);
}

/*
 * Buffer for the directions of rows, or for rows rounded to FP32. Must be used in one stream only.
 */
class Directions
{
public:
	/* Allocates a buffer of most_bytes, or of two rows if that is more. */
	Directions(Budget &budget, uint32_t dimensions, size_t most_bytes, bool cosine);

	bool is_cosine() const { return cosine_; }

	/* Converts a sample of rows; valid until the next call. */
	SampledRows	sample(const SampledRows &rows, cudaStream_t stream);

	/*
	 * Converts the rows piece by piece and calls quantise(piece, first) for each, where `first` is
	 * the place of its first row.  Marks the norms of rows that have no direction.
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

	bool		cosine_;		/* true: directions; false: rounded rows */
	uint32_t	dimensions_;
	uint32_t	room_;			/* capacity in rows, an even number */
	DeviceArray<float> values_;
	DeviceArray<const float *> chunks_;
};

/*
 * Projection of rows to few dimensions (pruning).
 *
 * A projected row has `width` components.  All but the last are the products of the row's image w =
 * s (x - c) with `width` - 1 directions in which rows differ most.  The last one is the norm of the
 * residual of w.  Two projected rows are not further apart than their images, up to the errors in
 * filter_bound.h; the proof is in doc/internals/bound-pruning.md.
 */

/* The possible numbers of components of a projected row. */
constexpr uint32_t kProjectedWidths[] = {64, 128};
constexpr uint32_t kMostWidth = 128;

/* A projection, as kernels read it. */
struct ProjectionView
{
	const float *centre;		/* c: one value per dimension */
	const float *directions;	/* P': kMostWidth values per dimension, padded with zeros */
	float		scale;			/* s, a power of two */
	uint32_t	count;			/* number of directions, less than kMostWidth */
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

	/* See ProjectionView; from_a and from_b identify the rows, as in Form::find. */
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
 * Projects the rows of a RowPiece or SampledRows to `width` components: `to` has count x width
 * values.  errors[i] receives a bound of the distance between computed projected row i and the
 * projected row of the exact image.  It is infinity if the row is not finite or too long; its
 * projected row is then zero.
 */
template <class Source>
void launch_project(const Source &rows, const ProjectionView &projection, uint32_t width,
					float *to, float *errors, cudaStream_t stream);

/*
 * Buffer for projected rows, which are quantized piece by piece.  Must be used in one stream only.
 */
class ProjectedRows
{
public:
	/* Allocates a buffer of most_bytes, or of 64 rows if that is more. */
	ProjectedRows(Budget &budget, size_t most_bytes, cudaStream_t stream);

	/* Projects a sample, which is reduced to the buffer's capacity; valid until the next call. */
	SampledRows	sample(const SampledRows &rows, const Projection &projection, uint32_t width,
					   cudaStream_t stream);

	/*
	 * Projects the rows piece by piece and calls quantise(piece, first, errors) for each, where
	 * `first` is the place of its first row.  For `errors` see launch_project.
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
						   values_.get(), errors_.get(), stream);
			quantise(table(count, width), first, errors_.get());
		}
	}

private:
	RowTable table(uint32_t count, uint32_t width) const
	{
		return {chunk_.get(), 31, width, count};
	}

	uint32_t	room_;			/* capacity in values */
	DeviceArray<float> values_;
	DeviceArray<float> errors_;
	DeviceArray<const float *> chunk_;
};

/* Adds the errors of projected rows (launch_project's `errors`) to the rho of their norms. */
void launch_add_errors(const float *errors, uint32_t rows, const Int8Transform &transform,
					  RowNorm *norms, cudaStream_t stream);

/*
 * A form: how rows are encoded for the filter.
 *
 * Rows can only be joined if they are in the same form.  A form is found from a sample of one set
 * or of two, and shared by all sets that are encoded in it.  In a projected form, the filter reads
 * projected rows in INT8.  A form of rows of bits does not depend on a sample.
 */

/* The kind of a form. */
struct FormKind
{
	Precision	precision;
	uint32_t	width;			/* components of a projected row; 0: not projected.  Rows of bits:
								 * number of bits after folding */

	FormKind(Precision precision_, uint32_t width_ = 0) : precision(precision_), width(width_) {}

	bool operator==(const FormKind &other) const
	{
		return precision == other.precision && width == other.width;
	}

	/* Bytes of a quantized row. */
	uint32_t row_bytes(uint32_t dimensions) const
	{
		return fasted::row_bytes(width > 0 ? width : dimensions, precision);
	}
};

class Form
{
public:
	/* directions: for cosine or rows of doubles, else null; projected_rows: if projected. */
	Form(Budget &budget, FormKind kind, uint32_t dimensions, FastedMetric metric,
		 Directions *directions, ProjectedRows *projected_rows = nullptr)
		: kind_(kind), metric_(metric), directions_(directions), projected_rows_(projected_rows)
	{
		if (is_of_bits(metric))
			return;
		if (kind.precision == Precision::kInt8)
			int8_.allocate(budget, kind.width > 0 ? kind.width : dimensions);
		else
			float_.allocate(budget, dimensions);
	}

	/* Device memory of a form; may_be_projected: including a projection. */
	static size_t bytes(uint32_t dimensions, bool may_be_projected = false)
	{
		return std::max(bytes_of<Transform>(dimensions),
						bytes_of<Int8Transform>(may_be_projected ? std::max(dimensions, kMostWidth)
												: dimensions))
			+ (may_be_projected ? bytes_of<Projection>(dimensions) : 0);
	}

	/* Sets the projection of a projected form; must be called before find(). */
	void project(const std::shared_ptr<const Projection> &projection) { projection_ = projection; }

	/*
	 * Finds the form from a sample.  from_a and from_b identify the content of both sets
	 * (Set::content); 0 means unknown.
	 */
	void find(const SampledRows &all, uint64_t from_a, uint64_t from_b, cudaStream_t stream)
	{
		SampledRows	rows = directions_ != nullptr ? directions_->sample(all, stream) : all;

		if (kind_.width > 0)
			int8_.find(projected_rows_->sample(rows, *projection_, kind_.width, stream), stream);
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

		if (is_of_bits(metric_))
			launch_quantise_bits(rows, bytes, values, norms, stream);
		else if (directions_ == nullptr)
			launch(rows, bytes, values, norms, stream);
		else
			directions_->for_pieces(rows, norms, stream, [&](const RowTable &piece, uint32_t first)
			{
				launch(piece, bytes, values + (size_t) first * bytes, norms + first, stream);
				if (!directions_->is_cosine())
					launch_add_narrowed({rows, first, piece.rows}, bound(rows.dimensions),
										norms + first, stream);
			});
		if (is_negative_product(metric_))
			launch_product_halves(rows, bound(rows.dimensions), norms, stream);
	}

	const FormKind &kind() const { return kind_; }
	Precision precision() const { return kind_.precision; }
	uint32_t row_bytes(uint32_t dimensions) const { return kind_.row_bytes(dimensions); }

	/* The parameters of this form's thresholds. */
	FormBound bound(uint32_t dimensions) const
	{
		FormBound	bound = {kind_.precision, dimensions, metric_,
			float_.exponent(), int8_.scale(), product_error(dimensions, kind_.precision)};

		if (projection_ != nullptr)
		{
			bound.projected_scale = projection_->scale;
			bound.projected_stretch = fasted_prune_stretch(projection_->eta);
		}
		return bound;
	}

	bool is_from(uint64_t a, uint64_t b) const { return from_a_ == a && from_b_ == b; }

private:
	void launch(const RowTable &rows, uint32_t bytes, uint8_t *values, RowNorm *norms,
				cudaStream_t stream) const
	{
		if (kind_.width > 0)
			launch_projected(rows, bytes, values, norms, stream);
		else if (kind_.precision == Precision::kInt8)
			launch_quantise_int8(rows, int8_, bytes, (int8_t *) values, norms, stream);
		else
			launch_quantise(rows, float_, kind_.precision, values, norms, stream);
	}

	void launch_projected(const RowTable &rows, uint32_t bytes, uint8_t *values, RowNorm *norms,
					  cudaStream_t stream) const
	{
		projected_rows_->for_pieces(rows, *projection_, kind_.width, stream,
								[&](const RowTable &piece, uint32_t first, const float *errors)
		{
			launch_quantise_int8(piece, int8_, bytes, (int8_t *) values + (size_t) first * bytes,
								 norms + first, stream);
			launch_add_errors(errors, piece.rows, int8_, norms + first, stream);
		});
	}

	FormKind	kind_;
	FastedMetric metric_;
	Directions *directions_;
	ProjectedRows  *projected_rows_;
	std::shared_ptr<const Projection> projection_;	/* only of a projected form */
	uint64_t	from_a_ = 0;
	uint64_t	from_b_ = 0;
	Transform	float_;			/* one of the two transforms is empty */
	Int8Transform int8_;
};

/*
 * Finds a projection: the leading directions of a sample of rows.
 *
 * This is subspace iteration from random signs: V = W' X, W = X V'. V is orthonormalized in the
 * order of its rows, so its first 63 rows are those that an iteration with 63 directions would have
 * found.  Any directions are correct: eta measures how far they are from orthonormal.  Sums are
 * computed in a fixed order, so the same rows give the same projection.
 */
class ProjectionFit
{
public:
	/* Allocates buffers for a sample of most_bytes, but of at least a few rows. */
	ProjectionFit(Budget &budget, uint32_t dimensions, size_t most_bytes);

	uint32_t most_rows() const { return most_rows_; }

	/*
	 * Returns false if there are no usable directions, for example because all rows are equal.
	 * Waits for the device for some milliseconds.
	 */
	bool		find(const SampledRows &rows, Projection *to, cudaStream_t stream);

private:
	void		find_centre(const SampledRows &rows, Projection *to, cudaStream_t stream);
	void		gram(cudaStream_t stream);
	void		orthonormalise(cudaStream_t stream);
	double		measure_eta(cudaStream_t stream);

	uint32_t	dimensions_;
	uint32_t	most_rows_;
	uint32_t	count_ = 0;		/* current number of directions */
	double		farthest_ = 0;	/* rows further from the centre than this are ignored */
	Transform	mean_;
	DeviceArray<double> norms_; /* distances of the sampled rows to the centre */
	DeviceArray<float> x_;		/* [row][dimension] */
	DeviceArray<float> w_;		/* [row][direction] */
	DeviceArray<float> v_[2];	/* [direction][dimension] */
	DeviceArray<double> gram_;	/* V V', or the matrix that orthonormalizes V */
	std::vector<double> host_gram_;
	std::vector<double> host_basis_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FORM_H */
