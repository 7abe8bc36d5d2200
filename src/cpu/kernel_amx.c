/*-------------------------------------------------------------------------
 *
 * kernel_amx.c
 *	  The INT8 filter for AMX: tiles of 32 x 32.
 *
 * TDPBSSD multiplies 16 rows of 64 bytes by 64 rows of 16 bytes, the latter in words
 * of four rows, and adds to 16 x 16 INT32 sums.  Four tile registers hold sums, four
 * the operands: each is used twice.  Slivers of b are what the instruction wants as
 * they are; of a, 16 words of a row lie together.
 *
 * Sums go through memory to be compared.  That of one tile is put off until the next
 * one's first products are on their way, so that both kinds of units work.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "kernel_amx.h"

#ifdef FASTED_HAVE_AMX

#include <immintrin.h>
#include <string.h>

#include "int8_avx512.h"
#include "tile_amx.h"

#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw," AMX_TARGET)))

/* Rows of a tile register, its columns of 4 bytes, and words of it. */
#define SIDE 16
#define TILE_WORDS (SIDE * SIDE)
#define ROW_BYTES 64

/* Steps of the next tile that go before the comparison of the last one. */
#define LEAD 2

/* Four registers of sums: rows 0 to 15 and 16 to 31 by the same of columns. */
typedef struct TileSums
{
	int32_t		part[4][TILE_WORDS] __attribute__((aligned(64)));
} TileSums;

/* A tile's operands in one slice: two slivers each. */
typedef struct TileOperands
{
	const int32_t *a[2];
	const int32_t *b[2];
} TileOperands;

/* Where one tile's thresholds and hits are. */
typedef struct TileTest
{
	const int32_t *a_threshold;
	const int32_t *b_threshold;
	const int32_t *a_second;	/* or NULL */
	const int32_t *b_second;
	uint8_t    *hits;
	size_t		hit_stride;
} TileTest;

/* What LDTILECFG reads: eight registers, all alike. */
static const struct TileConfig
{
	uint8_t		palette;
	uint8_t		start_row;
	uint8_t		reserved[14];
	uint16_t	row_bytes[16];
	uint8_t		rows[16];
}			config __attribute__((aligned(64))) = {
	.palette = 1,
	.row_bytes = {ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES,
	ROW_BYTES},
	.rows = {SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE},
};

TARGET static void
begin_amx(void)
{
	TILE_CONFIGURE(&config);
}

TARGET static void
end_amx(void)
{
	TILE_RELEASE();
}

/* Sums of an earlier slice, or zeros. */
TARGET static inline __attribute__((always_inline)) void
start_sums(const TileSums *before)
{
	if (before == NULL)
	{
		TILE_ZERO(0);
		TILE_ZERO(1);
		TILE_ZERO(2);
		TILE_ZERO(3);
		return;
	}
	TILE_LOAD(0, before->part[0], ROW_BYTES);
	TILE_LOAD(1, before->part[1], ROW_BYTES);
	TILE_LOAD(2, before->part[2], ROW_BYTES);
	TILE_LOAD(3, before->part[3], ROW_BYTES);
}

TARGET static inline __attribute__((always_inline)) void
store_sums(TileSums *sums)
{
	TILE_STORE(0, sums->part[0], ROW_BYTES);
	TILE_STORE(1, sums->part[1], ROW_BYTES);
	TILE_STORE(2, sums->part[2], ROW_BYTES);
	TILE_STORE(3, sums->part[3], ROW_BYTES);
}

/* 64 bytes of each row, from step `first` on up to `end`. */
TARGET static inline __attribute__((always_inline)) void
multiply(const TileOperands *tile, uint32_t first, uint32_t end)
{
	for (uint32_t step = first; step < end; step++)
	{
		size_t		at = (size_t) step * TILE_WORDS;

		TILE_LOAD(4, tile->a[0] + at, ROW_BYTES);
		TILE_LOAD(6, tile->b[0] + at, ROW_BYTES);
		TILE_MULTIPLY(0, 4, 6);
		TILE_LOAD(7, tile->b[1] + at, ROW_BYTES);
		TILE_MULTIPLY(1, 4, 7);
		TILE_LOAD(5, tile->a[1] + at, ROW_BYTES);
		TILE_MULTIPLY(2, 5, 6);
		TILE_MULTIPLY(3, 5, 7);
	}
}

/* Some sum of a part reached its threshold: sets the bits of all that did. */
TARGET static void
mark_hits(const int32_t *sums, const int32_t *a_threshold, __m512i b_threshold, uint8_t *hits,
		  size_t hit_stride)
{
	for (int i = 0; i < SIDE; i++)
	{
		__m512i		sum = _mm512_load_si512(sums + i * SIDE);
		__mmask16	mask = _mm512_cmpge_epi32_mask(_mm512_sub_epi32(sum, b_threshold),
												   _mm512_set1_epi32(a_threshold[i]));

		if (mask != 0)
		{
			hits[i * hit_stride] |= (uint8_t) mask;
			hits[i * hit_stride + 1] |= (uint8_t) (mask >> 8);
		}
	}
}

/*
 * Sums p against thresholds: some p - n_a >= n_b, that is, the least n_a - p of a
 * column at most -n_b.  No difference overflows, nor does a threshold's negation:
 * filter_bound.h.
 */
TARGET static inline __attribute__((always_inline)) void
test_thresholds(const TileSums *sums, const TileTest *test, const int32_t *a_threshold,
				const int32_t *b_threshold)
{
	for (int half = 0; half < 2; half++)
	{
		const int32_t *left = sums->part[2 * half];
		const int32_t *right = sums->part[2 * half + 1];
		const int32_t *na = a_threshold + half * SIDE;
		uint8_t    *hits = test->hits + half * SIDE * test->hit_stride;
		__m512i		nb[2] = {_mm512_loadu_si512(b_threshold),
		_mm512_loadu_si512(b_threshold + SIDE)};
		__m512i		least[2] = {_mm512_set1_epi32(INT32_MAX), _mm512_set1_epi32(INT32_MAX)};

		UNROLL for (int i = 0; i < SIDE; i++)
		{
			__m512i		n = _mm512_set1_epi32(na[i]);

			least[0] = _mm512_min_epi32(least[0],
										_mm512_sub_epi32(n, _mm512_load_si512(left + i * SIDE)));
			least[1] = _mm512_min_epi32(least[1],
										_mm512_sub_epi32(n, _mm512_load_si512(right + i * SIDE)));
		}
		if (_mm512_cmple_epi32_mask(least[0], _mm512_sub_epi32(_mm512_setzero_si512(), nb[0])))
			mark_hits(left, na, nb[0], hits, test->hit_stride);
		if (_mm512_cmple_epi32_mask(least[1], _mm512_sub_epi32(_mm512_setzero_si512(), nb[1])))
			mark_hits(right, na, nb[1], hits + 2, test->hit_stride);
	}
}

/* The same of both thresholds that a row may have.  The hits are clear before. */
TARGET static inline __attribute__((always_inline)) void
test_sums(const TileSums *sums, const TileTest *test)
{
	test_thresholds(sums, test, test->a_threshold, test->b_threshold);
	if (test->a_second != NULL)
		test_thresholds(sums, test, test->a_second, test->b_second);
}

/* All tiles of a column in a slice that is not the last. */
TARGET static void
accumulate(const TileSweep *sweep, TileOperands *tile, size_t sliver)
{
	TileSums   *partial = sweep->partial;

	for (uint32_t t = 0; t < sweep->tiles; t++)
	{
		start_sums(sweep->first ? NULL : &partial[t]);
		multiply(tile, 0, sweep->depth / SIDE);
		store_sums(&partial[t]);
		tile->a[0] += 2 * sliver;
		tile->a[1] += 2 * sliver;
	}
}

/* All tiles of a column in the last slice. */
TARGET static void
finish(const TileSweep *sweep, TileOperands *tile, size_t sliver)
{
	const TileSums *partial = sweep->partial;
	uint32_t	steps = sweep->depth / SIDE;
	uint32_t	lead = steps < LEAD ? steps : LEAD;
	TileSums	sums[2];
	TileTest	test = {.a_threshold = sweep->a_threshold,.b_threshold = sweep->b_threshold,
		.a_second = sweep->a_second,.b_second = sweep->b_second,
	.hits = sweep->hits,.hit_stride = sweep->hit_stride};

	for (uint32_t t = 0; t < sweep->tiles; t++)
	{
		start_sums(sweep->first ? NULL : &partial[t]);
		multiply(tile, 0, lead);
		if (t > 0)
		{
			test_sums(&sums[(t - 1) % 2], &test);
			test.a_threshold += AMX_TILE;
			if (test.a_second != NULL)
				test.a_second += AMX_TILE;
			test.hits += AMX_TILE * test.hit_stride;
		}
		multiply(tile, lead, steps);
		store_sums(&sums[t % 2]);
		tile->a[0] += 2 * sliver;
		tile->a[1] += 2 * sliver;
	}
	test_sums(&sums[(sweep->tiles - 1) % 2], &test);
}

TARGET static void
sweep_amx(const TileSweep *sweep)
{
	size_t		sliver = (size_t) SIDE * sweep->depth;
	const int32_t *a = sweep->a;
	const int32_t *b = sweep->b;
	TileOperands tile = {.a = {a, a + sliver},.b = {b, b + sliver}};

	if (sweep->tiles == 0)
		return;
	if (sweep->last)
		finish(sweep, &tile, sliver);
	else
		accumulate(sweep, &tile, sliver);
}

bool
fasted_amx_permitted(void)
{
	static atomic_int answer;	/* 0: not asked yet */
	int			known = atomic_load_explicit(&answer, memory_order_relaxed);

	if (known == 0)
	{
		known = amx_permitted() ? 1 : -1;
		atomic_store_explicit(&answer, known, memory_order_relaxed);
	}
	return known > 0;
}

const Int8Kernel fasted_int8_amx = {
	.bytes = 1,
	.word_step = SIDE,
	.a_words = SIDE,
	.b_words = 1,
	.part = SIDE,
	.begin = begin_amx,
	.end = end_amx,
	.sweep = sweep_amx,
	.transform = fasted_transform_avx512,
	.round = fasted_round_avx512,
	.round_fine = fasted_round_fine_avx512,
	.dot_fine = fasted_dot_fine_avx512,
};

#endif							/* FASTED_HAVE_AMX */
