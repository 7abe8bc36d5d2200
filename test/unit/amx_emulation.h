/*-------------------------------------------------------------------------
 *
 * amx_emulation.h
 *	  Emulation of the AMX instructions in C, for CPUs without AMX.
 *
 * Each thread has its own registers, as on real hardware.  Operations that real hardware rejects
 * call abort: use without a configuration, and tile sizes that do not match the configuration.
 *
 *-------------------------------------------------------------------------
 */
#ifndef AMX_EMULATION_H
#define AMX_EMULATION_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define AMX_TARGET "avx512f,avx512bw"

#define TILE_CONFIGURE(config) emulate_configure(config)
#define TILE_RELEASE() emulate_release()
#define TILE_ZERO(t) emulate_zero(t)
#define TILE_LOAD(t, p, stride) emulate_load(t, p, stride)
#define TILE_STORE(t, p, stride) emulate_store(t, p, stride)
#define TILE_MULTIPLY(c, a, b) emulate_multiply(c, a, b)

typedef struct EmulatedTile
{
	int			rows;			/* 0: not configured */
	int			row_bytes;
	int8_t		data[16][64] __attribute__((aligned(64)));
} EmulatedTile;

static __thread EmulatedTile tiles[8];

static inline EmulatedTile *
emulated_tile(int t)
{
	if (t < 0 || t >= 8 || tiles[t].rows == 0)
		abort();
	return &tiles[t];
}

/* Byte 0 is the palette.  Bytes per row begin at byte 16, numbers of rows at byte 48. */
static inline void
emulate_configure(const void *config)
{
	const uint8_t *bytes = config;

	if (bytes[0] != 1 || bytes[1] != 0)
		abort();
	memset(tiles, 0, sizeof(tiles));
	for (int t = 0; t < 8; t++)
	{
		tiles[t].row_bytes = bytes[16 + 2 * t] + 256 * bytes[17 + 2 * t];
		tiles[t].rows = bytes[48 + t];
		if (tiles[t].row_bytes > 64 || tiles[t].rows > 16)
			abort();
	}
}

static inline void
emulate_release(void)
{
	memset(tiles, 0, sizeof(tiles));
}

static inline void
emulate_zero(int t)
{
	memset(emulated_tile(t)->data, 0, sizeof(tiles[t].data));
}

static inline void
emulate_load(int t, const void *memory, size_t stride)
{
	EmulatedTile *tile = emulated_tile(t);

	memset(tile->data, 0, sizeof(tile->data));
	for (int row = 0; row < tile->rows; row++)
		memcpy(tile->data[row], (const char *) memory + row * stride, (size_t) tile->row_bytes);
}

static inline void
emulate_store(int t, void *memory, size_t stride)
{
	const EmulatedTile *tile = emulated_tile(t);

	for (int row = 0; row < tile->rows; row++)
		memcpy((char *) memory + row * stride, tile->data[row], (size_t) tile->row_bytes);
}

/*
 * TDPBSSD: multiplies words of four signed bytes.  Sums are modulo 2^32.  Odd and even bytes are
 * multiplied as 16-bit integers.  Bytes beyond the sizes of a tile are zero.
 */
static inline void __attribute__((target(AMX_TARGET)))
emulate_multiply(int c, int a, int b)
{
	EmulatedTile *sums = emulated_tile(c);
	const EmulatedTile *left = emulated_tile(a);
	const EmulatedTile *right = emulated_tile(b);

	if (left->rows != sums->rows || left->row_bytes != 4 * right->rows ||
		right->row_bytes != sums->row_bytes)
		abort();
	for (int m = 0; m < sums->rows; m++)
	{
		__m512i		row = _mm512_load_si512(sums->data[m]);

		for (int k = 0; k < right->rows; k++)
		{
			int32_t		word;
			__m512i		x;
			__m512i		y = _mm512_load_si512(right->data[k]);
			__m512i		even;
			__m512i		odd;

			memcpy(&word, &left->data[m][4 * k], sizeof(word));
			x = _mm512_set1_epi32(word);
			even = _mm512_madd_epi16(_mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8),
									 _mm512_srai_epi16(_mm512_slli_epi16(y, 8), 8));
			odd = _mm512_madd_epi16(_mm512_srai_epi16(x, 8), _mm512_srai_epi16(y, 8));
			row = _mm512_add_epi32(row, _mm512_add_epi32(even, odd));
		}
		_mm512_store_si512(sums->data[m], row);
	}
}

static inline bool
amx_permitted(void)
{
	return true;
}

#endif							/* AMX_EMULATION_H */
