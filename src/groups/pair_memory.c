/*-------------------------------------------------------------------------
 *
 * pair_memory.c
 *	  Mapped memory for pairs, given back by a thread.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* mremap */
#endif

#include "postgres.h"

#include <sys/mman.h>

#include "cpu/release.h"
#include "groups/pair_memory.h"
#include "utils/memutils.h"

void
PairMemoryFree(PairMemory *memory)
{
	Release    *release;

	if (memory->pairs == NULL)
		return;
	release = release_begin();
	release_memory(release, memory->pairs, memory->room * sizeof(FastedPair));
	release_end(release);
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

	memory->callback.func = FreeCallback;
	memory->callback.arg = memory;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &memory->callback);
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
