/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  Scans of an index: rows within balls, rows in the order of their distances, or both.
 *
 * All rows that pass the bounds are returned, and the executor checks them.
 *
 * A scan computes the bounds of the boxes of all chunks.  Then it takes the rows of chunks whose boxes pass
 * through the head and the levels.
 *
 * A scan with an order returns rows in batches, in the order of their bounds.  It visits the chunks in the order
 * of their boxes' bounds, and keeps the first rows after those of the batches before.  The last bound of these
 * is the limit for all others.  Each batch is larger than the one before.  Bounds of rows that are above the
 * limit are kept for the next batches in work_mem; if they do not fit, they are computed again.
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
#include "port/pg_bitutils.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Rows of the first batch, and how many times as many has each further one. */
#define FIRST_BATCH 16
#define MORE_ROWS 8
#define MOST_BATCH (1 << 24)

/* Bytes of a page of level 1 that are fetched ahead; the CPU fetches the others by itself. */
#define FIRST_BYTES 2048

/* Bounds of a chunk's rows are kept if one of so many rows has the values of the further columns. */
#define KEPT_SHARE 8

/* A row that passes. */
typedef struct Candidate
{
	float		bound;			/* by the order's query, if there is one */
	ItemPointerData tid;
	int64		number;			/* in the index */
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
	Snapshot	snapshot;

	/* The queries: the order's first, if there is an order, then those of the balls. */
	VectorQuery *queries;
	uint32		nqueries;
	bool		bounded;		/* a query has bounds */
	bool		ordered;		/* there is a query of an order, which is not null */
	HashKey    *hashes;
	uint32		nhashes;

	/* Chunks whose boxes pass, in the order of their visits, and the boxes' bounds. */
	uint32	   *chunks;
	float	   *box_bounds;		/* [all chunks] */
	uint32		nchunks;
	uint32		next_chunk;		/* the next one, of a scan without an order */
	uint32		visited;		/* this many have been visited */

	/* Work on one chunk: a bit for each row, what levels add up, and bounds. */
	uint8	   *masks;			/* [groups] */
	uint8	   *uncoded;		/* [groups] */
	uint8	   *saved;			/* [groups] */
	GroupSums  *sums;			/* [nqueries][groups] */
	float	   *bounds;			/* [nqueries][chunk_rows] */

	/* Bounds of the rows of visited chunks, if they fit.  NaN: the row does not pass whatever the limit. */
	float	  **keys;			/* [all chunks] */
	float	   *kept;			/* the memory of these: keys of `room_chunks` more chunks fit */
	uint32		room_chunks;

	/* Rows that have passed. */
	Candidate  *rows;
	uint32		next;
	uint32		nrows;
	uint32		room;
	uint32		batch;			/* most rows of the present batch */
	Candidate	last;			/* of the batch before */
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
	for (uint32 q = 0; q < scan->nqueries; q++)
		scan->bounded |= !scan->queries[q].unbounded;
	scan->state = *state;
	scan->snapshot = desc->xs_snapshot;
}

/* --- rows of a chunk */

static uint32
count_bits(const VectorScan *scan, const uint8 *masks)
{
	return pg_popcount((const char *) masks, scan->state.layout.chunk_rows / GROUP_ROWS);
}

/* Returns true if one of n rows has a bit. */
static bool
has_bits(const uint8 *masks, uint32 first, uint32 n)
{
	for (uint32 g = first / GROUP_ROWS; g * GROUP_ROWS < first + n; g++)
	{
		if (masks[g] != 0)
			return true;
	}
	return false;
}

/* Removes the bits of rows with other values of the further columns. */
static void
check_hashes(VectorScan *scan, Page page)
{
	const IndexLayout *layout = &scan->state.layout;

	for (uint32 h = 0; h < scan->nhashes; h++)
	{
		const uint32 *hashes = HeadHashes(page, layout, scan->hashes[h].column);
		uint32		hash = scan->hashes[h].hash;

		for (uint32 g = 0; g < layout->chunk_rows / GROUP_ROWS; g++)
		{
			uint8		bits = 0;

			for (uint32 r = 0; r < GROUP_ROWS; r++)
				bits |= (hashes[g * GROUP_ROWS + r] == hash) << r;
			scan->masks[g] &= bits;
		}
	}
}

/* Sets the keys of the rows that are in `before`, and not in `after`, to NaN. */
static void
drop_keys(const VectorScan *scan, const uint8 *before, const uint8 *after, float *keys)
{
	for (uint32 r = 0; r < scan->state.layout.chunk_rows; r++)
	{
		uint8		dropped = before[r / GROUP_ROWS] & ~after[r / GROUP_ROWS];

		if ((dropped >> r % GROUP_ROWS & 1) != 0)
			keys[r] = NAN;
	}
}

/*
 * Checks rows by a page of a level, or by the head.  The bounds by the order's query are the keys, and rows that
 * fail another condition have none.
 */
static void
check_page(VectorScan *scan, uint32 level, Page page, uint32 first, uint32 n, float *keys)
{
	const IndexState *state = &scan->state;
	uint32		groups = state->layout.chunk_rows / GROUP_ROWS;

	memcpy(scan->saved, scan->masks, groups);
	for (uint32 q = scan->nqueries; q-- > 0;)
	{
		const VectorQuery *query = &scan->queries[q];
		float	   *bounds = q == 0 ? keys : scan->bounds + (Size) q * state->layout.chunk_rows;

		if (q == 0 && scan->ordered && scan->nqueries > 1)
			drop_keys(scan, scan->saved, scan->masks, keys);
		if (!query->unbounded)
			LevelBounds(query, state, level, page, first, n, scan->masks, scan->sums + (Size) q * groups, bounds);
		else if (level == 0)
			UncodedBounds(query, state, page, scan->masks, bounds);
		if (level == 0 && has_bits(scan->uncoded, 0, n))
			UncodedBounds(query, state, page, scan->uncoded, bounds);
	}
}

/* The order of a scan: by bounds, and then as in the index. */
static int
compare_candidates(const void *a, const void *b)
{
	const Candidate *x = a;
	const Candidate *y = b;

	CHECK_FOR_INTERRUPTS();
	if (x->bound != y->bound)
		return x->bound < y->bound ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Keeps the first rows of a batch, and makes the bound of the last one the limit. */
static void
cut_batch(VectorScan *scan)
{
	qsort(scan->rows, scan->nrows, sizeof(Candidate), compare_candidates);
	if (scan->nrows < scan->batch)
		return;
	scan->nrows = scan->batch;
	scan->queries[0].limit = scan->rows[scan->nrows - 1].bound;
}

/* Appends a row of a head, unless it was in a batch before. */
static void
append_row(VectorScan *scan, Page page, uint32 chunk, uint32 row, float bound)
{
	Candidate	candidate = {
		.bound = bound,.tid = HeadTids(page, &scan->state)[row],
		.number = (int64) chunk * scan->state.layout.chunk_rows + row
	};

	if (scan->ordered && compare_candidates(&candidate, &scan->last) <= 0)
		return;
	scan->rows[scan->nrows++] = candidate;
}

/* Takes the rows of a chunk that have bits through the levels, and appends those that pass. */
static void
check_rows(VectorScan *scan, Relation index, uint32 chunk, Page head, float *keys)
{
	const IndexLayout *layout = &scan->state.layout;
	uint32		groups = layout->chunk_rows / GROUP_ROWS;

	if (scan->ordered && layout->levels > 1 && chunk >= layout->null_chunks)
		FetchAhead(index, LevelBlock(layout, chunk, 1, 0), 0, FIRST_BYTES);
	SplitMasks(&scan->state, head, scan->masks, scan->uncoded);
	scan->counted.heads += count_bits(scan, scan->masks);
	check_page(scan, 0, head, 0, layout->chunk_rows, keys);
	for (uint32 l = 1; l < layout->levels && scan->bounded && has_bits(scan->masks, 0, layout->chunk_rows); l++)
	{
		scan->counted.passed[l - 1] += count_bits(scan, scan->masks);
		for (uint32 first = 0; first < layout->chunk_rows; first += layout->page_rows[l])
		{
			uint32		n = Min(layout->page_rows[l], layout->chunk_rows - first);
			Buffer		buffer;

			if (!has_bits(scan->masks, first, n))
				continue;
			buffer = ReadIndexPage(index, LevelBlock(layout, chunk, l, first), BUFFER_LOCK_SHARE, LEVEL_PAGE, chunk, l);
			if (n < layout->chunk_rows - first && l < GROUPED_LEVELS)
				FetchAhead(index, LevelBlock(layout, chunk, l, first + n), 0, FIRST_BYTES);
			check_page(scan, l, BufferGetPage(buffer), first, n, keys);
			UnlockReleaseBuffer(buffer);
		}
	}
	for (uint32 g = 0; g < groups; g++)
	{
		uint8		bits = scan->masks[g] | scan->uncoded[g];

		for (; bits != 0; bits &= bits - 1)
		{
			uint32		row = g * GROUP_ROWS + pg_rightmost_one_pos32(bits);

			append_row(scan, head, chunk, row, keys[row]);
		}
	}
	scan->counted.passed[layout->levels - 1] += count_bits(scan, scan->masks);
}

/* Visits a chunk: appends those of its rows that pass. */
static void
visit_chunk(VectorScan *scan, Relation index, uint32 chunk)
{
	uint32		rows = scan->state.layout.chunk_rows;
	uint32		groups = rows / GROUP_ROWS;
	float	   *keys = scan->ordered ? scan->keys[chunk] : NULL;
	Buffer		buffer;
	bool		known = keys != NULL;
	float		by_box = scan->box_bounds[chunk];

	if (known)
	{
		float		least = scan->last.bound;
		float		limit = scan->queries[0].limit;

		for (uint32 g = 0; g < groups; g++)
		{
			scan->masks[g] = 0;
			for (uint32 r = 0; r < GROUP_ROWS; r++)
				scan->masks[g] |= (keys[g * GROUP_ROWS + r] >= least && keys[g * GROUP_ROWS + r] <= limit) << r;
		}
		if (!has_bits(scan->masks, 0, rows))
			return;
	}
	else
	{
		memset(scan->masks, 0xff, groups);
		keys = scan->bounds;
	}
	for (uint32 r = rows; r < rows * scan->nqueries; r++)
		scan->bounds[r] = -INFINITY;
	buffer = ReadIndexPage(index, ChunkBlock(&scan->state.layout, chunk), BUFFER_LOCK_SHARE, HEAD_PAGE, chunk, 0);
	TestForOldSnapshot(scan->snapshot, index, BufferGetPage(buffer));
	check_hashes(scan, BufferGetPage(buffer));
	if (!known && scan->room_chunks > 0 && count_bits(scan, scan->masks) >= rows / KEPT_SHARE)
	{
		keys = scan->keys[chunk] = scan->kept;
		scan->kept += rows;
		scan->room_chunks--;
	}
	for (uint32 g = 0; g < groups && !known; g++)
		for (uint32 r = 0; r < GROUP_ROWS; r++)
			keys[g * GROUP_ROWS + r] = by_box;
	if (has_bits(scan->masks, 0, rows))
		check_rows(scan, index, chunk, BufferGetPage(buffer), keys);
	UnlockReleaseBuffer(buffer);
}

/* Begins to fetch what will be read first of the head of the chunk of that number, if there is one. */
static void
fetch_ahead(VectorScan *scan, Relation index, uint32 number)
{
	const IndexLayout *layout = &scan->state.layout;
	Size		hashes = scan->state.meta.columns * sizeof(uint32) * layout->chunk_rows;
	Size		unused = scan->nhashes > 0 ? 0 : hashes;

	if (number < scan->nchunks && (!scan->ordered || scan->keys[scan->chunks[number]] == NULL))
		FetchAhead(index, ChunkBlock(layout, scan->chunks[number]),
				   MAXALIGN(SizeOfPageHeaderData) + unused, hashes - unused + layout->chunk_rows * layout->stride[0]);
}

/* Visits a chunk by its number in the order of visits. */
static void
visit(VectorScan *scan, Relation index, uint32 number)
{
	fetch_ahead(scan, index, number + 2);
	if (number == scan->visited)
	{
		scan->visited++;
		scan->counted.skipped_chunks--;
	}
	visit_chunk(scan, index, scan->chunks[number]);
	CHECK_FOR_INTERRUPTS();

	/* Here no page is locked.  The fewer rows beyond the batch, the sooner is the limit lowered. */
	if (scan->ordered && scan->nrows > scan->batch + scan->batch / 8)
		cut_batch(scan);
}

/* --- batches */

/* Begins a batch of at most n rows. */
static void
begin_batch(VectorScan *scan, uint32 n)
{
	uint32		room = n + n / 8 + scan->state.layout.chunk_rows;

	if (room > scan->room)
	{
		if (scan->rows != NULL)
			pfree(scan->rows);
		scan->rows = palloc_extended((Size) room * sizeof(Candidate), MCXT_ALLOC_HUGE);
		scan->room = room;
	}
	scan->batch = n;
	scan->nrows = scan->next = 0;
}

/* Gets the next rows.  Returns false if there are none. */
static bool
scan_more(VectorScan *scan, Relation index)
{
	Size		most = work_mem * (Size) 1024 / (2 * sizeof(Candidate));

	if (!scan->ordered)
	{
		scan->nrows = scan->next = 0;
		while (scan->nrows == 0 && scan->next_chunk < scan->nchunks)
			visit(scan, index, scan->next_chunk++);
		return scan->nrows > 0;
	}
	if (scan->nrows < scan->batch)
		return false;
	if (scan->nrows > 0)
		scan->last = scan->rows[scan->nrows - 1];
	begin_batch(scan, scan->batch == 0 ? FIRST_BATCH :
				Max(scan->batch, Min(scan->batch * MORE_ROWS, Min(most, MOST_BATCH))));
	scan->queries[0].limit = INFINITY;
	for (uint32 c = 0; c < scan->nchunks && scan->box_bounds[scan->chunks[c]] <= scan->queries[0].limit; c++)
		visit(scan, index, c);
	cut_batch(scan);
	return scan->nrows > 0;
}

/* --- boxes */

static int
compare_chunks(const void *a, const void *b, void *box_bounds)
{
	float		x = ((const float *) box_bounds)[*(const uint32 *) a];
	float		y = ((const float *) box_bounds)[*(const uint32 *) b];

	CHECK_FOR_INTERRUPTS();
	return x < y ? -1 : x > y;
}

/*
 * Computes the bound of a chunk by the order's query.  Returns false if its box, or its range of hashes, fails a
 * condition.  A chunk without a box has no vectors.
 */
static bool
check_box(VectorScan *scan, uint32 chunk, const ChunkBox *box)
{
	float	   *bound = &scan->box_bounds[chunk];

	*bound = -INFINITY;
	for (uint32 h = 0; h < scan->nhashes && box != NULL; h++)
	{
		uint32		hash = scan->hashes[h].hash >> 16;

		if (scan->hashes[h].column == 0 && (hash < box->least_hash || hash > box->most_hash))
			return false;
	}
	for (uint32 q = 0; q < scan->nqueries; q++)
	{
		float		by_query = box == NULL ? INFINITY : BoxBound(&scan->queries[q], box);

		if (by_query > scan->queries[q].limit)
			return false;
		if (q == 0)
			*bound = by_query;
	}
	return true;
}

static void
check_boxes(VectorScan *scan, Relation index)
{
	const IndexLayout *layout = &scan->state.layout;
	uint32		all = scan->state.meta.chunks;
	Buffer		buffer = InvalidBuffer;

	scan->chunks = palloc_extended(Max(all, 1) * sizeof(uint32), MCXT_ALLOC_HUGE);
	scan->box_bounds = palloc_extended(Max(all, 1) * sizeof(float), MCXT_ALLOC_HUGE);
	for (uint32 chunk = 0; chunk < all; chunk++)
	{
		const ChunkBox *box = NULL;

		if (chunk >= layout->null_chunks && (buffer == InvalidBuffer || chunk == SectionOf(layout, chunk)))
		{
			if (buffer != InvalidBuffer)
				UnlockReleaseBuffer(buffer);
			CHECK_FOR_INTERRUPTS();
			buffer = ReadIndexPage(index, BoxBlock(layout, chunk), BUFFER_LOCK_SHARE, BOX_PAGE,
								   SectionOf(layout, chunk), 0);
			TestForOldSnapshot(scan->snapshot, index, BufferGetPage(buffer));
		}
		if (buffer != InvalidBuffer)
			box = BoxOf(BufferGetPage(buffer), layout, chunk);
		if (check_box(scan, chunk, box))
			scan->chunks[scan->nchunks++] = chunk;
	}
	if (buffer != InvalidBuffer)
		UnlockReleaseBuffer(buffer);
	if (scan->ordered)
		qsort_arg(scan->chunks, scan->nchunks, sizeof(uint32), compare_chunks, scan->box_bounds);
	scan->counted.skipped_chunks += all;
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
	scan->masks = palloc(rows / GROUP_ROWS);
	scan->uncoded = palloc(rows / GROUP_ROWS);
	scan->saved = palloc(rows / GROUP_ROWS);
	scan->sums = palloc(Max(scan->nqueries, 1) * (rows / GROUP_ROWS) * sizeof(GroupSums));
	scan->bounds = palloc(Max(scan->nqueries, 1) * rows * sizeof(float));
	if (!scan->none)
		check_boxes(scan, desc->indexRelation);
	if (scan->ordered)
	{
		scan->keys = palloc_extended(Max(scan->state.meta.chunks, 1) * sizeof(float *), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
		scan->room_chunks = Min(work_mem * (Size) 1024 / (rows * sizeof(float)), scan->nchunks);
		scan->kept = palloc_extended(Max((Size) scan->room_chunks * rows, 1) * sizeof(float), MCXT_ALLOC_HUGE);
		scan->last = (Candidate) {.bound = -INFINITY,.number = -1};
	}
	else
		begin_batch(scan, 0);
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
	while (scan->next >= scan->nrows)
	{
		CHECK_FOR_INTERRUPTS();
		if (!scan_more(scan, desc->indexRelation))
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
