/*-------------------------------------------------------------------------
 *
 * large_memory.c
 *	  Allocates the memory, and asks the system for huge pages.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>

#include "base/large_memory.h"

static void *
UseHugePages(char *memory, Size bytes)
{
#ifdef MADV_HUGEPAGE
	char	   *begin = (char *) TYPEALIGN(HUGE_PAGE, memory);
	char	   *end = (char *) TYPEALIGN_DOWN(HUGE_PAGE, memory + bytes);

	if (begin < end)
		(void) madvise(begin, end - begin, MADV_HUGEPAGE);
#endif
	return memory;
}

void *
AllocPages(MemoryContext context, Size bytes)
{
	return UseHugePages(MemoryContextAllocHuge(context, bytes), bytes);
}

void *
ReallocPages(void *memory, Size bytes)
{
	return UseHugePages(repalloc_huge(memory, bytes), bytes);
}

void *
GrowArray(MemoryContext context, void *array, uint32 *capacity, Size size)
{
	uint32		old = *capacity;
	void	   *grown;

	*capacity = Max(1024, 2 * old);
	grown = AllocPages(context, *capacity * size);
	if (array != NULL)
	{
		memcpy(grown, array, old * size);
		pfree(array);
	}
	return grown;
}
