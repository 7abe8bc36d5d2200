/*-------------------------------------------------------------------------
 *
 * remote_join.c
 *	  Asks the workers for their slices, and merges what they send.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/row_numbers.h"
#include "citus/base_table.h"
#include "citus/links.h"
#include "citus/own_rows.h"
#include "citus/slice_query.h"
#include "citus/wire.h"
#include "join/remote_join.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/*
 * With "auto": smaller tables are joined before workers have read them.  Of two tables, if
 * there are no more pairs of rows.
 */
#define LEAST_TABLE_BYTES (INT64CONST(32) << 20)

const char *const slice_output_names[4] = {"pairs", "count", "counts", "connections"};

typedef struct RemoteSlice
{
	bool		has_read;
	bool		done;
	SliceReport report;			/* the last one */

	/* SLICE_NEAREST: */
	FastedPair	last;			/* of the pairs that came */
	uint32		rank;			/* of it; zero: none came */
} RemoteSlice;

struct RemoteJoin
{
	RemoteProblem problem;
	int			sides;
	LinkSet    *links;
	uint32		rows[2];
	uint32	   *ranks;			/* of side 0, if its source has an order */
	Fingerprint prints[2];		/* of the rows that this session has read */
	uint32	   *counts;
	FastedPair *pairs;
	uint64		npairs;			/* that came */
	uint32		first_rank;		/* of the last ones */
	int			nslices;
	RemoteSlice slices[FLEXIBLE_ARRAY_MEMBER];
};

/* --- whether it pays */

static double
TableBytes(LinkSet *links, const VectorSource *source)
{
	char	   *query = psprintf("SELECT pg_catalog.citus_table_size(%s)",
								 quote_literal_cstr(QualifiedName(BaseTable(source->relid))));
	char	   *bytes = Links()->ask(links, 0, query);

	return bytes != NULL ? strtod(bytes, NULL) : 0.0;
}

/* A transaction of its own asks, for Citus refuses in one that has changed several shards. */
static bool
IsLarge(const RemoteProblem *problem, List *nodes)
{
	LinkSet    *links = Links()->open(list_make1(linitial(nodes)));
	double		a = TableBytes(links, problem->sources[0]);
	double		b = problem->sources[1] != NULL ? TableBytes(links, problem->sources[1]) : a;

	Links()->close(links);
	return a * b >= (double) LEAST_TABLE_BYTES * LEAST_TABLE_BYTES;
}

/* NIL: it is not divided. */
static List *
ChooseWorkers(const RemoteProblem *problem)
{
	const char *reason;
	List	   *nodes = FindWorkers(problem->sources[0], &reason);

	if (nodes != NIL && problem->sources[1] != NULL)
		nodes = FindWorkers(problem->sources[1], &reason);
	if (nodes != NIL && fasted_setting_distribute == DISTRIBUTE_AUTO && !IsLarge(problem, nodes))
	{
		nodes = NIL;
		reason = "the table is small";
	}
	if (nodes == NIL && reason != NULL)
		ereport(DEBUG1, (errmsg_internal("fasted: no work for Citus workers: %s", reason)));
	return nodes;
}

/* --- begin */

static RemoteJoin *
CreateRemote(const RemoteProblem *problem, List *nodes)
{
	RemoteJoin *remote = palloc0(offsetof(RemoteJoin, slices) +
								 list_length(nodes) * sizeof(RemoteSlice));

	remote->problem = *problem;
	remote->sides = problem->sources[1] != NULL ? 2 : 1;
	remote->nslices = list_length(nodes);
	remote->links = Links()->open(nodes);
	return remote;
}

static bool
AreAlike(const RemoteJoin *remote)
{
	char	   *first = NULL;

	for (int n = 0; n < remote->nslices; n++)
	{
		char	   *kernel = Links()->ask(remote->links, n, "SELECT fasted_citus.kernel()");

		if (kernel == NULL || (first != NULL && strcmp(kernel, first) != 0))
			return false;
		first = kernel;
	}
	return true;
}

/* Workers begin to read at once, and then this session does. */
static void
AskForSlices(RemoteJoin *remote)
{
	Links()->command(remote->links, SlicePrologue());
	/* shares of rows need not be cut alike */
	remote->problem.alike = remote->problem.output != SLICE_NEAREST && AreAlike(remote);
	for (int i = 0; i < remote->nslices; i++)
		Links()->send(remote->links, i, SliceQuery(&remote->problem, i, remote->nslices));
}

static void
ReadKeys(RemoteJoin *remote, int side, KeySet *keys)
{
	uint32	   *ranks;

	remote->prints[side] = ReadOwnRows(remote->problem.sources[side], keys, &ranks);
	KeySetFinish(keys);
	remote->rows[side] = keys->count;
	if (side == 0)
		remote->ranks = ranks;
}

RemoteJoin *
RemoteJoinBegin(const RemoteProblem *problem, KeySet *const *keys)
{
	List	   *nodes = ChooseWorkers(problem);
	RemoteJoin *remote;

	if (nodes == NIL)
		return NULL;
	remote = CreateRemote(problem, nodes);
	AskForSlices(remote);
	for (int side = 0; side < remote->sides; side++)
		ReadKeys(remote, side, keys[side]);
	if (problem->output == SLICE_COUNTS)
		remote->counts = SameRowNumbers(remote->rows[0], 0);
	remote->pairs = palloc(MESSAGE_MOST_PAIRS * sizeof(FastedPair));
	return remote;
}

/* --- is it of the same rows, and whole? */

static void
CheckSide(const RemoteJoin *remote, int n, int side)
{
	const Fingerprint *theirs = &remote->slices[n].report.rows[side];
	const Fingerprint *own = &remote->prints[side];

	if (SameFingerprint(theirs, own))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not join \"%s\" on the Citus workers due to concurrent writes",
					remote->problem.sources[side]->relation),
			 errdetail("Worker %s has read other rows (" UINT64_FORMAT ") than this session ("
					   UINT64_FORMAT "), or in another order.",
					   Links()->name(remote->links, n), theirs->rows, own->rows),
			 errhint("Try again, or use \"SET fasted.distribute = off\" to join in this session alone.")));
}

static void
CheckRows(const RemoteJoin *remote, int n)
{
	for (int side = 0; side < remote->sides; side++)
		CheckSide(remote, n, side);
}

/* Slices are complements of each other only if all are cut in the same way. */
static void
CheckCuts(const RemoteJoin *remote)
{
	const char *first = remote->slices[0].report.cut;

	for (int n = 1; n < remote->nslices; n++)
	{
		const char *cut = remote->slices[n].report.cut;

		if (remote->rows[0] < 2 || strcmp(first, cut) == 0)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the Citus workers do not divide a join alike"),
				 errdetail("Worker %s: %s. Worker %s: %s.", Links()->name(remote->links, 0), first,
						   Links()->name(remote->links, n), cut),
				 errhint("Use \"SET fasted.engine = cpu\", \"SET fasted.prune = off\", and set fasted.memory_limit; or use \"SET fasted.distribute = off\".")));
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
		if (remote->pairs[i].a >= remote->pairs[i].b || remote->pairs[i].b >= remote->rows[0])
			ReportNonsense(remote, n);
}

/* Is it the next one of its row, or, if not, the first one of a later row? */
static bool
FollowsInList(const RemoteSlice *slice, const FastedPair *pair)
{
	const FastedPair *last = &slice->last;

	if (slice->rank == 0 || pair->a != last->a)
		return slice->rank == 0 || pair->a > last->a;
	return pair->dist > last->dist || (pair->dist == last->dist && pair->b > last->b);
}

static bool
CouldBeNeighbor(const RemoteJoin *remote, int n, const FastedPair *pair)
{
	return pair->a < remote->rows[0] && pair->b < remote->rows[remote->sides - 1] &&
		(remote->sides == 2 || pair->a != pair->b) &&
		pair->dist <= remote->problem.eps && IsInShare(pair->a, n, remote->nslices);
}

static void
RankNeighbors(RemoteJoin *remote, int n, size_t npairs)
{
	RemoteSlice *slice = &remote->slices[n];

	for (size_t i = 0; i < npairs; i++)
	{
		const FastedPair *pair = &remote->pairs[i];

		if (!CouldBeNeighbor(remote, n, pair) || !FollowsInList(slice, pair))
			ReportNonsense(remote, n);
		slice->rank = slice->rank > 0 && slice->last.a == pair->a ? slice->rank + 1 : 1;
		if (slice->rank > remote->problem.k)
			ReportNonsense(remote, n);
		if (i == 0)
			remote->first_rank = slice->rank;
		slice->last = *pair;
	}
}

static size_t
AddPairs(RemoteJoin *remote, int n, StringInfo message)
{
	SliceOutput output = remote->problem.output;
	size_t		npairs;

	if (output == SLICE_COUNT || output == SLICE_COUNTS)
		ReportNonsense(remote, n);
	npairs = TakePairs(message, remote->pairs);
	if (output == SLICE_NEAREST)
		RankNeighbors(remote, n, npairs);
	else
		CheckPairs(remote, n, npairs);
	return npairs;
}

static void
AddCounts(RemoteJoin *remote, int n, StringInfo message)
{
	uint32	   *counts = palloc(MESSAGE_MOST_COUNTS * sizeof(uint32));
	uint32		first;
	size_t		nrows = TakeCounts(message, &first, counts);

	if (remote->counts == NULL || first > remote->rows[0] || nrows > remote->rows[0] - first)
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
			return AddPairs(remote, n, message);
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
RemoteJoinOrder(const RemoteJoin *remote)
{
	return remote->ranks;
}

uint32
RemoteJoinRank(const RemoteJoin *remote)
{
	return remote->first_rank;
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
	sum.rows = (uint64) remote->rows[0] + remote->rows[1];
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
