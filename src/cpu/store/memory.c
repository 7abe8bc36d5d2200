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
