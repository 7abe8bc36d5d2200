/*-------------------------------------------------------------------------
 *
 * estimate.c
 *	  Estimates from the statistics of ANALYZE: dimensions, distinct values, the selectivity of a
 *	  bound on the distance of two vectors.
 *
 * For vectors of up to about 1 kB, ANALYZE stores about 100 of them as histogram bounds, and
 * the most common values if some are equal.  The distances between these vectors are
 * a sample of all distances.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_statistic.h"
#include "distance/distance.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "rows/vector.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"

/* Assumed number of rows within eps of each row, without statistics. */
#define DEFAULT_NEIGHBOURS 10.0

/* Maximum number of vectors in the sample; more would cost planning time. */
#define MAX_SAMPLE 128

/* A fraction based on fewer pairs of the sample than this is extrapolated. */
#define ENOUGH_PAIRS 8

typedef struct ColumnSample
{
	VectorSource source;		/* form, element and metric of the rows: bits, or else doubles */
	Oid			cast;			/* converts column values to real[]; InvalidOid: none */
	int			count;
	int			dimensions;
	double		weight[MAX_SAMPLE]; /* fraction of rows that it represents */
	bool		common[MAX_SAMPLE]; /* it is one of the most common values */
	float	   *rows[MAX_SAMPLE];
} ColumnSample;

typedef struct Distance
{
	double		distance;
	double		weight;			/* fraction of all pairs */
} Distance;

/* --- statistics of a column */

/*
 * Returns the row of pg_statistic, for ReleaseSysCache.  children asks for the statistics that
 * include child tables.  Returns NULL if there is none, or the current user may not see it.
 * The current user is also the one who reads the table later, even within a view, because
 * the function runs as its caller.
 */
static HeapTuple
ColumnStatistics(Oid relid, AttrNumber column, bool children)
{
	bool		inherited;
	HeapTuple	tuple;

	/* the same conditions as in the view pg_stats */
	if (!OidIsValid(get_atttype(relid, column)) || !MayRead(relid, column) ||
		check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		return NULL;
	inherited = children && has_subclass(relid);
	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid),
							Int16GetDatum(column), BoolGetDatum(inherited));

	/* only one of the two may exist: autovacuum analyzes a parent only when its own rows change */
	if (!HeapTupleIsValid(tuple))
		tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid),
								Int16GetDatum(column), BoolGetDatum(!inherited));
	return tuple;
}

/*
 * The modifier of a vector type, such as bit or pgvector's, is its number of dimensions.  For arrays,
 * ANALYZE stores the average number of distinct elements, which for typical vectors is close to the
 * number of dimensions.
 */
double
KnownDimensions(Oid relid, AttrNumber column)
{
	Oid			type = get_atttype(relid, column);
	int32		typmod;
	Oid			collation;
	HeapTuple	tuple;
	AttStatsSlot slot;
	double		dimensions = 0.0;

	if (!OidIsValid(type))
		return 0.0;
	get_atttypetypmodcoll(relid, column, &type, &typmod, &collation);
	type = getBaseTypeAndTypmod(type, &typmod);
	if (typmod > 0 && !OidIsValid(get_base_element_type(type)))
		return FormOfType(type) == VECTOR_BIT ? RowFloats(FASTED_ELEMENT_BIT, typmod) : (uint32) typmod;
	tuple = ColumnStatistics(relid, column, true);
	if (!HeapTupleIsValid(tuple))
		return 0.0;
	if (get_attstatsslot(&slot, tuple, STATISTIC_KIND_DECHIST, InvalidOid, ATTSTATSSLOT_NUMBERS))
	{
		if (slot.nnumbers > 0)
			dimensions = slot.numbers[slot.nnumbers - 1];
		free_attstatsslot(&slot);
	}
	ReleaseSysCache(tuple);
	return dimensions;
}

/* stadistinct is a count if positive, minus a fraction of the rows if negative, 0 if unknown. */
double
EstimateGroups(Oid relid, AttrNumber column, double rows)
{
	HeapTuple	tuple = ColumnStatistics(relid, column, true);
	double		distinct = 0.0;

	if (HeapTupleIsValid(tuple))
	{
		distinct = ((Form_pg_statistic) GETSTRUCT(tuple))->stadistinct;
		ReleaseSysCache(tuple);
	}
	if (distinct <= 0.0)
		distinct = distinct < 0.0 ? -distinct * rows : DEFAULT_NUM_DISTINCT;
	return Max(1.0, Min(distinct, rows));
}

/* --- the fraction of pairs within a distance */

/* Adds one vector, unless it is invalid or differs from the first in its number of dimensions. */
static void
AddToSample(ColumnSample *sample, Datum value, double weight, bool common)
{
	const VectorSource *source = &sample->source;
	struct varlena *vector = PG_DETOAST_DATUM(OidIsValid(sample->cast) ?
											  OidFunctionCall3(sample->cast, value, Int32GetDatum(-1),
															   BoolGetDatum(false)) : value);
	int			element;
	int			n;
	float	   *row;

	if (sample->count == MAX_SAMPLE || VectorShape(vector, source->form, &n) != VECTOR_OK ||
		n > (int) FASTED_MAX_DIMENSIONS || (sample->count > 0 && n != sample->dimensions))
		return;
	row = palloc(RowBytes(source->element, n));
	if (VectorElements(vector, source, n, row, &element) != VECTOR_OK)
		return;
	sample->dimensions = n;
	sample->weight[sample->count] = weight;
	sample->common[sample->count] = common;
	sample->rows[sample->count++] = row;
}

static void
ReadSample(ColumnSample *sample, HeapTuple statistics)
{
	double		rest = 1.0;
	AttStatsSlot slot;

	sample->count = 0;
	if (get_attstatsslot(&slot, statistics, STATISTIC_KIND_MCV, InvalidOid,
						 ATTSTATSSLOT_VALUES | ATTSTATSSLOT_NUMBERS))
	{
		/* the most common values are sorted by frequency; leave space for the histogram */
		for (int i = 0; i < slot.nvalues && i < MAX_SAMPLE / 2; i++)
		{
			AddToSample(sample, slot.values[i], slot.numbers[i], true);
			rest -= slot.numbers[i];
		}
		free_attstatsslot(&slot);
	}
	if (get_attstatsslot(&slot, statistics, STATISTIC_KIND_HISTOGRAM, InvalidOid,
						 ATTSTATSSLOT_VALUES))
	{
		int			step = 1 + slot.nvalues / (MAX_SAMPLE - sample->count + 1);

		for (int i = 0; i < slot.nvalues; i += step)
			AddToSample(sample, slot.values[i], Max(rest, 0.0) * step / slot.nvalues, false);
		free_attstatsslot(&slot);
	}
}

/* Distance between two vectors of the sample; infinite if there is none (a zero vector, cosine). */
static double
SampleDistance(const ColumnSample *sample, int i, int j)
{
	double		distance = ExactDistance(sample->source.metric, sample->source.element,
										 sample->rows[i], sample->rows[j], sample->dimensions);

	return isnan(distance) ? HUGE_VAL : distance;
}

static int
CompareDistances(const void *a, const void *b)
{
	double		x = ((const Distance *) a)->distance;
	double		y = ((const Distance *) b)->distance;

	return (x > y) - (x < y);
}

/*
 * Extrapolates the fraction of pairs within eps to small eps.  Below the smallest distances of the
 * sample, the fraction is a power of the distance.  The exponent is the intrinsic dimension of
 * the data, estimated from distances between which the fraction doubles a few times.
 * distances: sorted, more than ENOUGH_PAIRS.  Distances and eps are those beyond `least`.
 */
static double
Extrapolate(const Distance *distances, int count, double eps, double least)
{
	int			near = ENOUGH_PAIRS - 1;
	int			far = Min(count - 1, 16 * ENOUGH_PAIRS - 1);
	double		share = 0.0;
	double		dimension;

	double		near_distance = distances[near].distance - least;
	double		far_distance = distances[far].distance - least;

	for (int i = 0; i <= near; i++)
		share += distances[i].weight;
	if (near_distance <= 0.0 || far_distance <= near_distance)
		return share;
	dimension = log((far + 1.0) / (near + 1.0)) / log(far_distance / near_distance);
	return share * pow(fmax(eps - least, 0.0) / near_distance, dimension);
}

/* Returns the fraction of all pairs within eps. */
static double
SampleShare(const ColumnSample *sample, double eps)
{
	int			count = 0;
	int			within = 0;
	double		share = 0.0;
	double		equal = 0.0;
	double		least = 0.0;	/* no pair is closer: minus the greatest square, for inner products */
	Distance   *distances = palloc(sizeof(Distance) * sample->count * sample->count);

	for (int i = 0; i < sample->count; i++)
	{
		double		own = SampleDistance(sample, i, i);

		least = fmin(least, own);
		/* equal rows need not be within eps: zero vectors with cosine, or without bits with jaccard */
		if (sample->common[i] && own <= eps)
			equal += sample->weight[i] * sample->weight[i];
		for (int j = 0; j < i; j++)
		{
			Distance   *d = &distances[count++];

			d->distance = SampleDistance(sample, i, j);
			d->weight = 2.0 * sample->weight[i] * sample->weight[j];
			if (d->distance <= eps)
			{
				within++;
				share += d->weight;
			}
		}
	}
	if (within < ENOUGH_PAIRS && count > ENOUGH_PAIRS)
	{
		qsort(distances, count, sizeof(Distance), CompareDistances);
		share = Extrapolate(distances, count, eps, least);
	}
	pfree(distances);
	return Min(share + equal, 1.0);
}

/*
 * Sets form, element and cast.  Returns true if the column is of bits or floats, or its type has a
 * trusted cast to real[].  Only casts in C, such as those of pgvector, are trusted: the cast runs
 * during planning, with the privileges of the user.
 */
static bool
FindCast(Oid relid, AttrNumber column, ColumnSample *sample)
{
	Oid			type = getBaseType(get_atttype(relid, column));
	HeapTuple	tuple;
	bool		trusted;

	sample->cast = InvalidOid;
	sample->source.form = FormOfType(type);
	sample->source.element = sample->source.form == VECTOR_BIT ? FASTED_ELEMENT_BIT : FASTED_ELEMENT_DOUBLE;
	if (sample->source.form == VECTOR_BIT || OidIsValid(get_element_type(type)))
		return sample->source.form != VECTOR_NUMERIC &&
			(sample->source.form != VECTOR_FLOAT4 || type == FLOAT4ARRAYOID);
	if (find_coercion_pathway(FLOAT4ARRAYOID, type, COERCION_EXPLICIT, &sample->cast) != COERCION_PATH_FUNC)
		return false;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(sample->cast));
	if (!HeapTupleIsValid(tuple))
		return false;
	trusted = ((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId;
	ReleaseSysCache(tuple);
	return trusted;
}

double
ShareWithin(Oid relid, AttrNumber column, bool children, FastedMetric metric, double eps)
{
	const MetricRules *rules = fasted_metric_rules(metric);
	HeapTuple	statistics;
	ColumnSample *sample;
	double		share = -1.0;
	double		covered = 0.0;

	if (eps >= rules->greatest)
		return 1.0;
	statistics = ColumnStatistics(relid, column, children);
	if (!HeapTupleIsValid(statistics))
		return -1.0;
	sample = palloc0(sizeof(ColumnSample));
	sample->source.metric = metric;
	if (FindCast(relid, column, sample) && (sample->source.form == VECTOR_BIT) == rules->of_bits)
	{
		ReadSample(sample, statistics);
		for (int i = 0; i < sample->count; i++)
			covered += sample->weight[i];
		/* there are enough vectors, or they represent most rows */
		if (sample->count >= 2 * ENOUGH_PAIRS || covered > 0.9)
			share = SampleShare(sample, eps);
	}
	ReleaseSysCache(statistics);
	return share;
}

/* The only column of a table in the vector expression; NULL if there is none, or several. */
static Var *
OnlyColumn(PlannerInfo *root, Node *vector)
{
	/* in HAVING, the expression may contain aggregates */
	List	   *vars = pull_var_clause(vector, PVC_RECURSE_PLACEHOLDERS | PVC_INCLUDE_AGGREGATES |
									   PVC_INCLUDE_WINDOWFUNCS);
	Var		   *var = list_length(vars) == 1 ? linitial(vars) : NULL;

	if (var == NULL || !IsA(var, Var) || var->varlevelsup > 0 || IS_SPECIAL_VARNO(var->varno) ||
		var->varattno <= 0 || planner_rt_fetch(var->varno, root)->rtekind != RTE_RELATION)
		return NULL;
	return var;
}

double
EstimateSelectivity(PlannerInfo *root, Node *a, Node *b, Node *eps, FastedMetric metric)
{
	Node	   *radius = eps == NULL ? NULL : estimate_expression_value(root, eps);
	bool		known = radius != NULL && IsA(radius, Const);
	Var		   *columns[2] = {OnlyColumn(root, a), OnlyColumn(root, b)};
	double		rows = DEFAULT_NEIGHBOURS;
	double		selectivity = -1.0;

	if (known && ((Const *) radius)->constisnull)
		return 0.0;
	if (columns[0] != NULL && columns[1] != NULL && columns[0]->varattno == columns[1]->varattno &&
		planner_rt_fetch(columns[0]->varno, root)->relid == planner_rt_fetch(columns[1]->varno, root)->relid)
		columns[1] = NULL;
	/* for two columns, use the greater fraction */
	for (int i = 0; i < 2; i++)
	{
		double		distance = known ? DatumGetFloat8(((Const *) radius)->constvalue) : 0.0;
		const RangeTblEntry *rte;
		const RelOptInfo *rel;

		if (columns[i] == NULL)
			continue;
		rel = root->simple_rel_array == NULL ? NULL : root->simple_rel_array[columns[i]->varno];
		if (rel != NULL)
			rows = Max(rows, rel->tuples);
		rte = planner_rt_fetch(columns[i]->varno, root);
		if (known && distance >= LeastDistance(metric))
			selectivity = Max(selectivity, ShareWithin(rte->relid, columns[i]->varattno, rte->inh,
													   metric, distance));
	}
	return selectivity >= 0.0 ? selectivity : Min(1.0, DEFAULT_NEIGHBOURS / rows);
}
