/*-------------------------------------------------------------------------
 *
 * basis.h
 *	  The rotated basis of an index, in which the first coordinates of a vector matter most.
 *
 * The rotation is a product of reflections I - 2 v v' / (v' v).  It is orthogonal for any v.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INDEX_BASIS_H
#define FASTED_INDEX_BASIS_H

#include "index/format.h"

/*
 * Converts a vector to coordinates of the basis, in an array of zeros that has 31 elements more than the
 * state has dimensions.  Returns their norm, or -1 if the vector has no direction and the metric needs one,
 * or infinity if it is out of range: then coordinates are not set.  doc/internals/exact-index.md
 * bounds the error by ProjectionError.
 */
extern double Project(const IndexState *state, const double *vector, double *coordinates);

/*
 * Converts n <= PROJECTED_ROWS vectors to coordinates, in place.  Sets their norms as Project returns them.
 * Vectors that are out of range, or have no direction, become zeros.
 */
typedef struct Projector Projector;

#define PROJECTED_ROWS 32

extern void ProjectRows(Projector *projector, double *const *vectors, uint32 n, double *norms);

/* Allocates what ProjectRows needs, for a state that remains valid. */
extern Projector *MakeProjector(const IndexState *state);

/*
 * Sets w to s (x - c), where x is the vector or, if the metric compares directions, its direction.
 * Returns the norm of w, or -1 or infinity, as Project.
 */
extern double CentreVector(const IndexState *state, const double *vector, double *w);

/* Returns the inner product. */
extern double DoubleProduct(const double *x, const double *y, uint32 n);

/* Bound of the error of coordinates, for their norm. */
extern double ProjectionError(const IndexState *state, double norm);

/* Returns the Euclidean norm, which neither overflows nor underflows without need. */
extern double VectorNorm(const double *vector, uint32 dimensions);

/* Returns how many rows of d dimensions a fit reads. */
extern uint32 FitRows(uint32 dimensions);

/*
 * Returns a state with a basis for these n rows of d dimensions, in the current memory context, for an
 * index that has had no vector before.  Rows may be out of range, or have no direction.  Overwrites the
 * rows.
 */
extern IndexState *FitBasis(double *rows, uint32 n, uint32 d, IndexMeta meta, const IndexedKind *kind);

#endif							/* FASTED_INDEX_BASIS_H */
