/*-------------------------------------------------------------------------
 *
 * kernel.h
 *	  Interface between the CPU engine and its kernels, one per instruction set.
 *
 * Packed rows.  The filter reads rows that are centred, scaled and interleaved, in words of 4
 * bytes.  A word holds one coordinate in FP32, or four in INT8.  Rows are stored in slivers of
 * `width` rows, word by word, and in segments of at most `segment` words:
 * [segment][sliver][k][row].  So one pass of the kernel reads contiguous memory, whatever the
 * dimension.  Integer operands may differ in the number of adjacent words: see TileProduct.
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
 * One sweep: the tiles of one tile column, over one segment.  A tile is tile_rows rows of a by
 * tile_cols rows of b.  The sums of unfinished tiles are stored in partial.  After the last segment they
 * are compared with the thresholds, FP32 or INT32 as the sums, and hits are set in the map.
 */
typedef struct TileSweep
{
	const void *a;				/* segment of the block's first sliver */
	const void *b;				/* segment of the column's first sliver */
	uint32_t	depth;			/* words of this segment */
	uint32_t	tiles;			/* number of tiles, from the first row on */
	bool		first;			/* first segment: sums start at zero */
	bool		last;			/* last segment: test the sums, do not store them */
	bool		sparse;			/* most tiles have no hit: AMX first tests whether there is any */
	void	   *partial;		/* tiles x tile_rows x tile_cols */
	const void *a_threshold;
	const void *b_threshold;
	/* second thresholds: sums that reach these are also hits; or NULL */
	const void *a_second;
	const void *b_second;
	uint8_t    *hits;			/* byte of the first column in row 0 of the map */
	size_t		hit_stride;		/* bytes from one row of the map to the next */
} TileSweep;

/* One sliver of rows to be packed; NULL: zeros. norm2 and error2 are the arguments of fasted_rho. */
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
 * How a kernel multiplies tiles of one number format.
 *
 * n = a_words or b_words words of a row are adjacent: [segment][sliver][k / n][row][k % n].  If the
 * instruction takes unsigned bytes for a, the words of a are XORed with a_flip.
 */
typedef struct TileProduct
{
	uint32_t	word_step;		/* words per segment are a multiple of this, itself one of 8 */
	uint32_t	a_words;		/* adjacent words of a row of a */
	uint32_t	b_words;
	uint32_t	a_flip;			/* 0, or 0x80808080: adds 128 to each byte of a */
	uint32_t	part;			/* partial sums are stored as squares of this side; 0: by rows */
	void		(*sweep) (const TileSweep *sweep);
} TileProduct;

/* The integer filter of a kernel, with that kernel's tiles and slivers. */
typedef struct Int8Kernel
{
	const char *name;			/* of the filter */
	uint32_t	bytes;			/* bytes per component: 1 or 2 */
	uint32_t	speed;			/* bytes multiplied while VNNI multiplies one byte */
	TileProduct product;

	/* Called before a thread's first sweep and after its last one; or NULL. */
	void		(*begin) (void);
	void		(*end) (void);

	/* Computes a row's image: `padded` floats, aligned to a cache line. */
	void		(*transform) (const Int8Transform *transform, const float *row,
							  float *image);

	/* Rounds factor times the image to integers of `bytes` bytes. */
	void		(*round) (const float *image, float factor, uint32_t padded,
						  int8_t *values, Int8Sums *sums);

	/* INT16 rows: rounding by a power of two, and the inner product of two such rows; or NULL. */
	void		(*round_int16) (const float *image, float factor, uint32_t padded,
							   int16_t *values, Int8Sums *sums);
	int32_t		(*dot_int16) (const int16_t *x, const int16_t *y, uint32_t padded);
} Int8Kernel;

/* A function of two rows of `dimensions` floats or doubles, or of as many 64-bit words of bits. */
typedef double (*RowFunction) (const void *x, const void *y, uint32_t dimensions);

typedef struct CpuKernel
{
	const char *name;
	uint32_t	width;			/* rows of a sliver */
	uint32_t	tile_rows;		/* divides width, or is a multiple of it */
	uint32_t	tile_cols;		/* a multiple of width and of tile_rows */

	bool		(*available) (void);
	TileProduct product;		/* of rows in FP32, or of bits */
	void		(*pack) (PackSliver *job);
	const Int8Kernel *int8;		/* or NULL */

	/*
	 * The kernel for rows of bits, which points to the next best one.  It has only a product, whose sums
	 * are minus the Hamming distance, distance (Hamming) and dot (the number of common bits).
	 */
	const struct CpuKernel *bits;
	uint32_t	recheck_words;	/* rows of bits: words of pairs filtered in the time of a recheck */

	/* The canonical distance of exact_distance.h, and x.y; _double: of two rows of doubles. */
	RowFunction distance;
	RowFunction distance_double;
	RowFunction dot;
	RowFunction dot_double;
} CpuKernel;

/* Returns true if rows of a are packed in another way than those of b. */
static inline bool
sides_differ(const TileProduct *product)
{
	return product->a_words != product->b_words || product->a_flip != 0;
}

/* Returns the rows of this kernel's largest block, in whole tiles. */
static inline uint32_t
kernel_block(const CpuKernel *kernel)
{
	return FASTED_MAX_BLOCK / kernel->tile_cols * kernel->tile_cols;
}

/* Returns the best available kernel for rows of bits, beside this kernel for numbers. */
static inline const CpuKernel *
kernel_of_bits(const CpuKernel *kernel)
{
	do
		kernel = kernel->bits;
	while (!kernel->available());
	return kernel;
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

#ifdef FASTED_HAVE_AMX
/* --- the parts of the AMX kernel that need its instructions: amx.c */

#define AMX_SIDE 16				/* rows of a tile register, and its columns of 4 bytes */
#define AMX_TILE (2 * AMX_SIDE) /* rows and columns of a tile */

/* Int8Kernel.begin and end: configure and release the tile registers of this thread. */
extern void fasted_begin_amx(void);
extern void fasted_end_amx(void);

/* Int8Kernel.sweep: multiplies the tiles of one tile column over one segment of INT8 rows. */
extern void fasted_sweep_amx(const TileSweep *sweep);

/* Returns true if the CPU has AMX and the process may use it.  Only the first call asks the system. */
extern bool fasted_amx_permitted(void);
#endif							/* FASTED_HAVE_AMX */

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
