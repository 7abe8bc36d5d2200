/*-------------------------------------------------------------------------
 *
 * large_memory.h
 *	  Memory in huge pages, and growing arrays in it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_LARGE_MEMORY_H
#define FASTED_LARGE_MEMORY_H

#include "utils/palloc.h"

#define HUGE_PAGE ((Size) 2 * 1024 * 1024)

/* Allocates memory, in huge pages if it is large, because rows are read in random order. */
extern void *AllocPages(MemoryContext context, Size bytes);
extern void *ReallocPages(void *memory, Size bytes);

/* Reallocates an array, or allocates it if it is NULL.  At least doubles *capacity. */
extern void *GrowArray(MemoryContext context, void *array, uint32 *capacity, Size size);

#endif							/* FASTED_LARGE_MEMORY_H */
