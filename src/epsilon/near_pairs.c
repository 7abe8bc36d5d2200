/*-------------------------------------------------------------------------
 *
 * near_pairs.c
 *	  Guesses a distance, joins within it, and selects among what comes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/interrupts.h"
#include "epsilon/epsilon.h"
#include "utils/memutils.h"

/* Multiplications for the distances from which others are guessed. */
#define GUESS_WORK 1e8
#define LEAST_GUESS_ROWS 64
#define MOST_GUESS_ROWS 1000

/* A guess aims at half as much again, and at so many pairs of its own more. */
#define GUESS_MARGIN 1.5
#define GUESS_PAIRS 20.0

/* Distances that DistanceOfRank holds at a time, and bins into which it counts. */
#define WINDOW_PAIRS (2 * 1024 * 1024)
#define WINDOW_BINS 65536

/* --- selection */

/* Any order will do for pairs at the same distance, if it knows no rows. */
static uint64
Scatter(const FastedPair *pair)
{
	uint64		x = ((uint64) pair->a << 32 | pair->b) * UINT64CONST(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 32)) * UINT64CONST(0xd6e8feb86659fd93);
	return x ^ (x >> 32);
}

static inline bool
Precedes(const FastedPair *x, const FastedPair *y)
{
	if (likely(x->dist != y->dist))
		return x->dist < y->dist;
	return Scatter(x) < Scatter(y);
}

double
SelectPair(FastedPair *pairs, size_t npairs, size_t rank)
{
	int64		wanted = (int64) rank - 1;
	int64		low = 0;
	int64		high = (int64) npairs - 1;	/* the pair belongs into [low, high] */
	uint64		random = npairs;

	while (low < high)
	{
		int64		i = low;
		int64		j = high;
		FastedPair	pivot;

		CheckJoinInterrupts();
		random = random * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
		pivot = pairs[low + (random >> 11) % (high - low + 1)];
		while (i <= j)
		{
			while (Precedes(&pairs[i], &pivot))
				i++;
			while (Precedes(&pivot, &pairs[j]))
				j--;
			if (i <= j)
			{
				FastedPair	swap = pairs[i];

				pairs[i++] = pairs[j];
				pairs[j--] = swap;
			}
		}
		/* up to j they are no greater than the pivot, from i on no less, between the same */
		if (wanted <= j)
			high = j;
		else if (wanted >= i)
			low = i;
		else
			break;
	}
	return pairs[wanted].dist;
}

/* --- the guess */

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
PushArray(RowPusher *pusher, VectorJoin *join)
{
	const RowArray *array = &((ArrayPusher *) pusher)->array;
	Size		floats = RowFloats(array->element, array->dimensions);

	for (uint32 row = 0; row < array->count; row++)
	{
		CheckJoinInterrupts();
		if (!JoinPush(join, 0, array->rows + row * floats))
			return;
	}
}

static VectorJoin *
BeginJoin(ArrayPusher *rows, const VectorSource *source, double eps)
{
	JoinRequest request = {
		.problem = {.eps = eps,.output = FASTED_OUTPUT_PAIRS},.pusher = &rows->pusher
	};

	rows->pusher = (RowPusher) {
		.push = PushArray,.relid = source->relid,.sides = 1,.metric = source->metric,
		.element = rows->array.element,.dimensions = rows->array.dimensions,
		.expected_rows = {rows->array.count}
	};
	return JoinBegin(&request);
}

DistanceGuess *
GuessDistances(const VectorSource *source, const RowArray *array, bool ignore_copies)
{
	DistanceGuess *guess = palloc0(sizeof(DistanceGuess));
	ArrayPusher first = {.array = *array};
	const FastedPair *pairs;
	size_t		npairs;
	VectorJoin *join;

	first.array.count = GuessRows(array);
	guess->source = source;
	guess->rows.array = *array;
	guess->ignore_copies = ignore_copies;
	guess->pairs = MemoryContextAllocHuge(CurrentMemoryContext,
										  PairsOf(first.array.count) * sizeof(FastedPair));
	join = BeginJoin(&first, source, GreatestDistance(source->metric));
	while (JoinNext(join, &pairs, &npairs))
	{
		for (size_t i = 0; i < npairs; i++)
			if (PairCounts(guess, &pairs[i]))
				guess->pairs[guess->npairs++] = pairs[i];
		guess->all += npairs;
	}
	JoinEnd(join);
	if (guess->all < PairsOf(first.array.count))
		elog(ERROR, "the engine gave " UINT64_FORMAT " pairs of " UINT64_FORMAT,
			 guess->all, PairsOf(first.array.count));
	guess->complete = first.array.count == array->count;
	return guess;
}

/*
 * A distance within which so many pairs should be, and so many of the guess's own more; the
 * greatest one if none is known.
 */
static double
GuessDistance(DistanceGuess *guess, double pairs, double more)
{
	double		rank = ceil(pairs / PairsOf(guess->rows.array.count) * guess->all + more);

	if (rank > guess->npairs)
		return GreatestDistance(guess->source->metric);
	if (rank < 1)
		return 0.0;
	return SelectPair(guess->pairs, guess->npairs, rank);
}

/* One within which are more; in the direction of the greatest one with each step. */
static double
GuessAbove(DistanceGuess *guess, double pairs, double step)
{
	return GuessDistance(guess, GUESS_MARGIN * pairs * step, GUESS_PAIRS * step);
}

/* Gives all pairs within eps; the rows go to the engine the first time. */
static VectorJoin *
JoinWithin(DistanceGuess *guess, double eps)
{
	if (guess->join == NULL)
		guess->join = BeginJoin(&guess->rows, guess->source, eps);
	else
		JoinAgain(guess->join, eps);
	return guess->join;
}

FastedPair *
NearestPairs(DistanceGuess *guess, size_t *count)
{
	size_t		wanted = *count;
	size_t		capacity = wanted + wanted / 2 + 1024;
	size_t		n;				/* the nearest of those that came, and some more */
	double		farthest;		/* what is farther away is not among them */
	double		eps;
	double		step = 1.0;

	if (guess->complete)
	{
		if (wanted < guess->npairs)
			(void) SelectPair(guess->pairs, guess->npairs, wanted);
		*count = Min(wanted, guess->npairs);
		return guess->pairs;
	}
	if (guess->nearest != NULL)
		pfree(guess->nearest);
	guess->nearest = MemoryContextAllocHuge(CurrentMemoryContext, capacity * sizeof(FastedPair));
	do
	{
		const FastedPair *pairs;
		size_t		npairs;
		VectorJoin *join;

		n = 0;
		farthest = eps = GuessAbove(guess, wanted, step);
		join = JoinWithin(guess, eps);
		while (JoinNext(join, &pairs, &npairs))
			for (size_t i = 0; i < npairs; i++)
			{
				if (pairs[i].dist > farthest || !PairCounts(guess, &pairs[i]))
					continue;
				guess->nearest[n++] = pairs[i];
				if (n < capacity)
					continue;
				farthest = SelectPair(guess->nearest, n, wanted);
				n = wanted;
			}
		step *= 2.0;
	} while (n < wanted && eps < GreatestDistance(guess->source->metric));
	if (n > wanted)
		(void) SelectPair(guess->nearest, n, wanted);
	*count = Min(n, wanted);
	return guess->nearest;
}

/* --- the distance of a rank */

/*
 * Distances from low to high, as their bits, whose order is the same: they are
 * counted in bins and, as long as there is room, held.
 */
typedef struct Window
{
	uint64		low;
	uint64		high;
	int			shift;			/* (bits - low) >> shift is the number of a bin */
	uint64		below;			/* pairs that are nearer than low */
	uint64		inside;
	uint64		bins[WINDOW_BINS];
	FastedPair *held;
} Window;

static uint64
Bits(double distance)
{
	uint64		bits;

	memcpy(&bits, &distance, sizeof(bits));
	return bits;
}

static double
Distance(uint64 bits)
{
	double		distance;

	memcpy(&distance, &bits, sizeof(distance));
	return distance;
}

/* Counts all pairs up to the window's end, and holds as many of those inside as it can. */
static void
LookThrough(Window *window, DistanceGuess *guess)
{
	VectorJoin *join = JoinWithin(guess, Distance(window->high));
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
			uint64		bits = Bits(pairs[i].dist);

			if (!PairCounts(guess, &pairs[i]) || bits > window->high)
				continue;
			if (bits < window->low)
			{
				window->below++;
				continue;
			}
			window->bins[(bits - window->low) >> window->shift]++;
			if (window->inside < WINDOW_PAIRS)
				window->held[window->inside] = pairs[i];
			window->inside++;
		}
}

/* To the bin that has this rank in the window, counted from 1. */
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
	uint64		greatest = Bits(GreatestDistance(guess->source->metric));
	Window	   *window;

	if (guess->complete)
		return rank > guess->npairs ? -1.0 : SelectPair(guess->pairs, guess->npairs, rank);
	window = palloc(sizeof(Window));
	window->held = MemoryContextAllocHuge(CurrentMemoryContext, WINDOW_PAIRS * sizeof(FastedPair));
	window->low = Bits(GuessDistance(guess, rank / GUESS_MARGIN, -GUESS_PAIRS));
	window->high = Bits(GuessAbove(guess, rank, 1.0));
	for (;;)
	{
		LookThrough(window, guess);
		if (rank <= window->below)
		{
			window->high = window->low - 1;
			window->low = 0;
		}
		else if (rank > window->below + window->inside)
		{
			if (window->high == greatest)
				return -1.0;
			window->low = window->high + 1;
			window->high = greatest;
		}
		else if (window->inside <= WINDOW_PAIRS)
			return SelectPair(window->held, window->inside, rank - window->below);
		else
		{
			NarrowToBin(window, rank - window->below);
			if (window->low == window->high)
				return Distance(window->low);
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
