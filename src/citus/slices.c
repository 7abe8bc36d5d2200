/*-------------------------------------------------------------------------
 *
 * slices.c
 *	  What a worker does: it reads all rows, joins one slice of them, and streams the result.
 *
 * Each row of an SQL function here, called in a select list, is one message (wire.h), none of
 * which is stored.
 *
 * A slice of a join within eps is a part of the tiles.  A slice of nearest rows is a share of
 * the rows of a, for which all rows of b are searched.  If a relation is joined with itself,
 * it is read once, and its rows go to both sides.  A row may then find itself, so one more
 * neighbour is asked for, and the row itself or the last neighbour is left out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/arguments.h"
#include "base/row_numbers.h"
#include "base/guc.h"
#include "base/interrupts.h"
#include "catalog/pg_type.h"
#include "citus/cluster.h"
#include "citus/wire.h"
#include "cpu/cpu_kernel.h"
#include "funcapi.h"
#include "join/join.h"
#include "rows/reader.h"
#include "rows/vector.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(fasted_citus_join_slice);
PG_FUNCTION_INFO_V1(fasted_citus_nearest_slice);
PG_FUNCTION_INFO_V1(fasted_citus_kernel);

/* Arguments of join_slice by position. */
enum
{
	SLICE_RELATION,
	SLICE_COLUMN,
	SLICE_EPS,
	SLICE_ID_COLUMN,
	SLICE_KEY_TYPE,
	SLICE_METRIC,
	SLICE_SKIP_ZEROS,
	SLICE_OUTPUT,
	SLICE_NUMBER,
	SLICE_SLICES,
	SLICE_ALIKE
};

/* Arguments of nearest_slice by position. */
enum
{
	NEAREST_SLICE_A,
	NEAREST_SLICE_A_COLUMN,
	NEAREST_SLICE_A_ID,
	NEAREST_SLICE_B,
	NEAREST_SLICE_B_COLUMN,
	NEAREST_SLICE_B_ID,
	NEAREST_SLICE_KEY_TYPE,
	NEAREST_SLICE_K,
	NEAREST_SLICE_MOST,
	NEAREST_SLICE_METRIC,
	NEAREST_SLICE_NUMBER,
	NEAREST_SLICE_SLICES
};

/* Bytes of rows that are collected before they go to a side: changing sides costs time. */
#define BUFFER_BYTES (1024 * 1024)

/* Rows of a between two checks for interrupts. */
#define ROWS_PER_CHECK 1024

typedef struct Slice
{
	SliceOutput output;
	VectorJoin *join;
	SliceReport report;
	enum
	{
		PHASE_ROWS,				/* all rows have been read, which is to be reported */
		PHASE_PAIRS,
		PHASE_COUNTS,			/* all pairs have been sent */
		PHASE_DONE
	}			phase;

	/* Pairs that are not sent yet. */
	const FastedPair *pairs;
	size_t		npairs;

	/* SLICE_CONNECTIONS: a spanning forest has fewer pairs than rows in any slice. */
	uint32	   *parent;
	FastedPair *kept;			/* pairs of the batch that connect something */
	size_t		kept_capacity;

	uint32		next_row;		/* SLICE_COUNTS: the first row whose count is not sent yet */

	/* SLICE_NEAREST: */
	RowPusher	pusher;
	VectorSource *sources[2];	/* rows come in the order of their keys; NULL: a itself */
	uint32		number;			/* of the slice */
	uint32		slices;
	uint32		k;
	uint64		sent;			/* pairs */
	uint64		row;			/* of the share, the next one */
	uint64		end;			/* of the rows whose neighbours are all known */
	uint32		next;			/* in the row's list */
	uint32		found;			/* neighbours of the row that were sent */
	FastedPair *message;		/* pairs of a message */
} Slice;

/* --- rows of nearest rows: all to side b, those of the share to side a */

/* Where the rows of one relation go.  Their keys in the join are their numbers. */
typedef struct ShareSink
{
	RowSink		sink;
	const Slice *slice;
	Fingerprint *print;
	int16		typlen;			/* of its keys */
	bool		typbyval;
	bool		to[2];			/* the sides that take its rows */
	bool		stopped;		/* a side takes no more */

	FastedElement element;
	uint32		dimensions;
	size_t		floats;			/* size of a row, in floats */
	float	   *rows;
	uint32		capacity;		/* in rows */
	uint32		used;
	uint32		first;			/* number of the first row */
} ShareSink;

static void
PushRows(ShareSink *sink, int side, uint32 begin, uint32 end)
{
	RowSink    *to = JoinSink(sink->slice->join, side);
	Datum		keys[SHARE_BLOCK_ROWS];

	while (begin < end && !sink->stopped)
	{
		float	   *room;
		uint32		n = Min(to->room_for_rows(to, &room), Min(end - begin, SHARE_BLOCK_ROWS));

		sink->stopped = n == 0;
		if (n == 0)
			return;
		memcpy(room, sink->rows + begin * sink->floats, n * sink->floats * sizeof(float));
		for (uint32 i = 0; i < n; i++)
			keys[i] = Int64GetDatum((int64) sink->first + begin + i);
		to->take_rows(to, keys, n);
		begin += n;
	}
}

static void
Flush(ShareSink *sink)
{
	uint32		end;

	if (sink->to[1])
		PushRows(sink, 1, 0, sink->used);
	for (uint32 begin = 0; sink->to[0] && begin < sink->used; begin = end)
	{
		uint32		row = sink->first + begin;

		end = Min(sink->used, begin + SHARE_BLOCK_ROWS - row % SHARE_BLOCK_ROWS);
		if (IsInShare(row, sink->slice->number, sink->slice->slices))
			PushRows(sink, 0, begin, end);
	}
	sink->first += sink->used;
	sink->used = 0;
}

static void
ExpectRows(RowSink *self, uint64 rows)
{
	ShareSink  *sink = (ShareSink *) self;

	for (int side = 1; side >= 0; side--)
		if (sink->to[side])
		{
			RowSink    *to = JoinSink(sink->slice->join, side);

			to->expect_rows(to, side == 1 ? rows : rows / sink->slice->slices);
		}
}

static void
SetDimensions(RowSink *self, int dimensions, const char *row_name)
{
	ShareSink  *sink = (ShareSink *) self;

	sink->dimensions = dimensions;
	sink->floats = RowFloats(sink->element, dimensions);
	sink->capacity = Max(SHARE_BLOCK_ROWS, BUFFER_BYTES / (sink->floats * sizeof(float)));
	sink->rows = MemoryContextAllocHuge(GetMemoryChunkContext(sink),
										sink->capacity * sink->floats * sizeof(float));
	for (int side = 0; side < 2; side++)
		if (sink->to[side])
		{
			RowSink    *to = JoinSink(sink->slice->join, side);

			to->set_dimensions(to, dimensions, row_name);
		}
}

static size_t
RoomForRows(RowSink *self, float **room)
{
	ShareSink  *sink = (ShareSink *) self;

	if (sink->used == sink->capacity)
		Flush(sink);
	if (sink->stopped)
		return 0;
	*room = sink->rows + sink->used * sink->floats;
	return sink->capacity - sink->used;
}

static void
TakeRows(RowSink *self, const Datum *keys, size_t nrows)
{
	ShareSink  *sink = (ShareSink *) self;

	for (size_t i = 0; i < nrows; i++, sink->used++)
		FingerprintAdd(sink->print, KeyHash(keys[i], sink->typlen, sink->typbyval),
					   VectorHash(sink->rows + sink->used * sink->floats, sink->element,
								  sink->dimensions));
}

/* Returns false if the engine has failed. */
static bool
ReadRelation(Slice *slice, int side)
{
	const VectorSource *source = slice->sources[side];
	ShareSink  *sink = palloc0(sizeof(ShareSink));
	bool		stopped;

	sink->sink.expect_rows = ExpectRows;
	sink->sink.set_dimensions = SetDimensions;
	sink->sink.room_for_rows = RoomForRows;
	sink->sink.take_rows = TakeRows;
	sink->slice = slice;
	sink->print = &slice->report.rows[side];
	sink->element = source->element;
	sink->to[0] = side == 0;
	sink->to[1] = side == 1 || slice->sources[1] == NULL;
	get_typlenbyval(source->key_type, &sink->typlen, &sink->typbyval);
	memset(sink->print, 0, sizeof(Fingerprint));
	ReadVectors(source, &sink->sink);
	if (!sink->stopped)
		Flush(sink);
	stopped = sink->stopped;
	if (sink->rows != NULL)
		pfree(sink->rows);
	pfree(sink);
	return !stopped;
}

static void
PushBothSides(RowPusher *pusher, VectorJoin *join)
{
	Slice	   *slice = (Slice *) ((char *) pusher - offsetof(Slice, pusher));

	slice->join = join;
	if (ReadRelation(slice, 0) && slice->sources[1] != NULL)
		ReadRelation(slice, 1);
}

/* --- the beginning of a slice */

static void
CheckSlice(int32 slice, int32 slices)
{
	if (slices < 1 || slice < 0 || slice >= slices)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no slice %d of %d", slice, slices)));
}

static SliceOutput
OutputFromName(const char *name)
{
	for (int i = 0; i < (int) lengthof(slice_output_names); i++)
		if (strcmp(name, slice_output_names[i]) == 0)
			return (SliceOutput) i;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("there is no output \"%s\" of a slice", name)));
}

static Slice *
BeginPairs(FunctionCallInfo fcinfo)
{
	static const FastedOutput outputs[] = {
		[SLICE_PAIRS] = FASTED_OUTPUT_PAIRS,
		[SLICE_COUNT] = FASTED_OUTPUT_COUNT,
		[SLICE_COUNTS] = FASTED_OUTPUT_COUNTS,
		[SLICE_CONNECTIONS] = FASTED_OUTPUT_PAIRS
	};
	Slice	   *slice = palloc0(sizeof(Slice));
	VectorSource *source = ResolveSource(PG_GETARG_OID(SLICE_RELATION),
										 NameStr(*PG_GETARG_NAME(SLICE_COLUMN)),
										 NameStr(*PG_GETARG_NAME(SLICE_ID_COLUMN)),
										 PG_GETARG_OID(SLICE_KEY_TYPE),
										 MetricFromText(PG_GETARG_TEXT_PP(SLICE_METRIC)),
										 "fasted_self_join");
	JoinRequest request = {
		.sources = {source},
		.problem = {
			.eps = PG_GETARG_FLOAT8(SLICE_EPS),
			.slice = PG_GETARG_INT32(SLICE_NUMBER),.slices = PG_GETARG_INT32(SLICE_SLICES),
			.alike = PG_GETARG_BOOL(SLICE_ALIKE)
		},
		.print = &slice->report.rows[0]
	};

	RequireDistance(PG_GETARG_FLOAT8(SLICE_EPS));
	CheckSlice(PG_GETARG_INT32(SLICE_NUMBER), PG_GETARG_INT32(SLICE_SLICES));
	slice->output = OutputFromName(text_to_cstring(PG_GETARG_TEXT_PP(SLICE_OUTPUT)));
	source->skip_zeros = PG_GETARG_BOOL(SLICE_SKIP_ZEROS);
	source->key_order = true;
	source->reader = ReadShards;
	request.problem.output = outputs[slice->output];
	slice->join = JoinBegin(&request);
	if (slice->output == SLICE_CONNECTIONS)
		slice->parent = OwnRowNumbers(slice->join->keys[0]->count);
	return slice;
}

static VectorSource *
ResolveSide(FunctionCallInfo fcinfo, int relation, const char *id_argument)
{
	VectorSource *source = ResolveNamedSource(PG_GETARG_OID(relation),
											  NameStr(*PG_GETARG_NAME(relation + 1)),
											  NameStr(*PG_GETARG_NAME(relation + 2)), id_argument,
											  PG_GETARG_OID(NEAREST_SLICE_KEY_TYPE),
											  MetricFromText(PG_GETARG_TEXT_PP(NEAREST_SLICE_METRIC)),
											  "fasted_knn_join");

	source->key_order = true;
	source->reader = ReadShards;
	return source;
}

/* The source's rows by their numbers, which are their names in messages. */
static VectorSource *
Numbered(const VectorSource *source)
{
	VectorSource *numbered = palloc(sizeof(VectorSource));

	*numbered = *source;
	numbered->key_type = INT8OID;
	numbered->key_collation = InvalidOid;
	return numbered;
}

static Slice *
BeginNearest(FunctionCallInfo fcinfo)
{
	Slice	   *slice = palloc0(sizeof(Slice));
	JoinRequest request = {
		.problem = {
			.output = FASTED_OUTPUT_NEAREST,.eps = PG_GETARG_FLOAT8(NEAREST_SLICE_MOST)
		},
		.pusher = &slice->pusher
	};
	int32		k = PG_GETARG_INT32(NEAREST_SLICE_K);

	RequireDistance(request.problem.eps);
	if (k < 1 || k >= (int32) FASTED_MAX_NEIGHBORS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there are no slices of %d nearest rows", k)));
	CheckSlice(PG_GETARG_INT32(NEAREST_SLICE_NUMBER), PG_GETARG_INT32(NEAREST_SLICE_SLICES));
	slice->output = SLICE_NEAREST;
	slice->k = k;
	slice->number = PG_GETARG_INT32(NEAREST_SLICE_NUMBER);
	slice->slices = PG_GETARG_INT32(NEAREST_SLICE_SLICES);
	slice->message = palloc(MESSAGE_MOST_PAIRS * sizeof(FastedPair));
	slice->sources[0] = ResolveSide(fcinfo, NEAREST_SLICE_A, "a_id");
	/* not of a relation with itself, by the rule of ResolveNearestSources */
	if (PG_GETARG_OID(NEAREST_SLICE_A) != PG_GETARG_OID(NEAREST_SLICE_B) ||
		strcmp(NameStr(*PG_GETARG_NAME(NEAREST_SLICE_A_COLUMN)),
			   NameStr(*PG_GETARG_NAME(NEAREST_SLICE_B_COLUMN))) != 0)
	{
		slice->sources[1] = ResolveSide(fcinfo, NEAREST_SLICE_B, "b_id");
		ShareElement(slice->sources[0], slice->sources[1]);
	}
	slice->pusher.push = PushBothSides;
	request.sources[0] = Numbered(slice->sources[0]);
	request.sources[1] = Numbered(slice->sources[slice->sources[1] != NULL ? 1 : 0]);
	request.problem.k = slice->sources[1] != NULL ? slice->k : slice->k + 1;
	slice->join = JoinBegin(&request);
	return slice;
}

/* --- messages of pairs and counts */

/* Leaves only those pairs that connect rows which no pair before them connects. */
static void
Thin(Slice *slice)
{
	size_t		kept = 0;

	if (slice->kept_capacity < slice->npairs)
	{
		if (slice->kept != NULL)
			pfree(slice->kept);
		slice->kept_capacity = slice->npairs;
		slice->kept = MemoryContextAllocHuge(GetMemoryChunkContext(slice->parent),
											 slice->kept_capacity * sizeof(FastedPair));
	}
	for (size_t i = 0; i < slice->npairs; i++)
	{
		FastedPair	pair = slice->pairs[i];

		if (FindRoot(slice->parent, pair.a) == FindRoot(slice->parent, pair.b))
			continue;
		UniteSets(slice->parent, pair.a, pair.b);
		slice->kept[kept++] = pair;
	}
	slice->pairs = slice->kept;
	slice->npairs = kept;
}

/* NULL: there are no more pairs. */
static bytea *
NextPairs(Slice *slice)
{
	size_t		n;
	bytea	   *message;

	while (slice->npairs == 0)
	{
		if (!JoinNext(slice->join, &slice->pairs, &slice->npairs))
			return NULL;
		if (slice->output == SLICE_CONNECTIONS)
			Thin(slice);
	}
	n = Min(slice->npairs, MESSAGE_MOST_PAIRS);
	message = PairsMessage(slice->pairs, n);
	slice->pairs += n;
	slice->npairs -= n;
	return message;
}

static bytea *
NextCounts(Slice *slice)
{
	uint32		first = slice->next_row;
	uint32		n = Min(slice->join->keys[0]->count - first, MESSAGE_MOST_COUNTS);

	slice->next_row += n;
	return CountsMessage(first, slice->join->counts + first, n);
}

/* --- messages of nearest rows */

/* Waits for a row with all of its neighbours; returns false if there are no more. */
static bool
FindRow(Slice *slice)
{
	uint64		count;

	while (slice->row == slice->end)
	{
		if (!JoinNextRows(slice->join, &slice->row, &count))
			return false;
		slice->end = slice->row + count;
	}
	return true;
}

/* Appends neighbours of the current row to the message; after the last, turns to the next row. */
static size_t
AppendNeighbors(Slice *slice, size_t npairs)
{
	uint32		a = (uint32) DatumGetInt64(slice->join->keys[0]->values[slice->row]);
	uint32		length;
	const FastedNeighbor *list = JoinNearest(slice->join, slice->row, &length);

	while (slice->next < length && slice->found < slice->k && npairs < MESSAGE_MOST_PAIRS)
	{
		const FastedNeighbor *neighbor = &list[slice->next++];

		if (slice->sources[1] == NULL && neighbor->row == a)
			continue;
		slice->message[npairs++] = (FastedPair) {.a = a,.b = neighbor->row,.dist = neighbor->dist};
		slice->found++;
	}
	if (slice->next < length && slice->found < slice->k)
		return npairs;			/* the message is full */
	slice->next = slice->found = 0;
	if (++slice->row % ROWS_PER_CHECK == 0)
		CheckJoinInterrupts();
	return npairs;
}

/* Neighbours that are known are sent before the engine is waited for.  NULL: there are no more. */
static bytea *
NextNeighbors(Slice *slice)
{
	size_t		npairs = 0;

	while (npairs < MESSAGE_MOST_PAIRS && (npairs == 0 || slice->row < slice->end) &&
		   FindRow(slice))
		npairs = AppendNeighbors(slice, npairs);
	slice->sent += npairs;
	return npairs > 0 ? PairsMessage(slice->message, npairs) : NULL;
}

/* --- the stream of messages */

/* A share of nearest rows has no cut: whatever computes it, its rows are the same. */
static bytea *
Report(Slice *slice, char tag)
{
	(void) JoinStatistics(slice->join, &slice->report.stats, &slice->report.read_seconds);
	if (slice->output == SLICE_NEAREST)
		slice->report.stats.pairs = slice->sent;
	else
		JoinDescribeCut(slice->join, slice->report.cut, sizeof(slice->report.cut));
	return ReportMessage(tag, &slice->report);
}

/* NULL: there are no more. */
static bytea *
NextMessage(Slice *slice)
{
	bytea	   *message = NULL;

	if (slice->phase == PHASE_DONE)
		return NULL;
	if (slice->phase == PHASE_ROWS)
	{
		slice->phase = PHASE_PAIRS;
		return Report(slice, MESSAGE_ROWS);
	}
	if (slice->phase == PHASE_PAIRS)
		message = slice->output == SLICE_NEAREST ? NextNeighbors(slice) : NextPairs(slice);
	if (message != NULL)
		return message;
	slice->phase = PHASE_COUNTS;
	if (slice->output == SLICE_COUNTS && slice->next_row < slice->join->keys[0]->count)
		return NextCounts(slice);
	slice->phase = PHASE_DONE;
	return Report(slice, MESSAGE_DONE);
}

static Datum
StreamSlice(FunctionCallInfo fcinfo, Slice *(*begin) (FunctionCallInfo fcinfo))
{
	FuncCallContext *call;
	bytea	   *message;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext caller = CurrentMemoryContext;

		call = SRF_FIRSTCALL_INIT();
		MemoryContextSwitchTo(call->multi_call_memory_ctx);
		call->user_fctx = begin(fcinfo);
		MemoryContextSwitchTo(caller);
	}
	call = SRF_PERCALL_SETUP();
	message = NextMessage(call->user_fctx);
	if (message != NULL)
		SRF_RETURN_NEXT(call, PointerGetDatum(message));
	JoinEnd(((Slice *) call->user_fctx)->join);
	SRF_RETURN_DONE(call);
}

/*
 * fasted_citus.join_slice(relation, vector_column, eps, id_column, key_type, metric,
 * skip_zeros, output, slice, slices, alike)
 */
Datum
fasted_citus_join_slice(PG_FUNCTION_ARGS)
{
	return StreamSlice(fcinfo, BeginPairs);
}

/*
 * fasted_citus.nearest_slice(a, a_column, a_id, b, b_column, b_id, key_type, k,
 * max_distance, metric, slice, slices)
 */
Datum
fasted_citus_nearest_slice(PG_FUNCTION_ARGS)
{
	return StreamSlice(fcinfo, BeginNearest);
}

/*
 * Describes what decides on a CPU whether and how rows are reordered: the kernel, and settings
 * that a server may have in its own files.
 */
Datum
fasted_citus_kernel(PG_FUNCTION_ARGS)
{
	const CpuKernel *kernel = fasted_cpu_choose_kernel(RequestedCpuKernel());

	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s, prune %d, filter %d, memory %d kB",
											  kernel != NULL ? kernel->name : "none",
											  fasted_setting_prune, fasted_setting_filter,
											  fasted_setting_memory_limit)));
}
