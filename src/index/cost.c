/*-------------------------------------------------------------------------
 *
 * cost.c
 *	  Cost of a scan of an index, and the statistics that estimate it.
 *
 * A build compares some vectors of its sample, and stores quantiles of each level's bounds in the metapage.
 * They say how many rows a condition on the distance lets pass each level, and how many it returns.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "catalog/pg_type_d.h"
#include "index/access.h"
#include "index/ball.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/float.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

/* CPU time of the head of a row, and of a row of a level, in operators. */
#define HEAD_OPERATORS 0.2
#define LEVEL_OPERATORS 1.0

/* The same of the box of a chunk. */
#define BOX_OPERATORS 0.5

/* CPU time of a query, for each product of its rotation, in operators. */
#define ROTATION_OPERATORS 0.02

/* Share of the rows that a scan in the order of distances takes through the levels before it returns one. */
#define FIRST_SHARE 0.02

/*
 * Pages that a row costs which is returned in the order of distances, apart from PostgreSQL's own estimate.
 * PostgreSQL estimates the pages of all rows, which are fewer than the rows, and divides them evenly.
 */
#define ORDER_PAGES 0.25

/* Rows that pass a level, for each row of the result, if nothing is known. */
#define PASSING_ROWS 1.5

#define PAIR_ROWS 300
#define PAIR_QUERIES 40
#define MOST_BOXES 1000
#define LEAST_PAIRS 4			/* below the smallest quantile */

/* --- quantiles of bounds */

double *
SamplePairs(const double *sample, uint32 n, uint32 dimensions, uint32 *count)
{
	double	   *vectors;

	*count = Min(n, PAIR_ROWS);
	vectors = palloc(Max(*count, 1) * dimensions * sizeof(double));
	for (uint32 r = 0; r < *count; r++)
		memcpy(vectors + (Size) r * dimensions, sample + (Size) ((uint64) r * n / *count) * dimensions,
			   dimensions * sizeof(double));
	return vectors;
}

/*
 * Sets the bounds that levels give of a pair of images.  They have no errors of codes, which are small for typical
 * distances.
 */
static void
pair_bounds(const IndexState *state, const double *x, const double *y, double unit,
			float *const *bounds, uint32 pair)
{
	const IndexLayout *layout = &state->layout;
	bool		product = state->kind->metric == FASTED_METRIC_INNER_PRODUCT;
	double		rest_x = DoubleProduct(x, x, state->meta.dimensions);
	double		rest_y = DoubleProduct(y, y, state->meta.dimensions);
	double		sum = 0.0;

	for (uint32 l = 0; l < layout->levels; l++)
	{
		for (uint32 k = layout->first[l]; k < layout->first[l + 1]; k++)
		{
			sum += product ? -x[k] * y[k] : (x[k] - y[k]) * (x[k] - y[k]);
			rest_x = Max(rest_x - x[k] * x[k], 0.0);
			rest_y = Max(rest_y - y[k] * y[k], 0.0);
		}
		bounds[l][pair] = product ? sum - sqrt(rest_x * rest_y) : hypot(sqrt(sum), sqrt(rest_x) - sqrt(rest_y)) / unit;
	}
}

/* Appends the bounds of boxes of the index, for a vector.  Returns the number of bounds. */
static uint32
add_boxes(Relation index, const IndexState *state, const double *vector, double unit, float *bounds, uint32 count)
{
	const IndexLayout *layout = &state->layout;
	uint32		step = (state->meta.chunks - layout->null_chunks) / MOST_BOXES + 1;
	VectorQuery query;

	PrepareQuery(&query, state, vector);
	for (uint32 chunk = layout->null_chunks; chunk < state->meta.chunks; chunk += step)
	{
		Buffer		buffer = ReadIndexPage(index, BoxBlock(layout, chunk), BUFFER_LOCK_SHARE, BOX_PAGE,
										   SectionOf(layout, chunk), 0);

		bounds[count++] = BoxBound(&query, BoxOf(BufferGetPage(buffer), layout, chunk)) / unit;
		UnlockReleaseBuffer(buffer);
	}
	return count;
}

static int
compare_floats(const void *a, const void *b)
{
	float		x = *(const float *) a;
	float		y = *(const float *) b;

	return x < y ? -1 : x > y;
}

void
MeasureBounds(Relation index, IndexState *state, const double *vectors, uint32 n)
{
	IndexMeta  *meta = &state->meta;
	uint32		d = meta->dimensions;
	double	   *images[PAIR_ROWS];
	uint32		count = 0;
	uint32		pairs = 0;
	uint32		boxes = 0;
	float	   *bounds[BOX_LEVEL + 1];

	Assert(n <= PAIR_ROWS);
	for (uint32 l = 0; l <= BOX_LEVEL; l++)
		bounds[l] = palloc(PAIR_QUERIES * Max(MOST_BOXES, PAIR_ROWS) * sizeof(float));
	for (uint32 r = 0; r < n; r++)
	{
		const double *vector = vectors + (Size) r * d;
		/* for Jaccard distances, whose limit depends on the vector */
		double		unit = state->kind->metric == FASTED_METRIC_JACCARD ? VectorNorm(vector, d) : 1.0;
		double		norm;

		images[count] = palloc0((d + 31) * sizeof(double));
		norm = Project(state, vector, images[count]);
		if (norm < 0.0 || isinf(norm) || unit == 0.0)
			continue;
		if (count < PAIR_QUERIES)
			boxes = add_boxes(index, state, vector, unit, bounds[BOX_LEVEL], boxes);
		for (uint32 q = 0; q < Min(count, PAIR_QUERIES); q++)
			pair_bounds(state, images[q], images[count], unit, bounds, pairs++);
		count++;
		CHECK_FOR_INTERRUPTS();
	}
	for (uint32 l = 0; l <= BOX_LEVEL; l++)
	{
		meta->pairs[l] = l == BOX_LEVEL ? boxes : l < state->layout.levels ? pairs : 0;
		qsort(bounds[l], meta->pairs[l], sizeof(float), compare_floats);
		for (uint32 q = 0; q < QUANTILES && meta->pairs[l] > 0; q++)
			meta->quantiles[l][q] = bounds[l][(meta->pairs[l] - 1) >> q];
	}
}

/*
 * Returns the share of rows whose bounds by a level are at most the limit.  Between quantiles, and below the
 * smallest one, the share is a power of the bound.  For inner products, whose bounds may be negative, it is
 * exponential in the bound.
 */
static double
share_below(const IndexMeta *meta, uint32 level, double limit)
{
	const float *quantiles = meta->quantiles[level];
	uint32		q = 0;
	double		place;

	if (limit >= quantiles[0] || meta->pairs[level] < 2 * LEAST_PAIRS)
		return 1.0;
	while (q + 2 < QUANTILES && meta->pairs[level] >> (q + 2) >= LEAST_PAIRS && quantiles[q + 1] > limit)
		q++;
	if (meta->metric == FASTED_METRIC_INNER_PRODUCT)
		place = (quantiles[q] - limit) / (quantiles[q] - quantiles[q + 1]);
	else
		place = log(quantiles[q] / Max(limit, 0.0)) / log(quantiles[q] / Max(quantiles[q + 1], 0.0f));
	/* not a number: quantiles are equal, or zero */
	return exp2(-(q + (place >= 0.0 ? place : 1.0)));
}

/* --- the cost */

/* Returns the limit of a condition on the distance; NaN if the radius is unknown, or there are several balls. */
static double
limit_of(const IndexState *state, const Expr *clause)
{
	Node	   *ball = IsA(clause, OpExpr) ? lsecond(((const OpExpr *) clause)->args) : NULL;
	VectorQuery query = {.kind = state->kind,.unit = state->scale,.vector_norm = 1.0,.limit = INFINITY};
	double		radius;

	if (ball == NULL)
		return NAN;
	if (IsA(ball, FuncExpr) && list_length(((FuncExpr *) ball)->args) > 1)
	{
		Const	   *number = lsecond(((FuncExpr *) ball)->args);

		if (!IsA(number, Const) || number->constisnull || number->consttype != FLOAT8OID)
			return NAN;
		radius = DatumGetFloat8(number->constvalue);
	}
	else if (IsA(ball, Const) && !((Const *) ball)->constisnull)
		radius = DatumGetBall(((Const *) ball)->constvalue)->radius;
	else
		return NAN;
	if (!isnan(radius))
		SetLimit(&query, radius + state->meta.most_radius);
	return isnan(radius) ? NAN : query.limit;
}

/* Returns the number of scans for a condition: PostgreSQL scans the index for each element of an array. */
static double
scans_of(PlannerInfo *root, const Expr *clause)
{
	Node	   *array = IsA(clause, ScalarArrayOpExpr) ? lsecond(((const ScalarArrayOpExpr *) clause)->args) : NULL;

	if (array == NULL)
		return 1.0;
#if PG_VERSION_NUM >= 170000
	return Max(estimate_array_length(root, array), 1.0);
#else
	return Max(estimate_array_length(array), 1);
#endif
}

/*
 * Sets the shares of the index's rows that pass the levels, by the conditions on the vector; that of boxes is of
 * one of *scans scans.  Returns the share of the rows whose other columns are equal to the conditions'.
 */
static double
estimate_shares(PlannerInfo *root, const IndexPath *path, const IndexState *state, double *shares, double *scans)
{
	const IndexLayout *layout = &state->layout;
	double		equal = 1.0;
	ListCell   *cell;

	for (uint32 l = 0; l <= BOX_LEVEL; l++)
		shares[l] = 1.0;
	*scans = 1.0;
	foreach(cell, path->indexclauses)
	{
		const IndexClause *clause = lfirst_node(IndexClause, cell);
		RestrictInfo *rinfo = linitial_node(RestrictInfo, clause->indexquals);
		double		limit = clause->indexcol > 0 || state->meta.pairs[0] < 2 * LEAST_PAIRS ? NAN :
			limit_of(state, rinfo->clause);
		double		share = rinfo->norm_selec >= 0.0 ? rinfo->norm_selec :
			clause_selectivity(root, (Node *) rinfo, path->indexinfo->rel->relid, JOIN_INNER, NULL);
		double		values = scans_of(root, rinfo->clause);

		*scans *= values;
		if (clause->indexcol > 0)
			equal *= share;
		/* two of three bits of the key, by which rows are sorted, are those of hashes of this column */
		if (clause->indexcol == 1)
			shares[BOX_LEVEL] *= Max(share / values, pow(Max(state->meta.chunks, 1), -2.0 / 3.0));
		else if (!isnan(limit))
			shares[BOX_LEVEL] *= share_below(&state->meta, BOX_LEVEL, limit);
		for (uint32 l = 0; l < layout->levels && clause->indexcol == 0; l++)
			shares[l] *= !isnan(limit) ? share_below(&state->meta, l, limit) :
				Min(1.0, l + 1 < layout->levels ? PASSING_ROWS * share : share);
	}
	return equal;
}

void
IndexCostEstimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost,
				  Cost *total_cost, Selectivity *selectivity, double *correlation, double *pages)
{
	IndexOptInfo *info = path->indexinfo;
	Relation	index = index_open(info->indexoid, NoLock);
	IndexMeta	meta;
	const IndexState state = *ReadState(index, &meta);	/* estimates read catalogs */
	const IndexLayout *layout = &state.layout;
	double		shares[BOX_LEVEL + 1];
	double		scans;
	double		equal = estimate_shares(root, path, &state, shares, &scans);
	double		rows = Max(info->tuples, 1.0);
	double		returned = rows * equal * shares[layout->levels - 1];
	bool		ordered = path->indexorderbys != NIL;
	double		random_cost;
	double		page_cost;

	index_close(index, NoLock);
	get_tablespace_page_costs(info->reltablespace, &random_cost, &page_cost);
	*pages = meta.chunks * (1.0 / BOX_CHUNKS + Min(scans * shares[BOX_LEVEL], 1.0));
	*total_cost = scans * cpu_operator_cost *
		(meta.chunks * BOX_OPERATORS + rows * shares[BOX_LEVEL] * HEAD_OPERATORS +
		 ROTATION_OPERATORS * meta.dimensions * meta.reflections);
	*startup_cost = ordered ? *pages * page_cost + *total_cost : 0.0;
	for (uint32 l = 1; l < layout->levels; l++)
	{
		uint32		end = l + 1 < layout->levels ? layout->page[l + 1] : layout->chunk_pages;
		double		level_pages = (double) meta.chunks * (end - layout->page[l]);
		double		passed = rows * equal * Max(shares[l - 1], shares[l]);

		if (ordered)
			*startup_cost += FIRST_SHARE * passed * LEVEL_OPERATORS * cpu_operator_cost;
		*total_cost += passed * LEVEL_OPERATORS * cpu_operator_cost;
		*pages += level_pages * -expm1(-passed / Max(level_pages, 1.0));
	}
	/* further loops find the pages in memory */
	*total_cost += *pages * page_cost / (*pages < effective_cache_size ? loop_count : 1.0) +
		returned * (cpu_index_tuple_cost + (ordered ? ORDER_PAGES * random_cost : 0.0));
	*total_cost = Max(*total_cost, *startup_cost);
	*selectivity = Min(1.0, returned / Max(info->rel->tuples, 1.0));
	*correlation = 0.0;

	/*
	 * A query that uses no column could read the index alone.  A scan does not pin the pages of the rows
	 * that it returns, however, so that their visibility must be checked in the table.
	 */
	if (path->path.pathtype == T_IndexOnlyScan)
	{
		*startup_cost = 0.0;
		*total_cost = get_float8_infinity();
#if PG_VERSION_NUM >= 180000
		path->path.disabled_nodes = 2;
#endif
	}
}
