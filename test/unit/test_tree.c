/*-------------------------------------------------------------------------
 *
 * test_tree.c
 *	  Minimum spanning trees against Prim's algorithm, and clusters against expected ones.
 *
 * Prim's algorithm computes all distances in FP64 and orders edges as the tree does, so that the
 * edges must be equal.  The searches are answered from the same distances.  tree_clusters.h has
 * labels that scikit-learn and hdbscan have computed (tree_clusters.py).
 *
 *-------------------------------------------------------------------------
 */
#include <stdatomic.h>
#include <string.h>

#include "../../src/tree/cluster_tree.h"
#include "../../src/tree/workers.h"
#include "tap.h"
#include "tree_clusters.h"

#define MOST_DIMENSIONS 8
#define MOST_NEIGHBORS 64
#define MOST_ROWS 1500

typedef struct Data
{
	uint32_t	n;
	uint32_t	dimensions;
	uint32_t	partitions;		/* row x belongs to partition x % partitions */
	double	   *rows;
	FastedNeighbor *lists;		/* the nearest neighbours of each row */
	uint32_t	lengths[MOST_ROWS];
} Data;

typedef struct Result
{
	TreeEdge   *edges;
	uint32_t	count;
	TreeStats	stats;
	double	   *core;
} Result;

/* Returns the distance of two rows, or infinity if their partitions differ. */
static double
distance(const Data *data, uint32_t x, uint32_t y)
{
	double		sum = 0.0;

	if (x % data->partitions != y % data->partitions)
		return INFINITY;
	for (uint32_t i = 0; i < data->dimensions; i++)
	{
		double		difference = data->rows[(size_t) x * data->dimensions + i] -
			data->rows[(size_t) y * data->dimensions + i];

		sum += difference * difference;
	}
	return sqrt(sum);
}

/*
 * Fills a list with the nearest neighbours of a row in its partition, at most MOST_NEIGHBORS.  Returns
 * their number.
 */
static uint32_t
nearest(const Data *data, uint32_t x, FastedNeighbor *list)
{
	uint32_t	length = 0;

	for (uint32_t y = 0; y < data->n; y++)
	{
		double		dist = distance(data, x, y);
		uint32_t	i = length;

		if (y == x || dist == INFINITY || (i == MOST_NEIGHBORS && dist >= list[i - 1].dist))
			continue;
		if (length < MOST_NEIGHBORS)
			length++;
		else
			i--;
		for (; i > 0 && list[i - 1].dist > dist; i--)
			list[i] = list[i - 1];
		list[i] = (FastedNeighbor) {.row = y, .dist = dist};
	}
	return length;
}

static int
compare_edges(const void *a, const void *b)
{
	const TreeEdge *x = a;
	const TreeEdge *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? -1 : 1;
	if (x->a != y->a)
		return x->a < y->a ? -1 : 1;
	return (x->b > y->b) - (x->b < y->b);
}

/* Prim's algorithm.  Infinite weights are no edges. */
static Result
prim(const Data *data, uint32_t min_samples)
{
	Result		result = {.edges = must_alloc(data->n * sizeof(TreeEdge))};
	double	   *core = result.core = must_alloc(data->n * sizeof(double));
	TreeEdge   *best = must_alloc(data->n * sizeof(TreeEdge));
	bool	   *inside = must_alloc(data->n);

	for (uint32_t x = 0; x < data->n; x++)
	{
		core[x] = -INFINITY;
		if (min_samples > 1)
			core[x] = data->lengths[x] >= min_samples - 1 ?
				data->lists[(size_t) x * MOST_NEIGHBORS + min_samples - 2].dist : INFINITY;
		best[x] = (TreeEdge) {.weight = INFINITY};
		inside[x] = false;
	}
	for (uint32_t added = 0, x = 0; added < data->n; added++)
	{
		uint32_t	next = UINT32_MAX;

		/* Take the node with the smallest edge, or any node if a new tree begins. */
		for (uint32_t y = 0; y < data->n; y++)
		{
			if (!inside[y] && (next == UINT32_MAX || compare_edges(&best[y], &best[next]) < 0))
				next = y;
		}
		x = next;
		inside[x] = true;
		if (best[x].weight < INFINITY)
			result.edges[result.count++] = best[x];
		for (uint32_t y = 0; y < data->n; y++)
		{
			TreeEdge	edge = {
				.a = x < y ? x : y,
				.b = x < y ? y : x,
				.weight = fmax(distance(data, x, y), fmax(core[x], core[y]))
			};

			if (!inside[y] && edge.weight < INFINITY &&
				(best[y].weight == INFINITY || compare_edges(&edge, &best[y]) < 0))
				best[y] = edge;
		}
	}
	qsort(result.edges, result.count, sizeof(TreeEdge), compare_edges);
	free(best);
	free(inside);
	return result;
}

static TreeStatus
advance(SpanningTree *tree)
{
	TreeStatus	status;

	tree_advance(tree);
	while ((status = tree_wait(tree, 1000)) == TREE_BUSY)
		;
	return status;
}

/* Answers a search. */
static void
search(const Data *data, SpanningTree *tree)
{
	TreeSearch	rows = tree_searched(tree);

	for (uint32_t i = 0; i < rows.count; i++)
	{
		uint32_t	x = rows.nodes[i];
		FastedNeighbor found = {.dist = INFINITY};

		for (uint32_t y = 0; y < data->n; y++)
		{
			double		weight;

			if (rows.component[y] == rows.component[x])
				continue;
			weight = fmax(distance(data, x, y), fmax(rows.core[x], rows.core[y]));
			if (weight < found.dist && weight <= rows.bound[i])
				found = (FastedNeighbor) {.row = y, .dist = weight};
		}
		if (found.dist < INFINITY)
			tree_found(tree, i, found);
	}
}

static Result
boruvka(const Data *data, uint32_t k, uint32_t min_samples, int threads)
{
	Result		result;
	SpanningTree *tree = tree_create(data->n, k, min_samples, threads);
	const TreeEdge *edges;

	for (uint32_t i = data->n; i-- > 0;)
		tree_add_list(tree, i, data->lists + (size_t) i * MOST_NEIGHBORS,
					  data->lengths[i] < k ? data->lengths[i] : k);
	while (advance(tree) == TREE_SEARCH)
		search(data, tree);
	tree_trim(tree);
	edges = tree_edges(tree, &result.count);
	result.edges = must_alloc(result.count * sizeof(TreeEdge));
	memcpy(result.edges, edges, result.count * sizeof(TreeEdge));
	result.core = must_alloc(data->n * sizeof(double));
	memcpy(result.core, tree_core_distances(tree), data->n * sizeof(double));
	result.stats = tree_stats(tree);
	tree_free(tree);
	return result;
}

static void
free_result(Result result)
{
	free(result.edges);
	free(result.core);
}

static bool
same_edges(Result a, Result b)
{
	if (a.count != b.count)
		return false;
	for (uint32_t i = 0; i < a.count; i++)
	{
		if (compare_edges(&a.edges[i], &b.edges[i]) != 0)
			return false;
	}
	return true;
}

static void
check_tree(const Data *data, const char *name, uint32_t k, uint32_t min_samples)
{
	static const int threads[] = {0, 2, 7};	/* 0: the caller does the work */
	Result		expected;
	bool		equal = true;
	TreeStats	stats = {0};

	if (data->n < 2 || k > data->n - 1)
		k = data->n - 1;
	if (min_samples > k + 1)
		min_samples = k + 1;
	expected = prim(data, min_samples);
	for (int i = 0; i < 3; i++)
	{
		Result		found = boruvka(data, k, min_samples, threads[i]);

		equal = equal && same_edges(expected, found) &&
			memcmp(found.core, expected.core, data->n * sizeof(double)) == 0;
		if (i > 0)
			equal = equal && memcmp(&found.stats, &stats, sizeof(stats)) == 0;
		stats = found.stats;
		free_result(found);
	}
	ok(equal, "%s: %u rows, %u partitions, k %u, min_samples %u: %u edges, %u searches of %llu rows", name,
	   data->n, data->partitions, k, min_samples, expected.count, stats.searches,
	   (unsigned long long) stats.searched);
	free_result(expected);
}

typedef enum Kind
{
	UNIFORM,
	CLUSTERED,					/* clusters of different density */
	SEPARATE,					/* clusters far from each other, whose lists have no edge between them */
	INTEGERS,					/* many equal distances */
	DUPLICATES,
	EQUAL,
	LINE,						/* each gap is smaller than the one before */
	KINDS
} Kind;

static const char *const kind_names[] = {
	"uniform", "clustered", "separate", "integers", "duplicates", "equal", "line"
};

/* Makes rows, and finds their nearest neighbours. */
static void
fill(Data *data, Kind kind, uint32_t n, uint32_t dimensions, uint32_t partitions)
{
	double		position = 0.0;

	data->n = n;
	data->dimensions = dimensions;
	data->partitions = partitions;
	for (uint32_t x = 0; x < data->n; x++)
	{
		double	   *row = data->rows + (size_t) x * data->dimensions;
		uint32_t	cluster = random_below(5);

		position += 1.0 / (x + 1);
		for (uint32_t i = 0; i < data->dimensions; i++)
		{
			switch (kind)
			{
				case UNIFORM:
					row[i] = random_uniform();
					break;
				case CLUSTERED:
					row[i] = random_normal() * (cluster + 0.1) + 4.0 * ((cluster >> i) & 1);
					break;
				case SEPARATE:
					row[i] = random_normal() + 1000.0 * cluster;
					break;
				case INTEGERS:
					row[i] = random_below(6);
					break;
				case DUPLICATES:
					row[i] = x % 3 == 0 || x < 9 ? random_uniform() : data->rows[x % 9 * data->dimensions + i];
					break;
				case LINE:
					row[i] = i == 0 ? position : 0.0;
					break;
				default:
					row[i] = 1.0;
			}
		}
	}
	for (uint32_t x = 0; x < n; x++)
		data->lengths[x] = nearest(data, x, data->lists + (size_t) x * MOST_NEIGHBORS);
}

static void
check_trees(void)
{
	static const uint32_t sizes[] = {1, 2, 3, 5, 17, 100, 300};
	static const uint32_t samples[] = {1, 2, 5, 10, 30};
	Data		data = {
		.rows = must_alloc(MOST_ROWS * MOST_DIMENSIONS * sizeof(double)),
		.lists = must_alloc(MOST_ROWS * MOST_NEIGHBORS * sizeof(FastedNeighbor))
	};

	for (Kind kind = 0; kind < KINDS; kind++)
	{
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		{
			for (size_t j = 0; j < sizeof(samples) / sizeof(samples[0]); j++)
			{
				uint32_t	k = samples[j] > 1 ? samples[j] - 1 : 1;

				fill(&data, kind, sizes[i], 1 + random_below(MOST_DIMENSIONS),
					 random_below(3) == 0 ? 1 + random_below(9) : 1);
				check_tree(&data, kind_names[kind], k, samples[j]);
				check_tree(&data, kind_names[kind], k + 1 + random_below(20), samples[j]);
			}
		}
		for (uint32_t partitions = 1; partitions <= 3 && !quick(); partitions += 2)
		{
			fill(&data, kind, MOST_ROWS, 3, partitions);
			check_tree(&data, kind_names[kind], 16, 10);
		}
	}
	free(data.rows);
	free(data.lists);
}

/*
 * Two chains of nodes, which their lists connect.  Only the smaller one has to be searched: first
 * a sample of 8 nodes, and then, up to the weight of the edge that was found, the others and the
 * node of this edge.
 */
static void
check_searches(void)
{
	uint32_t	sizes[2] = {600, 400};
	Data		data = {
		.rows = must_alloc(MOST_ROWS * sizeof(double)),
		.lists = must_alloc(MOST_ROWS * MOST_NEIGHBORS * sizeof(FastedNeighbor))
	};
	Result		found;
	Result		expected;

	for (int first = 0; first < 2; first++)
	{
		fill(&data, EQUAL, 1000, 1, 1);
		for (uint32_t x = 0; x < 1000; x++)
			data.rows[x] = x < sizes[first] ? x : 5000.0 + x;
		for (uint32_t x = 0; x < 1000; x++)
			data.lengths[x] = nearest(&data, x, data.lists + (size_t) x * MOST_NEIGHBORS);
		expected = prim(&data, 1);
		found = boruvka(&data, 2, 1, 2);
		ok(same_edges(expected, found) && found.stats.searches == 2 &&
		   found.stats.searched == 8 + 392 + 1 && found.stats.components[0] == 2 &&
		   found.stats.components[1] == 2 &&
		   found.stats.components[2] == 0,
		   "two chains of %u and %u nodes: %u searches of %u rows", sizes[first],
		   1000 - sizes[first], found.stats.searches, (uint32_t) found.stats.searched);
		free_result(expected);
		free_result(found);
	}
	free(data.rows);
	free(data.lists);
}

/* Chains of so many nodes that their edges are sorted in several blocks, and merged. */
static void
check_sorting(void)
{
	static const uint32_t sizes[] = {32768, 32769, 40000, 65538, 140000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		uint32_t	n = sizes[i];
		uint32_t	count;
		SpanningTree *tree = tree_create(n, 3, 1, 3);
		TreeEdge   *expected = must_alloc(n * sizeof(TreeEdge));
		const TreeEdge *edges;
		bool		equal;

		for (uint32_t x = 0; x < n; x++)
			expected[x] = (TreeEdge) {.a = x, .b = x + 1, .weight = random_below(50000) / 8.0};
		for (uint32_t x = 0; x < n; x++)
		{
			FastedNeighbor list[2];
			uint32_t	length = 0;

			if (x > 0)
				list[length++] = (FastedNeighbor) {.row = x - 1, .dist = expected[x - 1].weight};
			if (x < n - 1)
				list[length++] = (FastedNeighbor) {.row = x + 1, .dist = expected[x].weight};
			if (length == 2 && list[1].dist < list[0].dist)
			{
				FastedNeighbor swap = list[0];

				list[0] = list[1];
				list[1] = swap;
			}
			tree_add_list(tree, x, list, length);
		}
		equal = advance(tree) == TREE_DONE;
		edges = tree_edges(tree, &count);
		equal = equal && count == n - 1;
		qsort(expected, n - 1, sizeof(TreeEdge), compare_edges);
		for (uint32_t e = 0; e < count && equal; e++)
			equal = compare_edges(&edges[e], &expected[e]) == 0;
		ok(equal, "chain of %u nodes: sorted edges", n);
		free(expected);
		tree_free(tree);
	}
}

/* Checks that memory is proportional to the nodes, and 12 bytes for each entry of a list. */
static void
check_memory(void)
{
	SpanningTree *tree = tree_create(5000, 7, 1, 1);
	int64_t		small = (int64_t) tree_bytes(100000, 10);

	ok(llabs((int64_t) tree_bytes(100000, 30) - small - 20 * 12 * 100000) < 256 &&
	   llabs((int64_t) tree_bytes(200000, 10) - 2 * small) < 4096 &&
	   small > 10 * 12 * 100000 + 70 * 100000 && small < 10 * 12 * 100000 + 150 * 100000 &&
	   tree_bytes(100000, 1) > tree_bytes(100000, 0), "memory of a tree");
	ok(tree_stats(tree).bytes == tree_bytes(5000, 7), "memory in the statistics");
	tree_free(tree);
	small = (int64_t) clusters_bytes(100000);
	ok(small > 100 * 100000 && small < 200 * 100000 &&
	   llabs((int64_t) clusters_bytes(200000) - 2 * small) < 4096, "memory of clusters");
}

static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

typedef struct Work
{
	_Atomic bool end;
	_Atomic int calls;
} Work;

/* Work that lasts until it is told to end. */
static void
last(void *argument)
{
	Work	   *work = argument;

	work->calls++;
	while (!work->end)
		nanosleep(&(struct timespec) {.tv_nsec = 1000000}, NULL);
}

static void
check_workers(void)
{
	static const int timeouts[] = {0, 30, 999, 1100};
	Workers		workers;
	Work		work = {.end = false};
	bool		good = true;

	workers_init(&workers);
	ok(workers_wait(&workers, 0), "workers that were not started are not waited for");
	workers_destroy(&workers);
	workers_init(&workers);
	workers_start(&workers, 3, last, &work);
	for (int i = 0; i < 4; i++)
	{
		double		passed = INFINITY;

		/* On a loaded machine a wait may end late, but not each time. */
		for (int tries = 0; tries < 20 && passed > 0.001 * timeouts[i] + 0.6; tries++)
		{
			double		begin = seconds();

			good = good && !workers_wait(&workers, timeouts[i]);
			passed = seconds() - begin;
			good = good && passed >= 0.001 * timeouts[i];
		}
		good = good && passed <= 0.001 * timeouts[i] + 0.6;
	}
	ok(good, "the time for which workers are waited for");
	work.end = true;
	while (!workers_wait(&workers, 1000))
		;
	ok(work.calls == 3 && workers_wait(&workers, 0), "each of three workers is called once");

	work.calls = 0;
	workers_start(&workers, 1, last, &work);
	while (!workers_wait(&workers, 1000))
		;
	ok(work.calls == 1, "workers are started again");
	work.calls = 0;
	workers_start(&workers, 0, last, &work);
	ok(work.calls == 1 && workers_wait(&workers, 0), "without threads the caller does the work");
	workers_destroy(&workers);
}

/* Stops trees while their threads are running. */
static void
check_stop(void)
{
	uint32_t	n = 100000;

	for (int i = 0; i < 50; i++)
	{
		SpanningTree *tree = tree_create(n, 1, 1, 3);

		for (uint32_t x = 0; x < n; x++)
		{
			FastedNeighbor neighbor = {.row = x > 0 ? x - 1 : 1, .dist = 1.0 / (x > 0 ? x : 1)};

			tree_add_list(tree, x, &neighbor, 1);
		}
		tree_advance(tree);
		if (i % 2 > 0)
			(void) tree_wait(tree, 0);
		tree_free(tree);
	}
	tree_free(NULL);
	ok(true, "stopped trees");
}

static ClusterLabel *
find_clusters(const TreeEdge *edges, uint32_t nedges, uint32_t n, const ClusterParameters *parameters)
{
	ClusterLabel *labels = must_alloc(n * sizeof(ClusterLabel));
	ClusterTree *tree = clusters_start(edges, nedges, n, parameters, labels);

	while (clusters_wait(tree, 1000) == TREE_BUSY)
		;
	clusters_free(tree);
	return labels;
}

/* Compares the clusters of one tree with the expected ones. */
static void
check_clusters(void)
{
	for (size_t i = 0; i < sizeof(expected_clusters) / sizeof(expected_clusters[0]); i++)
	{
		const ClusterParameters *parameters = &expected_clusters[i].parameters;
		const double *scores = expected_scores[expected_clusters[i].scores];
		ClusterLabel *labels = find_clusters(clustered_edges, CLUSTERED_ROWS - 1, CLUSTERED_ROWS, parameters);
		int32_t		most = -1;
		bool		equal = true;

		for (uint32_t x = 0; x < CLUSTERED_ROWS; x++)
		{
			equal = equal && labels[x].cluster == expected_clusters[i].clusters[x] &&
				fabs(labels[x].probability - expected_clusters[i].probabilities[x]) < 1e-12 &&
				fabs(labels[x].outlier_score - scores[x]) < 1e-12;
			if (most < labels[x].cluster)
				most = labels[x].cluster;
		}
		ok(equal, "min_cluster_size %u, max_cluster_size %u, %s, epsilon %g, %s: %d clusters",
		   parameters->min_cluster_size, parameters->max_cluster_size, parameters->leaf ? "leaves" : "mass",
		   parameters->epsilon, parameters->allow_single_cluster ? "single" : "several", most + 1);
		free(labels);
	}
}

/* Checks that each tree of a forest is clustered for itself, with common numbers. */
static void
check_forest(void)
{
	ClusterParameters parameters = {.min_cluster_size = 3};
	TreeEdge	edges[2 * (CLUSTERED_ROWS - 1)];
	ClusterLabel *alone = find_clusters(clustered_edges, CLUSTERED_ROWS - 1, CLUSTERED_ROWS, &parameters);
	ClusterLabel *labels;
	bool		equal = true;

	/* Rows 2 x and 2 x + 1 are the row x of either tree; the last row has no edge. */
	for (uint32_t i = 0; i < 2 * (CLUSTERED_ROWS - 1); i++)
	{
		edges[i] = clustered_edges[i / 2];
		edges[i].a = edges[i].a * 2 + i % 2;
		edges[i].b = edges[i].b * 2 + i % 2;
	}
	labels = find_clusters(edges, 2 * (CLUSTERED_ROWS - 1), 2 * CLUSTERED_ROWS + 1, &parameters);
	for (uint32_t x = 0; x < 2 * CLUSTERED_ROWS; x++)
	{
		int32_t		cluster = alone[x / 2].cluster;

		equal = equal && labels[x].cluster == (cluster < 0 ? -1 : cluster * 2 + (int32_t) (x % 2)) &&
			labels[x].probability == alone[x / 2].probability &&
			labels[x].outlier_score == alone[x / 2].outlier_score;
	}
	ok(equal && labels[2 * CLUSTERED_ROWS].cluster == -1, "forest of two equal trees and a row");
	free(labels);
	free(alone);

	labels = find_clusters(NULL, 0, 3, &parameters);
	ok(labels[0].cluster == -1 && labels[2].outlier_score == 0.0, "no edges");
	free(labels);

	/* Equal rows have infinite lambda. */
	for (uint32_t i = 0; i < 6; i++)
		edges[i] = (TreeEdge) {.a = i, .b = i + 1, .weight = i < 3 ? 0.0 : i == 5 ? 2.0 : 1.0};
	parameters.allow_single_cluster = true;
	labels = find_clusters(edges, 6, 7, &parameters);
	ok(labels[0].cluster == 0 && labels[3].probability == 1.0 && labels[3].outlier_score == 0.0 &&
	   labels[6].outlier_score == 1.0, "edges of weight zero");
	free(labels);
}

/* --- clusters of random trees against a recursive definition */

#define MOST_NODES 40

typedef struct ExpectedCluster
{
	int			parent;			/* -1: root */
	int			children[2];	/* -1: none */
	uint32_t	size;
	double		weight;			/* of the edge that splits the parent */
	double		stability;
	double		death;
	bool		selected;
	bool		target;
} ExpectedCluster;

typedef struct Expected
{
	TreeEdge	edges[MOST_NODES];
	int			nedges;
	uint32_t	n;
	ClusterParameters parameters;
	ExpectedCluster clusters[2 * MOST_NODES];
	int			count;
	int			cluster[MOST_NODES];	/* the smallest cluster of a node, or -1 */
	double		lambda[MOST_NODES];	/* at which the node leaves it */
} Expected;

static int
expect_cluster(Expected *expected, int parent, uint32_t size, double weight)
{
	expected->clusters[expected->count] = (ExpectedCluster) {
		.parent = parent,.children = {-1, -1},.size = size,.weight = weight
	};
	return expected->count++;
}

/* Extends a set of nodes by the edges before `end` between nodes in `inside`. */
static void
connect(const Expected *expected, int end, const bool *inside, bool *reached)
{
	for (int i = 0; i < end; i++)
	{
		TreeEdge	edge = expected->edges[i];

		if (inside[edge.a] && inside[edge.b] && reached[edge.a] != reached[edge.b])
		{
			reached[edge.a] = reached[edge.b] = true;
			i = -1;
		}
	}
}

/* Removes the heaviest edge from a connected part of a cluster. */
static void
split(Expected *expected, const bool *inside, int c)
{
	ExpectedCluster *cluster = &expected->clusters[c];
	int			last = expected->nedges - 1;
	bool		parts[2][MOST_NODES] = {{false}};
	uint32_t	sizes[2] = {0, 0};
	uint32_t	smallest = expected->parameters.min_cluster_size;
	double		lambda;
	bool		both;

	while (!(inside[expected->edges[last].a] && inside[expected->edges[last].b]))
		last--;
	lambda = 1.0 / expected->edges[last].weight;
	parts[0][expected->edges[last].a] = true;
	connect(expected, last, inside, parts[0]);
	for (uint32_t x = 0; x < expected->n; x++)
	{
		parts[1][x] = inside[x] && !parts[0][x];
		for (int side = 0; side < 2; side++)
			sizes[side] += parts[side][x];
	}
	both = sizes[0] >= smallest && sizes[1] >= smallest;
	cluster->death = lambda;
	if (both && cluster->parent < 0)
		cluster->size = sizes[0] + sizes[1];
	for (int side = 0; side < 2; side++)
	{
		if (both || sizes[side] < smallest)
			cluster->stability += (lambda - 1.0 / cluster->weight) * sizes[side];
		if (both)
		{
			cluster->children[side] = expect_cluster(expected, c, sizes[side],
													 expected->edges[last].weight);
			split(expected, parts[side], cluster->children[side]);
		}
		else if (sizes[side] >= smallest)
			split(expected, parts[side], c);
		for (uint32_t x = 0; x < expected->n && !both && sizes[side] < smallest; x++)
		{
			if (parts[side][x])
			{
				expected->cluster[x] = c;
				expected->lambda[x] = lambda;
			}
		}
	}
}

/* Selects clusters by mass.  Returns the largest mass of a selection of c or its descendants. */
static double
select_mass(Expected *expected, int c)
{
	ExpectedCluster *cluster = &expected->clusters[c];
	uint32_t	largest = expected->parameters.max_cluster_size;
	double		below = 0.0;

	for (int side = 0; side < 2 && cluster->children[0] >= 0; side++)
		below += select_mass(expected, cluster->children[side]);
	if ((cluster->parent < 0 && !expected->parameters.allow_single_cluster) ||
		below > cluster->stability || (largest > 0 && cluster->size > largest))
		return below;
	cluster->selected = true;
	return cluster->stability;
}

/* Returns the largest death of a cluster and its descendants. */
static double
deepest(const Expected *expected, int c)
{
	const ExpectedCluster *cluster = &expected->clusters[c];

	return cluster->children[0] < 0 ? cluster->death :
		fmax(cluster->death, fmax(deepest(expected, cluster->children[0]),
								  deepest(expected, cluster->children[1])));
}

/* Returns the selected cluster in place of one that is split from its parent below epsilon. */
static int
replacement(const Expected *expected, int c)
{
	const ExpectedCluster *clusters = expected->clusters;

	if (clusters[c].parent >= 0 && clusters[c].weight >= expected->parameters.epsilon)
		return c;
	for (;;)
	{
		int			parent = clusters[c].parent;

		if (parent < 0 ||
			(clusters[parent].parent < 0 && !expected->parameters.allow_single_cluster))
			return c;
		c = parent;
		if (clusters[c].parent < 0 || clusters[c].weight > expected->parameters.epsilon)
			return c;
	}
}

static void
select_expected(Expected *expected)
{
	ExpectedCluster *clusters = expected->clusters;

	for (int c = 0; c < expected->count; c++)
	{
		if (expected->parameters.leaf)
			clusters[c].selected = clusters[c].children[0] < 0 && clusters[c].parent >= 0;
		else if (clusters[c].parent < 0)
			(void) select_mass(expected, c);
	}
	for (int c = 0; c < expected->count && !expected->parameters.leaf; c++)
	{
		/* parents come before their children */
		for (int up = clusters[c].parent; up >= 0; up = clusters[up].parent)
			clusters[c].selected = clusters[c].selected && !clusters[up].selected;
	}
	if (expected->parameters.epsilon > 0.0)
	{
		for (int c = 0; c < expected->count; c++)
		{
			if (clusters[c].selected)
				clusters[replacement(expected, c)].target = true;
		}
		for (int c = 0; c < expected->count; c++)
			clusters[c].selected = clusters[c].target;
	}
}

static int
root_of(const Expected *expected, int c)
{
	while (expected->clusters[c].parent >= 0)
		c = expected->clusters[c].parent;
	return c;
}

static ClusterLabel
expected_label(const Expected *expected, uint32_t x)
{
	ClusterLabel label = {.cluster = -1};
	const ExpectedCluster *clusters = expected->clusters;
	double		epsilon = expected->parameters.epsilon;
	double		lambda = expected->lambda[x];
	int			c = expected->cluster[x];
	int			in_tree = 0;

	if (c < 0)
		return label;
	label.outlier_score = (deepest(expected, c) - lambda) / deepest(expected, c);
	for (int i = 0; i < expected->count; i++)
		in_tree += clusters[i].selected && root_of(expected, i) == root_of(expected, c);
	while (c >= 0 && !clusters[c].selected)
		c = clusters[c].parent;
	if (c < 0)
		return label;
	if (clusters[c].parent < 0 &&
		(in_tree > 1 || (epsilon > 0.0 ? 1.0 / lambda > epsilon : lambda < clusters[c].death)))
		return label;
	label.cluster = c;
	label.probability = fmin(lambda, clusters[c].death) / clusters[c].death;
	return label;
}

/* Makes a random forest.  Weights are powers of two, so that all sums of lambda are exact. */
static void
make_forest(Expected *expected)
{
	*expected = (Expected) {
		.n = 1 + random_below(MOST_NODES),
		.parameters = {
			.min_cluster_size = 2 + random_below(4),
			.max_cluster_size = random_below(2) * random_below(20),
			.leaf = random_below(4) == 0,
			.epsilon = random_below(2) * ldexp(2.0 + random_below(2), (int) random_below(5) - 3),
			.allow_single_cluster = random_below(2) == 0
		}
	};
	for (uint32_t x = 1; x < expected->n; x++)
	{
		uint32_t	y = random_below(2) ? random_below(x) : x - 1;

		if (random_below(30) > 0)
			expected->edges[expected->nedges++] = (TreeEdge) {
				.a = y,.b = x,.weight = ldexp(1.0, (int) random_below(5) - 2)
			};
	}
	qsort(expected->edges, (size_t) expected->nedges, sizeof(TreeEdge), compare_edges);
	for (uint32_t x = 0; x < expected->n; x++)
		expected->cluster[x] = -1;
}

static void
check_random_clusters(void)
{
	static Expected expected;
	int			wrong = 0;
	int			count = quick() ? 2000 : 10000;

	for (int i = 0; i < count; i++)
	{
		bool		done[MOST_NODES] = {false};
		bool		all[MOST_NODES];
		int			numbers[2 * MOST_NODES];
		int			next = 0;
		bool		equal = true;
		ClusterLabel *labels;

		make_forest(&expected);
		memset(all, true, sizeof(all));
		for (uint32_t x = 0; x < expected.n; x++)
		{
			bool		reached[MOST_NODES] = {false};
			uint32_t	size = 0;

			if (done[x])
				continue;
			reached[x] = true;
			connect(&expected, expected.nedges, all, reached);
			for (uint32_t y = 0; y < expected.n; y++)
			{
				done[y] = done[y] || reached[y];
				size += reached[y];
			}
			if (size > 1)
				split(&expected, reached, expect_cluster(&expected, -1, 0, INFINITY));
		}
		select_expected(&expected);
		labels = find_clusters(expected.edges, (uint32_t) expected.nedges, expected.n,
							   &expected.parameters);
		memset(numbers, 0xff, sizeof(numbers));
		for (uint32_t x = 0; x < expected.n; x++)
		{
			ClusterLabel label = expected_label(&expected, x);

			if (label.cluster >= 0)
			{
				if (numbers[label.cluster] < 0)
					numbers[label.cluster] = next++;
				label.cluster = numbers[label.cluster];
			}
			equal = equal && label.cluster == labels[x].cluster &&
				label.probability == labels[x].probability &&
				label.outlier_score == labels[x].outlier_score;
		}
		wrong += !equal;
		free(labels);
	}
	ok(wrong == 0, "clusters of random trees: %d of %d are wrong", wrong, count);
}

int
main(void)
{
	random_seed();
	check_trees();
	check_searches();
	check_sorting();
	check_memory();
	check_workers();
	check_stop();
	check_clusters();
	check_forest();
	check_random_clusters();
	return tap_done();
}
