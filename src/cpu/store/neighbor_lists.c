/*-------------------------------------------------------------------------
 *
 * neighbor_lists.c
 *	  Heaps of the nearest rows, and their radii.
 *
 *-------------------------------------------------------------------------
 */
#include <sched.h>
#include <string.h>

#include "neighbor_lists.h"

/* Attempts to lock a list before the thread yields its CPU. */
#define SPINS 64

bool
neighbor_lists_begin(NeighborLists *lists, size_t rows, uint32_t k, double eps,
					 MemoryCount *memory)
{
	size_t		bytes = rows * neighbor_list_bytes(k);

	if (bytes > lists->bytes)
	{
		neighbor_lists_free(lists, memory);
		lists->heads = fasted_cpu_map(bytes, memory);
		if (lists->heads == NULL)
			return false;
		lists->bytes = bytes;
	}
	lists->entries = (FastedNeighbor *) (lists->heads + rows);
	lists->rows = rows;
	lists->k = k;
	lists->eps = eps;
	for (size_t row = 0; row < rows; row++)
	{
		atomic_init(&lists->heads[row].radius, eps);
		atomic_flag_clear_explicit(&lists->heads[row].taken, memory_order_relaxed);
		lists->heads[row].length = 0;
	}
	return true;
}

void
neighbor_lists_free(NeighborLists *lists, MemoryCount *memory)
{
	fasted_cpu_unmap(lists->heads, lists->bytes, memory);
	memset(lists, 0, sizeof(*lists));
}

/* Returns true if x precedes y in a sorted list. */
static inline bool
before(const FastedNeighbor *x, const FastedNeighbor *y)
{
	return x->dist < y->dist || (x->dist == y->dist && x->row < y->row);
}

void
neighbor_heap_replace(FastedNeighbor *heap, uint32_t length, FastedNeighbor neighbor)
{
	size_t		hole = 0;
	size_t		child;

	while ((child = 2 * hole + 1) < length)
	{
		if (child + 1 < length && before(&heap[child], &heap[child + 1]))
			child++;
		if (!before(&neighbor, &heap[child]))
			break;
		heap[hole] = heap[child];
		hole = child;
	}
	heap[hole] = neighbor;
}

/* Inserts a neighbour into a heap of `length` entries. */
static void
sift_up(FastedNeighbor *heap, uint32_t length, FastedNeighbor neighbor)
{
	uint32_t	hole = length;

	while (hole > 0 && before(&heap[(hole - 1) / 2], &neighbor))
	{
		heap[hole] = heap[(hole - 1) / 2];
		hole = (hole - 1) / 2;
	}
	heap[hole] = neighbor;
}

static void
take(ListHead *head)
{
	for (int spins = 0; atomic_flag_test_and_set_explicit(&head->taken, memory_order_acquire); spins++)
	{
		if (spins >= SPINS)
			sched_yield();
	}
}

static void
set_radius(ListHead *head, double radius)
{
	atomic_store_explicit(&head->radius, radius, memory_order_relaxed);
}

void
neighbor_lists_bound(NeighborLists *lists, size_t row, double radius)
{
	if (radius < neighbor_radius(lists, row))
		set_radius(&lists->heads[row], radius);
}

void
neighbor_lists_offer(NeighborLists *lists, size_t row, uint32_t rank, double dist)
{
	ListHead   *head = &lists->heads[row];
	FastedNeighbor *heap = lists->entries + row * lists->k;
	FastedNeighbor neighbor = {.row = rank,.dist = dist};

	if (!(dist <= neighbor_radius(lists, row)))
		return;
	take(head);
	if (head->length < lists->k)
	{
		sift_up(heap, head->length++, neighbor);
		if (head->length == lists->k)
			set_radius(head, heap[0].dist);
	}
	else if (before(&neighbor, &heap[0]))
	{
		neighbor_heap_replace(heap, lists->k, neighbor);
		set_radius(head, heap[0].dist);
	}
	atomic_flag_clear_explicit(&head->taken, memory_order_release);
}

uint32_t
neighbor_lists_sorted(const NeighborLists *lists, size_t row, FastedNeighbor *neighbors)
{
	uint32_t	length = lists->heads[row].length;

	memcpy(neighbors, lists->entries + row * lists->k, length * sizeof(*neighbors));
	for (uint32_t left = length; left > 1;)
	{
		FastedNeighbor last = neighbors[0];

		left--;
		neighbor_heap_replace(neighbors, left, neighbors[left]);
		neighbors[left] = last;
	}
	return length;
}
