/*-------------------------------------------------------------------------
 *
 * hdbscan.c
 *	  fasted_hdbscan: hierarchical density-based clustering, from the minimum spanning tree.
 *
 * cluster_tree.h names the algorithm.  The engine is released before the clusters are computed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/row_numbers.h"
#include "catalog/pg_type.h"
#include "functions/clustering.h"
#include "tree/cluster_tree.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

enum
{
	HDBSCAN_MIN_CLUSTER_SIZE = CLUSTERING_OWN,
	HDBSCAN_MIN_SAMPLES,
	HDBSCAN_METHOD,
	HDBSCAN_EPSILON,
	HDBSCAN_SINGLE_CLUSTER,
	HDBSCAN_MAX_CLUSTER_SIZE
};

typedef struct Hdbscan
{
	TreeRun		base;
	ClusterParameters parameters;
	ClusterLabel *labels;		/* by node */
} Hdbscan;

/* Computes the labels, and frees the tree. */
static void
Finish(Clustering *clustering)
{
	Hdbscan    *run = (Hdbscan *) clustering;
	TreeRun    *tree = &run->base;
	uint32		nrows = clustering->count;
	uint64		bytes = (uint64) tree->nedges * sizeof(TreeEdge) + clusters_bytes(nrows);
	void	   *memory;

	RequireTreeMemory(tree, bytes + (uint64) nrows * (sizeof(ClusterLabel) + sizeof(double)), "the clusters");
	clustering->other_bytes = Max(clustering->other_bytes, bytes);
	run->labels = MemoryContextAllocHuge(CurrentMemoryContext, Max(nrows, 1) * sizeof(ClusterLabel));
	memory = MemoryContextAllocHuge(CurrentMemoryContext, Max(clusters_bytes(nrows), 1));
	find_clusters(tree->edges, tree->nedges, nrows, &run->parameters, run->labels, memory, CheckJoinInterrupts);
	pfree(memory);
	FreeTree(tree);
}

static void
Result(Clustering *clustering, uint32 row, Datum *values, bool *nulls)
{
	const Hdbscan *run = (const Hdbscan *) clustering;
	const TreeRun *tree = &run->base;
	uint32		node = NumberOfRow(clustering->keys->rank, row);
	const ClusterLabel *label = &run->labels[node];

	values[1] = Int32GetDatum(label->cluster);
	values[2] = Float8GetDatum(label->probability);
	values[3] = Float8GetDatum(label->outlier_score);
	/* with min_samples 1, the tree has -infinity */
	values[4] = Float8GetDatum(tree->min_samples == 1 ? 0.0 : tree->core == NULL ? INFINITY : tree->core[node]);
	values[5] = Float8GetDatum(label->birth_distance);
	values[6] = Float8GetDatum(label->death_distance);
	nulls[1] = nulls[5] = nulls[6] = label->cluster < 0;
}

static const ClusteringMethods hdbscan_methods = {
	.output = FASTED_OUTPUT_NEAREST,
	.nearest = BuildTree,
	.finish = Finish,
	.result = Result
};

/* --- arguments */

/* Returns true for the method 'leaf', and false for 'eom'. */
static bool
IsLeafMethod(const FunctionCall *call)
{
	char	   *method = TextDatumGetCString(call->args[HDBSCAN_METHOD].value);

	if (strcmp(method, "leaf") != 0 && strcmp(method, "eom") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown cluster_selection_method: \"%s\"", method),
				 errhint("The methods are \"eom\" (excess of mass) and \"leaf\".")));
	return strcmp(method, "leaf") == 0;
}

static double
GetEpsilon(const FunctionCall *call)
{
	double		epsilon = DatumGetFloat8(call->args[HDBSCAN_EPSILON].value);

	if (isnan(epsilon) || epsilon < 0.0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cluster_selection_epsilon must be 0 or greater"),
				 errdetail("The value is %.15g.", epsilon)));
	return epsilon;
}

static void
BeginHdbscan(FunctionRun *base)
{
	Hdbscan    *run = (Hdbscan *) base;
	const FunctionCall *call = &base->call;
	int32		min_cluster_size = IntegerArgument(call, HDBSCAN_MIN_CLUSTER_SIZE, 2, 0);

	run->parameters = (ClusterParameters) {
		.min_cluster_size = (uint32) min_cluster_size,
		.max_cluster_size = (uint32) IntegerArgument(call, HDBSCAN_MAX_CLUSTER_SIZE, 1, 0),
		.leaf = IsLeafMethod(call),
		.epsilon = GetEpsilon(call),
		.allow_single_cluster = DatumGetBool(call->args[HDBSCAN_SINGLE_CLUSTER].value)
	};
	if (fasted_metric_rules(call->metric)->negative_product)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("clusters by density are not defined for metric \"inner_product\""),
				 errdetail("Density is the reciprocal of a distance, which must not be negative."),
				 errhint("Use metric \"cosine\".")));
	run->base.keeps_core = true;
	OpenTree(&run->base, IntegerArgument(call, HDBSCAN_MIN_SAMPLES, 1, min_cluster_size),
			&hdbscan_methods);
}

const FunctionDescriptor hdbscan_function = {
	CLUSTERING_DESCRIPTOR(6),
	.name = "fasted_hdbscan",
	.window = "fasted_hdbscan_cluster",
	.arguments = {
		CLUSTERING_ARGUMENTS,
		{"min_cluster_size", true, "Min Cluster Size"},
		{"min_samples", false, "Min Samples"},
		{"cluster_selection_method", true, "Cluster Selection Method"},
		{"cluster_selection_epsilon", true, "Cluster Selection Epsilon"},
		{"allow_single_cluster", true, "Allow Single Cluster"},
		{"max_cluster_size", false, "Max Cluster Size"},
		CLUSTERING_LAST_ARGUMENTS
	},
	.ncolumns = 7,
	.columns = {InvalidOid, INT4OID, FLOAT8OID, FLOAT8OID, FLOAT8OID, FLOAT8OID, FLOAT8OID},
	.builds_tree = true,
	.run_size = sizeof(Hdbscan),
	.begin = BeginHdbscan
};
