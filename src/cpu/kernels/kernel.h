/*-------------------------------------------------------------------------
 *
 * kernel.h
 *	  Interface between the CPU engine and its kernels, one per instruction set.
 *
 * Packed rows.  The filter reads rows that are centred, scaled and interleaved, in words of 4
 * bytes.  A word holds one coordinate in FP32, or four in INT8.  Rows are stored in slivers of
 * `width` rows, word by word: [sliver][k][row].  The words of a row are divided into segments of at
 * most `segment` words.  One segment of all slivers is stored before the next segment:
 * [segment][sliver][k][row].  So one pass of the kernel reads contiguous memory, whatever the
 * dimension.  In FP32 both operands of the product have this layout.  Integer operands may differ
 * in the number of adjacent words: see Int8Kernel.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_KERNEL_H
#define FASTED_CPU_KERNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fully unrolls a loop over a tile.  Otherwise the sums would not stay in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* The widest sliver and the largest block of any kernel, in rows. */
#define FASTED_MAX_WIDTH 16
#define FASTED_MAX_BLOCK 256

/* Largest side of any kernel's tile.  The columns are bits of a word. */
#define FASTED_MAX_TILE 64

/* A multiple of every kernel's tile_cols. */
#define FASTED_COMMON_COLS 96

/* Bytes per row of a block's hit map, which has one bit per column. */
#define FASTED_HIT_BYTES 32

/* The layout of a packed set of rows. */
typedef struct PackLayout
{
	uint32_t	words;			/* words per row */
	uint32_t	segment;			/* words per segment; the last segment may be shorter */
	size_t		padded_rows;	/* a multiple of the kernel's tile_cols */
} PackLayout;

/*
 * One sweep: the tiles of one tile column, over one segment.
 *
 * A tile is tile_rows rows of a by tile_cols rows of b.  The sums of unfinished tiles are stored
 * in partial.  After the last segment they are compared with the thresholds, and hits are set in the
 * map.  Rows, sums and thresholds are FP32, or INT32 for INT8 rows.
 */
typedef struct TileSweep
{
	const void *a;				/* segment of the block's first sliver */
	const void *b;				/* segment of the column's first sliver */
	uint32_t	depth;			/* words of this segment */
	uint32_t	tiles;			/* number of tiles, from the first row on */
	bool		first;			/* first segment: sums start at zero */
	bool		last;			/* last segment: test the sums, do not store them */
	bool		sparse;			/* most tiles have no hit */
	void	   *partial;		/* tiles x tile_rows x tile_cols */
	const void *a_threshold;
	const void *b_threshold;
	/* second thresholds: sums that reach these are also hits; or NULL */
	const void *a_second;
	const void *b_second;
	uint8_t    *hits;			/* byte of the first column in row 0 of the map */
	size_t		hit_stride;		/* bytes from one row of the map to the next */
} TileSweep;

/*
 * One sliver of rows to be packed.  A missing row is NULL and is packed as zeros. norm2 and error2
 * are the arguments of fasted_rho.
 */
typedef struct PackSliver
{
	const float *rows[FASTED_MAX_WIDTH];
	const float *centre;
	double		scale;
	const PackLayout *layout;
	size_t		sliver;			/* sliver number */
	float	   *packed;			/* packed rows of the whole set */
	const atomic_bool *stop;	/* true: stop packing; NULL: never stop */
	double		norm2[FASTED_MAX_WIDTH];
	double		error2[FASTED_MAX_WIDTH];
} PackSliver;

/* Parameters that turn rows into INT8: doc/internals/bound-int8.md, section 1. */
typedef struct Int8Transform
{
	uint32_t	dimensions;
	uint32_t	padded;			/* dimensions, rounded up to a multiple of 32 */
	const float *centre;
	float		scale;
	bool		lossless;		/* small integers: no rotation, scale 1 */
} Int8Transform;

/* Sums from which a threshold is computed: doc/internals/bound-int8.md, section 3. */
typedef struct Int8Sums
{
	float		rounding2;		/* squared rounding error after clamping */
	float		error2;			/* squared error of clamping and rounding */
	int32_t		norm2;
	int32_t		sum;
} Int8Sums;

/*
 * The integer filter of a kernel, with that kernel's tiles and slivers.  Components are INT8, or
 * INT16 in two bytes.
 *
 * n = a_words or b_words words of a row are adjacent: [segment][sliver][k / n][row][k % n].  If the
 * instruction takes unsigned bytes for a, the words of a are XORed with a_flip.
 */
typedef struct Int8Kernel
{
	uint32_t	bytes;			/* bytes per component: 1 or 2 */
	uint32_t	word_step;		/* words per row are a multiple of this */
	uint32_t	a_words;		/* adjacent words of a row of a */
	uint32_t	b_words;
	uint32_t	a_flip;			/* 0, or 0x80808080: adds 128 to each byte of a */
	uint32_t	part;			/* partial sums are stored as squares of this side; 0: by rows */
	uint32_t	speed;			/* bytes multiplied while VNNI multiplies one byte; 0: one */

	/* Called before a thread's first sweep and after its last one; or NULL. */
	void		(*begin) (void);
	void		(*end) (void);

	void		(*sweep) (const TileSweep *sweep);

	/* Computes a row's image: `padded` floats, aligned to a cache line. */
	void		(*transform) (const Int8Transform *transform, const float *row,
							  float *image);

	/* Rounds factor times the image to integers of `bytes` bytes. */
	void		(*round) (const float *image, float factor, uint32_t padded,
						  int8_t *values, Int8Sums *sums);

	/*
	 * INT16 rows: rounding to two bytes, and the inner product of two such rows; or NULL.  The
	 * factor is a power of two.
	 */
	void		(*round_int16) (const float *image, float factor, uint32_t padded,
							   int16_t *values, Int8Sums *sums);
	int32_t		(*dot_int16) (const int16_t *x, const int16_t *y, uint32_t padded);
} Int8Kernel;

/*
 * A function of two rows of floats or doubles, such as their distance.  Of rows of bits, the number
 * of 64-bit words takes the place of the number of dimensions.
 */
typedef double (*RowFunction) (const void *x, const void *y, uint32_t dimensions);

typedef struct CpuKernel
{
	const char *name;
	uint32_t	width;			/* rows of a sliver */
	uint32_t	tile_rows;		/* divides width, or is a multiple of it */
	uint32_t	tile_cols;		/* a multiple of width and of tile_rows */

	bool		(*available) (void);
	void		(*sweep) (const TileSweep *sweep);
	void		(*pack) (PackSliver *job);
	const Int8Kernel *int8;		/* or NULL */

	/*
	 * The kernel for rows of bits.  A kernel for rows of bits points to the next best one.  It has
	 * these functions only: sweep, whose sums are minus the Hamming distance, distance (Hamming)
	 * and dot (the number of common bits).
	 */
	const struct CpuKernel *bits;
	uint32_t	recheck_words;	/* rows of bits: words of pairs filtered in the time of a recheck */

	/*
	 * The canonical distance of exact_distance.h, and x.y for the cosine distance.  Without
	 * suffix: of two rows of floats. _wide: of a row widened to FP64 and a row of floats, which
	 * is faster if the first row is used several times. _double: of two rows of doubles.
	 */
	RowFunction distance;
	RowFunction distance_wide;
	RowFunction distance_double;
	RowFunction dot;
	RowFunction dot_wide;
	RowFunction dot_double;

	/*
	 * Converts a row to FP64.  The buffer holds `dimensions` values, rounded up to a multiple of
	 * 32.
	 */
	void		(*widen) (const float *row, uint32_t dimensions, double *wide);
} CpuKernel;

/* Returns true if packed rows of a and of b are identical. */
static inline bool
int8_sides_identical(const Int8Kernel *int8)
{
	return int8->a_words == int8->b_words && int8->a_flip == 0;
}

/* Returns the rows of this kernel's largest block, in whole tiles. */
static inline uint32_t
kernel_block(const CpuKernel *kernel)
{
	return FASTED_MAX_BLOCK / kernel->tile_cols * kernel->tile_cols;
}

/* Returns the number of words of the segment that begins with word first_k. */
static inline uint32_t
segment_words(const PackLayout *layout, uint32_t first_k)
{
	uint32_t	left = layout->words - first_k;

	return left < layout->segment ? left : layout->segment;
}

/* Returns the offset of a sliver's segment, in words from the start of the packed set. */
static inline size_t
pack_offset(const PackLayout *layout, uint32_t width, size_t sliver,
			uint32_t first_k)
{
	return (size_t) first_k * layout->padded_rows + sliver * width * segment_words(layout, first_k);
}

/* Compilers before GCC 11 and Clang 12 lack the instructions of AMX and AVX-VNNI. */
#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<amxint8intrin.h>)
#define FASTED_HAVE_AMX
#endif
#if __has_include(<avxvnniintrin.h>)
#define FASTED_HAVE_AVXVNNI
#endif
#endif

/* The kernels, by instruction set.  Only those that are available may be called. */
#if defined(__x86_64__)
extern const CpuKernel fasted_kernel_amx;
extern const CpuKernel fasted_kernel_avx512vnni;
extern const CpuKernel fasted_kernel_avx512;
extern const CpuKernel fasted_kernel_avxvnni;
extern const CpuKernel fasted_kernel_avx2int16;
extern const CpuKernel fasted_kernel_avx2;
extern const CpuKernel fasted_kernel_avx2_bits;
#endif
#if defined(__aarch64__)
extern const CpuKernel fasted_kernel_sdot;
extern const CpuKernel fasted_kernel_neon;
#endif
extern const CpuKernel fasted_kernel_portable;
extern const CpuKernel fasted_kernel_portable_bits;

/* Returns the k-th kernel, best first, whether or not it is available; NULL after the last. */
extern const CpuKernel *fasted_cpu_kernel(int k);

/* Returns the available kernel of this name, or the best one if name is NULL; NULL if none. */
extern const CpuKernel *fasted_cpu_choose_kernel(const char *name);

/* Sets this thread to round to nearest and to keep denormal numbers. */
extern void fasted_cpu_reset_fpu(void);

#endif							/* FASTED_CPU_KERNEL_H */
