/*-------------------------------------------------------------------------
 *
 * epsilon.c
 *	  The SQL function fasted_epsilon: the eps that gives a wanted mean number of neighbours.
 *
 * If rows have S neighbours on average within eps, the fraction p = S / (n - 1) of all pairs is
 * within eps.  So eps is the p-quantile of the distances of all pairs.  It is estimated by
 * the quantile of the distances in a sample of the rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "base/compat.h"
#include "base/interrupts.h"
#include "epsilon/epsilon.h"
#include "fmgr.h"
#include "funcapi.h"
#include "rows/source.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(fasted_epsilon);

/* A sample with fewer pairs within eps than FEW_PAIRS causes a NOTICE, with a better size. */
#define FEW_PAIRS 50.0
#define ENOUGH_PAIRS 1000.0

/* A sample is cut to about this number of pairs within eps. */
#define MOST_PAIRS 2000000.0

/* Arguments by position. */
enum
{
	ARG_RELATION,
	ARG_COLUMN,
	ARG_NEIGHBORS,
	ARG_SAMPLE_ROWS,
	ARG_SEED,
	ARG_IGNORE_COPIES,
	ARG_METRIC
};

typedef struct Estimate
{
	bool		found;			/* false: no eps gives rows this number of neighbours */
	double		eps;			/* undefined unless found */
	uint64		rows;			/* rows of the relation that take part in a join */
	uint32		sampled;		/* rows of the sample that were used */
} Estimate;

static void
RequireArgument(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		ReportNullArgument("fasted_epsilon", name);
}

static void
CheckArguments(FunctionCallInfo fcinfo)
{
	double		neighbors;

	RequireArgument(fcinfo, ARG_RELATION, "relation");
	RequireArgument(fcinfo, ARG_COLUMN, "vector_column");
	RequireArgument(fcinfo, ARG_NEIGHBORS, "neighbors");
	RequireArgument(fcinfo, ARG_METRIC, "metric");
	RequireArgument(fcinfo, ARG_IGNORE_COPIES, "ignore_copies");

	neighbors = PG_GETARG_FLOAT8(ARG_NEIGHBORS);
	if (!(neighbors > 0.0) || isinf(neighbors))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("neighbors must be finite and greater than zero"),
				 errhint("Specify the number of neighbors that rows should have on average.")));
	if (!PG_ARGISNULL(ARG_SAMPLE_ROWS) && PG_GETARG_INT32(ARG_SAMPLE_ROWS) < LEAST_SAMPLE_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sample_rows must be at least %d", LEAST_SAMPLE_ROWS),
				 errhint("Omit sample_rows to have the sample size chosen automatically.")));
}

/*
 * Returns true if rows can have this number of neighbours.  Otherwise tells the user why not.  This
 * is no error, because a statement that is written for many tables should not fail for a small one.
 */
static bool
MayHaveNeighbors(double neighbors, uint64 total, const VectorSource *source)
{
	if (total >= 2 && neighbors <= total - 1)
		return true;
	ereport(NOTICE,
			(errmsg("eps is null, because no eps gives rows %.15g neighbors on average", neighbors),
			 source->skip_zeros ?
			 errdetail("The number of rows of \"%s\" that have a vector other than zero is " UINT64_FORMAT ".",
					   source->relation, total) :
			 errdetail("The number of rows of \"%s\" that have a vector is " UINT64_FORMAT ".",
					   source->relation, total),
			 total < 2 ? errhint("At least two such rows are needed.") :
			 errhint("A row can have at most " UINT64_FORMAT " neighbors.", total - 1)));
	return false;
}

/* Tells the user that even the greatest eps gives too few neighbours, because copies are ignored. */
static void
NoticeManyCopies(double neighbors, uint32 rows)
{
	ereport(NOTICE,
			(errmsg("eps is null, because no eps gives rows %.15g neighbors at a distance above 0 on average",
					neighbors),
			 errdetail("Too few of the pairs of %u rows are at a distance above 0.", rows),
			 errhint("Ask for fewer neighbors, or use ignore_copies => false.")));
}

/* Tells the user that eps is 0 because of exact copies, and how to ignore them. */
static void
NoticeCopies(DistanceGuess *guess, double neighbors, uint64 total)
{
	double		share = CountCopies(guess) / (double) PairsOf(guess->rows.count);

	ereport(NOTICE,
			(errmsg("eps is 0, because exact copies alone give rows %.15g neighbors on average",
					neighbors),
			 errdetail("Rows have %.6g exact copies on average.", share * (total - 1)),
			 errhint("Use ignore_copies => true to count only pairs at a distance above 0.")));
}

/* Tells the user that few pairs of the sample are within eps, so that the estimate may be far off. */
static void
NoticeFewPairs(double share, const RowArray *array, uint64 total)
{
	double		pairs = share * PairsOf(array->count);

	if (pairs < FEW_PAIRS)
		ereport(NOTICE,
				(errmsg("sample is too small for a reliable estimate of eps"),
				 errdetail("Only about %.0f pairs of the %u sampled rows are within eps.",
						   pairs, array->count),
				 errhint("Use sample_rows => %.0f for a better estimate.",
						 Min(ceil(sqrt(2.0 * ENOUGH_PAIRS / share)), total))));
}

/* The smallest number of pairs that gives rows a mean number of neighbours of at least this. */
static double
PairsWanted(double neighbors, double rows)
{
	double		pairs = ceil(neighbors * rows / 2.0);

	/* correct for rounding of the product */
	if (2.0 * (pairs - 1.0) / rows >= neighbors)
		pairs--;
	else if (2.0 * pairs / rows < neighbors)
		pairs++;
	return Max(1.0, Min(pairs, PairsOf(rows)));
}

/* Returns the number of rows to use; more pairs would hardly improve the estimate. */
static uint32
RowsToUse(const RowArray *array, double share)
{
	return Min(array->count, Max(LEAST_SAMPLE_ROWS, sqrt(2.0 * MOST_PAIRS / share)));
}

/* Computes eps exactly if array has all rows of the source; else estimates it from the sample. */
static Estimate
EstimateEps(const VectorSource *source, RowArray *array, uint64 total,
			const EpsilonRequest *request)
{
	Estimate	estimate = {.rows = total};
	double		neighbors = request->neighbors; /* within the sample */
	DistanceGuess *guess;

	if (array->count < total)
	{
		double		share = neighbors / (total - 1);

		NoticeFewPairs(share, array, total);
		array->count = RowsToUse(array, share);
		neighbors = share * (array->count - 1);
	}
	estimate.sampled = array->count;
	guess = GuessDistances(source, array, request->ignore_copies);
	estimate.eps = DistanceOfRank(guess, PairsWanted(neighbors, array->count));
	estimate.found = !isnan(estimate.eps);
	if (!estimate.found)
		NoticeManyCopies(request->neighbors, array->count);
	else if (estimate.eps == 0.0 && !fasted_metric_rules(source->metric)->negative_product)
		NoticeCopies(guess, request->neighbors, total);
	GuessEnd(guess);
	return estimate;
}

static Datum
FormResult(FunctionCallInfo fcinfo, const Estimate *estimate)
{
	Datum		values[] = {
		Float8GetDatum(estimate->eps), Int64GetDatum((int64) estimate->rows),
		Int64GetDatum((int64) estimate->sampled)
	};
	bool		nulls[lengthof(values)] = {!estimate->found, false, false};
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/*
 * fasted_epsilon(relation, vector_column, neighbors, sample_rows, seed, ignore_copies, metric)
 */
Datum
fasted_epsilon(PG_FUNCTION_ARGS)
{
	EpsilonRequest request = {0};
	Estimate	estimate;
	MemoryContext context;
	MemoryContext old;
	VectorSource *source;
	RowArray	array;
	uint64		total;
	uint64		seed;
	FastedMetric metric;

	CheckArguments(fcinfo);
	request.neighbors = PG_GETARG_FLOAT8(ARG_NEIGHBORS);
	metric = MetricFromText(PG_GETARG_TEXT_PP(ARG_METRIC));
	request.ignore_copies = PG_GETARG_BOOL(ARG_IGNORE_COPIES);
	if (request.ignore_copies && fasted_metric_rules(metric)->negative_product)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("ignore_copies is not supported for metric \"inner_product\""),
				 errdetail("The inner product of two copies is not zero.")));
	if (!PG_ARGISNULL(ARG_SAMPLE_ROWS))
		request.sample_rows = PG_GETARG_INT32(ARG_SAMPLE_ROWS);
	if (!PG_ARGISNULL(ARG_SEED))
	{
		seed = PG_GETARG_INT64(ARG_SEED);
		request.seed = &seed;
	}

	context = AllocSetContextCreate(CurrentMemoryContext, "fasted epsilon", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	source = ResolveSource(PG_GETARG_OID(ARG_RELATION), NameStr(*PG_GETARG_NAME(ARG_COLUMN)),
						   NULL, "id_column", InvalidOid, metric, NULL, NULL);
	total = ReadSample(source, &request, &array);
	if (MayHaveNeighbors(request.neighbors, total, source))
		estimate = EstimateEps(source, &array, total, &request);
	else
		estimate = (Estimate) {.rows = total,.sampled = array.count};
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return FormResult(fcinfo, &estimate);
}
