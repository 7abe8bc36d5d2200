/*-------------------------------------------------------------------------
 *
 * connecting.h
 *	  Adds the outputs _CONNECTIONS and _REPRESENTATIVES (engine.h) to the CPU engine, for engines
 *	  that simulate a GPU.
 *
 * It returns as few pairs as engine.h allows.  A pair of two rows that are already known to be core
 * rows is returned only if it unites two sets.  For each row that is not a representative, one pair
 * is returned.  Both outputs support only self-joins of at most CONNECTED_ROWS rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CONNECTING_H
#define CONNECTING_H

#include <pthread.h>
#include <stdlib.h>

#include "cpu/state/join.h"

typedef uint32_t uint32;		/* PostgreSQL's */
#include "base/row_numbers.h"

#define CONNECTED_ROWS 65536
#define CONNECTED_CONTEXTS 16

/* Result of a context's last join with _CONNECTIONS, by row number. */
typedef struct Connected
{
	FastedContext *context;
	uint32_t	counts[CONNECTED_ROWS];
	uint32_t	parent[CONNECTED_ROWS];
} Connected;

static Connected *connected[CONNECTED_CONTEXTS];

/* Devices open their joins in parallel threads. */
static pthread_mutex_t connected_lock = PTHREAD_MUTEX_INITIALIZER;

/* A join.  As in the CPU engine's joins, the context is the first field. */
typedef struct ConnectingJoin
{
	FastedContext *context;
	FastedJoin *join;
	FastedProblem problem;
	FastedSet  *sets[2];
	Connected  *state;			/* NULL: no connections */
	FastedPair *pairs;			/* pairs of the current batch; for _REPRESENTATIVES all pairs */
	size_t		npairs;
	bool		keeps;
} ConnectingJoin;

/* Returns the state of a context; NULL if there is no memory. */
static Connected *
connected_of(FastedContext *context)
{
	int			i = 0;

	pthread_mutex_lock(&connected_lock);
	while (connected[i] != NULL && connected[i]->context != context)
		i++;
	if (i == CONNECTED_CONTEXTS - 1)
		abort();
	if (connected[i] == NULL)
		connected[i] = calloc(1, sizeof(Connected));
	if (connected[i] != NULL)
		connected[i]->context = context;
	pthread_mutex_unlock(&connected_lock);
	return connected[i];
}

/* Frees the state of a context. */
static void
connecting_forget(FastedContext *context)
{
	int			end = 0;

	pthread_mutex_lock(&connected_lock);
	while (connected[end] != NULL)
		end++;
	for (int i = 0; i < end; i++)
	{
		if (connected[i]->context != context)
			continue;
		free(connected[i]);
		connected[i] = connected[end - 1];
		connected[end - 1] = NULL;
		break;
	}
	pthread_mutex_unlock(&connected_lock);
}

static FastedStatus
connecting_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a,
					 FastedSet *b, FastedJoin **result)
{
	ConnectingJoin *join = calloc(1, sizeof(*join));
	FastedProblem own = *problem;
	FastedStatus status = FASTED_OK;

	*result = NULL;
	if (join == NULL)
		return FASTED_OUT_OF_MEMORY;
	join->context = context;
	join->problem = *problem;
	join->sets[0] = a;
	join->sets[1] = b;
	if (problem->output == FASTED_OUTPUT_CONNECTIONS)
	{
		own.output = FASTED_OUTPUT_PAIRS;
		join->state = connected_of(context);
		if (join->state == NULL)
			status = FASTED_OUT_OF_MEMORY;
		for (uint32_t row = 0; row < CONNECTED_ROWS && status == FASTED_OK && !problem->continues; row++)
		{
			join->state->counts[row] = 0;
			join->state->parent[row] = row;
		}
	}
	if (problem->output == FASTED_OUTPUT_REPRESENTATIVES)
	{
		own.output = FASTED_OUTPUT_PAIRS;
		join->keeps = true;
	}
	if (status == FASTED_OK)
		status = fasted_cpu_engine()->join_open(context, &own, a, b, &join->join);
	if (status == FASTED_OK)
		*result = (FastedJoin *) join;
	else
		free(join);
	return status;
}

/* Counts the pair for both of its rows.  Returns true if the pair must be returned. */
static int
connecting_counts(ConnectingJoin *join, const FastedPair *pair)
{
	Connected  *state = join->state;
	uint32_t	a = ++state->counts[pair->a];
	uint32_t	b = ++state->counts[pair->b];

	if (a < join->problem.core_pairs || b < join->problem.core_pairs)
		return 1;
	if (FindRoot(state->parent, pair->a) == FindRoot(state->parent, pair->b))
		return 0;
	UniteSets(state->parent, pair->a, pair->b);
	return 1;
}

static uint32_t
rank_of(const ConnectingJoin *join, uint32_t row)
{
	return join->problem.ranks != NULL ? join->problem.ranks[row] : row;
}

/*
 * Finds each row's nearest representative, given the representatives of the previous round.
 * Returns true if any of them changed.  found has room for as many pairs.
 */
static bool
find_representatives(const ConnectingJoin *join, FastedPair *nearest, FastedPair *found, uint64_t rows)
{
	bool		changed = false;

	for (uint64_t row = 0; row < rows; row++)
		found[row] = (FastedPair) {.a = row,.b = row};
	for (size_t i = 0; i < join->npairs; i++)
	{
		FastedPair	pair = join->pairs[i];
		bool		swap = rank_of(join, pair.a) > rank_of(join, pair.b);
		uint32_t	first = swap ? pair.b : pair.a;
		FastedPair *own = &found[swap ? pair.a : pair.b];

		if (nearest[first].a == first &&
			(own->a == own->b || pair.dist < own->dist ||
			 (pair.dist == own->dist && rank_of(join, first) < rank_of(join, own->a))))
			*own = (FastedPair) {.a = first,.b = own->b,.dist = pair.dist};
	}
	for (uint64_t row = 0; row < rows; row++)
		changed = changed || found[row].a != nearest[row].a;
	memcpy(nearest, found, rows * sizeof(FastedPair));
	return changed;
}

/*
 * Replaces all pairs by one pair for each row that is not a representative.  Returns false if there
 * is no memory.
 */
static bool
leave_representatives(ConnectingJoin *join)
{
	uint64_t	rows = join->sets[0]->rows.rows;
	FastedPair *nearest = malloc((2 * rows + 1) * sizeof(FastedPair));

	if (nearest == NULL)
		return false;
	for (uint64_t row = 0; row < rows; row++)
		nearest[row] = (FastedPair) {.a = row,.b = row};
	while (find_representatives(join, nearest, nearest + rows, rows))
		;
	free(join->pairs);
	join->pairs = nearest;
	join->npairs = 0;
	for (uint64_t row = 0; row < rows; row++)
	{
		FastedPair	pair = nearest[row];

		if (pair.a > pair.b)
			pair = (FastedPair) {.a = pair.b,.b = pair.a,.dist = pair.dist};
		if (pair.a != pair.b)
			nearest[join->npairs++] = pair;
	}
	return true;
}

/* Makes room for this many more pairs. */
static bool
extend_pairs(ConnectingJoin *join, size_t count)
{
	FastedPair *pairs = realloc(join->pairs, (join->npairs + count + 1) * sizeof(FastedPair));

	if (pairs != NULL)
		join->pairs = pairs;
	return pairs != NULL;
}

static FastedStatus
keeping_next(ConnectingJoin *join, int timeout_ms, FastedBatch *batch)
{
	FastedStatus status = fasted_cpu_engine()->next(join->join, timeout_ms, batch);

	if (status == FASTED_OK)
	{
		if (!extend_pairs(join, batch->npairs))
			return FASTED_OUT_OF_MEMORY;
		memcpy(join->pairs + join->npairs, batch->pairs, batch->npairs * sizeof(FastedPair));
		join->npairs += batch->npairs;
		batch->npairs = 0;
		return FASTED_AGAIN;
	}
	if (status != FASTED_DONE)
		return status;
	join->keeps = false;
	if (!leave_representatives(join))
		return FASTED_OUT_OF_MEMORY;
	batch->pairs = join->pairs;
	batch->npairs = join->npairs;
	return join->npairs > 0 ? FASTED_OK : FASTED_DONE;
}

static FastedStatus
connecting_next(FastedJoin *handle, int timeout_ms, FastedBatch *batch)
{
	ConnectingJoin *join = (ConnectingJoin *) handle;

	if (join->keeps)
		return keeping_next(join, timeout_ms, batch);

	FastedStatus status = fasted_cpu_engine()->next(join->join, timeout_ms, batch);
	size_t		kept = 0;

	if (status != FASTED_OK || join->state == NULL)
		return status;
	if (!extend_pairs(join, batch->npairs))
		return FASTED_OUT_OF_MEMORY;
	for (size_t i = 0; i < batch->npairs; i++)
	{
		if (connecting_counts(join, &batch->pairs[i]))
			join->pairs[kept++] = batch->pairs[i];
	}
	batch->pairs = join->pairs;
	batch->npairs = kept;
	return kept > 0 ? FASTED_OK : FASTED_AGAIN;
}

static void
connecting_pause(FastedJoin *join)
{
	fasted_cpu_engine()->pause(((ConnectingJoin *) join)->join);
}

static FastedStatus
connecting_counts_of(FastedJoin *handle, int side, uint64_t first_row, size_t nrows,
					 uint32_t *counts)
{
	ConnectingJoin *join = (ConnectingJoin *) handle;
	uint64_t	first = join->sets[side]->options.first_row + first_row;

	if (join->state == NULL)
		return fasted_cpu_engine()->counts(join->join, side, first_row, nrows, counts);
	for (size_t i = 0; i < nrows; i++)
		counts[i] = join->state->counts[first + i];
	return FASTED_OK;
}

static void
connecting_join_close(FastedJoin *handle)
{
	ConnectingJoin *join = (ConnectingJoin *) handle;

	if (join == NULL)
		return;
	fasted_cpu_engine()->join_close(join->join);
	free(join->pairs);
	free(join);
}

/* Replaces the engine's functions; the caller replaces nearest again. */
static void
make_connecting(FastedEngine *engine)
{
	engine->join_open = connecting_join_open;
	engine->next = connecting_next;
	engine->pause = connecting_pause;
	engine->counts = connecting_counts_of;
	engine->join_close = connecting_join_close;
	engine->nearest = NULL;
	engine->rows_for_lists = NULL;
	engine->connects = engine->chooses_representatives = true;
}

#endif							/* CONNECTING_H */
