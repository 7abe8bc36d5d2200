/*-------------------------------------------------------------------------
 *
 * neighbor_lists.h
 *	  Lists of the nearest rows found so far, one for each row of a set.
 *
 * A list is a heap whose root is the farthest neighbour, by distance and then by rank.  A row's
 * radius is the root's distance once the list is full, and eps until then.  No row beyond the
 * radius can enter the list.  Radii only shrink, so an outdated radius is safe to use.  Any number of
 * threads may offer pairs concurrently, but no row to a list twice.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_NEIGHBOR_LISTS_H
#define FASTED_NEIGHBOR_LISTS_H

#include <stdatomic.h>

#include "../../engine/engine.h"
#include "row_store.h"

typedef struct ListHead
{
	_Atomic double radius;
	atomic_flag taken;			/* spinlock of the list */
	uint32_t	length;
} ListHead;

typedef struct NeighborLists
{
	size_t		bytes;			/* size of the allocation that begins with heads */
	size_t		rows;
	uint32_t	k;				/* list length; zero: no lists */
	double		eps;
	ListHead   *heads;
	FastedNeighbor *entries;	/* k entries per row */
} NeighborLists;

/* Replaces the root of a heap, its farthest neighbour. */
extern void neighbor_heap_replace(FastedNeighbor *heap, uint32_t length, FastedNeighbor neighbor);

/* Returns the bytes of a row's list. */
static inline uint64_t
neighbor_list_bytes(uint32_t k)
{
	return k == 0 ? 0 : sizeof(ListHead) + (uint64_t) k * sizeof(FastedNeighbor);
}

/* Creates empty lists for `rows` rows.  Returns false if out of memory. */
extern bool neighbor_lists_begin(NeighborLists *lists, size_t rows, uint32_t k, double eps,
								 MemoryCount *memory);

/* Frees all lists. */
extern void neighbor_lists_free(NeighborLists *lists, MemoryCount *memory);

/* Returns a row's radius. */
static inline double
neighbor_radius(const NeighborLists *lists, size_t row)
{
	return atomic_load_explicit(&lists->heads[row].radius, memory_order_relaxed);
}

/* Lowers a row's radius.  At least k rows within it must be offered to the row's list. */
extern void neighbor_lists_bound(NeighborLists *lists, size_t row, double radius);

/* Offers a neighbour to the row's list.  A distance of NaN is ignored. */
extern void neighbor_lists_offer(NeighborLists *lists, size_t row, uint32_t rank, double dist);

/* Copies a row's neighbours, nearest first, and returns their number.  No offer may be in progress. */
extern uint32_t neighbor_lists_sorted(const NeighborLists *lists, size_t row,
									  FastedNeighbor *neighbors);

#endif							/* FASTED_NEIGHBOR_LISTS_H */
