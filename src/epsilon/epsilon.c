/*-------------------------------------------------------------------------
 *
 * epsilon.c
 *	  The SQL function fasted_epsilon: the eps that gives a wanted mean number of neighbours.
 *
 * If rows have S neighbours on average within eps, the fraction p = S / (n - 1) of all pairs is
 * within eps.  So eps is the p-quantile of the distances of all pairs.  It is estimated by
 * the quantile of the distances in a sample of m rows.
 *
 * The confidence interval consists of each eps for which TestShare does not reject p as the
 * fraction of all pairs within eps, given that fraction in the sample.  R. S. Woodruff
 * (Confidence Intervals for Medians and Other Position Measures, JASA 47, 1952) inverts a test
 * in this way, with the variance at the estimate.  Here the variance is computed at each
 * eps, because it changes with eps where a few rows have most of the pairs.
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

/* A sample with fewer pairs within eps than FEW_PAIRS causes a warning, with a better size. */
#define FEW_PAIRS 50.0
#define ENOUGH_PAIRS 1000.0

/* A sample is cut to about this number of pairs within eps. */
#define MOST_PAIRS 2000000.0

/* At most this many pairs are kept to find the upper end of the interval: 70 MB. */
#define MOST_HELD 2900000.0

/* Arguments by position. */
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
	bool		found;			/* false: no eps gives rows this number of neighbours */
	double		eps;			/* undefined unless found, like low and high */
	double		low;
	double		high;
	uint64		rows;			/* rows of the relation that take part in a join */
	uint32		sampled;		/* rows of the sample that were used */
} Estimate;

/*
 * --- a score test with the variance at each distance, which is inverted
 *
 * The share p of a sample's pairs that are near is a U-statistic of order two.
 * By W. Hoeffding, A Class of Statistics with Asymptotically Normal
 * Distribution, Annals of Mathematical Statistics 19 (1948), its variance in a
 * sample of m rows is
 *
 *	  4 zeta1 / m + 2 (zeta2 - 2 zeta1) / (m (m - 1))
 *
 * where zeta1 is the covariance of two pairs that share a row, and zeta2 = p (1 - p) is the
 * variance of one pair.  If a fraction f of the rows is sampled without replacement, the
 * first term is multiplied by 1 - f, and the second by 1 - f f.  This is the sum of the
 * covariances of pairs with two, one and no rows in common.
 *
 * p is not normally distributed where a few rows have most of the near pairs.  If the sample
 * has k rows of a tight cluster, these have k (k - 1) / 2 near pairs.  So p grows with the square
 * of the random number k, and its variance with the third power.  A supposed
 * value P of the fraction is therefore tested differently in the two directions:
 *
 * - P > p: as in E. B. Wilson (Probable Inference, the Law of Succession, and Statistical
 *	 Inference, JASA 22, 1927), the test uses the variance that p would have if P were true.
 *	 Assuming that clusters grow, the zeta1 part is multiplied by (P / p) ^ 1.5, and the
 *	 other part by P / p.  The zeta1 part is itself estimated, from the rows that have
 *	 neighbours.  For this part, Student's t distribution replaces the normal distribution.
 *	 P is rejected if p is more than z standard deviations below P.
 * - P < p: x = p p / variance is treated as a count with a Poisson distribution, as in
 *	 M. P. Fay and E. J. Feuer, Confidence Intervals for Directly Standardized Rates, Statistics
 *	 in Medicine 16 (1997).  The quantile of the gamma distribution is computed by D. P. Byar's
 *	 approximation: x (1 - 1 / (9 x) - z / (3 sqrt(x))) ^ 3.
 *
 * If P is above one half, the pairs that are not near are tested in the same way.
 *
 * The variance does not show the effect of rows that are all missing from the sample.  Let u be
 * the number of rows that a sample misses with a probability of (1 - confidence) / 2.
 * These may all be close to one another, or far from all other rows.  So a P > p is not
 * rejected if the pairs among u rows suffice for it; for the fraction of far pairs, if
 * all pairs with at least one of u rows suffice.
 */

/* Tests whether a given fraction of all pairs is near, given a sample of the rows. */
typedef struct ShareTest
{
	double		share;			/* the supposed fraction of all pairs, from 0 to 1 */
	double		rows;			/* number of rows of the sample */
	double		total;			/* number of rows sampled from */
	double		deviations;		/* standard deviations, for the confidence */
	double		unseen;			/* rows that may all be missing from the sample */
	uint32	   *neighbours;		/* buffer, with an element for each row */
} ShareTest;

typedef enum ShareAnswer
{
	SHARE_IS_LESS = -1,			/* a smaller fraction of all pairs is near */
	SHARE_IS_POSSIBLE,
	SHARE_IS_MORE
} ShareAnswer;

/*
 * Returns the number of standard deviations within which a normal variable lies with this
 * probability.
 */
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

/* Ratio of the quantiles of Student's t distribution, by degrees of freedom, and the normal one. */
static double
WidthOfT(double z, double freedom)
{
	double		n = Max(freedom, 1.0);
	double		zz = z * z;

	return 1.0 + (zz + 1.0) / (4.0 * n) + ((5.0 * zz + 16.0) * zz + 3.0) / (96.0 * n * n);
}

/* The variance of the sample's fraction of near pairs, in two parts. */
typedef struct ShareVariance
{
	double		clusters;
	double		rest;
	double		rows;			/* effective number of rows behind clusters */
} ShareVariance;

/*
 * Variance of the fraction p of near pairs; if far is true, of pairs that are not near.
 *
 * zeta1 + p p is the probability that two rows are both near a third row.  It is estimated by
 * the paths of length two in the sample: c (c - 1) for each row with c neighbours.  (The variance
 * of c would include noise.  Where most c are zero, noise is most of that variance.)  If all rows
 * have the same number of neighbours, zeta1 is negative: -p (1 - p) / total.  The number of rows
 * behind it is L. Kish's effective sample size: the squared sum of the weights, divided by the sum
 * of their squares.
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

/*
 * Returns the largest fraction of pairs among unseen rows or, if far, of pairs of unseen rows with
 * all rows.
 */
static double
UnseenShare(const ShareTest *test, bool far)
{
	double		all = test->total * (test->total - 1.0);

	if (far)
		return test->unseen * (2.0 * test->total - test->unseen - 1.0) / all;
	return test->unseen * (test->unseen - 1.0) / all;
}

/* Returns true if this fraction is possible, although the sample's fraction p is smaller. */
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

/* Returns true if this fraction is possible, although the sample's fraction p is greater. */
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

/* Tests the fraction, if these pairs of the sample are near and all others are not. */
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
RequireArgument(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		ReportNullArgument("fasted_epsilon", name);
}

static void
CheckArguments(FunctionCallInfo fcinfo)
{
	double		neighbors;
	double		confidence;

	RequireArgument(fcinfo, ARG_RELATION, "relation");
	RequireArgument(fcinfo, ARG_COLUMN, "vector_column");
	RequireArgument(fcinfo, ARG_NEIGHBORS, "neighbors");
	RequireArgument(fcinfo, ARG_CONFIDENCE, "confidence");
	RequireArgument(fcinfo, ARG_METRIC, "metric");
	RequireArgument(fcinfo, ARG_IGNORE_COPIES, "ignore_copies");

	neighbors = PG_GETARG_FLOAT8(ARG_NEIGHBORS);
	if (!(neighbors > 0.0) || isinf(neighbors))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("neighbors must be finite and greater than zero"),
				 errhint("Specify the number of neighbors that rows should have on average.")));
	confidence = PG_GETARG_FLOAT8(ARG_CONFIDENCE);
	if (!(confidence > 0.0 && confidence < 1.0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("confidence must be between zero and one"),
				 errhint("Specify the probability that eps is between eps_low and eps_high, such as 0.95.")));
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

static void
WarnOfFewPairs(double share, const RowArray *array, uint64 total)
{
	double		pairs = share * PairsOf(array->count);

	if (pairs < FEW_PAIRS)
		ereport(WARNING,
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

/*
 * Finds, by bisection, the lowest rank above low for which the test of the pairs up to this
 * rank returns this answer or a greater one.  That must hold at high and not at low.  Pairs must be
 * partitioned at low and high; they are then partitioned at the result, too.
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
 * Returns the lower end of the interval: the smallest eps at which the fraction of pairs may be
 * the wanted one.  rank is the rank of the estimate, and pairs must be partitioned there.  Returns
 * least if no pairs at all may be the wanted fraction.
 */
static double
LowEnd(const ShareTest *test, FastedPair *pairs, size_t rank, double least)
{
	if (TestShare(test, pairs, 0) != SHARE_IS_LESS)
		return least;
	return SelectPair(pairs, rank, FirstRank(test, pairs, 0, rank, SHARE_IS_POSSIBLE));
}

/*
 * Returns the upper end of the interval: the smallest eps at which the fraction of pairs must be
 * greater than the wanted one.  Returns greatest if these pairs are too few to tell.
 */
static double
HighEnd(const ShareTest *test, FastedPair *pairs, size_t npairs, size_t rank, double greatest)
{
	if (TestShare(test, pairs, npairs) != SHARE_IS_MORE)
		return greatest;
	return SelectPair(pairs, npairs, FirstRank(test, pairs, rank - 1, npairs, SHARE_IS_MORE));
}

/* Sets eps, low and high from the distances of pairs.  Returns false if too few pairs count. */
static bool
FindInterval(DistanceGuess *guess, const ShareTest *test, Estimate *estimate)
{
	double		greatest = GreatestDistance(guess->source->metric, guess->rows.dimensions);
	double		least = LeastDistance(guess->source->metric);
	double		all = PairsOf(guess->rows.count);
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
		estimate->low = LowEnd(test, pairs, rank, least);
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

/* Computes eps exactly if array has all rows of the source; else estimates it from the sample. */
static Estimate
EstimateEps(const VectorSource *source, RowArray *array, uint64 total,
			const EpsilonRequest *request)
{
	Estimate	estimate = {.rows = total};
	bool		all = array->count == total;
	double		share = request->neighbors / (total - 1);
	DistanceGuess *guess;

	if (!all)
	{
		WarnOfFewPairs(share, array, total);
		array->count = RowsToUse(array, share);
	}
	estimate.sampled = array->count;
	guess = GuessDistances(source, array, request->ignore_copies);
	if (all)
	{
		estimate.eps = DistanceOfRank(guess, PairsWanted(request->neighbors, total));
		estimate.low = estimate.high = estimate.eps;
		estimate.found = !isnan(estimate.eps);
	}
	else
	{
		ShareTest	test;

		ShareTestInit(&test, share, array->count, total, request->confidence);
		estimate.found = FindInterval(guess, &test, &estimate);
	}
	if (!estimate.found)
		NoticeManyCopies(request->neighbors, array->count);
	else if (estimate.eps == 0.0 && source->metric != FASTED_METRIC_INNER_PRODUCT)
		NoticeCopies(guess, request->neighbors, total);
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
	bool		none = !estimate->found;
	bool		nulls[lengthof(values)] = {none, none, none, false, false};
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
	request.confidence = PG_GETARG_FLOAT8(ARG_CONFIDENCE);
	metric = MetricFromText(PG_GETARG_TEXT_PP(ARG_METRIC));
	request.ignore_copies = PG_GETARG_BOOL(ARG_IGNORE_COPIES);
	if (request.ignore_copies && metric == FASTED_METRIC_INNER_PRODUCT)
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
