/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  Allocates large memory, aligned to huge pages.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory.h"

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

/*
 * Maps memory: with small pages; or aligned to huge pages, for which one page more is mapped, and the
 * unaligned ends are unmapped.
 */
static void *
map_pages(size_t size, bool huge)
{
	size_t		more = huge ? HUGE_PAGE : 0;
	char	   *start = mmap(NULL, size + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t		before;

	if (start == MAP_FAILED)
		return NULL;
	before = huge ? (HUGE_PAGE - (uintptr_t) start % HUGE_PAGE) % HUGE_PAGE : 0;
	if (before > 0)
		munmap(start, before);
	if (before < more)
		munmap(start + before + size, more - before);
#ifdef MADV_HUGEPAGE
	(void) madvise(start + before, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
	return start + before;
}

static void *
map(size_t size, bool lazily, MemoryCount *count)
{
	void	   *memory = NULL;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = real_size(size);
	if (size >= MAP_FROM)
		memory = map_pages(size, !lazily);
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
