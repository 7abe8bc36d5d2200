/*-------------------------------------------------------------------------
 *
 * epsilon.c
 *	  The SQL function fasted_epsilon: the eps that gives so many neighbours.
 *
 * Rows have S neighbours on average within the distance below which a share
 * p = S / (n - 1) of all pairs lie.  So eps is that quantile of all distances,
 * estimated from those of a sample of m rows.
 *
 * How sure that is: the interval has each eps for which that share of all pairs
 * is possible, given the share of the sample's pairs within it, by the test of
 * near_share.c.  R. S. Woodruff (Confidence Intervals for Medians and Other
 * Position Measures, JASA 47, 1952) finds quantiles so, but with the variance at
 * the estimate; it is that at each eps here, since they differ where few rows have
 * most of the pairs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "base/arguments.h"
#include "base/compat.h"
#include "base/interrupts.h"
#include "epsilon/near_pairs.h"
#include "epsilon/near_share.h"
#include "epsilon/sample.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(fasted_epsilon);

/* A sample with fewer pairs within eps gets a warning, and the number it needs. */
#define FEW_PAIRS 50.0
#define ENOUGH_PAIRS 1000.0

/* Of a larger sample only so much is used. */
#define MOST_PAIRS 2000000.0

/* No upper end is looked for beyond so many pairs: these take 70 MB. */
#define MOST_HELD 2900000.0

/* Arguments and result columns, by position. */
enum
{
	ARG_RELATION,
	ARG_COLUMN,
	ARG_NEIGHBORS,
	ARG_SAMPLE_ROWS,
	ARG_CONFIDENCE,
	ARG_SEED,
	ARG_METRIC,
	ARG_IGNORE_COPIES
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

typedef struct Question
{
	double		neighbors;
	double		confidence;
	FastedMetric metric;
	bool		ignore_copies;	/* only pairs at a distance above 0 count */
} Question;

typedef struct Estimate
{
	double		eps;
	double		low;
	double		high;
	uint64		rows;			/* of the relation, that take part */
	uint32		sampled;		/* of them, on which the estimate rests */
} Estimate;

static void
CheckArguments(FunctionCallInfo fcinfo)
{
	double		neighbors;
	double		confidence;

	RequireArgument(fcinfo, ARG_RELATION, "fasted_epsilon", "relation");
	RequireArgument(fcinfo, ARG_COLUMN, "fasted_epsilon", "vector_column");
	RequireArgument(fcinfo, ARG_NEIGHBORS, "fasted_epsilon", "neighbors");
	RequireArgument(fcinfo, ARG_CONFIDENCE, "fasted_epsilon", "confidence");
	RequireArgument(fcinfo, ARG_METRIC, "fasted_epsilon", "metric");
	RequireArgument(fcinfo, ARG_IGNORE_COPIES, "fasted_epsilon", "ignore_copies");

	neighbors = PG_GETARG_FLOAT8(ARG_NEIGHBORS);
	if (!(neighbors > 0.0) || isinf(neighbors))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("neighbors must be a number above zero"),
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
CheckNeighbors(double neighbors, const Sample *sample, const VectorSource *source)
{
	if (sample->total >= 2 && neighbors <= sample->total - 1)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("no eps gives rows %.15g neighbours on average", neighbors),
			 source->skip_zeros ?
			 errdetail("Number of rows of \"%s\" that have a vector other than zero: " UINT64_FORMAT ".",
					   source->relation, sample->total) :
			 errdetail("Number of rows of \"%s\" that have a vector: " UINT64_FORMAT ".",
					   source->relation, sample->total),
			 sample->total < 2 ? errhint("There must be at least two.") :
			 errhint("A row has at most " UINT64_FORMAT " others as its neighbours.",
					 sample->total - 1)));
}

/* Even the largest eps gives rows too few neighbours that are no copies. */
pg_noreturn static void
ReportManyCopies(double neighbors, uint32 rows)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("no eps gives rows %.15g neighbours at a distance above 0 on average", neighbors),
			 errdetail("Too few of the pairs of %u rows are at a distance above 0.", rows),
			 errhint("Ask for fewer neighbours, or use ignore_copies => false.")));
}

/* Rows have as many neighbours as were asked for at distance 0: the user may want others. */
static void
NoticeCopies(DistanceGuess *guess, double neighbors, uint64 total)
{
	double		share = CountCopies(guess) / (double) PairsOf(guess->array->count);

	ereport(NOTICE,
			(errmsg("eps is 0, because exact copies alone give rows %.15g neighbours on average",
					neighbors),
			 errdetail("Rows have %.6g exact copies on average.", share * (total - 1)),
			 errhint("Use ignore_copies => true to count only pairs at a distance above 0.")));
}

static void
WarnOfFewPairs(double share, const RowArray *array, uint64 total)
{
	double		pairs = share * PairsOf(array->count);

	if (pairs < FEW_PAIRS)
		ereport(WARNING,
				(errmsg("the sample is small for so few neighbours"),
				 errdetail("Only about %.0f pairs of its %u rows are within eps.",
						   pairs, array->count),
				 errhint("Use sample_rows => %.0f for a closer estimate.",
						 Min(ceil(sqrt(2.0 * ENOUGH_PAIRS / share)), total))));
}

/* The least number of pairs of so many rows with which rows have S neighbours on average. */
static double
PairsWanted(double neighbors, double rows)
{
	double		pairs = ceil(neighbors * rows / 2.0);

	/* the product may have been rounded past a whole number */
	if (2.0 * (pairs - 1.0) / rows >= neighbors)
		pairs--;
	else if (2.0 * pairs / rows < neighbors)
		pairs++;
	return Max(1.0, Min(pairs, PairsOf(rows)));
}

/* All rows are there: the distance within which half of S n pairs are. */
static void
FindExactly(const VectorSource *source, const RowArray *array, const Question *question,
			Estimate *estimate)
{
	double		rank = PairsWanted(question->neighbors, array->count);
	DistanceGuess *guess = GuessDistances(source, array, question->metric, question->ignore_copies);

	estimate->eps = DistanceOfRank(guess, rank);
	if (estimate->eps < 0.0)
		ReportManyCopies(question->neighbors, array->count);
	if (estimate->eps == 0.0)
		NoticeCopies(guess, question->neighbors, array->count);
	GuessEnd(guess);
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

/*
 * What the pairs before this rank tell.  Those before begin come before the others,
 * those from end on behind them, and so it is with rank afterwards.
 */
static ShareAnswer
TestRank(const ShareTest *test, FastedPair *pairs, size_t begin, size_t end, size_t rank)
{
	CheckJoinInterrupts();
	if (begin < rank && rank < end)
		SelectPair(pairs + begin, end - begin, rank - begin);
	return TestShare(test, pairs, rank);
}

/*
 * The least eps within which the share of all pairs may be: the distance of a pair
 * before rank, that of the estimate, which is in its place.
 */
static double
LowEnd(const ShareTest *test, FastedPair *pairs, size_t rank)
{
	size_t		less = 0;
	size_t		possible = rank;

	if (TestRank(test, pairs, less, possible, less) != SHARE_IS_LESS)
		return 0.0;
	while (possible - less > 1)
	{
		size_t		middle = less + (possible - less) / 2;

		if (TestRank(test, pairs, less, possible, middle) == SHARE_IS_LESS)
			less = middle;
		else
			possible = middle;
	}
	return DistanceAt(pairs, rank, possible);
}

/*
 * The greatest eps below which there may be no more than the share of all pairs;
 * greatest, if all these may be below.
 */
static double
HighEnd(const ShareTest *test, FastedPair *pairs, size_t npairs, size_t rank, double greatest)
{
	size_t		possible = rank - 1;
	size_t		more = npairs;

	if (TestRank(test, pairs, possible, more, more) != SHARE_IS_MORE)
		return greatest;
	while (more - possible > 1)
	{
		size_t		middle = possible + (more - possible) / 2;

		if (TestRank(test, pairs, possible, more, middle) == SHARE_IS_MORE)
			more = middle;
		else
			possible = middle;
	}
	return DistanceAt(pairs, npairs, more);
}

/* Sets eps, low and high from the pairs' distances.  False: too few pairs count. */
static bool
FindInterval(DistanceGuess *guess, const ShareTest *test, Estimate *estimate)
{
	double		greatest = GreatestDistance(guess->metric);
	double		all = PairsOf(guess->array->count);
	double		most = Min(all, MOST_HELD);
	double		rank = Max(1.0, Min(ceil(test->share * all), all));
	double		held = (1.25 * rank + 1000.0) / 2.0;
	size_t		found;

	do
	{
		FastedPair *pairs;

		held = floor(Min(2.0 * held, most));
		found = held;
		pairs = NearestPairs(guess, &found);
		if (found < rank)
			return false;
		estimate->eps = DistanceAt(pairs, found, rank);
		estimate->low = LowEnd(test, pairs, rank);
		estimate->high = HighEnd(test, pairs, found, rank, greatest);
	} while (estimate->high == greatest && held < most && found == held);
	return true;
}

static void
EstimateFromSample(const VectorSource *source, const Sample *sample, const Question *question,
				   Estimate *estimate)
{
	RowArray	array = sample->array;
	ShareTest	test = {0};
	DistanceGuess *guess;

	test.share = question->neighbors / (sample->total - 1);
	test.total = sample->total;
	test.confidence = question->confidence;
	WarnOfFewPairs(test.share, &array, sample->total);
	array.count = RowsToUse(&array, test.share);
	test.rows = array.count;
	ShareTestBegin(&test);
	guess = GuessDistances(source, &array, question->metric, question->ignore_copies);
	if (!FindInterval(guess, &test, estimate))
		ReportManyCopies(question->neighbors, array.count);
	if (estimate->eps == 0.0)
		NoticeCopies(guess, question->neighbors, sample->total);
	GuessEnd(guess);
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

/*
 * fasted_epsilon(relation, vector_column, neighbors, sample_rows, confidence, seed, metric,
 * ignore_copies)
 */
Datum
fasted_epsilon(PG_FUNCTION_ARGS)
{
	SampleOptions options = {0};
	Question	question;
	Estimate	estimate = {0};
	MemoryContext context;
	MemoryContext old;
	VectorSource *source;
	Sample	   *sample;
	uint64		seed;

	CheckArguments(fcinfo);
	question.neighbors = PG_GETARG_FLOAT8(ARG_NEIGHBORS);
	question.confidence = PG_GETARG_FLOAT8(ARG_CONFIDENCE);
	question.metric = MetricFromText(PG_GETARG_TEXT_PP(ARG_METRIC));
	question.ignore_copies = PG_GETARG_BOOL(ARG_IGNORE_COPIES);
	options.neighbors = question.neighbors;
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
						   NULL, InvalidOid, question.metric, NULL);
	sample = ReadSample(source, &options);
	CheckNeighbors(question.neighbors, sample, source);
	estimate.rows = sample->total;
	if (sample->array.count == sample->total)
		FindExactly(source, &sample->array, &question, &estimate);
	else
		EstimateFromSample(source, sample, &question, &estimate);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return FormResult(fcinfo, &estimate);
}
