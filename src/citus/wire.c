/*-------------------------------------------------------------------------
 *
 * wire.c
 *	  Messages of slices: written and read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "citus/wire.h"
#include "libpq/pqformat.h"

/*
 * A backend keeps this much of what it sends until there is more.  A report that rows
 * have been read comes at once, so it is made longer than that.
 */
#define SEND_BUFFER 8192

/* --- reports */

/* A report on its way: its fields are written to the message, or read from it. */
typedef struct Transfer
{
	StringInfo	message;
	bool		writes;
} Transfer;

/* The server's encoding is on both sides, and these texts are ASCII. */
static void
Text(const Transfer *transfer, char *text, size_t size)
{
	if (transfer->writes)
		pq_sendstring(transfer->message, text);
	else
		strlcpy(text, pq_getmsgrawstring(transfer->message), size);
}

static void
Int32(const Transfer *transfer, uint32 *value)
{
	if (transfer->writes)
		pq_sendint32(transfer->message, *value);
	else
		*value = pq_getmsgint(transfer->message, 4);
}

static void
Int64(const Transfer *transfer, uint64 *value)
{
	if (transfer->writes)
		pq_sendint64(transfer->message, *value);
	else
		*value = pq_getmsgint64(transfer->message);
}

static void
Float8(const Transfer *transfer, double *value)
{
	if (transfer->writes)
		pq_sendfloat8(transfer->message, *value);
	else
		*value = pq_getmsgfloat8(transfer->message);
}

/* All texts and numbers of the statistics that anybody shows. */
static void
Statistics(const Transfer *transfer, FastedStats *stats)
{
	uint32		threads = stats->threads;

	Text(transfer, stats->engine, sizeof(stats->engine));
	Text(transfer, stats->device, sizeof(stats->device));
	Text(transfer, stats->kernel, sizeof(stats->kernel));
	Text(transfer, stats->filter, sizeof(stats->filter));
	Int32(transfer, &threads);
	stats->threads = (int) threads;
	Int64(transfer, &stats->rows);
	Int32(transfer, &stats->dimensions);
	Int32(transfer, &stats->panels);
	Int32(transfer, &stats->filter_dimensions);
	Int64(transfer, &stats->units_total);
	Int64(transfer, &stats->candidates);
	Int64(transfer, &stats->pairs);
	if (transfer->writes)
		pq_sendbyte(transfer->message, stats->filter_sampled);
	else
		stats->filter_sampled = pq_getmsgbyte(transfer->message) != 0;
	Int64(transfer, &stats->sampled_candidates);
	Int64(transfer, &stats->sampled_pairs);
	for (int level = 0; level < FASTED_PRUNE_LEVELS; level++)
		Int64(transfer, &stats->pruned_tiles[level]);
	Int64(transfer, &stats->full_tiles);
	Int64(transfer, &stats->host_bytes);
	Int64(transfer, &stats->device_bytes);
	Float8(transfer, &stats->prepare_seconds);
	Float8(transfer, &stats->filter_seconds);
	Float8(transfer, &stats->refine_seconds);
	Float8(transfer, &stats->device_seconds);
}

static void
Report(const Transfer *transfer, SliceReport *report)
{
	for (int side = 0; side < 2; side++)
	{
		Int64(transfer, &report->rows[side].rows);
		Int64(transfer, &report->rows[side].hash);
	}
	Text(transfer, report->cut, sizeof(report->cut));
	Float8(transfer, &report->read_seconds);
	Statistics(transfer, &report->stats);
}

bytea *
ReportMessage(char tag, SliceReport *report)
{
	StringInfoData message;

	pq_begintypsend(&message);
	pq_sendbyte(&message, tag);
	pq_sendint32(&message, WIRE_VERSION);
	Report(&(Transfer) {.message = &message,.writes = true}, report);
	if (tag == MESSAGE_ROWS)
	{
		enlargeStringInfo(&message, SEND_BUFFER);
		memset(message.data + message.len, 0, SEND_BUFFER);
		message.len += SEND_BUFFER;
	}
	return pq_endtypsend(&message);
}

void
TakeReport(StringInfo message, SliceReport *report)
{
	memset(report, 0, sizeof(*report));
	if (pq_getmsgint(message, 4) != WIRE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a Citus worker has another version of the extension"),
				 errhint("Install the same version of fasted on all nodes, or use \"SET fasted.distribute = off\".")));
	Report(&(Transfer) {.message = message}, report);
}

/* --- pairs and counts */

bytea *
PairsMessage(const FastedPair *pairs, size_t npairs)
{
	StringInfoData message;

	pq_begintypsend(&message);
	pq_sendbyte(&message, MESSAGE_PAIRS);
	enlargeStringInfo(&message, (int) (npairs * 16));
	for (size_t i = 0; i < npairs; i++)
	{
		pq_sendint32(&message, pairs[i].a);
		pq_sendint32(&message, pairs[i].b);
		pq_sendfloat8(&message, pairs[i].dist);
	}
	return pq_endtypsend(&message);
}

bytea *
CountsMessage(uint32 first_row, const uint32 *counts, size_t nrows)
{
	StringInfoData message;

	pq_begintypsend(&message);
	pq_sendbyte(&message, MESSAGE_COUNTS);
	pq_sendint32(&message, first_row);
	for (size_t i = 0; i < nrows; i++)
		pq_sendint32(&message, counts[i]);
	return pq_endtypsend(&message);
}

/* The number of elements of a given size in the rest of the message, at most a given number. */
static size_t
ElementsLeft(StringInfo message, size_t bytes, size_t most)
{
	size_t		left = message->len - message->cursor;

	if (left % bytes != 0 || left / bytes > most)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("invalid message length %zu from Citus worker", left)));
	return left / bytes;
}

size_t
TakePairs(StringInfo message, FastedPair *pairs)
{
	size_t		npairs = ElementsLeft(message, 16, MESSAGE_MOST_PAIRS);

	for (size_t i = 0; i < npairs; i++)
	{
		pairs[i].a = pq_getmsgint(message, 4);
		pairs[i].b = pq_getmsgint(message, 4);
		pairs[i].dist = pq_getmsgfloat8(message);
	}
	return npairs;
}

size_t
TakeCounts(StringInfo message, uint32 *first_row, uint32 *counts)
{
	size_t		nrows;

	*first_row = pq_getmsgint(message, 4);
	nrows = ElementsLeft(message, sizeof(uint32), MESSAGE_MOST_COUNTS);
	for (size_t i = 0; i < nrows; i++)
		counts[i] = pq_getmsgint(message, 4);
	return nrows;
}
