/*-------------------------------------------------------------------------
 *
 * pair_memory.c
 *	  Mapped memory for pairs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* mremap */
#endif

#include "postgres.h"

#include <sys/mman.h>

#include "base/interrupts.h"
#include "groups/pair_memory.h"

/* No more than a page, and bytes between two looks for interrupts. */
#define TOUCH_STEP 4096
#define TOUCH_BYTES_PER_CHECK (4 * 1024 * 1024)

void
PairMemoryFree(PairMemory *memory)
{
	if (memory->pairs == NULL)
		return;
	munmap(memory->pairs, memory->room * sizeof(FastedPair));
	memory->pairs = NULL;
	memory->room = 0;
}

static void
FreeCallback(void *arg)
{
	PairMemoryFree(arg);
}

PairMemory *
PairMemoryCreate(void)
{
	PairMemory *memory = palloc0(sizeof(PairMemory));

	CleanupRegister(&memory->cleanup, FreeCallback, memory);
	return memory;
}

void
PairMemoryGrow(PairMemory *memory, size_t room)
{
	void	   *pairs;

	if (memory->pairs == NULL)
		pairs = mmap(NULL, room * sizeof(FastedPair), PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	else
		pairs = mremap(memory->pairs, memory->room * sizeof(FastedPair),
					   room * sizeof(FastedPair), MREMAP_MAYMOVE);
	if (pairs == MAP_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("There is none for %zu pairs.", room),
				 errhint("Lower fasted.memory_limit: pairs beyond it go to a temporary file.")));
#ifdef MADV_HUGEPAGE
	(void) madvise(pairs, room * sizeof(FastedPair), MADV_HUGEPAGE);
#endif
	memory->pairs = pairs;
	memory->room = room;
}

void
PairMemoryTouch(PairMemory *memory)
{
	volatile char *bytes = (volatile char *) memory->pairs;
	Size		size = memory->room * sizeof(FastedPair);

	for (Size i = 0; i < size; i += TOUCH_STEP)
	{
		if (i % TOUCH_BYTES_PER_CHECK == 0)
			CheckJoinInterrupts();
		bytes[i] = 0;
	}
}
