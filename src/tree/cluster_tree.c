/*-------------------------------------------------------------------------
 *
 * cluster_tree.c
 *	  Single-linkage dendrogram, condensed tree, and selection of clusters (cluster_tree.h).
 *
 * A vertex of the dendrogram is a node, numbered 0 to n - 1, or the union of two vertices by edge
 * i, numbered n + i.  Edges are processed from the heaviest one on, so that a vertex comes before its
 * children.  If both children of a vertex have at least min_cluster_size nodes, its cluster is split
 * into two child clusters, with consecutive numbers greater than its own.  If only one child has, it
 * continues the cluster, and the nodes of the other child leave the cluster at this edge.  If no child
 * has, all nodes leave.  Lambda is the inverse of a weight.  A cluster extends from the lambda of the
 * edge that splits its parent to that of the last edge at which nodes leave it or it is split.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "cluster_tree.h"

#define NONE UINT32_MAX

/* How many edges ahead of their use the sets of nodes are fetched into the cache. */
#define FETCH_AHEAD 8

/* The caller's function is called once in this number of steps. */
#define CHECK_STEPS 65536

/* Disjoint sets of nodes; the last two fields are those of the representative. */
typedef struct Set
{
	uint32_t	parent;
	uint32_t	size;
	uint32_t	vertex;
} Set;

/* The two children of a vertex of the dendrogram, and their numbers of nodes. */
typedef struct Union
{
	uint32_t	child[2];
	uint32_t	size[2];
} Union;

/* Where a vertex of the dendrogram is in the condensed tree. */
typedef struct Vertex
{
	uint32_t	cluster;		/* the smallest cluster that contains it; NONE: not known yet */
	uint32_t	left_at;		/* the edge at which it leaves the cluster, or NONE */
} Vertex;

typedef struct Cluster
{
	uint32_t	parent;			/* NONE: root of a tree */
	uint32_t	children;		/* the first of two, or NONE */
	uint32_t	size;			/* number of nodes; root: number of nodes of its children */
	uint32_t	root;
	uint32_t	nselected;		/* root: number of selected clusters in its tree */
	uint32_t	owner;			/* the selected cluster that its nodes belong to, or NONE */
	int32_t		number;			/* number in the result, or -1 */
	bool		selected;
	bool		target;			/* it replaces selected clusters that are split below epsilon */
	double		weight;			/* of the edge that splits the parent; infinite: root */
	double		stability;		/* excess of mass, or that of the best selection of descendants */
	double		death;			/* largest lambda at which nodes leave or the cluster is split */
	double		last_weight;	/* of this edge */
	double		deepest;		/* largest death of the cluster and its descendants */
} Cluster;

typedef struct ClusterTree
{
	const TreeEdge *edges;
	uint32_t	nedges;
	uint32_t	n;
	const ClusterParameters *parameters;
	void		(*check) (void);

	Cluster    *clusters;
	uint32_t	nclusters;
	Union	   *unions;			/* by edge */
	Vertex	   *vertices;
	Set		   *sets;
} ClusterTree;

/* Calls the caller's function from time to time.  `step` counts the steps of a loop. */
static inline void
check(const ClusterTree *tree, uint32_t step)
{
	if (step % CHECK_STEPS == 0)
		tree->check();
}

static inline double
lambda_of(double weight)
{
	return weight > 0.0 ? 1.0 / weight : INFINITY;
}

static inline uint32_t
find_set(Set *sets, uint32_t x)
{
	while (sets[x].parent != x)
		x = sets[x].parent = sets[sets[x].parent].parent;
	return x;
}

/* Computes the dendrogram. */
static void
make_dendrogram(ClusterTree *tree)
{
	const TreeEdge *edges = tree->edges;
	Set		   *sets = tree->sets;

	for (uint32_t x = 0; x < tree->n; x++)
	{
		check(tree, x);
		sets[x] = (Set) {.parent = x, .size = 1, .vertex = x};
	}
	for (uint32_t unions = 0; unions < tree->nedges; unions++)
	{
		Union	   *joined = &tree->unions[unions];
		uint32_t	a;
		uint32_t	b;
		uint32_t	larger;

		check(tree, unions);
		if (unions + FETCH_AHEAD < tree->nedges)
		{
			__builtin_prefetch(&sets[edges[unions + FETCH_AHEAD].a]);
			__builtin_prefetch(&sets[edges[unions + FETCH_AHEAD].b]);
		}
		a = find_set(sets, edges[unions].a);
		b = find_set(sets, edges[unions].b);
		*joined = (Union) {
			.child = {sets[a].vertex, sets[b].vertex},
			.size = {sets[a].size, sets[b].size}
		};
		larger = sets[a].size < sets[b].size ? b : a;
		sets[a].parent = sets[b].parent = larger;
		sets[larger].size = joined->size[0] + joined->size[1];
		sets[larger].vertex = tree->n + unions;
	}
}

static uint32_t
add_cluster(ClusterTree *tree, uint32_t parent, uint32_t size, double weight)
{
	uint32_t	c = tree->nclusters++;

	tree->clusters[c] = (Cluster) {
		.parent = parent,
		.children = NONE,
		.size = size,
		.root = parent == NONE ? c : tree->clusters[parent].root,
		.number = -1,
		.weight = weight
	};
	return c;
}

/* Computes the clusters and, for each node, its cluster and the edge at which it leaves that. */
static void
condense(ClusterTree *tree)
{
	uint32_t	smallest = tree->parameters->min_cluster_size;

	for (uint32_t v = 0; v < tree->n + tree->nedges; v++)
	{
		check(tree, v);
		tree->vertices[v] = (Vertex) {.cluster = NONE, .left_at = NONE};
	}
	for (uint32_t i = tree->nedges; i-- > 0;)
	{
		Union		joined = tree->unions[i];
		Vertex		vertex = tree->vertices[tree->n + i];
		double		weight = tree->edges[i].weight;
		double		lambda = lambda_of(weight);
		bool		split = joined.size[0] >= smallest && joined.size[1] >= smallest;
		Cluster    *cluster;

		check(tree, i);
		if (vertex.cluster == NONE)
			vertex.cluster = add_cluster(tree, NONE, 0, INFINITY);
		cluster = &tree->clusters[vertex.cluster];
		if (vertex.left_at == NONE)
		{
			cluster->death = lambda;
			cluster->last_weight = weight;
			if (split)
			{
				cluster->children = tree->nclusters;
				if (cluster->parent == NONE)
					cluster->size = joined.size[0] + joined.size[1];
			}
		}
		for (int side = 0; side < 2; side++)
		{
			Vertex	   *child = &tree->vertices[joined.child[side]];

			*child = vertex;
			if (vertex.left_at != NONE)
				continue;
			if (split)
				child->cluster = add_cluster(tree, vertex.cluster, joined.size[side], weight);
			else if (joined.size[side] < smallest)
				child->left_at = i;
			if (split || joined.size[side] < smallest)
				cluster->stability += (lambda - lambda_of(cluster->weight)) * joined.size[side];
		}
	}
}

/* Selects a cluster rather than its descendants if its excess of mass is not less than theirs. */
static void
select_by_mass(ClusterTree *tree)
{
	Cluster    *clusters = tree->clusters;
	uint32_t	largest = tree->parameters->max_cluster_size;

	for (uint32_t c = tree->nclusters; c-- > 0;)
	{
		Cluster    *cluster = &clusters[c];
		uint32_t	child = cluster->children;
		double		below = child == NONE ? 0.0 : clusters[child].stability + clusters[child + 1].stability;

		check(tree, c);
		if (cluster->parent == NONE && !tree->parameters->allow_single_cluster)
			continue;
		if (below > cluster->stability || (largest > 0 && cluster->size > largest))
			cluster->stability = below;
		else
			cluster->selected = true;
	}

	/* Of clusters within one another, the largest one remains selected. */
	for (uint32_t c = 0; c < tree->nclusters; c++)
	{
		Cluster    *cluster = &clusters[c];

		check(tree, c);
		cluster->owner = cluster->parent == NONE ? NONE : clusters[cluster->parent].owner;
		cluster->selected = cluster->selected && cluster->owner == NONE;
		if (cluster->selected)
			cluster->owner = c;
	}
}

/*
 * Replaces each selected cluster that was split from its parent below epsilon by its smallest
 * ancestor that was not.  The root counts only if it may be a cluster; otherwise the largest ancestor
 * below the root is taken.
 */
static void
apply_epsilon(ClusterTree *tree)
{
	Cluster    *clusters = tree->clusters;
	double		epsilon = tree->parameters->epsilon;

	for (uint32_t c = 0; c < tree->nclusters; c++)
	{
		Cluster    *cluster = &clusters[c];
		uint32_t	parent = cluster->parent;

		check(tree, c);
		/* For the time being, the owner is the replacement. */
		if (parent == NONE)
			cluster->owner = c;
		else if (clusters[parent].parent == NONE)
			cluster->owner = tree->parameters->allow_single_cluster ? parent : c;
		else
			cluster->owner = clusters[parent].weight > epsilon ? parent : clusters[parent].owner;
		if (cluster->selected)
			clusters[cluster->weight < epsilon ? cluster->owner : c].target = true;
	}
	for (uint32_t c = 0; c < tree->nclusters; c++)
	{
		check(tree, c);
		clusters[c].selected = clusters[c].target;
	}
}

/* Selects each cluster without children.  A root counts only if it may be a cluster. */
static void
select_leaves(ClusterTree *tree)
{
	for (uint32_t c = 0; c < tree->nclusters; c++)
	{
		Cluster    *cluster = &tree->clusters[c];

		check(tree, c);
		cluster->selected = cluster->children == NONE &&
			(cluster->parent != NONE || tree->parameters->allow_single_cluster);
	}
}

static void
select_clusters(ClusterTree *tree)
{
	Cluster    *clusters = tree->clusters;

	if (tree->parameters->leaf)
		select_leaves(tree);
	else
		select_by_mass(tree);
	if (tree->parameters->epsilon > 0.0)
		apply_epsilon(tree);
	for (uint32_t c = 0; c < tree->nclusters; c++)
	{
		uint32_t	parent = clusters[c].parent;

		check(tree, c);
		clusters[clusters[c].root].nselected += clusters[c].selected;
		clusters[c].owner = clusters[c].selected ? c : parent == NONE ? NONE : clusters[parent].owner;
	}
	for (uint32_t c = tree->nclusters; c-- > 0;)
	{
		Cluster    *parent = clusters[c].parent == NONE ? NULL : &clusters[clusters[c].parent];

		check(tree, c);
		clusters[c].deepest = fmax(clusters[c].deepest, clusters[c].death);
		if (parent != NULL)
			parent->deepest = fmax(parent->deepest, clusters[c].deepest);
	}
}

/*
 * Returns the largest weight at which nodes belong to a selected cluster.  Those of a root do if they
 * leave it as late as possible, or within epsilon, and if no other cluster is selected.
 */
static double
birth_weight(const ClusterTree *tree, const Cluster *cluster)
{
	if (cluster->parent != NONE)
		return cluster->weight;
	if (cluster->nselected > 1)
		return -INFINITY;
	return tree->parameters->epsilon > 0.0 ? tree->parameters->epsilon : cluster->last_weight;
}

static void
label_nodes(ClusterTree *tree, ClusterLabel *labels)
{
	int32_t		numbers = 0;

	for (uint32_t x = 0; x < tree->n; x++)
	{
		Vertex		vertex = tree->vertices[x];
		ClusterLabel *label = &labels[x];
		Cluster    *cluster;
		double		weight;
		double		lambda;

		check(tree, x);
		*label = (ClusterLabel) {.cluster = -1};
		if (vertex.cluster == NONE)
			continue;
		cluster = &tree->clusters[vertex.cluster];
		weight = tree->edges[vertex.left_at].weight;
		lambda = lambda_of(weight);

		/* If the largest lambda is infinite, the score is the limit of (largest - lambda) / largest. */
		if (!isinf(lambda))
			label->outlier_score = isinf(cluster->deepest) ? 1.0 :
				(cluster->deepest - lambda) / cluster->deepest;
		if (cluster->owner == NONE)
			continue;
		cluster = &tree->clusters[cluster->owner];
		if (weight > birth_weight(tree, cluster))
			continue;
		if (cluster->number < 0)
			cluster->number = numbers++;
		label->cluster = cluster->number;
		label->probability = isinf(lambda) ? 1.0 : fmin(lambda, cluster->death) / cluster->death;
		label->birth_distance = birth_weight(tree, cluster);
		label->death_distance = cluster->last_weight;
	}
}

uint64_t
clusters_bytes(uint32_t n)
{
	/* There are at most n clusters: n / 2 without children, and fewer with two. */
	return n * (uint64_t) (sizeof(Cluster) + sizeof(Union) + 2 * sizeof(Vertex) + sizeof(Set));
}

void
find_clusters(const TreeEdge *edges, uint32_t nedges, uint32_t n, const ClusterParameters *parameters,
			  ClusterLabel *labels, void *memory, void (*check) (void))
{
	ClusterTree tree = {.edges = edges, .nedges = nedges, .n = n, .parameters = parameters, .check = check};

	tree.clusters = memory;
	tree.unions = (Union *) (tree.clusters + n);
	tree.vertices = (Vertex *) (tree.unions + n);
	tree.sets = (Set *) (tree.vertices + 2 * (size_t) n);
	make_dendrogram(&tree);
	condense(&tree);
	select_clusters(&tree);
	label_nodes(&tree, labels);
}
