/*-------------------------------------------------------------------------
 *
 * tree_answers.h
 *	  For tests of spanning trees: waits for a tree's threads, and answers its searches by brute force.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TREE_ANSWERS_H
#define TREE_ANSWERS_H

#include <math.h>

#include "../../src/tree/spanning_tree.h"

/* Adds edges until a search is needed or the tree is complete. */
static inline TreeStatus
advance(SpanningTree *tree)
{
	TreeStatus	status;

	tree_advance(tree);
	while ((status = tree_wait(tree, 1000)) == TREE_BUSY)
		;
	return status;
}

/* Finds the neighbours for which a tree of n nodes asks.  data is passed to distance. */
static inline void
answer_search(SpanningTree *tree, uint32_t n, const void *data,
			  double (*distance) (const void *data, uint32_t x, uint32_t y))
{
	TreeSearch	rows = tree_searched(tree);

	for (uint32_t i = 0; i < rows.count; i++)
	{
		uint32_t	x = rows.nodes[i];
		FastedNeighbor found = {.dist = INFINITY};

		for (uint32_t y = 0; y < n; y++)
		{
			double		weight;

			if (rows.component[y] == rows.component[x])
				continue;
			weight = fmax(distance(data, x, y), fmax(rows.core[x], rows.core[y]));
			if (weight < found.dist && weight <= rows.bound[i])
				found = (FastedNeighbor) {.row = y,.dist = weight};
		}
		if (found.dist < INFINITY)
			tree_found(tree, i, found);
	}
}

#endif							/* TREE_ANSWERS_H */
