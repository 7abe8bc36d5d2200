/*-------------------------------------------------------------------------
 *
 * multi_gpu_join.c
 *	  Distributes the slices of a join over several devices and merges the results.
 *
 * Each device is given a run of consecutive slices at a time.  Between two runs a device idles for about
 * 0.1 ms.  At the end, devices idle until the last run of another device is complete.  The runs are
 * therefore long at first and become shorter.
 *
 * Representatives (FASTED_OUTPUT_REPRESENTATIVES) depend on all pairs together, so a single device
 * does such a join.  Returning all pairs would take longer, even with two devices.  So would merging
 * neighbour lists on the host, which a single device finds if they are too long to be merged.
 *
 * Slices of different devices fit together only if the rows are in the same order on all devices, as on
 * identical ones.  The join fails if two hashes of this order differ.
 *
 * A device accumulates the counts of each row, or the neighbour lists, over all of its slices.  They
 * remain there until the caller asks for them, because fetching them would stall all devices.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host_device.h"
#include "multi_gpu.h"

/*
 * Time between two polls of all devices; none if slices were started less than POLL_AT_ONCE_MS
 * milliseconds ago, because a device idles from the end of its slices to the next poll.
 */
#define POLL_NS 50000
#define POLL_AT_ONCE_MS 1.0

/* Shortest work to assign to a device, in milliseconds, because of the overhead. */
#define MIN_WORK_MS 1.0

/* Number of units of progress per slice. */
#define SLICE_UNITS 1000

/* Number of bytes of neighbour lists to merge at a time; this takes a few milliseconds. */
#define WINDOW_BYTES ((uint64_t) 64 << 20)

/*
 * Number of slices of a join.  It does not depend on the number of devices, because other processes
 * may join other slices with fewer devices.  MAX_RUN_NEAREST limits the run of a device in a join
 * for nearest neighbours, whose first slices take longest.
 */
#define JOIN_SLICES 1024
#define MAX_RUN_NEAREST 32

/* The work that is assigned to a device. */
typedef struct DeviceWork
{
	bool		busy;			/* slices are assigned, and join is their join */
	uint32_t	slice;			/* first slice of the run */
	uint32_t	width;			/* number of slices in the run */
	double		start;			/* start time, in milliseconds */
	FastedJoin *join;			/* join of this or the previous run; NULL if there was none */
	FastedStats begun;			/* statistics of the device at the start */
} DeviceWork;

struct MultiGpuJoin
{
	MultiGpu   *gpus;
	FastedProblem problem;
	MultiGpuSet *sides[2];
	uint32_t	slices;			/* number of slices */
	uint64_t	order;			/* hash of the row order, once a slice is finished */
	DeviceWork	work[FASTED_MOST_GPUS];
	int			poll_first;		/* device to poll first */
	double		last_start;		/* time when slices were last started, in milliseconds */
	double		slice_ms;		/* time a device needed for one slice; 0 if not known yet */
	uint32_t	next_slice;		/* first slice that is not assigned yet */
	uint32_t	finished;		/* number of finished slices */
	uint64_t	pairs;			/* number of pairs in finished slices, or returned so far */

	bool		sorted;			/* all devices have sorted their neighbour lists */
	uint64_t	window;			/* last window of lists that was merged, counted from 1; 0: none */
};

static double
milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e3 * (double) now.tv_sec + 1e-6 * (double) now.tv_nsec;
}

static bool
finds_nearest(const MultiGpuJoin *join)
{
	return join->problem.output == FASTED_OUTPUT_NEAREST;
}

FastedStatus
multi_gpu_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a,
					FastedSet *b, FastedJoin **result)
{
	MultiGpu   *gpus = multi_gpu_of(context);
	MultiGpuJoin *join;

	*result = NULL;
	if (problem->components != NULL)
		return multi_gpu_fail(gpus, FASTED_UNSUPPORTED,
							  "Several GPUs together cannot search for neighbors in other components.\n"
							  "Set fasted.gpu_devices to a single GPU.");
	join = calloc(1, sizeof(*join));
	*result = (FastedJoin *) join;
	if (join == NULL)
		return multi_gpu_fail(gpus, FASTED_OUT_OF_MEMORY, "Could not allocate memory for a join.");
	join->gpus = gpus;
	join->problem = *problem;
	join->sides[0] = (MultiGpuSet *) a;
	join->sides[1] = (MultiGpuSet *) b;
	join->slices = problem->output == FASTED_OUTPUT_REPRESENTATIVES ||
		(finds_nearest(join) && problem->k > base_engine->most_merged) ? 1 : JOIN_SLICES;
	gpus->join = join;
	gpus->bound = true;
	return FASTED_OK;
}

/* Returns the length of the next run: about half of what is left per device. */
static uint32_t
slices_at_once(const MultiGpuJoin *join)
{
	uint32_t	left = join->slices - join->next_slice;
	uint32_t	even = left / (uint32_t) join->gpus->active;
	uint32_t	share = even / 2;

	/* at least MIN_WORK_MS of work, unless other devices would get nothing */
	if (join->slice_ms > 0 && share * join->slice_ms < MIN_WORK_MS)
		share = even * join->slice_ms < MIN_WORK_MS ? even : (uint32_t) (MIN_WORK_MS / join->slice_ms);
	if (finds_nearest(join) && share > MAX_RUN_NEAREST)
		share = MAX_RUN_NEAREST;
	return share > 0 ? share : 1;
}

/* Assigns slices to an idle device.  Returns false if there are none. */
static bool
take_slices(MultiGpuJoin *join, int m)
{
	DeviceWork *work = &join->work[m];

	if (join->next_slice == join->slices)
		return false;
	work->width = slices_at_once(join);
	work->slice = join->next_slice;
	join->next_slice += work->width;
	work->busy = true;
	return true;
}

/* Starts the slices that are assigned to a device, if any.  Slice i of n consists of join->slices slices. */
static FastedStatus
begin_slices(MultiGpu *gpus, int m, void *argument)
{
	MultiGpuJoin *join = argument;
	FastedContext *context = gpus->devices[m].context;
	DeviceWork *work = &join->work[m];
	FastedProblem problem = join->problem;
	FastedStatus status;

	if (!work->busy)
		return FASTED_OK;
	problem.slices = (problem.slices > 0 ? problem.slices : 1) * join->slices;
	problem.slice = problem.slice * join->slices + work->slice;
	problem.more_slices = work->width - 1;
	problem.continues = work->join == NULL ? finds_nearest(join) && problem.continues
		: problem.output != FASTED_OUTPUT_PAIRS;
	base_engine->join_close(work->join);
	work->join = NULL;
	base_engine->stats(context, &work->begun);
	status = base_engine->join_open(context, &problem, join->sides[0]->sets[m],
									join->sides[1]->sets[m], &work->join);
	work->start = milliseconds();
	return status;
}

/* Finishes the slices of a device, whose join stays open.  Returns FASTED_AGAIN or a failure. */
static FastedStatus
end_slices(MultiGpuJoin *join, int m)
{
	MultiGpu   *gpus = join->gpus;
	Device	   *device = &gpus->devices[m];
	DeviceWork *work = &join->work[m];
	FastedStats now;

	base_engine->stats(device->context, &now);
	if (join->finished == 0)
	{
		join->order = now.join_order;
		gpus->closed.order_hash = fasted_hash_order(gpus->closed.order_hash, join->order);
	}
	else if (now.join_order != join->order)
		return multi_gpu_fail(gpus, FASTED_INTERNAL,
							  "GPU \"%s\" has sorted its rows in another order than other GPUs",
							  device->name);
	join->slice_ms = (milliseconds() - work->start) / work->width;
	if (join->problem.output != FASTED_OUTPUT_PAIRS)
		join->pairs += now.pairs - work->begun.pairs;
	work->busy = false;
	join->finished += work->width;
	device->slices += work->width;
	return FASTED_AGAIN;
}

/* Starts the first slices on all devices in parallel. */
static FastedStatus
begin_all(MultiGpuJoin *join)
{
	for_each_device(m, join->gpus)
		(void) take_slices(join, m);
	(void) call_in_parallel(join->gpus, begin_slices, join);
	join->last_start = milliseconds();
	return join->gpus->failed;
}

/*
 * Polls one device and gives it work if it has none.  Returns FASTED_OK with pairs in *batch,
 * FASTED_AGAIN if there are none yet, FASTED_DONE if no work is left for it, or a failure.
 */
static FastedStatus
poll_device(MultiGpuJoin *join, int m, int timeout_ms, FastedBatch *batch)
{
	MultiGpu   *gpus = join->gpus;
	DeviceWork *work = &join->work[m];
	FastedStatus status = FASTED_OK;

	if (!work->busy)
	{
		if (!take_slices(join, m))
			return FASTED_DONE;
		status = begin_slices(gpus, m, join);
		join->last_start = milliseconds();
	}
	if (status == FASTED_OK)
		status = base_engine->next(work->join, timeout_ms, batch);
	if (status == FASTED_DONE)
		status = end_slices(join, m);
	if (!multi_gpu_check(gpus, m, status))
		return gpus->failed;
	if (status == FASTED_OK && join->problem.output == FASTED_OUTPUT_PAIRS)
		join->pairs += batch->npairs;
	return status;
}

/* Polls each device once, first the one after the device that last returned pairs. */
static FastedStatus
poll_all(MultiGpuJoin *join, int timeout_ms, FastedBatch *batch)
{
	int			n = join->gpus->ndevices;
	int			first = join->poll_first;

	for (int i = 0; i < n; i++)
	{
		int			m = (first + i) % n;
		FastedStatus status = FASTED_DONE;

		if (join->gpus->devices[m].in_use)
			status = poll_device(join, m, timeout_ms, batch);
		if (status == FASTED_OK)
			join->poll_first = (m + 1) % n;
		if (status == FASTED_OK || FASTED_FAILED(status))
			return status;
	}
	return join->finished == join->slices ? FASTED_DONE : FASTED_AGAIN;
}

FastedStatus
multi_gpu_next(FastedJoin *handle, int timeout_ms, FastedBatch *batch)
{
	MultiGpuJoin *join = (MultiGpuJoin *) handle;
	double		end = milliseconds() + timeout_ms;
	struct timespec rest = {.tv_nsec = POLL_NS};

	memset(batch, 0, sizeof(*batch));
	if (join->next_slice == 0 && begin_all(join) != FASTED_OK)
		return join->gpus->failed;
	for (;;)
	{
		/* a single device may block; several are polled in turn */
		int			wait = join->gpus->active == 1 ? timeout_ms : 0;
		FastedStatus status = poll_all(join, wait, batch);
		double		now = milliseconds();

		if (status != FASTED_AGAIN || now >= end)
			return status;
		if (wait == 0 && now - join->last_start > POLL_AT_ONCE_MS)
			nanosleep(&rest, NULL);
	}
}

void
multi_gpu_pause(FastedJoin *handle)
{
	MultiGpuJoin *join = (MultiGpuJoin *) handle;

	for (int m = 0; m < join->gpus->ndevices; m++)
	{
		if (join->work[m].busy && join->gpus->failed == FASTED_OK)
			base_engine->pause(join->work[m].join);
	}
}

FastedStatus
multi_gpu_counts(FastedJoin *handle, int side, uint64_t first_row, size_t nrows, uint32_t *counts)
{
	MultiGpuJoin *join = (MultiGpuJoin *) handle;

	memset(counts, 0, nrows * sizeof(uint32_t));
	for_each_device(m, join->gpus)
	{
		/* a device that has joined no slice has no counts */
		if (join->work[m].join != NULL &&
			!multi_gpu_check(join->gpus, m, fasted_add_counts(base_engine, join->work[m].join, side,
															  first_row, nrows, counts)))
			break;
	}
	return join->gpus->failed;
}

void
multi_gpu_join_stats(const MultiGpuJoin *join, FastedStats *stats)
{
	double		done = SLICE_UNITS * (double) join->finished;

	stats->pairs += join->pairs;
	for (int m = 0; m < join->gpus->ndevices; m++)
	{
		const DeviceWork *work = &join->work[m];
		FastedStats now;
		double		total;

		if (!work->busy)
			continue;
		base_engine->stats(join->gpus->devices[m].context, &now);
		total = (double) (now.units_total - work->begun.units_total);
		if (total > 0)
			done += SLICE_UNITS * work->width * (double) (now.units_done - work->begun.units_done) / total;
		if (join->problem.output != FASTED_OUTPUT_PAIRS)
			stats->pairs += now.pairs - work->begun.pairs;
	}
	stats->units_total += SLICE_UNITS * join->slices;
	stats->units_done += (uint64_t) done;
}

/* Closes a join and adds its statistics to those of the context. */
void
multi_gpu_join_close(FastedJoin *handle)
{
	MultiGpuJoin *join = (MultiGpuJoin *) handle;

	if (join == NULL)
		return;
	multi_gpu_join_stats(join, &join->gpus->closed);
	for (int m = 0; m < join->gpus->ndevices; m++)
		base_engine->join_close(join->work[m].join);
	join->gpus->join = NULL;
	free(join);
}

/*
 * --- nearest neighbours
 *
 * Each device has neighbour lists for all rows, made from the pairs in its own slices.  Because a
 * pair belongs to one slice, the list of a row consists of the first k neighbours of all devices'
 * lists together.  They are merged in windows of some thousand rows, by one device after the other.
 */

/* Calls the nearest function of one device.  Returns the status of the context. */
static FastedStatus
read_lists(const MultiGpuJoin *join, int m, uint64_t first_row, size_t nrows, uint32_t *lengths,
		   FastedNeighbor *neighbors)
{
	(void) multi_gpu_check(join->gpus, m, base_engine->nearest(join->work[m].join, first_row, nrows,
															   lengths, neighbors));
	return join->gpus->failed;
}

/* Merges the lists of a window on one device, unless that is done already.  Returns its number. */
static int
merge_lists(MultiGpuJoin *join, uint64_t window, uint64_t first, size_t nrows)
{
	MultiGpu   *gpus = join->gpus;
	int			owner = next_device(gpus, 0);
	FastedStatus status = FASTED_OK;

	for (uint64_t n = window % (uint64_t) gpus->active; n > 0; n--)
		owner = next_device(gpus, owner + 1);
	if (join->window == window + 1)
		return owner;
	for_each_device(m, gpus)
	{
		if (m != owner && status == FASTED_OK)
			status = base_engine->merge_lists(join->work[owner].join, join->work[m].join, first, nrows);
	}
	(void) multi_gpu_check(gpus, owner, status);
	join->window = window + 1;
	return owner;
}

FastedStatus
multi_gpu_nearest(FastedJoin *handle, uint64_t first_row, size_t nrows, uint32_t *lengths,
				  FastedNeighbor *neighbors)
{
	MultiGpuJoin *join = (MultiGpuJoin *) handle;
	MultiGpu   *gpus = join->gpus;
	uint64_t	rows = join->sides[0]->rows;
	uint64_t	row_bytes = join->problem.k * sizeof(FastedNeighbor);
	uint64_t	window_rows = row_bytes < WINDOW_BYTES ? WINDOW_BYTES / row_bytes : 1;

	if (join->slices == 1)
		return read_lists(join, next_device(gpus, 0), first_row, nrows, lengths, neighbors);
	if (first_row > rows || nrows > rows - first_row)
		return multi_gpu_fail(gpus, FASTED_INTERNAL,
							  "row numbers out of range in request for neighbors");
	for_each_device(m, gpus)
	{
		if (!join->sorted && read_lists(join, m, 0, 0, NULL, NULL) != FASTED_OK)
			return gpus->failed;
	}
	join->sorted = true;
	while (nrows > 0 && gpus->failed == FASTED_OK)
	{
		uint64_t	first = first_row - first_row % window_rows;
		uint64_t	end = first + window_rows < rows ? first + window_rows : rows;
		size_t		some = nrows < end - first_row ? nrows : end - first_row;
		int			owner = merge_lists(join, first / window_rows, first, end - first);

		if (gpus->failed != FASTED_OK ||
			read_lists(join, owner, first_row, some, lengths, neighbors) != FASTED_OK)
			break;
		first_row += some;
		nrows -= some;
		lengths += some;
		neighbors += some * join->problem.k;
	}
	return gpus->failed;
}
