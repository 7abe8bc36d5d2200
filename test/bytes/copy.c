/*-------------------------------------------------------------------------
 *
 * copy.c
 *	  Fuzzer of the binary COPY streams in which nodes send the rows of a distributed table.
 *
 * The input chooses the types of keys and vectors, and has the pieces of the streams.  Another
 * decoder determines the rows of each stream before they are merged.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bytes.h"
#include "fmgr.h"

#include "../../fasted_citus/src/cluster.c"
#include "catalog/pg_collation_d.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"

#define MOST_STREAMS 3
#define MOST_PIECES 64

/* A piece of COPY data, and its row if it has a vector. */
typedef struct Piece
{
	uint8	   *bytes;
	size_t		length;
	bool		has_row;
	const uint8 *key;
	size_t		key_bytes;
	double	   *elements;
} Piece;

typedef struct Stream
{
	Piece		pieces[MOST_PIECES];
	int			count;
	int			sent;			/* pieces that fasted has taken */
	int			next;			/* the next piece whose row the sink expects */
} Stream;

static Stream streams[MOST_STREAMS];
static int	nstreams;
static VectorSource source;
static int	dimensions;			/* of all rows; 0: there is no row */
static bool valid;
static float *row;				/* the sink's buffer for a row */

/* --- the model */

/* A number in network byte order. */
static uint64
NetworkNumber(const uint8 *bytes, size_t count)
{
	uint64		number = 0;

	while (count-- > 0)
		number = number << 8 | *bytes++;
	return number;
}

/* Advances *at behind a field.  Returns false if it is not complete.  Null: *field is NULL. */
static bool
DecodeField(const Piece *piece, size_t *at, const uint8 **field, size_t *length)
{
	*field = NULL;
	*length = 0;
	if (piece->length - *at < 4)
		return false;
	*length = NetworkNumber(piece->bytes + *at, 4);
	*at += 4;
	if (*length == UINT32_MAX)
		return true;
	if (*length > piece->length - *at)
		return false;
	*field = piece->bytes + *at;
	*at += *length;
	return true;
}

/* Decodes a piece.  Returns false if it is invalid. */
static bool
DecodePiece(Piece *piece, bool first)
{
	static const uint8 header[19] = "PGCOPY\n\377\r\n";
	size_t		at = first ? sizeof(header) : 0;
	const uint8 *vector;
	size_t		vector_bytes;
	int			n;

	if (piece->length < at || memcmp(piece->bytes, header, at) != 0)
		return false;
	if (piece->length == at)
		return true;
	if (piece->length - at < 2)
		return false;
	at += 2;
	if (NetworkNumber(piece->bytes + at - 2, 2) == UINT16_MAX)
		return true;			/* the trailer */
	if (NetworkNumber(piece->bytes + at - 2, 2) != 2 ||
		!DecodeField(piece, &at, &piece->key, &piece->key_bytes) ||
		!DecodeField(piece, &at, &vector, &vector_bytes) || at != piece->length ||
		(piece->key != NULL && (source.key_type == INT8OID ? piece->key_bytes != 8 :
								memchr(piece->key, 0, piece->key_bytes) != NULL)))
		return false;
	if (vector == NULL)
		return true;
	n = DecodeVector(source.form, vector, vector_bytes, &piece->elements);
	if (n == 0 || piece->key == NULL || (dimensions != 0 && n != dimensions))
		return false;
	dimensions = n;
	piece->has_row = true;
	for (int k = 0; source.skip_zeros && piece->has_row; k++)
	{
		if (piece->elements[k] != 0.0)
			break;
		piece->has_row = k < n - 1;
	}
	return true;
}

static int
CompareKeys(const Piece *a, const Piece *b)
{
	int			order;

	if (source.key_type == INT8OID)
	{
		int64		x = (int64) NetworkNumber(a->key, 8);
		int64		y = (int64) NetworkNumber(b->key, 8);

		return (x > y) - (x < y);
	}
	order = memcmp(a->key, b->key, Min(a->key_bytes, b->key_bytes));
	return order != 0 ? order : (a->key_bytes > b->key_bytes) - (a->key_bytes < b->key_bytes);
}

/* Returns the next expected row of the stream; NULL at its end. */
static const Piece *
NextPiece(Stream *stream)
{
	while (stream->next < stream->count && !stream->pieces[stream->next].has_row)
		stream->next++;
	return stream->next < stream->count ? &stream->pieces[stream->next] : NULL;
}

static bool
IsPiece(const Piece *piece, Datum key)
{
	if (source.key_type == INT8OID ? NetworkNumber(piece->key, 8) != (uint64) DatumGetInt64(key) :
		VARSIZE_ANY_EXHDR(DatumGetPointer(key)) != piece->key_bytes ||
		memcmp(VARDATA_ANY(DatumGetPointer(key)), piece->key, piece->key_bytes) != 0)
		return false;
	for (int k = 0; k < dimensions; k++)
		if (RowElement(row, source.element, k) != piece->elements[k])
			return false;
	return true;
}

/* --- the sink of the rows */

static void
SetDimensions(RowSink *sink, int n, const char *row_name)
{
	row = AllocExact(RowBytes(source.element, n));
}

static size_t
BufferForRows(RowSink *sink, float **buffer)
{
	*buffer = row;
	return 1;
}

/* Checks that this is the next row of a stream, and that no other stream has a lesser one. */
static void
TakeRows(RowSink *sink, const Datum *keys, size_t nrows)
{
	const Piece *heads[MOST_STREAMS];
	int			taken = -1;

	for (int n = 0; n < nstreams; n++)
	{
		heads[n] = NextPiece(&streams[n]);
		if (taken < 0 && heads[n] != NULL && IsPiece(heads[n], keys[0]))
			taken = n;
	}
	/* the model does not know which rows precede the first invalid one */
	if (!valid)
		return;
	if (taken < 0)
		Fail("a row was decoded wrongly");
	for (int n = 0; n < nstreams; n++)
		if (heads[n] != NULL && CompareKeys(heads[n], heads[taken]) < 0)
			Fail("a row was merged wrongly");
	streams[taken].next++;
}

/* --- the connections */

bool
LinksTake(ConnectionSet *set, int n, char **data, int *length)
{
	Stream	   *stream = &streams[n];

	if (stream->sent == stream->count)
		return false;
	*data = (char *) stream->pieces[stream->sent].bytes;
	*length = (int) stream->pieces[stream->sent++].length;
	return true;
}

const char *
LinksName(const ConnectionSet *set, int n)
{
	return "node";
}

void
LinksReportInvalid(const ConnectionSet *set, int n)
{
	ereport(ERROR, errcode(ERRCODE_PROTOCOL_VIOLATION));
}

/* --- the target */

/* Takes the types, and the pieces of all streams. */
static void
TakeStreams(Input *input)
{
	unsigned	types = TakeByte(input);

	nstreams = 1 + TakeByte(input) % MOST_STREAMS;
	source = (VectorSource) {.relation = "table",.vector_column = "v",.id_argument = "id"};
	source.key_type = types & 1 ? TEXTOID : INT8OID;
	source.skip_zeros = (types & 2) != 0;
	source.form = (VectorForm[]) {VECTOR_FLOAT4, VECTOR_FLOAT8, VECTOR_BIT, VECTOR_FLOAT4} [types >> 2 & 3];
	source.element = ElementOfForm(source.form);
	if (types >> 2 == 3)
		source.element = FASTED_ELEMENT_DOUBLE;
	if (source.form == VECTOR_BIT)
	{
		source.metric = FASTED_METRIC_HAMMING;
		source.skip_zeros = false;
	}
	memset(streams, 0, sizeof(streams));
	dimensions = 0;
	valid = true;
	while (input->left > 0)
	{
		Stream	   *stream = &streams[TakeByte(input) % nstreams];
		Piece		piece = {.length = TakeShort(input)};

		piece.length = Min(piece.length, input->left);
		/* libpq omits empty pieces */
		if (piece.length == 0 || stream->count == MOST_PIECES)
			continue;
		piece.bytes = AllocExact(piece.length);
		TakeBytes(input, piece.bytes, piece.length);
		valid = DecodePiece(&piece, stream->count == 0) && valid;
		stream->pieces[stream->count++] = piece;
	}
}

/* Creates a reader as CreateReader does, but without reading system catalogs. */
static ShardReader *
MakeReader(void)
{
	ShardReader *reader = palloc0(offsetof(ShardReader, streams) + nstreams * sizeof(ShardStream));

	fmgr_info(source.key_type == INT8OID ? F_INT8RECV : F_TEXTRECV, &reader->receive);
	initStringInfo(&reader->key_text);
	reader->order.ssup_cxt = CurrentMemoryContext;
	reader->order.ssup_collation = C_COLLATION_OID;
	DirectFunctionCall1(source.key_type == INT8OID ? btint8sortsupport : bttextsortsupport,
						PointerGetDatum(&reader->order));
	reader->heap = binaryheap_allocate(nstreams, CompareStreams, reader);
	for (int n = 0; n < nstreams; n++)
	{
		reader->streams[n].key_context = AllocSetContextCreate(CurrentMemoryContext, "key", 0, 1024, 1024);
		initStringInfo(&reader->streams[n].vector);
	}
	return reader;
}

void
Decode(Input *input)
{
	RowSink		sink = {
		.set_dimensions = SetDimensions,.buffer_for_rows = BufferForRows,.take_rows = TakeRows
	};
	RowTaker   *taker = palloc0(sizeof(RowTaker));

	TakeStreams(input);
	taker->source = &source;
	taker->sink = &sink;
	taker->row_context = AllocSetContextCreate(CurrentMemoryContext, "row", 0, 1024, 1024);
	Merge(MakeReader(), nstreams, taker);
}

void
Verify(int sqlstate)
{
	if ((sqlstate == 0) != valid)
		Fail(valid ? "valid streams were rejected" : "an invalid stream was accepted");
	for (int n = 0; valid && n < nstreams; n++)
		if (NextPiece(&streams[n]) != NULL)
			Fail("a row is missing");
}
