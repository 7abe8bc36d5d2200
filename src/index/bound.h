/*-------------------------------------------------------------------------
 *
 * bound.h
 *	  Rows of an index, and lower bounds of their distances from a vector.
 *
 * doc/internals/exact-index.md proves the bounds.  They are in units of the index's scale: Euclidean
 * distances (of directions, for the cosine distance) or, for inner products, minus the product.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INDEX_BOUND_H
#define FASTED_INDEX_BOUND_H

#include "index/basis.h"

/* A row outside of the pages.  The hashes follow, and the codes. */
typedef struct IndexRow
{
	int32		vl_len_;
	ItemPointerData tid;
	uint16		state;			/* RowState, or 0 */
	uint16		scales[INDEX_LEVELS];
	uint16		seconds[INDEX_LEVELS];
} IndexRow;

static inline Size
IndexRowBytes(const IndexState *state)
{
	return sizeof(IndexRow) + state->meta.columns * sizeof(uint32) +
		state->layout.first[state->layout.levels];
}

static inline uint32 *
RowHashes(IndexRow *row)
{
	return (uint32 *) (row + 1);
}

static inline int8 *
RowCodes(IndexRow *row, const IndexState *state)
{
	return (int8 *) (RowHashes(row) + state->meta.columns);
}

/* Sets the state, scales, seconds and codes of a row, from what Project returns for its vector. */
extern void EncodeCoordinates(const IndexState *state, const double *coordinates, double norm, IndexRow *row);

/* The same from the vector, which may be any. */
extern void EncodeRow(const IndexState *state, const double *vector, IndexRow *row);

/*
 * Extends the box of a chunk, and its range of hashes, by a row.  The chunk has `number` rows already.  A row without
 * codes removes the bounds.
 */
extern void WidenBox(const IndexState *state, const IndexRow *row, uint32 number, ChunkBox *box);

/* Coefficients of the bounds that a level gives, in FP32. */
typedef struct LevelQuery
{
	const int16 *codes;
	uint32		n;				/* codes */
	float		scale;
	float		norm2;			/* of the query's codes up to this level and of `rest`, scaled */
	float		rest;			/* norm of the coordinates of further levels; 0 in the last */
	float		has_rest;		/* 1 or, in the last level, 0 */

	/* the error: by_coarse * (sum of n * scale^2)^(1/2) + by_second * second + by_norm * norm + fixed */
	float		by_coarse;
	float		by_second;
	float		by_norm;		/* 0 unless bounds are of products */
	float		fixed;
} LevelQuery;

/* A vector with which rows are compared. */
typedef struct VectorQuery
{
	const IndexedKind *kind;
	bool		unbounded;		/* there are no bounds: all rows pass */
	bool		no_direction;	/* unbounded, because all distances are NaN */
	bool		product;
	double		unit;			/* the scale of the index */
	double		vector_norm;	/* of the vector itself */
	double		relative;		/* of the operator */
	LevelQuery	levels[INDEX_LEVELS];
	bool		undefined;		/* rows whose distance is NaN pass, too */
	float		limit;			/* greatest bound of a row that passes; or infinity */
} VectorQuery;

/* A number for each row of a group, in memory. */
typedef float StoredFloats __attribute__((vector_size(GROUP_ROWS * sizeof(float)), aligned(sizeof(float)), may_alias));

/* What the levels add up for the rows of a group. */
typedef struct GroupSums
{
	StoredFloats products;		/* of the codes of row and query, scaled */
	StoredFloats norms2;		/* of the row's codes, scaled */
	StoredFloats coarse2;		/* sum of n * scale^2 */
} GroupSums;

/* Bounds of rows of which there are no codes. */
#define BOUND_FREE NAN
#define BOUND_NAN FLT_MAX
#define BOUND_NULL INFINITY

/* Returns the greatest FP32 number that is not greater than the value. */
extern float FloatBelow(double value);

/* Prepares a query for a vector of the index's dimensions.  The limit is infinite. */
extern void PrepareQuery(VectorQuery *query, const IndexState *state, const double *vector);

/* Sets the limit to that of rows whose distance is at most this, according to the operator. */
extern void SetLimit(VectorQuery *query, double distance);

/* Returns a lower bound of the bounds of all rows of a chunk. */
extern float BoxBound(const VectorQuery *query, const ChunkBox *box);

/*
 * Computes the bounds that a level gives of those of the n rows of a page, from row number `first` on in
 * the chunk, that have a bit in the masks.  There is a mask, and sums, for each group of the chunk's rows;
 * the head begins the sums.  Raises `bounds` [chunk_rows] to them, and removes the bits of rows whose bounds
 * are above the limit.
 */
extern void LevelBounds(const VectorQuery *query, const IndexState *state, uint32 level, Page page,
						uint32 first, uint32 n, uint8 *masks, GroupSums *sums, float *bounds);

/* Moves the bits of rows of a head that have no codes from the masks.  Removes those of free places. */
extern void SplitMasks(const IndexState *state, Page page, uint8 *masks, uint8 *uncoded);

/*
 * Sets the bounds of rows of a head that have no codes or, of a query without bounds, of any rows.  Removes
 * bits in the same way.
 */
extern void UncodedBounds(const VectorQuery *query, const IndexState *state, Page page, uint8 *uncoded,
						  float *bounds);

/* Returns a lower bound of the operator's result for rows of this finite bound. */
extern double OperatorBound(const VectorQuery *query, double bound);

#endif							/* FASTED_INDEX_BOUND_H */
