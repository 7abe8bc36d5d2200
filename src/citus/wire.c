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

/* --- writing */

/* All texts and numbers of the statistics that anybody shows. */
static void
SendStatistics(StringInfo message, const FastedStats *stats)
{
	pq_sendstring(message, stats->engine);
	pq_sendstring(message, stats->device);
	pq_sendstring(message, stats->kernel);
	pq_sendstring(message, stats->filter);
	pq_sendint32(message, stats->threads);
	pq_sendint64(message, stats->rows);
	pq_sendint32(message, stats->dimensions);
	pq_sendint32(message, stats->panels);
	pq_sendint32(message, stats->filter_dimensions);
	pq_sendint64(message, stats->units_total);
	pq_sendint64(message, stats->candidates);
	pq_sendint64(message, stats->pairs);
	pq_sendbyte(message, stats->filter_sampled);
	pq_sendint64(message, stats->sampled_candidates);
	pq_sendint64(message, stats->sampled_pairs);
	for (int level = 0; level < FASTED_PRUNE_LEVELS; level++)
		pq_sendint64(message, stats->pruned_tiles[level]);
	pq_sendint64(message, stats->full_tiles);
	pq_sendint64(message, stats->host_bytes);
	pq_sendint64(message, stats->device_bytes);
	pq_sendfloat8(message, stats->prepare_seconds);
	pq_sendfloat8(message, stats->filter_seconds);
	pq_sendfloat8(message, stats->refine_seconds);
	pq_sendfloat8(message, stats->device_seconds);
}

static void
BeginMessage(StringInfo message, char tag)
{
	pq_begintypsend(message);
	pq_sendbyte(message, tag);
}

bytea *
ReportMessage(char tag, const SliceReport *report)
{
	StringInfoData message;

	BeginMessage(&message, tag);
	pq_sendint32(&message, WIRE_VERSION);
	for (int side = 0; side < 2; side++)
	{
		pq_sendint64(&message, report->rows[side].rows);
		pq_sendint64(&message, report->rows[side].hash);
	}
	pq_sendstring(&message, report->cut);
	pq_sendfloat8(&message, report->read_seconds);
	SendStatistics(&message, &report->stats);
	if (tag == MESSAGE_ROWS)
	{
		enlargeStringInfo(&message, SEND_BUFFER);
		memset(message.data + message.len, 0, SEND_BUFFER);
		message.len += SEND_BUFFER;
	}
	return pq_endtypsend(&message);
}

bytea *
PairsMessage(const FastedPair *pairs, size_t npairs)
{
	StringInfoData message;

	BeginMessage(&message, MESSAGE_PAIRS);
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

	BeginMessage(&message, MESSAGE_COUNTS);
	pq_sendint32(&message, first_row);
	for (size_t i = 0; i < nrows; i++)
		pq_sendint32(&message, counts[i]);
	return pq_endtypsend(&message);
}

/* --- reading */

/* The server's encoding is on both sides, and these texts are ASCII. */
static void
TakeText(StringInfo message, char *text, size_t size)
{
	strlcpy(text, pq_getmsgrawstring(message), size);
}

static void
TakeStatistics(StringInfo message, FastedStats *stats)
{
	TakeText(message, stats->engine, sizeof(stats->engine));
	TakeText(message, stats->device, sizeof(stats->device));
	TakeText(message, stats->kernel, sizeof(stats->kernel));
	TakeText(message, stats->filter, sizeof(stats->filter));
	stats->threads = (int) pq_getmsgint(message, 4);
	stats->rows = pq_getmsgint64(message);
	stats->dimensions = pq_getmsgint(message, 4);
	stats->panels = pq_getmsgint(message, 4);
	stats->filter_dimensions = pq_getmsgint(message, 4);
	stats->units_total = pq_getmsgint64(message);
	stats->candidates = pq_getmsgint64(message);
	stats->pairs = pq_getmsgint64(message);
	stats->filter_sampled = pq_getmsgbyte(message) != 0;
	stats->sampled_candidates = pq_getmsgint64(message);
	stats->sampled_pairs = pq_getmsgint64(message);
	for (int level = 0; level < FASTED_PRUNE_LEVELS; level++)
		stats->pruned_tiles[level] = pq_getmsgint64(message);
	stats->full_tiles = pq_getmsgint64(message);
	stats->host_bytes = pq_getmsgint64(message);
	stats->device_bytes = pq_getmsgint64(message);
	stats->prepare_seconds = pq_getmsgfloat8(message);
	stats->filter_seconds = pq_getmsgfloat8(message);
	stats->refine_seconds = pq_getmsgfloat8(message);
	stats->device_seconds = pq_getmsgfloat8(message);
}

char
MessageTag(StringInfo message)
{
	return (char) pq_getmsgbyte(message);
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
	for (int side = 0; side < 2; side++)
	{
		report->rows[side].rows = pq_getmsgint64(message);
		report->rows[side].hash = pq_getmsgint64(message);
	}
	TakeText(message, report->cut, sizeof(report->cut));
	report->read_seconds = pq_getmsgfloat8(message);
	TakeStatistics(message, &report->stats);
}

/* How many elements of so many bytes are left; more than most, or a part of one: an error. */
static size_t
ElementsLeft(StringInfo message, size_t bytes, size_t most)
{
	size_t		left = message->len - message->cursor;

	if (left % bytes != 0 || left / bytes > most)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a Citus worker sent a block of %zu bytes that is none", left)));
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
