/*-------------------------------------------------------------------------
 *
 * remote_join.c
 *	  The coordinator of a divided join: sends queries to the workers, reads the rows' keys
 *	  itself, and merges the workers' results.
 *
 * Each worker reads all rows in key order, joins one slice of the tiles and sends row numbers.
 * This session reads the keys and hashes of the same rows.  The join succeeds only if all workers
 * have read the same rows as this session.
 *
 * For nearest neighbors, a slice is a subset of the rows of a.  Each worker reads all rows of both
 * relations and finds the neighbors of its subset.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fasted_citus.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/*
 * With fasted_citus.distribute = auto, smaller tables are joined in this session, which takes less time
 * than workers need to read them.  Two tables are compared by the product of their sizes.
 */
#define MIN_TABLE_BYTES (INT64CONST(32) << 20)

/* Rows between two checks for interrupts. */
#define ROWS_PER_CHECK 1024

const char *const slice_output_names[] = {
	[FASTED_OUTPUT_PAIRS] = "pairs",
	[FASTED_OUTPUT_COUNT] = "count",
	[FASTED_OUTPUT_COUNTS] = "counts",
	[FASTED_OUTPUT_CONNECTIONS] = "connections"
};

/* The state of a worker's slice. */
typedef struct RemoteSlice
{
	bool		has_read;		/* MESSAGE_ROWS was received */
	bool		done;			/* MESSAGE_DONE was received */
	SliceReport report;			/* last report received */

	/* FASTED_OUTPUT_NEAREST: */
	FastedPair	last;			/* last pair received */
	uint32		rank;			/* its rank; zero if no pair was received */

	uint32		counted;		/* FASTED_OUTPUT_COUNTS: number of rows whose counts were received */
} RemoteSlice;

typedef struct RemoteJoin
{
	JoinRequest request;		/* with the output of the slices */
	int			sides;
	ConnectionSet *connections;
	uint32		rows[2];		/* number of rows by side */
	Fingerprint fingerprints[2]; /* fingerprints of the rows that this session has read */
	uint32	   *counts;			/* FASTED_OUTPUT_COUNTS: number of pairs by row */
	void	   *elements;		/* pairs or counts of the last message */
	FastedNeighbor *neighbors;	/* FASTED_OUTPUT_NEAREST: a list of these */
	uint64		npairs;			/* pairs received in total */
	uint32		first_rank;		/* FASTED_OUTPUT_NEAREST: rank of the last message's first pair */
	int			nslices;
	RemoteSlice slices[FLEXIBLE_ARRAY_MEMBER];
} RemoteJoin;

/* --- whether to divide a join */

/* Returns the table's qualified name, quoted as an SQL identifier. */
static char *
QualifiedName(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* Requests the size of the source's distributed table from the first node.  Returns it in bytes. */
static double
TableBytes(ConnectionSet *connections, const VectorSource *source)
{
	char	   *query = psprintf("SELECT pg_catalog.citus_table_size(%s)",
								 quote_literal_cstr(QualifiedName(BaseTable(source->relid))));
	char	   *bytes = LinksCommand(connections, query)[0];

	return bytes != NULL ? strtod(bytes, NULL) : 0.0;
}

/*
 * Returns true if the tables are large enough for workers.  Uses a separate connection, because
 * citus_table_size fails in a transaction that has modified several shards.
 */
static bool
IsLarge(const VectorSource *const *sources, List *nodes)
{
	ConnectionSet *connections = LinksOpen(list_make1(linitial(nodes)));
	double		a = TableBytes(connections, sources[0]);
	double		b = sources[1] != NULL ? TableBytes(connections, sources[1]) : a;

	LinksClose(connections);
	return a * b >= (double) MIN_TABLE_BYTES * MIN_TABLE_BYTES;
}

/* Returns the nodes to divide the join over; NIL if it is not to be divided. */
static List *
ChooseWorkers(const JoinRequest *request)
{
	List	   *nodes = NIL;

	/* workers search for k + 1 neighbors, including the row itself */
	if (request->problem.k >= FASTED_MAX_NEIGHBORS)
		return NIL;
	for (int side = 0; side < 2 && request->sources[side] != NULL; side++)
	{
		nodes = FindWorkers(request->sources[side]);
		if (nodes == NIL)
			return NIL;
	}
	if (setting_distribute != CHOICE_AUTO || IsLarge(request->sources, nodes))
		return nodes;
	ereport(DEBUG1, (errmsg_internal("fasted: join is not divided over Citus workers: the table is small")));
	return NIL;
}

/* --- queries of slices */

/* Returns the SQL arguments "relation, vector_column, id_column". */
static char *
SourceText(const VectorSource *source)
{
	return psprintf("%s, %s, %s", quote_literal_cstr(QualifiedName(source->relid)),
					quote_literal_cstr(source->vector_column),
					quote_literal_cstr(source->key_column));
}

/* Returns the query for a slice; its result rows are messages (fasted_citus.h). */
static char *
SliceQuery(const JoinRequest *request, int slice, int slices)
{
	const FastedProblem *problem = &request->problem;
	const VectorSource *a = request->sources[0];
	const VectorSource *b = request->sources[1] != NULL ? request->sources[1] : a;
	const char *key_type = quote_literal_cstr(format_type_be_qualified(a->key_type));
	const char *metric = core->MetricName(a->metric);
	const char *eps = psprintf("%.17g", problem->eps);

	if (problem->output == FASTED_OUTPUT_NEAREST)
		return psprintf("SELECT fasted_citus.nearest_slice(%s, %s, %s, %u, '%s', '%s', %d, %d)",
						SourceText(a), SourceText(b), key_type, problem->k, eps, metric, slice, slices);
	return psprintf("SELECT fasted_citus.join_slice(%s, %s, '%s', %s, %s, '%s', %s, '%s', %d, %d, %s)",
					quote_literal_cstr(QualifiedName(a->relid)),
					quote_literal_cstr(a->vector_column), eps, quote_literal_cstr(a->key_column),
					key_type, metric, a->skip_zeros ? "true" : "false",
					slice_output_names[problem->output], slice, slices,
					problem->identical_kernels ? "true" : "false");
}

/* --- the rows that this session reads itself */

typedef struct OwnRows
{
	const VectorSource *source;
	KeySet	   *keys;
	MemoryContext row_context;	/* reset for each row */
	Fingerprint *fingerprint;	/* fingerprint of the rows; zero before them */

	/* For a source with an order: hashes of the vectors, in that order; otherwise NULL. */
	uint64	   *hashes;
	uint32		capacity;		/* of hashes */
} OwnRows;

static void
AddToFingerprint(OwnRows *rows, Datum key, uint64 vector_hash)
{
	FingerprintAdd(rows->fingerprint, key, rows->keys->typlen, rows->keys->typbyval, vector_hash);
}

/*
 * A TupleCallback: adds a row (key, hash of the vector) to the keys and the fingerprint.  A null
 * key is only counted, since the workers raise the error for it.
 */
static bool
TakeOwnRow(void *arg, TupleTableSlot *slot)
{
	OwnRows    *rows = arg;
	uint32		count = rows->keys->count;
	MemoryContext old;
	uint64		vector_hash;

	if (count % ROWS_PER_CHECK == 0)
		core->CheckJoinInterrupts();
	slot_getallattrs(slot);
	vector_hash = (uint64) DatumGetInt64(slot->tts_values[1]);
	if (slot->tts_isnull[1] || (rows->source->skip_zeros && vector_hash == 0))
		return true;
	if (slot->tts_isnull[0])
	{
		rows->fingerprint->rows++;
		return true;
	}
	if (count >= FASTED_MAX_ROWS)
		core->ReportManyRows(rows->source);
	if (rows->hashes != NULL && count == rows->capacity)
	{
		rows->capacity = Min((uint64) rows->capacity * 2, FASTED_MAX_ROWS);
		rows->hashes = repalloc_huge(rows->hashes, (Size) rows->capacity * sizeof(uint64));
	}
	MemoryContextReset(rows->row_context);
	old = MemoryContextSwitchTo(rows->row_context);
	if (rows->hashes != NULL)
		rows->hashes[count] = vector_hash;
	else
		AddToFingerprint(rows, slot->tts_values[0], vector_hash);
	core->KeySetAdd(rows->keys, slot->tts_values, 1);
	MemoryContextSwitchTo(old);
	return true;
}

/*
 * Adds the keys of the source's rows to keys, in the order of keys, and the rows in the current
 * snapshot to the fingerprint.  Reads hashes of the vectors, which are computed where the rows
 * are stored.  If the source has an order, returns each row's position in that order, in the keys'
 * memory context; otherwise NULL.
 */
static uint32 *
ReadOwnRows(const VectorSource *source, KeySet *keys, Fingerprint *fingerprint)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted own rows",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	OwnRows		rows = {.source = source,.keys = keys,.fingerprint = fingerprint};
	VectorSource in_order = *source;
	Query	   *query;
	uint32	   *ranks = NULL;

	in_order.key_order = source->order_column == NULL;
	rows.row_context = AllocSetContextCreate(context, "fasted own row", ALLOCSET_DEFAULT_SIZES);
	if (source->order_column != NULL)
	{
		rows.capacity = 1024;
		rows.hashes = palloc(rows.capacity * sizeof(uint64));
	}
	query = core->MakeSourceQuery(&in_order, VectorHashFunction(source->form));
	core->RunPlan(source, core->PlanQuery(source, query, 0), TakeOwnRow, &rows);
	if (rows.hashes != NULL)
		ranks = core->KeySetSort(keys);
	for (uint32 row = 0; ranks != NULL && row < keys->count; row++)
	{
		if (row % ROWS_PER_CHECK == 0)
			core->CheckJoinInterrupts();
		AddToFingerprint(&rows, keys->values[row], rows.hashes[ranks[row]]);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return ranks;
}

/* --- begin */

/* Returns true if all workers have the same CPU kernel and the same settings for it. */
static bool
HaveSameKernel(const RemoteJoin *remote)
{
	char	  **kernels = LinksCommand(remote->connections, "SELECT fasted_citus.kernel()");

	for (int n = 0; n < remote->nslices; n++)
		if (kernels[n] == NULL || strcmp(kernels[n], kernels[0]) != 0)
			return false;
	return true;
}

/* --- checks of the workers' messages */

/* Raises an error unless worker n has read the same rows as this session. */
static void
CheckRows(const RemoteJoin *remote, int n)
{
	for (int side = 0; side < remote->sides; side++)
	{
		const Fingerprint *theirs = &remote->slices[n].report.rows[side];
		const Fingerprint *own = &remote->fingerprints[side];

		if (theirs->rows != own->rows || theirs->hash != own->hash)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not join \"%s\" on the Citus workers due to concurrent writes",
							remote->request.sources[side]->relation),
					 errdetail("Worker \"%s\" read " UINT64_FORMAT " rows, and this session read "
							   UINT64_FORMAT " rows; their contents or their order differ.",
							   LinksName(remote->connections, n), theirs->rows, own->rows),
					 errhint("Try again, or use \"SET fasted_citus.distribute = off\" to join in this session alone.")));
	}
}

/* Raises an error unless all workers have divided the join into the same slices. */
static void
CheckCuts(const RemoteJoin *remote)
{
	const char *first = remote->slices[0].report.cut;

	for (int n = 1; n < remote->nslices; n++)
		if (remote->rows[0] >= 2 && strcmp(first, remote->slices[n].report.cut) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the Citus workers divide the join into different slices"),
					 errdetail("Worker \"%s\": %s. Worker \"%s\": %s.",
							   LinksName(remote->connections, 0), first,
							   LinksName(remote->connections, n), remote->slices[n].report.cut),
					 errhint("Use \"SET fasted_citus.distribute = off\". Alternatively, use \"SET fasted.engine = cpu\" and \"SET fasted.prune = off\", and set fasted.memory_limit in this session.")));
}

/* --- processing messages */

/* Checks the pairs of a message of a self-join within eps. */
static void
CheckPairs(const RemoteJoin *remote, int n, size_t npairs)
{
	const FastedPair *pairs = remote->elements;

	for (size_t i = 0; i < npairs; i++)
		if (pairs[i].a >= pairs[i].b || pairs[i].b >= remote->rows[0])
			LinksReportInvalid(remote->connections, n);
}

/* Checks the neighbors of a message, which must be sorted by a, then by distance and b; ranks them. */
static void
RankNeighbors(RemoteJoin *remote, int n, size_t npairs)
{
	RemoteSlice *slice = &remote->slices[n];
	const FastedProblem *problem = &remote->request.problem;

	for (size_t i = 0; i < npairs; i++)
	{
		const FastedPair *pair = (const FastedPair *) remote->elements + i;
		const FastedPair *last = &slice->last;
		bool		same_row = slice->rank > 0 && pair->a == last->a;
		bool		follows = same_row ?
			pair->dist > last->dist || (pair->dist == last->dist && pair->b > last->b) :
			slice->rank == 0 || pair->a > last->a;

		slice->rank = same_row ? slice->rank + 1 : 1;
		if (!follows || slice->rank > problem->k || !(pair->dist <= problem->eps) ||
			pair->a >= remote->rows[0] || pair->b >= remote->rows[remote->sides - 1] ||
			(remote->sides == 1 && pair->a == pair->b) || !IsInShare(pair->a, n, remote->nslices))
			LinksReportInvalid(remote->connections, n);
		if (i == 0)
			remote->first_rank = slice->rank;
		slice->last = *pair;
	}
}

/*
 * Copies the elements of a message after its tag, and returns their number.  Error: there are more
 * than MESSAGE_MAX_BYTES.
 */
static size_t
TakeElements(RemoteJoin *remote, int n, StringInfo message, size_t element_bytes)
{
	size_t		left = message->len - message->cursor;

	if (left % element_bytes != 0 || left > MESSAGE_MAX_BYTES)
		LinksReportInvalid(remote->connections, n);
	memcpy(remote->elements, message->data + message->cursor, left);
	return left / element_bytes;
}

/* Adds the counts of a message to those of the next rows. */
static void
AddCounts(RemoteJoin *remote, int n, StringInfo message)
{
	RemoteSlice *slice = &remote->slices[n];
	size_t		nrows = TakeElements(remote, n, message, sizeof(uint32));
	const uint32 *counts = (const uint32 *) remote->elements;

	if (remote->counts == NULL || nrows > remote->rows[0] - slice->counted)
		LinksReportInvalid(remote->connections, n);
	for (size_t i = 0; i < nrows; i++)
		remote->counts[slice->counted++] += counts[i];
}

/* Takes a report and checks its rows.  The padding after it is ignored (see MakeMessage). */
static void
TakeReport(RemoteJoin *remote, int n, StringInfo message)
{
	SliceReport *report = &remote->slices[n].report;
	Size		bytes = Min(sizeof(*report), (Size) (message->len - message->cursor));

	memset(report, 0, sizeof(*report));
	memcpy(report, message->data + message->cursor, bytes);
	if (report->version != WIRE_VERSION || bytes < sizeof(*report))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("Citus worker \"%s\" has a different version of the extension",
						LinksName(remote->connections, n)),
				 errhint("Install the same version of fasted on all nodes, or use \"SET fasted_citus.distribute = off\".")));
	if (report->stats.threads < 0 || report->stats.threads > PG_UINT16_MAX ||
		*(uint8 *) &report->stats.filter_sampled > 1)
		LinksReportInvalid(remote->connections, n);
	report->cut[sizeof(report->cut) - 1] = '\0';
	report->stats.engine[sizeof(report->stats.engine) - 1] = '\0';
	report->stats.device[sizeof(report->stats.device) - 1] = '\0';
	report->stats.kernel[sizeof(report->stats.kernel) - 1] = '\0';
	report->stats.filter[sizeof(report->stats.filter) - 1] = '\0';
	CheckRows(remote, n);
}

/* Processes a message of slice n; returns the number of pairs that it holds. */
static size_t
TakeMessage(RemoteJoin *remote, int n, StringInfo message)
{
	RemoteSlice *slice = &remote->slices[n];
	char		tag = message->len > 0 ? message->data[message->cursor++] : '\0';
	size_t		npairs = 0;

	if (slice->done || slice->has_read == (tag == MESSAGE_ROWS))
		LinksReportInvalid(remote->connections, n);
	switch (tag)
	{
		case MESSAGE_ROWS:
		case MESSAGE_DONE:
			TakeReport(remote, n, message);
			slice->has_read = true;
			slice->done = tag == MESSAGE_DONE;
			break;
		case MESSAGE_PAIRS:
			npairs = TakeElements(remote, n, message, sizeof(FastedPair));
			if (remote->request.problem.output == FASTED_OUTPUT_NEAREST)
				RankNeighbors(remote, n, npairs);
			else
				CheckPairs(remote, n, npairs);
			break;
		case MESSAGE_COUNTS:
			AddCounts(remote, n, message);
			break;
		default:
			LinksReportInvalid(remote->connections, n);
	}
	return npairs;
}

/*
 * JoinBackend.next: returns the pairs of the next message.  Verifies at the end that all workers have
 * read the same rows as this session.  A mismatch raises a serialization failure here or earlier.
 */
static FastedStatus
Next(VectorJoin *join, FastedBatch *batch)
{
	RemoteJoin *remote = join->distributed;
	StringInfoData message = {0};
	int			n;

	while (LinksNext(remote->connections, &n, &message.data, &message.len))
	{
		message.cursor = 0;
		batch->npairs = TakeMessage(remote, n, &message);
		batch->pairs = remote->elements;
		remote->npairs += batch->npairs;
		if (batch->npairs > 0)
			return FASTED_OK;
	}
	for (n = 0; n < remote->nslices; n++)
		if (!remote->slices[n].done)
			LinksReportInvalid(remote->connections, n);
	CheckCuts(remote);
	join->counts = remote->counts;
	return FASTED_DONE;
}

/* JoinBackend.next_list: returns the pairs of a message that have the same row of a. */
static bool
NextList(VectorJoin *join)
{
	RemoteJoin *remote = join->distributed;
	FastedBatch *batch = &join->batch;
	const uint32 *ranks = join->keys[1]->rank;
	NeighborList *list = &join->list;
	const FastedPair *pair = batch->pairs;

	if (batch->npairs == 0)
		return false;
	*list = (NeighborList) {.row = pair->a,.first_rank = remote->first_rank,.neighbors = remote->neighbors};
	for (; batch->npairs > 0 && pair->a == list->row; pair++, batch->npairs--)
		remote->neighbors[list->length++] = (FastedNeighbor) {
			.row = ranks == NULL ? pair->b : ranks[pair->b],.dist = pair->dist
		};
	batch->pairs = pair;
	remote->first_rank = 1;		/* of the next row */
	return true;
}

/* --- statistics */

/* JoinBackend.statistics: those that workers have reported so far. */
static FastedStats
Statistics(const VectorJoin *join)
{
	const RemoteJoin *remote = join->distributed;
	FastedStats sum = {0};

	for (int n = 0; n < remote->nslices; n++)
	{
		const FastedStats *stats = &remote->slices[n].report.stats;

		if (sum.engine[0] == '\0')
			sum = *stats;
		else if (stats->engine[0] != '\0')
			core->fasted_add_stats(&sum, stats);
	}
	sum.rows = (uint64) remote->rows[0] + remote->rows[1];
	sum.pairs = Max(sum.pairs, remote->npairs);
	/* workers do not report their progress */
	sum.units_done = sum.units_total = 0;
	return sum;
}

/* JoinBackend.shares */
static List *
Shares(const VectorJoin *join)
{
	const RemoteJoin *remote = join->distributed;
	List	   *shares = NIL;
	double		units = 0.0;

	for (int n = 0; n < remote->nslices; n++)
		units += remote->slices[n].report.stats.units_total;
	for (int n = 0; n < remote->nslices; n++)
	{
		const FastedStats *stats = &remote->slices[n].report.stats;

		shares = lappend(shares, makeString(psprintf("%s (%.0f%%, %s, " UINT64_FORMAT " pairs)",
													 LinksName(remote->connections, n),
													 100.0 * stats->units_total / Max(units, 1.0),
													 stats->engine[0] != '\0' ? stats->engine : "no rows",
													 stats->pairs)));
	}
	return shares;
}

/* --- the distributor of the core's joins */

static const JoinBackend workers = {
	.next = Next,.next_list = NextList,.statistics = Statistics,.shares = Shares
};

/*
 * JoinDistributor.distribute.  Sends the workers' queries before it reads the keys, so that all read at
 * the same time.
 */
static bool
Begin(VectorJoin *join, const JoinRequest *request)
{
	List	   *nodes = ChooseWorkers(request);
	int			nslices = list_length(nodes);
	RemoteJoin *remote = palloc0(offsetof(RemoteJoin, slices) + nslices * sizeof(RemoteSlice));
	FastedProblem *problem = &remote->request.problem;

	if (nodes == NIL)
		return false;
	remote->request = *request;
	/* if one pair makes a core row, every row with a pair is one, and few pairs connect these rows */
	if (problem->output == FASTED_OUTPUT_REPRESENTATIVES ||
		(problem->output == FASTED_OUTPUT_CONNECTIONS && problem->core_pairs > 1))
		problem->output = FASTED_OUTPUT_PAIRS;
	remote->sides = request->sources[1] != NULL ? 2 : 1;
	remote->nslices = nslices;
	remote->connections = LinksOpen(nodes);
	LinksCommand(remote->connections, SlicePrologue());
	/* shares of nearest rows do not depend on the kernel */
	problem->identical_kernels = problem->output != FASTED_OUTPUT_NEAREST && HaveSameKernel(remote);
	for (int n = 0; n < nslices; n++)
		LinksSend(remote->connections, n, SliceQuery(&remote->request, n, nslices));
	for (int side = remote->sides - 1; side >= 0; side--)
	{
		join->order = ReadOwnRows(request->sources[side], join->keys[side], &remote->fingerprints[side]);
		core->KeySetFinish(join->keys[side]);
		remote->rows[side] = join->keys[side]->count;
	}
	if (problem->output == FASTED_OUTPUT_COUNTS)
		remote->counts = core->SameRowNumbers(remote->rows[0], 0);
	remote->elements = palloc(MESSAGE_MAX_BYTES);
	remote->neighbors = palloc(MESSAGE_MAX_BYTES / sizeof(FastedPair) * sizeof(FastedNeighbor));
	join->backend = &workers;
	join->distributed = remote;
	join->output = problem->output == FASTED_OUTPUT_COUNTS ? FASTED_OUTPUT_COUNTS : FASTED_OUTPUT_PAIRS;
	return true;
}

const JoinDistributor distributor = {
	.distribute = Begin,.read = ReadDistributed,.label = "Citus Workers"
};
