/*-------------------------------------------------------------------------
 *
 * work_queue.h
 *	  Which work is done, which is to do, and which has to be done again.
 *
 * A join is a sequence of rounds.  A round runs the filter over some items of
 * the tile order, rechecks the candidates, and hands the pairs on.  The blocks
 * of the filter take items from a queue.  A warp that finds no room for its
 * candidates puts the rest of its work on the list of voided work and raises
 * "stop"; no block takes a further item, and the next round, with an empty
 * buffer, begins with the voided work.  So nothing is lost whatever the number
 * of hits, and nobody has to count them first.
 *
 * What is left of whole items waits until all that single warps still have to do is
 * done: of it, much may have to be done again.  So the list stays as short as what
 * the blocks have in hand at once.
 *
 * All of this lives on the device: the host can launch a round before it knows
 * how the last one ended.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_WORK_QUEUE_H
#define FASTED_CUDA_WORK_QUEUE_H

#include <cstdint>

#include "filter/block_order.h"

namespace fasted
{

constexpr uint32_t kAllWarps = 0xffffffff;

/* One item, or the part of it that one warp still has to do. */
struct Work
{
	uint64_t	item;
	uint32_t	warp;			/* kAllWarps, or the only warp to report hits */
	uint32_t	resume;			/* where it begins, in the kernel's terms */
};

struct WorkState
{
	/* This round's queue: "again" of redone work first, then fresh items. */
	unsigned long long taken;
	unsigned long long fresh_first;
	unsigned long long fresh_end;
	unsigned long long total;	/* where fresh items end in the last round */
	uint32_t	again;
	uint32_t	list;			/* which of the two lists holds that work */

	/* Nobody begins anything: in this round, because of it; and at all. */
	uint32_t	stop;
	uint32_t	cancelled;

	/* What happened in this round. */
	uint32_t	voided;
	uint32_t	chunks_used;
	unsigned long long candidates;
	unsigned long long pairs;
	unsigned long long handed_out;	/* of connections: pairs */

	/* In all rounds: pairs that are open (connect.h), or would be if there were room. */
	unsigned long long open;
};

/* The host's copy of how a round ended. */
struct RoundReport
{
	unsigned long long candidates;
	unsigned long long pairs;
	unsigned long long handed_out;
	unsigned long long open;	/* so far */
	unsigned long long items_done;	/* up to here, of all rounds; redone ones once */
	uint32_t	voided;
	uint32_t	overflow;		/* a value does not fit FP16 (approximate only) */
	uint32_t	finished;		/* no work is left */
	uint32_t	again;			/* work on the list for the next round */
};

/* The number of items in the queue of a round. */
FASTED_HD inline unsigned long long
queue_length(const WorkState &state)
{
	return state.again + (state.fresh_end - state.fresh_first);
}

/* Redone work of this round that no block took. */
FASTED_HD inline uint32_t
left_again(const WorkState &state)
{
	return state.taken < state.again ? (uint32_t) (state.again - state.taken) : 0;
}

/*
 * Where an entry goes in a list of so many for the next round; number: of those of its
 * kind before it.
 */
FASTED_HD inline uint32_t
place_again(const Work &work, uint32_t length, uint32_t number)
{
	return work.warp == kAllWarps ? length - 1 - number : number;
}

/*
 * Ends a round and plans the next, of at most "budget" fresh items.  The caller
 * has put the left_again(state) untaken entries and the voided ones into the
 * other list.
 */
FASTED_HD inline RoundReport
advance_state(WorkState &state, unsigned long long budget)
{
	unsigned long long length = queue_length(state);
	unsigned long long done = state.taken < length ? state.taken : length;
	uint32_t	again = left_again(state) + state.voided;
	RoundReport report;

	if (done > state.again)
		state.fresh_first += done - state.again;
	report.candidates = state.candidates;
	report.pairs = state.pairs;
	report.handed_out = state.handed_out;
	report.open = state.open;
	report.items_done = state.fresh_first;
	report.voided = state.voided;
	report.overflow = 0;
	report.again = again;
	report.finished = (again == 0 && state.fresh_first == state.total);

	state.again = again;
	state.list ^= 1;
	state.fresh_end = state.fresh_first
		+ (state.total - state.fresh_first < budget
		   ? state.total - state.fresh_first : budget);
	state.taken = 0;
	state.voided = 0;
	state.stop = 0;
	state.chunks_used = 0;
	state.candidates = 0;
	state.pairs = 0;
	state.handed_out = 0;
	return report;
}

/* Before the first round, of items [first, end). */
inline WorkState
first_state(unsigned long long first, unsigned long long end, unsigned long long budget)
{
	WorkState	state = {};

	state.fresh_first = first;
	state.fresh_end = end - first < budget ? end : first + budget;
	state.total = end;
	return state;
}

}								/* namespace fasted */

#endif							/* FASTED_CUDA_WORK_QUEUE_H */
