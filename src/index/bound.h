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

/* Bounds that the head of a row gives with coefficients, in FP32. */
typedef struct HeadQuery
{
	int16		codes[HEAD_WORDS];
	float		scale;
	float		square;			/* of the codes, scaled */
	float		rest;			/* norm of the other coordinates; 0 if there is no other level */
	float		has_rest;		/* 1 or 0 */
	float		by_scale;		/* the error: by_scale * scale + by_second * second + fixed */
	float		by_second;
	float		fixed;
	bool		product;
} HeadQuery;

/* A vector with which rows are compared. */
typedef struct VectorQuery
{
	const IndexedKind *kind;
	bool		unbounded;		/* there are no bounds: all rows pass */
	bool		no_direction;	/* unbounded, because all distances are NaN */
	bool		product;
	double		unit;			/* the scale of the index */
	uint32		levels;
	double		fixed_error;	/* of a row's coordinates, whatever they are */
	double		norm;			/* of the vector's coordinates */
	double		vector_norm;	/* of the vector itself */
	double		relative;		/* of the operator */
	double		scales[INDEX_LEVELS];
	double		squares[INDEX_LEVELS];	/* of the codes of a level, scaled */
	double		rests[INDEX_LEVELS];	/* norm of the coordinates of further levels */
	double		errors[INDEX_LEVELS];	/* of the codes up to a level */
	HeadQuery	head;
	bool		undefined;		/* rows whose distance is NaN pass, too */
	float		limit;			/* greatest bound of a row that passes; or infinity */
	int16	   *codes;
} VectorQuery;

/* Sums of the levels of a row. */
typedef struct RowSums
{
	double		product;		/* of the codes of row and query, scaled */
	double		norm2;			/* of the row's codes, scaled */
	double		query2;			/* the same of the query's */
	double		coarse2;		/* twice the greatest error of the codes, squared */
} RowSums;

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

/* Sets the bounds of all rows of a head page. */
extern void HeadBounds(const VectorQuery *query, const IndexState *state, Page page, float *bounds);

/* Begins the sums of a row with its head. */
extern void BeginSums(RowSums *sums, const VectorQuery *query, const IndexState *state, Page page,
					  uint32 row);

/* Adds a level to the sums, and returns the bound. */
extern double AddLevel(RowSums *sums, const VectorQuery *query, const IndexState *state, uint32 level,
					   const LevelRow *codes);

/* Returns a lower bound of the operator's result for rows of this finite bound. */
extern double OperatorBound(const VectorQuery *query, double bound);

#endif							/* FASTED_INDEX_BOUND_H */
