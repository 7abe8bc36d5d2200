/*-------------------------------------------------------------------------
 *
 * parallel_reader.c
 *	  Rows in, by parallel workers.
 *
 * The planner makes a parallel plan of
 *
 *	  SELECT k, v, fasted_internal_call()
 *	  FROM (SELECT fasted_internal_put(key, vector), key, vector
 *			FROM relation) AS r (taken, k, v)
 *	  WHERE taken IS NULL
 *
 * so that views, row security, partitions and all else work as in any query.
 * fasted_internal_put is volatile: the inner query is planned by itself, and the
 * function sees each row of its result once, after every condition.  It runs in
 * the workers, where it detoasts the vector, writes it into a ring in shared
 * memory (row_ring.h) and returns false, so that the row goes no further.  In
 * the leader's own share of the scan it gives rows to the sink at once, and looks
 * for blocks of the ring in between.
 *
 * A row that the ring does not take is left to the leader: the function returns
 * NULL, and the row comes out of the query as a tuple.  That is so for rows with
 * an error in them, which the leader then reports; when the ring is full; and
 * now and then to wake a leader that waits in Gather.  fasted_internal_call makes
 * the tuple large enough for that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "catalog/pg_type.h"
#include "engine.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "parallel_plan.h"
#include "parallel_reader.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "vector.h"

PG_FUNCTION_INFO_V1(fasted_internal_put);
PG_FUNCTION_INFO_V1(fasted_internal_call);

/*
 * A tuple queue tells the leader of tuples when a quarter of it, 16 kB, is full;
 * a tuple that is to wake the leader is made larger than that.
 */
#define CALL_BYTES (20 * 1024)

/*
 * To take a row over costs the leader a fifth or so of what it costs to read one:
 * beside so many workers it should do nothing else.
 */
#define ENOUGH_WORKERS 4

char	   *fasted_setting_ring = NULL;

/* The leader's reading, while its query runs; and whether its setting may change. */
static RowTaker *reading = NULL;
static bool setting_ring = false;

/* A worker's end of its leader's ring. */
static RingWriter worker;

/*
 * The number of that reading, here or in the leader of this worker; zero: there
 * is none.  A call site keeps the number for which its types were checked, and
 * may live longer than the reading.
 */
static uintptr_t ring_number = 0;
static uintptr_t last_ring_number = 0;

/* --- in the workers, and in the leader's share of the scan */

bool
CheckRingSetting(char **newval, void **extra, GucSource source)
{
	if (**newval == '\0' || setting_ring || InitializingParallelWorker)
		return true;
	GUC_check_errdetail("Only the extension itself sets it.");
	return false;
}

pg_noreturn static void
ReportNotReading(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("functions named fasted_internal_... are not to be called by hand"),
			 errhint("Call fasted_self_join.")));
}

static void
AttachWorker(void)
{
	dsm_handle	handle;
	dsm_segment *segment;

	if (!IsParallelWorker() || fasted_setting_ring == NULL || fasted_setting_ring[0] == '\0')
		ReportNotReading();
	handle = (dsm_handle) strtoul(fasted_setting_ring, NULL, 10);
	segment = dsm_attach(handle);
	if (segment == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("could not attach to the leader's shared memory")));
	dsm_pin_mapping(segment);	/* until the worker ends */
	worker.block = -1;
	worker.ring = dsm_segment_address(segment);
	ring_number = ++last_ring_number;
	pg_atomic_fetch_add_u32(&worker.ring->nworkers, 1);
}

/* In a query of somebody else's making there may be other data. */
static void
CheckTypes(FunctionCallInfo fcinfo, const RowRing *ring)
{
	Oid			key_type = getBaseType(get_fn_expr_argtype(fcinfo->flinfo, 0));
	Oid			vector_type = getBaseType(get_fn_expr_argtype(fcinfo->flinfo, 1));

	if (key_type != getBaseType(ring->key_type) ||
		vector_type != (ring->form == VECTOR_FLOAT4 ? FLOAT4ARRAYOID : FLOAT8ARRAYOID))
		ReportNotReading();
}

static bool
PutInWorker(Datum key, bool key_isnull, Datum vector)
{
	RowRing    *ring = worker.ring;
	ArrayType  *array;
	int			dimensions;
	int			element;
	uint32		key_bytes = 0;
	float	   *row;

	if (key_isnull)
		return false;
	array = DatumGetArrayTypeP(vector);
	if (VectorShape(array, &dimensions) != VECTOR_OK || (uint32) dimensions > FASTED_MAX_DIMENSIONS)
		return false;
	if (unlikely(worker.dimensions == 0))
	{
		worker.dimensions = RingAgreeOnDimensions(ring, dimensions);
		worker.layout = RingLayout(ring, worker.dimensions);
	}
	if ((uint32) dimensions != worker.dimensions)
		return false;
	if (!ring->key_byval)
	{
		if (ring->key_typlen == -1)
			key = PointerGetDatum(PG_DETOAST_DATUM(key));
		key_bytes = datumGetSize(key, false, ring->key_typlen);
	}

	row = RingRoom(&worker, key_bytes);
	if (row == NULL || VectorElements(array, ring->form, dimensions, row, &element) != VECTOR_OK)
		return false;
	RingTake(&worker, key, key_bytes);
	return true;
}

/*
 * A row that is not taken here comes back as a tuple, and on the way the executor
 * looks for tuples of the workers; it would not before the end of the leader's
 * share, if all rows were taken.
 */
static bool
PutInLeader(RowTaker *taker, Datum key, bool key_isnull, Datum vector)
{
	RowRing    *ring = taker->ring;

	if (pg_atomic_read_u32(&ring->nfull) > 0)
		TakeBlocks(taker, false);
	if (pg_atomic_read_u32(&ring->ncalls) != pg_atomic_read_u32(&ring->nanswered))
		return false;
	return !taker->stopped && TakeRow(taker, key, key_isnull, vector);
}

/* The first call at a call site: finds the ring, and that it is the right one. */
static void
FindRing(FunctionCallInfo fcinfo)
{
	if (ring_number == 0)
		AttachWorker();
	CheckTypes(fcinfo, reading != NULL ? reading->ring : worker.ring);
	fcinfo->flinfo->fn_extra = (void *) ring_number;
}

/*
 * fasted_internal_put(key "any", vector "any") returns boolean: false when the
 * row is taken, NULL when it is left to the leader.
 */
Datum
fasted_internal_put(PG_FUNCTION_ARGS)
{
	bool		taken;

	if (unlikely(ring_number == 0 || fcinfo->flinfo->fn_extra != (void *) ring_number))
		FindRing(fcinfo);

	if (PG_ARGISNULL(1))
		PG_RETURN_BOOL(false);	/* no vector: takes no part */
	if (reading != NULL)
		taken = PutInLeader(reading, PG_GETARG_DATUM(0), PG_ARGISNULL(0), PG_GETARG_DATUM(1));
	else
	{
		taken = PutInWorker(PG_GETARG_DATUM(0), PG_ARGISNULL(0), PG_GETARG_DATUM(1));
		if (!taken)
			pg_atomic_fetch_add_u32(&worker.ring->ncalls, 1);
	}
	if (!taken)
		PG_RETURN_NULL();
	PG_RETURN_BOOL(false);
}

/*
 * fasted_internal_call() returns bytea: makes the tuple of a row that the leader
 * must take large enough to wake it.
 */
Datum
fasted_internal_call(PG_FUNCTION_ARGS)
{
	bytea	   *call;

	if (ring_number == 0)
		ReportNotReading();
	if (reading != NULL)
		PG_RETURN_NULL();
	call = palloc0(CALL_BYTES);
	SET_VARSIZE(call, CALL_BYTES);
	PG_RETURN_BYTEA_P(call);
}

/* --- in the leader */

static void
SetRingSetting(dsm_handle handle)
{
	char		text[16];

	snprintf(text, sizeof(text), "%u", handle);
	setting_ring = true;
	PG_TRY();
	{
		set_config_option("fasted.ring", text, PGC_USERSET, PGC_S_SESSION,
						  GUC_ACTION_SAVE, true, ERROR, false);
	}
	PG_FINALLY();
	{
		setting_ring = false;
	}
	PG_END_TRY();
}

/* A join may run within the query of another one: then it ends first. */
static void
ExecuteWithRing(const ParallelPlan *plan, RowTaker *taker)
{
	SPIExecuteOptions options = {0};
	RowTaker   *outer = reading;
	uintptr_t	outer_number = ring_number;
	int			rc;

	options.read_only = true;	/* in the active snapshot */
	options.dest = &taker->base;
	reading = taker;
	ring_number = ++last_ring_number;
	PG_TRY();
	{
		rc = SPI_execute_plan_extended(plan->plan, &options);
	}
	PG_FINALLY();
	{
		reading = outer;
		ring_number = outer_number;
	}
	PG_END_TRY();
	if (rc < 0)
		elog(ERROR, "could not execute \"%s\": %s", plan->query, SPI_result_code_string(rc));
}

/* Also called when the session ends, before its transaction does. */
static void
WithdrawRing(int code, Datum arg)
{
	RowSink    *sink = ((RowTaker *) DatumGetPointer(arg))->sink;

	if (sink->withdraw != NULL)
		sink->withdraw(sink);
}

static void
ReadThroughRing(const ParallelPlan *plan, RowTaker *taker, dsm_segment *segment)
{
	RowRing    *ring = dsm_segment_address(segment);

	RingInitialize(ring, plan->nworkers, taker->source);
	SetRingSetting(dsm_segment_handle(segment));
	if (plan->nworkers >= ENOUGH_WORKERS)
		SetForThisQuery("parallel_leader_participation", "off");
	UseRing(taker, ring);
	if (taker->sink->lend != NULL)
		taker->sink->lend(taker->sink, ring, dsm_segment_map_length(segment));

	/* however it ends, nothing reads the memory any more when it goes */
	PG_ENSURE_ERROR_CLEANUP(WithdrawRing, PointerGetDatum(taker));
	{
		ExecuteWithRing(plan, taker);

		/* all workers have ended: what they left in blocks that did not get full */
		if (!taker->stopped)
			TakeBlocks(taker, true);
	}
	PG_END_ENSURE_ERROR_CLEANUP(WithdrawRing, PointerGetDatum(taker));
	WithdrawRing(0, PointerGetDatum(taker));
	taker->sink->read_by_workers(taker->sink, pg_atomic_read_u32(&ring->nworkers),
								 taker->ring_rows);
	taker->ring = NULL;
}

bool
ReadInParallel(RowTaker *taker, uint64 rows)
{
	int			nest_level = NewGUCNestLevel();
	ParallelPlan plan;
	dsm_segment *segment = NULL;

	if (PlanParallelRead(taker->source, rows, &plan))
		segment = dsm_create(RingSize(plan.nworkers), DSM_CREATE_NULL_IF_MAXSEGMENTS);
	if (segment != NULL)
	{
		ReadThroughRing(&plan, taker, segment);
		dsm_detach(segment);
	}
	AtEOXact_GUC(true, nest_level);
	return segment != NULL;
}
