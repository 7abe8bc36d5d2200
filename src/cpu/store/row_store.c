/*-------------------------------------------------------------------------
 *
 * row_store.c
 *	  Stores rows in chunks of large memory.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "row_store.h"

static size_t
chunk_size(const RowStore *store)
{
	return (store->mask + 1) * store->row_floats * sizeof(float);
}

void
row_store_init(RowStore *store, uint32_t row_floats, size_t chunk_bytes, bool may_be_few)
{
	memset(store, 0, sizeof(*store));
	store->may_be_few = may_be_few;
	store->row_floats = row_floats;
	while (((size_t) 2 << store->shift) * row_floats * sizeof(float)
		   <= chunk_bytes)
		store->shift++;
	store->mask = ((size_t) 1 << store->shift) - 1;
}

float *
row_store_offer(RowStore *store, size_t max_rows, size_t *capacity,
				MemoryCount *count)
{
	size_t		chunk = store->rows >> store->shift;
	size_t		left = store->mask + 1 - (store->rows & store->mask);

	if (chunk == store->chunks_capacity)
	{
		size_t		capacity = store->chunks_capacity == 0 ? 16 : 2 * store->chunks_capacity;
		float	  **chunks = realloc(store->chunks, capacity * sizeof(*chunks));

		if (chunks == NULL)
			return NULL;
		store->chunks = chunks;
		store->chunks_capacity = capacity;
	}
	if (chunk == store->nchunks)
	{
		store->chunks[chunk] = chunk == 0 && store->may_be_few
			? fasted_cpu_map_lazily(chunk_size(store), count)
			: fasted_cpu_map(chunk_size(store), count);
		if (store->chunks[chunk] == NULL)
			return NULL;
		store->nchunks++;
	}
	store->offered = left < max_rows ? left : max_rows;
	*capacity = store->offered;
	return store->chunks[chunk] + (store->rows & store->mask) * store->row_floats;
}

bool
row_store_commit(RowStore *store, size_t nrows)
{
	if (nrows > store->offered)
		return false;
	store->rows += nrows;
	store->offered = 0;
	return true;
}

void
row_store_free(RowStore *store, MemoryCount *count)
{
	for (size_t i = 0; i < store->nchunks; i++)
		fasted_cpu_unmap(store->chunks[i], chunk_size(store), count);
	free(store->chunks);
	store->chunks = NULL;
	store->nchunks = store->chunks_capacity = store->rows = store->offered = 0;
}
