/*-------------------------------------------------------------------------
 *
 * messages.c
 *	  Fuzzer of the messages that a coordinator receives from the workers of a divided join.
 *
 * The input describes a join, and then its messages.  Another implementation of the protocol
 * decides which messages are valid, and computes the result.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bytes.h"

#include "../../fasted_citus/src/remote_join.c"

#define MOST_SLICES 4

/* The state of a slice in the model. */
typedef struct SliceModel
{
	bool		begun;			/* the first report was sent */
	bool		done;			/* the last report was sent */
	uint32		counted;		/* number of rows whose counts were sent */
	FastedPair	last;			/* the last pair */
	uint32		rank;			/* number of consecutive pairs with its row a; 0: no pair */
	char		cut[sizeof(((SliceReport *) NULL)->cut)];
} SliceModel;

static VectorJoin join;
static RemoteJoin *remote;
static Input *messages;			/* NULL after the last message */
static SliceModel model[MOST_SLICES];
static uint32 *totals;			/* FASTED_OUTPUT_COUNTS: sums of the counts */
static uint32 first_rank;		/* rank of the first pair in the message */
static const char *message;		/* the last message; NULL: there is none */
static size_t message_bytes;
static bool valid;				/* the model accepts the message, or the end of the messages */

/* --- the model */

static bool
ReportIsValid(SliceModel *slice, char tag, const char *bytes, size_t length)
{
	SliceReport report;

	if (length < sizeof(report) || slice->begun == (tag == MESSAGE_ROWS))
		return false;
	memcpy(&report, bytes, sizeof(report));
	for (int side = 0; side < remote->sides; side++)
		if (report.rows[side].rows != remote->fingerprints[side].rows ||
			report.rows[side].hash != remote->fingerprints[side].hash)
			return false;
	strlcpy(slice->cut, report.cut, sizeof(slice->cut));
	slice->begun = true;
	slice->done = tag == MESSAGE_DONE;
	return report.version == WIRE_VERSION && report.stats.threads >= 0 &&
		report.stats.threads < 65536 && *(uint8 *) &report.stats.filter_sampled < 2;
}

static bool
PairIsValid(SliceModel *slice, const FastedPair *pair)
{
	const FastedPair *last = &slice->last;
	bool		self = remote->sides == 1;

	if (remote->request.problem.output != FASTED_OUTPUT_NEAREST)
		return pair->a < pair->b && pair->b < remote->rows[0];
	if (slice->rank == 0 || last->a < pair->a)
		slice->rank = 1;
	else if (last->a > pair->a || !(last->dist <= pair->dist) ||
			 (last->dist == pair->dist && last->b >= pair->b))
		return false;
	else
		slice->rank++;
	return pair->a < remote->rows[0] && pair->b < remote->rows[self ? 0 : 1] &&
		!(self && pair->a == pair->b) && pair->dist <= remote->request.problem.eps &&
		pair->a / 64 % remote->nslices == slice - model && slice->rank <= remote->request.problem.k;
}

static bool
PairsAreValid(SliceModel *slice, const char *bytes, size_t length)
{
	if (!slice->begun || length % sizeof(FastedPair) != 0 || length / sizeof(FastedPair) > 4096)
		return false;
	for (size_t at = 0; at < length; at += sizeof(FastedPair))
	{
		FastedPair	pair;

		memcpy(&pair, bytes + at, sizeof(pair));
		if (!PairIsValid(slice, &pair))
			return false;
		slice->last = pair;
		if (at == 0)
			first_rank = slice->rank;
	}
	return true;
}

static bool
CountsAreValid(SliceModel *slice, const char *bytes, size_t length)
{
	if (!slice->begun || totals == NULL || length % 4 != 0 || length / 4 > 16384 ||
		length / 4 > remote->rows[0] - slice->counted)
		return false;
	for (size_t at = 0; at < length; at += 4)
	{
		uint32		count;

		memcpy(&count, bytes + at, sizeof(count));
		totals[slice->counted++] += count;
	}
	return true;
}

static bool
MessageIsValid(SliceModel *slice)
{
	char		tag = message_bytes > 0 ? message[0] : '\0';

	if (slice->done)
		return false;
	switch (tag)
	{
		case MESSAGE_ROWS:
		case MESSAGE_DONE:
			return ReportIsValid(slice, tag, message + 1, message_bytes - 1);
		case MESSAGE_PAIRS:
			return PairsAreValid(slice, message + 1, message_bytes - 1);
		case MESSAGE_COUNTS:
			return CountsAreValid(slice, message + 1, message_bytes - 1);
		default:
			return false;
	}
}

static bool
EndIsValid(void)
{
	for (int n = 0; n < remote->nslices; n++)
		if (!model[n].done ||
			(remote->rows[0] >= 2 && strcmp(model[n].cut, model[0].cut) != 0))
			return false;
	return true;
}

/* --- messages */

/* Makes a message from a valid report, in which the input replaces bytes. */
static void
TakeReportMessage(Input *input, char tag)
{
	SliceReport report = {.version = WIRE_VERSION,.cut = "cpu",.stats = {.engine = "cpu",.panels = 1}};
	size_t		offset = TakeShort(input) % (sizeof(report) + 1);
	size_t		bytes = TakeByte(input);

	for (int side = 0; side < remote->sides; side++)
		report.rows[side] = remote->fingerprints[side];
	TakeBytes(input, (char *) &report + offset, Min(bytes, sizeof(report) - offset));
	/* padding may follow */
	message_bytes = 1 + sizeof(report) + TakeByte(input);
	message = memset(AllocExact(message_bytes), 0, message_bytes);
	*(char *) message = tag;
	memcpy((char *) message + 1, &report, sizeof(report));
}

/* Makes a message of bytes from the input. */
static void
TakePlainMessage(Input *input)
{
	size_t		bytes = TakeShort(input);

	bytes = Min(bytes, input->left);
	message = AllocExact(bytes);
	message_bytes = TakeBytes(input, (char *) message, bytes);
}

/* Makes a message of many equal pairs or counts, since inputs are shorter than the longest message. */
static void
TakeRepeatedMessage(Input *input)
{
	size_t		number = TakeShort(input);
	size_t		bytes = TakeByte(input) % 2 == 0 ? sizeof(FastedPair) : sizeof(uint32);
	size_t		count = number % (bytes == sizeof(FastedPair) ? 5000 : 17000);
	char		element[sizeof(FastedPair)] = {0};
	char	   *to = AllocExact(1 + count * bytes);

	*to = bytes == sizeof(FastedPair) ? MESSAGE_PAIRS : MESSAGE_COUNTS;
	TakeBytes(input, element, bytes);
	for (size_t i = 0; i < count; i++)
		memcpy(to + 1 + i * bytes, element, bytes);
	message = to;
	message_bytes = 1 + count * bytes;
}

bool
LinksNext(ConnectionSet *set, int *n, char **value, int *length)
{
	unsigned	kind;

	if (message != NULL && !valid)
		Fail("an invalid message of type %d was accepted", message[0]);
	message = NULL;
	if (messages->left == 0)
	{
		messages = NULL;
		valid = EndIsValid();
		return false;
	}
	*n = TakeByte(messages) % remote->nslices;
	kind = TakeByte(messages) % 4;
	if (kind == 0)
		TakePlainMessage(messages);
	else if (kind == 3)
		TakeRepeatedMessage(messages);
	else
		TakeReportMessage(messages, kind == 1 ? MESSAGE_ROWS : MESSAGE_DONE);
	valid = MessageIsValid(&model[*n]);
	*value = (char *) message;
	*length = (int) message_bytes;
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

static void
BeginJoin(Input *input)
{
	static VectorSource source = {.relation = "table"};
	int			nslices = 1 + TakeByte(input) % MOST_SLICES;

	remote = palloc0(offsetof(RemoteJoin, slices) + nslices * sizeof(RemoteSlice));
	join = (VectorJoin) {.distributed = remote};
	remote->nslices = nslices;
	remote->sides = 1 + TakeByte(input) % 2;
	remote->request.problem.output = TakeByte(input) % (FASTED_OUTPUT_CONNECTIONS + 1);
	if (remote->request.problem.output != FASTED_OUTPUT_NEAREST)
		remote->sides = 1;
	remote->request.problem.eps = TakeByte(input);
	remote->request.problem.k = 1 + TakeByte(input);
	for (int side = 0; side < remote->sides; side++)
	{
		remote->request.sources[side] = &source;
		remote->rows[side] = TakeShort(input);
		remote->fingerprints[side] = (Fingerprint) {.rows = remote->rows[side],.hash = 42};
	}
	remote->elements = palloc(MESSAGE_MAX_BYTES);
	totals = NULL;
	if (remote->request.problem.output == FASTED_OUTPUT_COUNTS)
	{
		Size		bytes = remote->rows[0] * sizeof(uint32);

		remote->counts = memset(AllocExact(bytes), 0, bytes);
		totals = memset(AllocExact(bytes), 0, bytes);
	}
}

/* Reads the reports as EXPLAIN does. */
static void
Explain(void)
{
	FastedStats sum = Statistics(&join);
	ListCell   *cell;

	pfree(psprintf("%s %d", sum.engine, sum.filter_sampled));
	foreach(cell, Shares(&join))
		pfree(strVal(lfirst(cell)));
}

void
Decode(Input *input)
{
	FastedBatch batch;
	uint64		total = 0;

	BeginJoin(input);
	memset(model, 0, sizeof(model));
	message = NULL;
	messages = input;
	while (Next(&join, &batch) == FASTED_OK)
	{
		if (message == NULL || message[0] != MESSAGE_PAIRS ||
			message_bytes != 1 + batch.npairs * sizeof(*batch.pairs) ||
			memcmp(message + 1, batch.pairs, batch.npairs * sizeof(*batch.pairs)) != 0 ||
			(remote->request.problem.output == FASTED_OUTPUT_NEAREST && remote->first_rank != first_rank))
			Fail("a message of pairs was decoded wrongly");
		total += batch.npairs;
		Explain();
	}
	Explain();
	if (Statistics(&join).pairs < total ||
		(totals != NULL && memcmp(totals, join.counts, remote->rows[0] * sizeof(uint32)) != 0))
		Fail("the result is wrong");
}

void
Verify(int sqlstate)
{
	if ((sqlstate == 0) != valid)
		Fail(valid ? "a valid message was rejected" : "an invalid message was accepted");
}
