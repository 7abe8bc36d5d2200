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

void
SelectPair(FastedPair *pairs, size_t npairs, size_t rank)
{
	size_t		low = 0;
	size_t		high = npairs;	/* the pair belongs into [low, high) */
	uint64		random = npairs;

	while (high - low > 1)
	{
		size_t		i = low;
		size_t		j = high - 1;
		FastedPair	pivot;
		FastedPair	swap;

		CheckJoinInterrupts();
		random = random * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
		pivot = pairs[low + (random >> 11) % (high - low)];
		for (;;)
		{
			while (Precedes(&pairs[i], &pivot))
				i++;
			while (Precedes(&pivot, &pairs[j]))
				j--;
			if (i >= j)
				break;
			swap = pairs[i];
			pairs[i++] = pairs[j];
			pairs[j--] = swap;
		}
		/* up to j they are no greater than the pivot, behind it no less */
		if (i == j && rank == j + 1)
			return;
		if (rank > j + 1)
			low = j + 1;
		else
			high = (i == j) ? j : j + 1;
	}
}

/* --- the guess */

static inline bool
PairCounts(const DistanceGuess *guess, const FastedPair *pair)
{
	return pair->dist > 0.0 || !guess->ignore_copies;
}

static void
CheckComplete(uint64 npairs, uint64 wanted)
{
	if (npairs < wanted)
		elog(ERROR, "the engine gave " UINT64_FORMAT " pairs of at least " UINT64_FORMAT,
			 npairs, wanted);
}

static uint32
GuessRows(const RowArray *array)
{
	double		rows = sqrt(2.0 * GUESS_WORK / array->dimensions);

	rows = Max(LEAST_GUESS_ROWS, Min(rows, MOST_GUESS_ROWS));
	return Min(rows, array->count);
}

/* Whoever keeps all pairs. */
typedef struct AllPairs
{
	PairSink	sink;
	DistanceGuess *guess;
} AllPairs;

static void
KeepPairs(PairSink *sink, const FastedPair *pairs, size_t npairs)
{
	DistanceGuess *guess = ((AllPairs *) sink)->guess;

	for (size_t i = 0; i < npairs; i++)
		if (PairCounts(guess, &pairs[i]))
			guess->pairs[guess->npairs++] = pairs[i];
	guess->all += npairs;
}

DistanceGuess *
GuessDistances(const VectorSource *source, const RowArray *array, bool ignore_copies)
{
	DistanceGuess *guess = palloc0(sizeof(DistanceGuess));
	AllPairs	all = {{KeepPairs}, guess};
	RowArray	first = *array;
	Join	   *join;

	first.count = GuessRows(array);
	guess->source = source;
	guess->array = array;
	guess->ignore_copies = ignore_copies;
	guess->pairs = MemoryContextAllocHuge(CurrentMemoryContext,
										  PairsOf(first.count) * sizeof(FastedPair));
	join = JoinBeginRows(source, &first, GreatestDistance(source->metric));
	JoinRun(join, &all.sink);
	JoinEnd(join);
	CheckComplete(guess->all, PairsOf(first.count));
	guess->complete = first.count == array->count;
	return guess;
}

/* A distance within which so many pairs should be; the greatest one if none is known. */
static double
GuessDistance(DistanceGuess *guess, double pairs)
{
	double		rank = ceil(pairs / PairsOf(guess->array->count) * guess->all);

	if (rank > guess->npairs)
		return GreatestDistance(guess->source->metric);
	if (rank < 1)
		return 0.0;
	SelectPair(guess->pairs, guess->npairs, rank);
	return guess->pairs[(size_t) rank - 1].dist;
}

/* One within which are more; in the direction of the greatest one with each step. */
static double
GuessAbove(DistanceGuess *guess, double pairs, double step)
{
	double		more = GUESS_PAIRS * PairsOf(guess->array->count) / guess->all;

	return GuessDistance(guess, (GUESS_MARGIN * pairs + more) * step);
}

static double
GuessBelow(DistanceGuess *guess, double pairs)
{
	double		less = GUESS_PAIRS * PairsOf(guess->array->count) / guess->all;

	return GuessDistance(guess, pairs / GUESS_MARGIN - less);
}

/* Gives the sink all pairs within eps; the rows go to the engine the first time. */
static void
TakeWithin(DistanceGuess *guess, double eps, PairSink *sink)
{
	if (guess->join == NULL)
		guess->join = JoinBeginRows(guess->source, guess->array, eps);
	else
		JoinAgain(guess->join, eps);
	JoinRun(guess->join, sink);
}

/* --- the nearest pairs */

/* Whoever keeps the nearest pairs of those that came, and some more. */
typedef struct Nearest
{
	PairSink	sink;
	const DistanceGuess *guess;
	FastedPair *pairs;
	size_t		npairs;
	size_t		wanted;
	size_t		capacity;
	double		farthest;		/* what is farther away is not among them */
} Nearest;

static void
Trim(Nearest *nearest)
{
	if (nearest->npairs <= nearest->wanted)
		return;
	SelectPair(nearest->pairs, nearest->npairs, nearest->wanted);
	nearest->npairs = nearest->wanted;
	nearest->farthest = nearest->pairs[nearest->wanted - 1].dist;
}

static void
AddPairs(PairSink *sink, const FastedPair *pairs, size_t npairs)
{
	Nearest    *nearest = (Nearest *) sink;

	for (size_t i = 0; i < npairs; i++)
	{
		if (pairs[i].dist > nearest->farthest || !PairCounts(nearest->guess, &pairs[i]))
			continue;
		if (nearest->npairs == nearest->capacity)
			Trim(nearest);
		nearest->pairs[nearest->npairs++] = pairs[i];
	}
}

FastedPair *
NearestPairs(DistanceGuess *guess, size_t *count)
{
	Nearest		nearest = {.sink = {AddPairs},.guess = guess};
	double		greatest = GreatestDistance(guess->source->metric);
	double		step = 1.0;
	double		eps;

	if (guess->complete)
	{
		*count = Min(*count, guess->npairs);
		SelectPair(guess->pairs, guess->npairs, *count);
		return guess->pairs;
	}
	if (guess->nearest != NULL)
		pfree(guess->nearest);
	guess->nearest = NULL;
	nearest.wanted = *count;
	nearest.capacity = *count + *count / 2 + 1024;
	nearest.pairs = MemoryContextAllocHuge(CurrentMemoryContext, nearest.capacity * sizeof(FastedPair));
	do
	{
		eps = GuessAbove(guess, *count, step);
		nearest.npairs = 0;
		nearest.farthest = eps;
		TakeWithin(guess, eps, &nearest.sink);
		step *= 2.0;
	} while (nearest.npairs < *count && eps < greatest);
	if (!guess->ignore_copies)
		CheckComplete(nearest.npairs, *count);
	Trim(&nearest);
	*count = nearest.npairs;
	guess->nearest = nearest.pairs;
	return nearest.pairs;
}

/* --- the distance of a rank */

/*
 * Distances from low to high, as their bits, whose order is the same: they are
 * counted in bins and, as long as there is room, held.
 */
typedef struct Window
{
	PairSink	sink;
	const DistanceGuess *guess;
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

static void
CountInWindow(PairSink *sink, const FastedPair *pairs, size_t npairs)
{
	Window	   *window = (Window *) sink;

	for (size_t i = 0; i < npairs; i++)
	{
		uint64		bits = Bits(pairs[i].dist);

		if (!PairCounts(window->guess, &pairs[i]))
			continue;
		if (bits < window->low)
			window->below++;
		else if (bits <= window->high)
		{
			window->bins[(bits - window->low) >> window->shift]++;
			if (window->inside < WINDOW_PAIRS)
				window->held[window->inside] = pairs[i];
			window->inside++;
		}
	}
}

static void
LookThrough(Window *window, DistanceGuess *guess)
{
	window->below = window->inside = 0;
	memset(window->bins, 0, sizeof(window->bins));
	window->shift = 0;
	while ((window->high - window->low) >> window->shift >= WINDOW_BINS)
		window->shift++;
	TakeWithin(guess, Distance(window->high), &window->sink);
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
	{
		if (rank > guess->npairs)
			return -1.0;
		SelectPair(guess->pairs, guess->npairs, rank);
		return guess->pairs[rank - 1].dist;
	}
	window = palloc(sizeof(Window));
	window->sink.take = CountInWindow;
	window->guess = guess;
	window->held = MemoryContextAllocHuge(CurrentMemoryContext, WINDOW_PAIRS * sizeof(FastedPair));
	window->low = Bits(GuessBelow(guess, rank));
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
			{
				if (!guess->ignore_copies)
					CheckComplete(window->below + window->inside, rank);
				return -1.0;
			}
			window->low = window->high + 1;
			window->high = greatest;
		}
		else if (window->inside <= WINDOW_PAIRS)
		{
			SelectPair(window->held, window->inside, rank - window->below);
			return window->held[rank - window->below - 1].dist;
		}
		else
		{
			NarrowToBin(window, rank - window->below);
			if (window->low == window->high)
				return Distance(window->low);
		}
	}
}

/* --- copies */

/* Whoever counts pairs. */
typedef struct PairCounter
{
	PairSink	sink;
	uint64		npairs;
} PairCounter;

static void
CountPairs(PairSink *sink, const FastedPair *pairs, size_t npairs)
{
	((PairCounter *) sink)->npairs += npairs;
}

uint64
CountCopies(DistanceGuess *guess)
{
	PairCounter counter = {.sink = {CountPairs}};

	TakeWithin(guess, 0.0, &counter.sink);
	return counter.npairs;
}

void
GuessEnd(DistanceGuess *guess)
{
	if (guess->join != NULL)
		JoinEnd(guess->join);
	guess->join = NULL;
}
