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
#define LEAST_HALF 0x2180		/* its upper half */

/* The upper half of an FP32 number, rounded to nearest, has this relative error. */
#define HALF_ERROR 0x1p-8

/* Covers the roundings of sums and products, in FP64 and in FP32, relative to their terms. */
#define WIDE_SLACK 0x1p-40
#define SLACK 0x1p-18

/* Covers projection errors, which are relative, in errors that are derived from scales. */
#define DERIVED_SLACK (1.0 + 0x1p-9)

/* The limit of queries that all rows with a bound pass. */
#define NO_LIMIT 0x1p100

/* Codes whose products with 16 bits are summed in 32 bits. */
#define PIECE 512

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

	/* the lower half was cut off: towards 0 */
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

/* Returns the upper half of the greatest FP32 number with such a half that is not greater than the value. */
static uint16
half_below(double value)
{
	return half_above(-value) ^ 0x8000;
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

/* --- boxes */

void
WidenBox(const IndexState *state, const IndexRow *row, uint32 number, ChunkBox *box)
{
	const int8 *codes = RowCodes((IndexRow *) row, state);
	uint32		n = state->layout.first[1];
	double		scale = FromHalf(row->scales[0]);
	uint16		hash = state->meta.columns > 0 ? RowHashes((IndexRow *) row)[0] >> 16 : 0;

	if (number == 0)
		*box = (ChunkBox) {.most_scale = LEAST_HALF,.least_hash = hash,.most_hash = hash};
	box->least_hash = Min(box->least_hash, hash);
	box->most_hash = Max(box->most_hash, hash);
	if (row->state != 0 || box->most_scale == 0)
	{
		box->most_scale = 0;
		return;
	}
	for (uint32 k = 0; k <= HEAD_WORDS; k++)
	{
		double		value = k == HEAD_WORDS ? FromHalf(row->seconds[0]) : k < n ? scale * codes[k] : 0.0;

		if (number == 0 || value < FromHalf(box->low[k]))
			box->low[k] = half_below(value);
		if (number == 0 || value > FromHalf(box->high[k]))
			box->high[k] = half_above(value);
	}
	box->most_scale = Max(box->most_scale, row->scales[0]); /* halves that are not negative are in order */
}

/* --- queries */

/* Sets the codes of a level of a query.  Returns the squared error, and sets the squared norm of the codes. */
static double
encode_query_level(LevelQuery *level, const double *coordinates, int16 *codes, double *norm2)
{
	double		most = 0.0;
	double		error2 = 0.0;
	int64		square = 0;
	double		scale;

	for (uint32 k = 0; k < level->n; k++)
		most = Max(most, fabs(coordinates[k]));
	level->scale = (float) fmax(most / 32766.0, LEAST_SCALE);
	scale = level->scale;
	for (uint32 k = 0; k < level->n; k++)
	{
		double		diff;

		codes[k] = (int16) rint(coordinates[k] / scale);
		diff = coordinates[k] - scale * codes[k];
		error2 += diff * diff;
		square += (int32) codes[k] * codes[k];
	}
	level->codes = codes;
	*norm2 = scale * scale * (double) square;
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

/* Sets the coefficients of the error of a level's bounds, for the error of the query up to this level. */
static void
set_errors(const VectorQuery *query, LevelQuery *level, bool last, double query_norm, double query_error,
		   double fixed_error)
{
	double		by_coarse = last ? 0.0 : 0.5 * DERIVED_SLACK;
	double		by_second = last ? 1.0 : HALF_ERROR * DERIVED_SLACK;
	double		by_error = 1.0; /* for a row's error */
	double		fixed = last ? 0.0 : fixed_error;

	if (query->product)
	{
		/* The product of the errors with norms. */
		by_error = query_norm * (1.0 + query->relative + SLACK);
		level->by_norm = float_above((query_error + query_norm * (query->relative + SLACK)) * (1.0 + SLACK));
		fixed *= by_error;
	}
	else
		fixed += query_error;
	level->by_coarse = float_above(by_coarse * by_error * (1.0 + SLACK));
	level->by_second = float_above(by_second * by_error * (1.0 + SLACK));
	level->fixed = float_above(fixed * (1.0 + SLACK));
	level->has_rest = last ? 0.0f : 1.0f;
}

void
PrepareQuery(VectorQuery *query, const IndexState *state, const double *vector)
{
	const IndexLayout *layout = &state->layout;
	uint32		d = state->meta.dimensions;
	double	   *coordinates = palloc0((d + 31) * sizeof(double));
	double		norm = Project(state, vector, coordinates);
	int16	   *codes = palloc0((d + HEAD_WORDS + INDEX_LEVELS) * sizeof(int16));
	double		error2 = 0.0;
	double		codes2 = 0.0;
	double		rest2 = 0.0;

	*query = (VectorQuery) {
		.kind = state->kind,.unit = state->scale,.product = state->kind->metric == FASTED_METRIC_INNER_PRODUCT,
		.unbounded = norm < 0.0 || isinf(norm),.no_direction = norm < 0.0,.limit = INFINITY,
		.vector_norm = VectorNorm(vector, d),.relative = state->kind->relative * (d + 16.0)
	};
	if (query->unbounded)
		return;
	for (uint32 l = layout->levels; l-- > 0;)
	{
		query->levels[l].rest = (float) sqrt(rest2);
		for (uint32 k = layout->first[l]; k < layout->first[l + 1]; k++)
			rest2 += coordinates[k] * coordinates[k];
	}
	for (uint32 l = 0; l < layout->levels; l++)
	{
		LevelQuery *level = &query->levels[l];
		double		norm2;

		level->n = layout->first[l + 1] - layout->first[l];
		error2 += encode_query_level(level, coordinates + layout->first[l], codes, &norm2);
		codes += layout->words[l];
		codes2 += norm2;
		level->norm2 = (float) (codes2 + (double) level->rest * level->rest);
		set_errors(query, level, l == layout->levels - 1, norm * (1.0 + SLACK) + 0x1p-50,
				   (sqrt(error2) + ProjectionError(state, norm)) * (1.0 + WIDE_SLACK) + SLACK * level->rest,
				   ProjectionError(state, 0.0));
	}
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
	limit += fabs(limit) * SLACK;
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

/* --- levels */

/* A number for each row of a group. */
typedef float Floats __attribute__((vector_size(GROUP_ROWS * sizeof(float))));
typedef int32 Integers __attribute__((vector_size(GROUP_ROWS * sizeof(int32))));
typedef uint32 Words __attribute__((vector_size(GROUP_ROWS * sizeof(uint32))));
typedef uint16 Halves __attribute__((vector_size(GROUP_ROWS * sizeof(uint16))));

/* The same in memory. */
typedef Halves StoredHalves __attribute__((aligned(sizeof(uint16)), may_alias));

/* What is written for each instruction set. */
typedef struct Steps
{
	/* Sets the products of the codes of a group with those of the query, and the squares. */
	void		(*multiply_group) (const int8 *codes, const int16 *query, uint32 n, Integers *products,
								   Integers *squares);

	/* The same for at most PIECE codes of one row. */
	void		(*multiply_row) (const int8 *codes, const int16 *query, uint32 n, int32 *product, int32 *square);
	void		(*take_roots) (Floats *values);

	/* Returns a bit for each number that is not 0. */
	uint8		(*collect) (const Integers *flags);
} Steps;

static pg_attribute_always_inline void
multiply_group(const int8 *codes, const int16 *query, uint32 n, Integers *products, Integers *squares)
{
	*products = *squares = (Integers) {0};
	for (uint32 k = 0; k < n; k++)
	{
		for (uint32 r = 0; r < GROUP_ROWS; r++)
		{
			int32		code = codes[GroupCodePlace(0, r, k)];

			(*products)[r] += code * query[k];
			(*squares)[r] += code * code;
		}
	}
}

static pg_attribute_always_inline void
multiply_row(const int8 *codes, const int16 *query, uint32 n, int32 *product, int32 *square)
{
	*product = *square = 0;
	for (uint32 k = 0; k < n; k++)
	{
		*product += (int32) codes[k] * query[k];
		*square += (int32) codes[k] * codes[k];
	}
}

static pg_attribute_always_inline void
take_roots(Floats *values)
{
	for (uint32 r = 0; r < GROUP_ROWS; r++)
		(*values)[r] = sqrtf((*values)[r]);
}

static pg_attribute_always_inline uint8
collect(const Integers *flags)
{
	uint8		bits = 0;

	for (uint32 r = 0; r < GROUP_ROWS; r++)
		bits |= ((*flags)[r] != 0) << r;
	return bits;
}

static const Steps portable_steps = {multiply_group, multiply_row, take_roots, collect};

/* Sets the products of those rows of a group that have bits, in a level that is not grouped. */
static pg_attribute_always_inline void
multiply_rows(const LevelQuery *q, const IndexLayout *layout, uint32 level, Page page, uint32 first, uint8 bits,
			  StoredFloats *products, StoredFloats *squares, Halves *halves, const Steps *steps)
{
	float		of_rows[2][GROUP_ROWS] = {0};
	uint16		numbers[2][GROUP_ROWS] = {0};

	for (; bits != 0; bits &= bits - 1)
	{
		uint32		r = __builtin_ctz(bits);
		const LevelRow *row = LevelRowOf(page, layout, level, first + r);

		for (uint32 k = 0; k < q->n; k += PIECE)
		{
			int32		product;
			int32		square;

			steps->multiply_row(row->codes + k, q->codes + k, Min(q->n - k, PIECE), &product, &square);
			of_rows[0][r] += product;
			of_rows[1][r] += square;
		}
		numbers[0][r] = row->scale;
		numbers[1][r] = row->second;
	}
	*products = *(StoredFloats *) of_rows[0];
	*squares = *(StoredFloats *) of_rows[1];
	halves[0] = *(StoredHalves *) numbers[0];
	halves[1] = *(StoredHalves *) numbers[1];
}

static inline void
prefetch(const void *bytes, uint32 n)
{
	for (uint32 line = 0; line < n; line += CACHE_LINE)
		__builtin_prefetch((const char *) bytes + line);
}

/* Fetches the codes of those of n rows of a page that have bits, or of their groups, into the cache. */
static pg_attribute_always_inline void
prefetch_codes(const IndexState *state, uint32 level, Page page, uint32 first, uint32 n, const uint8 *masks)
{
	const IndexLayout *layout = &state->layout;
	uint32		bytes = layout->words[level] * GROUP_ROWS;

	if (level < GROUPED_LEVELS)
	{
		for (uint32 g = 0; g < n / GROUP_ROWS; g++)
		{
			if (masks[first / GROUP_ROWS + g] != 0)
				prefetch(GroupCodes(page, state, level) + g * bytes, bytes);
		}
		return;
	}
	for (uint32 r = first; r < first + n; r++)
	{
		if ((masks[r / GROUP_ROWS] >> r % GROUP_ROWS & 1) != 0)
			prefetch(LevelRowOf(page, layout, level, r), layout->stride[level]);
	}
}

/* Sets the bounds of a group of rows.  `coarse` is the root of coarse2. */
static pg_attribute_always_inline void
group_bounds(const LevelQuery *q, bool product, const GroupSums *sums, const Floats *coarse, const Floats *seconds,
			 Floats *bounds, const Steps *steps)
{
	Floats		rests = *seconds * q->has_rest;
	Floats		all2 = sums->norms2 + rests * rests;
	Floats		products = sums->products + rests * q->rest;
	Floats		errors = q->by_coarse * *coarse + q->by_second * *seconds + q->fixed;

	if (product)
	{
		steps->take_roots(&all2);
		*bounds = -products - errors - q->by_norm * all2;
		return;
	}
	*bounds = (all2 + q->norm2) * (float) (1.0 - SLACK) - 2.0f * products;
	*bounds = (Floats) ((Integers) *bounds & (*bounds > 0.0f));
	steps->take_roots(bounds);
	*bounds = *bounds * (float) (1.0 - SLACK) - errors;
}

/* The arrays of a page of a grouped level, whose places are computed once. */
typedef struct GroupArrays
{
	const int8 *codes;
	const uint16 *scales;
	const uint16 *seconds;
} GroupArrays;

/*
 * Sets what a level of those rows of group g that have bits adds to the sums but coarse2, its root, and the second
 * numbers.
 */
static pg_attribute_always_inline void
read_group(const LevelQuery *q, const IndexState *state, uint32 level, Page page, const GroupArrays *arrays, uint32 words,
		   uint32 first, uint32 g, uint8 bits, GroupSums *terms, Floats *coarse, Floats *seconds, const Steps *steps)
{
	uint32		place = g * GROUP_ROWS - first;
	Integers	products;
	Integers	squares;
	Halves		halves[2];
	Floats		scales;

	if (level < GROUPED_LEVELS)
	{
		steps->multiply_group(arrays->codes + place * words, q->codes, words, &products, &squares);
		terms->products = __builtin_convertvector(products, Floats);
		terms->norms2 = __builtin_convertvector(squares, Floats);
		halves[0] = *(StoredHalves *) (arrays->scales + place);
		halves[1] = *(StoredHalves *) (arrays->seconds + place);
	}
	else
		multiply_rows(q, &state->layout, level, page, g * GROUP_ROWS, bits, &terms->products, &terms->norms2, halves,
					  steps);
	scales = (Floats) (__builtin_convertvector(halves[0], Words) << 16);
	*seconds = (Floats) (__builtin_convertvector(halves[1], Words) << 16);
	terms->products *= scales * q->scale;
	terms->norms2 *= scales * scales;
	*coarse = scales * sqrtf(q->n);
}

static pg_attribute_always_inline void
level_bounds(const VectorQuery *query, const IndexState *state, uint32 level, Page page, uint32 first, uint32 n,
			 uint8 *masks, GroupSums *sums, float *bounds, const Steps *steps)
{
	const LevelQuery q = query->levels[level];
	const Integers each = {1, 2, 4, 8, 16, 32, 64, 128};
	const float limit = query->limit;
	const bool	product = query->product;
	const uint32 words = level == 0 ? HEAD_WORDS : state->layout.words[level];
	const GroupArrays arrays = {
		.codes = GroupCodes(page, state, level),.scales = GroupScales(page, state, level),
		.seconds = GroupSeconds(page, state, level)
	};

	prefetch_codes(state, level, page, first, n, masks);
	for (uint32 g = first / GROUP_ROWS; g * GROUP_ROWS < first + n; g++)
	{
		uint8		bits = masks[g];
		StoredFloats *of_rows = (StoredFloats *) (bounds + g * GROUP_ROWS);
		Floats		coarse;
		Floats		seconds;
		Floats		before = *of_rows;
		Floats		after;
		GroupSums	sum;
		Integers	lanes;

		/* the group may have rows on the pages before and after this one */
		if (level >= GROUPED_LEVELS && first > g * GROUP_ROWS)
			bits &= 0xff << (first - g * GROUP_ROWS);
		if (level >= GROUPED_LEVELS && (g + 1) * GROUP_ROWS > first + n)
			bits &= 0xff >> ((g + 1) * GROUP_ROWS - first - n);
		if (bits == 0)
			continue;
		read_group(&q, state, level, page, &arrays, words, first, g, bits, &sum, &coarse, &seconds, steps);
		sum.coarse2 = coarse * coarse;
		if (level > 0)
		{
			sum.products += sums[g].products;
			sum.norms2 += sums[g].norms2;
			sum.coarse2 += sums[g].coarse2;
			coarse = sum.coarse2;
			steps->take_roots(&coarse);
		}
		group_bounds(&q, product, &sum, &coarse, &seconds, &after, steps);

		/* other rows of the group keep their bounds */
		lanes = ((each & bits) != 0) & (after > before);
		after = (Floats) (((Integers) after & lanes) | ((Integers) before & ~lanes));
		*of_rows = after;
		lanes = after > limit;
		masks[g] &= ~(bits & steps->collect(&lanes));
		if (masks[g] != 0)
			sums[g] = sum;
	}
}

#if defined(__x86_64__)
__attribute__((target("avx2")))
static inline void
multiply_group_avx2(const int8 *codes, const int16 *query, uint32 n, Integers *products, Integers *squares)
{
	__m256i		product = _mm256_setzero_si256();
	__m256i		square = _mm256_setzero_si256();

#pragma GCC unroll 8
	for (Size k = 0; k < n; k += 2)
	{
		__m256i		row = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) (codes + k * GROUP_ROWS)));
		int32		pair;

		memcpy(&pair, query + k, sizeof(pair));
		product = _mm256_add_epi32(product, _mm256_madd_epi16(row, _mm256_set1_epi32(pair)));
		square = _mm256_add_epi32(square, _mm256_madd_epi16(row, row));
	}
	*products = (Integers) product;
	*squares = (Integers) square;
}

__attribute__((target("avx2")))
static inline int32
sum_avx2(__m256i values)
{
	__m128i		sum = _mm_add_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));

	sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

__attribute__((target("avx2")))
static inline void
multiply_row_avx2(const int8 *codes, const int16 *query, uint32 n, int32 *product, int32 *square)
{
	__m256i		products = _mm256_setzero_si256();
	__m256i		squares = _mm256_setzero_si256();
	uint32		whole = n / 16 * 16;

	for (Size k = 0; k < whole; k += 16)
	{
		__m256i		row = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) (codes + k)));

		products = _mm256_add_epi32(products, _mm256_madd_epi16(row, _mm256_loadu_si256((const __m256i *) (query + k))));
		squares = _mm256_add_epi32(squares, _mm256_madd_epi16(row, row));
	}
	multiply_row(codes + whole, query + whole, n - whole, product, square);
	*product += sum_avx2(products);
	*square += sum_avx2(squares);
}

__attribute__((target("avx2")))
static inline void
take_roots_avx2(Floats *values)
{
	*values = (Floats) _mm256_sqrt_ps((__m256) *values);
}

__attribute__((target("avx2")))
static inline uint8
collect_avx2(const Integers *flags)
{
	return _mm256_movemask_ps((__m256) *flags);
}

__attribute__((target("avx2")))
static void
level_bounds_avx2(const VectorQuery *query, const IndexState *state, uint32 level, Page page, uint32 first,
				  uint32 n, uint8 *masks, GroupSums *sums, float *bounds)
{
	static const Steps steps = {multiply_group_avx2, multiply_row_avx2, take_roots_avx2, collect_avx2};

	if (level == 0)
		level_bounds(query, state, 0, page, first, n, masks, sums, bounds, &steps);
	else
		level_bounds(query, state, level, page, first, n, masks, sums, bounds, &steps);
}
#endif

void
LevelBounds(const VectorQuery *query, const IndexState *state, uint32 level, Page page, uint32 first,
			uint32 n, uint8 *masks, GroupSums *sums, float *bounds)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
	{
		level_bounds_avx2(query, state, level, page, first, n, masks, sums, bounds);
		return;
	}
#endif
	level_bounds(query, state, level, page, first, n, masks, sums, bounds, &portable_steps);
}

/* --- rows without codes, and boxes */

void
SplitMasks(const IndexState *state, Page page, uint8 *masks, uint8 *uncoded)
{
	const uint16 *seconds = HeadSeconds(page, state);
	uint32		n = state->layout.chunk_rows;
	Halves		of_lanes = {0};
	uint16		states = 0;

	for (uint32 r = 0; r < n; r += GROUP_ROWS)
		of_lanes |= *(const StoredHalves *) (seconds + r);
	for (uint32 r = 0; r < GROUP_ROWS; r++)
		states |= of_lanes[r];
	memset(uncoded, 0, n / GROUP_ROWS);
	for (uint32 r = 0; r < n && HAS_STATE(states); r++)
	{
		uint8		bit = masks[r / GROUP_ROWS] & (1 << r % GROUP_ROWS);

		if (!HAS_STATE(seconds[r]))
			continue;
		masks[r / GROUP_ROWS] &= ~bit;
		if (seconds[r] != ROW_FREE)
			uncoded[r / GROUP_ROWS] |= bit;
	}
}

/* The bound of a row that has no codes, or of a query that has no bounds. */
static float
state_bound(const VectorQuery *query, uint16 second)
{
	if (!HAS_STATE(second))
		return query->no_direction ? BOUND_NAN : -INFINITY;
	return second == ROW_PASSES ? -INFINITY : second == ROW_NAN ? BOUND_NAN : second == ROW_NULL ? BOUND_NULL : BOUND_FREE;
}

void
UncodedBounds(const VectorQuery *query, const IndexState *state, Page page, uint8 *uncoded, float *bounds)
{
	const uint16 *seconds = HeadSeconds(page, state);

	for (uint32 r = 0; r < state->layout.chunk_rows; r++)
	{
		uint8		bit = 1 << r % GROUP_ROWS;

		if ((uncoded[r / GROUP_ROWS] & bit) == 0)
			continue;
		bounds[r] = state_bound(query, seconds[r]);
		if (!(bounds[r] <= query->limit) && !(query->undefined && bounds[r] == BOUND_NAN))
			uncoded[r / GROUP_ROWS] &= ~bit;
	}
}

static pg_attribute_always_inline float
box_bound(const VectorQuery *query, const ChunkBox *box)
{
	const LevelQuery *q = &query->levels[0];
	float		low = FromHalf(box->low[HEAD_WORDS]) * q->has_rest;
	float		high = FromHalf(box->high[HEAD_WORDS]);
	float		errors = q->by_coarse * FromHalf(box->most_scale) * sqrtf(q->n) + q->by_second * high + q->fixed;
	Floats		sums = {0};
	Floats		norms2 = {0};
	float		sum;
	float		norm2;

	high *= q->has_rest;
	sum = Max(Max(low - q->rest, q->rest - high), 0.0f);
	sum = query->product ? high * q->rest : sum * sum;
	norm2 = high * high;
	for (uint32 k = 0; k < HEAD_WORDS; k += GROUP_ROWS)
	{
		Integers	codes;
		Floats		lows;
		Floats		highs;
		Floats		values;

		lows = (Floats) (__builtin_convertvector(*(StoredHalves *) (box->low + k), Words) << 16);
		highs = (Floats) (__builtin_convertvector(*(StoredHalves *) (box->high + k), Words) << 16);
		codes = (Integers) (__builtin_convertvector(*(StoredHalves *) (q->codes + k), Words) << 16) >> 16;
		values = __builtin_convertvector(codes, Floats) * q->scale;
		if (query->product)
		{
			Integers	negative = values < 0.0f;

			sums += values * (Floats) (((Integers) lows & negative) | ((Integers) highs & ~negative));
		}
		else
		{
			Floats		below = lows - values;
			Floats		above = values - highs;

			/* at most one of them is positive */
			below = (Floats) ((Integers) below & (below > 0.0f)) + (Floats) ((Integers) above & (above > 0.0f));
			sums += below * below;
		}
		norms2 += lows * lows + highs * highs;
	}
	for (uint32 k = 0; k < GROUP_ROWS; k++)
	{
		sum += sums[k];
		norm2 += norms2[k];
	}
	if (query->product)
		return -sum - errors - q->by_norm * sqrtf(norm2) - (float) SLACK * sqrtf(norm2 * q->norm2);
	sum -= (float) SLACK * (sum + q->norm2);
	return sqrtf(Max(sum, 0.0f)) * (float) (1.0 - SLACK) - errors;
}

#if defined(__x86_64__)
__attribute__((target("avx2")))
static float
box_bound_avx2(const VectorQuery *query, const ChunkBox *box)
{
	return box_bound(query, box);
}
#endif

float
BoxBound(const VectorQuery *query, const ChunkBox *box)
{
	if (query->unbounded || box->most_scale == 0)
		return -INFINITY;
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		return box_bound_avx2(query, box);
#endif
	return box_bound(query, box);
}
