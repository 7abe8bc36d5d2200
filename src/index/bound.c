/*-------------------------------------------------------------------------
 *
 * bound.c
 *	  Rows of an index, and lower bounds of their distances from a vector.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "index/bound.h"

/* Scales of rows are at least this, so that their squares do not underflow in FP32. */
#define LEAST_SCALE 0x1p-60

/* The upper half of an FP32 number, rounded to nearest, has this relative error. */
#define HALF_ERROR 0x1p-8

/* Covers the roundings of sums and products, in FP64 and in FP32, relative to their terms. */
#define WIDE_SLACK 0x1p-40
#define HEAD_SLACK 0x1p-18

/* Covers projection errors, which are relative, in errors that are derived from scales. */
#define DERIVED_SLACK (1.0 + 0x1p-9)

/* The limit of queries that all rows with a bound pass. */
#define NO_LIMIT 0x1p100

/* Codes whose products are summed in 32 bits. */
#define PIECE 256

/* --- rows */

/* Returns the upper half of the least FP32 number with such a half that is not less than the value. */
static uint16
half_above(double value)
{
	union
	{
		float		value;
		uint32		bits;
	}			word = {.value = (float) value};
	uint16		half = word.bits >> 16;

	return FromHalf(half) < value ? half + 1 : half;
}

/* Rounds to the nearest upper half of an FP32 number. */
static uint16
half_near(double value)
{
	union
	{
		float		value;
		uint32		bits;
	}			word = {.value = (float) value};

	return (word.bits + 0x8000) >> 16;
}

/* Coordinates that are encoded in parallel. */
#define LANES 8

/* Sets the greatest magnitudes of n <= LANES coordinates and of what is there. */
static pg_attribute_always_inline void
raise_most(double *most, const double *coordinates, uint32 n)
{
	for (uint32 k = 0; k < n; k++)
		most[k] = Max(most[k], fabs(coordinates[k]));
}

/* Sets n <= LANES codes, whose magnitudes are at most 127.  Adds their squared errors. */
static pg_attribute_always_inline void
encode_some(const double *coordinates, uint32 n, double scale, int8 *codes, double *errors2)
{
	for (uint32 k = 0; k < n; k++)
	{
		double		code = rint(coordinates[k] / scale);
		double		diff = coordinates[k] - scale * code;

		codes[k] = (int8) (int32) code;
		errors2[k] += diff * diff;
	}
}

/* Sets the scale and the codes of n coordinates.  Returns the squared error. */
static pg_attribute_always_inline double
encode_level(const double *coordinates, uint32 n, uint16 *scale, int8 *codes)
{
	double		most[LANES] = {0};
	double		errors2[LANES] = {0};
	uint32		whole = n / LANES * LANES;
	double		unit;

	for (uint32 k = 0; k < whole; k += LANES)
		raise_most(most, coordinates + k, LANES);
	raise_most(most, coordinates + whole, n - whole);
	for (uint32 k = 1; k < LANES; k++)
		most[0] = Max(most[0], most[k]);
	*scale = half_above(fmax(most[0] / 127.0, LEAST_SCALE));
	unit = FromHalf(*scale);
	for (uint32 k = 0; k < whole; k += LANES)
		encode_some(coordinates + k, LANES, unit, codes + k, errors2);
	encode_some(coordinates + whole, n - whole, unit, codes + whole, errors2);
	for (uint32 k = 1; k < LANES; k++)
		errors2[0] += errors2[k];
	return errors2[0];
}

/* Sets the scales and codes of a row.  Returns the squared error. */
static pg_attribute_always_inline double
encode_levels(const IndexState *state, const double *coordinates, IndexRow *row)
{
	const IndexLayout *layout = &state->layout;
	double		error2 = 0.0;

	for (uint32 l = 0; l < layout->levels; l++)
		error2 += encode_level(coordinates + layout->first[l], layout->first[l + 1] - layout->first[l],
							   &row->scales[l], RowCodes(row, state) + layout->first[l]);
	return error2;
}

#if defined(__x86_64__)
__attribute__((target("avx2")))
static double
encode_levels_avx2(const IndexState *state, const double *coordinates, IndexRow *row)
{
	return encode_levels(state, coordinates, row);
}
#endif

void
EncodeCoordinates(const IndexState *state, const double *coordinates, double norm, IndexRow *row)
{
	const IndexLayout *layout = &state->layout;
	double		error2;
	double		rest2 = 0.0;

	row->state = norm < 0.0 ? ROW_NAN : isinf(norm) ? ROW_PASSES : 0;
	if (row->state != 0)
		return;
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		error2 = encode_levels_avx2(state, coordinates, row);
	else
#endif
		error2 = encode_levels(state, coordinates, row);
	for (uint32 l = layout->levels; l-- > 0;)
	{
		uint32		first = layout->first[l];

		row->seconds[l] = l == layout->levels - 1 ?
			half_above((sqrt(error2) + ProjectionError(state, norm)) * (1.0 + WIDE_SLACK)) :
			half_near(sqrt(rest2));
		rest2 += DoubleProduct(coordinates + first, coordinates + first, layout->first[l + 1] - first);
	}
}

void
EncodeRow(const IndexState *state, const double *vector, IndexRow *row)
{
	double	   *coordinates = palloc0((state->meta.dimensions + 31) * sizeof(double));
	double		norm = Project(state, vector, coordinates);

	EncodeCoordinates(state, coordinates, norm, row);
	pfree(coordinates);
}

/* --- queries */

/* Sets the codes of a level of a query.  Returns the squared error. */
static double
encode_query_level(VectorQuery *query, uint32 level, const double *coordinates, int16 *codes, uint32 n)
{
	double		most = 0.0;
	double		error2 = 0.0;
	int64		square = 0;
	double		scale;

	for (uint32 k = 0; k < n; k++)
		most = Max(most, fabs(coordinates[k]));
	scale = (double) (float) fmax(most / 32766.0, LEAST_SCALE);
	for (uint32 k = 0; k < n; k++)
	{
		double		diff;

		codes[k] = (int16) rint(coordinates[k] / scale);
		diff = coordinates[k] - scale * codes[k];
		error2 += diff * diff;
		square += (int32) codes[k] * codes[k];
	}
	query->scales[level] = scale;
	query->squares[level] = scale * scale * (double) square;
	return error2;
}

/* Returns the least FP32 number that is not less than the value. */
static float
float_above(double value)
{
	float		result = (float) value;

	return result < value ? nextafterf(result, INFINITY) : result;
}

float
FloatBelow(double value)
{
	return -float_above(-value);
}

/* Sets the coefficients of the bound of heads. */
static void
prepare_head(VectorQuery *query, const IndexState *state)
{
	HeadQuery  *head = &query->head;
	bool		last = query->levels == 1;
	uint32		n = state->layout.first[1];
	double		by_scale = last ? 0.0 : 0.5 * sqrt(n) * DERIVED_SLACK;
	double		by_second = last ? 1.0 : HALF_ERROR * DERIVED_SLACK;
	double		fixed = last ? 0.0 : query->fixed_error;

	memset(head->codes, 0, sizeof(head->codes));
	memcpy(head->codes, query->codes, n * sizeof(int16));
	head->product = query->product;
	head->scale = (float) query->scales[0];
	head->square = (float) query->squares[0];
	head->rest = last ? 0.0f : (float) query->rests[0];
	head->has_rest = last ? 0.0f : 1.0f;
	if (query->product)
	{
		/* The product of the errors with norms; the row's norm is at most 127 sqrt(n) scale + rest. */
		double		by_query = query->norm * (1.0 + query->relative);
		double		by_norm = query->errors[0] + query->norm * (query->relative + HEAD_SLACK);

		by_scale = by_scale * by_query + 127.0 * sqrt(n) * by_norm;
		by_second = by_second * by_query + head->has_rest * by_norm;
		fixed *= by_query;
	}
	else
		fixed += query->errors[0];
	head->by_scale = float_above(by_scale * (1.0 + HEAD_SLACK));
	head->by_second = float_above(by_second * (1.0 + HEAD_SLACK));
	head->fixed = float_above(fixed * (1.0 + HEAD_SLACK));
}

void
PrepareQuery(VectorQuery *query, const IndexState *state, const double *vector)
{
	const IndexLayout *layout = &state->layout;
	uint32		d = state->meta.dimensions;
	double	   *coordinates = palloc0((d + 31) * sizeof(double));
	double		norm = Project(state, vector, coordinates);
	double		error2 = 0.0;
	double		rest2 = 0.0;

	*query = (VectorQuery) {
		.kind = state->kind,.unit = state->scale,.levels = layout->levels,.norm = norm,
		.product = state->kind->metric == FASTED_METRIC_INNER_PRODUCT,
		.unbounded = norm < 0.0 || isinf(norm),.no_direction = norm < 0.0,.limit = INFINITY,
		.vector_norm = VectorNorm(vector, d),.relative = state->kind->relative * (d + 16.0),
		.fixed_error = ProjectionError(state, 0.0),.codes = palloc((d + HEAD_WORDS) * sizeof(int16))
	};
	if (query->unbounded)
		return;
	for (uint32 l = 0; l < layout->levels; l++)
	{
		error2 += encode_query_level(query, l, coordinates + layout->first[l],
									 query->codes + layout->first[l],
									 layout->first[l + 1] - layout->first[l]);
		query->errors[l] = (sqrt(error2) + ProjectionError(state, norm)) * (1.0 + WIDE_SLACK);
	}
	for (uint32 l = layout->levels; l-- > 0;)
	{
		query->rests[l] = sqrt(rest2);
		for (uint32 k = layout->first[l]; k < layout->first[l + 1]; k++)
			rest2 += coordinates[k] * coordinates[k];
	}
	query->norm = norm * (1.0 + HEAD_SLACK) + 0x1p-50;
	prepare_head(query, state);
	pfree(coordinates);
}

void
SetLimit(VectorQuery *query, double distance)
{
	const IndexedKind *kind = query->kind;
	double		reach = distance + kind->absolute + WIDE_SLACK * fabs(distance);
	double		limit = NO_LIMIT;

	switch (kind->metric)
	{
		case FASTED_METRIC_L2:
			if (query->relative < 0.5)
				limit = reach / (1.0 - query->relative) * query->unit;
			break;
		case FASTED_METRIC_COSINE:
			reach += query->relative;
			limit = reach < 0.0 ? -1.0 : sqrt(2.0 * reach) * query->unit;
			break;
		case FASTED_METRIC_INNER_PRODUCT:
			limit = reach * query->unit * query->unit;
			break;
		case FASTED_METRIC_HAMMING:
			limit = reach < 0.0 ? -1.0 : sqrt(reach) * query->unit;
			break;
		case FASTED_METRIC_JACCARD:
			/* A distance of j: at most j ones / (1 - j) bits differ. */
			if (reach < 1.0)
				limit = reach < 0.0 ? -1.0 : query->vector_norm * sqrt(reach / (1.0 - reach)) * query->unit;
			break;
	}
	limit += fabs(limit) * HEAD_SLACK;
	query->limit = Min(query->limit, float_above(fmax(fmin(limit, NO_LIMIT), -NO_LIMIT)));
}

double
OperatorBound(const VectorQuery *query, double bound)
{
	const IndexedKind *kind = query->kind;
	double		distance = Max(bound, 0.0) / query->unit * (1.0 - WIDE_SLACK);
	double		squared = distance * distance * (1.0 - WIDE_SLACK);
	double		ones = query->vector_norm * query->vector_norm;

	switch (kind->metric)
	{
		case FASTED_METRIC_L2:
			return Max(distance * (1.0 - query->relative) - kind->absolute, 0.0);
		case FASTED_METRIC_COSINE:
			return Max(squared / 2.0 - query->relative - kind->absolute, 0.0);
		case FASTED_METRIC_INNER_PRODUCT:
			return (bound - WIDE_SLACK * fabs(bound)) / query->unit / query->unit - kind->absolute;
		case FASTED_METRIC_HAMMING:
			return squared;
		case FASTED_METRIC_JACCARD:
			return squared > 0.0 ? squared / (squared + ones * (1.0 + WIDE_SLACK)) - kind->absolute : 0.0;
	}
	return 0.0;
}

/* --- heads */

/* A number for each row of a group. */
typedef float Floats __attribute__((vector_size(GROUP_ROWS * sizeof(float))));
typedef int32 Integers __attribute__((vector_size(GROUP_ROWS * sizeof(int32))));
typedef uint32 Words __attribute__((vector_size(GROUP_ROWS * sizeof(uint32))));
typedef uint16 Halves __attribute__((vector_size(GROUP_ROWS * sizeof(uint16))));

/* What is written for each instruction set, for a group: products with codes, squares, and roots. */
typedef void (*GroupProducts) (const HeadQuery *head, const int8 *codes, Integers *products, Integers *squares);
typedef void (*GroupRoots) (Floats *values);

static pg_attribute_always_inline void
group_products(const HeadQuery *head, const int8 *codes, Integers *products, Integers *squares)
{
	*products = *squares = (Integers) {0};
	for (uint32 k = 0; k < HEAD_WORDS; k++)
	{
		for (uint32 r = 0; r < GROUP_ROWS; r++)
		{
			int32		code = codes[HeadCodePlace(r, k)];

			(*products)[r] += code * head->codes[k];
			(*squares)[r] += code * code;
		}
	}
}

static pg_attribute_always_inline void
group_roots(Floats *values)
{
	for (uint32 r = 0; r < GROUP_ROWS; r++)
		(*values)[r] = sqrtf((*values)[r]);
}

/* Sets the bounds of n rows, in whole groups. */
static pg_attribute_always_inline void
head_bounds(const HeadQuery *q, const int8 *codes, const uint16 *scales, const uint16 *seconds, uint32 n,
			float *bounds, GroupProducts multiply, GroupRoots take_roots)
{
	const float slack = HEAD_SLACK;

	for (uint32 first = 0; first < n; first += GROUP_ROWS)
	{
		Integers	products;
		Integers	squares;
		Halves		halves[2];

		multiply(q, codes + first * HEAD_WORDS, &products, &squares);
		memcpy(&halves[0], scales + first, sizeof(Halves));
		memcpy(&halves[1], seconds + first, sizeof(Halves));
		{
			Floats		scale = (Floats) (__builtin_convertvector(halves[0], Words) << 16);
			Floats		second = (Floats) (__builtin_convertvector(halves[1], Words) << 16);
			Floats		rest = second * q->has_rest;
			Floats		error = q->by_scale * scale + q->by_second * second + q->fixed;
			Floats		sum = scale * q->scale * __builtin_convertvector(products, Floats);
			Floats		norms2 = scale * scale * __builtin_convertvector(squares, Floats) + q->square;
			Floats		terms = norms2 + (rest * rest + q->rest * q->rest);
			Floats		bound = -(sum + rest * q->rest);

			if (!q->product)
			{
				bound = norms2 - 2.0f * sum + (rest - q->rest) * (rest - q->rest) - slack * terms;
				bound = (Floats) ((Integers) bound & (bound > 0.0f));
				take_roots(&bound);
				bound *= 1.0f - slack;
			}
			bound -= error;
			memcpy(bounds + first, &bound, sizeof(bound));
		}
	}
}

#if defined(__x86_64__)
__attribute__((target("avx2")))
static inline void
group_products_avx2(const HeadQuery *head, const int8 *codes, Integers *products, Integers *squares)
{
	__m256i		product = _mm256_setzero_si256();
	__m256i		square = _mm256_setzero_si256();

	for (uint32 k = 0; k < HEAD_WORDS; k += 2)
	{
		__m128i		pairs = _mm_loadu_si128((const __m128i *) (codes + k * GROUP_ROWS));
		__m256i		row = _mm256_cvtepi8_epi16(pairs);
		int32		pair;

		memcpy(&pair, head->codes + k, sizeof(pair));
		product = _mm256_add_epi32(product, _mm256_madd_epi16(row, _mm256_set1_epi32(pair)));
		square = _mm256_add_epi32(square, _mm256_madd_epi16(row, row));
	}
	*products = (Integers) product;
	*squares = (Integers) square;
}

__attribute__((target("avx2")))
static inline void
group_roots_avx2(Floats *values)
{
	*values = (Floats) _mm256_sqrt_ps((__m256) *values);
}

__attribute__((target("avx2")))
static void
head_bounds_avx2(const HeadQuery *head, const int8 *codes, const uint16 *scales, const uint16 *seconds,
				 uint32 n, float *bounds)
{
	head_bounds(head, codes, scales, seconds, n, bounds, group_products_avx2, group_roots_avx2);
}
#endif

/* The bound of a row of which there are no codes. */
static float
state_bound(uint16 second)
{
	switch ((RowState) second)
	{
		case ROW_PASSES:
			return -INFINITY;
		case ROW_NAN:
			return BOUND_NAN;
		case ROW_NULL:
			return BOUND_NULL;
		default:
			return BOUND_FREE;
	}
}

void
HeadBounds(const VectorQuery *query, const IndexState *state, Page page, float *bounds)
{
	const uint16 *seconds = HeadSeconds(page, state);
	uint32		n = state->layout.chunk_rows;
	uint16		states = 0;

	if (query->unbounded)
	{
		for (uint32 r = 0; r < n; r++)
			bounds[r] = query->no_direction ? BOUND_NAN : -INFINITY;
	}
#if defined(__x86_64__)
	else if (__builtin_cpu_supports("avx2"))
		head_bounds_avx2(&query->head, HeadCodes(page, state), HeadScales(page, state), seconds, n, bounds);
#endif
	else
		head_bounds(&query->head, HeadCodes(page, state), HeadScales(page, state), seconds, n, bounds,
					group_products, group_roots);
	for (uint32 r = 0; r < n; r++)
		states |= seconds[r];
	for (uint32 r = 0; r < n && HAS_STATE(states); r++)
	{
		if (HAS_STATE(seconds[r]))
			bounds[r] = state_bound(seconds[r]);
	}
}

/* --- further levels */

/* Sets the product with the query's codes, and the square, of n codes. */
static pg_attribute_always_inline void
code_products(const int8 *codes, const int16 *query_codes, uint32 n, double *product, double *square)
{
	*product = *square = 0.0;
	for (uint32 first = 0; first < n; first += PIECE)
	{
		int32		piece_product = 0;
		int32		piece_square = 0;

		for (uint32 k = first; k < Min(first + PIECE, n); k++)
		{
			piece_product += (int32) codes[k] * query_codes[k];
			piece_square += (int32) codes[k] * codes[k];
		}
		*product += piece_product;
		*square += piece_square;
	}
}

#if defined(__x86_64__)
__attribute__((target("avx2")))
static void
code_products_avx2(const int8 *codes, const int16 *query_codes, uint32 n, double *product, double *square)
{
	code_products(codes, query_codes, n, product, square);
}
#endif

static void
add_level(RowSums *sums, const VectorQuery *query, const IndexState *state, uint32 level, double scale,
		  const int8 *codes)
{
	uint32		first = state->layout.first[level];
	uint32		n = state->layout.first[level + 1] - first;
	double		product;
	double		square;

#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		code_products_avx2(codes, query->codes + first, n, &product, &square);
	else
#endif
		code_products(codes, query->codes + first, n, &product, &square);
	sums->product += scale * query->scales[level] * product;
	sums->norm2 += scale * scale * square;
	sums->coarse2 += scale * scale * n;
	sums->query2 += query->squares[level];
}

void
BeginSums(RowSums *sums, const VectorQuery *query, const IndexState *state, Page page, uint32 row)
{
	int8		codes[HEAD_WORDS];

	for (uint32 k = 0; k < HEAD_WORDS; k++)
		codes[k] = HeadCodes(page, state)[HeadCodePlace(row, k)];
	*sums = (RowSums) {0};
	add_level(sums, query, state, 0, FromHalf(HeadScales(page, state)[row]), codes);
}

double
AddLevel(RowSums *sums, const VectorQuery *query, const IndexState *state, uint32 level,
		 const LevelRow *codes)
{
	bool		last = level == query->levels - 1;
	double		second = FromHalf(codes->second);
	double		rest = last ? 0.0 : second;
	double		query_rest = last ? 0.0 : query->rests[level];
	double		error;
	double		norm2;
	double		distance2;

	add_level(sums, query, state, level, FromHalf(codes->scale), codes->codes);
	error = last ? second :
		(0.5 * sqrt(sums->coarse2) + HALF_ERROR * rest) * DERIVED_SLACK + query->fixed_error;
	norm2 = sums->norm2 + rest * rest;
	if (query->product)
	{
		double		norm = sqrt(norm2);
		double		bound = -(sums->product + rest * query_rest) - error * query->norm
			- norm * query->errors[level] - query->relative * query->norm * (norm + error);

		return bound - WIDE_SLACK * (norm + error) * query->norm;
	}
	distance2 = sums->query2 + sums->norm2 - 2.0 * sums->product + (rest - query_rest) * (rest - query_rest)
		- WIDE_SLACK * (sums->query2 + norm2 + query_rest * query_rest);
	return sqrt(Max(distance2, 0.0)) * (1.0 - WIDE_SLACK) - error - query->errors[level];
}
