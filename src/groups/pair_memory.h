/*-------------------------------------------------------------------------
 *
 * pair_memory.h
 *	  An array of pairs that grows, outside of the memory contexts.
 *
 * Mapped memory can grow without being copied, and asks for huge pages.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PAIR_MEMORY_H
#define FASTED_PAIR_MEMORY_H

#include "base/cleanup.h"
#include "engine/engine.h"

typedef struct PairMemory
{
	FastedPair *pairs;
	size_t		room;
	Cleanup		cleanup;
} PairMemory;

/* Goes with the current memory context, if it is not freed before. */
extern PairMemory *PairMemoryCreate(void);

/* Makes room for so many pairs, which is more than before; those there are stay. */
extern void PairMemoryGrow(PairMemory *memory, size_t room);

/* Lets the system make the memory, page by page; what is in there is lost. */
extern void PairMemoryTouch(PairMemory *memory);
extern void PairMemoryFree(PairMemory *memory);

static inline uint64
PairMemoryBytes(const PairMemory *memory)
{
	return memory->room * sizeof(FastedPair);
}

#endif							/* FASTED_PAIR_MEMORY_H */
