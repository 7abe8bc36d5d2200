/*-------------------------------------------------------------------------
 *
 * remote_join.c
 *	  Asks the workers for their slices, and merges what they send.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "distribute/links.h"
#include "distribute/own_rows.h"
#include "distribute/remote_join.h"
#include "distribute/wire.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "session/compat.h"
#include "session/guc.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* With "auto": a smaller table is joined before workers have read it. */
#define LEAST_TABLE_BYTES (INT64CONST(32) << 20)

/*
 * What a session sets holds for its slices, too; what a server's own files say of that
 * server does not.  All in the units that pg_settings has.
 */
#define SETTINGS_QUERY \
	"SELECT name, setting FROM pg_catalog.pg_settings" \
	" WHERE (name OPERATOR(pg_catalog.~) '^fasted[.]' OR name OPERATOR(pg_catalog.=) 'work_mem')" \
	" AND context OPERATOR(pg_catalog.=) 'user' AND source OPERATOR(pg_catalog.<>) ALL ('{default,configuration file,command line}'::pg_catalog.text[])" \
	" ORDER BY name"

const char *const slice_output_names[4] = {"pairs", "count", "counts", "connections"};

typedef struct RemoteSlice
{
	bool		has_read;
	bool		done;
	SliceReport report;			/* the last one */
} RemoteSlice;

struct RemoteJoin
{
	const VectorSource *source;
	SliceOutput output;
	LinkSet    *links;
	uint32		rows;
	Fingerprint print;			/* of the rows that this session has read */
	uint32	   *counts;
	FastedPair *pairs;
	uint64		npairs;			/* that came */
	int			nslices;
	RemoteSlice slices[FLEXIBLE_ARRAY_MEMBER];
};

/* --- what is sent */

static void
AppendSettings(StringInfo commands)
{
	SPI_connect();
	if (SPI_execute(SETTINGS_QUERY, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "settings can't be read");
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		const char *name = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 1);
		const char *value = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 2);

		appendStringInfo(commands, "; SET LOCAL %s = %s", name, quote_literal_cstr(value));
	}
	SPI_finish();
}

/* A transaction, so that nothing stays in a session of a pooler's. */
static char *
Prologue(void)
{
	StringInfoData commands;

	initStringInfo(&commands);
	appendStringInfoString(&commands, "BEGIN");
	AppendSettings(&commands);
	/* while rows are read; a join looks by itself */
	if (WaitEventSetCanReportClosed())
		appendStringInfoString(&commands, "; SET LOCAL client_connection_check_interval = '100ms'");
	return commands.data;
}

static char *
DistanceText(double eps)
{
	return isinf(eps) ? pstrdup("Infinity") : psprintf("%.17g", eps);
}

static char *
SliceQuery(const VectorSource *source, FastedMetric metric, double eps, SliceOutput output,
		   int slice, int slices)
{
	return psprintf("SELECT fasted_citus.join_slice(%s, %s, %s, %s, %s, '%s', %s, '%s', %d, %d)",
					quote_literal_cstr(QualifiedName(source->relid)),
					quote_literal_cstr(source->vector_column),
					quote_literal_cstr(DistanceText(eps)),
					quote_literal_cstr(source->key_column),
					quote_literal_cstr(format_type_be_qualified(source->key_type)),
					metric == FASTED_METRIC_COSINE ? "cosine" : "l2",
					source->skip_zeros ? "true" : "false",
					slice_output_names[output], slice, slices);
}

/* --- whether it pays */

/* A transaction of its own asks, for Citus refuses in one that has changed several shards. */
static bool
IsLarge(const VectorSource *source, List *nodes)
{
	LinkSet    *links = Links()->open(list_make1(linitial(nodes)));
	char	   *query = psprintf("SELECT pg_catalog.citus_table_size(%s)",
								 quote_literal_cstr(QualifiedName(source->relid)));
	char	   *bytes = Links()->ask(links, 0, query);
	bool		large = bytes != NULL && strtoll(bytes, NULL, 10) >= LEAST_TABLE_BYTES;

	Links()->close(links);
	return large;
}

/* --- begin */

static RemoteJoin *
CreateRemote(const VectorSource *source, SliceOutput output, List *nodes)
{
	RemoteJoin *remote = palloc0(offsetof(RemoteJoin, slices) +
								 list_length(nodes) * sizeof(RemoteSlice));

	remote->source = source;
	remote->output = output;
	remote->nslices = list_length(nodes);
	remote->links = Links()->open(nodes);
	return remote;
}

/* Workers begin to read at once, and then this session does. */
static void
AskForSlices(RemoteJoin *remote, FastedMetric metric, double eps)
{
	Links()->command(remote->links, Prologue());
	for (int i = 0; i < remote->nslices; i++)
		Links()->send(remote->links, i, SliceQuery(remote->source, metric, eps, remote->output,
											  i, remote->nslices));
}

RemoteJoin *
RemoteJoinBegin(const VectorSource *source, FastedMetric metric, double eps, SliceOutput output,
				KeySet *keys)
{
	const char *reason;
	List	   *nodes = FindWorkers(source, &reason);
	RemoteJoin *remote;

	if (nodes != NIL && fasted_setting_distribute == DISTRIBUTE_AUTO && !IsLarge(source, nodes))
	{
		nodes = NIL;
		reason = "the table is small";
	}
	if (nodes == NIL)
	{
		if (reason != NULL)
			ereport(DEBUG1, (errmsg_internal("fasted: no work for Citus workers: %s", reason)));
		return NULL;
	}
	remote = CreateRemote(source, output, nodes);
	AskForSlices(remote, metric, eps);
	remote->print = ReadOwnRows(source, keys);
	KeySetFinish(keys);
	remote->rows = keys->count;
	if (output == SLICE_COUNTS)
		remote->counts = MemoryContextAllocExtended(CurrentMemoryContext,
													Max(1, (Size) remote->rows) * sizeof(uint32),
													MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	remote->pairs = palloc(MESSAGE_MOST_PAIRS * sizeof(FastedPair));
	return remote;
}

/* --- is it of the same rows, and whole? */

static void
CheckRows(const RemoteJoin *remote, int n)
{
	const Fingerprint *theirs = &remote->slices[n].report.rows;

	if (SameFingerprint(theirs, &remote->print))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not join \"%s\" on the Citus workers due to concurrent writes",
					remote->source->relation),
			 errdetail("Worker %s has read other rows (" UINT64_FORMAT ") than this session ("
					   UINT64_FORMAT "), or in another order.",
					   Links()->name(remote->links, n), theirs->rows, remote->print.rows),
			 errhint("Try again, or use \"SET fasted.distribute = off\" to join in this session alone.")));
}

/* Slices are complements of each other only if all are cut in the same way. */
static void
CheckCuts(const RemoteJoin *remote)
{
	const char *first = remote->slices[0].report.cut;

	for (int n = 1; n < remote->nslices; n++)
	{
		const char *cut = remote->slices[n].report.cut;

		if (remote->rows < 2 || strcmp(first, cut) == 0)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the Citus workers do not divide a join alike"),
				 errdetail("Worker %s: %s. Worker %s: %s.", Links()->name(remote->links, 0), first,
						   Links()->name(remote->links, n), cut),
				 errhint("Use \"SET fasted.engine = cpu\" and set fasted.memory_limit, or use \"SET fasted.distribute = off\".")));
	}
}

/* --- what comes */

pg_noreturn static void
ReportNonsense(const RemoteJoin *remote, int n)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("Citus worker %s sent what is no part of a join", Links()->name(remote->links, n))));
}

static void
CheckPairs(const RemoteJoin *remote, int n, size_t npairs)
{
	for (size_t i = 0; i < npairs; i++)
		if (remote->pairs[i].a >= remote->pairs[i].b || remote->pairs[i].b >= remote->rows)
			ReportNonsense(remote, n);
}

static void
AddCounts(RemoteJoin *remote, int n, StringInfo message)
{
	uint32	   *counts = palloc(MESSAGE_MOST_COUNTS * sizeof(uint32));
	uint32		first;
	size_t		nrows = TakeCounts(message, &first, counts);

	if (remote->counts == NULL || first > remote->rows || nrows > remote->rows - first)
		ReportNonsense(remote, n);
	for (size_t i = 0; i < nrows; i++)
		remote->counts[first + i] += counts[i];
	pfree(counts);
}

/* Takes a message; the number of pairs that came with it. */
static size_t
TakeMessage(RemoteJoin *remote, int n, StringInfo message)
{
	RemoteSlice *slice = &remote->slices[n];
	char		tag = MessageTag(message);
	size_t		npairs;

	if (slice->done || slice->has_read == (tag == MESSAGE_ROWS))
		ReportNonsense(remote, n);
	switch (tag)
	{
		case MESSAGE_ROWS:
		case MESSAGE_DONE:
			TakeReport(message, &slice->report);
			CheckRows(remote, n);
			slice->has_read = true;
			slice->done = tag == MESSAGE_DONE;
			return 0;
		case MESSAGE_PAIRS:
			if (remote->output == SLICE_COUNT || remote->output == SLICE_COUNTS)
				ReportNonsense(remote, n);
			npairs = TakePairs(message, remote->pairs);
			CheckPairs(remote, n, npairs);
			return npairs;
		case MESSAGE_COUNTS:
			AddCounts(remote, n, message);
			return 0;
		default:
			ReportNonsense(remote, n);
	}
}

static void
CheckAll(const RemoteJoin *remote)
{
	for (int n = 0; n < remote->nslices; n++)
		if (!remote->slices[n].done)
			ReportNonsense(remote, n);
	CheckCuts(remote);
}

bool
RemoteJoinNext(RemoteJoin *remote, const FastedPair **pairs, size_t *npairs)
{
	StringInfoData message = {0};
	int			n;

	while (Links()->next(remote->links, &n, &message.data, &message.len))
	{
		message.cursor = 0;
		*npairs = TakeMessage(remote, n, &message);
		*pairs = remote->pairs;
		remote->npairs += *npairs;
		if (*npairs > 0)
			return true;
	}
	CheckAll(remote);
	return false;
}

/* --- what there is to tell */

uint64
RemoteJoinPairs(const RemoteJoin *remote)
{
	uint64		npairs = 0;

	for (int n = 0; n < remote->nslices; n++)
		npairs += remote->slices[n].report.stats.pairs;
	return Max(npairs, remote->npairs);
}

const uint32 *
RemoteJoinCounts(const RemoteJoin *remote)
{
	return remote->counts;
}

/* Times are sums over threads, as they are of one server. */
static void
AddStatistics(FastedStats *sum, const FastedStats *one)
{
	if (sum->engine[0] == '\0')
	{
		*sum = *one;
		return;
	}
	sum->threads += one->threads;
	sum->units_total += one->units_total;
	sum->candidates += one->candidates;
	sum->pairs += one->pairs;
	sum->sampled_candidates += one->sampled_candidates;
	sum->sampled_pairs += one->sampled_pairs;
	for (int level = 0; level < FASTED_PRUNE_LEVELS; level++)
		sum->pruned_tiles[level] += one->pruned_tiles[level];
	sum->full_tiles += one->full_tiles;
	sum->panels = Max(sum->panels, one->panels);
	sum->host_bytes += one->host_bytes;
	sum->device_bytes += one->device_bytes;
	sum->prepare_seconds = Max(sum->prepare_seconds, one->prepare_seconds);
	sum->filter_seconds += one->filter_seconds;
	sum->refine_seconds += one->refine_seconds;
	sum->device_seconds = Max(sum->device_seconds, one->device_seconds);
}

FastedStats
RemoteJoinStatistics(const RemoteJoin *remote)
{
	FastedStats sum = {0};

	for (int n = 0; n < remote->nslices; n++)
		if (remote->slices[n].report.stats.engine[0] != '\0')
			AddStatistics(&sum, &remote->slices[n].report.stats);
	return sum;
}

List *
RemoteJoinShares(const RemoteJoin *remote)
{
	List	   *shares = NIL;

	for (int n = 0; n < remote->nslices; n++)
	{
		WorkerShare *share = palloc(sizeof(WorkerShare));

		share->name = pstrdup(Links()->name(remote->links, n));
		share->read_seconds = remote->slices[n].report.read_seconds;
		share->stats = remote->slices[n].report.stats;
		shares = lappend(shares, share);
	}
	return shares;
}

List *
CopyShares(List *shares)
{
	List	   *copies = NIL;
	ListCell   *cell;

	foreach(cell, shares)
	{
		WorkerShare *copy = palloc(sizeof(WorkerShare));

		*copy = *(WorkerShare *) lfirst(cell);
		copy->name = pstrdup(copy->name);
		copies = lappend(copies, copy);
	}
	return copies;
}
