/*-------------------------------------------------------------------------
 *
 * own_rows.h
 *	  What the coordinator reads itself: keys and hashes, but no vectors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_OWN_ROWS_H
#define FASTED_OWN_ROWS_H

#include "join/keys.h"
#include "rows/vector.h"

/*
 * Adds the keys of the source's rows, in their order, and gives the fingerprint of what
 * the current snapshot has.  Vectors are hashed where they lie.  If the source has an order,
 * *ranks has each row's place in it, in the keys' context; else NULL.
 */
extern Fingerprint ReadOwnRows(const VectorSource *source, KeySet *keys, uint32 **ranks);

#endif							/* FASTED_OWN_ROWS_H */
