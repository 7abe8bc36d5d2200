/*-------------------------------------------------------------------------
 *
 * slices.c
 *	  The worker of a divided join: reads all rows, joins one slice, and streams the result.
 *
 * The SQL functions in this file return messages (fasted_citus.h), one per row.  They are called in a
 * select list, so that rows are streamed and not stored.
 *
 * A slice of a join within eps is a subset of the tiles.  A slice of nearest rows is a share of
 * the rows of a, for which all rows of b are searched.  A relation that is joined with itself
 * is read once, and its rows go to both sides.  A row may then find itself, so k + 1
 * neighbours are requested, and the row itself or the last neighbour is omitted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fasted_citus.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(fasted_citus_join_slice);
PG_FUNCTION_INFO_V1(fasted_citus_nearest_slice);
PG_FUNCTION_INFO_V1(fasted_citus_kernel);

/* The largest number of pairs in a message. */
#define MAX_PAIRS (MESSAGE_MAX_BYTES / sizeof(FastedPair))

/* Bytes of rows to buffer before they are pushed to a side, since changing sides costs time. */
#define BUFFER_BYTES (1024 * 1024)

typedef struct Slice
{
	FastedOutput output;
	VectorJoin *join;
	SliceReport report;
	enum
	{
		PHASE_ROWS,				/* all rows have been read; MESSAGE_ROWS is next */
		PHASE_PAIRS,			/* the join is computed */
		PHASE_COUNTS,			/* all pairs have been sent */
		PHASE_DONE
	}			phase;

	const FastedPair *pairs;	/* pairs of the last batch that were not sent yet */
	size_t		npairs;
	FastedPair *message;		/* buffer for the pairs of a message */
	uint32	   *parent;			/* FASTED_OUTPUT_CONNECTIONS: sets of rows connected by the pairs sent */
	uint32		next_row;		/* FASTED_OUTPUT_COUNTS: the first row whose count was not sent yet */

	VectorSource *sources[2];	/* read in the order of keys; b is NULL for a self-join */
	uint32		share;			/* the share of the rows of a that are joined; 0 ... */
	uint32		shares;			/* ... of 1: all of them, except for nearest rows */

	/* FASTED_OUTPUT_NEAREST: */
	uint32		k;
	uint64		sent;			/* pairs sent so far */
	const NeighborList *list;	/* neighbours of a row of the share; NULL: the next list is needed */
	uint32		next;			/* next neighbour in the list */
	uint32		found;			/* neighbours of the row that were sent */
} Slice;

/*
 * --- the rows of a slice
 *
 * For nearest rows, all rows of b go to side 1, and the share of a goes to side 0.
 */

/* Receives the rows of one relation and pushes them to the join, where row numbers are the keys. */
typedef struct ShareSink
{
	RowSink		sink;
	const Slice *slice;
	Fingerprint *fingerprint;	/* fingerprint of the rows and their keys */
	int16		typlen;			/* typlen and typbyval of the keys' type */
	bool		typbyval;
	int			side;			/* the rows go to the sides from this one ... */
	int			last_side;		/* ... to this one */
	bool		stopped;		/* the engine failed and takes no more rows */

	FastedElement element;
	uint32		dimensions;
	size_t		floats;			/* size of a row, in floats */
	float	   *rows;			/* buffer */
	uint32		capacity;		/* capacity of the buffer, in rows */
	uint32		used;			/* rows in the buffer */
	uint32		first;			/* number of the first row in the buffer */
} ShareSink;

/* Pushes rows begin to end - 1 of the buffer to a side. */
static void
PushRows(ShareSink *sink, int side, uint32 begin, uint32 end)
{
	RowSink    *to = core->JoinSink(sink->slice->join, side);
	Datum		keys[SHARE_BLOCK_ROWS];

	while (begin < end && !sink->stopped)
	{
		float	   *buffer;
		uint32		n = Min(to->buffer_for_rows(to, &buffer), Min(end - begin, SHARE_BLOCK_ROWS));

		sink->stopped = n == 0;
		if (n == 0)
			return;
		memcpy(buffer, sink->rows + begin * sink->floats, n * sink->floats * sizeof(float));
		for (uint32 i = 0; i < n; i++)
			keys[i] = Int64GetDatum((int64) sink->first + begin + i);
		to->take_rows(to, keys, n);
		begin += n;
	}
}

/* Pushes the buffer to side 1, and those of its rows that are in the share to side 0. */
static void
Flush(ShareSink *sink)
{
	for (int side = sink->last_side; side >= sink->side; side--)
		for (uint32 begin = 0, end; begin < sink->used; begin = end)
		{
			uint32		row = sink->first + begin;

			end = Min(sink->used, begin + SHARE_BLOCK_ROWS - row % SHARE_BLOCK_ROWS);
			if (side == 1 || IsInShare(row, sink->slice->share, sink->slice->shares))
				PushRows(sink, side, begin, end);
		}
	sink->first += sink->used;
	sink->used = 0;
}

static void
ExpectRows(RowSink *self, uint64 rows)
{
	ShareSink  *sink = (ShareSink *) self;

	for (int side = sink->last_side; side >= sink->side; side--)
	{
		RowSink    *to = core->JoinSink(sink->slice->join, side);

		to->expect_rows(to, side == 1 ? rows : rows / sink->slice->shares);
	}
}

static void
SetDimensions(RowSink *self, int dimensions, const char *row_name)
{
	ShareSink  *sink = (ShareSink *) self;

	sink->dimensions = dimensions;
	sink->floats = RowFloats(sink->element, dimensions);
	sink->capacity = Max(SHARE_BLOCK_ROWS, BUFFER_BYTES / (sink->floats * sizeof(float)));
	sink->rows = MemoryContextAllocHuge(GetMemoryChunkContext(sink->slice->message),
										sink->capacity * sink->floats * sizeof(float));
	for (int side = sink->side; side <= sink->last_side; side++)
	{
		RowSink    *to = core->JoinSink(sink->slice->join, side);

		to->set_dimensions(to, dimensions, row_name);
	}
}

static size_t
BufferForRows(RowSink *self, float **buffer)
{
	ShareSink  *sink = (ShareSink *) self;

	if (sink->used == sink->capacity)
		Flush(sink);
	if (sink->stopped)
		return 0;
	*buffer = sink->rows + sink->used * sink->floats;
	return sink->capacity - sink->used;
}

static void
TakeRows(RowSink *self, const Datum *keys, size_t nrows)
{
	ShareSink  *sink = (ShareSink *) self;

	for (size_t i = 0; i < nrows; i++, sink->used++)
		FingerprintAdd(sink->fingerprint, keys[i], sink->typlen, sink->typbyval,
					   VectorHash(sink->rows + sink->used * sink->floats, sink->element,
								  sink->dimensions));
}

/* Reads the relation of a side into the join. */
static void
ReadRelation(Slice *slice, int side)
{
	const VectorSource *source = slice->sources[side];
	ShareSink	sink = {
		.sink = {.expect_rows = ExpectRows,.set_dimensions = SetDimensions,
		.buffer_for_rows = BufferForRows,.take_rows = TakeRows},
		.slice = slice,.fingerprint = &slice->report.rows[side],.element = source->element,
		.side = side,.last_side = slice->output == FASTED_OUTPUT_NEAREST && slice->sources[1] == NULL ? 1 : side
	};

	get_typlenbyval(source->key_type, &sink.typlen, &sink.typbyval);
	memset(sink.fingerprint, 0, sizeof(Fingerprint));
	core->ReadVectors(source, &sink.sink);
	if (!sink.stopped)
		Flush(&sink);
	if (sink.rows != NULL)
		pfree(sink.rows);
}

/* Opens the join and reads all rows; once more, if the CPU takes over from a GPU. */
static void
StartJoin(Slice *slice, const JoinRequest *request)
{
	slice->join = core->JoinOpen(request);
	do
		for (int side = 0; side < 2 && slice->sources[side] != NULL; side++)
			ReadRelation(slice, side);
	while (!core->JoinStart(slice->join));
}

/* --- beginning a slice */

static Slice *
CreateSlice(FastedOutput output, int32 number, int32 slices)
{
	Slice	   *slice = palloc0(sizeof(Slice));

	if (slices < 1 || number < 0 || number >= slices)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid slice number %d of %d slices", number, slices)));
	slice->output = output;
	slice->share = output == FASTED_OUTPUT_NEAREST ? number : 0;
	slice->shares = output == FASTED_OUTPUT_NEAREST ? slices : 1;
	slice->message = palloc(MESSAGE_MAX_BYTES);
	return slice;
}

static FastedOutput
OutputFromName(const char *name)
{
	for (int i = 0; i < (int) lengthof(slice_output_names); i++)
		if (slice_output_names[i] != NULL && strcmp(name, slice_output_names[i]) == 0)
			return (FastedOutput) i;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized slice output \"%s\"", name)));
}

/*
 * Resolves a source to read in the order of keys.  relation, column and id_column are positions of
 * arguments.  Error: there is no such type.
 */
static VectorSource *
ResolveArguments(FunctionCallInfo fcinfo, int relation, int column, int id_column, Oid key_type,
				 const text *metric, const char *id_argument, const char *function)
{
	VectorSource *source = core->ResolveSource(PG_GETARG_OID(relation), NameStr(*PG_GETARG_NAME(column)),
										 NameStr(*PG_GETARG_NAME(id_column)), id_argument,
										 lookup_type_cache(key_type, 0)->type_id,
										 core->MetricFromText(metric), function, NULL);

	source->key_order = true;
	return source;
}

/* Returns a copy of the source with row numbers as keys, which messages refer to. */
static VectorSource *
NumberKeys(const VectorSource *source)
{
	VectorSource *numbered = palloc(sizeof(VectorSource));

	*numbered = *source;
	numbered->key_type = INT8OID;
	numbered->key_collation = InvalidOid;
	return numbered;
}

/*
 * Begins join_slice(relation, vector_column, eps, id_column, key_type, metric, skip_zeros, output, slice,
 * slices, identical_kernels).
 */
static Slice *
BeginPairs(FunctionCallInfo fcinfo)
{
	Slice	   *slice = CreateSlice(OutputFromName(text_to_cstring(PG_GETARG_TEXT_PP(7))),
									PG_GETARG_INT32(8), PG_GETARG_INT32(9));
	VectorSource *source = ResolveArguments(fcinfo, 0, 1, 3, PG_GETARG_OID(4), PG_GETARG_TEXT_PP(5),
											"id_column", "fasted_self_join");
	JoinRequest request = {
		.problem = {
			.eps = PG_GETARG_FLOAT8(2),.slice = PG_GETARG_INT32(8),.slices = PG_GETARG_INT32(9),
			.output = slice->output == FASTED_OUTPUT_CONNECTIONS ? FASTED_OUTPUT_PAIRS : slice->output,
			.identical_kernels = PG_GETARG_BOOL(10)
		}
	};

	core->RequireDistance("eps", request.problem.eps, source->metric);
	source->skip_zeros = PG_GETARG_BOOL(6);
	if (source->skip_zeros && source->metric != FASTED_METRIC_COSINE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("skip_zeros requires metric \"cosine\"")));
	slice->sources[0] = source;
	request.sources[0] = NumberKeys(source);
	StartJoin(slice, &request);
	if (slice->output == FASTED_OUTPUT_CONNECTIONS)
		slice->parent = core->OwnRowNumbers(slice->join->keys[0]->count);
	return slice;
}

/*
 * Begins nearest_slice(a, a_column, a_id, b, b_column, b_id, key_type, k, max_distance, metric, slice,
 * slices).
 */
static Slice *
BeginNearest(FunctionCallInfo fcinfo)
{
	Slice	   *slice = CreateSlice(FASTED_OUTPUT_NEAREST, PG_GETARG_INT32(10), PG_GETARG_INT32(11));
	Oid			key_type = PG_GETARG_OID(6);
	int32		k = PG_GETARG_INT32(7);
	text	   *metric = PG_GETARG_TEXT_PP(9);
	JoinRequest request = {.problem = {.output = FASTED_OUTPUT_NEAREST,.eps = PG_GETARG_FLOAT8(8)}};

	if (k < 1 || k >= (int32) FASTED_MAX_NEIGHBORS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid number of nearest rows: %d", k)));
	slice->k = k;
	slice->sources[0] = ResolveArguments(fcinfo, 0, 1, 2, key_type, metric, "a_id", "fasted_knn_join");
	core->RequireDistance("max_distance", request.problem.eps, slice->sources[0]->metric);
	/* two different sources, by the rule of ResolveSources in nearest.c */
	if (PG_GETARG_OID(0) != PG_GETARG_OID(3) ||
		strcmp(NameStr(*PG_GETARG_NAME(1)), NameStr(*PG_GETARG_NAME(4))) != 0)
	{
		slice->sources[1] = ResolveArguments(fcinfo, 3, 4, 5, key_type, metric, "b_id", "fasted_knn_join");
		core->ShareElement(slice->sources[0], slice->sources[1]);
	}
	request.sources[0] = NumberKeys(slice->sources[0]);
	request.sources[1] = NumberKeys(slice->sources[slice->sources[1] != NULL ? 1 : 0]);
	request.problem.k = slice->sources[1] != NULL ? slice->k : slice->k + 1;
	StartJoin(slice, &request);
	return slice;
}

/* --- messages */

/*
 * Size of a backend's send buffer (pqcomm.c).  MESSAGE_ROWS is to be sent immediately, so it is
 * padded to more than this size.
 */
#define SEND_BUFFER 8192

static bytea *
MakeMessage(char tag, const void *elements, Size bytes)
{
	Size		size = VARHDRSZ + 1 + bytes + (tag == MESSAGE_ROWS ? SEND_BUFFER : 0);
	bytea	   *message = palloc0(size);

	SET_VARSIZE(message, size);
	VARDATA(message)[0] = tag;
	memcpy(VARDATA(message) + 1, elements, bytes);
	return message;
}

/*
 * Writes the next pairs to slice->message.  Returns their number, which is 0 at the end.  For
 * FASTED_OUTPUT_CONNECTIONS, these are only a spanning forest of the rows, which has fewer pairs than
 * there are rows.
 */
static size_t
NextPairs(Slice *slice)
{
	size_t		n = 0;

	while (n == 0)
	{
		if (slice->npairs == 0 && !core->JoinNext(slice->join, &slice->pairs, &slice->npairs))
			break;
		for (; slice->npairs > 0 && n < MAX_PAIRS; slice->pairs++, slice->npairs--)
		{
			const FastedPair *pair = slice->pairs;

			if (slice->parent != NULL)
			{
				if (FindRoot(slice->parent, pair->a) == FindRoot(slice->parent, pair->b))
					continue;
				UniteSets(slice->parent, pair->a, pair->b);
			}
			slice->message[n++] = *pair;
		}
	}
	return n;
}

/*
 * Writes the next neighbours to slice->message.  Returns their number, which is 0 at the end.  Returns
 * neighbours that are known before it waits for the engine.
 */
static size_t
NextNeighbors(Slice *slice)
{
	size_t		npairs = 0;

	while (npairs < MAX_PAIRS)
	{
		const NeighborList *list = slice->list;

		if (list == NULL)
		{
			slice->list = core->JoinNextList(slice->join, npairs == 0);
			slice->next = slice->found = 0;
			if (slice->list == NULL)
				break;
		}
		else if (slice->next == list->length || slice->found == slice->k)
			slice->list = NULL;
		else
		{
			const FastedNeighbor *neighbor = &list->neighbors[slice->next++];
			uint32		a = (uint32) DatumGetInt64(slice->join->keys[0]->values[list->row]);

			if (slice->sources[1] == NULL && neighbor->row == a)
				continue;
			slice->message[npairs++] = (FastedPair) {.a = a,.b = neighbor->row,.dist = neighbor->dist};
			slice->found++;
		}
	}
	slice->sent += npairs;
	return npairs;
}

/* Returns a report.  Its cut is empty for nearest rows: shares depend on row numbers only. */
static bytea *
Report(Slice *slice, char tag)
{
	slice->report.stats = core->JoinStatistics(slice->join);
	if (slice->output == FASTED_OUTPUT_NEAREST)
		slice->report.stats.pairs = slice->sent;
	else
		core->JoinDescribeCut(slice->join, slice->report.cut, sizeof(slice->report.cut));
	slice->report.version = WIRE_VERSION;
	return MakeMessage(tag, &slice->report, sizeof(SliceReport));
}

/* Returns the slice's next message; NULL if there are no more. */
static bytea *
NextMessage(Slice *slice)
{
	size_t		npairs = 0;

	if (slice->phase == PHASE_DONE)
		return NULL;
	if (slice->phase == PHASE_ROWS)
	{
		slice->phase = PHASE_PAIRS;
		return Report(slice, MESSAGE_ROWS);
	}
	if (slice->phase == PHASE_PAIRS)
		npairs = slice->output == FASTED_OUTPUT_NEAREST ? NextNeighbors(slice) : NextPairs(slice);
	if (npairs > 0)
		return MakeMessage(MESSAGE_PAIRS, slice->message, npairs * sizeof(FastedPair));
	slice->phase = PHASE_COUNTS;
	if (slice->output == FASTED_OUTPUT_COUNTS && slice->next_row < slice->join->keys[0]->count)
	{
		uint32		first = slice->next_row;
		uint32		n = Min(slice->join->keys[0]->count - first, MESSAGE_MAX_BYTES / sizeof(uint32));

		slice->next_row += n;
		return MakeMessage(MESSAGE_COUNTS, slice->join->counts + first, n * sizeof(uint32));
	}
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
	core->JoinEnd(((Slice *) call->user_fctx)->join);
	SRF_RETURN_DONE(call);
}

Datum
fasted_citus_join_slice(PG_FUNCTION_ARGS)
{
	return StreamSlice(fcinfo, BeginPairs);
}

Datum
fasted_citus_nearest_slice(PG_FUNCTION_ARGS)
{
	return StreamSlice(fcinfo, BeginNearest);
}

/*
 * fasted_citus.kernel(): describes what determines, on a CPU, whether and how rows are reordered.
 * These are the kernel, and settings that may differ in the servers' configuration files.
 */
Datum
fasted_citus_kernel(PG_FUNCTION_ARGS)
{
	const CpuKernel *kernel = core->fasted_cpu_choose_kernel(core->RequestedCpuKernel());

	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s, prune %s, filter %s, memory %s kB",
											  kernel != NULL ? kernel->name : "none",
											  GetConfigOption("fasted.prune", false, false),
											  GetConfigOption("fasted.filter", false, false),
											  GetConfigOption("fasted.memory_limit", false, false))));
}
