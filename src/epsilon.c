/*-------------------------------------------------------------------------
 *
 * epsilon.c
 *	  The SQL function fasted_epsilon: the eps that gives so many neighbours.
 *
 * Rows have S neighbours on average within the distance below which a share
 * p = S / (n - 1) of all pairs lie.  So eps is that quantile of all distances,
 * estimated from those of a sample of m rows.
 *
 * How sure that is: the share of the sample's pairs within a fixed eps is a
 * U-statistic of order two.  By W. Hoeffding, A Class of Statistics with
 * Asymptotically Normal Distribution, Annals of Mathematical Statistics 19
 * (1948), its variance is
 *
 *	  4 zeta1 / m + 2 (zeta2 - 2 zeta1) / (m (m - 1))
 *
 * where zeta1 is the covariance of two pairs that share a row, and zeta2 =
 * p (1 - p) the variance of one.  In a sample of a fraction f of the rows without
 * replacement, the first term shrinks by 1 - f, the second by 1 - f f: so the
 * covariances of pairs with two, one and no rows in common add up.  The interval
 * is R. S. Woodruff's (Confidence Intervals for Medians and Other Position
 * Measures, JASA 47, 1952): the quantiles at the ends of p's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "arguments.h"
#include "fmgr.h"
#include "funcapi.h"
#include "interrupts.h"
#include "near_pairs.h"
#include "sample.h"
#include "utils/float.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(fasted_epsilon);

/* A sample with fewer pairs within eps gets a warning, and the number it needs. */
#define FEW_PAIRS 50.0
#define ENOUGH_PAIRS 1000.0

/* Of a larger sample only so much is used: these take 60 MB. */
#define MOST_PAIRS 2000000.0

/* Arguments and result columns, by position. */
enum
{
	ARG_RELATION,
	ARG_COLUMN,
	ARG_SELECTIVITY,
	ARG_SAMPLE_ROWS,
	ARG_CONFIDENCE,
	ARG_SEED
};

enum
{
	RESULT_EPS,
	RESULT_LOW,
	RESULT_HIGH,
	RESULT_ROWS,
	RESULT_SAMPLED,
	RESULT_NCOLUMNS
};

typedef struct Estimate
{
	double		eps;
	double		low;
	double		high;
	uint64		rows;			/* of the relation, that have a vector */
	uint32		sampled;		/* of them, on which the estimate rests */
} Estimate;

static void
CheckArguments(FunctionCallInfo fcinfo)
{
	double		selectivity;
	double		confidence;

	RequireArgument(fcinfo, ARG_RELATION, "fasted_epsilon", "relation");
	RequireArgument(fcinfo, ARG_COLUMN, "fasted_epsilon", "column");
	RequireArgument(fcinfo, ARG_SELECTIVITY, "fasted_epsilon", "selectivity");
	RequireArgument(fcinfo, ARG_CONFIDENCE, "fasted_epsilon", "confidence");

	selectivity = PG_GETARG_FLOAT8(ARG_SELECTIVITY);
	if (!(selectivity > 0.0) || isinf(selectivity))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("selectivity must be a number above zero"),
				 errhint("It is the number of neighbours that a row shall have on average.")));
	confidence = PG_GETARG_FLOAT8(ARG_CONFIDENCE);
	if (!(confidence > 0.0 && confidence < 1.0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("confidence must be between zero and one"),
				 errhint("It is the probability that eps_low and eps_high enclose the right eps, such as 0.95.")));
	if (!PG_ARGISNULL(ARG_SAMPLE_ROWS) && PG_GETARG_INT32(ARG_SAMPLE_ROWS) < LEAST_SAMPLE_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sample_rows must be at least %d", LEAST_SAMPLE_ROWS),
				 errhint("Leave it out to have it chosen.")));
}

static void
CheckSelectivity(double selectivity, const Sample *sample, const char *relation)
{
	if (sample->total >= 2 && selectivity <= sample->total - 1)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("no eps gives a selectivity of %.15g", selectivity),
			 errdetail("Number of rows of \"%s\" that have a vector: " UINT64_FORMAT ".",
					   relation, sample->total),
			 sample->total < 2 ? errhint("There must be at least two.") :
			 errhint("A row has at most " UINT64_FORMAT " others as its neighbours.",
					 sample->total - 1)));
}

static void
WarnOfFewPairs(double share, const RowArray *array, uint64 total)
{
	double		pairs = share * PairsOf(array->count);

	if (pairs < FEW_PAIRS)
		ereport(WARNING,
				(errmsg("the sample is small for this selectivity"),
				 errdetail("Only about %.0f pairs of its %u rows are within eps.",
						   pairs, array->count),
				 errhint("Use sample_rows => %.0f for a closer estimate.",
						 Min(ceil(sqrt(2.0 * ENOUGH_PAIRS / share)), total))));
}

/* How many standard deviations from the mean enclose this share of a normal distribution. */
static double
NormalDeviation(double share)
{
	double		low = 0.0;
	double		high = 10.0;

	for (int i = 0; i < 60; i++)
	{
		double		middle = (low + high) / 2.0;

		if (erf(middle / sqrt(2.0)) < share)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/*
 * The standard deviation of the number of the sample's pairs within eps, given
 * those pairs, of a sample that is this fraction of all rows.
 *
 * zeta1 + p p is the probability that two rows are both within eps of a third;
 * of the sample's rows that is so for the sum of c (c - 1), c being the number of
 * a row's neighbours.  (The variance of c would add to zeta1 what is chance, most
 * of it where c is mostly zero.)  Where all rows have as many neighbours it is
 * negative, by p for each of all rows.
 */
static double
PairsDeviation(const FastedPair *pairs, size_t npairs, double m, double fraction)
{
	uint32	   *neighbours = MemoryContextAllocExtended(CurrentMemoryContext, m * sizeof(uint32),
														MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	double		all = m * (m - 1) / 2;
	double		total = m / fraction;
	double		p = npairs / all;
	double		paths = 0.0;
	double		zeta1;
	double		variance;

	for (size_t i = 0; i < npairs; i++)
	{
		neighbours[pairs[i].a]++;
		neighbours[pairs[i].b]++;
	}
	for (uint32 row = 0; row < m; row++)
		paths += (double) neighbours[row] * ((double) neighbours[row] - 1.0);
	pfree(neighbours);

	zeta1 = Max(paths / (m * (m - 1) * (m - 2)) - p * p, -p / total);
	variance = 4.0 * zeta1 / m * (1.0 - fraction);
	variance += 2.0 * (p * (1.0 - p) - 2.0 * zeta1) / (m * (m - 1)) * (1.0 - fraction * fraction);
	return all * sqrt(Max(variance, 0.0));
}

/* The least number of pairs of so many rows with which rows have S neighbours on average. */
static double
PairsWanted(double selectivity, double rows)
{
	double		pairs = ceil(selectivity * rows / 2.0);

	/* the product may have been rounded past a whole number */
	if (2.0 * (pairs - 1.0) / rows >= selectivity)
		pairs--;
	else if (2.0 * pairs / rows < selectivity)
		pairs++;
	return Max(1.0, Min(pairs, PairsOf(rows)));
}

/* All rows are there: the distance within which half of S n pairs are. */
static void
FindExactly(const VectorSource *source, const RowArray *array, double selectivity, Estimate *estimate)
{
	double		rank = PairsWanted(selectivity, array->count);

	estimate->eps = DistanceOfRank(GuessDistances(source, array), rank);
	estimate->low = estimate->high = estimate->eps;
	estimate->sampled = array->count;
}

/* More pairs than these would not make the estimate much better. */
static uint32
RowsToUse(const RowArray *array, double share)
{
	return Min(array->count, Max(LEAST_SAMPLE_ROWS, sqrt(2.0 * MOST_PAIRS / share)));
}

/* In the order of distance, by number from 1. */
static double
DistanceAt(FastedPair *pairs, size_t npairs, size_t rank)
{
	SelectPair(pairs, npairs, rank);
	return pairs[rank - 1].dist;
}

static void
EstimateFromSample(const VectorSource *source, const Sample *sample, double selectivity,
				   double confidence, Estimate *estimate)
{
	double		share = selectivity / (sample->total - 1);
	RowArray	array = sample->array;
	DistanceGuess *guess;
	double		all;
	double		rank;
	double		spread;
	double		low;
	double		high;
	double		held;
	FastedPair *pairs;

	WarnOfFewPairs(share, &array, sample->total);
	array.count = RowsToUse(&array, share);
	guess = GuessDistances(source, &array);
	all = PairsOf(array.count);
	rank = Max(1.0, Min(ceil(share * all), all));
	high = 1.25 * rank + 1000.0;
	do
	{
		held = Min(high, all);
		pairs = NearestPairs(guess, held);
		estimate->eps = DistanceAt(pairs, held, rank);
		spread = NormalDeviation(confidence) *
			PairsDeviation(pairs, rank, array.count, (double) array.count / sample->total);
		low = ceil(share * all - spread);
		high = floor(share * all + spread) + 1.0;
	} while (high > held && held < all);
	estimate->low = low < 1.0 ? 0.0 : DistanceAt(pairs, held, low);
	estimate->high = high > all ? get_float8_infinity() : DistanceAt(pairs, held, high);
	estimate->sampled = array.count;
}

static Datum
FormResult(FunctionCallInfo fcinfo, const Estimate *estimate)
{
	Datum		values[RESULT_NCOLUMNS];
	bool		nulls[RESULT_NCOLUMNS] = {false};
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[RESULT_EPS] = Float8GetDatum(estimate->eps);
	values[RESULT_LOW] = Float8GetDatum(estimate->low);
	values[RESULT_HIGH] = Float8GetDatum(estimate->high);
	values[RESULT_ROWS] = Int64GetDatum((int64) estimate->rows);
	values[RESULT_SAMPLED] = Int64GetDatum((int64) estimate->sampled);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* fasted_epsilon(relation, column, selectivity, sample_rows, confidence, seed) */
Datum
fasted_epsilon(PG_FUNCTION_ARGS)
{
	SampleOptions options = {0};
	Estimate	estimate = {0};
	MemoryContext context;
	MemoryContext old;
	VectorSource *source;
	Sample	   *sample;
	uint64		seed;

	CheckArguments(fcinfo);
	options.selectivity = PG_GETARG_FLOAT8(ARG_SELECTIVITY);
	if (!PG_ARGISNULL(ARG_SAMPLE_ROWS))
		options.rows = PG_GETARG_INT32(ARG_SAMPLE_ROWS);
	if (!PG_ARGISNULL(ARG_SEED))
	{
		seed = PG_GETARG_INT64(ARG_SEED);
		options.seed = &seed;
	}

	context = AllocSetContextCreate(CurrentMemoryContext, "fasted epsilon", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	source = ResolveSource(PG_GETARG_OID(ARG_RELATION), NameStr(*PG_GETARG_NAME(ARG_COLUMN)),
						   NULL, InvalidOid);
	sample = ReadSample(source, &options);
	CheckSelectivity(options.selectivity, sample, source->relation);
	estimate.rows = sample->total;
	if (sample->array.count == sample->total)
		FindExactly(source, &sample->array, options.selectivity, &estimate);
	else
		EstimateFromSample(source, sample, options.selectivity,
						   PG_GETARG_FLOAT8(ARG_CONFIDENCE), &estimate);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return FormResult(fcinfo, &estimate);
}
