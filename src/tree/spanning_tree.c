/*-------------------------------------------------------------------------
 *
 * spanning_tree.c
 *	  Boruvka's algorithm on lists of nearest neighbours (spanning_tree.h).
 *
 * Each node has a list of known edges, ordered by (weight, neighbour), and a bound.  This invariant
 * holds: each edge of the node to another component is in its list, or is greater than its bound.
 * A bound is a pair (weight, neighbour), too.  For a fixed node, this order is the order of edges.
 *
 * A full list of nearest neighbours sets the bound to the last entry.  The distance of any other row
 * is greater, or it is equal and the row's rank is greater.  The weight is not less than the
 * distance.  A search sets the bound to the edge that it found, which is the node's smallest edge to
 * another component.  If nothing was found, the bound is (limit of the search, NOBODY), which is
 * greater than all edges at the limit, because one of these would have been found.
 *
 * A node offers its component the first entry of its list, if that does not exceed its bound, and
 * its bound otherwise.  If the smallest offer is an edge, all other edges of the component to other
 * components are greater: known ones because they are not less than their node's offer, and unknown
 * ones because they exceed their node's bound, which is not less than its offer.  The component is
 * therefore connected by this edge.  An edge offer and a bound offer of the same component cannot be
 * equal: an edge with one end in the component belongs to one of the component's nodes, and a node
 * makes one offer.  As edges are totally ordered, the connections of a round form cycles only if two
 * components choose the same edge.
 *
 * If all components offer bounds, rows have to be searched.  The limit of a component is the
 * smallest weight of a known edge that leaves or enters it.  Its nodes that may have unknown edges
 * within the limit are searched up to the limit.  Then the component can be connected: the edge with that
 * weight is known at its end in the component or is greater than the bound there, so that this end is
 * searched.  Without a known edge there is no limit.  Then a sample of the nodes is searched first,
 * and all nodes only if the sample has no edge.
 *
 * The component that needs most rows is not searched.  All others are connected or turn out to have
 * no edge.  If only one component has nodes whose edges may be unknown, the forest is complete: an
 * edge of this component would be known at its other end.
 *
 * All threads execute the same phases.  Each phase processes ranges of nodes, and ends with a
 * barrier.  The last thread at the barrier executes the sequential steps.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "spanning_tree.h"
#include "workers.h"

#define CHUNK 1024				/* number of nodes in a range */
#define SORT_BLOCK 32768		/* number of edges that qsort sorts */
#define SAMPLE 8
#define NOBODY UINT32_MAX

typedef struct Node
{
	double		bound;			/* weight and neighbour of the bound; infinite: all edges are known */
	uint32_t	bound_node;
	uint32_t	first;			/* the known edges, as positions in the node's part of the lists */
	uint32_t	end;
} Node;

/* The state of a component, stored at the node that represents it. */
typedef struct Component
{
	_Atomic double limit;		/* smallest weight of a known edge */
	_Atomic uint32_t best;		/* node with the smallest offer, or NOBODY */
	_Atomic uint32_t need;		/* number of nodes to search */
	uint32_t	seen;			/* how many of them choose_rows has seen */
	_Atomic bool exhausted;		/* all edges of a node are known */
} Component;

typedef struct Offer
{
	double		weight;
	uint32_t	other;
	bool		known;			/* an edge, not a bound */
} Offer;

struct SpanningTree
{
	uint32_t	n;
	uint32_t	k;
	uint32_t	min_samples;
	int			threads;
	TreeStats	stats;

	void	   *results;		/* memory of the edges and core distances */
	TreeEdge   *edges;
	double	   *core;
	_Atomic uint32_t nedges;

	void	   *work;			/* memory of the other arrays */
	double	   *weight;			/* k list entries per node; distances until prepare */
	uint32_t   *neighbor;
	Node	   *nodes;
	Component  *components;
	uint32_t   *component;
	_Atomic uint32_t *parent;	/* by component: the component that it was connected to, or itself */
	uint32_t   *candidates;		/* rows to search: at first, some at the beginning of each range */
	uint32_t   *found;			/* number of candidates in each range */
	double	   *limits;

	bool		prepared;
	uint32_t	count;			/* number of rows to search */
	uint32_t	before;			/* number of edges before this round */
	bool		connected;		/* the round added edges */
	TreeEdge   *from;			/* the edges being merged, and where to */
	TreeEdge   *to;
	uint32_t	width;			/* number of edges in each sorted part of them */

	Workers		workers;
	int			arrived;		/* number of threads at the barrier */
	uint32_t	barriers;		/* number of barriers passed */
	_Atomic uint64_t next;		/* start of the next range of the phase */
	_Atomic bool stop;
	bool		quit;			/* the same, as seen by all threads after a barrier */
};

/* A phase processes nodes or edges from first to end - 1. */
typedef void (*Phase) (SpanningTree *tree, uint32_t first, uint32_t end);

/* --- memory */

/* Places an array at the end of a block, and returns its address.  *size is the block's size. */
static void *
place(char *block, uint64_t *size, uint64_t count, size_t element)
{
	uint64_t	at = *size;

	*size = (at + count * element + 63) / 64 * 64;
	return block + at;
}

static uint64_t
place_results(SpanningTree *tree, char *block)
{
	uint64_t	size = 0;

	tree->edges = place(block, &size, tree->n, sizeof(TreeEdge));
	tree->core = place(block, &size, tree->n, sizeof(double));
	return size;
}

static uint64_t
place_work(SpanningTree *tree, char *block)
{
	uint64_t	n = tree->n;
	uint64_t	size = 0;

	/* merge_parts needs two weights per node */
	tree->weight = place(block, &size, n * (tree->k < 2 ? 2 : tree->k), sizeof(double));
	tree->neighbor = place(block, &size, n * tree->k, sizeof(uint32_t));
	tree->nodes = place(block, &size, n, sizeof(Node));
	tree->components = place(block, &size, n, sizeof(Component));
	tree->component = place(block, &size, n, sizeof(uint32_t));
	tree->parent = place(block, &size, n, sizeof(uint32_t));
	tree->candidates = place(block, &size, n, sizeof(uint32_t));
	tree->found = place(block, &size, n / CHUNK + 1, sizeof(uint32_t));
	tree->limits = place(block, &size, n, sizeof(double));
	return size;
}

uint64_t
tree_bytes(uint32_t n, uint32_t k)
{
	SpanningTree tree = {.n = n, .k = k};

	return sizeof(tree) + place_results(&tree, NULL) + place_work(&tree, NULL);
}

SpanningTree *
tree_create(uint32_t n, uint32_t k, uint32_t min_samples, int threads)
{
	SpanningTree *tree = calloc(1, sizeof(*tree));
	uint32_t	ranges = n / CHUNK + 1;

	if (tree == NULL)
		return NULL;
	tree->n = n;
	tree->k = k;
	tree->min_samples = min_samples;
	tree->threads = threads < 0 || (uint32_t) threads < ranges ? threads : (int) ranges;
	tree->results = malloc(place_results(tree, NULL) + 1);
	tree->work = malloc(place_work(tree, NULL) + 1);
	if (tree->results == NULL || tree->work == NULL)
	{
		free(tree->results);
		free(tree->work);
		free(tree);
		return NULL;
	}
	(void) place_results(tree, tree->results);
	(void) place_work(tree, tree->work);
	tree->stats.bytes = tree_bytes(n, k);
	workers_init(&tree->workers);
	return tree;
}

void
tree_add_list(SpanningTree *tree, uint32_t node, const FastedNeighbor *neighbors, uint32_t length)
{
	Node	   *to = &tree->nodes[node];
	size_t		base = (size_t) node * tree->k;
	uint32_t	others = tree->min_samples - 1;

	for (uint32_t i = 0; i < length; i++)
	{
		tree->weight[base + i] = neighbors[i].dist;
		tree->neighbor[base + i] = neighbors[i].row;
	}
	to->first = 0;
	to->end = length;
	if (others == 0)
		tree->core[node] = -INFINITY;
	else
		tree->core[node] = others <= length ? neighbors[others - 1].dist : INFINITY;

	/* A list of n - 1 neighbours has all edges although it is full. */
	to->bound = INFINITY;
	to->bound_node = NOBODY;
	if (length == tree->k && length + 1 < tree->n)
	{
		to->bound = neighbors[length - 1].dist;
		to->bound_node = neighbors[length - 1].row;
	}
}

/* --- threads */

/* Waits for all threads.  The last one executes a sequential step, if any, before they resume. */
static void
wait_for_all(SpanningTree *tree, void (*step) (SpanningTree *tree))
{
	uint32_t	barrier;

	pthread_mutex_lock(&tree->workers.lock);
	barrier = tree->barriers;
	if (++tree->arrived == tree->workers.members)
	{
		tree->quit = tree->stop;
		if (step != NULL && !tree->quit)
			step(tree);
		tree->next = 0;
		tree->arrived = 0;
		tree->barriers++;
		pthread_cond_broadcast(&tree->workers.changed);
	}
	while (barrier == tree->barriers)
		pthread_cond_wait(&tree->workers.changed, &tree->workers.lock);
	pthread_mutex_unlock(&tree->workers.lock);
}

/* Executes a phase for `total` nodes or edges in ranges of `width`, and a step at its end. */
static void
run_phase(SpanningTree *tree, Phase phase, uint32_t total, uint64_t width,
		  void (*step) (SpanningTree *tree))
{
	uint64_t	first;

	while (!tree->stop && (first = atomic_fetch_add(&tree->next, width)) < total)
		phase(tree, (uint32_t) first, first + width < total ? (uint32_t) (first + width) : total);
	wait_for_all(tree, step);
}

/* --- rounds of Boruvka's algorithm */

static bool
edge_less(TreeEdge a, TreeEdge b)
{
	if (a.weight != b.weight)
		return a.weight < b.weight;
	return a.a != b.a ? a.a < b.a : a.b < b.b;
}

static TreeEdge
make_edge(double weight, uint32_t x, uint32_t y)
{
	return (TreeEdge) {.weight = weight, .a = x < y ? x : y, .b = x < y ? y : x};
}

static Offer
node_offer(const SpanningTree *tree, uint32_t x)
{
	const Node *node = &tree->nodes[x];
	Offer		offer = {.weight = node->bound, .other = node->bound_node};

	if (node->first < node->end)
	{
		size_t		at = (size_t) x * tree->k + node->first;
		double		weight = tree->weight[at];
		uint32_t	other = tree->neighbor[at];

		if (weight < offer.weight || (weight == offer.weight && other <= offer.other))
			offer = (Offer) {.weight = weight, .other = other, .known = true};
	}
	return offer;
}

static bool
offer_less(const SpanningTree *tree, uint32_t x, uint32_t y)
{
	Offer		a = node_offer(tree, x);
	Offer		b = node_offer(tree, y);

	/* A bound without a neighbour is greater than all edges of the same weight. */
	return edge_less(make_edge(a.weight, a.other == NOBODY ? NOBODY : x, a.other),
					 make_edge(b.weight, b.other == NOBODY ? NOBODY : y, b.other));
}

/* Prepares a component for the next round. */
static void
reset_component(SpanningTree *tree, uint32_t c)
{
	Component  *component = &tree->components[c];

	atomic_store_explicit(&component->limit, INFINITY, memory_order_relaxed);
	atomic_store_explicit(&component->best, NOBODY, memory_order_relaxed);
	atomic_store_explicit(&component->need, 0, memory_order_relaxed);
	atomic_store_explicit(&component->exhausted, false, memory_order_relaxed);
	component->seen = 0;
}

/* Makes each node a component, and replaces distances in the lists by weights, in order. */
static void
prepare(SpanningTree *tree, uint32_t first, uint32_t end)
{
	for (uint32_t x = first; x < end; x++)
	{
		Node	   *node = &tree->nodes[x];
		double	   *weight = tree->weight + (size_t) x * tree->k;
		uint32_t   *neighbor = tree->neighbor + (size_t) x * tree->k;
		uint32_t	length = 0;

		tree->component[x] = x;
		atomic_store_explicit(&tree->parent[x], x, memory_order_relaxed);
		reset_component(tree, x);
		for (uint32_t i = 0; i < node->end; i++)
		{
			uint32_t	y = neighbor[i];
			double		w = fmax(weight[i], fmax(tree->core[x], tree->core[y]));
			uint32_t	j = length;

			if (w == INFINITY)
				continue;
			for (; j > 0 && (weight[j - 1] > w || (weight[j - 1] == w && neighbor[j - 1] > y)); j--)
			{
				weight[j] = weight[j - 1];
				neighbor[j] = neighbor[j - 1];
			}
			weight[j] = w;
			neighbor[j] = y;
			length++;
		}
		node->end = length;
		if (tree->core[x] == INFINITY)
		{
			node->bound = INFINITY;
			node->bound_node = NOBODY;
		}
	}
}

static void
lower_limit(SpanningTree *tree, uint32_t c, double weight)
{
	_Atomic double *limit = &tree->components[c].limit;
	double		old = atomic_load_explicit(limit, memory_order_relaxed);

	while (weight < old && !atomic_compare_exchange_weak(limit, &old, weight))
		;
}

/*
 * Finds the smallest offer of each component.  During this phase, the limit is the smallest weight so
 * far, so that most offers need not be compared.
 */
static void
offer_edges(SpanningTree *tree, uint32_t first, uint32_t end)
{
	for (uint32_t x = first; x < end; x++)
	{
		Node	   *node = &tree->nodes[x];
		const uint32_t *neighbor = tree->neighbor + (size_t) x * tree->k;
		uint32_t	c = tree->component[x];
		_Atomic uint32_t *best = &tree->components[c].best;
		double		weight;
		uint32_t	old;

		while (node->first < node->end && tree->component[neighbor[node->first]] == c)
			node->first++;
		if (node->first == node->end && node->bound == INFINITY)
			continue;
		weight = node_offer(tree, x).weight;
		if (weight > atomic_load_explicit(&tree->components[c].limit, memory_order_relaxed))
			continue;
		lower_limit(tree, c, weight);
		old = atomic_load_explicit(best, memory_order_acquire);
		while (old == NOBODY || offer_less(tree, x, old))
		{
			if (atomic_compare_exchange_weak_explicit(best, &old, x, memory_order_acq_rel,
													  memory_order_acquire))
				break;
		}
	}
}

/* Connects components by their smallest edges. */
static void
connect_components(SpanningTree *tree, uint32_t first, uint32_t end)
{
	TreeEdge	edges[CHUNK];
	uint32_t	count = 0;

	for (uint32_t c = first; c < end; c++)
	{
		uint32_t	x;
		uint32_t	d;
		Offer		offer;

		if (tree->component[c] != c || (x = tree->components[c].best) == NOBODY)
			continue;
		offer = node_offer(tree, x);
		if (!offer.known)
			continue;

		/* If both components choose the same edge, one of them adds it. */
		d = tree->component[offer.other];
		if (c < d && tree->components[d].best == offer.other)
		{
			Offer		mutual = node_offer(tree, offer.other);

			if (mutual.known && mutual.other == x)
				continue;
		}
		tree->parent[c] = d;
		edges[count++] = make_edge(offer.weight, x, offer.other);
	}
	memcpy(tree->edges + atomic_fetch_add(&tree->nedges, count), edges, count * sizeof(TreeEdge));
}

/* Updates the component of each node.  Paths are halved, so that later nodes take fewer steps. */
static void
relabel(SpanningTree *tree, uint32_t first, uint32_t end)
{
	for (uint32_t x = first; x < end; x++)
	{
		uint32_t	c = tree->component[x];
		uint32_t	up;

		while ((up = atomic_load_explicit(&tree->parent[c], memory_order_relaxed)) != c)
		{
			uint32_t	further = atomic_load_explicit(&tree->parent[up], memory_order_relaxed);

			if (further != up)
				atomic_store_explicit(&tree->parent[c], further, memory_order_relaxed);
			c = further;
		}
		tree->component[x] = c;
		if (c == x)
			reset_component(tree, x);
	}
}

static void
end_round(SpanningTree *tree)
{
	tree->connected = tree->nedges > tree->before;
	tree->before = tree->nedges;
}

/* --- choice of the rows to search */

/* Drops list entries within a component, and finds the limit of each component. */
static void
find_limits(SpanningTree *tree, uint32_t first, uint32_t end)
{
	for (uint32_t x = first; x < end; x++)
	{
		Node	   *node = &tree->nodes[x];
		double	   *weight = tree->weight + (size_t) x * tree->k;
		uint32_t   *neighbor = tree->neighbor + (size_t) x * tree->k;
		uint32_t	c = tree->component[x];
		uint32_t	length = 0;

		for (uint32_t i = node->first; i < node->end; i++)
		{
			uint32_t	d = tree->component[neighbor[i]];

			if (d == c)
				continue;
			weight[length] = weight[i];
			neighbor[length++] = neighbor[i];
			lower_limit(tree, d, weight[i]);
		}
		if (length > 0)
			lower_limit(tree, c, weight[0]);
		node->first = 0;
		node->end = length;
	}
}

/* Finds the nodes whose unknown edges may be within the limit. */
static void
find_candidates(SpanningTree *tree, uint32_t first, uint32_t end)
{
	uint32_t	count = 0;

	for (uint32_t x = first; x < end; x++)
	{
		const Node *node = &tree->nodes[x];
		Component  *component = &tree->components[tree->component[x]];
		double		limit = atomic_load_explicit(&component->limit, memory_order_relaxed);

		if (node->bound == INFINITY)
			atomic_store_explicit(&component->exhausted, true, memory_order_relaxed);
		else if (node->bound < limit || (node->bound == limit && node->bound_node != NOBODY))
		{
			atomic_fetch_add_explicit(&component->need, 1, memory_order_relaxed);
			tree->candidates[first + count++] = x;
		}
	}
	tree->found[first / CHUNK] = count;
}

/* Selects among the candidates the rows to search, in the order of nodes. */
static void
choose_rows(SpanningTree *tree)
{
	uint32_t	largest = NOBODY;

	for (uint32_t first = 0, range = 0; range * (uint64_t) CHUNK < tree->n; range++, first += CHUNK)
	{
		for (uint32_t i = 0; i < tree->found[range]; i++)
		{
			uint32_t	c = tree->component[tree->candidates[first + i]];

			if (largest == NOBODY || tree->components[c].need > tree->components[largest].need)
				largest = c;
		}
	}

	tree->count = 0;
	for (uint32_t first = 0, range = 0; range * (uint64_t) CHUNK < tree->n; range++, first += CHUNK)
	{
		for (uint32_t i = 0; i < tree->found[range]; i++)
		{
			uint32_t	x = tree->candidates[first + i];
			uint32_t	c = tree->component[x];
			Component  *component = &tree->components[c];
			uint64_t	seen = component->seen;

			if (c == largest)
				continue;
			if (component->limit == INFINITY && !component->exhausted && component->need > SAMPLE)
			{
				component->seen++;
				if ((seen + 1) * SAMPLE / component->need == seen * SAMPLE / component->need)
					continue;
			}
			tree->candidates[tree->count] = x;
			tree->limits[tree->count++] = component->limit;

			/* This remains the bound unless tree_found is called. */
			tree->nodes[x].bound = component->limit;
			tree->nodes[x].bound_node = NOBODY;
		}
	}
	if (tree->count > 0)
	{
		if (tree->stats.searches < 32)
			tree->stats.components[tree->stats.searches] = tree->n - tree->nedges;
		tree->stats.searches++;
		tree->stats.searched += tree->count;
	}
}

/* --- sorting the edges */

static int
compare_edges(const void *a, const void *b)
{
	return edge_less(*(const TreeEdge *) a, *(const TreeEdge *) b) ? -1 : 1;
}

static void
sort_block(SpanningTree *tree, uint32_t first, uint32_t end)
{
	qsort(tree->edges + first, end - first, sizeof(TreeEdge), compare_edges);
}

/* Merges two sorted parts, the second of which may be empty. */
static void
merge_parts(SpanningTree *tree, uint32_t first, uint32_t end)
{
	const TreeEdge *from = tree->from;
	uint32_t	middle = end - first > tree->width ? first + tree->width : end;
	uint32_t	i = first;
	uint32_t	j = middle;

	for (uint32_t at = first; at < end; at++)
	{
		bool		left = j == end || (i < middle && edge_less(from[i], from[j]));

		tree->to[at] = left ? from[i++] : from[j++];
		if (at % SORT_BLOCK == 0 && tree->stop)
			return;
	}
}

static void
swap_edges(SpanningTree *tree)
{
	TreeEdge   *from = tree->from;

	tree->from = tree->to;
	tree->to = from;
	tree->width = tree->width < tree->nedges - tree->width ? tree->width * 2 : tree->nedges;
	if (tree->width == tree->nedges && tree->from != tree->edges)
		memcpy(tree->edges, tree->from, tree->nedges * sizeof(TreeEdge));
}

static void
begin_merge(SpanningTree *tree)
{
	tree->from = tree->edges;
	tree->to = (TreeEdge *) tree->weight;
	tree->width = SORT_BLOCK;
}

static void
sort_edges(SpanningTree *tree)
{
	run_phase(tree, sort_block, tree->nedges, SORT_BLOCK, begin_merge);
	while (tree->width < tree->nedges && !tree->quit)
		run_phase(tree, merge_parts, tree->nedges, (uint64_t) tree->width * 2, swap_edges);
}

/* --- control */

/* What each thread does. */
static void
advance(void *argument)
{
	SpanningTree *tree = argument;

	if (!tree->prepared)
		run_phase(tree, prepare, tree->n, CHUNK, NULL);
	do
	{
		run_phase(tree, offer_edges, tree->n, CHUNK, NULL);
		run_phase(tree, connect_components, tree->n, CHUNK, end_round);
		run_phase(tree, relabel, tree->n, CHUNK, NULL);
	} while (tree->connected && !tree->quit);
	run_phase(tree, find_limits, tree->n, CHUNK, NULL);
	run_phase(tree, find_candidates, tree->n, CHUNK, choose_rows);
	if (tree->count == 0 && !tree->quit)
		sort_edges(tree);
}

void
tree_advance(SpanningTree *tree)
{
	workers_start(&tree->workers, tree->threads, advance, tree);
}

TreeStatus
tree_wait(SpanningTree *tree, int timeout_ms)
{
	if (!workers_wait(&tree->workers, timeout_ms))
		return TREE_BUSY;
	tree->prepared = true;
	return tree->count > 0 ? TREE_SEARCH : TREE_DONE;
}

TreeSearch
tree_searched(const SpanningTree *tree)
{
	return (TreeSearch) {
		.nodes = tree->candidates,
		.bound = tree->limits,
		.count = tree->count,
		.component = tree->component,
		.core = tree->core
	};
}

void
tree_found(SpanningTree *tree, uint32_t position, FastedNeighbor neighbor)
{
	uint32_t	x = tree->candidates[position];
	Node	   *node = &tree->nodes[x];
	double	   *weight = tree->weight + (size_t) x * tree->k;
	uint32_t   *to = tree->neighbor + (size_t) x * tree->k;

	node->bound = neighbor.dist;
	node->bound_node = neighbor.row;
	if (node->end > 0 && to[0] == neighbor.row)
		return;

	/* Insert it before all others.  An entry that is lost exceeds the bound. */
	if (node->end < tree->k)
		node->end++;
	memmove(weight + 1, weight, (node->end - 1) * sizeof(*weight));
	memmove(to + 1, to, (node->end - 1) * sizeof(*to));
	weight[0] = neighbor.dist;
	to[0] = neighbor.row;
}

const TreeEdge *
tree_edges(const SpanningTree *tree, uint32_t *count)
{
	*count = tree->nedges;
	return tree->edges;
}

const double *
tree_core_distances(const SpanningTree *tree)
{
	return tree->core;
}

TreeStats
tree_stats(const SpanningTree *tree)
{
	return tree->stats;
}

void
tree_trim(SpanningTree *tree)
{
	free(tree->work);
	tree->work = NULL;
}

void
tree_free(SpanningTree *tree)
{
	if (tree == NULL)
		return;
	tree->stop = true;
	workers_destroy(&tree->workers);
	free(tree->results);
	free(tree->work);
	free(tree);
}
