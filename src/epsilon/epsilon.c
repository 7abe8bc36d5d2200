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
 * TestShare.  R. S. Woodruff (Confidence Intervals for Medians and Other
 * Position Measures, JASA 47, 1952) finds quantiles so, but with the variance at
 * the estimate; it is that at each eps here, since they differ where few rows have
 * most of the pairs.
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

typedef struct Estimate
{
	double		eps;
	double		low;
	double		high;
	uint64		rows;			/* of the relation, that take part */
	uint32		sampled;		/* of them, on which the estimate rests */
} Estimate;

/*
 * --- a score test with its variance at each distance, inverted
 *
 * The share p of a sample's pairs that are near is a U-statistic of order two.
 * By W. Hoeffding, A Class of Statistics with Asymptotically Normal
 * Distribution, Annals of Mathematical Statistics 19 (1948), its variance in a
 * sample of m rows is
 *
 *	  4 zeta1 / m + 2 (zeta2 - 2 zeta1) / (m (m - 1))
 *
 * where zeta1 is the covariance of two pairs that share a row, and zeta2 =
 * p (1 - p) the variance of one.  In a sample of a fraction f of the rows without
 * replacement, the first term shrinks by 1 - f, the second by 1 - f f: so the
 * covariances of pairs with two, one and no rows in common add up.
 *
 * That p is normally distributed is not so where few rows have most of the near
 * pairs.  Of k rows of a tight cluster in the sample k (k - 1) / 2 pairs are near:
 * p goes with the square of a number that chance makes small or large, and its
 * variance with k's third power.  So each side of a supposed share P is tested by
 * what holds there:
 *
 * - Is P more than p?  By the variance that p would have were P right, as E. B.
 *	 Wilson does (Probable Inference, the Law of Succession, and Statistical
 *	 Inference, JASA 22, 1927): that of clusters that grow, with zeta1's part times
 *	 (P / p) ^ 1.5, and the other times P / p.  zeta1's part is known no better
 *	 than by the rows that have neighbours, so Student's t replaces the normal
 *	 distribution for it.  A p below P by z deviations speaks against P.
 * - Is P less than p?  As if x = p p / variance were the events counted of a Poisson
 *	 distribution, by M. P. Fay and E. J. Feuer, Confidence Intervals for Directly
 *	 Standardized Rates, Statistics in Medicine 16 (1997).  The quantile of the gamma
 *	 distribution is D. P. Byar's: x (1 - 1 / (9 x) - z / (3 sqrt(x))) ^ 3.
 *
 * Where P is above one half, the same goes for the pairs that are not near.
 *
 * Rows that are not in the sample at all show in no variance.  So many rows as the
 * sample misses with a probability of half of 1 - confidence, by chance, may all
 * lie together, or far away from all others.  A share for which the pairs within
 * that many rows suffice, or the share of far pairs for which all pairs of that
 * many rows do, can't be excluded as too large.
 */

/* The question: are so many of all pairs near, given a sample of the rows? */
typedef struct ShareTest
{
	double		share;			/* of all pairs: 0 to 1 */
	double		rows;			/* of the sample */
	double		total;			/* of which it is a sample */
	double		deviations;		/* of a normal distribution, for the confidence */
	double		unseen;			/* so many rows the sample may have missed, likewise */
	uint32	   *neighbours;		/* room, by row */
} ShareTest;

typedef enum ShareAnswer
{
	SHARE_IS_LESS = -1,			/* fewer than that share of all pairs are near */
	SHARE_IS_POSSIBLE,
	SHARE_IS_MORE
} ShareAnswer;

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

/* How much wider than a normal distribution is Student's t, with so many degrees of freedom? */
static double
WidthOfT(double z, double freedom)
{
	double		n = Max(freedom, 1.0);
	double		zz = z * z;

	return 1.0 + (zz + 1.0) / (4.0 * n) + ((5.0 * zz + 16.0) * zz + 3.0) / (96.0 * n * n);
}

/* The variance of the sample's share of near pairs: what clusters add, and the rest. */
typedef struct ShareVariance
{
	double		clusters;
	double		rest;
	double		rows;			/* that the estimate of clusters rests on */
} ShareVariance;

/*
 * Of the share p of pairs that are near; if far, of those that are not.
 *
 * zeta1 + p p is the probability that two rows are both near a third: the paths of
 * the sample by their number, c (c - 1) for each row that c others are near.  (The variance of
 * the rows' numbers of neighbours would add to zeta1 what is chance, most of it where they are
 * mostly zero.)  Where all rows have as many neighbours it is negative, by p (1 - p) for each of
 * all rows.  It rests on L. Kish's effective number of rows: sum sum / sum of squares.
 */
static ShareVariance
VarianceOfShare(const ShareTest *test, double p, const FastedPair *near, size_t count, bool far)
{
	uint32	   *neighbours = test->neighbours;
	double		m = test->rows;
	double		f = m / test->total;
	double		of_zeta1 = 4.0 / m * (1.0 - f) - 4.0 / (m * (m - 1)) * (1.0 - f * f);
	double		rest = 2.0 * p * (1.0 - p) / (m * (m - 1)) * (1.0 - f * f);
	double		paths = 0.0;
	double		squares = 0.0;
	double		zeta1;

	memset(neighbours, 0, test->rows * sizeof(uint32));
	for (size_t i = 0; i < count; i++)
	{
		neighbours[near[i].a]++;
		neighbours[near[i].b]++;
	}
	for (uint32 row = 0; row < test->rows; row++)
	{
		double		c = far ? test->rows - 1.0 - neighbours[row] : neighbours[row];
		double		weight = c * (c - 1.0);

		paths += weight;
		squares += weight * weight;
	}
	zeta1 = Max(paths / (m * (m - 1) * (m - 2)) - p * p, -p * (1.0 - p) / test->total);
	return (ShareVariance) {
		.clusters = Max(zeta1, 0.0) * of_zeta1,
		.rest = Max(rest + Min(zeta1, 0.0) * of_zeta1, 0.0),
		.rows = squares > 0.0 ? paths * paths / squares : 0.0
	};
}

/* The share that pairs of unseen rows may have: with one another, or with all rows. */
static double
UnseenShare(const ShareTest *test, bool far)
{
	double		all = test->total * (test->total - 1.0);

	if (far)
		return test->unseen * (2.0 * test->total - test->unseen - 1.0) / all;
	return test->unseen * (test->unseen - 1.0) / all;
}

/* Can the share be this one, though that of the sample, p, is less? */
static bool
MayBeMore(const ShareTest *test, double share, double p, ShareVariance variance)
{
	double		factor = share / p;
	double		width = WidthOfT(test->deviations, variance.rows - 1.0);
	double		supposed;

	if (p <= 0.0)
		return false;
	supposed = variance.clusters * width * width * factor * sqrt(factor) + variance.rest * factor;
	return share - p <= test->deviations * sqrt(supposed);
}

/* Can the share be this one, though that of the sample, p, is more? */
static bool
MayBeLess(const ShareTest *test, double share, double p, ShareVariance variance)
{
	double		sum = variance.clusters + variance.rest;
	double		x;
	double		root;

	if (sum <= 0.0)
		return false;
	x = p * p / sum;
	root = 1.0 - 1.0 / (9.0 * x) - test->deviations / (3.0 * sqrt(x));
	return share >= p * pow(Max(root, 0.0), 3.0);
}

/* The answer if these of the sample's pairs are near, and the others are not. */
static ShareAnswer
TestShare(const ShareTest *test, const FastedPair *near, size_t count)
{
	bool		far = test->share > 0.5;
	double		share = far ? 1.0 - test->share : test->share;
	double		all = test->rows * (test->rows - 1.0) / 2.0;
	double		p = (far ? all - count : count) / all;
	ShareVariance variance = VarianceOfShare(test, p, near, count, far);
	bool		possible;

	if (p < share)
		possible = share <= UnseenShare(test, far) || MayBeMore(test, share, p, variance);
	else
		possible = p == share || MayBeLess(test, share, p, variance);
	if (possible)
		return SHARE_IS_POSSIBLE;
	return (p < share) == far ? SHARE_IS_MORE : SHARE_IS_LESS;
}

/* --- the function */

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
CheckNeighbors(double neighbors, uint64 total, const VectorSource *source)
{
	if (total >= 2 && neighbors <= total - 1)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("no eps gives rows %.15g neighbours on average", neighbors),
			 source->skip_zeros ?
			 errdetail("Number of rows of \"%s\" that have a vector other than zero: " UINT64_FORMAT ".",
					   source->relation, total) :
			 errdetail("Number of rows of \"%s\" that have a vector: " UINT64_FORMAT ".",
					   source->relation, total),
			 total < 2 ? errhint("There must be at least two.") :
			 errhint("A row has at most " UINT64_FORMAT " others as its neighbours.", total - 1)));
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
	double		share = CountCopies(guess) / (double) PairsOf(guess->rows.array.count);

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

/* More pairs than these would not make the estimate much better. */
static uint32
RowsToUse(const RowArray *array, double share)
{
	return Min(array->count, Max(LEAST_SAMPLE_ROWS, sqrt(2.0 * MOST_PAIRS / share)));
}

/*
 * The least rank above low at which the test of the pairs before it gives this answer or a
 * greater one: so it is at high, but not at low.  Pairs before low come before the others,
 * those from high on behind them; afterwards those of the rank, too.
 */
static size_t
FirstRank(const ShareTest *test, FastedPair *pairs, size_t low, size_t high, ShareAnswer answer)
{
	while (high - low > 1)
	{
		size_t		middle = low + (high - low) / 2;

		CheckJoinInterrupts();
		(void) SelectPair(pairs + low, high - low, middle - low);
		if (TestShare(test, pairs, middle) < answer)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/*
 * The least eps within which the share of all pairs may be: the distance of a pair
 * before rank, that of the estimate, which is in its place.
 */
static double
LowEnd(const ShareTest *test, FastedPair *pairs, size_t rank)
{
	if (TestShare(test, pairs, 0) != SHARE_IS_LESS)
		return 0.0;
	return SelectPair(pairs, rank, FirstRank(test, pairs, 0, rank, SHARE_IS_POSSIBLE));
}

/*
 * The greatest eps below which there may be no more than the share of all pairs;
 * greatest, if all these may be below.
 */
static double
HighEnd(const ShareTest *test, FastedPair *pairs, size_t npairs, size_t rank, double greatest)
{
	if (TestShare(test, pairs, npairs) != SHARE_IS_MORE)
		return greatest;
	return SelectPair(pairs, npairs, FirstRank(test, pairs, rank - 1, npairs, SHARE_IS_MORE));
}

/* Sets eps, low and high from the pairs' distances.  False: too few pairs count. */
static bool
FindInterval(DistanceGuess *guess, const ShareTest *test, Estimate *estimate)
{
	double		greatest = GreatestDistance(guess->source->metric);
	double		all = PairsOf(guess->rows.array.count);
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
		estimate->eps = SelectPair(pairs, found, rank);
		estimate->low = LowEnd(test, pairs, rank);
		estimate->high = HighEnd(test, pairs, found, rank, greatest);
	} while (estimate->high == greatest && held < most && found == held);
	return true;
}

static void
ShareTestInit(ShareTest *test, double share, double rows, double total, double confidence)
{
	test->share = share;
	test->rows = rows;
	test->total = total;
	test->deviations = NormalDeviation(confidence);
	test->unseen = fasted_unseen_rows(rows, total, (1.0 - confidence) / 2.0);
	test->neighbours = MemoryContextAllocHuge(CurrentMemoryContext, rows * sizeof(uint32));
}

/* From all rows, whose pairs have the eps asked for as one of their distances, or a sample of them. */
static Estimate
EstimateEps(const VectorSource *source, RowArray *array, uint64 total, const Question *question)
{
	Estimate	estimate = {.rows = total};
	bool		all = array->count == total;
	double		share = question->neighbors / (total - 1);
	bool		found;
	DistanceGuess *guess;

	if (!all)
	{
		WarnOfFewPairs(share, array, total);
		array->count = RowsToUse(array, share);
	}
	estimate.sampled = array->count;
	guess = GuessDistances(source, array, question->ignore_copies);
	if (all)
	{
		estimate.eps = DistanceOfRank(guess, PairsWanted(question->neighbors, total));
		estimate.low = estimate.high = estimate.eps;
		found = estimate.eps >= 0.0;
	}
	else
	{
		ShareTest	test;

		ShareTestInit(&test, share, array->count, total, question->confidence);
		found = FindInterval(guess, &test, &estimate);
	}
	if (!found)
		ReportManyCopies(question->neighbors, array->count);
	if (estimate.eps == 0.0)
		NoticeCopies(guess, question->neighbors, total);
	GuessEnd(guess);
	return estimate;
}

static Datum
FormResult(FunctionCallInfo fcinfo, const Estimate *estimate)
{
	Datum		values[] = {
		Float8GetDatum(estimate->eps), Float8GetDatum(estimate->low),
		Float8GetDatum(estimate->high), Int64GetDatum((int64) estimate->rows),
		Int64GetDatum((int64) estimate->sampled)
	};
	bool		nulls[lengthof(values)] = {false};
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/*
 * fasted_epsilon(relation, vector_column, neighbors, sample_rows, confidence, seed, metric,
 * ignore_copies)
 */
Datum
fasted_epsilon(PG_FUNCTION_ARGS)
{
	Question	question = {0};
	Estimate	estimate;
	MemoryContext context;
	MemoryContext old;
	VectorSource *source;
	RowArray	array;
	uint64		total;
	uint64		seed;
	FastedMetric metric;

	CheckArguments(fcinfo);
	question.neighbors = PG_GETARG_FLOAT8(ARG_NEIGHBORS);
	question.confidence = PG_GETARG_FLOAT8(ARG_CONFIDENCE);
	metric = MetricFromText(PG_GETARG_TEXT_PP(ARG_METRIC));
	question.ignore_copies = PG_GETARG_BOOL(ARG_IGNORE_COPIES);
	if (!PG_ARGISNULL(ARG_SAMPLE_ROWS))
		question.sample_rows = PG_GETARG_INT32(ARG_SAMPLE_ROWS);
	if (!PG_ARGISNULL(ARG_SEED))
	{
		seed = PG_GETARG_INT64(ARG_SEED);
		question.seed = &seed;
	}

	context = AllocSetContextCreate(CurrentMemoryContext, "fasted epsilon", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	source = ResolveSource(PG_GETARG_OID(ARG_RELATION), NameStr(*PG_GETARG_NAME(ARG_COLUMN)),
						   NULL, "id_column", InvalidOid, metric, NULL, NULL);
	total = ReadSample(source, &question, &array);
	CheckNeighbors(question.neighbors, total, source);
	estimate = EstimateEps(source, &array, total, &question);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return FormResult(fcinfo, &estimate);
}
