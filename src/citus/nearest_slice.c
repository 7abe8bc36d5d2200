/*-------------------------------------------------------------------------
 *
 * nearest_slice.c
 *	  What a worker does for nearest rows: it reads all rows, and finds those of a share
 *	  of the rows of a.
 *
 * As in slice_join.c, each row of the SQL function is a message.  Of one relation with
 * itself a row is looked for in all rows, so that it may find itself: then one more
 * neighbour is asked for, and the row or the last one left out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/arguments.h"
#include "base/interrupts.h"
#include "citus/shard_reader.h"
#include "citus/share_reader.h"
#include "citus/slice_stream.h"
#include "citus/wire.h"
#include "fmgr.h"
#include "join/remote_join.h"

PG_FUNCTION_INFO_V1(fasted_citus_nearest_slice);

/* Arguments by position. */
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

/* Rows of a between two looks for interrupts. */
#define ROWS_PER_CHECK 1024

typedef struct NearestSlice
{
	Join	   *join;
	bool		with_itself;
	uint32		k;
	SliceReport report;
	uint64		npairs;			/* that were sent */

	bool		told;			/* that rows have been read */
	bool		over;
	uint64		row;			/* of the share, the next one */
	uint64		end;			/* of those that have all of their neighbours */
	uint32		next;			/* in the row's list */
	uint32		found;			/* of the row's neighbours, those that were sent */
	FastedPair *pairs;			/* of a message */
} NearestSlice;

/* --- begin */

static VectorSource *
Resolve(FunctionCallInfo fcinfo, int relation, const char *id_argument)
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

/* As ResolveNearestSources has it. */
static bool
IsWithItself(FunctionCallInfo fcinfo)
{
	return PG_GETARG_OID(NEAREST_SLICE_A) == PG_GETARG_OID(NEAREST_SLICE_B) &&
		strcmp(NameStr(*PG_GETARG_NAME(NEAREST_SLICE_A_COLUMN)),
			   NameStr(*PG_GETARG_NAME(NEAREST_SLICE_B_COLUMN))) == 0;
}

static void
CheckArguments(FunctionCallInfo fcinfo)
{
	int32		k = PG_GETARG_INT32(NEAREST_SLICE_K);
	int32		slice = PG_GETARG_INT32(NEAREST_SLICE_NUMBER);
	int32		slices = PG_GETARG_INT32(NEAREST_SLICE_SLICES);

	RequireDistance(PG_GETARG_FLOAT8(NEAREST_SLICE_MOST));
	if (k < 1 || k >= (int32) FASTED_MAX_NEIGHBORS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there are no slices of %d nearest rows", k)));
	if (slices < 1 || slice < 0 || slice >= slices)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no slice %d of %d", slice, slices)));
}

static void *
BeginSlice(FunctionCallInfo fcinfo)
{
	NearestSlice *slice = palloc0(sizeof(NearestSlice));
	NearestShare share = {.prints = slice->report.rows};

	CheckArguments(fcinfo);
	slice->with_itself = IsWithItself(fcinfo);
	slice->k = PG_GETARG_INT32(NEAREST_SLICE_K);
	slice->pairs = palloc(MESSAGE_MOST_PAIRS * sizeof(FastedPair));
	share.a = Resolve(fcinfo, NEAREST_SLICE_A, "a_id");
	if (!slice->with_itself)
	{
		share.b = Resolve(fcinfo, NEAREST_SLICE_B, "b_id");
		ShareElement(share.a, share.b);
	}
	share.k = slice->k + (slice->with_itself ? 1 : 0);
	share.most = PG_GETARG_FLOAT8(NEAREST_SLICE_MOST);
	share.slice = PG_GETARG_INT32(NEAREST_SLICE_NUMBER);
	share.slices = PG_GETARG_INT32(NEAREST_SLICE_SLICES);
	slice->join = JoinBeginShare(&share);
	return slice;
}

/* --- messages */

/* A share has no cut: whatever computes it, its rows are the same. */
static bytea *
Report(NearestSlice *slice, char tag)
{
	(void) JoinStatistics(slice->join, &slice->report.stats, &slice->report.read_seconds);
	slice->report.stats.pairs = slice->npairs;
	return ReportMessage(tag, &slice->report);
}

/* There is a row with all of its neighbours; false: there are no more. */
static bool
FindRow(NearestSlice *slice)
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

/* Appends neighbours of the row at hand to the npairs of the message, and goes on if these are all. */
static size_t
AppendNeighbors(NearestSlice *slice, size_t npairs)
{
	uint32		a = (uint32) DatumGetInt64(JoinKeysOf(slice->join, 0)->values[slice->row]);
	uint32		length;
	const FastedNeighbor *list = JoinNearest(slice->join, slice->row, &length);

	while (slice->next < length && slice->found < slice->k && npairs < MESSAGE_MOST_PAIRS)
	{
		const FastedNeighbor *neighbor = &list[slice->next++];

		if (slice->with_itself && neighbor->row == a)
			continue;
		slice->pairs[npairs++] = (FastedPair) {.a = a,.b = neighbor->row,.dist = neighbor->dist};
		slice->found++;
	}
	if (slice->next < length && slice->found < slice->k)
		return npairs;			/* the message is full */
	slice->next = slice->found = 0;
	if (++slice->row % ROWS_PER_CHECK == 0)
		CheckJoinInterrupts();
	return npairs;
}

/* What is there goes before the engine is waited for. */
static size_t
FillMessage(NearestSlice *slice)
{
	size_t		npairs = 0;

	while (npairs < MESSAGE_MOST_PAIRS && (npairs == 0 || slice->row < slice->end))
	{
		if (!FindRow(slice))
			break;
		npairs = AppendNeighbors(slice, npairs);
	}
	return npairs;
}

/* NULL: there are no more. */
static bytea *
NextMessage(void *state)
{
	NearestSlice *slice = state;
	size_t		npairs;

	if (slice->over)
		return NULL;
	if (!slice->told)
	{
		slice->told = true;
		return Report(slice, MESSAGE_ROWS);
	}
	npairs = FillMessage(slice);
	slice->npairs += npairs;
	if (npairs > 0)
		return PairsMessage(slice->pairs, npairs);
	slice->over = true;
	return Report(slice, MESSAGE_DONE);
}

static void
EndSlice(void *slice)
{
	JoinEnd(((NearestSlice *) slice)->join);
}

static const SliceStream stream = {BeginSlice, NextMessage, EndSlice};

/*
 * fasted_citus.nearest_slice(a, a_column, a_id, b, b_column, b_id, key_type, k,
 * max_distance, metric, slice, slices)
 */
Datum
fasted_citus_nearest_slice(PG_FUNCTION_ARGS)
{
	return StreamSlice(fcinfo, &stream);
}
