/*-------------------------------------------------------------------------
 *
 * fake_engine.h
 *	  An engine that computes no distances and checks how its caller uses the interface.
 *
 * Each pair of rows of two sets is in the result, after a number of calls of next.  Rows have
 * one dimension, whose value identifies the row.  The engine counts forbidden calls, and any
 * single call can be made to fail.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAKE_ENGINE_H
#define FAKE_ENGINE_H

#include <string.h>

#include "../../src/engine/engine.h"
#include "tap.h"

#define FAKE_SETS 8
#define FAKE_ROOM 5				/* largest number of rows that stage returns room for */

struct FastedSet
{
	FastedContext *context;		/* NULL: this entry is unused */
	FastedSetOptions options;
	float	   *rows;
	uint64_t	count;
	uint64_t	held;
	size_t		offered;
	bool		sealed;
};

struct FastedJoin
{
	FastedContext *context;
	FastedProblem problem;
	FastedSet  *a;
	FastedSet  *b;
	int			polls;			/* remaining calls of next that return no pairs */
	uint64_t	next_a;			/* row whose pairs are returned next */
	bool		done;
	FastedPair *pairs;
};

struct FastedContext
{
	FastedSet	sets[FAKE_SETS];
	FastedJoin *join;
	FastedStats stats;
};

/* Settings of the fake engine, and what it recorded. */
typedef struct Fake
{
	uint64_t	limit;			/* largest number of rows in all sets together */
	int			polls;			/* calls of next without pairs in each join */
	int			fail_at;		/* number of the call that fails; 0: none */

	int			calls;
	bool		failed;
	int			wrong;			/* number of calls that the interface forbids */
	const char *what;			/* description of the first forbidden call */
	int			contexts;		/* number of open contexts */
	int			joins;
	int			pauses;
	uint64_t	resident;		/* largest number of rows held at the same time */
	uint64_t	staged_idle;	/* rows committed while no join was open */
	uint64_t	staged_busy;
	int			last_timeout;
} Fake;

static Fake fake;

static inline void
fake_check(bool right, const char *what)
{
	if (right)
		return;
	if (fake.wrong++ == 0)
		fake.what = what;
}

/* Called by every function that can fail.  Counts the call and decides whether it fails. */
static inline FastedStatus
fake_call(void)
{
	fake_check(!fake.failed, "a call after a failure");
	if (++fake.calls != fake.fail_at)
		return FASTED_OK;
	fake.failed = true;
	return FASTED_OUT_OF_DEVICE_MEMORY;
}

static FastedStatus
fake_open(const FastedOptions *options, FastedContext **context)
{
	(void) options;
	*context = NULL;
	if (fake_call() != FASTED_OK)
		return FASTED_OUT_OF_MEMORY;
	*context = must_alloc(sizeof(**context));
	memset(*context, 0, sizeof(**context));
	fake.contexts++;
	return FASTED_OK;
}

static void
fake_stats(const FastedContext *context, FastedStats *stats)
{
	*stats = context->stats;
}

static const char *
fake_last_error(const FastedContext *context)
{
	(void) context;
	return fake.failed ? "as it was told" : "";
}

static void
fake_join_close(FastedJoin *join)
{
	if (join == NULL)
		return;
	join->context->join = NULL;
	free(join->pairs);
	free(join);
}

static bool
fake_in_use(const FastedSet *set)
{
	const FastedJoin *join = set->context->join;

	return join != NULL && (join->a == set || join->b == set);
}

static void
fake_set_close(FastedSet *set)
{
	if (set == NULL)
		return;
	fake_check(!fake_in_use(set), "a set in a join is closed");
	free(set->rows);
	memset(set, 0, sizeof(*set));
}

static void
fake_close(FastedContext *context)
{
	if (context == NULL)
		return;
	fake_join_close(context->join);
	for (int i = 0; i < FAKE_SETS; i++)
	{
		if (context->sets[i].context != NULL)
			fake_set_close(&context->sets[i]);
	}
	free(context);
	fake.contexts--;
}

static bool
fake_fits(const FastedContext *context, const uint64_t *rows, int nsets)
{
	uint64_t	sum = 0;

	(void) context;
	for (int i = 0; i < nsets; i++)
		sum += rows[i];
	return sum <= fake.limit;
}

static FastedStatus
fake_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **set)
{
	FastedStatus status = fake_call();
	int			i = 0;

	*set = NULL;
	if (status != FASTED_OK)
		return status;
	while (context->sets[i].context != NULL)
		i++;
	*set = &context->sets[i];
	(*set)->context = context;
	(*set)->options = *options;
	(*set)->rows = must_alloc(fake.limit * sizeof(float));
	return FASTED_OK;
}

static uint64_t
fake_resident(const FastedContext *context)
{
	uint64_t	sum = 0;

	for (int i = 0; i < FAKE_SETS; i++)
		sum += context->sets[i].held;
	return sum;
}

static FastedStatus
fake_stage(FastedSet *set, float **rows, size_t *capacity)
{
	FastedStatus status = fake_call();
	uint64_t	left = fake.limit - fake_resident(set->context) + set->held - set->count;

	if (status != FASTED_OK)
		return status;
	fake_check(!set->sealed && !fake_in_use(set), "rows for a set that is sealed or joined");
	if (set->options.most_rows > 0 && left > set->options.most_rows - set->count)
		left = set->options.most_rows - set->count;
	if (left == 0)
		return FASTED_FULL;
	*rows = set->rows + set->count;
	*capacity = set->offered = left < FAKE_ROOM ? left : FAKE_ROOM;
	return FASTED_OK;
}

static FastedStatus
fake_commit(FastedSet *set, size_t nrows)
{
	FastedStatus status = fake_call();

	if (status != FASTED_OK)
		return status;
	fake_check(nrows <= set->offered, "more rows are committed than were staged");
	set->offered = 0;
	set->count += nrows;
	if (set->count > set->held)
		set->held = set->count;
	if (fake_resident(set->context) > fake.resident)
		fake.resident = fake_resident(set->context);
	*(set->context->join != NULL ? &fake.staged_busy : &fake.staged_idle) += nrows;
	return FASTED_OK;
}

static bool
fake_register_memory(FastedSet *set, void *memory, size_t bytes)
{
	(void) memory;
	(void) bytes;
	return !set->sealed;
}

static void
fake_unregister_memory(FastedSet *set)
{
	(void) set;
}

static FastedStatus
fake_put(FastedSet *set, const float *rows, size_t nrows, size_t *taken)
{
	float	   *room;
	FastedStatus status = fake_stage(set, &room, taken);

	if (status != FASTED_OK)
	{
		*taken = 0;
		return status;
	}
	if (*taken > nrows)
		*taken = nrows;
	memcpy(room, rows, *taken * sizeof(float));
	return fake_commit(set, *taken);
}

static FastedStatus
fake_wait_read(FastedSet *set, bool all)
{
	(void) all;
	(void) set;
	return fake_call();
}

static FastedStatus
fake_read_back(FastedSet *set, uint64_t first_row, size_t nrows, float *rows)
{
	FastedStatus status = fake_call();

	if (status != FASTED_OK)
		return status;
	fake_check(!set->sealed && first_row + nrows <= set->count, "read_back out of range");
	memcpy(rows, set->rows + first_row, nrows * sizeof(float));
	return FASTED_OK;
}

static FastedStatus
fake_seal(FastedSet *set)
{
	FastedStatus status = fake_call();

	fake_check(!set->sealed, "a set is sealed twice");
	set->sealed = true;
	return status;
}

static FastedStatus
fake_set_reset(FastedSet *set, uint64_t first_row)
{
	FastedStatus status = fake_call();

	fake_check(!fake_in_use(set), "a set in a join is emptied");
	set->count = 0;
	set->sealed = false;
	set->options.first_row = first_row;
	return status;
}

static FastedStatus
fake_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a,
			   FastedSet *b, FastedJoin **join)
{
	FastedStatus status = fake_call();

	*join = NULL;
	if (status != FASTED_OK)
		return status;
	fake_check(a->sealed && b->sealed && context->join == NULL, "unsealed sets, or a second join");
	*join = must_alloc(sizeof(**join));
	**join = (FastedJoin) {.context = context,.problem = *problem,.a = a,.b = b,
	.polls = fake.polls};
	(*join)->pairs = must_alloc(b->count * sizeof(FastedPair));
	context->join = *join;
	context->stats.units_total += a->count;
	fake.joins++;
	return FASTED_OK;
}

/* Returns the pairs of one row of a. */
static FastedStatus
fake_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	FastedStatus status = fake_call();
	FastedSet  *b = join->b;

	memset(batch, 0, sizeof(*batch));
	fake.last_timeout = timeout_ms;
	if (status != FASTED_OK)
		return status;
	if (join->polls-- > 0)
		return FASTED_AGAIN;
	while (join->next_a < join->a->count && batch->npairs == 0)
	{
		uint64_t	i = join->next_a++;

		for (uint64_t j = b == join->a ? i + 1 : 0; j < b->count; j++)
			join->pairs[batch->npairs++] = (FastedPair) {
				.a = (uint32_t) (join->a->options.first_row + i),
				.b = (uint32_t) (b->options.first_row + j),
				/* identifies both rows, if their values are correct */
				.dist = (double) join->a->rows[i] * 1e4 + b->rows[j],
			};
		join->context->stats.units_done++;
		join->context->stats.pairs += batch->npairs;
		if (join->problem.output != FASTED_OUTPUT_PAIRS)
			batch->npairs = 0;
	}
	batch->pairs = join->pairs;
	join->done = batch->npairs == 0;
	return join->done ? FASTED_DONE : FASTED_OK;
}

static void
fake_pause(FastedJoin *join)
{
	fake_check(!join->done, "pause after the end");
	fake.pauses++;
}

static FastedStatus
fake_counts(FastedJoin *join, int side, uint64_t first_row, size_t nrows, uint32_t *counts)
{
	FastedStatus status = fake_call();
	bool		self = join->a == join->b;
	const FastedSet *set = side == 0 ? join->a : join->b;

	fake_check(join->done && (side == 0 || (side == 1 && !self)) &&
			   first_row + nrows <= set->count, "row numbers of counts out of range");
	for (size_t i = 0; i < nrows; i++)
		counts[i] = (uint32_t) (self ? set->count - 1
								: side == 0 ? join->b->count : join->a->count);
	return status;
}

static const FastedEngine fake_engine = {
	.abi = FASTED_ENGINE_ABI,
	.name = "fake",
	.open = fake_open,
	.stats = fake_stats,
	.last_error = fake_last_error,
	.close = fake_close,
	.fits = fake_fits,
	.set_open = fake_set_open,
	.stage = fake_stage,
	.commit = fake_commit,
	.register_memory = fake_register_memory,
	.unregister_memory = fake_unregister_memory,
	.put = fake_put,
	.wait_read = fake_wait_read,
	.read_back = fake_read_back,
	.seal = fake_seal,
	.set_reset = fake_set_reset,
	.set_close = fake_set_close,
	.join_open = fake_join_open,
	.next = fake_next,
	.pause = fake_pause,
	.counts = fake_counts,
	.join_close = fake_join_close,
};

#endif							/* FAKE_ENGINE_H */
