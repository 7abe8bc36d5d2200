/*-------------------------------------------------------------------------
 *
 * vectors.h
 *	  Vectors as bytea, and hashes by which two servers compare the rows that they have read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CITUS_VECTORS_H
#define FASTED_CITUS_VECTORS_H

#include "rows/vector.h"

/* --- vectors from other servers, as bytea */

/*
 * Servers send an array element by element, with a function call for each on both sides.  That
 * takes several times as long as the rest of reading it.  So queries that Citus executes select
 * arrays, and bits, in their memory format, as bytea.
 */

/*
 * The SQL function that returns a vector of this form as bytea.  InvalidOid if there is none;
 * vectors are then read as such.
 */
extern Oid	VectorBytesFunction(VectorForm form);

/* Returns the bytea as a vector; raises an error if it is not one of the source's form. */
extern struct varlena *VectorFromBytes(Datum bytes, const VectorSource *source);

/* --- checks that two servers have read the same rows in the same order */

/*
 * A chain of 64-bit hashes over keys and vectors, row by row.  For two different tables it is
 * equal with a probability of 2^-64.  It detects concurrent writes, but does not protect
 * against an adversary.
 */
typedef struct Fingerprint
{
	uint64		rows;
	uint64		hash;
} Fingerprint;

/* Adds the next row, whose key is not null.  Leaves garbage in the current memory context. */
extern void FingerprintAdd(Fingerprint *print, Datum key, int16 typlen, bool typbyval, uint64 vector_hash);

/*
 * Hash of a converted row, independent of the metric.  It is 0 for a zero vector, and only then.
 * Leaves garbage in the current memory context.
 */
extern uint64 VectorHash(const float *row, FastedElement element, uint32 dimensions);

/* The SQL function that computes VectorHash of vectors of this form on another server. */
extern Oid	VectorHashFunction(VectorForm form);

#endif							/* FASTED_CITUS_VECTORS_H */
