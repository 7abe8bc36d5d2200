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
#include "base/guc.h"
#include "base/interrupts.h"
#include "fmgr.h"
#include "funcapi.h"
#include "join/join.h"
#include "miscadmin.h"
#include "rows/reader.h"
#include "rows/vector.h"
#include "utils/float.h"
#include "utils/memutils.h"
#include "utils/sampling.h"

PG_FUNCTION_INFO_V1(fasted_epsilon);

/* Rows in memory, tightly packed. */
typedef struct RowArray
{
	FastedElement element;
	const float *rows;
	uint32		count;
	uint32		dimensions;
} RowArray;

/* The smallest sample; the distances between fewer rows are too few for an estimate. */
#define LEAST_SAMPLE_ROWS 100

/* The arguments of fasted_epsilon. */
typedef struct EpsilonRequest
{
	double		neighbors;		/* the wanted mean number of neighbours */
	bool		ignore_copies;	/* ignore pairs at a distance of 0 */
	uint32		sample_rows;	/* maximum size of the sample; 0: choose by neighbors */
	const uint64 *seed;			/* NULL: a different sample each time */
} EpsilonRequest;

/*
 * --- a random sample of the rows of a source
 *
 * The method is reservoir sampling: J. S. Vitter, Random Sampling with a Reservoir, ACM
 * Transactions on Mathematical Software 11 (1985), algorithm Z.  As in ANALYZE, it comes from
 * utils/sampling.h.  All rows are converted and checked, including those that are not sampled,
 * so that errors do not depend on chance.
 */

/*
 * If the sample size is not specified, it is chosen for about this many pairs within the wanted
 * eps, within these bounds.
 */
#define WANTED_PAIRS 2000.0
#define LEAST_ROWS 20000
#define MOST_ROWS 100000

/* Size of the buffer for rows that are not sampled. */
#define SKIPPED_BYTES (64 * 1024)

/* Number of rows between two checks of the clock, for progress. */
#define ROWS_PER_CLOCK_CHECK 64

typedef struct Reservoir
{
	RowSink		sink;
	MemoryContext context;
	Cleanup		cleanup;
	const VectorSource *source;
	const EpsilonRequest *request;
	ReservoirStateData random;

	uint64		limit_rows;		/* rows that fit into fasted.memory_limit */
	uint32		wanted;			/* wanted number of rows of the sample */
	uint32		dimensions;
	Size		row_bytes;
	float	   *rows;			/* the sample */
	uint32		allocated;		/* capacity of rows */
	float	   *skipped;		/* buffer for rows that are not sampled */
	uint32		skipped_rows;	/* its capacity in rows */

	uint64		seen;
	double		skip;			/* number of rows to skip before the next sampled one */
	uint32		replaced;		/* index of the row that it replaces */

	uint64		expected_rows;
	Progress	progress;
	uint64		next_clock_check;	/* number of rows at which to check the clock next */
} Reservoir;

static inline float *
RowAt(const Reservoir *reservoir, uint64 row)
{
	return reservoir->rows + row * reservoir->row_bytes / sizeof(float);
}

static void
ShowProgress(Reservoir *reservoir)
{
	ProgressNumbers numbers = {
		.rows_read = reservoir->seen,.rows_expected = reservoir->expected_rows
	};

	ProgressShow(&reservoir->progress, PROGRESS_READING, &numbers);
}

static void
ExpectRows(RowSink *sink, uint64 rows)
{
	Reservoir  *reservoir = (Reservoir *) sink;

	reservoir->expected_rows = rows;
	ShowProgress(reservoir);
}

static void
SetDimensions(RowSink *sink, int dimensions, const char *row_name)
{
	Reservoir  *reservoir = (Reservoir *) sink;
	const EpsilonRequest *request = reservoir->request;

	reservoir->dimensions = dimensions;
	reservoir->row_bytes = RowBytes(reservoir->source->element, dimensions);
	reservoir->limit_rows = (uint64) fasted_setting_memory_limit * 1024 / reservoir->row_bytes;
	reservoir->wanted = request->sample_rows;
	if (reservoir->wanted == 0)
	{
		double		rows = sqrt(2.0 * WANTED_PAIRS * reservoir->expected_rows / request->neighbors);

		rows = Max(LEAST_ROWS, Min(rows, MOST_ROWS));
		reservoir->wanted = Max(LEAST_SAMPLE_ROWS, Min(rows, reservoir->limit_rows));
	}
	reservoir->skipped_rows = Max(1, SKIPPED_BYTES / reservoir->row_bytes);
	reservoir->skipped = MemoryContextAlloc(reservoir->context,
											reservoir->skipped_rows * reservoir->row_bytes);

	reservoir_init_selection_state(&reservoir->random, reservoir->wanted);
	if (request->seed != NULL)
	{
		pg_prng_seed(&reservoir->random.randstate, *request->seed);
		/* repeat the rest of reservoir_init_selection_state, with this seed */
		reservoir->random.W = exp(-log(sampler_random_fract(&reservoir->random.randstate)) /
								  reservoir->wanted);
	}
}

static void
Enlarge(Reservoir *reservoir)
{
	uint64		rows = Max(1024, (uint64) reservoir->allocated * 2);
	Size		bytes;

	rows = Min(Min(rows, reservoir->wanted), reservoir->limit_rows);
	if (rows <= reservoir->allocated)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("sample of %u rows exceeds fasted.memory_limit",
						reservoir->wanted),
				 errdetail("Each row of \"%s\" takes %zu bytes.",
						   reservoir->source->relation, reservoir->row_bytes),
				 reservoir->limit_rows < LEAST_SAMPLE_ROWS ? errhint("Increase fasted.memory_limit.") :
				 errhint("Use sample_rows => " UINT64_FORMAT ", or increase fasted.memory_limit.",
						 reservoir->limit_rows)));
	bytes = rows * reservoir->row_bytes;
	reservoir->rows = reservoir->rows == NULL ? MemoryContextAllocHuge(reservoir->context, bytes) :
		repalloc_huge(reservoir->rows, bytes);
	reservoir->allocated = rows;
}

static size_t
BufferForRows(RowSink *sink, float **buffer)
{
	Reservoir  *reservoir = (Reservoir *) sink;

	if (reservoir->seen < reservoir->wanted)
	{
		if (reservoir->seen == reservoir->allocated)
			Enlarge(reservoir);
		*buffer = RowAt(reservoir, reservoir->seen);
		return reservoir->allocated - reservoir->seen;
	}
	if (reservoir->skip > 0)
	{
		*buffer = reservoir->skipped;
		return Min(reservoir->skip, reservoir->skipped_rows);
	}
	*buffer = RowAt(reservoir, reservoir->replaced);
	return 1;
}

/* For a full reservoir: chooses how many rows to skip, and the row to replace then. */
static void
ChooseNext(Reservoir *reservoir)
{
	reservoir->skip = reservoir_get_next_S(&reservoir->random, reservoir->seen, reservoir->wanted);
	reservoir->replaced = reservoir->wanted * sampler_random_fract(&reservoir->random.randstate);
}

static void
TakeRows(RowSink *sink, const Datum *keys, size_t nrows)
{
	Reservoir  *reservoir = (Reservoir *) sink;
	bool		passed_over = reservoir->seen >= reservoir->wanted && reservoir->skip > 0;

	reservoir->seen += nrows;
	if (passed_over)
		reservoir->skip -= nrows;
	else if (reservoir->seen >= reservoir->wanted)
		ChooseNext(reservoir);

	if (reservoir->seen >= reservoir->next_clock_check)
	{
		if (ProgressIsDue(&reservoir->progress))
			ShowProgress(reservoir);
		reservoir->next_clock_check = reservoir->seen + ROWS_PER_CLOCK_CHECK;
	}
}

static void
EndProgress(void *arg)
{
	ProgressEnd(&((Reservoir *) arg)->progress);
}

/* Shuffles the sample, so that its first rows are a random sample of it. */
static void
Shuffle(Reservoir *reservoir, uint32 count)
{
	for (uint32 i = 0; i + 1 < count; i++)
	{
		uint32		other = i + (uint32) ((count - i) * sampler_random_fract(&reservoir->random.randstate));
		float	   *a = RowAt(reservoir, i);
		float	   *b = RowAt(reservoir, other);

		if (i % ROWS_PER_CLOCK_CHECK == 0)
			CheckJoinInterrupts();
		if (other == i)
			continue;
		memcpy(reservoir->skipped, a, reservoir->row_bytes);
		memcpy(a, b, reservoir->row_bytes);
		memcpy(b, reservoir->skipped, reservoir->row_bytes);
	}
}

/*
 * Reads the source once, as a join does and with the same errors, and returns a uniform random
 * sample of its rows, or all of them, in random order.  The result is the number of rows of the
 * source that take part in a join.  Allocates in the current memory context, which must be
 * deleted or reset after an error.
 */
static uint64
ReadSample(const VectorSource *source, const EpsilonRequest *request, RowArray *array)
{
	Reservoir  *reservoir = palloc0(sizeof(Reservoir));

	reservoir->sink = (RowSink) {
		.in_order = request->seed != NULL,.expect_rows = ExpectRows,
		.set_dimensions = SetDimensions,.buffer_for_rows = BufferForRows,.take_rows = TakeRows
	};
	reservoir->context = CurrentMemoryContext;
	reservoir->source = source;
	reservoir->request = request;
	CleanupRegister(&reservoir->cleanup, EndProgress, reservoir);

	ProgressBegin(&reservoir->progress, source->relid);
	ReadVectors(source, &reservoir->sink);
	ProgressEnd(&reservoir->progress);
	*array = (RowArray) {
		.element = source->element,.rows = reservoir->rows,
		.count = Min(reservoir->seen, reservoir->wanted),.dimensions = reservoir->dimensions
	};
	Shuffle(reservoir, array->count);
	return reservoir->seen;
}

/*
 * --- the distance of a rank among all pairs
 *
 * An engine finds pairs within a given distance, not by rank.  The distance of the rank is therefore
 * estimated first, from all pairs of the first rows.  If too few pairs are within the estimate, the join
 * is repeated without it.  The rows are in random order.  Each pair of them has a distance: with cosine,
 * no row is zero.
 */

/* Limits for the first rows, whose distances are used for the estimate: multiplications, rows. */
#define GUESS_WORK 1e8
#define LEAST_GUESS_ROWS 64
#define MOST_GUESS_ROWS 1000

/* The estimate should enclose 1.5 times the requested number of pairs, and 20 more pairs of the first rows. */
#define GUESS_MARGIN 1.5
#define GUESS_PAIRS 20.0

static inline uint64
PairsOf(uint64 rows)
{
	return rows < 2 ? 0 : rows * (rows - 1) / 2;
}

#define ST_SORT SortDistances
#define ST_ELEMENT_TYPE double
#define ST_COMPARE(x, y) (*(x) < *(y) ? -1 : *(x) > *(y))
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

static void
PushArray(VectorJoin *join, const RowArray *array)
{
	Size		floats = RowFloats(array->element, array->dimensions);

	for (uint32 row = 0; row < array->count; row++)
	{
		CheckJoinInterrupts();
		if (!JoinPush(join, 0, array->rows + row * floats))
			return;
	}
}

/* Starts a join that returns all pairs of the rows within eps. */
static VectorJoin *
BeginJoin(const RowArray *array, const VectorSource *source, double eps)
{
	JoinRequest request = {
		.problem = {.eps = eps,.output = FASTED_OUTPUT_PAIRS},
		.relid = source->relid,.sides = 1,.metric = source->metric,.element = array->element,
		.dimensions = array->dimensions,.expected_rows = {array->count}
	};
	VectorJoin *join = JoinOpen(&request);

	do
		PushArray(join, array);
	while (!JoinStart(join));
	return join;
}

/*
 * Returns the distance with this rank (from 1) among the pairs within eps; NaN if there are fewer.
 * ignore_copies: pairs at a distance of 0 do not count.  Keeps up to twice as many distances as the rank.
 */
static double
RankWithin(const VectorSource *source, const RowArray *array, bool ignore_copies, double eps, uint64 rank)
{
	VectorJoin *join = BeginJoin(array, source, eps);
	uint64		capacity = Min(2 * rank, PairsOf(array->count) + 1);
	double	   *distances = MemoryContextAllocHuge(CurrentMemoryContext, capacity * sizeof(double));
	double		limit = HUGE_VAL;	/* distances from here on are not among the first `rank` ones */
	uint64		count = 0;
	const FastedPair *pairs;
	size_t		npairs;
	double		result;

	while (JoinNext(join, &pairs, &npairs))
		for (size_t i = 0; i < npairs; i++)
		{
			if ((ignore_copies && pairs[i].dist <= 0.0) || (count >= rank && pairs[i].dist >= limit))
				continue;
			distances[count++] = pairs[i].dist;
			if (count < capacity)
				continue;
			SortDistances(distances, count);
			count = Min(count, rank);
			limit = distances[count - 1];
		}
	JoinEnd(join);
	SortDistances(distances, count);
	result = count < rank ? get_float8_nan() : distances[rank - 1];
	pfree(distances);
	return result;
}

/*
 * Returns the distance with this rank (from 1) among all pairs, or those at a distance above 0; NaN if
 * there are fewer.
 */
static double
DistanceOfRank(const VectorSource *source, const RowArray *array, bool ignore_copies, uint64 rank)
{
	double		greatest = GreatestDistance(source->metric, array->dimensions);
	double		eps = greatest;
	double		distance;
	RowArray	first = *array;

	first.count = Max(LEAST_GUESS_ROWS, Min(sqrt(2.0 * GUESS_WORK / array->dimensions), MOST_GUESS_ROWS));
	if (first.count < array->count)
	{
		double		share = GUESS_MARGIN * rank / PairsOf(array->count);

		eps = RankWithin(source, &first, ignore_copies, greatest,
						 ceil(share * PairsOf(first.count) + GUESS_PAIRS));
	}
	distance = isnan(eps) ? eps : RankWithin(source, array, ignore_copies, eps, rank);
	return isnan(distance) && eps != greatest ?
		RankWithin(source, array, ignore_copies, greatest, rank) : distance;
}

/* --- the function */

/* A sample with fewer pairs within eps than FEW_PAIRS causes a NOTICE, with a better size. */
#define FEW_PAIRS 50.0
#define ENOUGH_PAIRS 1000.0

/* A sample is cut to about this number of pairs within eps; more would hardly improve the estimate. */
#define MOST_PAIRS 5000000.0

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
CheckArguments(FunctionCallInfo fcinfo)
{
	static const char *const required[] = {
		[ARG_RELATION] = "relation",[ARG_COLUMN] = "vector_column",[ARG_NEIGHBORS] = "neighbors",
		[ARG_METRIC] = "metric",[ARG_IGNORE_COPIES] = "ignore_copies"
	};
	double		neighbors;

	for (size_t n = 0; n < lengthof(required); n++)
		if (required[n] != NULL && PG_ARGISNULL(n))
			ReportNullArgument("fasted_epsilon", required[n]);
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
NoticeCopies(double neighbors)
{
	ereport(NOTICE,
			(errmsg("eps is 0, because exact copies alone give rows %.15g neighbors on average",
					neighbors),
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

/* Computes eps exactly if array has all rows of the source; else estimates it from the sample. */
static Estimate
EstimateEps(const VectorSource *source, RowArray *array, uint64 total,
			const EpsilonRequest *request)
{
	Estimate	estimate = {.rows = total};
	double		share = request->neighbors / (total - 1);
	double		neighbors;		/* within the sample */

	if (array->count < total)
		NoticeFewPairs(share, array, total);
	array->count = Min(array->count, Max(LEAST_SAMPLE_ROWS, sqrt(2.0 * MOST_PAIRS / share)));
	neighbors = array->count == total ? request->neighbors : share * (array->count - 1);
	estimate.sampled = array->count;
	estimate.eps = DistanceOfRank(source, array, request->ignore_copies, PairsWanted(neighbors, array->count));
	estimate.found = !isnan(estimate.eps);
	if (!estimate.found)
		NoticeManyCopies(request->neighbors, array->count);
	else if (estimate.eps == 0.0 && !fasted_metric_rules(source->metric)->negative_product)
		NoticeCopies(request->neighbors);
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
