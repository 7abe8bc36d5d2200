/*-------------------------------------------------------------------------
 *
 * spanning_tree.c
 *	  Boruvka's algorithm on lists of nearest neighbours (spanning_tree.h).
 *
 * Each node has a list of known edges and a bound, a pair (weight, neighbour).  Each edge of the node to
 * another component is known or is greater than the bound.  A full list sets the bound to its last
 * entry, because a weight is not less than the distance.  A search sets the bound to the edge that it
 * found, which is the node's smallest edge to another component; if nothing was found, to (limit of the
 * search, NOBODY), which is greater than all edges at the limit.  The bound of a copy (tree_add_copy) is
 * infinite: a node with the same edges, all of which are smaller, is in the same component.  Lists are
 * sorted by weight; the first entry that is not internal is the smallest known edge.
 *
 * A node offers its component its smallest known edge to another component, if that does not exceed
 * its bound, and its bound otherwise.  If the smallest offer is an edge, all other edges of the
 * component to other components are greater, so that this edge connects the component.  As edges are
 * totally ordered, the connections of a round form cycles only if two components choose the same
 * edge.  Offers never decrease.  An offer is therefore computed again only if its edge has become
 * internal to the component, and if it is not greater than another offer of the component.
 *
 * If all components offer bounds, rows have to be searched.  The limit of a component is the
 * smallest weight of a known edge that leaves or enters it.  The nodes whose offers are bounds within
 * the limit are searched up to the limit.  Then the component can be connected, because the edge with
 * that weight is known at its end in the component or is greater than the bound there.  Without a
 * known edge there is no limit.  Then a sample of the nodes is searched first, and all nodes only if
 * the sample has no edge.
 *
 * The component that needs most rows is not searched.  All others are connected or turn out to have
 * no edge.  If only one component has nodes whose edges may be unknown, the forest is complete: an
 * edge of this component would be known at its other end.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../cpu/store/memory.h"
#include "spanning_tree.h"

#define CHUNK 1024				/* number of nodes in a range */
#define SORT_BLOCK 32768		/* number of edges that qsort sorts */
#define SAMPLE 8				/* number of nodes to search in a component without a known edge */
#define FETCH_AHEAD 4			/* number of nodes */
#define NOBODY UINT32_MAX
#define MAX_THREADS 256

typedef struct Node
{
	double		weight;			/* the offer, or a smaller edge that has become internal */
	uint32_t	other;
	uint32_t	bound_node;
	double		bound;			/* infinite: all edges are known */
	uint32_t	first;			/* entries of the list before this one are internal */
	uint32_t	end : 29;
	uint32_t	copy : 1;		/* unknown edges are ignored (tree_add_copy) */
	uint32_t	known : 1;		/* the offer is an edge, not a bound */
	uint32_t	found : 1;		/* the bound is an edge, which a search found */
} Node;

/* The state of a component, stored at the node that represents it. */
typedef struct Component
{
	_Atomic double limit;		/* smallest weight of an offer in a round, or of a known edge */
	_Atomic uint32_t best;		/* node with the smallest offer, or NOBODY */
	uint32_t	need;			/* number of nodes to search */
	uint32_t	seen;			/* how many of them have been considered for a sample */
	bool		exhausted;		/* all edges of a node are known */
} Component;

static const Component no_offer = {.limit = INFINITY, .best = NOBODY};

struct SpanningTree
{
	uint32_t	n;
	uint32_t	k;
	uint32_t	min_samples;
	int			threads;		/* to start */
	TreeStats	stats;

	TreeEdge   *edges;
	_Atomic uint32_t nedges;

	MemoryCount memory;
	void	   *work;			/* memory of the other arrays */
	double	   *weight;			/* k list entries per node; at first the distances, in their order */
	uint32_t   *neighbor;
	double	   *core;
	Node	   *nodes;
	Component  *components;
	uint32_t   *component;
	_Atomic uint32_t *parent;	/* by component: the component that it was connected to, or itself */
	uint32_t   *searched;		/* rows to search, and their limits */
	double	   *limits;
	uint32_t	count;			/* number of rows to search */
	uint32_t	before;			/* number of edges before this round */
	bool		has_weights;	/* lists are sorted by weight */
	bool		connected;		/* the round added edges */
	TreeEdge   *from;			/* the edges being merged, and where to */
	TreeEdge   *to;
	uint64_t	width;			/* number of edges in each sorted part of them */

	pthread_mutex_t lock;
	pthread_cond_t changed;		/* signalled when a thread has ended, or all have passed a barrier */
	pthread_t	thread[MAX_THREADS];
	int			started;		/* number of threads that have not been joined */
	int			running;		/* number of threads that have not ended */
	int			members;		/* number of threads that advance, at least 1; 0: not known yet */
	int			arrived;		/* number of threads at the barrier */
	uint32_t	barriers;		/* number of barriers passed */
	_Atomic uint64_t next;		/* start of the next range of the phase */
	_Atomic bool stop;
	bool		quit;			/* the same, as seen by all threads after a barrier */
};

/* A phase processes nodes or edges from first to end - 1. */
typedef void (*Phase) (SpanningTree *tree, uint32_t first, uint32_t end);

/* --- memory */

/* Places an array at the end of a block of *size bytes, and returns its address. */
static void *
place(char *block, uint64_t *size, uint64_t count, size_t element)
{
	uint64_t	at = *size;

	*size = (at + count * element + 63) / 64 * 64;
	return block + at;
}

static uint64_t
place_work(SpanningTree *tree, char *block)
{
	uint64_t	n = tree->n;
	uint64_t	size = 0;

	/* merge_parts needs two weights per node */
	tree->weight = place(block, &size, n * (tree->k < 2 ? 2 : tree->k), sizeof(double));
	tree->neighbor = place(block, &size, n * tree->k, sizeof(uint32_t));
	tree->core = place(block, &size, n, sizeof(double));
	tree->nodes = place(block, &size, n, sizeof(Node));
	tree->components = place(block, &size, n, sizeof(Component));
	tree->component = place(block, &size, n, sizeof(uint32_t));
	tree->parent = place(block, &size, n, sizeof(uint32_t));
	tree->searched = place(block, &size, n, sizeof(uint32_t));
	tree->limits = place(block, &size, n, sizeof(double));
	return size;
}

uint64_t
tree_bytes(uint32_t n, uint32_t k)
{
	SpanningTree tree = {.n = n, .k = k};

	return sizeof(tree) + n * (uint64_t) sizeof(TreeEdge) + place_work(&tree, NULL);
}

SpanningTree *
tree_create(uint32_t n, uint32_t k, uint32_t min_samples, int threads)
{
	SpanningTree *tree = calloc(1, sizeof(*tree));
	int			ranges = (int) (n / CHUNK + 1);
	pthread_condattr_t monotonic;

	if (tree == NULL)
		return NULL;
	tree->n = n;
	tree->k = k;
	tree->min_samples = min_samples;
	tree->threads = threads < ranges ? threads : ranges;
	if (tree->threads > MAX_THREADS)
		tree->threads = MAX_THREADS;
	tree->stats.bytes = tree_bytes(n, k);
	pthread_mutex_init(&tree->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&tree->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	tree->edges = fasted_cpu_map(n * sizeof(TreeEdge), &tree->memory);
	tree->work = fasted_cpu_map(place_work(tree, NULL), &tree->memory);
	if (tree->edges == NULL || tree->work == NULL)
	{
		tree_free(tree);
		return NULL;
	}
	(void) place_work(tree, tree->work);
	tree->from = tree->edges;
	tree->to = (TreeEdge *) tree->weight;
	return tree;
}

void
tree_add_list(SpanningTree *tree, uint32_t node, const FastedNeighbor *neighbors, uint32_t length)
{
	size_t		base = (size_t) node * tree->k;
	uint32_t	others = tree->min_samples - 1;

	for (uint32_t i = 0; i < length; i++)
	{
		tree->weight[base + i] = neighbors[i].dist;
		tree->neighbor[base + i] = neighbors[i].row;
	}
	if (others == 0)
		tree->core[node] = -INFINITY;
	else
		tree->core[node] = others <= length ? neighbors[others - 1].dist : INFINITY;

	tree->nodes[node].end = length;
}

void
tree_add_copy(SpanningTree *tree, uint32_t node)
{
	tree->nodes[node].copy = true;
}

/* --- threads */

/*
 * Executes a phase for `total` nodes or edges in ranges of `width`, and waits for all threads, the last of
 * which executes a sequential step, if any.
 */
static void
run_phase(SpanningTree *tree, Phase phase, uint32_t total, uint64_t width,
		  void (*step) (SpanningTree *tree))
{
	uint64_t	first;
	uint32_t	barrier;

	while (!tree->stop && (first = atomic_fetch_add(&tree->next, width)) < total)
		phase(tree, (uint32_t) first, first + width < total ? (uint32_t) (first + width) : total);
	pthread_mutex_lock(&tree->lock);
	barrier = tree->barriers;
	if (++tree->arrived == tree->members)
	{
		tree->quit = tree->stop;
		if (step != NULL && !tree->quit)
			step(tree);
		tree->next = 0;
		tree->arrived = 0;
		tree->barriers++;
		pthread_cond_broadcast(&tree->changed);
	}
	while (barrier == tree->barriers)
		pthread_cond_wait(&tree->changed, &tree->lock);
	pthread_mutex_unlock(&tree->lock);
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

/* Returns whether the offer of node x is less than that of y. */
static bool
offer_less(const SpanningTree *tree, uint32_t x, uint32_t y)
{
	const Node *a = &tree->nodes[x];
	const Node *b = &tree->nodes[y];

	/* A bound without a neighbour is greater than all edges of the same weight. */
	return edge_less(make_edge(a->weight, a->other == NOBODY ? NOBODY : x, a->other),
					 make_edge(b->weight, b->other == NOBODY ? NOBODY : y, b->other));
}

/* Replaces distances by weights and sorts the finite ones by (weight, neighbour).  Returns their number. */
static uint32_t
weigh_list(const SpanningTree *tree, uint32_t x, uint32_t length)
{
	double	   *weight = tree->weight + (size_t) x * tree->k;
	uint32_t   *neighbor = tree->neighbor + (size_t) x * tree->k;
	double		core = tree->core[x];
	uint32_t	end = 0;

	for (uint32_t i = 0; i < length; i++)
	{
		uint32_t	y = neighbor[i];
		double		w = weight[i] > core ? weight[i] : core;
		uint32_t	at = end;

		w = tree->core[y] > w ? tree->core[y] : w;
		if (w == INFINITY)
			continue;
		for (; at > 0 && (weight[at - 1] > w || (weight[at - 1] == w && neighbor[at - 1] > y)); at--)
		{
			weight[at] = weight[at - 1];
			neighbor[at] = neighbor[at - 1];
		}
		weight[at] = w;
		neighbor[at] = y;
		end++;
	}
	return end;
}

/* Initializes nodes, when the core distances of all of them are known. */
static void
weigh_lists(SpanningTree *tree, uint32_t first, uint32_t end)
{
	for (uint32_t x = first; x < end; x++)
	{
		Node	   *node = &tree->nodes[x];
		uint32_t	length = node->end;
		size_t		base = (size_t) x * tree->k;

		/* A list of n - 1 neighbours has all edges although it is full. */
		bool		full = length == tree->k && length + 1 < tree->n && !node->copy;

		for (uint32_t i = 0; x + FETCH_AHEAD < end && i < tree->k; i++)
			__builtin_prefetch(&tree->core[tree->neighbor[base + FETCH_AHEAD * tree->k + i]]);

		/* The first round computes the offer: an edge from the node to itself is internal. */
		*node = (Node) {
			.weight = -INFINITY,
			.other = x,
			.copy = node->copy,
			.known = true,
			.bound = full ? tree->weight[base + length - 1] : INFINITY,
			.bound_node = full ? tree->neighbor[base + length - 1] : NOBODY
		};
		node->end = weigh_list(tree, x, length);
		tree->component[x] = x;
		tree->parent[x] = x;
		tree->components[x] = no_offer;
	}
}

/* Fetches into the cache the components of a node's neighbours. */
static void
fetch_list(const SpanningTree *tree, uint32_t x)
{
	for (uint32_t i = tree->nodes[x].first; i < tree->nodes[x].end; i++)
		__builtin_prefetch(&tree->component[tree->neighbor[(size_t) x * tree->k + i]]);
}

/* Computes the offer of a node. */
static void
find_offer(SpanningTree *tree, uint32_t x)
{
	Node	   *node = &tree->nodes[x];
	const double *weight = tree->weight + (size_t) x * tree->k;
	const uint32_t *neighbor = tree->neighbor + (size_t) x * tree->k;
	uint32_t	c = tree->component[x];
	uint32_t	i = node->first;

	while (i < node->end && tree->component[neighbor[i]] == c)
		i++;
	node->first = i;
	node->weight = node->bound;
	node->other = node->bound_node;
	node->known = node->found && tree->component[node->other] != c;
	if (i < node->end && (weight[i] < node->bound ||
						  (weight[i] == node->bound && neighbor[i] <= node->bound_node)))
	{
		node->weight = weight[i];
		node->other = neighbor[i];
		node->known = true;
	}
}

static void
lower_limit(Component *component, double weight)
{
	double		old = component->limit;

	while (weight < old && !atomic_compare_exchange_weak(&component->limit, &old, weight))
		;
}

/* Finds the smallest offer of each component.  The limit is the smallest weight so far. */
static void
offer_edges(SpanningTree *tree, uint32_t first, uint32_t end)
{
	uint32_t	stale[CHUNK];
	uint32_t	count = 0;

	for (uint32_t x = first; x < end; x++)
	{
		const Node *node = &tree->nodes[x];
		uint32_t	c = tree->component[x];

		if (node->known && node->weight <= tree->components[c].limit &&
			tree->component[node->other] == c)
			stale[count++] = x;
	}
	for (uint32_t i = 0; i < count; i++)
	{
		if (i + FETCH_AHEAD < count)
			fetch_list(tree, stale[i + FETCH_AHEAD]);
		find_offer(tree, stale[i]);
	}
	for (uint32_t x = first; x < end; x++)
	{
		double		weight = tree->nodes[x].weight;
		Component  *component = &tree->components[tree->component[x]];
		uint32_t	old = component->best;

		if (weight == INFINITY || weight > component->limit)
			continue;
		lower_limit(component, weight);
		while ((old == NOBODY || offer_less(tree, x, old)) &&
			   !atomic_compare_exchange_weak(&component->best, &old, x))
			;
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
		uint32_t	x = tree->components[c].best;
		const Node *node;
		const Node *mutual;
		uint32_t	d;

		if (tree->component[c] != c || x == NOBODY || !tree->nodes[x].known)
			continue;
		node = &tree->nodes[x];
		mutual = &tree->nodes[node->other];
		d = tree->component[node->other];

		/* If both components choose the same edge, one of them adds it. */
		if (c < d && tree->components[d].best == node->other && mutual->known && mutual->other == x)
			continue;
		tree->parent[c] = d;
		edges[count++] = make_edge(node->weight, x, node->other);
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

		while ((up = tree->parent[c]) != c)
		{
			uint32_t	further = tree->parent[up];

			if (further != up)
				tree->parent[c] = further;
			c = further;
		}
		tree->component[x] = c;
		if (c == x)
			tree->components[x] = no_offer;
	}
}

static void
end_round(SpanningTree *tree)
{
	tree->connected = tree->nedges > tree->before;
	tree->before = tree->nedges;
}

/* --- choice of the rows to search */

/* Finds the limit of each component and the offer of each node, and drops internal edges. */
static void
find_limits(SpanningTree *tree, uint32_t first, uint32_t end)
{
	for (uint32_t x = first; x < end; x++)
	{
		Node	   *node = &tree->nodes[x];
		size_t		base = (size_t) x * tree->k;
		size_t		to = base;
		const uint32_t *of = tree->component;
		Component  *component = &tree->components[of[x]];

		if (x + FETCH_AHEAD < end)
			fetch_list(tree, x + FETCH_AHEAD);
		for (size_t at = base + node->first; at < base + node->end; at++)
		{
			uint32_t	y = tree->neighbor[at];

			if (of[y] == of[x])
				continue;
			lower_limit(component, tree->weight[at]);
			lower_limit(&tree->components[of[y]], tree->weight[at]);
			tree->weight[to] = tree->weight[at];
			tree->neighbor[to++] = y;
		}
		node->first = 0;
		node->end = to - base;
		find_offer(tree, x);
		if (node->known)
		{
			lower_limit(component, node->weight);
			lower_limit(&tree->components[of[node->other]], node->weight);
		}
	}
}

/* Returns whether a node may have an unknown edge within the limit of its component. */
static bool
is_candidate(const Node *node, const Component *component)
{
	return !node->known && node->bound < INFINITY &&
		(node->bound < component->limit ||
		 (node->bound == component->limit && node->bound_node != NOBODY));
}

/* Selects the rows to search, in the order of nodes, except those of the largest component. */
static void
choose_rows(SpanningTree *tree)
{
	Component  *largest = tree->components;
	uint32_t	candidates = 0;

	for (uint32_t x = 0; x < tree->n; x++)
	{
		Component  *component = &tree->components[tree->component[x]];

		component->exhausted = component->exhausted ||
			(tree->nodes[x].bound == INFINITY && !tree->nodes[x].copy);
		if (!is_candidate(&tree->nodes[x], component))
			continue;
		tree->searched[candidates++] = x;
		if (++component->need > largest->need)
			largest = component;
	}
	tree->count = 0;
	for (uint32_t i = 0; i < candidates; i++)
	{
		uint32_t	x = tree->searched[i];
		Node	   *node = &tree->nodes[x];
		Component  *component = &tree->components[tree->component[x]];

		if (component == largest)
			continue;
		if (component->limit == INFINITY && !component->exhausted && component->need > SAMPLE &&
			component->seen++ % (component->need / SAMPLE) > 0)
			continue;
		tree->searched[tree->count] = x;
		tree->limits[tree->count++] = component->limit;

		/* This remains the bound and the offer unless tree_found is called. */
		node->bound = node->weight = component->limit;
		node->bound_node = node->other = NOBODY;
		node->found = false;
	}
	if (tree->count > 0 && tree->stats.searches < 32)
		tree->stats.components[tree->stats.searches] = tree->n - tree->nedges;
	tree->stats.searches += tree->count > 0;
	tree->stats.searched += tree->count;

	/* Otherwise the edges are sorted.  An even number of merges returns them to their place. */
	for (tree->width = tree->nedges; tree->width > SORT_BLOCK;)
		tree->width = (tree->width + 3) / 4;
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
	tree->width *= 2;
}

/* --- control */

/* What the threads do together. */
static void
advance(SpanningTree *tree)
{
	if (!tree->has_weights)
		run_phase(tree, weigh_lists, tree->n, CHUNK, NULL);
	do
	{
		run_phase(tree, offer_edges, tree->n, CHUNK, NULL);
		run_phase(tree, connect_components, tree->n, CHUNK, end_round);
		run_phase(tree, relabel, tree->n, CHUNK, NULL);
	} while (tree->connected && !tree->quit);
	run_phase(tree, find_limits, tree->n, CHUNK, choose_rows);
	if (tree->count > 0 || tree->quit)
		return;
	run_phase(tree, sort_block, tree->nedges, tree->width, NULL);
	while (tree->width < tree->nedges && !tree->quit)
		run_phase(tree, merge_parts, tree->nedges, tree->width * 2, swap_edges);
}

static void *
thread_main(void *argument)
{
	SpanningTree *tree = argument;

	/* The number of threads must be known before the work begins. */
	pthread_mutex_lock(&tree->lock);
	while (tree->members == 0)
		pthread_cond_wait(&tree->changed, &tree->lock);
	pthread_mutex_unlock(&tree->lock);
	advance(tree);
	pthread_mutex_lock(&tree->lock);
	tree->running--;
	pthread_cond_broadcast(&tree->changed);
	pthread_mutex_unlock(&tree->lock);
	return NULL;
}

void
tree_advance(SpanningTree *tree)
{
	int			started = 0;

	tree->members = 0;
	while (started < tree->threads &&
		   fasted_start_thread(&tree->thread[started], 0, thread_main, tree))
		started++;
	pthread_mutex_lock(&tree->lock);
	tree->started = tree->running = started;
	tree->members = started > 0 ? started : 1;
	pthread_cond_broadcast(&tree->changed);
	pthread_mutex_unlock(&tree->lock);
	if (started == 0)
		advance(tree);
}

static void
join_threads(SpanningTree *tree)
{
	while (tree->started > 0)
		pthread_join(tree->thread[--tree->started], NULL);
}

TreeStatus
tree_wait(SpanningTree *tree, int timeout_ms)
{
	struct timespec deadline = fasted_deadline(timeout_ms);
	bool		running;

	pthread_mutex_lock(&tree->lock);
	while (tree->running > 0 && pthread_cond_timedwait(&tree->changed, &tree->lock, &deadline) == 0)
		;
	running = tree->running > 0;
	pthread_mutex_unlock(&tree->lock);
	if (running)
		return TREE_BUSY;
	join_threads(tree);
	tree->has_weights = true;
	return tree->count > 0 ? TREE_SEARCH : TREE_DONE;
}

TreeSearch
tree_searched(const SpanningTree *tree)
{
	return (TreeSearch) {
		.nodes = tree->searched,
		.bound = tree->limits,
		.count = tree->count,
		.component = tree->component,
		.core = tree->core
	};
}

void
tree_found(SpanningTree *tree, uint32_t position, FastedNeighbor neighbor)
{
	Node	   *node = &tree->nodes[tree->searched[position]];

	node->bound = node->weight = neighbor.dist;
	node->bound_node = node->other = neighbor.row;
	node->known = node->found = true;
}

const TreeEdge *
tree_edges(const SpanningTree *tree, uint32_t *count)
{
	*count = tree->nedges;
	return tree->edges;
}

TreeStats
tree_stats(const SpanningTree *tree)
{
	return tree->stats;
}

void
tree_trim(SpanningTree *tree)
{
	fasted_cpu_unmap(tree->work, place_work(tree, NULL), &tree->memory);
	tree->work = NULL;
}

void
tree_free(SpanningTree *tree)
{
	if (tree == NULL)
		return;
	tree->stop = true;
	join_threads(tree);
	pthread_cond_destroy(&tree->changed);
	pthread_mutex_destroy(&tree->lock);
	tree_trim(tree);
	fasted_cpu_unmap(tree->edges, tree->n * sizeof(TreeEdge), &tree->memory);
	free(tree);
}
