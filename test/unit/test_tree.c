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
#include <string.h>

#include "../../src/tree/cluster_tree.h"
#include "tap.h"
#include "tree_answers.h"
#include "tree_clusters.h"

#define MOST_DIMENSIONS 8
#define MOST_NEIGHBORS 64
#define MOST_ROWS 3000

typedef struct Data
{
	uint32_t	n;
	uint32_t	dimensions;
	uint32_t	partitions;		/* row x belongs to partition x % partitions */
	double		rows[MOST_ROWS * MOST_DIMENSIONS];
	FastedNeighbor lists[MOST_ROWS * MOST_NEIGHBORS];	/* the nearest neighbours of each row */
	uint32_t	lengths[MOST_ROWS];
	uint32_t	copies[MOST_ROWS];	/* number of smaller rows that are equal */
} Data;

typedef struct Result
{
	TreeEdge   *edges;
	uint32_t	count;
	TreeStats	stats;
	bool		searched_copy;
} Result;

/* Returns the distance of two rows, or infinity if their partitions differ. */
static double
distance(const void *rows, uint32_t x, uint32_t y)
{
	const Data *data = rows;
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
	double	   *core = must_alloc(data->n * sizeof(double));
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
	free(core);
	free(best);
	free(inside);
	return result;
}

/* If copies is true, rows with at least k smaller copies are declared as copies. */
static Result
boruvka(const Data *data, uint32_t k, uint32_t min_samples, int threads, bool copies)
{
	Result		result = {0};
	SpanningTree *tree = tree_create(data->n, k, min_samples, threads);
	const TreeEdge *edges;

	for (uint32_t i = data->n; i-- > 0;)
	{
		tree_add_list(tree, i, data->lists + (size_t) i * MOST_NEIGHBORS,
					  data->lengths[i] < k ? data->lengths[i] : k);
		if (copies && data->copies[i] >= k)
			tree_add_copy(tree, i);
	}
	while (advance(tree) == TREE_SEARCH)
	{
		TreeSearch	rows = tree_searched(tree);

		for (uint32_t i = 0; i < rows.count; i++)
			result.searched_copy |= data->copies[rows.nodes[i]] >= k;
		answer_search(tree, data->n, data, distance);
	}
	tree_trim(tree);
	edges = tree_edges(tree, &result.count);
	result.edges = must_alloc(result.count * sizeof(TreeEdge));
	memcpy(result.edges, edges, result.count * sizeof(TreeEdge));
	result.stats = tree_stats(tree);
	tree_free(tree);
	return result;
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
	static const int threads[] = {1, 2, 7};
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
		Result		found = boruvka(data, k, min_samples, threads[i], false);
		Result		without = boruvka(data, k, min_samples, threads[i], true);

		equal = equal && same_edges(expected, found) && same_edges(expected, without) && !without.searched_copy;
		free(without.edges);
		if (i > 0)
			equal = equal && memcmp(&found.stats, &stats, sizeof(stats)) == 0;
		stats = found.stats;
		free(found.edges);
	}
	ok(equal && (stats.searches > 0) == (stats.searched > 0), "%s: %u rows, %u partitions, k %u, min_samples %u: %u edges, %u searches of %llu rows", name,
	   data->n, data->partitions, k, min_samples, expected.count, stats.searches,
	   (unsigned long long) stats.searched);
	free(expected.edges);
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

/* Finds the nearest neighbours and the copies of all rows. */
static void
find_lists(Data *data)
{
	for (uint32_t x = 0; x < data->n; x++)
	{
		data->lengths[x] = nearest(data, x, data->lists + (size_t) x * MOST_NEIGHBORS);
		data->copies[x] = 0;
		for (uint32_t y = 0; y < x; y++)
			data->copies[x] += distance(data, x, y) == 0.0;
	}
}

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
	find_lists(data);
}

static void
check_trees(void)
{
	static const uint32_t sizes[] = {1, 2, 3, 5, 17, 100, 300};
	static const uint32_t samples[] = {1, 2, 5, 10, 30};
	static Data data;

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
}

/*
 * Complete lists need no search.  Of two distant groups of rows, only the smaller one is searched.  A
 * known edge to another component excludes the rows whose lists reach further than this edge.
 */
static void
check_searches(void)
{
	const uint32_t small = 20;
	uint64_t	searched = 0;
	static Data data;
	Result		result;

	fill(&data, UNIFORM, 10, 3, 1);
	result = boruvka(&data, 9, 1, 1, false);
	ok(result.stats.searches == 0 && result.stats.searched == 0, "complete lists: no search");
	free(result.edges);
	data.n = 300;
	data.dimensions = 1;
	for (uint32_t x = 0; x < data.n; x++)
		data.rows[x] = x + (x < small ? 0.0 : 1000.0);
	find_lists(&data);
	result = boruvka(&data, 5, 1, 1, false);
	ok(result.stats.searches > 0 && result.stats.components[0] == 2 && result.stats.searched <= small,
	   "two groups: %u searches of %llu rows", result.stats.searches,
	   (unsigned long long) result.stats.searched);
	free(result.edges);
	for (int i = 0; i < 20; i++)
	{
		fill(&data, UNIFORM, 300, 2, 1);
		result = boruvka(&data, 10, 10, 1, false);
		searched += result.stats.searched;
		free(result.edges);
	}
	ok(searched < 3500, "uniform: %llu of %d rows are searched", (unsigned long long) searched, 20 * 300);
}

/* Checks a path, whose nodes have no distance from other ones, for different numbers of edges to sort. */
static void
check_path(uint32_t count)
{
	Result		expected = {.edges = must_alloc(count * sizeof(TreeEdge)), .count = count};
	double	   *weight = must_alloc((count + 2) * sizeof(double));

	/* Many weights are equal.  weight[x] is that of the edge between x - 1 and x. */
	weight[0] = weight[count + 1] = INFINITY;
	for (uint32_t x = 1; x <= count; x++)
	{
		weight[x] = random_below(5000);
		expected.edges[x - 1] = (TreeEdge) {.a = x - 1, .b = x, .weight = weight[x]};
	}
	qsort(expected.edges, count, sizeof(TreeEdge), compare_edges);
	for (int threads = 1; threads <= 7; threads += 6)
	{
		SpanningTree *tree = tree_create(count + 1, 3, 1, threads);
		Result		found = {0};
		bool		done;

		for (uint32_t x = 0; x <= count; x++)
		{
			int			nearer = weight[x] <= weight[x + 1] ? 0 : 1;
			FastedNeighbor list[2];

			list[nearer] = (FastedNeighbor) {.row = x - 1, .dist = weight[x]};
			list[1 - nearer] = (FastedNeighbor) {.row = x + 1, .dist = weight[x + 1]};
			tree_add_list(tree, x, list, x == 0 || x == count ? 1 : 2);
		}
		done = advance(tree) == TREE_DONE;
		found.edges = (TreeEdge *) tree_edges(tree, &found.count);
		ok(done && same_edges(expected, found), "path of %u edges, %d threads", count, threads);
		tree_free(tree);
	}
	free(expected.edges);
	free(weight);
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

/* Number of calls by find_clusters. */
static uint32_t checks;

static void
count_check(void)
{
	checks++;
}

static ClusterLabel *
label_nodes(const TreeEdge *edges, uint32_t nedges, uint32_t n, const ClusterParameters *parameters)
{
	ClusterLabel *labels = must_alloc(n * sizeof(ClusterLabel));
	void	   *memory = must_alloc(clusters_bytes(n));

	find_clusters(edges, nedges, n, parameters, labels, memory, count_check);
	free(memory);
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
		ClusterLabel *labels = label_nodes(clustered_edges, CLUSTERED_ROWS - 1, CLUSTERED_ROWS, parameters);
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
	ClusterLabel *alone = label_nodes(clustered_edges, CLUSTERED_ROWS - 1, CLUSTERED_ROWS, &parameters);
	ClusterLabel *labels;
	bool		equal = true;

	/* Rows 2 x and 2 x + 1 are the row x of either tree; the last row has no edge. */
	for (uint32_t i = 0; i < 2 * (CLUSTERED_ROWS - 1); i++)
	{
		edges[i] = clustered_edges[i / 2];
		edges[i].a = edges[i].a * 2 + i % 2;
		edges[i].b = edges[i].b * 2 + i % 2;
	}
	labels = label_nodes(edges, 2 * (CLUSTERED_ROWS - 1), 2 * CLUSTERED_ROWS + 1, &parameters);
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

	labels = label_nodes(NULL, 0, 3, &parameters);
	ok(labels[0].cluster == -1 && labels[2].outlier_score == 0.0, "no edges");
	free(labels);

	/* If the root has no children, it is the only leaf: its last nodes, or those within epsilon. */
	for (uint32_t i = 0; i < 6; i++)
		edges[i] = (TreeEdge) {.a = i, .b = i + 1, .weight = 1 + i};
	parameters = (ClusterParameters) {.min_cluster_size = 4, .leaf = true, .allow_single_cluster = true};
	labels = label_nodes(edges, 6, 7, &parameters);
	ok(labels[0].cluster == 0 && labels[3].cluster == 0 && labels[4].cluster == -1, "a root without children is a leaf");
	free(labels);
	parameters.epsilon = 5.0;
	labels = label_nodes(edges, 6, 7, &parameters);
	ok(labels[5].cluster == 0 && labels[6].cluster == -1, "a root without children, and epsilon");
	free(labels);
	parameters.allow_single_cluster = false;
	labels = label_nodes(edges, 6, 7, &parameters);
	ok(labels[0].cluster == -1, "a root without children, if it may not be a cluster");
	free(labels);
	parameters = (ClusterParameters) {.min_cluster_size = 3};

	/* Equal rows have infinite lambda. */
	for (uint32_t i = 0; i < 6; i++)
		edges[i] = (TreeEdge) {.a = i, .b = i + 1, .weight = i < 3 ? 0.0 : i == 5 ? 2.0 : 1.0};
	parameters.allow_single_cluster = true;
	labels = label_nodes(edges, 6, 7, &parameters);
	ok(labels[0].cluster == 0 && labels[3].probability == 1.0 && labels[3].outlier_score == 0.0 &&
	   labels[6].outlier_score == 1.0, "edges of weight zero");
	free(labels);
}

/* Checks that all loops of find_clusters call the function that looks for interrupts. */
static void
check_calls(void)
{
	uint32_t	n = 1000000;
	TreeEdge   *edges = must_alloc(n * sizeof(TreeEdge));

	/* a chain of pairs, with almost as many clusters as nodes */
	for (uint32_t i = 0; i < n / 2; i++)
	{
		edges[i] = (TreeEdge) {.a = 2 * i, .b = 2 * i + 1, .weight = 1 + i};
		edges[n / 2 + i] = (TreeEdge) {.a = 2 * i + 1, .b = 2 * i + 2, .weight = n + i};
	}
	for (int leaf = 0; leaf < 2; leaf++)
	{
		ClusterParameters parameters = {.min_cluster_size = 2, .leaf = leaf, .epsilon = 0.5};

		checks = 0;
		free(label_nodes(edges, n - 1, n, &parameters));
		/* six loops over nodes and edges, and at least five over clusters */
		ok(checks > 10 * (n / 65536), "leaf %d: %u calls for %u rows", leaf, checks, n);
	}
	free(edges);
}

static void
check_bytes(void)
{
	double		row_bytes = (double) tree_bytes(1000000, 20) / 1e6;

	ok(row_bytes > 12.0 * 20 + 96 && row_bytes < 12.0 * 20 + 104, "%.1f bytes per row with 20 neighbors",
	   row_bytes);
}

int
main(void)
{
	random_seed();
	check_bytes();
	check_trees();
	check_searches();
	check_path(32768);
	check_path(32769);
	check_path(65538);
	check_path(200000);
	check_stop();
	check_clusters();
	check_forest();
	check_calls();
	return tap_done();
}
