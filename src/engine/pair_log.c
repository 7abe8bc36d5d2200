/*-------------------------------------------------------------------------
 *
 * pair_log.c
 *	  A growing array, sorted when it is first asked.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "pair_log.h"

static uint64_t
key_of(const FastedPair *pair)
{
	return (uint64_t) pair->a << 32 | pair->b;
}

static bool
make_room(PairLog *log, size_t more)
{
	size_t		room = log->room == 0 ? 4096 : log->room;
	uint64_t   *pairs;

	if (more <= log->room - log->count)
		return true;
	if (more > PAIR_LOG_MOST - log->count)
		return false;
	while (room - log->count < more)
		room *= 2;
	pairs = realloc(log->pairs, room * sizeof(uint64_t));
	if (pairs == NULL)
		return false;
	log->pairs = pairs;
	log->room = room;
	return true;
}

void
pair_log_add(PairLog *log, const FastedPair *pairs, size_t npairs)
{
	if (log->incomplete)
		return;
	if (!make_room(log, npairs))
	{
		log->incomplete = true;
		return;
	}
	for (size_t i = 0; i < npairs; i++)
		log->pairs[log->count++] = key_of(&pairs[i]);
	log->sorted = false;
}

void
pair_log_append(PairLog *log, const PairLog *other)
{
	if (log->incomplete || other->incomplete || !make_room(log, other->count))
	{
		log->incomplete = true;
		return;
	}
	if (other->count > 0)
		memcpy(log->pairs + log->count, other->pairs, other->count * sizeof(uint64_t));
	log->count += other->count;
	log->sorted = false;
}

static int
compare_keys(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return x < y ? -1 : x > y;
}

bool
pair_log_has(PairLog *log, const FastedPair *pair)
{
	uint64_t	key = key_of(pair);

	if (log->count == 0)
		return false;
	if (!log->sorted)
		qsort(log->pairs, log->count, sizeof(uint64_t), compare_keys);
	log->sorted = true;
	return bsearch(&key, log->pairs, log->count, sizeof(uint64_t), compare_keys) != NULL;
}

bool
pair_log_leave_out(PairLog *log, KeptPairs *kept, FastedBatch *batch)
{
	size_t		npairs = 0;

	if (kept->room < batch->npairs)
	{
		free(kept->pairs);
		kept->pairs = malloc(batch->npairs * sizeof(FastedPair));
		kept->room = kept->pairs != NULL ? batch->npairs : 0;
		if (kept->pairs == NULL)
			return false;
	}
	for (size_t i = 0; i < batch->npairs; i++)
	{
		if (!pair_log_has(log, &batch->pairs[i]))
			kept->pairs[npairs++] = batch->pairs[i];
	}
	batch->pairs = kept->pairs;
	batch->npairs = npairs;
	return true;
}

void
pair_log_clear(PairLog *log)
{
	log->count = 0;
	log->sorted = log->incomplete = false;
}

void
pair_log_free(PairLog *log)
{
	free(log->pairs);
	memset(log, 0, sizeof(*log));
}
