/*-------------------------------------------------------------------------
 *
 * row_set.c
 *	  Stages rows, or spills them and feeds them back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "commands/tablespace.h"
#include "join/row_set.h"
#include "rows/vector.h"
#include "storage/fd.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

/* Rows between two looks at the clock, for progress. */
#define ROWS_PER_LOOK 64

/* Rows that are read back from the engine, or fed to it, at a time. */
#define COPY_BYTES (4 * 1024 * 1024)

/*
 * --- temporary files, cut into segments as PostgreSQL's own large temporary files are.  We write
 * megabytes at a time, so there is no buffer between.
 */

/* Bytes between two looks for interrupts. */
#define SPILL_CHUNK (1024 * 1024)

/* Bytes of a segment: what PostgreSQL takes for its own. */
#define SEGMENT_BYTES ((uint64) 1024 * 1024 * 1024)

struct SpillFile
{
	MemoryContext context;
	ResourceOwner owner;		/* closes the files, if nobody else does */
	File	   *segments;
	int			nsegments;
	uint64		size;
	size_t		row_bytes;
};

SpillFile *
SpillCreate(size_t row_bytes)
{
	SpillFile  *spill = palloc0(sizeof(SpillFile));

	PrepareTempTablespaces();
	spill->context = CurrentMemoryContext;
	spill->owner = CurrentResourceOwner;
	spill->row_bytes = row_bytes;
	return spill;
}

static void
AddSegment(SpillFile *spill)
{
	ResourceOwner owner = CurrentResourceOwner;
	Size		size = (spill->nsegments + 1) * sizeof(File);

	spill->segments = spill->segments == NULL ? MemoryContextAlloc(spill->context, size) :
		repalloc(spill->segments, size);

	CurrentResourceOwner = spill->owner;
	spill->segments[spill->nsegments] = OpenTemporaryFile(false);
	CurrentResourceOwner = owner;
	spill->nsegments++;
}

/* The segment with this byte, and how many of so many bytes it holds from there on. */
static File
LocateBytes(const SpillFile *spill, uint64 byte, size_t left, off_t *offset, size_t *n)
{
	*offset = (off_t) (byte % SEGMENT_BYTES);
	*n = Min(Min(left, SPILL_CHUNK), SEGMENT_BYTES - byte % SEGMENT_BYTES);
	return spill->segments[byte / SEGMENT_BYTES];
}

void
SpillAppend(SpillFile *spill, const float *rows, size_t nrows)
{
	const char *from = (const char *) rows;
	size_t		left = nrows * spill->row_bytes;

	while (left > 0)
	{
		size_t		n;
		off_t		offset;
		File		file;

		if (spill->size == spill->nsegments * SEGMENT_BYTES)
			AddSegment(spill);
		file = LocateBytes(spill, spill->size, left, &offset, &n);
		if (FileWrite(file, unconstify(char *, from), n, offset, WAIT_EVENT_BUFFILE_WRITE) != (int) n)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not write to file \"%s\": %m", FilePathName(file))));
		spill->size += n;
		from += n;
		left -= n;
		CheckJoinInterrupts();
	}
}

void
SpillRead(SpillFile *spill, uint64 first_row, float *rows, size_t nrows)
{
	char	   *to = (char *) rows;
	uint64		byte = first_row * spill->row_bytes;
	size_t		left = nrows * spill->row_bytes;

	if (byte + left > spill->size)
		elog(ERROR, "row " UINT64_FORMAT " is not in the temporary file", first_row);

	while (left > 0)
	{
		size_t		n;
		off_t		offset;
		File		file = LocateBytes(spill, byte, left, &offset, &n);

		if (FileRead(file, to, n, offset, WAIT_EVENT_BUFFILE_READ) != (int) n)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read vectors back from a temporary file")));
		byte += n;
		to += n;
		left -= n;
		CheckJoinInterrupts();
	}
}

void
SpillClose(SpillFile *spill)
{
	for (int i = 0; i < spill->nsegments; i++)
		FileClose(spill->segments[i]);
}

/* --- rows from a reader */

/* Floats that a row takes the room of. */
static size_t
FloatsOf(const RowSet *set)
{
	return RowFloats(set->element, set->dimensions);
}

static void
ShowReading(RowSet *set)
{
	ProgressNumbers numbers = {0};

	numbers.rows_read = set->count + (set->other != NULL ? set->other->count : 0);
	numbers.rows_expected = set->expected_rows +
		(set->other != NULL ? set->other->expected_rows : 0);
	ProgressShow(set->progress, PROGRESS_READING, &numbers);
}

static void
ExpectRows(RowSink *sink, uint64 rows)
{
	RowSet	   *set = (RowSet *) sink;

	set->expected_rows = rows;
	set->next_look = 0;
	ShowReading(set);
}

static void
ReportDimensions(const RowSet *first, const RowSet *second)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("vectors have different numbers of dimensions"),
			 errdetail("The number of dimensions of column \"%s\" of \"%s\" is %u in the row with %s, and that of column \"%s\" of \"%s\" is %u in the row with %s.",
					   first->source->vector_column, first->source->relation,
					   first->dimensions, first->first_row_name,
					   second->source->vector_column, second->source->relation,
					   second->dimensions, second->first_row_name),
			 errhint("Join vectors of one kind; a view can select them.")));
}

static void
SetDimensions(RowSink *sink, int dimensions, const char *row_name)
{
	RowSet	   *set = (RowSet *) sink;

	RowSet	   *other = set->other;

	set->dimensions = dimensions;
	set->first_row_name = MemoryContextStrdup(set->context, row_name);
	if (other != NULL && other->first_row_name == NULL)
		other->dimensions = dimensions;
	else if (other != NULL && other->dimensions != set->dimensions)
		ReportDimensions(other, set);
	set->first_vector(set);
	set->puts = !set->run->failed && set->lent != NULL &&
		panel_join_lend(set->run->join, set->side, set->lent, set->lent_bytes);
}

static size_t
CopyRows(const RowSet *set)
{
	return Max(1, COPY_BYTES / (FloatsOf(set) * sizeof(float)));
}

/* All rows move to a temporary file. */
static void
MoveToSpillFile(RowSet *set)
{
	size_t		chunk = CopyRows(set);
	float	   *rows = MemoryContextAlloc(set->context, chunk * FloatsOf(set) * sizeof(float));
	MemoryContext old = MemoryContextSwitchTo(set->context);

	set->spill = SpillCreate(FloatsOf(set) * sizeof(float));
	MemoryContextSwitchTo(old);
	for (uint64 first = 0; first < set->committed; first += chunk)
	{
		size_t		n = Min(chunk, set->committed - first);

		if (FASTED_FAILED(EngineRunCheck(set->run, panel_join_read_back(set->run->join, set->side,
																		first, n, rows))))
			return;
		SpillAppend(set->spill, rows, n);
	}

	/* the copy buffer becomes the room in which further rows wait */
	set->room = rows;
	set->capacity = chunk;
}

/* The engine can hold no more. */
static void
Spill(RowSet *set)
{
	MoveToSpillFile(set);
	if (set->other != NULL && !set->run->failed)
	{
		Assert(set->other->used == 0);
		MoveToSpillFile(set->other);
	}
}

void
RowSetFlush(RowSet *set)
{
	if (set->used == 0 || set->run->failed)
		return;
	if (set->spill != NULL)
		SpillAppend(set->spill, set->room, set->used);
	else
	{
		EngineRunCheck(set->run, panel_join_commit(set->run->join, set->side, set->used));
		set->committed += set->used;
		set->capacity = 0;
	}
	set->used = 0;
}

static size_t
RoomForRows(RowSink *sink, float **room)
{
	RowSet	   *set = (RowSet *) sink;
	EngineRun  *run = set->run;

	if (set->used == set->capacity)
	{
		RowSetFlush(set);
		if (set->spill == NULL && !run->failed &&
			EngineRunCheck(run, panel_join_stage(run->join, set->side, &set->room,
												 &set->capacity)) == FASTED_FULL)
			Spill(set);
	}
	if (run->failed)
		return 0;
	*room = set->room + set->used * FloatsOf(set);
	return set->capacity - set->used;
}

static void
NoteRows(RowSet *set, const Datum *keys, size_t nrows)
{
	if (set->count + nrows > FASTED_MAX_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("\"%s\" has too many rows to join",
						set->source != NULL ? set->source->relation : "join"),
				 errhint("At most %u rows can be joined at once.", FASTED_MAX_ROWS)));
	if (set->keys != NULL)
		KeySetAddAll(set->keys, keys, nrows);
	set->count += nrows;
	if (set->count >= set->next_look)
	{
		if (ProgressIsDue(set->progress))
			ShowReading(set);
		set->next_look = set->count + ROWS_PER_LOOK;
	}
}

/* Of rows that have been written behind those in the room. */
static void
AddToFingerprint(const RowSet *set, const Datum *keys, size_t nrows)
{
	const float *row = set->room + set->used * FloatsOf(set);

	for (size_t i = 0; i < nrows; i++, row += FloatsOf(set))
		FingerprintAdd(set->print, KeyHash(keys[i], set->keys->typlen, set->keys->typbyval),
					   VectorHash(row, set->element, set->dimensions));
}

static void
TakeRows(RowSink *sink, const Datum *keys, size_t nrows)
{
	RowSet	   *set = (RowSet *) sink;

	if (set->print != NULL)
		AddToFingerprint(set, keys, nrows);
	set->used += nrows;
	NoteRows(set, keys, nrows);
}

/* --- rows in memory that is lent to the engine */

static void
Lend(RowSink *sink, void *memory, size_t bytes)
{
	RowSet	   *set = (RowSet *) sink;

	/* the engine comes with the first vector */
	set->lent = memory;
	set->lent_bytes = bytes;
}

static void
Withdraw(RowSink *sink)
{
	RowSet	   *set = (RowSet *) sink;

	if (set->puts && set->run->join != NULL)
		panel_join_withdraw(set->run->join, set->side);
	set->puts = false;
	set->lent = NULL;
}

static size_t
PutBlock(RowSink *sink, const float *rows, const Datum *keys, size_t nrows)
{
	RowSet	   *set = (RowSet *) sink;
	EngineRun  *run = set->run;
	size_t		taken = 0;

	if (!set->puts || set->spill != NULL)
		return 0;
	/* rows keep their order: what waits in the room goes first */
	RowSetFlush(set);
	set->capacity = 0;
	if (run->failed ||
		EngineRunCheck(run, panel_join_put(run->join, set->side, rows, nrows, &taken)) != FASTED_OK)
		return 0;
	set->committed += taken;
	set->put_rows += taken;
	NoteRows(set, keys, taken);
	return taken;
}

static void
Settle(RowSink *sink, bool all)
{
	RowSet	   *set = (RowSet *) sink;

	if (set->puts && !set->run->failed)
		EngineRunCheck(set->run, panel_join_settle(set->run->join, set->side, all));
}

static void
ReadByWorkers(RowSink *sink, int nworkers, uint64 rows)
{
	RowSet	   *set = (RowSet *) sink;

	set->worker_rows = rows;
	set->nworkers = nworkers;
}

/* --- from elsewhere */

void
RowSetPushArray(RowSet *set, const RowArray *array)
{
	uint32		done = 0;

	ExpectRows(&set->sink, array->count);
	SetDimensions(&set->sink, array->dimensions, "");
	while (done < array->count)
	{
		Datum		keys[ROWS_PER_LOOK];
		float	   *room;
		size_t		n = Min(RoomForRows(&set->sink, &room), ROWS_PER_LOOK);

		if (n == 0)
			return;
		n = Min(n, array->count - done);
		for (size_t i = 0; i < n; i++)
			keys[i] = Int64GetDatum((int64) (done + i));
		memcpy(room, array->rows + done * FloatsOf(set), n * FloatsOf(set) * sizeof(float));
		TakeRows(&set->sink, keys, n);
		done += n;
		CheckJoinInterrupts();
	}
}

bool
RowSetPush(RowSet *set, const float *row)
{
	float	   *room;

	if (RoomForRows(&set->sink, &room) == 0)
		return false;
	memcpy(room, row, FloatsOf(set) * sizeof(float));
	TakeRows(&set->sink, NULL, 1);
	return true;
}

void
RowSetFeed(RowSet *set, uint64 first, uint64 count)
{
	EngineRun  *run = set->run;

	if (set->spill == NULL || first + count > set->count)
		elog(ERROR, "fasted %s engine asks for rows that it can't want", run->engine->name);

	while (count > 0)
	{
		float	   *rows;
		size_t		capacity;
		size_t		n;

		if (FASTED_FAILED(EngineRunCheck(run, panel_join_stage(run->join, set->side, &rows,
															   &capacity))))
			return;
		n = Min(Min(capacity, count), CopyRows(set));
		SpillRead(set->spill, first, rows, n);
		if (FASTED_FAILED(EngineRunCheck(run, panel_join_commit(run->join, set->side, n))))
			return;
		first += n;
		count -= n;
	}
}

void
RowSetInit(RowSet *set, EngineRun *run, int side, const VectorSource *source, Progress *progress)
{
	memset(set, 0, sizeof(*set));
	set->sink.expect_rows = ExpectRows;
	set->sink.set_dimensions = SetDimensions;
	set->sink.room_for_rows = RoomForRows;
	set->sink.take_rows = TakeRows;
	set->sink.lend = Lend;
	set->sink.take_block = PutBlock;
	set->sink.settle = Settle;
	set->sink.withdraw = Withdraw;
	set->sink.read_by_workers = ReadByWorkers;
	set->run = run;
	set->side = side;
	set->source = source;
	set->element = source != NULL ? source->element : FASTED_ELEMENT_REAL;
	set->context = CurrentMemoryContext;
	set->progress = progress;
	set->keys = source != NULL ? KeySetCreate(source) : NULL;
}

void
RowSetReset(RowSet *set)
{
	if (set->keys != NULL)
		KeySetReset(set->keys);
	set->count = 0;
	if (set->print != NULL)
		memset(set->print, 0, sizeof(*set->print));
	if (set->spill != NULL)
		SpillClose(set->spill);
	set->spill = NULL;
	set->capacity = set->used = 0;
	set->committed = set->put_rows = set->worker_rows = 0;
	set->nworkers = 0;
}
