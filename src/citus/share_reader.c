/*-------------------------------------------------------------------------
 *
 * share_reader.c
 *	  Reads rows into a buffer, and gives blocks of it to the sides of a join.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "citus/share_reader.h"
#include "join/remote_join.h"
#include "rows/reader.h"
#include "rows/vector.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Rows wait until there are so many bytes of them: to turn from side to side costs a little. */
#define BUFFER_BYTES (1024 * 1024)

typedef struct ShareReader
{
	RowPusher	base;
	NearestShare share;
} ShareReader;

/* Where the rows of one relation go. */
typedef struct ShareSink
{
	RowSink		sink;
	const NearestShare *share;
	Join	   *join;
	Fingerprint *print;
	int16		typlen;			/* of its keys */
	bool		typbyval;
	bool		to_a;			/* those of the share */
	bool		to_b;			/* all of them */
	bool		stopped;		/* a side takes no more */

	FastedElement element;
	uint32		dimensions;
	size_t		floats;			/* that a row takes the room of */
	float	   *rows;
	uint32		room;			/* rows that there is memory for */
	uint32		used;
	uint32		first;			/* the number of the first of them */
} ShareSink;

/* --- to a side */

static void
PushRows(ShareSink *sink, int side, uint32 begin, uint32 end)
{
	RowSink    *to = JoinSink(sink->join, side);
	Datum		keys[SHARE_BLOCK_ROWS];

	while (begin < end && !sink->stopped)
	{
		float	   *room;
		uint32		n = Min(to->room_for_rows(to, &room), Min(end - begin, SHARE_BLOCK_ROWS));

		sink->stopped = n == 0;
		if (n == 0)
			return;
		memcpy(room, sink->rows + begin * sink->floats, n * sink->floats * sizeof(float));
		for (uint32 i = 0; i < n; i++)
			keys[i] = Int64GetDatum((int64) sink->first + begin + i);
		to->take_rows(to, keys, n);
		begin += n;
	}
}

static void
PushShare(ShareSink *sink)
{
	uint32		begin = 0;

	while (begin < sink->used)
	{
		uint32		row = sink->first + begin;
		uint32		end = Min(sink->used, begin + SHARE_BLOCK_ROWS - row % SHARE_BLOCK_ROWS);

		if (IsInShare(row, sink->share->slice, sink->share->slices))
			PushRows(sink, 0, begin, end);
		begin = end;
	}
}

static void
Flush(ShareSink *sink)
{
	if (sink->to_b)
		PushRows(sink, 1, 0, sink->used);
	if (sink->to_a)
		PushShare(sink);
	sink->first += sink->used;
	sink->used = 0;
}

/* --- from the reader */

static void
ExpectRows(RowSink *self, uint64 rows)
{
	ShareSink  *sink = (ShareSink *) self;
	RowSink    *to;

	if (sink->to_b)
	{
		to = JoinSink(sink->join, 1);
		to->expect_rows(to, rows);
	}
	if (sink->to_a)
	{
		to = JoinSink(sink->join, 0);
		to->expect_rows(to, rows / sink->share->slices);
	}
}

static void
SetDimensions(RowSink *self, int dimensions, const char *row_name)
{
	ShareSink  *sink = (ShareSink *) self;

	sink->dimensions = dimensions;
	sink->floats = RowFloats(sink->element, dimensions);
	sink->room = Max(SHARE_BLOCK_ROWS, BUFFER_BYTES / (sink->floats * sizeof(float)));
	sink->rows = MemoryContextAllocHuge(GetMemoryChunkContext(sink),
										sink->room * sink->floats * sizeof(float));
	for (int side = 0; side < 2; side++)
		if (side == 0 ? sink->to_a : sink->to_b)
		{
			RowSink    *to = JoinSink(sink->join, side);

			to->set_dimensions(to, dimensions, row_name);
		}
}

static size_t
RoomForRows(RowSink *self, float **room)
{
	ShareSink  *sink = (ShareSink *) self;

	if (sink->used == sink->room)
		Flush(sink);
	if (sink->stopped)
		return 0;
	*room = sink->rows + sink->used * sink->floats;
	return sink->room - sink->used;
}

static void
TakeRows(RowSink *self, const Datum *keys, size_t nrows)
{
	ShareSink  *sink = (ShareSink *) self;

	for (size_t i = 0; i < nrows; i++, sink->used++)
		FingerprintAdd(sink->print, KeyHash(keys[i], sink->typlen, sink->typbyval),
					   VectorHash(sink->rows + sink->used * sink->floats, sink->element,
								  sink->dimensions));
}

/* --- both relations */

/* False: the engine has failed. */
static bool
ReadRelation(const NearestShare *share, Join *join, int side)
{
	const VectorSource *source = side == 0 ? share->a : share->b;
	ShareSink  *sink = palloc0(sizeof(ShareSink));
	bool		stopped;

	sink->sink.expect_rows = ExpectRows;
	sink->sink.set_dimensions = SetDimensions;
	sink->sink.room_for_rows = RoomForRows;
	sink->sink.take_rows = TakeRows;
	sink->share = share;
	sink->join = join;
	sink->print = &share->prints[side];
	sink->element = source->element;
	sink->to_a = side == 0;
	sink->to_b = side == 1 || share->b == NULL;
	get_typlenbyval(source->key_type, &sink->typlen, &sink->typbyval);
	memset(sink->print, 0, sizeof(Fingerprint));
	ReadVectors(source, &sink->sink);
	if (!sink->stopped)
		Flush(sink);
	stopped = sink->stopped;
	if (sink->rows != NULL)
		pfree(sink->rows);
	pfree(sink);
	return !stopped;
}

static void
PushShareRows(RowPusher *pusher, Join *join)
{
	const NearestShare *share = &((ShareReader *) pusher)->share;

	if (ReadRelation(share, join, 0) && share->b != NULL)
		ReadRelation(share, join, 1);
}

/* The source's rows by their numbers. */
static VectorSource *
Numbered(const VectorSource *source)
{
	VectorSource *numbered = palloc(sizeof(VectorSource));

	*numbered = *source;
	numbered->key_type = INT8OID;
	numbered->key_collation = InvalidOid;
	return numbered;
}

Join *
JoinBeginShare(const NearestShare *share)
{
	ShareReader *reader = palloc0(sizeof(ShareReader));
	NearestProblem problem = {
		.a = Numbered(share->a),.b = Numbered(share->b != NULL ? share->b : share->a),
		.k = share->k,.most = share->most,.pusher = &reader->base
	};

	reader->base.push = PushShareRows;
	reader->share = *share;
	return JoinBeginNearest(&problem);
}
