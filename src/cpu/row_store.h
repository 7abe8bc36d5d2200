/*-------------------------------------------------------------------------
 *
 * row_store.h
 *	  Storage of input rows in chunks, and allocation of large memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_STORE_H
#define FASTED_ROW_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory of a context.  Every large allocation is counted here. */
typedef struct MemoryCount
{
	uint64_t	bytes;
	uint64_t	peak;
} MemoryCount;

/*
 * Allocates at least `size` bytes of zeroed memory, aligned to a cache line.  Large allocations
 * are aligned to 2 MiB and use huge pages.  Returns NULL if out of memory.
 */
extern void *fasted_cpu_map(size_t size, MemoryCount *count);

/*
 * Like fasted_cpu_map, for memory that may be used only in part.  It may not be zeroed.  It is not
 * touched, and has no huge pages, because each of those would be zeroed as a whole.
 */
extern void *fasted_cpu_map_lazily(size_t size, MemoryCount *count);
extern void fasted_cpu_unmap(void *memory, size_t size, MemoryCount *count);

/*
 * Returns the next part of an allocation, aligned to a cache line, and advances `next` past it.
 * Starting from zero, `next` ends as the total size.
 */
static inline void *
fasted_carve(uintptr_t *next, size_t bytes)
{
	uintptr_t	part = *next;

	*next += (bytes + 63) / 64 * 64;
	return (void *) part;
}

/*
 * Rows in chunks.  A chunk holds a power of two of rows, so that no row moves as the set grows.
 * Row r begins at chunks[r >> shift] + (r & mask) * row_floats.
 */
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

/* chunk_bytes is the largest size of a chunk, which has at least one row. */
extern void row_store_init(RowStore *store, uint32_t row_floats,
						   size_t chunk_bytes, bool may_be_few);

/* Returns a buffer after the last row and its capacity, at most max_rows; NULL if out of memory. */
extern float *row_store_offer(RowStore *store, size_t max_rows,
							  size_t *capacity, MemoryCount *count);

/* Commits the first nrows rows of the buffer offered.  Returns false if that is too many. */
extern bool row_store_commit(RowStore *store, size_t nrows);

extern void row_store_free(RowStore *store, MemoryCount *count);

static inline const float *
row_store_row(const RowStore *store, size_t row)
{
	return store->chunks[row >> store->shift]
		+ (row & store->mask) * store->row_floats;
}

#endif							/* FASTED_ROW_STORE_H */
