/*-------------------------------------------------------------------------
 *
 * row_store.c
 *	  Allocates large memory, aligned to huge pages, and stores rows in chunks of it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "row_store.h"

#define HUGE_PAGE ((size_t) 2 << 20)
#define CACHE_LINE 64

/* Memory of at least this size is mapped, in units of the largest usual page size. */
#define MAP_FROM (HUGE_PAGE / 2)
#define MAP_UNIT ((size_t) 64 << 10)

/* Returns the actual size of an allocation: whole pages if it is mapped. */
static size_t
real_size(size_t size)
{
	if (size < MAP_FROM)
		return size > 0 ? size : 1;
	return (size + MAP_UNIT - 1) / MAP_UNIT * MAP_UNIT;
}

/* Maps one huge page more than requested, and unmaps the unaligned ends. */
static void *
map_aligned(size_t size)
{
	char	   *start;
	char	   *aligned;
	size_t		before;

	start = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (start == MAP_FAILED)
		return NULL;

	before = (HUGE_PAGE - (uintptr_t) start % HUGE_PAGE) % HUGE_PAGE;
	aligned = start + before;
	if (before > 0)
		munmap(start, before);
	if (before < HUGE_PAGE)
		munmap(aligned + size, HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
	(void) madvise(aligned, size, MADV_HUGEPAGE);
#endif
	return aligned;
}

static void *
map_small_pages(size_t size)
{
	void	   *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
#ifdef MADV_NOHUGEPAGE
	(void) madvise(memory, size, MADV_NOHUGEPAGE);
#endif
	return memory;
}

static void *
map(size_t size, bool lazily, MemoryCount *count)
{
	void	   *memory = NULL;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = real_size(size);
	if (size >= MAP_FROM)
		memory = lazily ? map_small_pages(size) : map_aligned(size);
	else if (posix_memalign(&memory, CACHE_LINE, size) != 0)
		return NULL;
	else if (!lazily)
		memset(memory, 0, size);
	if (memory == NULL)
		return NULL;
	count->bytes += size;
	if (count->bytes > count->peak)
		count->peak = count->bytes;
	return memory;
}

void *
fasted_cpu_map(size_t size, MemoryCount *count)
{
	return map(size, false, count);
}

void *
fasted_cpu_map_lazily(size_t size, MemoryCount *count)
{
	return map(size, true, count);
}

void
fasted_cpu_unmap(void *memory, size_t size, MemoryCount *count)
{
	if (memory == NULL)
		return;
	size = real_size(size);
	if (size >= MAP_FROM)
		munmap(memory, size);
	else
		free(memory);
	count->bytes -= size;
}

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
