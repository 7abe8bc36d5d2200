/*-------------------------------------------------------------------------
 *
 * join.c
 *	  One self-join from beginning to end: rows in, pairs of row numbers out.
 *
 * The engine's memory and threads are not PostgreSQL's, so a reset callback of
 * the join's memory context closes the engine, however the query ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "join/engines.h"
#include "join/join.h"
#include "join/options.h"
#include "join/spill.h"
#include "portability/instr_time.h"
#include "read/reader.h"
#include "session/interrupts.h"
#include "session/progress.h"
#include "utils/memutils.h"

/* Rows between two looks at the clock, for progress, while reading. */
#define ROWS_PER_LOOK 64

/* Rows that are read back from the engine, or fed to it, at a time. */
#define COPY_BYTES (4 * 1024 * 1024)

struct Join
{
	RowSink		sink;
	MemoryContext context;
	MemoryContextCallback callback;
	const VectorSource *source;
	const RowArray *array;		/* the rows, if they are in memory */
	double		eps;
	FastedOutput output;
	JoinOptions options;

	const FastedEngine *engine; /* NULL before the first vector */
	FastedJoin *handle;
	bool		fallible;		/* "auto" chose a GPU: the CPU can still do it */
	bool		failed;			/* and the GPU did fail */

	uint64		expected_rows;
	uint32		dimensions;
	KeySet	   *keys;

	/* Rows on their way into the engine, or into the file once it is full. */
	float	   *room;
	size_t		capacity;
	size_t		used;
	uint64		committed;		/* rows that the engine has */
	SpillFile  *spill;			/* all rows, if they are too many */

	/* Memory that rows may be put from, and whether the engine takes them there. */
	void	   *lent;
	size_t		lent_bytes;
	bool		puts;
	uint64		put_rows;		/* that it took */

	instr_time	begun;
	double		read_seconds;
	int			nworkers;		/* parallel workers that read */
	uint64		worker_rows;	/* the rows they read */
	Progress	progress;
	uint32		next_look;		/* at the clock: when that many rows are read */
	bool		unseen;			/* pairs have come since progress was shown */
};

static void
CloseEngine(Join *join)
{
	FastedJoin *handle = join->handle;

	join->handle = NULL;
	join->puts = false;
	if (handle != NULL)
		join->engine->close(handle);
}

static void
CloseCallback(void *arg)
{
	Join	   *join = arg;

	CloseEngine(join);
	ProgressEnd(&join->progress);
}

static void
WarnOfFallBack(const char *text)
{
	static bool warned = false;

	if (!warned)
		ereport(WARNING,
				(errmsg("the GPU failed, so the CPU computes instead"),
				 errdetail_internal("%s", text),
				 errhint("Use \"SET fasted.engine = cpu\" not to try the GPU.")));
	warned = true;
}

/*
 * Reports a failure of the engine; returns other statuses.  While the CPU can
 * still take over, the failure is only noted (join->failed) and returned.
 */
static FastedStatus
Check(Join *join, FastedStatus status)
{
	char	   *text;

	if (likely(!FASTED_FAILED(status)))
		return status;
	text = MemoryContextStrdup(join->context, join->engine->last_error(join->handle));
	CloseEngine(join);
	if (!join->fallible)
		ReportEngineFailure(join->engine, status, text);
	join->failed = true;
	WarnOfFallBack(text);
	return status;
}

static void
ShowProgress(Join *join, ProgressPhase phase)
{
	ProgressNumbers numbers = {0};

	numbers.rows_read = join->keys->count;
	numbers.rows_expected = join->expected_rows;
	join->unseen = false;
	if (phase == PROGRESS_JOINING)
	{
		FastedStats stats;

		join->engine->stats(join->handle, &stats);
		numbers.units_done = stats.units_done;
		numbers.units_total = stats.units_total;
		numbers.pairs = stats.pairs;
	}
	ProgressShow(&join->progress, phase, &numbers);
}

static void
ExpectRows(RowSink *sink, uint64 rows)
{
	Join	   *join = (Join *) sink;

	join->expected_rows = rows;
	join->next_look = 0;
	ShowProgress(join, PROGRESS_READING);
}

static void
SetDimensions(RowSink *sink, int dimensions)
{
	Join	   *join = (Join *) sink;
	FastedProblem problem = ProblemOf(&join->options);

	join->dimensions = dimensions;
	join->engine = join->failed ? fasted_cpu_engine() :
		ChooseEngine(&join->options, join->expected_rows, dimensions);
	join->fallible = join->options.engine == ENGINE_AUTO && join->engine != fasted_cpu_engine();
	join->failed = false;

	problem.dimensions = dimensions;
	problem.eps = join->eps;
	problem.output = join->output;
	problem.expected_rows = join->expected_rows;
	if (!FASTED_FAILED(Check(join, join->engine->open(&problem, &join->handle))) && join->lent != NULL)
		join->puts = join->engine->lend(join->handle, join->lent, join->lent_bytes);
}

static size_t
CopyRows(const Join *join)
{
	return Max(1, COPY_BYTES / (join->dimensions * sizeof(float)));
}

/* The engine can hold no more: all rows move to a temporary file. */
static void
MoveToSpillFile(Join *join)
{
	size_t		chunk = CopyRows(join);
	float	   *rows = MemoryContextAlloc(join->context, chunk * join->dimensions * sizeof(float));
	MemoryContext old = MemoryContextSwitchTo(join->context);

	join->spill = SpillCreate(join->dimensions);
	MemoryContextSwitchTo(old);
	for (uint64 first = 0; first < join->committed; first += chunk)
	{
		size_t		n = Min(chunk, join->committed - first);

		if (FASTED_FAILED(Check(join, join->engine->read_back(join->handle, first, n, rows))))
			return;
		SpillAppend(join->spill, rows, n);
	}

	/* the copy buffer becomes the room in which further rows wait */
	join->room = rows;
	join->capacity = chunk;
}

static void
FlushRoom(Join *join)
{
	if (join->used == 0 || join->failed)
		return;
	if (join->spill != NULL)
		SpillAppend(join->spill, join->room, join->used);
	else
	{
		Check(join, join->engine->commit(join->handle, join->used));
		join->committed += join->used;
	}
	join->used = 0;
}

static size_t
RoomForRows(RowSink *sink, float **room)
{
	Join	   *join = (Join *) sink;

	if (join->used == join->capacity)
	{
		FlushRoom(join);
		if (join->spill == NULL && !join->failed &&
			Check(join, join->engine->stage(join->handle, &join->room,
											&join->capacity)) == FASTED_FULL)
			MoveToSpillFile(join);
	}
	if (join->failed)
		return 0;
	*room = join->room + join->used * join->dimensions;
	return join->capacity - join->used;
}

static void
NoteRows(Join *join, const Datum *keys, size_t nrows)
{
	if (join->keys->count + nrows > FASTED_MAX_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("\"%s\" has too many rows to join", join->source->relation),
				 errhint("At most %u rows can be joined at once.", FASTED_MAX_ROWS)));
	for (size_t i = 0; i < nrows; i++)
		KeySetAdd(join->keys, keys[i]);
	if (join->keys->count >= join->next_look)
	{
		if (ProgressIsDue(&join->progress))
			ShowProgress(join, PROGRESS_READING);
		join->next_look = join->keys->count + ROWS_PER_LOOK;
	}
}

static void
TakeRows(RowSink *sink, const Datum *keys, size_t nrows)
{
	Join	   *join = (Join *) sink;

	join->used += nrows;
	NoteRows(join, keys, nrows);
}

/* --- rows in memory that is lent to the engine */

static void
Lend(RowSink *sink, void *memory, size_t bytes)
{
	Join	   *join = (Join *) sink;

	/* the engine comes with the first vector */
	join->lent = memory;
	join->lent_bytes = bytes;
}

static void
Withdraw(RowSink *sink)
{
	Join	   *join = (Join *) sink;

	if (join->puts)
		join->engine->withdraw(join->handle);
	join->puts = false;
	join->lent = NULL;
}

static size_t
PutBlock(RowSink *sink, const float *rows, const Datum *keys, size_t nrows)
{
	Join	   *join = (Join *) sink;
	size_t		taken = 0;

	if (!join->puts || join->spill != NULL)
		return 0;
	/* rows keep their order: what waits in the room goes first */
	FlushRoom(join);
	join->capacity = 0;
	if (join->failed || Check(join, join->engine->put(join->handle, rows, nrows, &taken)) != FASTED_OK)
		return 0;
	join->committed += taken;
	join->put_rows += taken;
	NoteRows(join, keys, taken);
	return taken;
}

static void
Settle(RowSink *sink)
{
	Join	   *join = (Join *) sink;

	if (join->puts)
		Check(join, join->engine->settle(join->handle));
}

static void
ReadByWorkers(RowSink *sink, int nworkers, uint64 rows)
{
	Join	   *join = (Join *) sink;

	join->worker_rows = rows;
	join->nworkers = nworkers;
}

static double
SecondsSince(instr_time begin)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, begin);
	return INSTR_TIME_GET_DOUBLE(now);
}

/* Rows in memory go the way of all others, with their numbers as keys. */
static void
ReadArray(Join *join)
{
	const RowArray *array = join->array;
	uint32		done = 0;

	ExpectRows(&join->sink, array->count);
	SetDimensions(&join->sink, array->dimensions);
	while (done < array->count)
	{
		Datum		keys[ROWS_PER_LOOK];
		float	   *room;
		size_t		n = Min(RoomForRows(&join->sink, &room), ROWS_PER_LOOK);

		if (n == 0)
			return;
		n = Min(n, array->count - done);
		for (size_t i = 0; i < n; i++)
			keys[i] = Int64GetDatum((int64) (done + i));
		memcpy(room, array->rows + (size_t) done * array->dimensions,
			   n * array->dimensions * sizeof(float));
		TakeRows(&join->sink, keys, n);
		done += n;
		CheckJoinInterrupts();
	}
}

/* Reads all rows into the engine, and starts it; or sets join->failed. */
static void
ReadAndStart(Join *join)
{
	if (join->array != NULL)
		ReadArray(join);
	else
		ReadVectors(join->source, &join->sink);
	if (join->engine == NULL)
		return;
	FlushRoom(join);
	if (!join->failed)
	{
		ereport(DEBUG1,
				(errmsg_internal("fasted: read %u rows in %.3f s, " UINT64_FORMAT " of them by %d workers, "
								 UINT64_FORMAT " from lent memory",
								 join->keys->count, SecondsSince(join->begun),
								 join->worker_rows, join->nworkers, join->put_rows)));
		ShowProgress(join, PROGRESS_PREPARING);
		KeySetFinish(join->keys);
		Check(join, join->engine->start(join->handle, join->keys->count));
	}
}

/*
 * A GPU was chosen and failed before it gave a pair: the CPU does it.  The
 * rows are read once more; the snapshot is the same, so they are too.
 */
static void
FallBackToCpu(Join *join)
{
	KeySetReset(join->keys);
	if (join->spill != NULL)
		SpillClose(join->spill);
	join->spill = NULL;
	join->engine = NULL;
	join->capacity = join->used = 0;
	join->committed = 0;
	join->nworkers = 0;
	join->worker_rows = 0;
	join->put_rows = 0;
	ReadAndStart(join);
}

static Join *
Begin(const VectorSource *source, const RowArray *array, double eps, FastedOutput output)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted join",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Join	   *join = palloc0(sizeof(Join));

	join->sink.expect_rows = ExpectRows;
	join->sink.set_dimensions = SetDimensions;
	join->sink.room_for_rows = RoomForRows;
	join->sink.take_rows = TakeRows;
	join->sink.lend = Lend;
	join->sink.take_block = PutBlock;
	join->sink.settle = Settle;
	join->sink.withdraw = Withdraw;
	join->sink.read_by_workers = ReadByWorkers;
	join->context = context;
	join->source = source;
	join->array = array;
	join->eps = eps;
	join->output = output;
	join->options = OptionsFromSettings();
	/* rows in memory are joined for their exact distances, never for the paper's result */
	if (array != NULL)
		join->options.exact = true;
	join->keys = KeySetCreate(source);
	join->callback.func = CloseCallback;
	join->callback.arg = join;
	MemoryContextRegisterResetCallback(context, &join->callback);
	INSTR_TIME_SET_CURRENT(join->begun);
	ProgressBegin(&join->progress, source->relid, source->relation);

	ReadAndStart(join);
	if (join->failed)
		FallBackToCpu(join);
	join->read_seconds = SecondsSince(join->begun);
	if (join->engine != NULL)
		ShowProgress(join, PROGRESS_JOINING);
	MemoryContextSwitchTo(old);
	return join;
}

Join *
JoinBegin(const VectorSource *source, double eps, FastedOutput output)
{
	return Begin(source, NULL, eps, output);
}

Join *
JoinBeginRows(const VectorSource *source, const RowArray *rows, double eps)
{
	VectorSource *numbered = palloc(sizeof(VectorSource));

	*numbered = *source;
	numbered->key_type = INT8OID;
	numbered->key_collation = InvalidOid;
	return Begin(numbered, rows, eps, FASTED_OUTPUT_PAIRS);
}

/* The engine asked for a panel of rows. */
static void
FeedRows(Join *join, uint64 first, uint64 count)
{
	if (join->spill == NULL || first + count > join->keys->count)
		elog(ERROR, "fasted %s engine asks for rows that it can't want", join->engine->name);

	while (count > 0)
	{
		float	   *rows;
		size_t		capacity;
		size_t		n;

		if (FASTED_FAILED(Check(join, join->engine->stage(join->handle, &rows, &capacity))))
			return;
		n = Min(Min(capacity, count), CopyRows(join));
		SpillRead(join->spill, first, rows, n);
		if (FASTED_FAILED(Check(join, join->engine->commit(join->handle, n))))
			return;
		first += n;
		count -= n;
	}
}

bool
JoinNext(Join *join, const FastedPair **pairs, size_t *npairs)
{
	if (join->engine == NULL)
		return false;			/* no vector at all */

	for (;;)
	{
		FastedBatch batch;

		CheckJoinInterrupts();
		if (ProgressIsDue(&join->progress))
			ShowProgress(join, PROGRESS_JOINING);
		switch (Check(join, join->engine->next(join->handle, JOIN_POLL_MS, &batch)))
		{
			case FASTED_OK:
				*pairs = batch.pairs;
				*npairs = batch.npairs;
				join->fallible = false;
				join->unseen = true;
				return true;
			case FASTED_DONE:
				return false;
			case FASTED_WANT_ROWS:
				FeedRows(join, batch.first_row, batch.row_count);
				break;
			default:
				break;
		}
		if (join->failed)
			FallBackToCpu(join);
	}
}

uint64
JoinCount(Join *join)
{
	const FastedPair *pairs;
	size_t		npairs;
	FastedStats stats;

	if (JoinNext(join, &pairs, &npairs))
		elog(ERROR, "the %s engine hands out pairs that it should count", join->engine->name);
	if (join->engine == NULL)
		return 0;				/* no vector at all */
	join->engine->stats(join->handle, &stats);
	return stats.pairs;
}

void
JoinPause(Join *join)
{
	if (join->engine == NULL || join->handle == NULL)
		return;
	join->engine->pause(join->handle);
	if (join->unseen)
		ShowProgress(join, PROGRESS_JOINING);
}

const KeySet *
JoinKeys(const Join *join)
{
	return join->keys;
}

bool
JoinStatistics(const Join *join, FastedStats *stats, double *read_seconds)
{
	*read_seconds = join->read_seconds;
	if (join->engine == NULL || join->handle == NULL)
		return false;
	join->engine->stats(join->handle, stats);
	return true;
}

static void
LogStatistics(const Join *join)
{
	FastedStats stats;

	if (join->engine == NULL || !message_level_is_interesting(DEBUG1))
		return;
	join->engine->stats(join->handle, &stats);
	ereport(DEBUG1,
			(errmsg_internal("fasted: " UINT64_FORMAT " rows of %u dimensions in %.3f s, read in %.3f s",
							 stats.rows, stats.dimensions, SecondsSince(join->begun),
							 join->read_seconds),
			 errdetail_internal("engine %s, kernel %s, filter %s, threads %d, panels %u, candidates "
								UINT64_FORMAT ", pairs " UINT64_FORMAT
								", prepare %.3f s, filter %.3f s, refine %.3f s, memory " UINT64_FORMAT " kB",
								stats.engine, stats.kernel, stats.filter, stats.threads,
								stats.panels, stats.candidates, stats.pairs,
								stats.prepare_seconds, stats.filter_seconds,
								stats.refine_seconds, stats.host_bytes / 1024)));
}

void
JoinRun(Join *join, PairSink *sink)
{
	const FastedPair *pairs;
	size_t		npairs;

	while (JoinNext(join, &pairs, &npairs))
		sink->take(sink, pairs, npairs);
	JoinEnd(join);
}

void
JoinEnd(Join *join)
{
	LogStatistics(join);
	if (join->spill != NULL)
		SpillClose(join->spill);
	MemoryContextDelete(join->context); /* closes the engine */
}
