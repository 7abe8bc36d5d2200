/*-------------------------------------------------------------------------
 *
 * cpu_devices.h
 *	  A multi-GPU engine in which the CPU engine acts as each device.
 *
 * Any call of any device can be made to fail, and devices can be slow.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CPU_DEVICES_H
#define CPU_DEVICES_H

#include <pthread.h>

#include "copied_rows.h"
#include "join.h"

#define DEVICES 4

/* Settings of the devices, and what they recorded. */
static struct
{
	int			devices;
	int			slow;			/* this device finds nothing in most polls; -1: none */
	int			fail_device;	/* this device fails; -1: none */
	int			fail_call;		/* in its call of this number */
	int			fail_calls[DEVICES];	/* the same for each device; 0: never */
	bool		lends;			/* the first device registers memory */
	FastedContext *contexts[DEVICES];
	int			opened;
	int			closed;
	int			calls[DEVICES];
	bool		failed[DEVICES];
	int			after_failure;	/* calls after a failure, which are forbidden */
	uint32_t	k;				/* neighbors per row */
	int			adds;			/* number of calls that merged lists */
	int			full_device;	/* out of memory for rows from its call full_call on; -1: none */
	int			full_call;
	int			other_order;	/* device with a different row order; -1: none */
	int			order_from;		/* from its call of this number on */
} play;

/* Devices open, seal, start and close in parallel. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static FastedEngine base;

static int
device_of(const FastedContext *context)
{
	for (int i = DEVICES - 1; i > 0; i--)
	{
		if (play.contexts[i] == context)
			return i;
	}
	return 0;
}

/* Counts a call of a device; returns true if the call fails. */
static bool
call_fails(const FastedContext *context)
{
	int			device;
	bool		fails;

	pthread_mutex_lock(&lock);
	device = device_of(context);
	play.after_failure += play.failed[device];
	play.calls[device]++;
	if ((device == play.fail_device && play.calls[device] == play.fail_call) ||
		(play.fail_calls[device] > 0 && play.calls[device] >= play.fail_calls[device]))
		play.failed[device] = true;
	fails = play.failed[device];
	pthread_mutex_unlock(&lock);
	return fails;
}

static int
play_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	(void) devices;
	for (int i = 0; i < play.devices && i < most; i++)
		snprintf(names[i], FASTED_DEVICE_NAME, "device %d", i);
	return play.devices < most ? play.devices : most;
}

static FastedStatus
play_open(const FastedOptions *options, FastedContext **context)
{
	FastedOptions own = *options;
	FastedStatus status;

	own.devices = NULL;
	own.threads = 1;
	status = fasted_cpu_engine()->open(&own, context);
	pthread_mutex_lock(&lock);
	play.contexts[atoi(options->devices + strlen("device "))] = *context;
	play.opened++;
	pthread_mutex_unlock(&lock);
	return status == FASTED_OK && call_fails(*context) ? FASTED_DEVICE_FAILED : status;
}

static void
play_close(FastedContext *context)
{
	pthread_mutex_lock(&lock);
	play.closed++;
	pthread_mutex_unlock(&lock);
	fasted_cpu_engine()->close(context);
}

static const char *
play_last_error(const FastedContext *context)
{
	return context != NULL && play.failed[device_of(context)] ? "The device was told to fail."
		: fasted_cpu_engine()->last_error(context);
}

static FastedStatus
play_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **set)
{
	*set = NULL;
	return call_fails(context) ? FASTED_DEVICE_FAILED : fasted_cpu_engine()->set_open(context, options, set);
}

/* Largest number of rows of a set in a nearest-neighbor join. */
#define MOST_NEAR 300

/* Neighbors that a device has found in its slices, for each row of a. */
typedef struct Near
{
	FastedNeighbor *list;
	uint32_t	length;
	uint32_t	room;
} Near;
static Near near[DEVICES][MOST_NEAR];

static void
add_near(Near *to, FastedNeighbor neighbor)
{
	if (to->length == to->room)
	{
		to->room = 2 * to->room + 16;
		to->list = realloc(to->list, to->room * sizeof(*to->list));
		if (to->list == NULL)
			abort();
	}
	to->list[to->length++] = neighbor;
}

static int
compare_near(const void *left, const void *right)
{
	const FastedNeighbor *x = left;
	const FastedNeighbor *y = right;

	if (x->dist != y->dist)
		return x->dist < y->dist ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Sorts the list and truncates it to k neighbors. */
static void
order_near(Near *list)
{
	if (list->length > 0)
		qsort(list->list, list->length, sizeof(FastedNeighbor), compare_near);
	if (list->length > play.k)
		list->length = play.k;
}

/* Finds all neighbors of a slice.  Rows i and j are compared in slice (i + j) % slices. */
static void
find_near(const FastedProblem *problem, const FastedSet *a, const FastedSet *b, Near *lists)
{
	uint32_t	dimensions = a->rows.row_floats;

	pthread_mutex_lock(&lock);
	play.k = problem->k;
	pthread_mutex_unlock(&lock);
	if (a->rows.rows > MOST_NEAR)
		abort();
	for (uint64_t i = 0; i < a->rows.rows; i++)
	{
		if (!problem->continues)
			lists[i].length = 0;
		for (uint64_t j = 0; j < b->rows.rows; j++)
		{
			uint32_t	slice = (uint32_t) ((i + j) % problem->slices);
			double		dist;

			if ((a == b && i == j) || slice < problem->slice ||
				slice > problem->slice + problem->more_slices)
				continue;
			dist = fasted_exact_distance(row_store_row(&a->rows, i), row_store_row(&b->rows, j), dimensions);
			if (!(dist <= problem->eps))
				continue;
			add_near(&lists[i], (FastedNeighbor) {
				.row = problem->ranks != NULL ? problem->ranks[j]
				: (uint32_t) (b->options.first_row + j),.dist = dist
			});
		}
	}
}

static FastedStatus
play_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a, FastedSet *b,
			   FastedJoin **join)
{
	FastedProblem played = *problem;

	*join = NULL;
	if (call_fails(context))
		return FASTED_DEVICE_FAILED;
	if (a->context != context || b->context != context)
		abort();
	/* neighbors are found immediately; the join to wait for is a counting join */
	if (played.output == FASTED_OUTPUT_NEAREST)
	{
		find_near(problem, a, b, near[device_of(context)]);
		played.output = FASTED_OUTPUT_COUNT;
	}
	/* all pairs determine the representatives, if one device finds them all */
	if (played.output == FASTED_OUTPUT_REPRESENTATIVES)
		played.output = played.slices > 1 ? FASTED_OUTPUT_COUNT : FASTED_OUTPUT_PAIRS;
	return fasted_cpu_engine()->join_open(context, &played, a, b, join);
}

#define PLAY(name, handle, parameters, arguments) \
	static FastedStatus play_##name parameters \
	{ \
		return call_fails((handle)->context) ? FASTED_DEVICE_FAILED \
			: fasted_cpu_engine()->name arguments; \
	}

PLAY(stage, set, (FastedSet *set, float **rows, size_t *capacity), (set, rows, capacity))
PLAY(commit, set, (FastedSet *set, size_t nrows), (set, nrows))
PLAY(set_reset, set, (FastedSet *set, uint64_t first_row), (set, first_row))

static bool
is_full(const FastedContext *context)
{
	int			device = device_of(context);

	return device == play.full_device && play.calls[device] >= play.full_call;
}

static FastedStatus
play_copy_set(FastedSet *set, const FastedSet *from)
{
	if (call_fails(set->context))
		return FASTED_DEVICE_FAILED;
	return is_full(set->context) ? FASTED_FULL : copy_set(set, from);
}

static FastedStatus
play_put(FastedSet *set, const float *rows, size_t nrows, size_t *taken)
{
	if (call_fails(set->context))
		return FASTED_DEVICE_FAILED;
	return fasted_cpu_engine()->put(set, rows, nrows > 100 ? 100 : nrows, taken);
}

PLAY(wait_read, set, (FastedSet *set, bool all), (set, all))
PLAY(seal, set, (FastedSet *set), (set))
PLAY(read_back, set, (FastedSet *set, uint64_t first_row, size_t nrows, float *rows),
	 (set, first_row, nrows, rows))
PLAY(counts, join,
	 (FastedJoin *join, int side, uint64_t first_row, size_t nrows, uint32_t *counts),
	 (join, side, first_row, nrows, counts))

/* Returns the first k neighbors that the device found in its slices. */
static FastedStatus
play_nearest(FastedJoin *join, uint64_t first_row, size_t nrows, uint32_t *lengths,
			 FastedNeighbor *neighbors)
{
	if (call_fails(join->context))
		return FASTED_DEVICE_FAILED;
	for (size_t i = 0; i < nrows; i++)
	{
		Near	   *list = &near[device_of(join->context)][first_row + i];

		order_near(list);
		lengths[i] = list->length;
		if (list->length > 0)
			memcpy(neighbors + i * play.k, list->list, list->length * sizeof(FastedNeighbor));
	}
	return FASTED_OK;
}

static FastedStatus
play_merge_lists(FastedJoin *join, const FastedJoin *from, uint64_t first_row, size_t nrows)
{
	if (call_fails(join->context))
		return FASTED_DEVICE_FAILED;
	play.adds++;
	for (uint64_t row = first_row; row < first_row + nrows; row++)
	{
		Near	   *list = &near[device_of(join->context)][row];
		Near	   *other = &near[device_of(from->context)][row];
		uint32_t	length;

		order_near(list);
		order_near(other);
		length = list->length;
		for (uint32_t i = 0; i < other->length; i++)
		{
			bool		both = false;

			for (uint32_t j = 0; j < length; j++)
				both = both || compare_near(&list->list[j], &other->list[i]) == 0;
			if (!both)
				add_near(list, other->list[i]);
		}
		order_near(list);
	}
	return FASTED_OK;
}

static void
play_stats(const FastedContext *context, FastedStats *stats)
{
	fasted_cpu_engine()->stats(context, stats);
	stats->join_order = device_of(context) == play.other_order &&
		play.calls[play.other_order] >= play.order_from ? 2 : 1;
}

static bool
play_register_memory(FastedSet *set, void *memory, size_t bytes)
{
	(void) fasted_cpu_engine()->register_memory(set, memory, bytes);
	return play.lends;
}

static FastedStatus
play_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	FastedContext *context = join->context;

	if (call_fails(context))
		return FASTED_DEVICE_FAILED;
	if (device_of(context) == play.slow && play.calls[play.slow] % 100 != 0)
		return FASTED_AGAIN;
	return fasted_cpu_engine()->next(join, timeout_ms, batch);
}

static void
make_base(void)
{
	base = *fasted_cpu_engine();
	base.devices = play_devices;
	base.open = play_open;
	base.close = play_close;
	base.last_error = play_last_error;
	base.set_open = play_set_open;
	base.stage = play_stage;
	base.commit = play_commit;
	base.copy_set = play_copy_set;
	base.chooses_representatives = true;
	base.register_memory = play_register_memory;
	base.put = play_put;
	base.wait_read = play_wait_read;
	base.seal = play_seal;
	base.set_reset = play_set_reset;
	base.read_back = play_read_back;
	base.join_open = play_join_open;
	base.next = play_next;
	base.counts = play_counts;
	base.nearest = play_nearest;
	base.merge_lists = play_merge_lists;
	base.most_merged = UINT32_MAX;
	base.stats = play_stats;
	join_engine = fasted_multi_gpu_engine(&base);
}

static void
reset_play(int devices)
{
	memset(&play, 0, sizeof(play));
	play.devices = devices;
	play.slow = play.fail_device = play.full_device = play.other_order = -1;
	play.lends = true;
}

#endif							/* CPU_DEVICES_H */
