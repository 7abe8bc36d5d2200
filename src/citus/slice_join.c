/*-------------------------------------------------------------------------
 *
 * slice_join.c
 *	  What a worker does: it reads all rows, joins one slice, and streams it.
 *
 * A call of its SQL function in a select list gives one message after the other, none
 * of which is stored.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/arguments.h"
#include "base/guc.h"
#include "base/row_numbers.h"
#include "catalog/pg_type.h"
#include "cpu/cpu_kernel.h"
#include "citus/shard_reader.h"
#include "citus/slice_stream.h"
#include "citus/wire.h"
#include "fmgr.h"
#include "join/join.h"
#include "join/remote_join.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(fasted_citus_join_slice);
PG_FUNCTION_INFO_V1(fasted_citus_kernel);

/* Arguments by position. */
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

/* A connected forest needs no more pairs than it has rows, whatever slice they are from. */
typedef struct Forest
{
	uint32	   *parent;
	FastedPair *pairs;			/* of the batch, those that connect something */
	size_t		capacity;
} Forest;

typedef struct SliceRun
{
	MemoryContext context;
	SliceOutput output;
	Join	   *join;
	SliceReport report;
	Forest		forest;

	bool		told;			/* that rows have been read */
	bool		over;
	const FastedPair *pairs;	/* those not sent yet */
	size_t		npairs;
	bool		counted;		/* no more pairs come: counts are sent */
	uint32		next_row;
} SliceRun;

/* --- arguments */

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

static FastedOutput
EngineOutput(SliceOutput output)
{
	switch (output)
	{
		case SLICE_COUNT:
			return FASTED_OUTPUT_COUNT;
		case SLICE_COUNTS:
			return FASTED_OUTPUT_COUNTS;
		default:
			return FASTED_OUTPUT_PAIRS;
	}
}

static void
CheckSlice(int32 slice, int32 slices)
{
	if (slices < 1 || slice < 0 || slice >= slices)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no slice %d of %d", slice, slices)));
}

/* --- begin */

static void *
BeginSlice(FunctionCallInfo fcinfo)
{
	SliceRun   *run = palloc0(sizeof(SliceRun));
	VectorSource *source = ResolveSource(PG_GETARG_OID(SLICE_RELATION),
										 NameStr(*PG_GETARG_NAME(SLICE_COLUMN)),
										 NameStr(*PG_GETARG_NAME(SLICE_ID_COLUMN)),
										 PG_GETARG_OID(SLICE_KEY_TYPE),
										 MetricFromText(PG_GETARG_TEXT_PP(SLICE_METRIC)),
										 "fasted_self_join");
	JoinSlice	slice = {
		.slice = PG_GETARG_INT32(SLICE_NUMBER),.slices = PG_GETARG_INT32(SLICE_SLICES),
		.alike = PG_GETARG_BOOL(SLICE_ALIKE),.print = &run->report.rows[0]
	};

	RequireDistance(PG_GETARG_FLOAT8(SLICE_EPS));
	CheckSlice(PG_GETARG_INT32(SLICE_NUMBER), PG_GETARG_INT32(SLICE_SLICES));
	run->context = CurrentMemoryContext;
	run->output = OutputFromName(text_to_cstring(PG_GETARG_TEXT_PP(SLICE_OUTPUT)));
	source->skip_zeros = PG_GETARG_BOOL(SLICE_SKIP_ZEROS);
	source->key_order = true;
	source->reader = ReadShards;
	run->join = JoinBeginSlice(source, PG_GETARG_FLOAT8(SLICE_EPS), EngineOutput(run->output),
							   &slice);
	if (run->output == SLICE_CONNECTIONS)
		run->forest.parent = OwnRowNumbers(JoinKeys(run->join)->count);
	return run;
}

/* --- messages */

static bytea *
Report(SliceRun *run, char tag)
{
	JoinDescribeCut(run->join, run->report.cut, sizeof(run->report.cut));
	(void) JoinStatistics(run->join, &run->report.stats, &run->report.read_seconds);
	return ReportMessage(tag, &run->report);
}

/* Pairs that connect what none before them did. */
static void
Thin(Forest *forest, const FastedPair **pairs, size_t *npairs)
{
	size_t		kept = 0;

	if (forest->capacity < *npairs)
	{
		if (forest->pairs != NULL)
			pfree(forest->pairs);
		forest->capacity = *npairs;
		forest->pairs = MemoryContextAllocHuge(GetMemoryChunkContext(forest->parent),
											   forest->capacity * sizeof(FastedPair));
	}
	for (size_t i = 0; i < *npairs; i++)
	{
		FastedPair	pair = (*pairs)[i];

		if (FindRoot(forest->parent, pair.a) == FindRoot(forest->parent, pair.b))
			continue;
		UniteSets(forest->parent, pair.a, pair.b);
		forest->pairs[kept++] = pair;
	}
	*pairs = forest->pairs;
	*npairs = kept;
}

/* False: there are no more. */
static bool
FetchPairs(SliceRun *run)
{
	while (run->npairs == 0)
	{
		if (!JoinNext(run->join, &run->pairs, &run->npairs))
		{
			run->npairs = 0;
			return false;
		}
		if (run->output == SLICE_CONNECTIONS)
			Thin(&run->forest, &run->pairs, &run->npairs);
	}
	return true;
}

static bytea *
NextPairs(SliceRun *run)
{
	size_t		n = Min(run->npairs, MESSAGE_MOST_PAIRS);
	bytea	   *message = PairsMessage(run->pairs, n);

	run->pairs += n;
	run->npairs -= n;
	return message;
}

static bytea *
NextCounts(SliceRun *run)
{
	uint32		rows = JoinKeys(run->join)->count;
	uint32		n = Min(rows - run->next_row, MESSAGE_MOST_COUNTS);
	bytea	   *message = CountsMessage(run->next_row, JoinCounts(run->join) + run->next_row, n);

	run->next_row += n;
	return message;
}

/* NULL: there are no more. */
static bytea *
NextMessage(void *state)
{
	SliceRun   *run = state;

	if (run->over)
		return NULL;
	if (!run->told)
	{
		run->told = true;
		return Report(run, MESSAGE_ROWS);
	}
	if (!run->counted && FetchPairs(run))
		return NextPairs(run);
	run->counted = true;
	if (run->output == SLICE_COUNTS && run->next_row < JoinKeys(run->join)->count)
		return NextCounts(run);
	run->over = true;
	return Report(run, MESSAGE_DONE);
}

static void
EndSlice(void *slice)
{
	JoinEnd(((SliceRun *) slice)->join);
}

static const SliceStream stream = {BeginSlice, NextMessage, EndSlice};

/*
 * fasted_citus.join_slice(relation, vector_column, eps, id_column, key_type, metric,
 * skip_zeros, output, slice, slices, alike)
 */
Datum
fasted_citus_join_slice(PG_FUNCTION_ARGS)
{
	return StreamSlice(fcinfo, &stream);
}

/*
 * What decides on a CPU which order rows are put in, if in any: the kernel, and settings
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
