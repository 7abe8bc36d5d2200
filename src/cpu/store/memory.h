/*-------------------------------------------------------------------------
 *
 * memory.h
 *	  Allocation of large memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_MEMORY_H
#define FASTED_CPU_MEMORY_H

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

/* Frees memory of this size that fasted_cpu_map or fasted_cpu_map_lazily returned; NULL is allowed. */
extern void fasted_cpu_unmap(void *memory, size_t size, MemoryCount *count);

/*
 * Returns the next part of an allocation, aligned to a cache line, and advances `next` past it: from zero
 * to the total size.
 */
static inline void *
fasted_carve(uintptr_t *next, size_t bytes)
{
	uintptr_t	part = *next;

	*next += (bytes + 63) / 64 * 64;
	return (void *) part;
}

#endif							/* FASTED_CPU_MEMORY_H */
