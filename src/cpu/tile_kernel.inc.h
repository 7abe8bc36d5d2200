/*-------------------------------------------------------------------------
 *
 * tile_kernel.inc.h
 *	  The body of the filter kernel, included once for each instruction set.
 *
 * The includer defines:
 *
 *	  KERNEL(name)		the name of a function, made unique
 *	  TARGET			the target attribute of functions
 *	  WIDTH				rows of a sliver
 *	  TILE_ROWS			rows of a tile; divides WIDTH
 *	  TILE_SLIVERS		slivers that make the columns of a tile
 *	  Word				a word of packed rows, a sum, a threshold: 4 bytes
 *	  LANES				words of a vector; divides WIDTH
 *	  Vec, Hit			a vector of words; the result of comparing two
 *	  VEC_ZERO() VEC_LOAD(p) VEC_STORE(p, v) VEC_SPLAT(p)
 *	  VEC_MULTIPLY_ROW(c, a, b)	c[v] += *a * b[v] for all vectors of a tile's row
 *	  MULTIPLY_WORD(sums, a, b, sliver)	instead, where given: all rows of a tile
 *	  VEC_REACHES(g, a, b)	is the sum g a hit with these thresholds of rows?
 *	  HIT_NONE() HIT_OR(h, g) HIT_ANY(h) HIT_BITS(h)
 *
 * A tile keeps all its sums in registers: TILE_ROWS x TILE_VECS vectors, next
 * to one row of b (TILE_VECS) and one broadcast word of a.
 *
 *-------------------------------------------------------------------------
 */

#define TILE_COLS (WIDTH * TILE_SLIVERS)
#define TILE_VECS (TILE_COLS / LANES)
#define SLIVER_VECS (WIDTH / LANES)
#define TILE_SIZE (TILE_ROWS * TILE_COLS)

/* Words of one round of the inner loop: 2 measured best, 4 worst. */
#define STEPS 2

#define FOR_ROWS(i) UNROLL for (int i = 0; i < TILE_ROWS; i++)
#define FOR_VECS(v) UNROLL for (int v = 0; v < TILE_VECS; v++)

/* Which sums of a row reached their thresholds. */
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

/* Some sum reached its threshold: sets the bits of all that did. */
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

/* Does any sum reach its thresholds? */
TARGET static inline __attribute__((always_inline)) Hit
KERNEL(any_hit) (Vec sums[TILE_ROWS][TILE_VECS], const Word *a_threshold,
				 const Word *b_threshold)
{
	Hit			any = HIT_NONE();
	Vec			tb[TILE_VECS];

	FOR_VECS(v)
		tb[v] = VEC_LOAD(b_threshold + v * LANES);
	FOR_ROWS(i)
	{
		Vec			ta = VEC_SPLAT(a_threshold + i);

		FOR_VECS(v)
			any = HIT_OR(any, VEC_REACHES(sums[i][v], ta, tb[v]));
	}
	return any;
}

/* Sums of one tile against the thresholds.  Few tiles have any hit at all. */
TARGET static inline __attribute__((always_inline)) void
KERNEL(test_tile) (Vec sums[TILE_ROWS][TILE_VECS], const TileSweep *sweep, uint32_t row)
{
	Hit			any = KERNEL(any_hit) (sums, (const Word *) sweep->a_threshold + row,
									   sweep->b_threshold);

	if (sweep->a_second != NULL)
		any = HIT_OR(any, KERNEL(any_hit) (sums, (const Word *) sweep->a_second + row,
										   sweep->b_second));
	if (HIT_ANY(any))
		KERNEL(mark_hits) (sums, sweep, row);
}

/* One word: the outer product of a's column and b's, added to sums. */
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

/* All tiles of a column, in one slice. */
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
		uint32_t	k = 0;
		Vec			sums[TILE_ROWS][TILE_VECS];

		FOR_ROWS(i)
			FOR_VECS(v)
				sums[i][v] = VEC_ZERO();
		if (!sweep->first)
		{
			FOR_ROWS(i)
				FOR_VECS(v)
					sums[i][v] = VEC_LOAD(partial + i * TILE_COLS + v * LANES);
		}

		for (; k + STEPS <= depth; k += STEPS)
		{
			UNROLL for (int step = 0; step < STEPS; step++)
				KERNEL(multiply) (a + step * WIDTH, b + step * WIDTH,
								  sliver, sums);
			a += STEPS * WIDTH;
			b += STEPS * WIDTH;
		}
		for (; k < depth; k++)
		{
			KERNEL(multiply) (a, b, sliver, sums);
			a += WIDTH;
			b += WIDTH;
		}

		if (sweep->last)
			KERNEL(test_tile) (sums, sweep, row);
		else
		{
			FOR_ROWS(i)
				FOR_VECS(v)
					VEC_STORE(partial + i * TILE_COLS + v * LANES, sums[i][v]);
		}
	}
}
