/*-------------------------------------------------------------------------
 *
 * cpu_kernel.h
 *	  What an instruction set brings to the CPU engine.
 *
 * Packed rows.  The filter reads rows centred, scaled and interleaved, in words
 * of 4 bytes: one coordinate in FP32, or four in INT8.  Slivers of `width` rows,
 * word by word, [sliver][k][row].  Words are cut into slices of at most `slice`
 * each, and a whole slice of all slivers comes before the next:
 * [slice][sliver][k][row].  So what one pass of the kernel needs lies together,
 * whatever the dimension.  Both operands of the product have this one form in
 * FP32; rows of integers may differ in what lies together: Int8Kernel.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_KERNEL_H
#define FASTED_CPU_KERNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before a loop over a tile: it must vanish, or sums would not stay in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* The widest sliver and the largest block of any kernel, in rows. */
#define FASTED_MAX_WIDTH 16
#define FASTED_MAX_BLOCK 256

/* A side of any kernel's tile at most: its columns are bits of a word. */
#define FASTED_MAX_TILE 64

/* A multiple of every kernel's tile_cols. */
#define FASTED_COMMON_COLS 96

/* Bytes of one row of a block's hit map: a bit for each column. */
#define FASTED_HIT_BYTES 32

/* The shape of a packed set of rows. */
typedef struct PackLayout
{
	bool		int8;			/* or FP32 */
	uint32_t	words;			/* of a row */
	uint32_t	slice;			/* words of a slice, the last may be less */
	size_t		padded_rows;	/* a multiple of the kernel's tile_cols */
} PackLayout;

/*
 * One sweep: the tiles of a column of micro-tiles, over one slice.
 *
 * A tile is tile_rows rows of a by tile_cols rows of b.  Sums of unfinished
 * tiles wait in partial; after the last slice they are held against the
 * thresholds, and hits are set in the map.  Rows, sums and thresholds are FP32 or,
 * for INT8 rows, INT32.
 */
typedef struct TileSweep
{
	const void *a;				/* slice of the block's first sliver */
	const void *b;				/* slice of the column's first sliver */
	uint32_t	depth;			/* words of this slice */
	uint32_t	tiles;			/* how many tiles, from the first row on */
	bool		first;			/* first slice: sums start at zero */
	bool		last;			/* last slice: test, do not store */
	void	   *partial;		/* tiles x tile_rows x tile_cols */
	const void *a_threshold;
	const void *b_threshold;
	const void *a_second;		/* a sum that reaches these is a hit too; NULL: none */
	const void *b_second;
	uint8_t    *hits;			/* byte of the first column in row 0's map */
	size_t		hit_stride;		/* bytes from one row's map to the next */
} TileSweep;

/*
 * Rows to be packed: one sliver.  A missing row is NULL and packed as zeros.
 * norm2 and error2 are what fasted_rho wants.
 */
typedef struct PackSliver
{
	const float *rows[FASTED_MAX_WIDTH];
	const float *centre;
	double		scale;
	const PackLayout *layout;
	size_t		sliver;			/* its number */
	float	   *packed;			/* of the whole set */
	const atomic_bool *stop;	/* true: leave it unfinished; NULL: never */
	double		norm2[FASTED_MAX_WIDTH];
	double		error2[FASTED_MAX_WIDTH];
} PackSliver;

/* How rows become INT8: doc/internals/bound-int8.md, section 1. */
typedef struct Int8Transform
{
	uint32_t	dimensions;
	uint32_t	padded;			/* dimensions, rounded up to a multiple of 32 */
	const float *centre;
	float		scale;
	bool		lossless;		/* small integers: no rotation, scale 1 */
} Int8Transform;

/* What a threshold is made of: the sums of section 3, and of the bytes. */
typedef struct Int8Sums
{
	float		rounding2;		/* of what clamping leaves */
	float		error2;			/* of clamping and rounding */
	int32_t		norm2;
	int32_t		sum;
} Int8Sums;

/*
 * The filter of integers, with the tiles and slivers of the kernel that has it: INT8,
 * or INT16 in two bytes.
 *
 * Of a row, so many words lie together: [slice][sliver][k / n][row][k % n].  Where
 * the instruction takes bytes without a sign for a, its words are flipped.
 */
typedef struct Int8Kernel
{
	uint32_t	bytes;			/* of a number: 1 or 2 */
	uint32_t	word_step;		/* a row's words are padded to a multiple of it */
	uint32_t	a_words;		/* of a row of a, together */
	uint32_t	b_words;
	uint32_t	a_flip;			/* 0, or 0x80808080: 128 is added to each byte of a */
	uint32_t	part;			/* partial tiles are squares of so many sums; 0: rows of sums */

	/* Before a thread's first sweep and after its last one; or NULL. */
	void		(*begin) (void);
	void		(*end) (void);

	void		(*sweep) (const TileSweep *sweep);

	/* A row's image, padded numbers, which begin at a cache line. */
	void		(*transform) (const Int8Transform *transform, const float *row,
							  float *image);

	/* Rounds factor times the image to integers of so many bytes. */
	void		(*round) (const float *image, float factor, uint32_t padded,
						  int8_t *values, Int8Sums *sums);

	/*
	 * Fine rows: the same in two bytes, and the product of two such rows; or NULL.
	 * The factor is a power of two.
	 */
	void		(*round_fine) (const float *image, float factor, uint32_t padded,
							   int16_t *values, Int8Sums *sums);
	int32_t		(*dot_fine) (const int16_t *x, const int16_t *y, uint32_t padded);
} Int8Kernel;

/* A number of two rows, which are of floats or doubles. */
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
	 * The canonical distance of exact_distance.h, and x.y for the cosine distance: of two rows
	 * of floats, of a row that was widened to FP64 first and one of floats, which pays when
	 * that row is compared with several, and of two rows of doubles.
	 */
	RowFunction distance;
	RowFunction distance_wide;
	RowFunction distance_double;
	RowFunction dot;
	RowFunction dot_wide;
	RowFunction dot_double;

	/* Room for d numbers, rounded up to a multiple of 32. */
	void		(*widen) (const float *row, uint32_t dimensions, double *wide);
} CpuKernel;

/* Are rows of a packed as those of b? */
static inline bool
int8_sides_alike(const Int8Kernel *int8)
{
	return int8->a_words == int8->b_words && int8->a_flip == 0;
}

/* Rows of the largest block of this kernel: whole tiles. */
static inline uint32_t
kernel_block(const CpuKernel *kernel)
{
	return FASTED_MAX_BLOCK / kernel->tile_cols * kernel->tile_cols;
}

/* Words of the slice that begins with this one. */
static inline uint32_t
slice_depth(const PackLayout *layout, uint32_t first_k)
{
	uint32_t	left = layout->words - first_k;

	return left < layout->slice ? left : layout->slice;
}

/* Where a sliver's slice begins, in words of a packed set. */
static inline size_t
pack_offset(const PackLayout *layout, uint32_t width, size_t sliver,
			uint32_t first_k)
{
	return (size_t) first_k * layout->padded_rows + sliver * width * slice_depth(layout, first_k);
}

/* Compilers before GCC 11 and Clang 12 do not know the instructions of AMX and AVX-VNNI. */
#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<amxint8intrin.h>)
#define FASTED_HAVE_AMX
#endif
#if __has_include(<avxvnniintrin.h>)
#define FASTED_HAVE_AVXVNNI
#endif
#endif

#if defined(__x86_64__)
extern const CpuKernel fasted_kernel_amx;
extern const CpuKernel fasted_kernel_avx512vnni;
extern const CpuKernel fasted_kernel_avx512;
extern const CpuKernel fasted_kernel_avxvnni;
extern const CpuKernel fasted_kernel_avx2int16;
extern const CpuKernel fasted_kernel_avx2;

/* kernel_amx.c: what the kernel of AMX has beside those functions of kernel_avx512.c */
#define AMX_SIDE 16				/* rows of a tile register, and its columns of 4 bytes */
#define AMX_TILE (2 * AMX_SIDE) /* rows and columns of a tile */
extern void fasted_begin_amx(void);
extern void fasted_end_amx(void);
extern void fasted_sweep_amx(const TileSweep *sweep);

/* Has the processor AMX, and may this process use it?  The first call asks the system. */
extern bool fasted_amx_permitted(void);
#endif
#if defined(__aarch64__)
extern const CpuKernel fasted_kernel_sdot;
extern const CpuKernel fasted_kernel_neon;
#endif
extern const CpuKernel fasted_kernel_portable;

/* The k-th kernel, best first, available here or not; NULL after the last. */
extern const CpuKernel *fasted_cpu_kernel(int k);

/* The kernel of this name, or the best one for NULL; NULL when not to be had. */
extern const CpuKernel *fasted_cpu_choose_kernel(const char *name);

/* Nanoseconds on a clock that nobody sets. */
extern uint64_t cpu_now(void);

/* Rounding to nearest, and no flushing of small numbers, in this thread. */
extern void fasted_cpu_reset_fpu(void);

/* The processors that this process may run on, or fewer if its cgroup's quota is less. */
extern int	fasted_processors(void);

/*
 * The number of processors that the smallest quota of the process's cgroup and its parents
 * pays for, rounded up; 0 if none has a quota.  Files are looked for below root, which is
 * empty except in tests.
 */
extern int	fasted_cgroup_processors(const char *root);

#endif							/* FASTED_CPU_KERNEL_H */
