/*-------------------------------------------------------------------------
 *
 * spanning_tree.h
 *	  The exact minimum spanning tree of rows under mutual reachability, by Boruvka's algorithm.
 *
 * The core distance of a row is the distance to its min_samples-th nearest row, itself counted first.
 * The weight of an edge is the maximum of the distance of its two rows and of their core distances
 * (R. Campello, D. Moulavi and J. Sander, Density-Based Clustering Based on Hierarchical Density
 * Estimates, PAKDD 2013).  Edges are ordered by (weight, smaller node, larger node).  No two edges
 * are equal, so the tree is unique, whatever the order of computation.
 *
 * Rows are numbered by nodes: their positions in the order of ids.  Infinite weights are no edges.
 * The result is therefore a forest if rows have no finite distance from each other.
 *
 * Boruvka's algorithm repeatedly adds, for each component, its lightest edge to another component.
 * Most of these edges are known from the lists of nearest neighbours.  The caller searches for others:
 *
 *	  tree_create
 *	  tree_add_list				the neighbour list of each node, in any order
 *	  tree_add_copy				after the list of a node that need not be searched
 *	  tree_advance, tree_wait	until TREE_SEARCH or TREE_DONE
 *	  tree_searched, tree_found	after TREE_SEARCH: which rows to search, and what was found
 *	  tree_advance, ...
 *	  tree_edges				after TREE_DONE
 *	  tree_free					at any time
 *
 * This file is plain C without PostgreSQL.  The work is done by threads; the caller polls for their end.
 * Only one thread at a time may call these functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SPANNING_TREE_H
#define FASTED_SPANNING_TREE_H

#include "../engine/engine.h"

typedef struct SpanningTree SpanningTree;

typedef enum TreeStatus
{
	TREE_BUSY,					/* the threads are still running */
	TREE_SEARCH,				/* neighbours in other components are to be found */
	TREE_DONE					/* the tree is complete */
} TreeStatus;

/* An edge of the tree, a < b. */
typedef struct TreeEdge
{
	uint32_t	a;
	uint32_t	b;
	double		weight;
} TreeEdge;

/* The rows to search, in ascending order of nodes, and the state of all nodes. */
typedef struct TreeSearch
{
	const uint32_t *nodes;
	const double *bound;		/* largest weight of an edge that is of interest; indexed like nodes */
	uint32_t	count;
	const uint32_t *component;	/* of all nodes, by node */
	const double *core;			/* infinite: too few neighbours; -infinite: min_samples is 1 */
} TreeSearch;

/* Statistics, for EXPLAIN. */
typedef struct TreeStats
{
	uint32_t	searches;		/* number of times that TREE_SEARCH was returned */
	uint64_t	searched;		/* number of rows to search, in all searches */
	uint32_t	components[32];	/* number of components before each of the first searches */
	uint64_t	bytes;			/* peak of memory */
} TreeStats;

/* Returns the peak of memory, in bytes, for lists of length k and n nodes. */
extern uint64_t tree_bytes(uint32_t n, uint32_t k);

/*
 * Creates a tree of n nodes without edges.  k is the length of neighbour lists (without the row itself);
 * min_samples is from 1 to k + 1.  Returns NULL if out of memory.
 */
extern SpanningTree *tree_create(uint32_t n, uint32_t k, uint32_t min_samples, int threads);

/* Adds the list of a node: its k nearest neighbours in ascending order, or all, with nodes as ranks. */
extern void tree_add_list(SpanningTree *tree, uint32_t node, const FastedNeighbor *neighbors,
						  uint32_t length);

/*
 * Declares that the node has the same distances as at least k smaller nodes, zero of them to each other,
 * or no edge.  All of its edges that are not in its list can be ignored: the first round connects all
 * these nodes, and each of these edges is greater than that of a smaller one.  So it is never searched.
 */
extern void tree_add_copy(SpanningTree *tree, uint32_t node);

/*
 * Starts to add edges, in threads, after all lists or all results of a search have been passed.  Adds them
 * itself if no thread can be started.  tree_wait waits for the threads, for at most timeout_ms milliseconds.
 */
extern void tree_advance(SpanningTree *tree);
extern TreeStatus tree_wait(SpanningTree *tree, int timeout_ms);

/* After TREE_SEARCH: returns the rows to search.  The arrays are valid until tree_advance. */
extern TreeSearch tree_searched(const SpanningTree *tree);

/*
 * Passes the result of the search for the row at this position in TreeSearch.nodes, unless there is none
 * within the bound: its nearest neighbour in another component by mutual reachability distance, of
 * several at the same distance the smallest node.
 */
extern void tree_found(SpanningTree *tree, uint32_t position, FastedNeighbor neighbor);

/* After TREE_DONE: returns the edges, ordered by (weight, a, b), and sets *count to their number. */
extern const TreeEdge *tree_edges(const SpanningTree *tree, uint32_t *count);

extern TreeStats tree_stats(const SpanningTree *tree);

/* Frees all memory that tree_edges does not need. */
extern void tree_trim(SpanningTree *tree);

/* Stops the threads and frees the tree; NULL is allowed. */
extern void tree_free(SpanningTree *tree);

#endif							/* FASTED_SPANNING_TREE_H */
