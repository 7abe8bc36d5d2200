/*-------------------------------------------------------------------------
 *
 * neighbor_lists.h
 *	  The nearest rows so far of each row of a set.
 *
 * A list is a heap, with the last neighbour, by distance and rank, at the root.  A
 * row's radius is that neighbour's distance once the list is full, and eps until then:
 * no farther row can enter.  Radii only shrink, so an old one is safe to go by.
 *
 * Any thread may offer a pair, any number of them at a time.  The same row must not be
 * offered to a list twice.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_NEIGHBOR_LISTS_H
#define FASTED_NEIGHBOR_LISTS_H

#include <stdatomic.h>

#include "../engine/engine.h"
#include "row_store.h"

typedef struct ListHead
{
	_Atomic double radius;
	atomic_flag taken;			/* a thread is at the list */
	uint32_t	length;
} ListHead;

typedef struct NeighborLists
{
	size_t		bytes;			/* of the piece of memory that begins with heads */
	size_t		rows;
	uint32_t	k;				/* zero: there are no lists */
	double		eps;
	ListHead   *heads;
	FastedNeighbor *entries;	/* k of each row */
} NeighborLists;

/* Puts a neighbour in the place of a heap's root, the last one. */
extern void neighbor_heap_replace(FastedNeighbor *heap, uint32_t length, FastedNeighbor neighbor);

/* Bytes of a row's list. */
static inline uint64_t
neighbor_list_bytes(uint32_t k)
{
	return k == 0 ? 0 : sizeof(ListHead) + (uint64_t) k * sizeof(FastedNeighbor);
}

/* Empty lists for so many rows; false: memory ran out. */
extern bool neighbor_lists_begin(NeighborLists *lists, size_t rows, uint32_t k, double eps,
								 MemoryCount *memory);
extern void neighbor_lists_free(NeighborLists *lists, MemoryCount *memory);

static inline double
neighbor_radius(const NeighborLists *lists, size_t row)
{
	return atomic_load_explicit(&lists->heads[row].radius, memory_order_relaxed);
}

/* So many rows as a list has are within this radius of the row, and all will be offered. */
extern void neighbor_lists_bound(NeighborLists *lists, size_t row, double radius);

/* A neighbour of the row, which may be near enough; NaN never is. */
extern void neighbor_lists_offer(NeighborLists *lists, size_t row, uint32_t rank, double dist);

/* The row's neighbours, the nearest first, and how many there are.  Nothing may be on offer. */
extern uint32_t neighbor_lists_sorted(const NeighborLists *lists, size_t row,
									  FastedNeighbor *neighbors);

#endif							/* FASTED_NEIGHBOR_LISTS_H */
