/*-------------------------------------------------------------------------
 *
 * vector_bytes.h
 *	  Vectors that come from other servers: arrays in one piece.
 *
 * Servers send an array element by element, and each is a call of a function on both
 * sides.  That takes several times as long as all else there is to reading it.  So a
 * query of Citus's asks for arrays as they lie in memory, as values of type bytea.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_VECTOR_BYTES_H
#define FASTED_VECTOR_BYTES_H

#include "rows/source.h"
#include "utils/array.h"

/*
 * The SQL function that makes bytes of an array of this form.  InvalidOid: there is none, or
 * the extension's script is older than it, and arrays are read as such.
 */
extern Oid	VectorBytesFunction(VectorForm form);

/* The array again, if it is one of the source's form; else an error. */
extern ArrayType *ArrayFromBytes(Datum bytes, const VectorSource *source);

#endif							/* FASTED_VECTOR_BYTES_H */
