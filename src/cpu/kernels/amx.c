/*-------------------------------------------------------------------------
 *
 * amx.c
 *	  The INT8 filter for AMX: tiles of 32 x 32.
 *
 * TDPBSSD multiplies 16 rows of 64 bytes by 64 rows of 16 bytes, the latter in words of four
 * rows, and adds to 16 x 16 INT32 sums.  Four tile registers hold sums, four the operands.  Each
 * operand is used twice.  Slivers of b already have the layout that the instruction expects.  For
 * a, 16 words of a row are adjacent.
 *
 * Sums go through memory to be compared.  The comparison of one tile is delayed until the first
 * products of the next tile have been issued, so that matrix and vector units work in parallel.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "kernel.h"

#ifdef FASTED_HAVE_AMX

#include <immintrin.h>
#include <string.h>

/*
 * The AMX instructions, and the permission to use them.  Tests on other CPUs replace them:
 * FASTED_AMX_HEADER names a file that defines the same names in C.
 */
#ifdef FASTED_AMX_HEADER

#include FASTED_AMX_HEADER

#else

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX_TARGET "amx-tile,amx-int8"

#define TILE_CONFIGURE(config) _tile_loadconfig(config)
#define TILE_RELEASE() _tile_release()
#define TILE_ZERO(t) _tile_zero(t)
#define TILE_LOAD(t, p, stride) _tile_loadd(t, p, stride)
#define TILE_MULTIPLY(c, a, b) _tile_dpbssd(c, a, b)

/* The code that follows reads the memory, which not every compiler's header declares. */
#define TILE_STORE(t, p, stride) \
	do \
	{ \
		_tile_stored(t, p, stride); \
		__asm__ volatile ("" ::: "memory"); \
	} while (0)

/* Constants of Linux, whose installed headers may be older. */
#define REQUEST_PERMISSION 0x1023
#define TILE_DATA 18

/* Requests permission to use the tile registers.  Linux grants it once per process. */
static inline bool
amx_permitted(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
	const unsigned tile_and_int8 = 3U << 24;
	unsigned	registers[4];

	return __get_cpuid_count(7, 0, &registers[0], &registers[1], &registers[2], &registers[3]) &&
		(registers[3] & tile_and_int8) == tile_and_int8 &&
		syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
	return false;
#endif
}

#endif							/* FASTED_AMX_HEADER */

#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw," AMX_TARGET)))

/* Rows of a tile register, its words, and the bytes per row. */
#define SIDE AMX_SIDE
#define TILE_WORDS (SIDE * SIDE)
#define ROW_BYTES 64

/* Steps of the next tile that are issued before the comparison of the previous tile. */
#define LEAD 2

/*
 * Sums of a tile in four registers: rows 0 to 15 and 16 to 31, each with the same two ranges of
 * columns.
 */
typedef struct TileSums
{
	int32_t		part[4][TILE_WORDS] __attribute__((aligned(64)));
} TileSums;

#define FOR_SUMS(what, sums) \
	do \
	{ \
		what(0, (sums)->part[0], ROW_BYTES); \
		what(1, (sums)->part[1], ROW_BYTES); \
		what(2, (sums)->part[2], ROW_BYTES); \
		what(3, (sums)->part[3], ROW_BYTES); \
	} while (0)

/* The operands of a tile in one segment: two slivers each. */
typedef struct TileOperands
{
	const int32_t *a[2];
	const int32_t *b[2];
} TileOperands;

/* Configuration for LDTILECFG: eight identical registers. */
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

TARGET void
fasted_begin_amx(void)
{
	TILE_CONFIGURE(&config);
}

TARGET void
fasted_end_amx(void)
{
	TILE_RELEASE();
}

/* Loads the sums of an earlier segment, or zeros. */
TARGET static inline __attribute__((always_inline)) void
start_sums(const TileSums *before)
{
	if (before != NULL)
	{
		FOR_SUMS(TILE_LOAD, before);
		return;
	}
	TILE_ZERO(0);
	TILE_ZERO(1);
	TILE_ZERO(2);
	TILE_ZERO(3);
}

/* Multiplies and adds 64 bytes of each row per step, from step `first` up to `end`. */
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

/*
 * Sets the bits of the sums that reach their thresholds.  This function does not first test whether
 * there is a hit, because the branch would be mispredicted.  With a few hundred candidates per row
 * in 100000 rows, two tiles in three have a hit.  When most tiles have no hit, sweep_short calls
 * half_has_hits first.  No difference overflows: filter_bound.h.
 */
TARGET static inline __attribute__((always_inline)) void
test_part(const int32_t *sums, const TileSweep *test, int row, int column, bool both)
{
	const int32_t *a = (const int32_t *) test->a_threshold + row;
	const int32_t *a_second = both ? (const int32_t *) test->a_second + row : a;
	__m512i		nb = _mm512_loadu_si512((const int32_t *) test->b_threshold + column);
	__m512i		second = both ? _mm512_loadu_si512((const int32_t *) test->b_second + column) : nb;
	uint8_t    *hits = test->hits + (size_t) row * test->hit_stride + column / 8;

	UNROLL for (int i = 0; i < SIDE; i++)
	{
		__m512i		sum = _mm512_load_si512(sums + i * SIDE);
		uint16_t	mask = _mm512_cmpge_epi32_mask(_mm512_sub_epi32(sum, nb),
												   _mm512_set1_epi32(a[i]));

		if (both)
			mask |= _mm512_cmpge_epi32_mask(_mm512_sub_epi32(sum, second),
											_mm512_set1_epi32(a_second[i]));
		memcpy(hits, &mask, sizeof(mask));
		hits += test->hit_stride;
	}
}

/*
 * Returns true if a sum of 16 rows and all columns reaches its thresholds.  The largest difference
 * of each column is compared, because this takes half as many instructions as testing each sum.
 */
TARGET static inline __attribute__((always_inline)) bool
half_has_hits(const int32_t (*parts)[TILE_WORDS], const TileSweep *test)
{
	const int32_t *a = test->a_threshold;
	const int32_t *b = test->b_threshold;
	__m512i		most[2] = {_mm512_set1_epi32(INT32_MIN), _mm512_set1_epi32(INT32_MIN)};

	UNROLL for (int i = 0; i < SIDE; i++)
	{
		__m512i		na = _mm512_set1_epi32(a[i]);

		most[0] = _mm512_max_epi32(most[0], _mm512_sub_epi32(_mm512_load_si512(parts[0] + i * SIDE), na));
		most[1] = _mm512_max_epi32(most[1], _mm512_sub_epi32(_mm512_load_si512(parts[1] + i * SIDE), na));
	}
	return (_mm512_cmpge_epi32_mask(most[0], _mm512_loadu_si512(b)) |
			_mm512_cmpge_epi32_mask(most[1], _mm512_loadu_si512(b + SIDE))) != 0;
}

/* Tests the sums of 16 rows and all columns, in two parts. */
TARGET static inline __attribute__((always_inline)) void
test_half(const int32_t (*parts)[TILE_WORDS], const TileSweep *test, int row)
{
	UNROLL for (int column = 0; column < AMX_TILE; column += SIDE)
	{
		if (test->a_second != NULL)
			test_part(parts[column / SIDE], test, row, column, true);
		else
			test_part(parts[column / SIDE], test, row, column, false);
	}
}

/* Tests all sums of a tile. */
TARGET static inline __attribute__((always_inline)) void
test_sums(const TileSums *sums, const TileSweep *test)
{
	test_half(sums->part, test, 0);
	test_half(sums->part + 2, test, SIDE);
}

/* Advances the thresholds and hits by `rows` rows. */
TARGET static inline __attribute__((always_inline)) void
move_test(TileSweep *test, int rows)
{
	test->a_threshold = (const int32_t *) test->a_threshold + rows;
	if (test->a_second != NULL)
		test->a_second = (const int32_t *) test->a_second + rows;
	test->hits += rows * test->hit_stride;
}

/*
 * Multiplies all tiles of a column in one segment.  Sums are stored in `partial`, or tested in the
 * last segment.
 */
TARGET static void
sweep_steps(const TileSweep *sweep, TileOperands *tile, size_t sliver)
{
	TileSums   *partial = sweep->partial;
	uint32_t	steps = sweep->depth / SIDE;
	uint32_t	lead = steps < LEAD ? steps : LEAD;
	TileSums	sums[2];
	TileSweep	test = *sweep;

	for (uint32_t t = 0; t < sweep->tiles; t++)
	{
		TileSums   *to = sweep->last ? &sums[t % 2] : &partial[t];

		start_sums(sweep->first ? NULL : &partial[t]);
		multiply(tile, 0, lead);
		if (sweep->last && t > 0)
		{
			test_sums(&sums[(t - 1) % 2], &test);
			move_test(&test, AMX_TILE);
		}
		multiply(tile, lead, steps);
		FOR_SUMS(TILE_STORE, to);
		tile->a[0] += 2 * sliver;
		tile->a[1] += 2 * sliver;
	}
	if (sweep->last)
		test_sums(&sums[(sweep->tiles - 1) % 2], &test);
}

/*
 * Like sweep_steps, for rows of one or two steps.  It handles 16 rows at a time: both slivers of b
 * stay in registers, so that only rows of a are loaded.
 */
TARGET static inline __attribute__((always_inline)) void
sweep_short(const TileSweep *sweep, const TileOperands *tile, size_t sliver, int steps)
{
	const int32_t *a = tile->a[0];
	uint32_t	halves = 2 * sweep->tiles;
	int32_t		sums[2][2][TILE_WORDS] __attribute__((aligned(64)));
	TileSweep	test = *sweep;
	bool		sparse = sweep->sparse && sweep->a_second == NULL;

	TILE_LOAD(2, tile->b[0], ROW_BYTES);
	TILE_LOAD(4, tile->b[1], ROW_BYTES);
	if (steps == 2)
	{
		TILE_LOAD(3, tile->b[0] + TILE_WORDS, ROW_BYTES);
		TILE_LOAD(5, tile->b[1] + TILE_WORDS, ROW_BYTES);
	}
	for (uint32_t half = 0; half <= halves; half++)
	{
		if (half < halves)
		{
			TILE_LOAD(6, a, ROW_BYTES);
			TILE_ZERO(0);
			TILE_MULTIPLY(0, 6, 2);
			TILE_ZERO(1);
			TILE_MULTIPLY(1, 6, 4);
			if (steps == 2)
			{
				TILE_LOAD(7, a + TILE_WORDS, ROW_BYTES);
				TILE_MULTIPLY(0, 7, 3);
				TILE_MULTIPLY(1, 7, 5);
			}
			a += sliver;
		}
		if (half > 0)
		{
			const int32_t (*before)[TILE_WORDS] = sums[(half - 1) % 2];

			if (!sparse || half_has_hits(before, &test))
				test_half(before, &test, 0);
			move_test(&test, SIDE);
		}
		if (half < halves)
		{
			TILE_STORE(0, sums[half % 2][0], ROW_BYTES);
			TILE_STORE(1, sums[half % 2][1], ROW_BYTES);
		}
	}
}

TARGET void
fasted_sweep_amx(const TileSweep *sweep)
{
	size_t		sliver = (size_t) SIDE * sweep->depth;
	const int32_t *a = sweep->a;
	const int32_t *b = sweep->b;
	TileOperands tile = {.a = {a, a + sliver},.b = {b, b + sliver}};

	if (sweep->tiles == 0)
		return;
	if (sweep->first && sweep->last && sweep->depth == SIDE)
		sweep_short(sweep, &tile, sliver, 1);
	else if (sweep->first && sweep->last && sweep->depth == 2 * SIDE)
		sweep_short(sweep, &tile, sliver, 2);
	else
		sweep_steps(sweep, &tile, sliver);
}

bool
fasted_amx_permitted(void)
{
	static atomic_int answer;	/* 0: not yet known */
	int			known = atomic_load_explicit(&answer, memory_order_relaxed);

	if (known == 0)
	{
		known = amx_permitted() ? 1 : -1;
		atomic_store_explicit(&answer, known, memory_order_relaxed);
	}
	return known > 0;
}

#endif							/* FASTED_HAVE_AMX */
