/*-------------------------------------------------------------------------
 *
 * row_store.h
 *	  Storage of input rows in chunks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_STORE_H
#define FASTED_ROW_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory.h"

/* Row r begins at chunks[r >> shift] + (r & mask) * row_floats.  No row moves as the set grows. */
typedef struct RowStore
{
	uint32_t	row_floats;		/* a double counts as two floats */
	uint32_t	shift;
	size_t		mask;
	float	  **chunks;
	size_t		nchunks;
	size_t		chunks_capacity;	/* capacity of the array of chunks */
	size_t		rows;			/* number of committed rows */
	size_t		offered;		/* rows offered by the last row_store_offer */
	bool		may_be_few;		/* rows may fill only a small part of the first chunk */
} RowStore;

/* Initializes an empty store.  Chunks have at most chunk_bytes bytes, or one row. */
extern void row_store_init(RowStore *store, uint32_t row_floats,
						   size_t chunk_bytes, bool may_be_few);

/* Returns a buffer after the last row and its capacity, at most max_rows; NULL if out of memory. */
extern float *row_store_offer(RowStore *store, size_t max_rows,
							  size_t *capacity, MemoryCount *count);

/* Commits the first nrows rows of the buffer offered.  Returns false if that is too many. */
extern bool row_store_commit(RowStore *store, size_t nrows);

/* Frees all chunks. */
extern void row_store_free(RowStore *store, MemoryCount *count);

/* Returns a committed row. */
static inline const float *
row_store_row(const RowStore *store, size_t row)
{
	return store->chunks[row >> store->shift]
		+ (row & store->mask) * store->row_floats;
}

#endif							/* FASTED_ROW_STORE_H */
