/*-------------------------------------------------------------------------
 *
 * keys.h
 *	  The ids of the rows, by row number, and their order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_KEYS_H
#define FASTED_KEYS_H

#include "rows/source.h"
#include "utils/sortsupport.h"

typedef struct IntegerRank IntegerRank;

typedef struct KeySet
{
	const VectorSource *source;
	MemoryContext context;
	int16		typlen;
	bool		typbyval;
	SortSupportData order;

	Datum	   *values;			/* by row number */
	uint32		count;
	uint32		capacity;

	bool		ascending;		/* every key so far is above the one before */
	uint32	   *rank;			/* position in key order by row; NULL if ascending */
	IntegerRank *ranking;		/* which a thread finds still; or NULL */
	MemoryContext sorting;		/* what that takes */
	Datum	   *by_rank;		/* what KeySetInOrder made; or NULL */
} KeySet;

/* Allocates in a new child of the current memory context. */
extern KeySet *KeySetCreate(const VectorSource *source);
extern void KeySetAdd(KeySet *keys, Datum key);
extern void KeySetAddAll(KeySet *keys, const Datum *more, size_t n);
extern void KeySetReset(KeySet *keys);

/*
 * After the last key: finds the order.  Raises an error when two rows have the
 * same key, since then ids would not tell rows apart.
 */
extern void KeySetFinish(KeySet *keys);

/*
 * The same, in the end: where it takes long a thread does it, while the caller does something
 * else.  Nobody asks for the order before KeySetFinish.  KeySetLook is that, if no waiting is
 * left to do.
 */
extern void KeySetBeginFinish(KeySet *keys);
extern void KeySetLook(KeySet *keys);

/*
 * Instead: numbers the rows in the order of their keys.  The place that each row had before,
 * by its new number, in the keys' context.
 */
extern uint32 *KeySetSort(KeySet *keys);

/* The keys in their order.  After KeySetFinish; valid until KeySetReset. */
extern const Datum *KeySetInOrder(KeySet *keys);

/* Is row a's id below row b's?  After KeySetFinish. */
static inline bool
KeyBelow(const KeySet *keys, uint32 a, uint32 b)
{
	return keys->rank == NULL ? a < b : keys->rank[a] < keys->rank[b];
}

#endif							/* FASTED_KEYS_H */
