/*-------------------------------------------------------------------------
 *
 * statistics.c
 *	  Reads pg_statistic, and estimates distances between rows from it.
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
#include "engine/exact_distance.h"
#include "fmgr.h"
#include "parser/parse_coerce.h"
#include "rows/vector.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"

/* Maximum number of vectors in the sample; more would cost planning time. */
#define MAX_SAMPLE 128

/* A fraction based on fewer pairs of the sample than this is extrapolated. */
#define ENOUGH_PAIRS 8

typedef struct ColumnSample
{
	Oid			cast;			/* converts column values to real[]; InvalidOid: none */
	VectorForm	form;			/* of the values, or of the converted values */
	FastedElement element;		/* of rows: bits, or doubles for all other forms */
	int			count;
	int			dimensions;
	double		longest;		/* greatest squared length, for inner products; else 0 */
	double		weight[MAX_SAMPLE]; /* fraction of rows that it represents */
	bool		common[MAX_SAMPLE]; /* it is one of the most common values */
	void	   *rows[MAX_SAMPLE];
} ColumnSample;

typedef struct Distance
{
	double		distance;
	double		weight;			/* fraction of all pairs */
} Distance;

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

/* Gets the fraction of nulls and stadistinct; returns false if there are no statistics. */
static bool
ReadNumbers(Oid relid, AttrNumber column, double *null_share, double *distinct)
{
	HeapTuple	tuple = ColumnStatistics(relid, column, true);

	if (!HeapTupleIsValid(tuple))
		return false;
	*null_share = ((Form_pg_statistic) GETSTRUCT(tuple))->stanullfrac;
	*distinct = ((Form_pg_statistic) GETSTRUCT(tuple))->stadistinct;
	ReleaseSysCache(tuple);
	return true;
}

double
NullVectors(Oid relid, AttrNumber column)
{
	double		share;
	double		distinct;

	return ReadNumbers(relid, column, &share, &distinct) ? share : 0.0;
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

/* Adds one vector, unless it is invalid or differs from the first in its number of dimensions. */
static void
AddToSample(ColumnSample *sample, Datum value, double weight, bool common)
{
	struct varlena *vector = PG_DETOAST_DATUM(OidIsValid(sample->cast) ?
											  OidFunctionCall3(sample->cast, value, Int32GetDatum(-1),
															   BoolGetDatum(false)) : value);
	VectorSource source = {.form = sample->form,.element = sample->element};
	int			element;
	int			n;
	void	   *row;

	if (sample->count == MAX_SAMPLE || VectorShape(vector, sample->form, &n) != VECTOR_OK ||
		n > (int) FASTED_MAX_DIMENSIONS || (sample->count > 0 && n != sample->dimensions))
		return;
	row = palloc(RowBytes(sample->element, n));
	if (VectorElements(vector, &source, n, row, &element) != VECTOR_OK)
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

/* Normalizes a vector to length one; the elements of a zero vector become NaN. */
static void
Normalize(double *row, int dimensions)
{
	double		sum = 0.0;

	fasted_scale_direction(row, dimensions);
	for (int k = 0; k < dimensions; k++)
		sum += row[k] * row[k];
	for (int k = 0; k < dimensions; k++)
		row[k] /= sqrt(sum);
}

/*
 * Distance between two vectors of the sample.  With cosine, they have length one, so it is half
 * the squared Euclidean distance.  It is infinite if either vector is zero.  For inner products,
 * the greatest squared length is added, so that it is not negative.
 */
static double
SampleDistance(const ColumnSample *sample, const MetricRules *rules, int i, int j)
{
	const double *x = sample->rows[i];
	const double *y = sample->rows[j];
	uint32		words = fasted_bit_words(sample->dimensions);
	double		sum = 0.0;

	if (rules->negative_product)
		return sample->longest - fasted_exact_dot_double(x, y, sample->dimensions);
	if (rules->of_bits)
		return rules->is_count ? fasted_exact_hamming(sample->rows[i], sample->rows[j], words) :
			fasted_exact_jaccard(sample->rows[i], sample->rows[j], words);
	for (int k = 0; k < sample->dimensions; k++)
	{
		double		difference = x[k] - y[k];

		sum += difference * difference;
	}
	if (rules->has_direction)
		return isnan(sum) ? HUGE_VAL : sum / 2.0;
	return sqrt(sum);
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
 * distances: sorted, more than ENOUGH_PAIRS.
 */
static double
Extrapolate(const Distance *distances, int count, double eps)
{
	int			near = ENOUGH_PAIRS - 1;
	int			far = Min(count - 1, 16 * ENOUGH_PAIRS - 1);
	double		share = 0.0;
	double		dimension;

	for (int i = 0; i <= near; i++)
		share += distances[i].weight;
	if (distances[near].distance <= 0.0 || distances[far].distance <= distances[near].distance)
		return share;
	dimension = log((far + 1.0) / (near + 1.0)) /
		log(distances[far].distance / distances[near].distance);
	return share * pow(fmax(eps, 0.0) / distances[near].distance, dimension);
}

static double
SampleShare(const ColumnSample *sample, const MetricRules *rules, double eps)
{
	int			count = 0;
	int			within = 0;
	double		share = 0.0;
	double		equal = 0.0;
	Distance   *distances = palloc(sizeof(Distance) * sample->count * sample->count);

	for (int i = 0; i < sample->count; i++)
	{
		/* equal rows need not be within eps: zero vectors with cosine, or without bits with jaccard */
		if (sample->common[i] && SampleDistance(sample, rules, i, i) <= eps)
			equal += sample->weight[i] * sample->weight[i];
		for (int j = 0; j < i; j++)
		{
			Distance   *d = &distances[count++];

			d->distance = SampleDistance(sample, rules, i, j);
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
		share = Extrapolate(distances, count, eps);
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
	sample->form = FormOfType(type);
	sample->element = sample->form == VECTOR_BIT ? FASTED_ELEMENT_BIT : FASTED_ELEMENT_DOUBLE;
	if (sample->form == VECTOR_BIT || OidIsValid(get_element_type(type)))
		return sample->form != VECTOR_NUMERIC &&
			(sample->form != VECTOR_FLOAT4 || type == FLOAT4ARRAYOID);
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
	double		longest = 0.0;

	if (eps >= rules->greatest)
		return 1.0;
	statistics = ColumnStatistics(relid, column, children);
	if (!HeapTupleIsValid(statistics))
		return -1.0;
	sample = palloc0(sizeof(ColumnSample));
	if (FindCast(relid, column, sample) &&
		(sample->form == VECTOR_BIT) == rules->of_bits)
	{
		ReadSample(sample, statistics);
		for (int i = 0; i < sample->count; i++)
		{
			covered += sample->weight[i];
			if (rules->has_direction)
				Normalize(sample->rows[i], sample->dimensions);
			if (rules->negative_product)
				longest = fmax(longest, -SampleDistance(sample, rules, i, i));
		}
		sample->longest = longest;
		/* there are enough vectors, or they represent most rows */
		if (sample->count >= 2 * ENOUGH_PAIRS || covered > 0.9)
			share = SampleShare(sample, rules, eps + longest);
	}
	ReleaseSysCache(statistics);
	return share;
}

/* --- distinct values */

/* stadistinct is a count if positive, minus a fraction of the rows if negative, 0 if unknown. */
double
EstimateGroups(Oid relid, AttrNumber column, double rows)
{
	double		nulls;
	double		distinct;
	double		partitions = DEFAULT_NUM_DISTINCT;

	if (ReadNumbers(relid, column, &nulls, &distinct) && distinct != 0.0)
		partitions = distinct < 0.0 ? -distinct * rows : distinct;
	return Max(1.0, Min(partitions, rows));
}
