/*-------------------------------------------------------------------------
 *
 * row_store.h
 *	  Rows as they came, in chunks; and where large memory comes from.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_STORE_H
#define FASTED_ROW_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a context holds: every large piece of memory is counted here. */
typedef struct MemoryCount
{
	uint64_t	bytes;
	uint64_t	peak;
} MemoryCount;

/*
 * Zeroed memory of at least this size, aligned to a cache line, or NULL.
 * Large pieces are aligned to 2 MiB and ask for huge pages.
 */
extern void *fasted_cpu_map(size_t size, MemoryCount *count);

/*
 * The same, but of any content, where perhaps little of it is used: it is not touched,
 * and large pieces have no huge pages, each of which would be zeroed whole.
 */
extern void *fasted_cpu_map_lazily(size_t size, MemoryCount *count);
extern void fasted_cpu_unmap(void *memory, size_t size, MemoryCount *count);

/*
 * Part of a piece of memory, at a cache line; next is where the free part begins.  From zero
 * on, nothing but the size of the piece comes of it.
 */
static inline void *
fasted_carve(uintptr_t *next, size_t bytes)
{
	uintptr_t	part = *next;

	*next += (bytes + 63) / 64 * 64;
	return (void *) part;
}

/*
 * Rows in chunks of a power of two of them: nothing is ever moved as the set
 * grows.  Row r begins at chunks[r >> shift] + (r & mask) * row_floats.
 */
typedef struct RowStore
{
	uint32_t	row_floats;		/* a double takes the room of two */
	uint32_t	shift;
	size_t		mask;
	float	  **chunks;
	size_t		nchunks;
	size_t		room;			/* entries of the array of chunks */
	size_t		rows;			/* committed */
	size_t		offered;		/* by the last call of row_store_offer */
	bool		may_be_few;		/* rows that fill a small part of the first chunk */
} RowStore;

/* chunk_bytes is a wish; a chunk has one row at least. */
extern void row_store_init(RowStore *store, uint32_t row_floats,
						   size_t chunk_bytes, bool may_be_few);

/*
 * Room after the last row, for at most max_rows; NULL when memory ran out.
 */
extern float *row_store_offer(RowStore *store, size_t max_rows,
							  size_t *capacity, MemoryCount *count);

/* Takes over the first rows of the room offered; false for too many. */
extern bool row_store_commit(RowStore *store, size_t nrows);

extern void row_store_free(RowStore *store, MemoryCount *count);

static inline const float *
row_store_row(const RowStore *store, size_t row)
{
	return store->chunks[row >> store->shift]
		+ (row & store->mask) * store->row_floats;
}

#endif							/* FASTED_ROW_STORE_H */
