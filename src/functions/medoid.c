/*-------------------------------------------------------------------------
 *
 * medoid.c
 *	  Aggregate fasted_medoid: the row of a group with the least sum of distances to the others.
 *
 * Few of these sums are computed.  Each row has a lower bound of its sum, and the row with the least
 * bound is next, until all remaining bounds are greater than the least sum.  By cosine distance and
 * inner product, the bound is the sum itself, by the sum of all rows, but for rounding.  By Euclidean
 * distance, let f(x) be the sum of the distances of a point x from the group's rows y.  These bounds are
 * combined (J. Newling and F. Fleuret, A Sub-Quadratic Exact Medoid Algorithm, AISTATS 2017, use the
 * triangle inequality instead, which excludes few rows of many dimensions):
 *
 * - f is convex.  So f(x) >= f(p) + G.(x - p), where G is the sum of (p - y) / |p - y| over the rows
 *	 other than p.  This holds for each p whose sum has been computed, and for z, a point near the
 *	 minimum of f.
 * - Let u = y - z, v = x - z, and T = |u|^2 + |v|^2.  As sqrt(1 - s) >= 1 - s / 2 - s^2 / 2 for s <= 1,
 *	 |x - y| = sqrt(T - 2 u.v) >= sqrt(T) - u.v / sqrt(T) - 2 (u.v)^2 / sqrt(T)^3.  For all v of one
 *	 length, the sum over y is F - g.v - 2 v.Mv with the same F, g and M.  A row farther from z is on a
 *	 line from z through such a point z + t v with t <= 1, and f(x) >= f(z) + (f(z + t v) - f(z)) / t.
 *
 * Rows equal to one that has been computed have the same sum.  By Hamming and Jaccard distance, all
 * other sums are computed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/interrupts.h"
#include "base/row_numbers.h"
#include "distance/distance.h"
#include "join/row_set.h"
#include "miscadmin.h"
#include "parser/parse_oper.h"
#include "rows/reader.h"
#include "rows/vector.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Number of rows for which memory is allocated at first. */
#define FIRST_ROWS 8

/* Number of steps of Weiszfeld's algorithm from the mean to z. */
#define CENTRE_STEPS 10

/* Number of sums that are computed first, of the rows nearest to z. */
#define FIRST_SUMS 8

/* Number of further sums before M, which takes the time of two to three times as many. */
#define SUMS_BEFORE_M(dimensions) ((dimensions) / 16)

/* M takes 8 bytes for the square of this. */
#define MOST_DIMENSIONS_OF_M 4096

/* Squares of smaller distances may underflow, so rows that near to p or z are left out of slopes. */
#define LEAST_DISTANCE 1e-150

/* Number of bits of a double from the greatest to the least power of two, and one part that is zero. */
#define MOST_PARTS 2099

/* The rows of a group with a vector. */
typedef struct Group
{
	RowSink		sink;			/* first, because RowTaker passes it to the functions below */
	MemoryContext context;
	VectorSource *source;
	RowTaker   *taker;
	uint32		dimensions;
	Size		floats;			/* size of a row */
	float	   *rows;
	NullableDatum *ids;
	uint32		count;
	uint32		capacity;
	bool		id_by_value;
	int16		id_length;
} Group;

/* The search for the medoid of a group. */
typedef struct Search
{
	const Group *group;
	SortSupportData order;		/* of ids */
	uint32	   *left;			/* rows that may have the least sum, but have not been computed */
	uint32		nleft;
	double	   *bound;			/* of each row's sum; -infinity: none */
	double		rounding;		/* upper bound of relative errors of bounds and sums */
	uint32		nsums;			/* number of computed sums */
	uint32		best;			/* the row with the least sum so far, of several that with the least id */
	double		least;			/* this sum */

	/* Euclidean distance only */
	double	   *z;
	double		sum_z;			/* f(z) */
	double	   *distance_z;		/* of each row */
	double	   *point;			/* the last row whose sum was computed */
	double	   *slope;			/* its G */
	double	   *vector;			/* a vector for temporary use */
} Search;

/* --- arithmetic */

static pg_attribute_always_inline double
Dot(const double *x, const double *y, uint32 n)
{
	double		sums[8] = {0.0};
	uint32		k = 0;

	for (; k + 8 <= n; k += 8)
		for (int i = 0; i < 8; i++)
			sums[i] += x[k + i] * y[k + i];
	for (; k < n; k++)
		sums[0] += x[k] * y[k];
	return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

static pg_attribute_always_inline void
AddMultiple(double *sum, double factor, const double *x, uint32 n)
{
	for (uint32 k = 0; k < n; k++)
		sum[k] += factor * x[k];
}

static const float *
RowOf(const Group *group, uint32 row)
{
	return group->rows + row * group->floats;
}

/* Sets x to a row minus a point, NULL for zero.  Not of bits. */
static void
Difference(const Group *group, uint32 row, const double *point, double *x)
{
	const float *floats = RowOf(group, row);
	const double *doubles = (const double *) floats;
	uint32		n = group->dimensions;

	if (group->source->element == FASTED_ELEMENT_DOUBLE)
		memcpy(x, doubles, n * sizeof(double));
	else
		for (uint32 k = 0; k < n; k++)
			x[k] = floats[k];
	if (point != NULL)
		for (uint32 k = 0; k < n; k++)
			x[k] -= point[k];
}

static double *
AllocDoubles(Size n)
{
	return MemoryContextAllocExtended(CurrentMemoryContext, Max(n, 1) * sizeof(double),
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

/*
 * Replaces the bound of a row by a greater one, which errors of this scale may have affected, and
 * underflow in each distance.
 */
static void
RaiseBound(Search *search, uint32 row, double bound, double scale)
{
	bound -= search->rounding * (scale + search->group->count * (LEAST_DISTANCE * 1e20));
	/* false for NaN, after an overflow */
	if (bound > search->bound[row])
		search->bound[row] = bound;
}

/* --- bounds from the sum of all rows: cosine distance and inner product */

static void
BoundBySum(Search *search, bool cosine)
{
	const Group *group = search->group;
	uint32		n = group->dimensions;
	double	   *sum = AllocDoubles(n);
	double	   *x = search->vector;
	double		lengths = 0.0;

	for (int pass = 0; pass < 2; pass++)
		for (uint32 row = 0; row < group->count; row++)
		{
			double		square;
			double		scale;

			CheckJoinInterrupts();
			Difference(group, row, NULL, x);
			square = Dot(x, x, n);
			scale = cosine ? 1.0 / sqrt(square) : 1.0;
			if (pass == 1)
				RaiseBound(search, row, (cosine ? group->count : square) - scale * Dot(x, sum, n),
						   scale * sqrt(square) * lengths);
			else
			{
				AddMultiple(sum, scale, x, n);
				lengths += scale * sqrt(square);
			}
		}
	pfree(sum);
}

/* --- bounds by Euclidean distance */

/*
 * Sets z to the mean, then approximately to the point with the least sum of distances.  Sets f(z) and the
 * distances from z, and bounds by its slope.
 */
static void
BoundByCentre(Search *search)
{
	const Group *group = search->group;
	uint32		n = group->dimensions;
	double	   *u = search->vector;
	double	   *toward = search->slope;

	for (int step = 0; step <= CENTRE_STEPS + 1; step++)
	{
		double		weights = 0.0;

		memset(toward, 0, n * sizeof(double));
		search->sum_z = 0.0;
		for (uint32 row = 0; row < group->count; row++)
		{
			double		distance;
			double		weight;

			CheckJoinInterrupts();
			Difference(group, row, search->z, u);
			search->distance_z[row] = distance = sqrt(Dot(u, u, n));
			search->sum_z += distance;
			weight = step == 0 ? 1.0 : distance > LEAST_DISTANCE ? 1.0 / distance : 0.0;
			AddMultiple(toward, weight, u, n);
			weights += weight;
		}
		if (weights > 0.0 && step <= CENTRE_STEPS)
			AddMultiple(search->z, 1.0 / weights, toward, n);
	}
	for (uint32 row = 0; row < group->count; row++)
	{
		CheckJoinInterrupts();
		Difference(group, row, search->z, u);
		RaiseBound(search, row, search->sum_z - Dot(toward, u, n),
				   search->sum_z + group->count * search->distance_z[row]);
	}
}

/* Returns x.Mx.  M has its upper triangle only; y is a vector for temporary use. */
static double
Form(const double *m, const double *x, double *y, uint32 n)
{
	double		diagonal = 0.0;

	memset(y, 0, n * sizeof(double));
	for (uint32 k = 0; k < n; k++)
	{
		diagonal += m[(Size) k * n + k] * x[k] * x[k];
		AddMultiple(y + k + 1, x[k], m + (Size) k * n + k + 1, n - k - 1);
	}
	return diagonal + 2.0 * Dot(x, y, n);
}

/* Raises the bounds of the remaining rows by M, for the length of v of the nearest of them. */
static void
BoundByForm(Search *search)
{
	const Group *group = search->group;
	uint32		n = group->dimensions;
	double	   *m = AllocDoubles((Size) n * n);
	double	   *g = AllocDoubles(n);
	double	   *y = AllocDoubles(n);
	double	   *u = search->vector;
	double		radius = INFINITY;
	double		f = 0.0;

	for (uint32 i = 0; i < search->nleft; i++)
		radius = Min(radius, search->distance_z[search->left[i]]);
	for (uint32 row = 0; row < group->count && radius > LEAST_DISTANCE; row++)
	{
		double		root = hypot(search->distance_z[row], radius);

		CheckJoinInterrupts();
		Difference(group, row, search->z, u);
		f += root;
		AddMultiple(g, 1.0 / root, u, n);
		for (uint32 k = 0; k < n; k++)
			AddMultiple(m + (Size) k * n + k, u[k] / root / root / root, u + k, n - k);
	}
	for (uint32 i = 0; i < search->nleft && radius > LEAST_DISTANCE; i++)
	{
		uint32		row = search->left[i];
		double		t = radius / search->distance_z[row];

		CheckJoinInterrupts();
		Difference(group, row, search->z, u);
		for (uint32 k = 0; k < n; k++)
			u[k] *= t;
		RaiseBound(search, row,
				   search->sum_z + (f - Dot(g, u, n) - 2.0 * Form(m, u, y, n) - search->sum_z) / t, f / t);
	}
	pfree(m);
	pfree(g);
	pfree(y);
}

/* --- sums */

/*
 * Adds a number to an exact sum: n parts without common bits, the least first, or a single part that is
 * not finite (J. R. Shewchuk, Adaptive Precision Floating-Point Arithmetic, 1997).  Returns the new n.
 */
static uint32
AddExactly(double *parts, uint32 n, double x)
{
	uint32		kept = 0;

	for (uint32 i = 0; i < n; i++)
	{
		double		y = parts[i];
		double		sum = x + y;
		double		error = fabs(x) < fabs(y) ? x - (sum - y) : y - (sum - x);

		if (error != 0.0)
			parts[kept++] = error;
		x = sum;
	}
	if (!isfinite(x))
		kept = 0;
	parts[kept] = x;
	return kept + 1;
}

/* Returns this sum, rounded once. */
static double
RoundParts(const double *parts, uint32 n)
{
	double		sum = 0.0;
	double		error = 0.0;

	while (n > 0 && error == 0.0)
	{
		double		before = sum;

		sum += parts[--n];
		error = parts[n] - (sum - before);
	}
	/* the next part decides between two doubles at the same distance */
	if (n > 0 && (error < 0.0) == (parts[n - 1] < 0.0) && (sum + 2.0 * error) - sum == 2.0 * error)
		sum += 2.0 * error;
	return isnan(sum) ? INFINITY : sum;
}

/*
 * Returns the sum of the distances of a row from the others, rounded once, so that rows with the same
 * distances have equal sums.  By Euclidean distance, also sets the slope.
 */
static double
SumOfDistances(Search *search, uint32 row)
{
	const Group *group = search->group;
	const VectorSource *source = group->source;
	uint32		n = group->dimensions;
	double		parts[MOST_PARTS];
	uint32		nparts = 0;

	if (search->slope != NULL)
	{
		memset(search->slope, 0, n * sizeof(double));
		Difference(group, row, NULL, search->point);
	}
	for (uint32 other = 0; other < group->count; other++)
	{
		double		distance;

		CHECK_FOR_INTERRUPTS();
		if (other == row)
			continue;
		distance = ExactDistance(source->metric, source->element, RowOf(group, row),
								 RowOf(group, other), n);
		nparts = AddExactly(parts, nparts, distance);
		if (search->slope == NULL || !(distance > LEAST_DISTANCE))
			continue;
		Difference(group, other, search->point, search->vector);
		AddMultiple(search->slope, -1.0 / distance, search->vector, n);
	}
	return RoundParts(parts, nparts);
}

/* Makes a row the best one if its sum is less, or the same and its id comes before. */
static void
Offer(Search *search, uint32 row, double sum)
{
	const NullableDatum *id = &search->group->ids[row];
	const NullableDatum *best = &search->group->ids[search->best];

	if (search->nsums > 0 &&
		(sum > search->least ||
		 (sum == search->least && ApplySortComparator(id->value, id->isnull, best->value, best->isnull,
													  &search->order) >= 0)))
		return;
	search->best = row;
	search->least = sum;
}

/*
 * Removes rows that are equal to this one, whose sum has been computed, or have a greater sum than the
 * least one by their bounds.  By Euclidean distance, these are raised by the slope before.
 */
static void
RemoveRows(Search *search, uint32 row, double sum)
{
	const Group *group = search->group;
	uint32		n = group->dimensions;
	uint32		kept = 0;

	for (uint32 i = 0; i < search->nleft; i++)
	{
		uint32		other = search->left[i];

		CHECK_FOR_INTERRUPTS();
		if (memcmp(RowOf(group, row), RowOf(group, other), group->floats * sizeof(float)) == 0)
		{
			Offer(search, other, sum);
			continue;
		}
		if (search->slope != NULL)
		{
			Difference(group, other, search->point, search->vector);
			RaiseBound(search, other, sum + Dot(search->slope, search->vector, n),
					   sum + group->count * (search->distance_z[row] + search->distance_z[other]));
		}
		if (!(search->bound[other] > search->least))
			search->left[kept++] = other;
	}
	search->nleft = kept;
}

/* Removes and returns the next row to compute. */
static uint32
NextRow(Search *search)
{
	bool		nearest = search->slope != NULL && search->nsums < FIRST_SUMS;
	const double *key = nearest ? search->distance_z : search->bound;
	uint32		next = 0;
	uint32		row;

	for (uint32 i = 1; i < search->nleft; i++)
		if (key[search->left[i]] < key[search->left[next]])
			next = i;
	row = search->left[next];
	search->left[next] = search->left[--search->nleft];
	return row;
}

/* Returns the medoid of a group with at least one row.  Allocates in the current memory context. */
static uint32
FindMedoid(const Group *group, const SortSupportData *order)
{
	FastedMetric metric = group->source->metric;
	uint32		n = group->dimensions;
	Search		search = {.group = group,.order = *order,.nleft = group->count};

	search.left = OwnRowNumbers(group->count);
	search.bound = AllocDoubles(group->count);
	for (uint32 row = 0; row < group->count; row++)
		search.bound[row] = -INFINITY;
	search.vector = AllocDoubles(n);
	search.rounding = ((double) group->count + n + 64.0) * 0x1p-50;
	if (metric == FASTED_METRIC_L2)
	{
		search.z = AllocDoubles(n);
		search.point = AllocDoubles(n);
		search.slope = AllocDoubles(n);
		search.distance_z = AllocDoubles(group->count);
		BoundByCentre(&search);
	}
	else if (metric == FASTED_METRIC_COSINE || metric == FASTED_METRIC_INNER_PRODUCT)
		BoundBySum(&search, metric == FASTED_METRIC_COSINE);
	while (search.nleft > 0)
	{
		uint32		row = NextRow(&search);
		double		sum = SumOfDistances(&search, row);

		Offer(&search, row, sum);
		search.nsums++;
		RemoveRows(&search, row, sum);
		if (search.nsums == FIRST_SUMS + SUMS_BEFORE_M(n) && search.nleft > n &&
			n <= MOST_DIMENSIONS_OF_M && search.slope != NULL)
			BoundByForm(&search);
	}
	return search.best;
}

/* --- the rows of a group: RowSink */

static void
SetDimensions(RowSink *sink, int dimensions, const char *row_name)
{
	Group	   *group = (Group *) sink;

	group->dimensions = (uint32) dimensions;
	group->floats = RowFloats(group->source->element, group->dimensions);
	group->capacity = FIRST_ROWS;
	group->rows = MemoryContextAlloc(group->context, FIRST_ROWS * group->floats * sizeof(float));
	group->ids = MemoryContextAlloc(group->context, FIRST_ROWS * sizeof(NullableDatum));
}

/* Returns space for one row. */
static size_t
BufferForRows(RowSink *sink, float **buffer)
{
	Group	   *group = (Group *) sink;

	if (group->count == group->capacity)
	{
		if (group->count > FASTED_MAX_ROWS / 2)
			ReportManyRows(NULL);
		group->capacity *= 2;
		group->rows = repalloc_huge(group->rows, group->capacity * group->floats * sizeof(float));
		group->ids = repalloc_huge(group->ids, group->capacity * sizeof(NullableDatum));
	}
	*buffer = group->rows + group->count * group->floats;
	return 1;
}

static void
TakeRows(RowSink *sink, const Datum *keys, size_t nrows)
{
	((Group *) sink)->count += nrows;
}

/* The arguments of a call: state, vector, id, and metric or nothing. */
static FastedMetric
MetricArgument(FunctionCallInfo fcinfo)
{
	if (PG_NARGS() <= 3)
		return FASTED_METRIC_L2;
	if (PG_ARGISNULL(3))
		ReportNullArgument("fasted_medoid", "metric");
	return MetricFromText(PG_GETARG_TEXT_PP(3));
}

/* Begins a group. */
static Group *
BeginGroup(FunctionCallInfo fcinfo, MemoryContext parent, FastedMetric metric)
{
	MemoryContext context = AllocSetContextCreate(parent, "fasted medoid", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Group	   *group = palloc0(sizeof(Group));

	group->sink = (RowSink) {
		.set_dimensions = SetDimensions,.buffer_for_rows = BufferForRows,.take_rows = TakeRows
	};
	group->context = context;
	group->source = ResolveValues(get_fn_expr_argtype(fcinfo->flinfo, 1), metric, "fasted_medoid");
	group->source->skip_zeros = fasted_metric_rules(metric)->has_direction;
	group->taker = RowTakerCreate(group->source, &group->sink);
	get_typlenbyval(get_fn_expr_argtype(fcinfo->flinfo, 2), &group->id_length, &group->id_by_value);
	MemoryContextSwitchTo(old);
	return group;
}

PG_FUNCTION_INFO_V1(fasted_internal_medoid_add);

/* The transition function: adds a row to the group, unless its vector is null or has no direction. */
Datum
fasted_internal_medoid_add(PG_FUNCTION_ARGS)
{
	MemoryContext context;
	MemoryContext old;
	FastedMetric metric = MetricArgument(fcinfo);
	Group	   *group;
	uint32		count;

	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "fasted_internal.medoid_add was called outside of an aggregate");
	group = PG_ARGISNULL(0) ? BeginGroup(fcinfo, context, metric) : (Group *) PG_GETARG_POINTER(0);
	if (metric != group->source->metric)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"metric\" of fasted_medoid differs within a group")));
	count = group->count;
	old = MemoryContextSwitchTo(group->context);
	(void) TakeSourceRow(group->taker, Int64GetDatum(group->taker->tuples + 1), false, PG_GETARG_DATUM(1),
						 PG_ARGISNULL(1), group->source->vector_type);
	if (group->count > count)
	{
		NullableDatum *id = &group->ids[count];

		id->isnull = PG_ARGISNULL(2);
		id->value = id->isnull ? (Datum) 0 :
			datumCopy(PG_GETARG_DATUM(2), group->id_by_value, group->id_length);
	}
	MemoryContextSwitchTo(old);
	PG_RETURN_POINTER(group);
}

PG_FUNCTION_INFO_V1(fasted_internal_medoid);

/* The final function.  A group without a row has no medoid. */
Datum
fasted_internal_medoid(PG_FUNCTION_ARGS)
{
	const Group *group = PG_ARGISNULL(0) ? NULL : (const Group *) PG_GETARG_POINTER(0);
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 2);
	SortSupportData order = {0};
	MemoryContext context;
	MemoryContext old;
	const NullableDatum *id;

	/* error: ids have no order */
	get_sort_group_operators(type, true, false, false, NULL, NULL, NULL, NULL);
	if (group == NULL || group->count == 0)
		PG_RETURN_NULL();
	context = AllocSetContextCreate(CurrentMemoryContext, "fasted medoid search", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	PrepareTypeOrder(type, PG_GET_COLLATION(), context, &order);
	id = &group->ids[FindMedoid(group, &order)];
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (id->isnull)
		PG_RETURN_NULL();
	return id->value;
}
