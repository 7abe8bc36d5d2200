/*-------------------------------------------------------------------------
 *
 * near_pairs.c
 *	  Estimates a distance, joins within it, and selects the distance of a rank from the result.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/interrupts.h"
#include "epsilon/epsilon.h"
#include "utils/memutils.h"

/* Limits for the first rows, whose distances are used to estimate distances: multiplications, rows. */
#define GUESS_WORK 1e8
#define LEAST_GUESS_ROWS 64
#define MOST_GUESS_ROWS 1000

/*
 * An estimated distance should enclose 1.5 times the requested number of pairs, and 20 more pairs
 * of the first rows.
 */
#define GUESS_MARGIN 1.5
#define GUESS_PAIRS 20.0

/* Distances that DistanceOfRank keeps in memory at a time, and number of bins of its histogram. */
#define WINDOW_DISTANCES (2 * 1024 * 1024)
#define WINDOW_BINS 65536

/* --- selection */

/*
 * Partially sorts distances: moves the one with this rank (from 1) to its place, with smaller ones
 * before it and greater ones behind it.  Returns the distance with this rank.
 */
static double
SelectDistance(double *distances, size_t count, size_t rank)
{
	int64		wanted = (int64) rank - 1;
	int64		low = 0;
	int64		high = (int64) count - 1;	/* the wanted distance is within [low, high] */
	uint64		random = count;

	while (low < high)
	{
		int64		i = low;
		int64		j = high;
		double		pivot;

		CheckJoinInterrupts();
		random = random * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
		pivot = distances[low + (random >> 11) % (high - low + 1)];
		while (i <= j)
		{
			while (distances[i] < pivot)
				i++;
			while (pivot < distances[j])
				j--;
			if (i <= j)
			{
				double		swap = distances[i];

				distances[i++] = distances[j];
				distances[j--] = swap;
			}
		}
		/* up to j they are <= pivot, from i on >= pivot, and any between equal it */
		if (wanted <= j)
			high = j;
		else if (wanted >= i)
			low = i;
		else
			break;
	}
	return distances[wanted];
}

/* --- estimates of distances */

static inline double
Greatest(const DistanceGuess *guess)
{
	return GreatestDistance(guess->source->metric, guess->rows.dimensions);
}

static inline bool
PairCounts(const DistanceGuess *guess, const FastedPair *pair)
{
	return pair->dist > 0.0 || !guess->ignore_copies;
}

static uint32
GuessRows(const RowArray *array)
{
	double		rows = sqrt(2.0 * GUESS_WORK / array->dimensions);

	rows = Max(LEAST_GUESS_ROWS, Min(rows, MOST_GUESS_ROWS));
	return Min(rows, array->count);
}

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

DistanceGuess *
GuessDistances(const VectorSource *source, const RowArray *array, bool ignore_copies)
{
	DistanceGuess *guess = palloc0(sizeof(DistanceGuess));
	RowArray	first = *array;
	const FastedPair *pairs;
	size_t		npairs;
	VectorJoin *join;

	first.count = GuessRows(array);
	guess->source = source;
	guess->rows = *array;
	guess->ignore_copies = ignore_copies;
	guess->distances = MemoryContextAllocHuge(CurrentMemoryContext,
											  PairsOf(first.count) * sizeof(double));
	join = BeginJoin(&first, source, GreatestDistance(source->metric, array->dimensions));
	while (JoinNext(join, &pairs, &npairs))
	{
		for (size_t i = 0; i < npairs; i++)
			if (PairCounts(guess, &pairs[i]))
				guess->distances[guess->ndistances++] = pairs[i].dist;
		guess->all += npairs;
	}
	JoinEnd(join);
	/* an inner product of doubles may be NaN, by overflow */
	if (fasted_metric_rules(source->metric)->negative_product)
		guess->all = PairsOf(first.count);
	if (guess->all < PairsOf(first.count))
		elog(ERROR, "engine returned " UINT64_FORMAT " pairs instead of " UINT64_FORMAT,
			 guess->all, PairsOf(first.count));
	guess->complete = first.count == array->count;
	return guess;
}

/*
 * Estimates a distance within which there are `pairs` pairs of all rows, and `more` additional
 * pairs of the first rows.  Returns the greatest possible distance if too few pairs are known.
 */
static double
GuessDistance(DistanceGuess *guess, double pairs, double more)
{
	double		rank = ceil(pairs / PairsOf(guess->rows.count) * guess->all + more);

	if (rank > guess->ndistances)
		return Greatest(guess);
	if (rank < 1)
		return LeastDistance(guess->source->metric);
	return SelectDistance(guess->distances, guess->ndistances, rank);
}

/* Starts a join that returns all pairs within eps; pushes the rows in the first call only. */
static VectorJoin *
JoinWithin(DistanceGuess *guess, double eps)
{
	if (guess->join == NULL)
		guess->join = BeginJoin(&guess->rows, guess->source, eps);
	else
		JoinAgain(guess->join, eps);
	return guess->join;
}

/* --- the distance of a rank */

/*
 * Histogram of the distances from low to high.  These are given as integers that sort in the same
 * order.  The distances themselves are kept as long as they fit.
 */
typedef struct Window
{
	uint64		low;
	uint64		high;
	int			shift;			/* a distance is counted in bin (bits - low) >> shift */
	uint64		below;			/* number of pairs closer than low */
	uint64		inside;
	uint64		bins[WINDOW_BINS];
	double	   *kept;
} Window;

#define SIGN_BIT (UINT64CONST(1) << 63)

/* The bit pattern; for a negative distance its complement; with the sign bit inverted. */
static uint64
DistanceToBits(double distance)
{
	uint64		bits;

	memcpy(&bits, &distance, sizeof(bits));
	return bits & SIGN_BIT ? ~bits : bits | SIGN_BIT;
}

static double
BitsToDistance(uint64 bits)
{
	double		distance;

	bits = bits & SIGN_BIT ? bits & ~SIGN_BIT : ~bits;
	memcpy(&distance, &bits, sizeof(distance));
	return distance;
}

/* Counts all pairs up to the end of the window, and keeps up to WINDOW_DISTANCES inside it. */
static void
ScanWindow(Window *window, DistanceGuess *guess)
{
	VectorJoin *join = JoinWithin(guess, BitsToDistance(window->high));
	const FastedPair *pairs;
	size_t		npairs;

	window->below = window->inside = 0;
	memset(window->bins, 0, sizeof(window->bins));
	window->shift = 0;
	while ((window->high - window->low) >> window->shift >= WINDOW_BINS)
		window->shift++;
	while (JoinNext(join, &pairs, &npairs))
		for (size_t i = 0; i < npairs; i++)
		{
			uint64		bits = DistanceToBits(pairs[i].dist);

			if (!PairCounts(guess, &pairs[i]) || bits > window->high)
				continue;
			if (bits < window->low)
			{
				window->below++;
				continue;
			}
			window->bins[(bits - window->low) >> window->shift]++;
			if (window->inside < WINDOW_DISTANCES)
				window->kept[window->inside] = pairs[i].dist;
			window->inside++;
		}
}

/* Narrows the window to the bin that contains this rank (from 1) within the window. */
static void
NarrowToBin(Window *window, uint64 rank)
{
	uint64		bin = 0;

	while (rank > window->bins[bin])
		rank -= window->bins[bin++];
	window->low += bin << window->shift;
	window->high = Min(window->high, window->low + ((UINT64CONST(1) << window->shift) - 1));
}

double
DistanceOfRank(DistanceGuess *guess, uint64 rank)
{
	uint64		greatest = DistanceToBits(Greatest(guess));
	Window	   *window;

	if (guess->complete)
		return rank > guess->ndistances ? get_float8_nan() :
			SelectDistance(guess->distances, guess->ndistances, rank);
	window = palloc(sizeof(Window));
	window->kept = MemoryContextAllocHuge(CurrentMemoryContext, WINDOW_DISTANCES * sizeof(double));
	window->low = DistanceToBits(GuessDistance(guess, rank / GUESS_MARGIN, -GUESS_PAIRS));
	window->high = DistanceToBits(GuessDistance(guess, rank * GUESS_MARGIN, GUESS_PAIRS));
	for (;;)
	{
		ScanWindow(window, guess);
		if (rank <= window->below)
		{
			window->high = window->low - 1;
			window->low = 0;
		}
		else if (rank > window->below + window->inside)
		{
			if (window->high == greatest)
				return get_float8_nan();
			window->low = window->high + 1;
			window->high = greatest;
		}
		else if (window->inside <= WINDOW_DISTANCES)
			return SelectDistance(window->kept, window->inside, rank - window->below);
		else
		{
			NarrowToBin(window, rank - window->below);
			if (window->low == window->high)
				return BitsToDistance(window->low);
		}
	}
}

uint64
CountCopies(DistanceGuess *guess)
{
	VectorJoin *join = JoinWithin(guess, 0.0);
	const FastedPair *pairs;
	size_t		npairs;
	uint64		count = 0;

	while (JoinNext(join, &pairs, &npairs))
		count += npairs;
	return count;
}

void
GuessEnd(DistanceGuess *guess)
{
	if (guess->join != NULL)
		JoinEnd(guess->join);
	guess->join = NULL;
}
