/*-------------------------------------------------------------------------
 *
 * tile_kernel.inc.h
 *	  The body of the filter kernel, included once for each instruction set.
 *
 * The includer defines the macros below.  At the end all of them are undefined, except those of
 * the tile's shape and of the instruction set:
 *
 *	  KERNEL(name)		the name of a function, made unique
 *	  TARGET			the target attribute of functions
 *	  WIDTH				rows per sliver
 *	  TILE_ROWS			rows per tile; divides WIDTH
 *	  TILE_SLIVERS		slivers that form the columns of a tile
 *	  Word				the type of packed words, sums and thresholds: 4 bytes
 *	  LANES				words per vector of type Vec; divides WIDTH
 *	  VEC_MULTIPLY_ROW(c, a, b)	c[v] += *a * b[v] for all vectors of a tile's row
 *	  MULTIPLY_WORD(sums, a, b, sliver)	optional replacement, for all rows of a tile
 *	  BYTE_COUNTS(x)	for rows of bits, the number of bits in each byte of a vector
 *	  SUM_BYTES(x)		and the sum of each word's bytes; both replace VEC_MULTIPLY_ROW
 *	  Hit				the type of the result of comparing two vectors
 *	  HIT_ANY(h) HIT_BITS(h)	whether any element is a hit, and the mask of hits
 *	  VEC_REACHES(g, a, b)	compares the sums g with the thresholds a and b of the rows.
 *						It is optional if Hit is a vector.
 *
 * An FP32 kernel also defines FP32_ROWS, and gets the functions of rows.  It has a function
 * KERNEL(sum), or defines vectors of DOUBLES doubles:
 *
 *	  DOUBLES DoubleVec	DOUBLE_LOAD(p) from doubles, DOUBLE_WIDEN(p) from floats
 *	  DOUBLE_LOAD_REST(p, n, v) DOUBLE_WIDEN_REST(p, n, v)	the same for vector v of n numbers
 *	  DOUBLE_FMA(x, y, z) DOUBLE_FOLD(v)	x * y + z; the sum, halves added first
 *
 * An integer kernel defines INT8_ROWS or INT16_ROWS, and gets the functions that convert rows
 * to integers.  With INT8_ROWS and INT16_RECHECK it also gets those of INT16 rows.  A kernel for
 * rows of bits defines BITS_ROWS, and gets their functions.
 *
 * A tile keeps all its sums in registers: TILE_ROWS x TILE_VECS vectors, beside one row of b
 * (TILE_VECS) and one broadcast word of a.
 *
 *-------------------------------------------------------------------------
 */

#define TILE_COLS (WIDTH * TILE_SLIVERS)
#define TILE_VECS (TILE_COLS / LANES)
#define SLIVER_VECS (WIDTH / LANES)
#define TILE_SIZE (TILE_ROWS * TILE_COLS)

/* Words per round of the inner loop: 2 was the fastest, 4 the slowest. */
#define STEPS 2

#define FOR_ROWS(i) UNROLL for (int i = 0; i < TILE_ROWS; i++)
#define FOR_VECS(v) UNROLL for (int v = 0; v < TILE_VECS; v++)

/* A vector of words, and one that may have any alignment. */
#define Vec KERNEL(vec)
typedef Word Vec __attribute__((vector_size(4 * LANES)));
typedef Vec KERNEL(loose_vec) __attribute__((aligned(4), may_alias));

#define VEC_AT(p) (*(KERNEL(loose_vec) *) (p))
#define VEC_LOAD(p) (*(const KERNEL(loose_vec) *) (p))
#define VEC_SPLAT(p) (*(p) - (Vec) {0})

/* For integers, the sum of the thresholds could overflow: see filter_bound.h. */
#ifndef VEC_REACHES
#define VEC_REACHES(g, a, b) ((Word) 0.5 != 0 ? (g) >= (a) + (b) : (g) - (b) >= (a))
#endif

/* Returns a bit mask of the sums of a row that reach their thresholds. */
TARGET static inline __attribute__((always_inline)) uint64_t
KERNEL(row_bits) (const Vec sums[TILE_VECS], const Word *a_threshold, const Word *b_threshold)
{
	Vec			ta = VEC_SPLAT(a_threshold);
	uint64_t	bits = 0;

	FOR_VECS(v)
	{
		Vec			tb = VEC_LOAD(b_threshold + v * LANES);

		bits |= (uint64_t) HIT_BITS(VEC_REACHES(sums[v], ta, tb)) << (v * LANES);
	}
	return bits;
}

/* Sets the bits of all sums that reach their thresholds.  Called if at least one does. */
TARGET static inline __attribute__((always_inline)) void
KERNEL(mark_hits) (Vec sums[TILE_ROWS][TILE_VECS], const TileSweep *sweep, uint32_t row)
{
	uint8_t    *hits = sweep->hits + row * sweep->hit_stride;
	const size_t hit_stride = sweep->hit_stride;

	FOR_ROWS(i)
	{
		uint64_t	bits = KERNEL(row_bits) (sums[i], (const Word *) sweep->a_threshold + row + i,
											 sweep->b_threshold);

		if (sweep->a_second != NULL)
			bits |= KERNEL(row_bits) (sums[i], (const Word *) sweep->a_second + row + i,
									  sweep->b_second);
		if (bits != 0)
		{
			UNROLL for (int byte = 0; byte < TILE_COLS / 8; byte++)
				hits[i * hit_stride + byte] = (uint8_t) (bits >> (8 * byte));
		}
	}
}

/* Returns whether any sum reaches its thresholds. */
TARGET static inline __attribute__((always_inline)) Hit
KERNEL(any_hit) (Vec sums[TILE_ROWS][TILE_VECS], const Word *a_threshold,
				 const Word *b_threshold)
{
	Hit			any = {0};
	Vec			tb[TILE_VECS];

	FOR_VECS(v)
		tb[v] = VEC_LOAD(b_threshold + v * LANES);
	FOR_ROWS(i)
	{
		Vec			ta = VEC_SPLAT(a_threshold + i);

		FOR_VECS(v)
			any |= VEC_REACHES(sums[i][v], ta, tb[v]);
	}
	return any;
}

/* Tests the sums of one tile against the thresholds.  Few tiles have any hit. */
TARGET static inline __attribute__((always_inline)) void
KERNEL(test_tile) (Vec sums[TILE_ROWS][TILE_VECS], const TileSweep *sweep, uint32_t row)
{
	Hit			any = KERNEL(any_hit) (sums, (const Word *) sweep->a_threshold + row,
									   sweep->b_threshold);

	if (sweep->a_second != NULL)
		any |= KERNEL(any_hit) (sums, (const Word *) sweep->a_second + row, sweep->b_second);
	if (HIT_ANY(any))
		KERNEL(mark_hits) (sums, sweep, row);
}

#ifdef BYTE_COUNTS

/* Number of words whose bits can be counted in bytes. */
#define BYTE_WORDS 31

/* Numbers of bits, in bytes: an addition must not overflow the word. */
typedef uint32_t KERNEL(counts) __attribute__((vector_size(4 * LANES)));

/* Subtracts from the sums the Hamming distances of `depth` words. */
TARGET static inline __attribute__((always_inline)) void
KERNEL(subtract_bits) (const Word *a, const Word *b, size_t sliver, uint32_t depth,
					   Vec sums[TILE_ROWS][TILE_VECS])
{
	while (depth > 0)
	{
		uint32_t	words = depth < BYTE_WORDS ? depth : BYTE_WORDS;
		KERNEL(counts) bytes[TILE_ROWS][TILE_VECS];

		FOR_ROWS(i)
			FOR_VECS(v)
				bytes[i][v] = (KERNEL(counts)) {0};
		for (uint32_t k = 0; k < words; k++)
		{
			FOR_VECS(v)
			{
				Vec			bk = VEC_LOAD(b + v / SLIVER_VECS * sliver + v % SLIVER_VECS * LANES);

				FOR_ROWS(i)
					bytes[i][v] += (KERNEL(counts)) BYTE_COUNTS(bk ^ VEC_SPLAT(a + i));
			}
			a += WIDTH;
			b += WIDTH;
		}
		FOR_ROWS(i)
			FOR_VECS(v)
				sums[i][v] -= (Vec) SUM_BYTES(bytes[i][v]);
		depth -= words;
	}
}
#else

/* Adds to the sums the outer product of one word column of a and one of b. */
TARGET static inline __attribute__((always_inline)) void
KERNEL(multiply) (const Word *a, const Word *b, size_t sliver,
				  Vec sums[TILE_ROWS][TILE_VECS])
{
#ifdef MULTIPLY_WORD
	MULTIPLY_WORD(sums, a, b, sliver);
#else
	Vec			bk[TILE_VECS];

	FOR_VECS(v)
		bk[v] = VEC_LOAD(b + v / SLIVER_VECS * sliver + v % SLIVER_VECS * LANES);
	FOR_ROWS(i)
		VEC_MULTIPLY_ROW(sums[i], a + i, bk);
#endif
}
#endif							/* BYTE_COUNTS */

/* Multiplies all tiles of a column, in one segment. */
TARGET static void
KERNEL(sweep) (const TileSweep *sweep)
{
	const uint32_t depth = sweep->depth;
	const size_t sliver = (size_t) WIDTH * depth;

	for (uint32_t tile = 0; tile < sweep->tiles; tile++)
	{
		uint32_t	row = tile * TILE_ROWS;
		const Word *a = (const Word *) sweep->a + row / WIDTH * sliver
			+ row % WIDTH;
		const Word *b = sweep->b;
		Word	   *partial = (Word *) sweep->partial + (size_t) tile * TILE_SIZE;
		Vec			sums[TILE_ROWS][TILE_VECS];

		FOR_ROWS(i)
			FOR_VECS(v)
				sums[i][v] = (Vec) {0};
		if (!sweep->first)
		{
			FOR_ROWS(i)
				FOR_VECS(v)
					sums[i][v] = VEC_LOAD(partial + i * TILE_COLS + v * LANES);
		}

#ifdef BYTE_COUNTS
		KERNEL(subtract_bits) (a, b, sliver, depth, sums);
#else
		for (uint32_t k = 0; k < depth / STEPS; k++)
		{
			UNROLL for (int step = 0; step < STEPS; step++)
				KERNEL(multiply) (a + step * WIDTH, b + step * WIDTH,
								  sliver, sums);
			a += STEPS * WIDTH;
			b += STEPS * WIDTH;
		}
		for (uint32_t k = 0; k < depth % STEPS; k++)
		{
			KERNEL(multiply) (a, b, sliver, sums);
			a += WIDTH;
			b += WIDTH;
		}
#endif

		if (sweep->last)
			KERNEL(test_tile) (sums, sweep, row);
		else
		{
			FOR_ROWS(i)
				FOR_VECS(v)
					VEC_AT(partial + i * TILE_COLS + v * LANES) = sums[i][v];
		}
	}
}

#ifdef FP32_ROWS

#ifdef DoubleVec
#define SUM_VECS (32 / DOUBLES)

/* Adds one term to each of 32 sums; left and right are expressions for vector v of a row. */
#define ADD_TERMS(left, right) \
	UNROLL for (int v = 0; v < SUM_VECS; v++) \
	{ \
		DoubleVec	from = (left); \
		DoubleVec	to = (right); \
 \
		sums[v] = product ? DOUBLE_FMA(from, to, sums[v]) : DOUBLE_FMA(from - to, from - to, sums[v]); \
	}
#define FLOATS(p) ((const float *) (p) + k + DOUBLES * v)
#define DOUBLES_OF(p) ((const double *) (p) + k + DOUBLES * v)

/*
 * Returns the sum of squared differences, or of products, of two rows of floats or doubles, as
 * exact_distance.h defines it.  Both flags are known at compile time.
 */
TARGET static inline __attribute__((always_inline)) double
KERNEL(sum) (const void *x, const void *y, uint32_t dimensions, bool doubles, bool product)
{
	DoubleVec	sums[SUM_VECS];
	uint32_t	k = 0;

	UNROLL for (int v = 0; v < SUM_VECS; v++)
		sums[v] = (DoubleVec) {0};
	for (; k + 32 <= dimensions; k += 32)
	{
		if (doubles)
			ADD_TERMS(DOUBLE_LOAD(DOUBLES_OF(x)), DOUBLE_LOAD(DOUBLES_OF(y)))
		else
			ADD_TERMS(DOUBLE_WIDEN(FLOATS(x)), DOUBLE_WIDEN(FLOATS(y)))
	}
	if (k < dimensions)
	{
		uint32_t	rest = dimensions - k;

		if (doubles)
			ADD_TERMS(DOUBLE_LOAD_REST(DOUBLES_OF(x), rest, v), DOUBLE_LOAD_REST(DOUBLES_OF(y), rest, v))
		else
			ADD_TERMS(DOUBLE_WIDEN_REST(FLOATS(x), rest, v), DOUBLE_WIDEN_REST(FLOATS(y), rest, v))
	}
	UNROLL for (int v = 0; v < SUM_VECS / 2; v++)
		sums[v] += sums[v + SUM_VECS / 2];
	UNROLL for (int v = 0; v < SUM_VECS / 4; v++)
		sums[v] += sums[v + SUM_VECS / 4];
	UNROLL for (int v = 0; v < SUM_VECS / 8; v++)
		sums[v] += sums[v + SUM_VECS / 8];
	UNROLL for (int v = 0; v < SUM_VECS / 16; v++)
		sums[v] += sums[v + SUM_VECS / 16];
	return DOUBLE_FOLD(sums[0]);
}
#undef ADD_TERMS
#undef FLOATS
#undef DOUBLES_OF
#endif							/* DoubleVec */

/* The function sqrt may set errno; the instruction does not. */
TARGET static inline __attribute__((always_inline)) double
KERNEL(root) (double square)
{
#ifdef __SSE2__
	__m128d		value = _mm_set_sd(square);

	return _mm_cvtsd_f64(_mm_sqrt_sd(value, value));
#else
	return sqrt(square);
#endif
}

#define FUNCTION_OF_ROWS(name, result) \
	TARGET static double \
	KERNEL(name) (const void *x, const void *y, uint32_t dimensions) \
	{ \
		return result; \
	}

FUNCTION_OF_ROWS(dot, KERNEL(sum) (x, y, dimensions, false, true))
FUNCTION_OF_ROWS(dot_double, KERNEL(sum) (x, y, dimensions, true, true))
FUNCTION_OF_ROWS(distance, KERNEL(root) (KERNEL(sum) (x, y, dimensions, false, false)))
FUNCTION_OF_ROWS(distance_double, KERNEL(root) (KERNEL(sum) (x, y, dimensions, true, false)))

TARGET static void
KERNEL(pack) (PackSliver *job)
{
	pack_sliver(job, WIDTH);
}

/* Initializers of a kernel's row functions and tiles, by the suffix of their names. */
#define ROWS_OF(kernel) \
	.width = WIDTH, \
	.pack = pack_##kernel, \
	.distance = distance_##kernel, \
	.distance_double = distance_double_##kernel, \
	.dot = dot_##kernel, \
	.dot_double = dot_double_##kernel
#define TILES_OF(kernel) \
	.tile_rows = TILE_ROWS, \
	.tile_cols = TILE_COLS, \
	.product = PRODUCT_OF(sweep_##kernel, 0)

#undef FUNCTION_OF_ROWS
#undef FP32_ROWS
#endif							/* FP32_ROWS */

#if defined(INT8_ROWS) || defined(INT16_ROWS)
TARGET static void
KERNEL(transform) (const Int8Transform *transform, const float *row, float *image)
{
	transform_row(transform, row, image);
}

TARGET static void
KERNEL(round) (const float *image, float factor, uint32_t padded, int8_t *values, Int8Sums *sums)
{
#ifdef INT8_ROWS
	round_row(image, factor, padded, -128.0f, 127.0f, sizeof(int8_t), values, sums);
#else
	round_row_int16(image, factor, padded, FASTED_INT16_NORM2, (int16_t *) values, sums);
#endif
}

#ifdef INT16_RECHECK
TARGET static void
KERNEL(round_int16) (const float *image, float factor, uint32_t padded, int16_t *values,
					Int8Sums *sums)
{
	round_row_int16(image, factor, padded, FASTED_INT16_ROW_NORM2, values, sums);
}
#endif

/* Initializers of a kernel's integer functions, by the suffix of their names. */
#define INTEGERS_OF(kernel) \
	.transform = transform_##kernel, \
	.round = round_##kernel
#define INT16_RECHECK_OF(kernel) \
	.round_int16 = round_int16_##kernel, \
	.dot_int16 = dot_int16_##kernel

#undef INT8_ROWS
#undef INT16_ROWS
#undef INT16_RECHECK
#endif							/* INT8_ROWS or INT16_ROWS */

/* Initializer of a product of tiles whose rows have no adjacent words. */
#define PRODUCT_OF(function, flip) \
	{ \
		.word_step = 8, .a_words = 1, .b_words = 1, .a_flip = flip, .sweep = function \
	}

#ifdef BITS_ROWS

TARGET static double
KERNEL(distance) (const void *x, const void *y, uint32_t words)
{
	return fasted_exact_hamming(x, y, words);
}

TARGET static double
KERNEL(dot) (const void *x, const void *y, uint32_t words)
{
	return fasted_exact_common(x, y, words);
}

/* Initializers of a kernel for rows of bits, by the suffix of their names. */
#define BITS_OF(kernel) \
	.width = WIDTH, \
	TILES_OF(kernel), \
	.distance = distance_##kernel, \
	.dot = dot_##kernel

#undef BITS_ROWS
#endif							/* BITS_ROWS */

#undef KERNEL
#undef Word
#undef Vec
#undef VEC_AT
#undef VEC_LOAD
#undef VEC_SPLAT
#undef VEC_MULTIPLY_ROW
#undef VEC_REACHES
#undef MULTIPLY_WORD
#undef BYTE_COUNTS
#undef SUM_BYTES
