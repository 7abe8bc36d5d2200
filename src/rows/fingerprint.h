/*-------------------------------------------------------------------------
 *
 * fingerprint.h
 *	  Whether two servers have read the same rows, in the same order.
 *
 * A chain of 64-bit hashes over keys and vectors, row after row: of two tables that
 * differ it is the same by a chance of 2^-64.  It guards against what others write
 * meanwhile, not against an adversary.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_FINGERPRINT_H
#define FASTED_FINGERPRINT_H

#include "common/hashfn.h"
#include "engine/engine.h"

typedef struct Fingerprint
{
	uint64		rows;
	uint64		hash;
} Fingerprint;

/* The next row. */
static inline void
FingerprintAdd(Fingerprint *print, uint64 key_hash, uint64 vector_hash)
{
	uint64		chain[3] = {print->hash, key_hash, vector_hash};

	print->rows++;
	print->hash = hash_bytes_extended((const unsigned char *) chain, sizeof(chain), 0);
}

static inline bool
SameFingerprint(const Fingerprint *a, const Fingerprint *b)
{
	return a->rows == b->rows && a->hash == b->hash;
}

/* Of a key that is not null: of its bytes.  Leaves garbage in the current memory context. */
extern uint64 KeyHash(Datum key, int16 typlen, bool typbyval);

/*
 * Of a row as it is joined, by whichever metric; zero for a vector of zeros, and only for
 * one.  Leaves garbage in the current memory context.
 */
extern uint64 VectorHash(const float *row, FastedElement element, uint32 dimensions);

/*
 * The SQL function that does so where the vectors are, for arrays of this type;
 * InvalidOid: the extension's script is older than it.
 */
extern Oid	VectorHashFunction(Oid array_type);

#endif							/* FASTED_FINGERPRINT_H */
