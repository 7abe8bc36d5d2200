/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  Scans of an index: rows within balls, rows in the order of their distances, or both.
 *
 * All rows that pass the bounds are returned, and the executor checks them.
 *
 * A scan without an order goes through the heads, and through the levels of rows that pass.
 *
 * A scan with an order first computes the heads' bounds of all rows.  It takes some rows with low bounds
 * through the levels.  The limit is the last level's bound of the wanted number of rows: all rows that are
 * below it so far are taken through the levels.  Those that remain below it are returned in the order of
 * their bounds.  If the executor wants more, the wanted number is multiplied.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "access/relscan.h"
#include "index/access.h"
#include "index/ball.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Rows wanted at first, and how many times as many then. */
#define FIRST_ROWS 2
#define MORE_ROWS 3

/* Rows taken through the levels to find a limit, for each that is wanted, but no fewer than MIN_TRIED. */
#define TRIED_ROWS 6
#define MIN_TRIED 64

#define BUCKETS 65536

/* A row that passes. */
typedef struct Candidate
{
	double		bound;			/* by the order's query, if there is one */
	ItemPointerData tid;
	uint32		row;			/* in its chunk */
	bool		coded;
} Candidate;

typedef struct HashKey
{
	uint32		column;			/* from 0 */
	uint32		hash;
} HashKey;

typedef struct VectorScan
{
	MemoryContext context;		/* of all below; reset when the scan begins again */
	ScanCounts	counted;
	bool		begun;
	bool		none;			/* a condition is null: no row */
	IndexState	state;			/* without a basis */

	/* The queries: the order's first, if there is an order, then those of the balls. */
	VectorQuery *queries;
	uint32		nqueries;
	bool		ordered;		/* there is a query of an order, which is not null */
	HashKey    *hashes;
	uint32		nhashes;

	/* Work on one head. */
	float	   *bounds;			/* [chunk_rows] */
	Candidate  *candidates;		/* [chunk_rows] */
	RowSums    *sums;			/* [chunk_rows][nqueries] */
	uint32		chunk;			/* the next one, of a scan without an order */

	/* Rows that have passed all levels: returned ones, those to be returned, and those above the limit. */
	Candidate  *rows;
	uint32		next;
	uint32		ready;
	uint32		nrows;
	uint32		room;

	/* Bounds of all rows of a scan with an order; NaN: the row is not, or no longer, to be returned. */
	float	   *keys;			/* [chunks][chunk_rows] */
	uint32	   *counts;			/* of rows by the upper half of their keys */
	uint64		left;			/* rows */
	uint32		wanted;
} VectorScan;

/* --- conditions */

static void
prepare_vector(VectorQuery *query, const IndexState *state, const double *vector, int dimensions)
{
	if ((uint32) dimensions == state->meta.dimensions)
		PrepareQuery(query, state, vector);
	else
		*query = (VectorQuery) {.kind = state->kind,.unbounded = true,.limit = INFINITY};
}

/* Prepares a condition on the vector. */
static void
prepare_ball(VectorQuery *query, const IndexState *state, const Ball *ball, StrategyNumber strategy)
{
	double		radius = ball->radius;

	prepare_vector(query, state, ball->centre, ball->dimensions);
	query->undefined = ball->undefined;
	if (strategy == INDEX_OVERLAP_STRATEGY)
		radius += state->meta.most_radius;
	if (query->unbounded || isinf(radius))
		query->limit = FLT_MAX / 2;		/* rows with a vector */
	else
		SetLimit(query, radius);
}

/* Prepares the equality of a further column, whose type and the value's may be two of the same family. */
static void
prepare_hash(VectorScan *scan, Relation index, const ScanKeyData *key)
{
	int			column = key->sk_attno - 1;
	Oid			type = index->rd_opcintype[column];
	Oid			function = index_getprocid(index, key->sk_attno, INDEX_HASH_PROC);

	if (OidIsValid(key->sk_subtype) && key->sk_subtype != type)
		function = get_opfamily_proc(index->rd_opfamily[column], key->sk_subtype, key->sk_subtype,
									 INDEX_HASH_PROC);
	if (!OidIsValid(function))
		elog(ERROR, "no hash function for type %u", key->sk_subtype);
	scan->hashes[scan->nhashes++] = (HashKey) {
		.column = column - 1,
		.hash = DatumGetUInt32(OidFunctionCall1Coll(function, key->sk_collation, key->sk_argument))
	};
}

static void
prepare_conditions(VectorScan *scan, IndexScanDesc desc)
{
	Relation	index = desc->indexRelation;
	const IndexedKind *kind = KindOf(index);
	const ScanKeyData *order = desc->numberOfOrderBys > 0 ? desc->orderByData : NULL;
	const Ball **balls = palloc0((desc->numberOfKeys + 1) * sizeof(Ball *));
	double	   *elements = NULL;
	int			dimensions = 0;
	double		radius;
	IndexMeta	meta;
	const IndexState *state;

	scan->queries = palloc0((desc->numberOfKeys + 1) * sizeof(VectorQuery));
	scan->hashes = palloc((desc->numberOfKeys + 1) * sizeof(HashKey));
	for (int k = 0; k < desc->numberOfKeys; k++)
	{
		const ScanKeyData *key = &desc->keyData[k];

		if (key->sk_flags & SK_ISNULL)
			scan->none = true;
		else if (key->sk_attno > 1)
			prepare_hash(scan, index, key);
		else
			balls[k] = DatumGetBall(key->sk_argument);
	}
	if (order != NULL && !(order->sk_flags & SK_ISNULL))
		elements = ElementsOf(kind, order->sk_argument, &dimensions, &radius);

	/* From here on, no catalogs are read. */
	state = ReadState(index, &meta);
	scan->ordered = elements != NULL;
	if (scan->ordered)
		prepare_vector(&scan->queries[scan->nqueries++], state, elements, dimensions);
	for (int k = 0; k < desc->numberOfKeys; k++)
	{
		if (balls[k] != NULL)
			prepare_ball(&scan->queries[scan->nqueries++], state, balls[k], desc->keyData[k].sk_strategy);
	}
	scan->state = *state;
}

/* --- keys */

/* The keys' upper halves, in the order of the keys. */
static uint32
bucket_of(float key)
{
	union
	{
		float		value;
		uint32		bits;
	}			word = {.value = key};

	return ((word.bits & 0x80000000) != 0 ? ~word.bits : word.bits | 0x80000000) >> 16;
}

/* The greatest key of a bucket. */
static float
bucket_end(uint32 bucket)
{
	union
	{
		float		value;
		uint32		bits;
	}			word = {.bits = bucket << 16 | 0xffff};

	word.bits = (word.bits & 0x80000000) != 0 ? word.bits & 0x7fffffff : ~word.bits;
	return word.value;
}

/* Changes the key of a row. */
static void
set_key(VectorScan *scan, float *key, float value)
{
	if (!isnan(*key))
	{
		scan->counts[bucket_of(*key)]--;
		scan->left--;
	}
	*key = value;
	if (!isnan(value))
	{
		scan->counts[bucket_of(value)]++;
		scan->left++;
	}
}

/* --- one head */

static Buffer
read_head(VectorScan *scan, Relation index, uint32 chunk)
{
	return ReadIndexPage(index, ChunkBlock(&scan->state.layout, chunk), BUFFER_LOCK_SHARE, HEAD_PAGE, chunk, 0);
}

/* Marks the rows of a head that fail a condition by NaN in the bounds. */
static void
check_hashes(const VectorScan *scan, Page page, float *bounds)
{
	const IndexLayout *layout = &scan->state.layout;

	for (uint32 h = 0; h < scan->nhashes; h++)
	{
		const uint32 *hashes = HeadHashes(page, layout, scan->hashes[h].column);

		for (uint32 r = 0; r < layout->chunk_rows; r++)
			if (hashes[r] != scan->hashes[h].hash)
				bounds[r] = NAN;
	}
}

/* Marks rows by NaN whose bounds by a query (`own`, maybe the same array) are above its limit. */
static void
check_limit(const VectorQuery *query, const float *own, float *bounds, uint32 n)
{
	float		limit = query->limit;
	float		other = query->undefined ? BOUND_NAN : limit;

	for (uint32 r = 0; r < n; r++)
		bounds[r] = own[r] <= limit || own[r] == other ? bounds[r] : NAN;
}

/* Sets the bounds of the rows of a head, by the first query.  NaN: a row does not pass. */
static void
bound_rows(VectorScan *scan, Page page, float *bounds)
{
	const IndexState *state = &scan->state;
	VectorQuery none = {.unbounded = true};
	uint32		n = state->layout.chunk_rows;

	scan->counted.heads += n;
	HeadBounds(scan->nqueries > 0 ? &scan->queries[0] : &none, state, page, bounds);
	if (scan->nqueries > 0 && !scan->ordered)
		check_limit(&scan->queries[0], bounds, bounds, n);
	for (uint32 q = 1; q < scan->nqueries; q++)
	{
		HeadBounds(&scan->queries[q], state, page, scan->bounds);
		check_limit(&scan->queries[q], scan->bounds, bounds, n);
	}
	check_hashes(scan, page, bounds);
}

/* Begins the candidate of a row of a head.  Returns false if the row has gone. */
static bool
begin_candidate(VectorScan *scan, Page page, uint32 row, float bound, uint32 number)
{
	const IndexState *state = &scan->state;
	uint16		second = HeadSeconds(page, state)[row];

	if (second == ROW_FREE)
		return false;
	scan->candidates[number] = (Candidate) {
		.bound = bound,.tid = HeadTids(page, state)[row],.row = row,.coded = !HAS_STATE(second)
	};
	for (uint32 q = 0; q < scan->nqueries && !HAS_STATE(second); q++)
	{
		if (!scan->queries[q].unbounded)
			BeginSums(&scan->sums[number * scan->nqueries + q], &scan->queries[q], state, page, row);
	}
	return true;
}

/* Adds a level to a candidate's bounds.  Returns false if it does not pass. */
static bool
check_level(VectorScan *scan, uint32 number, uint32 level, const LevelRow *codes)
{
	Candidate  *candidate = &scan->candidates[number];

	for (uint32 q = 0; q < scan->nqueries; q++)
	{
		VectorQuery *query = &scan->queries[q];
		double		bound;

		if (query->unbounded)
			continue;
		bound = AddLevel(&scan->sums[number * scan->nqueries + q], query, &scan->state, level, codes);
		if (scan->ordered && q == 0)
		{
			candidate->bound = Max(candidate->bound, bound);
			bound = candidate->bound;
		}
		if (bound > query->limit)
			return false;
	}
	return true;
}

/*
 * Takes n candidates of a chunk through the levels.  Keeps those that pass, and returns their number.
 * The keys of the others are updated: NaN or, if only the order's limit excludes them, their bounds.
 */
static uint32
check_levels(VectorScan *scan, Relation index, uint32 chunk, uint32 n, float *keys)
{
	const IndexLayout *layout = &scan->state.layout;

	scan->counted.passed[0] += n;
	for (uint32 l = 1; l < layout->levels; l++)
	{
		Buffer		buffer = InvalidBuffer;
		BlockNumber pinned = InvalidBlockNumber;
		uint32		kept = 0;

		for (uint32 i = 0; i < n; i++)
		{
			Candidate  *candidate = &scan->candidates[i];
			BlockNumber block = LevelBlock(layout, chunk, l, candidate->row);

			if (candidate->coded && pinned != block)
			{
				if (buffer != InvalidBuffer)
					UnlockReleaseBuffer(buffer);
				pinned = block;
				buffer = ReadIndexPage(index, block, BUFFER_LOCK_SHARE, LEVEL_PAGE, chunk, l);
			}
			if (candidate->coded &&
				!check_level(scan, i, l, LevelRowOf(BufferGetPage(buffer), layout, l, candidate->row)))
			{
				if (keys != NULL)
					set_key(scan, keys + candidate->row, candidate->bound > scan->queries[0].limit ?
							FloatBelow(candidate->bound) : NAN);
				continue;
			}
			if (kept != i)
			{
				scan->candidates[kept] = *candidate;
				memcpy(&scan->sums[kept * scan->nqueries], &scan->sums[i * scan->nqueries],
					   scan->nqueries * sizeof(RowSums));
			}
			kept++;
		}
		if (buffer != InvalidBuffer)
			UnlockReleaseBuffer(buffer);
		n = kept;
		scan->counted.passed[l] += n;
	}
	return n;
}

/* Appends the first n candidates to the rows to be returned. */
static void
append_rows(VectorScan *scan, uint32 n)
{
	if (n == 0)
		return;
	if (scan->nrows + n > scan->room)
	{
		scan->room = Max(2 * scan->room, scan->nrows + n + 64);
		scan->rows = scan->rows == NULL ? palloc(scan->room * sizeof(Candidate)) :
			repalloc_huge(scan->rows, scan->room * sizeof(Candidate));
	}
	memcpy(scan->rows + scan->nrows, scan->candidates, n * sizeof(Candidate));
	scan->nrows += n;
}

/* --- scans without an order */

/* Sets the rows to be returned to those of the next chunk.  Returns false after the last one. */
static bool
scan_chunk(VectorScan *scan, Relation index)
{
	uint32		chunk = scan->chunk++;
	Buffer		buffer;
	uint32		n = 0;

	if (chunk >= scan->state.meta.chunks)
		return false;
	scan->nrows = scan->next = 0;
	buffer = read_head(scan, index, chunk);
	bound_rows(scan, BufferGetPage(buffer), scan->keys);
	for (uint32 r = 0; r < scan->state.layout.chunk_rows; r++)
	{
		if (!isnan(scan->keys[r]) && begin_candidate(scan, BufferGetPage(buffer), r, scan->keys[r], n))
			n++;
	}
	UnlockReleaseBuffer(buffer);
	append_rows(scan, check_levels(scan, index, chunk, n, NULL));
	scan->ready = scan->nrows;
	return true;
}

/* --- scans with an order */

/* Computes the keys of all rows. */
static void
compute_keys(VectorScan *scan, Relation index)
{
	uint32		rows = scan->state.layout.chunk_rows;
	uint32		chunks = scan->state.meta.chunks;

	scan->counts = palloc0(BUCKETS * sizeof(uint32));
	scan->keys = palloc_extended(Max((Size) chunks * rows, 1) * sizeof(float), MCXT_ALLOC_HUGE);
	for (uint32 chunk = 0; chunk < chunks; chunk++)
	{
		float	   *keys = scan->keys + (Size) chunk * rows;
		Buffer		buffer = read_head(scan, index, chunk);

		bound_rows(scan, BufferGetPage(buffer), keys);
		UnlockReleaseBuffer(buffer);
		for (uint32 r = 0; r < rows; r++)
		{
			if (isnan(keys[r]))
				continue;
			scan->counts[bucket_of(keys[r])]++;
			scan->left++;
		}
		CHECK_FOR_INTERRUPTS();
	}
	scan->wanted = FIRST_ROWS;
}

/* Returns a key that at least n rows, if there are as many, are not above. */
static float
key_above(const VectorScan *scan, uint64 n)
{
	uint64		rows = 0;
	uint32		bucket = 0;
	float		end;

	for (; bucket < BUCKETS - 1; bucket++)
	{
		rows += scan->counts[bucket];
		if (rows >= Min(n, scan->left))
			break;
	}
	end = bucket_end(bucket);
	return isnan(end) ? INFINITY : end;
}

/*
 * Takes at most `most` rows of a chunk, whose keys are not above this, through the levels, and appends those
 * that pass.  Returns how many it has taken.
 */
static uint32
scan_keys(VectorScan *scan, Relation index, uint32 chunk, float key, uint32 most)
{
	uint32		rows = scan->state.layout.chunk_rows;
	float	   *keys = scan->keys + (Size) chunk * rows;
	Buffer		buffer = InvalidBuffer;
	uint32		taken = 0;
	uint32		n;

	for (uint32 r = 0; r < rows && taken < most; r++)
	{
		if (!(keys[r] <= key))
			continue;
		if (buffer == InvalidBuffer)
			buffer = read_head(scan, index, chunk);
		if (begin_candidate(scan, BufferGetPage(buffer), r, keys[r], taken))
			taken++;
		else
			set_key(scan, keys + r, NAN);
	}
	if (buffer == InvalidBuffer)
		return 0;
	UnlockReleaseBuffer(buffer);
	n = check_levels(scan, index, chunk, taken, keys);
	for (uint32 i = 0; i < n; i++)
		set_key(scan, keys + scan->candidates[i].row, NAN);
	append_rows(scan, n);
	CHECK_FOR_INTERRUPTS();
	return taken;
}

static int
compare_candidates(const void *a, const void *b)
{
	double		x = ((const Candidate *) a)->bound;
	double		y = ((const Candidate *) b)->bound;

	CHECK_FOR_INTERRUPTS();
	return x < y ? -1 : x > y;
}

/* Sorts the rows that have passed all levels.  Sets the limit to the bound of the last wanted one. */
static void
set_limit(VectorScan *scan)
{
	qsort(scan->rows, scan->nrows, sizeof(Candidate), compare_candidates);
	scan->queries[0].limit = scan->nrows < scan->wanted ? INFINITY :
		-FloatBelow(-scan->rows[scan->wanted - 1].bound);
}

/* Takes some rows with low keys through all levels, if too few have passed. */
static void
try_rows(VectorScan *scan, Relation index)
{
	uint32		most = Max(TRIED_ROWS * scan->wanted, MIN_TRIED);
	float		key = key_above(scan, most);

	scan->queries[0].limit = INFINITY;
	for (uint32 chunk = 0; chunk < scan->state.meta.chunks && most > 0; chunk++)
		most -= scan_keys(scan, index, chunk, key, most);
}

/* Sets the rows to be returned to the next ones.  Returns false if there are no others. */
static bool
scan_more(VectorScan *scan, Relation index)
{
	uint32		sorted;

	scan->nrows -= scan->next;
	if (scan->next > 0)
		memmove(scan->rows, scan->rows + scan->next, scan->nrows * sizeof(Candidate));
	scan->next = scan->ready = 0;
	if (scan->left == 0 && scan->nrows == 0)
		return false;
	if (scan->nrows < scan->wanted)
		try_rows(scan, index);
	set_limit(scan);
	sorted = scan->nrows;
	for (uint32 chunk = 0; chunk < scan->state.meta.chunks && scan->left > 0; chunk++)
	{
		(void) scan_keys(scan, index, chunk, scan->queries[0].limit, PG_UINT32_MAX);
		if (scan->nrows / 2 > Max(sorted, scan->wanted))
		{
			set_limit(scan);
			sorted = scan->nrows;
		}
	}
	set_limit(scan);
	while (scan->ready < scan->nrows && scan->rows[scan->ready].bound <= scan->queries[0].limit)
		scan->ready++;
	scan->wanted = Min(scan->wanted, PG_UINT32_MAX / MORE_ROWS / TRIED_ROWS / MORE_ROWS) * MORE_ROWS;
	return true;
}

/* --- the functions of the access method */

static void
begin_scan(VectorScan *scan, IndexScanDesc desc)
{
	MemoryContext old = MemoryContextSwitchTo(scan->context);
	uint32		rows;

	scan->begun = true;
	prepare_conditions(scan, desc);
	rows = scan->state.layout.chunk_rows;
	scan->bounds = palloc(rows * sizeof(float));
	scan->candidates = palloc(rows * sizeof(Candidate));
	scan->sums = palloc(Max(rows * scan->nqueries, 1) * sizeof(RowSums));
	if (scan->ordered && !scan->none)
		compute_keys(scan, desc->indexRelation);
	else
		scan->keys = palloc(rows * sizeof(float));
	pgstat_count_index_scan(desc->indexRelation);
#if PG_VERSION_NUM >= 180000
	if (desc->instrument != NULL)
		desc->instrument->nsearches++;
#endif
	MemoryContextSwitchTo(old);
}

/* Returns the next row, or NULL. */
static const Candidate *
next_row(IndexScanDesc desc)
{
	VectorScan *scan = desc->opaque;
	MemoryContext old;

	if (!scan->begun)
		begin_scan(scan, desc);
	if (scan->none)
		return NULL;
	old = MemoryContextSwitchTo(scan->context);
	while (scan->next >= scan->ready)
	{
		CHECK_FOR_INTERRUPTS();
		if (!(scan->ordered ? scan_more(scan, desc->indexRelation) : scan_chunk(scan, desc->indexRelation)))
		{
			MemoryContextSwitchTo(old);
			return NULL;
		}
	}
	MemoryContextSwitchTo(old);
	scan->counted.returned++;
	return &scan->rows[scan->next++];
}

/* Sets the lower bound of the row's distance; other orders have none. */
static void
set_order_values(IndexScanDesc desc, const Candidate *row)
{
	VectorScan *scan = desc->opaque;

	for (int k = 0; k < desc->numberOfOrderBys; k++)
	{
		bool		null = (desc->orderByData[k].sk_flags & SK_ISNULL) != 0;
		double		value = -get_float8_infinity();

		if (k == 0 && !null)
		{
			null = isinf(row->bound) && row->bound > 0.0;
			if (row->bound == BOUND_NAN)
				value = get_float8_nan();
			else if (isfinite(row->bound))
				value = OperatorBound(&scan->queries[0], row->bound);
		}
		desc->xs_orderbyvals[k] = Float8GetDatum(value);
		desc->xs_orderbynulls[k] = null;
	}
}

const ScanCounts *
IndexScanCounts(IndexScanDesc desc)
{
	return &((VectorScan *) desc->opaque)->counted;
}

IndexScanDesc
IndexBeginScan(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc desc = RelationGetIndexScan(index, nkeys, norderbys);
	VectorScan *scan = palloc0(sizeof(VectorScan));

	scan->context = AllocSetContextCreate(CurrentMemoryContext, "fasted index scan", ALLOCSET_DEFAULT_SIZES);
	desc->opaque = scan;
	if (norderbys > 0)
	{
		desc->xs_orderbyvals = palloc0(norderbys * sizeof(Datum));
		desc->xs_orderbynulls = palloc0(norderbys * sizeof(bool));
	}
	return desc;
}

void
IndexRescan(IndexScanDesc desc, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	VectorScan *scan = desc->opaque;
	MemoryContext context = scan->context;

	MemoryContextReset(context);
	*scan = (VectorScan) {.context = context,.counted = scan->counted};
	if (keys != NULL && desc->numberOfKeys > 0)
		memmove(desc->keyData, keys, desc->numberOfKeys * sizeof(ScanKeyData));
	if (orderbys != NULL && desc->numberOfOrderBys > 0)
		memmove(desc->orderByData, orderbys, desc->numberOfOrderBys * sizeof(ScanKeyData));
}

bool
IndexGetTuple(IndexScanDesc desc, ScanDirection direction)
{
	const Candidate *row = next_row(desc);

	if (row == NULL)
		return false;
	desc->xs_heaptid = row->tid;
	desc->xs_recheck = true;
	desc->xs_recheckorderby = true;
	set_order_values(desc, row);
	return true;
}

int64
IndexGetBitmap(IndexScanDesc desc, TIDBitmap *bitmap)
{
	int64		n = 0;
	const Candidate *row;

	while ((row = next_row(desc)) != NULL)
	{
		ItemPointerData tid = row->tid;

		tbm_add_tuples(bitmap, &tid, 1, true);
		n++;
	}
	return n;
}

void
IndexEndScan(IndexScanDesc desc)
{
	MemoryContextDelete(((VectorScan *) desc->opaque)->context);
	pfree(desc->opaque);
}
