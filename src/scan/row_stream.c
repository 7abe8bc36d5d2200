/*-------------------------------------------------------------------------
 *
 * row_stream.c
 *	  Begins the join, puts ids in order, and turns pairs into blocks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "scan/row_stream.h"
#include "scan/scan_node.h"
#include "utils/memutils.h"

RowRequest
RequestAllRows(const SelfJoinArgs *args, Oid key_type)
{
	RowRequest	request = {
		.args = *args,
		.key_type = key_type,
		.columns = list_make3_int(COLUMN_ID_A, COLUMN_ID_B, COLUMN_DIST),
		.filter = {.least = 0.0,.most = HUGE_VAL,.below = true,.equal = true,.above = true}
	};

	return request;
}

/*
 * What a condition on the distance excludes need not be found; and where no pair
 * that is found is excluded, the engine can count.
 */
RowStream *
RowStreamBegin(const RowRequest *request)
{
	RowStream  *stream = palloc0(sizeof(RowStream));
	const SelfJoinArgs *args = &request->args;
	VectorSource *source = ResolveSource(args->relation, args->vector_column,
										 args->id_column, request->key_type,
										 args->metric, "fasted_self_join");
	double		eps = Min(args->eps, Max(request->filter.most, 0.0));
	JoinRequest join = {.sources = {source},.notices = true};

	if (args->partition_by != NULL)
		GroupSource(source, args->partition_by);
	stream->context = CurrentMemoryContext;
	stream->self_pairs = args->self_pairs;
	stream->timed = request->timed;
	stream->counts = request->count && TakesAllDistances(&request->filter);
	join.problem.eps = eps;
	join.problem.output = stream->counts ? FASTED_OUTPUT_COUNT : FASTED_OUTPUT_PAIRS;
	stream->join = JoinBegin(&join);
	InitRowMaker(&stream->maker, request->columns, args->ordered, &request->filter,
				 stream->join->keys[0]);
	return stream;
}

/* The engine's next batch; false: there is none. */
static bool
NextBatch(RowStream *stream)
{
	MemoryContext old = MemoryContextSwitchTo(stream->context);
	instr_time	begin;
	bool		more;

	if (stream->timed)
		INSTR_TIME_SET_CURRENT(begin);
	more = JoinNext(stream->join, &stream->pairs, &stream->npairs);
	if (stream->timed)
		stream->wait_seconds += SecondsSince(begin);
	if (!more)
		stream->npairs = 0;
	MemoryContextSwitchTo(old);
	return more;
}

/* Makes a block of the batch at work, or of self pairs; maybe an empty one. */
static void
MakeBlock(RowStream *stream, OutletBlock *block)
{
	instr_time	begin;

	if (stream->timed)
		INSTR_TIME_SET_CURRENT(begin);
	if (stream->npairs > 0)
	{
		size_t		used = FillBlock(&stream->maker, block, stream->pairs, stream->npairs);

		stream->pairs += used;
		stream->npairs -= used;
	}
	else
		stream->next_self_pair += FillBlockWithSelfPairs(&stream->maker, block,
														 stream->next_self_pair);
	if (stream->timed)
		stream->output_seconds += SecondsSince(begin);
}

bool
RowStreamNext(RowStream *stream, OutletBlock *block)
{
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (stream->npairs == 0 && !NextBatch(stream) &&
			!(stream->self_pairs && stream->next_self_pair < stream->join->keys[0]->count))
			return false;
		MakeBlock(stream, block);
	} while (block->nrows == 0);
	return true;
}

static uint64
CountInEngine(RowStream *stream)
{
	instr_time	begin;
	uint64		npairs;

	if (stream->timed)
		INSTR_TIME_SET_CURRENT(begin);
	npairs = JoinCount(stream->join);
	if (stream->timed)
		stream->wait_seconds += SecondsSince(begin);
	return RowsOfPairs(&stream->maker, npairs);
}

uint64
RowStreamCount(RowStream *stream)
{
	uint64		count = 0;

	if (stream->counts)
		count = CountInEngine(stream);
	else
		while (NextBatch(stream))
			count += CountRows(&stream->maker, stream->pairs, stream->npairs);
	if (stream->self_pairs)
		count += CountSelfPairs(&stream->maker);
	return count;
}

void
RowStreamEnd(RowStream *stream)
{
	JoinEnd(stream->join);
	pfree(stream);
}
