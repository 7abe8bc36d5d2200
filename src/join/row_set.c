/*-------------------------------------------------------------------------
 *
 * row_set.c
 *	  Passes rows to the engine, or to a temporary file from which the engine requests them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/large_memory.h"
#include "commands/tablespace.h"
#include "join/join.h"
#include "storage/fd.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

/* Rows between clock checks for the progress view. */
#define ROWS_PER_CLOCK_CHECK 64

/* Size of the copy buffer for rows read from or staged to the engine, in bytes. */
#define COPY_BYTES (4 * 1024 * 1024)

/* --- temporary files, without buffering because all writes are large */

/* Bytes transferred between interrupt checks. */
#define SPILL_CHUNK (1024 * 1024)

struct SpillFile
{
	File		file;			/* also closed by the current resource owner */
	off_t		size;
	size_t		row_bytes;
};

SpillFile *
SpillCreate(size_t row_bytes)
{
	SpillFile  *spill = palloc(sizeof(SpillFile));

	PrepareTempTablespaces();
	spill->file = OpenTemporaryFile(false);
	spill->size = 0;
	spill->row_bytes = row_bytes;
	return spill;
}

void
SpillAppend(SpillFile *spill, const float *rows, size_t nrows)
{
	char	   *from = (char *) unconstify(float *, rows);
	size_t		n;

	for (size_t left = nrows * spill->row_bytes; left > 0; left -= n, from += n, spill->size += n)
	{
		CheckJoinInterrupts();
		n = Min(left, SPILL_CHUNK);
		if (FileWrite(spill->file, from, n, spill->size, WAIT_EVENT_BUFFILE_WRITE) != (int) n)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not write to file \"%s\": %m", FilePathName(spill->file))));
	}
}

void
SpillRead(SpillFile *spill, uint64 first_row, float *rows, size_t nrows)
{
	char	   *to = (char *) rows;
	off_t		place = (off_t) (first_row * spill->row_bytes);
	size_t		n;

	for (size_t left = nrows * spill->row_bytes; left > 0; left -= n, to += n, place += n)
	{
		int			nread;

		CheckJoinInterrupts();
		n = Min(left, SPILL_CHUNK);
		nread = FileRead(spill->file, to, n, place, WAIT_EVENT_BUFFILE_READ);
		if (nread == (int) n)
			continue;
		if (nread >= 0)
			errno = EIO;		/* the file is too short */
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", FilePathName(spill->file))));
	}
}

void
SpillClose(SpillFile *spill)
{
	FileClose(spill->file);
}

/* --- rows from a reader */

/* Returns the size of a row in units of float. */
static inline size_t
FloatsOf(const RowSet *set)
{
	const FastedOptions *options = &set->join->run.problem.options;

	return RowFloats(options->element, options->dimensions);
}

/* Returns the other side of the join, or NULL in a self-join. */
static RowSet *
OtherSide(const RowSet *set)
{
	return set->join->run.problem.sides == 2 ? &set->join->rows[!set->side] : NULL;
}

void
ReportDimensions(const VectorSource *a, const char *a_row, int a_dimensions,
				 const VectorSource *b, const char *b_row, int b_dimensions)
{
	bool		partitions = a->partition_column != NULL;

	ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 partitions ? errmsg("vectors of one partition have different numbers of dimensions") :
			 errmsg("vectors have different numbers of dimensions"),
			 errdetail("The number of dimensions of column \"%s\" of \"%s\" is %d in the row with %s, and that of column \"%s\" of \"%s\" is %d in the row with %s.",
					   a->vector_column, a->relation, a_dimensions, a_row,
					   b->vector_column, b->relation, b_dimensions, b_row),
			 partitions ?
			 errhint("Only vectors of different partitions may have different numbers of dimensions.") :
			 errhint("Join a view that selects vectors with the same number of dimensions.")));
}

/* Returns true if the rows are so few that the join needs no engine. */
static bool
AreFewRows(const RowSet *set)
{
	uint64		most = set->join->request.most_rows;

	return most > 0 && (set->join->request.sources[0] == NULL ||
						(most <= SMALL_JOIN_ROWS && most * FloatsOf(set) <= SMALL_JOIN_FLOATS));
}

/* Allocates a buffer for all rows of a join without an engine. */
static void
TakeFewRows(RowSet *set)
{
	VectorJoin *join = set->join;

	set->capacity = join->request.most_rows;
	set->buffer = MemoryContextAlloc(join->context, set->capacity * FloatsOf(set) * sizeof(float));
	if (join->output != FASTED_OUTPUT_COUNTS)
		join->output = FASTED_OUTPUT_PAIRS;
}

/* Registers the memory with the engine, which must be open.  Copies are withheld from staged rows only. */
static void
UseRegistered(RowSet *set)
{
	EngineRun  *run = &set->join->run;

	set->direct = !run->failed && set->registered != NULL && set->copies == NULL &&
		panel_join_register_memory(run->join, set->side, set->registered, set->registered_bytes);
}

static void
ExpectRows(RowSink *sink, uint64 rows)
{
	RowSet	   *set = (RowSet *) sink;

	set->join->run.problem.expected_rows[set->side] = rows;
	set->next_clock_check = 0;
	if (!AreFewRows(set))
		(void) EngineIsReady(&set->join->run);
	JoinShowProgress(set->join, PROGRESS_READING);
}

/*
 * Copies are withheld from side b of a search for nearest rows and from one for connections.  They are
 * noted for representatives that are chosen from all pairs.  A GPU gets all rows: this process could
 * not hash them as fast as it compares them.
 */
static bool
UsesCopies(const RowSet *set)
{
	const VectorJoin *join = set->join;
	FastedOutput output = join->request.problem.output;
	bool		product = fasted_metric_rules(join->run.problem.options.metric)->negative_product;

	if (set->side != join->run.problem.sides - 1 || join->keys[set->side] == NULL ||
		join->run.engine != fasted_cpu_engine())
		return false;
	/* copies might not be among each other's nearest rows, so that a tree connects them late */
	if (output == FASTED_OUTPUT_NEAREST)
		return !(product && join->request.searches);
	/* nor have they pairs, perhaps */
	if (output == FASTED_OUTPUT_CONNECTIONS)
		return !product;
	return output == FASTED_OUTPUT_REPRESENTATIVES && join->output == FASTED_OUTPUT_PAIRS;
}

static void
SetDimensions(RowSink *sink, int dimensions, const char *row_name)
{
	RowSet	   *set = (RowSet *) sink;
	EngineRun  *run = &set->join->run;
	const RowSet *other = OtherSide(set);
	MemoryContext old;

	set->first_row_name = MemoryContextStrdup(set->join->context, row_name);
	if (other != NULL && other->first_row_name != NULL &&
		run->problem.options.dimensions != (uint32) dimensions)
		ReportDimensions(set->join->request.sources[!set->side], other->first_row_name,
						 run->problem.options.dimensions,
						 set->join->request.sources[set->side], row_name, dimensions);
	run->problem.options.dimensions = dimensions;
	if (AreFewRows(set))
		return;
	JoinOpenEngine(set->join);
	if (UsesCopies(set))
	{
		old = MemoryContextSwitchTo(set->join->context);
		set->copies = CopiesCreate(&run->problem.options, &run->problem.problem);
		MemoryContextSwitchTo(old);
	}
	UseRegistered(set);
}

static size_t
CopyRows(const RowSet *set)
{
	return Max(1, COPY_BYTES / (FloatsOf(set) * sizeof(float)));
}

/* Moves all rows of a side from the engine to a temporary file. */
static void
MoveToSpillFile(RowSet *set)
{
	EngineRun  *run = &set->join->run;
	size_t		chunk = CopyRows(set);
	MemoryContext old = MemoryContextSwitchTo(set->join->context);
	float	   *rows = palloc(chunk * FloatsOf(set) * sizeof(float));

	set->spill = SpillCreate(FloatsOf(set) * sizeof(float));
	MemoryContextSwitchTo(old);
	for (uint64 first = 0; first < set->committed; first += chunk)
	{
		size_t		n = Min(chunk, set->committed - first);

		if (FASTED_FAILED(EngineRunCheck(run, panel_join_read_back(run->join, set->side, first, n,
																   rows))))
			return;
		SpillAppend(set->spill, rows, n);
	}

	/* the copy buffer becomes the staging buffer */
	set->buffer = rows;
	set->capacity = chunk;
}

/* Moves the rows of both sides to temporary files, because the engine is full. */
static void
Spill(RowSet *set)
{
	RowSet	   *other = OtherSide(set);

	MoveToSpillFile(set);
	if (other != NULL && !set->join->run.failed)
	{
		Assert(other->used == 0);
		MoveToSpillFile(other);
	}
}

void
RowSetFlush(RowSet *set)
{
	EngineRun  *run = &set->join->run;

	if (set->used == 0 || run->join == NULL)
		return;
	if (set->spill != NULL)
		SpillAppend(set->spill, set->buffer, set->used);
	else
	{
		EngineRunCheck(run, panel_join_commit(run->join, set->side, set->used));
		set->committed += set->used;
		set->capacity = 0;
	}
	set->used = 0;
}

static size_t
BufferForRows(RowSink *sink, float **buffer)
{
	RowSet	   *set = (RowSet *) sink;
	EngineRun  *run = &set->join->run;

	if (set->used == set->capacity && AreFewRows(set))
		TakeFewRows(set);
	else if (set->used == set->capacity)
	{
		RowSetFlush(set);
		if (set->spill == NULL && !run->failed &&
			EngineRunCheck(run, panel_join_stage(run->join, set->side, &set->buffer,
												 &set->capacity)) == FASTED_FULL)
			Spill(set);
	}
	if (run->failed)
		return 0;
	*buffer = set->buffer + set->used * FloatsOf(set);
	return set->capacity - set->used;
}

void
ReportManyRows(const VectorSource *source)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 source != NULL && source->relation != NULL ?
			 errmsg("relation \"%s\" has too many rows to join", source->relation) :
			 errmsg("too many rows to join"),
			 errhint("At most %u rows can be joined at once.", FASTED_MAX_ROWS)));
}

/* Adds those of the rows to join->zeros whose vector is zero. */
static void
NoteZeros(RowSet *set, const float *row, size_t nrows)
{
	VectorJoin *join = set->join;
	const FastedOptions *options = &join->run.problem.options;

	for (size_t i = 0; i < nrows; i++, row += FloatsOf(set))
	{
		if (!RowIsZero(row, options->element, options->dimensions))
			continue;
		if (join->nzeros == join->zero_capacity)
			join->zeros = GrowArray(join->context, join->zeros, &join->zero_capacity, sizeof(uint32));
		join->zeros[join->nzeros++] = set->count + i;
	}
}

/* Records rows that have been taken. */
static void
NoteRows(RowSet *set, const float *rows, const Datum *keys, size_t nrows)
{
	KeySet	   *own_keys = set->join->keys[set->side];

	if (set->count + nrows > FASTED_MAX_ROWS)
		ReportManyRows(set->join->request.sources[set->side]);
	if (own_keys != NULL)
		KeySetAdd(own_keys, keys, nrows);
	if (set->join->request.finds_zeros)
		NoteZeros(set, rows, nrows);
	set->count += nrows;
	if (set->count >= set->next_clock_check)
	{
		if (ProgressIsDue(&set->join->progress))
			JoinShowProgress(set->join, PROGRESS_READING);
		set->next_clock_check = set->count + ROWS_PER_CLOCK_CHECK;
	}
}

/* Removes copies from nrows rows that follow the staged rows.  Returns how many remain. */
static size_t
WithholdCopies(const RowSet *set, size_t nrows)
{
	size_t		floats = FloatsOf(set);
	float	   *rows = set->buffer + set->used * floats;
	size_t		kept = 0;

	for (size_t i = 0; i < nrows; i++)
	{
		if (!CopiesTake(set->copies, set->count + i, rows + i * floats))
			continue;
		if (kept < i)
			memcpy(rows + kept * floats, rows + i * floats, floats * sizeof(float));
		kept++;
	}
	return kept;
}

static void
TakeRows(RowSink *sink, const Datum *keys, size_t nrows)
{
	RowSet	   *set = (RowSet *) sink;
	size_t		n;

	n = set->copies == NULL ? nrows : WithholdCopies(set, nrows);
	NoteRows(set, set->buffer + set->used * FloatsOf(set), keys, nrows);
	set->used += n;
}

/* --- rows in registered memory */

static void
RegisterMemory(RowSink *sink, void *memory, size_t bytes)
{
	RowSet	   *set = (RowSet *) sink;

	set->registered = memory;
	set->registered_bytes = bytes;
	/* without a source the engine is open already; otherwise the first vector opens it */
	if (set->join->request.sources[0] == NULL)
		UseRegistered(set);
}

static void
UnregisterMemory(RowSink *sink)
{
	RowSet	   *set = (RowSet *) sink;

	if (set->direct && set->join->run.join != NULL)
		panel_join_unregister_memory(set->join->run.join, set->side);
	set->direct = false;
	set->registered = NULL;
}

static size_t
PutBlock(RowSink *sink, const float *rows, const Datum *keys, size_t nrows)
{
	RowSet	   *set = (RowSet *) sink;
	EngineRun  *run = &set->join->run;
	size_t		taken = 0;

	if (!set->direct || set->spill != NULL)
		return 0;
	/* preserve the row order: pass the staged rows first */
	RowSetFlush(set);
	set->capacity = 0;
	if (run->failed ||
		EngineRunCheck(run, panel_join_put(run->join, set->side, rows, nrows, &taken)) != FASTED_OK)
		return 0;
	set->committed += taken;
	set->direct_rows += taken;
	NoteRows(set, rows, keys, taken);
	return taken;
}

static void
WaitRead(RowSink *sink, bool all)
{
	RowSet	   *set = (RowSet *) sink;

	if (set->direct && !set->join->run.failed)
		EngineRunCheck(&set->join->run, panel_join_wait_read(set->join->run.join, set->side, all));
}

/* Reads rows as RowSetFeed does. */
static void
ReadRows(const RowSet *set, const uint32 *numbers, uint64 first, float *rows, size_t nrows)
{
	if (numbers == NULL)
		SpillRead(set->spill, first, rows, nrows);
	for (size_t i = 0; numbers != NULL && i < nrows; i++)
		SpillRead(set->spill, numbers[first + i], rows + i * FloatsOf(set), 1);
}

void
RowSetFeed(RowSet *set, int side, const uint32 *numbers, uint64 first, uint64 count)
{
	EngineRun  *run = &set->join->run;

	if (set->spill == NULL || first + count > set->count)
		elog(ERROR, "fasted %s engine requested row numbers out of range", run->engine->name);

	while (count > 0)
	{
		float	   *rows;
		size_t		capacity;
		size_t		n;

		EngineRunCheck(run, panel_join_stage(run->join, side, &rows, &capacity));
		n = Min(Min(capacity, count), CopyRows(set));
		ReadRows(set, numbers, first, rows, n);
		EngineRunCheck(run, panel_join_commit(run->join, side, n));
		first += n;
		count -= n;
	}
}

void
RowSetInit(RowSet *set, VectorJoin *join, int side)
{
	if (set->spill != NULL)
		SpillClose(set->spill);
	if (set->copies != NULL)
		MemoryContextDelete(GetMemoryChunkContext(set->copies));
	*set = (RowSet) {
		.sink = {
			.expect_rows = ExpectRows,.set_dimensions = SetDimensions,
			.buffer_for_rows = BufferForRows,.take_rows = TakeRows,
			.register_memory = RegisterMemory,.take_block = PutBlock,.wait_read = WaitRead,
			.unregister_memory = UnregisterMemory
		},
		.join = join,.side = side
	};
}
