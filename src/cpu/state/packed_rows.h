/*-------------------------------------------------------------------------
 *
 * packed_rows.h
 *	  Packed rows, which the filter reads, and the encoding by which rows are packed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_PACKED_ROWS_H
#define FASTED_CPU_PACKED_ROWS_H

#include "../../engine/engine.h"
#include "../kernels/kernel.h"
#include "../store/memory.h"

typedef struct CpuFilter CpuFilter;

/*
 * An encoding: the parameters that turn rows into packed rows.  It is computed from a sample, and shared
 * by all sets whose rows are packed with it.  Only the caller's thread changes the reference count.
 */
typedef struct Encoding
{
	int			refcount;
	float	   *centre;
	double		scale;			/* a power of two */
	bool		has_int8;		/* int8_centre and transform are valid */
	float	   *int8_centre;
	Int8Transform transform;
	float		int16_factor;	/* INT16 rows: images are multiplied by this; 0: no INT16 rows */
	uint32_t	folded;			/* rows of bits: words to which rows are folded; no centre */
	double		large_square;	/* INT8, inner product: x.x of a large row, outliers excluded */
} Encoding;

/* One operand of a tile: packed rows and their thresholds.  No sum reaches that of padding. */
typedef struct Operand
{
	void	   *packed;
	void	   *threshold;
} Operand;

/* The values from which a row's threshold is computed, for any eps. */
typedef struct RowTerms
{
	union
	{
		double		norm2;		/* numbers: squared norm of the packed row */
		double		ones;		/* rows of bits: number of bits that are set */
	};							/* negative: the row has no pairs */
	double		rho;			/* bound of the packing error; infinite: out-of-range row */
} RowTerms;

/* Returns the terms of a row that is in no pair, and of padding. */
static inline RowTerms
row_without_pairs(void)
{
	return (RowTerms) {.norm2 = -1.0};
}

/* Returns whether a row may be in a pair. */
static inline bool
row_has_pairs(const RowTerms *terms)
{
	return terms->norm2 >= 0.0;
}

/* Rows in INT16, row-major, stored behind packed INT8 rows: see recheck.c. */
typedef struct Int16Rows
{
	int16_t    *values;			/* context->padded values per row; NULL: no INT16 rows */
	double	   *threshold;		/* fasted_threshold_int16 */
	RowTerms   *terms;
} Int16Rows;

/* Packed rows.  Those that are columns of tiles are stored at the start of one allocation. */
typedef struct PackedRows
{
	size_t		rows;
	size_t		bytes;			/* size of the allocation */
	size_t		capacity;		/* capacity in rows, padding included */
	PackLayout	layout;
	const CpuFilter *filter;	/* for which the rows are packed */
	double		gamma;			/* FP32: bounds of the errors of products: see fasted_threshold; */
	double		alpha;
	double		slack;			/* and of squared norms, relative */
	RowTerms   *terms;
	double	   *squares;		/* cosine, inner product, Jaccard: x.x of the input rows, by place */
	Int16Rows	fine;
	Operand		as_a;			/* operand for rows of tiles; may be the same as as_b */
	Operand		as_b;			/* operand for columns of tiles */
} PackedRows;

/* The stage that follows the pruning levels: filtering at all dimensions. */
#define FULL_STAGE FASTED_PRUNE_LEVELS

/* Number of components of a level row. */
#define LEVEL_WORDS(level) (UINT32_C(32) << (level))
#define LEVEL_MOST_WORDS LEVEL_WORDS(FASTED_PRUNE_LEVELS - 1)

/* Returns the number of words of a packed integer row. */
static inline uint32_t
cpu_int8_words(const CpuKernel *kernel, uint32_t dimensions)
{
	uint32_t	step = kernel->int8->product.word_step;
	uint32_t	words = (dimensions + 31) / 32 * 32 * kernel->int8->bytes / 4;

	return (words + step - 1) / step * step;
}

/* Returns the bytes of a packed integer row, for both sides of a tile together. */
static inline size_t
cpu_int8_row_bytes(const CpuKernel *kernel, uint32_t dimensions)
{
	return (sides_differ(&kernel->int8->product) ? 2 : 1)
		* cpu_int8_words(kernel, dimensions) * sizeof(uint32_t);
}

/* Returns what TileProduct.a_flip adds to the sums of a column, and to its threshold. */
static inline uint32_t
cpu_flip_sum(const PackedRows *packed, size_t place)
{
	return ((const uint32_t *) packed->as_b.threshold)[place]
		- ((const uint32_t *) packed->as_a.threshold)[place];
}

/*
 * Returns the bytes of a packed row of a level or of FULL_STAGE: for full rows the larger of FP32 and
 * integers, which are counted for both sides of a tile, and with INT16 rows.
 */
extern size_t cpu_packed_row_bytes(const FastedContext *context, uint32_t level);

/* Returns the bytes of a packed row with its thresholds and terms. */
extern size_t cpu_packed_bytes(const FastedContext *context, uint32_t level);

/*
 * Ensures capacity for packed rows of a level or of FULL_STAGE, which alone has squares and INT16 rows.
 * If the buffer grows, its rows are lost.  Returns false if out of memory; the capacity is then zero.
 */
extern bool cpu_packed_reserve(FastedContext *context, PackedRows *packed, size_t rows,
							   uint32_t level);

/* Frees the buffer.  The capacity is then zero. */
extern void cpu_packed_free(FastedContext *context, PackedRows *packed);

/* Sets the layout of packed rows and thresholds within their buffer: columns first, then rows of tiles. */
extern void cpu_packed_lay_out(const FastedContext *context, PackedRows *packed, size_t rows,
							   uint32_t dimensions, const CpuFilter *filter);

/*
 * Returns the most words per segment: a column of tiles fills three quarters of the L1 cache.  Called
 * once per context: all sides need the same segments, and the cache may depend on the core.
 */
extern uint32_t cpu_longest_segment(const CpuKernel *kernel);

/* Returns the words per segment of rows of `words` words, a multiple of step; segments are about equal. */
extern uint32_t cpu_segment_words(const FastedContext *context, uint32_t words, uint32_t step);

/* Returns a new encoding with one reference and the scale 1, or NULL if out of memory. */
extern Encoding *cpu_encoding_new(FastedContext *context);

/* Drops one reference; the last one frees the encoding.  NULL is allowed. */
extern void cpu_encoding_drop(FastedContext *context, Encoding *encoding);

#endif							/* FASTED_CPU_PACKED_ROWS_H */
