/*-------------------------------------------------------------------------
 *
 * multi_gpu.c
 *	  A multi-GPU engine, which divides each join among several devices of another engine.
 *
 * A multi-GPU context has one context of the other engine for each device.  Usually each device
 * holds all rows of a set.  It reads them from registered memory or from the staging buffer of the
 * first device.  A join is divided into slices, which are assigned to idle devices, so that a
 * slower device joins fewer slices.  All devices must divide the join into the same slices, so they
 * must be identical (engine.h, "devices").  If a call fails on one device, the whole context fails,
 * with a message that names the device.
 *
 * If not all rows fit into the memory of one device, a set may be distributed.  Each device then
 * holds some parts of the set, as sets of their own.  It also has memory for a copy of one part of
 * another device, to join it with its own parts.  Joins of parts are assigned to idle devices.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_device.h"
#include "multi_gpu.h"

static const FastedEngine *base_engine;
static const char open_error[] = "Could not allocate memory for a context.";

FastedStatus
multi_gpu_fail(MultiGpu *gpus, FastedStatus status, const char *format,...)
{
	va_list		arguments;

	gpus->failed = status;
	va_start(arguments, format);
	vsnprintf(gpus->error, sizeof(gpus->error), format, arguments);
	va_end(arguments);
	return status;
}

bool
multi_gpu_check(MultiGpu *gpus, int m, FastedStatus status)
{
	const Device *device = &gpus->devices[m];

	if (FASTED_FAILED(status) && gpus->failed == FASTED_OK)
		multi_gpu_fail(gpus, status, "%s: %s", device->name, gpus->base->last_error(device->context));
	return !FASTED_FAILED(status);
}

/* --- parallel calls for all devices */

typedef struct ParallelCall
{
	MultiGpu   *gpus;
	int			m;
	DeviceCall	call;
	void	   *argument;
	bool		threaded;			/* a thread was started for it */
	pthread_t	thread;
} ParallelCall;

static void *
run_call(void *argument)
{
	ParallelCall *one_call = argument;

	one_call->gpus->devices[one_call->m].status =
		one_call->call(one_call->gpus, one_call->m, one_call->argument);
	return NULL;
}

/* Starting a thread takes about 20 us, and each call takes a millisecond or more. */
FastedStatus
call_in_parallel(MultiGpu *gpus, DeviceCall call, void *argument)
{
	ParallelCall		calls[FASTED_MOST_GPUS];

	for (int m = 0; m < gpus->ndevices; m++)
	{
		ParallelCall *one_call = &calls[m];

		*one_call = (ParallelCall) {.gpus = gpus,.m = m,.call = call,.argument = argument};
		one_call->threaded = m > 0 && fasted_start_thread(&one_call->thread, 0, run_call, one_call);
	}
	for (int m = 0; m < gpus->ndevices; m++)
	{
		if (!calls[m].threaded)
			run_call(&calls[m]);
	}
	for (int m = 0; m < gpus->ndevices; m++)
	{
		if (calls[m].threaded)
			(void) pthread_join(calls[m].thread, NULL);
	}
	for_each_device(m, gpus)
		(void) multi_gpu_check(gpus, m, gpus->devices[m].status);
	return gpus->failed;
}

/* --- contexts */

static FastedStatus
open_device(MultiGpu *gpus, int m, void *options)
{
	FastedOptions own = *(const FastedOptions *) options;

	own.devices = gpus->devices[m].name;
	return gpus->base->open(&own, &gpus->devices[m].context);
}

/*
 * Opens the contexts of all devices in parallel, because the first context of a process on a device
 * takes a quarter of a second.  A device that cannot be opened is not used.  The call fails only if
 * no device can be opened.
 */
static FastedStatus
multi_gpu_open(const FastedOptions *options, FastedContext **result)
{
	char		names[FASTED_MOST_GPUS][FASTED_DEVICE_NAME];
	FastedOptions own = *options;
	MultiGpu   *gpus = calloc(1, sizeof(*gpus));

	*result = (FastedContext *) gpus;
	if (gpus == NULL)
		return FASTED_OUT_OF_MEMORY;
	gpus->base = base_engine;
	gpus->row_floats = fasted_row_floats(options);
	gpus->ndevices = gpus->base->devices(options->devices, names, FASTED_MOST_GPUS);
	if (gpus->ndevices == 0)
		return multi_gpu_fail(gpus, FASTED_NO_DEVICE, "No GPU was found.");
	for (int m = 0; m < gpus->ndevices; m++)
		memcpy(gpus->devices[m].name, names[m], sizeof(names[m]));
	(void) call_in_parallel(gpus, open_device, &own);
	for (int m = 0; m < gpus->ndevices; m++)
	{
		Device	   *device = &gpus->devices[m];

		device->in_use = device->status == FASTED_OK;
		gpus->active += device->in_use;
		if (device->in_use)
			continue;
		multi_gpu_fail(gpus, device->status, "%s", gpus->base->last_error(device->context));
		gpus->base->close(device->context);
		device->context = NULL;
	}
	if (gpus->active > 0)
		gpus->failed = FASTED_OK;
	return gpus->failed;
}

/* Describes the devices and their shares of the work in stats->device. */
static void
describe_devices(const MultiGpu *gpus, const char *kind, FastedStats *stats)
{
	uint64_t	slices = 0;
	size_t		length = 0;

	for (int m = 0; m < gpus->ndevices; m++)
		slices += gpus->devices[m].slices;
	for (int m = 0; m < gpus->ndevices && length < sizeof(stats->device); m++)
	{
		const Device *device = &gpus->devices[m];

		length += snprintf(stats->device + length, sizeof(stats->device) - length,
						   "%s%.60s (%.12s, %.0f%%%s)", m > 0 ? ", " : "", kind, device->name,
						   slices > 0 ? 100.0 * (double) device->slices / (double) slices : 0.0,
						   device->in_use ? "" : ", not used");
	}
}

static void
multi_gpu_stats(const FastedContext *context, FastedStats *stats)
{
	const MultiGpu *gpus = multi_gpu_of(context);
	bool		any = false;
	char		kind[64];

	memset(stats, 0, sizeof(*stats));
	snprintf(stats->engine, sizeof(stats->engine), "%s", base_engine->name);
	for_each_device(m, gpus)
	{
		FastedStats one;

		gpus->base->stats(gpus->devices[m].context, &one);
		if (any)
			fasted_add_stats(stats, &one);
		else
			*stats = one;
		any = true;
	}
	snprintf(kind, sizeof(kind), "%.60s", stats->device);
	describe_devices(gpus, kind, stats);
	stats->pairs = gpus->pairs;
	stats->units_done = gpus->units_done;
	stats->units_total = gpus->units_total;
	stats->order_hash = gpus->order_hash;
	if (gpus->join != NULL)
		multi_gpu_join_stats(gpus->join, stats);
}

static const char *
multi_gpu_last_error(const FastedContext *context)
{
	return context != NULL ? multi_gpu_of(context)->error : open_error;
}

static bool
multi_gpu_fits(const FastedContext *context, const uint64_t *rows, int nsets)
{
	const MultiGpu *gpus = multi_gpu_of(context);

	for_each_device(m, gpus)
	{
		if (!gpus->base->fits(gpus->devices[m].context, rows, nsets))
			return false;
	}
	return true;
}

static uint64_t
multi_gpu_rows_for_lists(const FastedContext *context, uint64_t rows, uint32_t k)
{
	const MultiGpu *gpus = multi_gpu_of(context);

	return gpus->base->rows_for_lists(gpus->devices[next_device(gpus, 0)].context, rows, k);
}

static int
multi_gpu_device_count(const FastedContext *context)
{
	return multi_gpu_of(context)->active;
}

/* --- sets */

/* All devices are considered: one that is not in use any more may have registered the memory. */
static void
multi_gpu_unregister_memory(FastedSet *handle)
{
	MultiGpuSet *set = (MultiGpuSet *) handle;

	for (int i = parts_of(set) - 1; i >= 0; i--)
	{
		if (set->parts[i].set != NULL)
			set->gpus->base->unregister_memory(set->parts[i].set);
	}
}

static FastedStatus
close_parts(MultiGpu *gpus, int m, void *argument)
{
	MultiGpuSet *set = argument;

	for (int i = 0; i < set->each; i++)
		gpus->base->set_close(set->parts[m * set->each + i].set);
	gpus->base->set_close(set->copies[m].set);
	return FASTED_OK;
}

/* Closes a set.  First waits until no device reads its rows any more. */
static void
multi_gpu_set_close(FastedSet *handle)
{
	MultiGpuSet *set = (MultiGpuSet *) handle;
	MultiGpuSet **link;

	if (set == NULL)
		return;
	for (link = &set->gpus->sets; *link != set; link = &(*link)->next)
		;
	*link = set->next;
	multi_gpu_unregister_memory(handle);
	(void) call_in_parallel(set->gpus, close_parts, set);
	free(set);
}

static FastedStatus
close_device(MultiGpu *gpus, int m, void *unused)
{
	(void) unused;
	if (gpus->devices[m].context != NULL)
		gpus->base->close(gpus->devices[m].context);
	return FASTED_OK;
}

static void
multi_gpu_close(FastedContext *context)
{
	MultiGpu   *gpus = multi_gpu_of(context);

	if (gpus == NULL)
		return;
	multi_gpu_join_close((FastedJoin *) gpus->join);
	while (gpus->sets != NULL)
		multi_gpu_set_close((FastedSet *) gpus->sets);
	(void) call_in_parallel(gpus, close_device, NULL);
	free(gpus);
}

/* Opens a device's parts of a set, and its set for a copy of another device's part. */
static FastedStatus
open_parts(MultiGpuSet *set, int m, const FastedSetOptions *options)
{
	const FastedEngine *base = set->gpus->base;
	FastedContext *context = set->gpus->devices[m].context;
	FastedStatus status = FASTED_OK;

	for (int i = 0; i < set->each && status == FASTED_OK; i++)
		status = base->set_open(context, options, &set->parts[m * set->each + i].set);
	if (status == FASTED_OK && set->distributed)
		status = base->set_open(context, options, &set->copies[m].set);
	return status;
}

/* Opens a set.  A distributed set is divided evenly if it has its maximum number of rows. */
static FastedStatus
multi_gpu_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **result)
{
	MultiGpu   *gpus = multi_gpu_of(context);
	MultiGpuSet *set = calloc(1, sizeof(*set));
	FastedSetOptions own = *options;
	uint64_t	first = 0;

	*result = NULL;
	if (set == NULL)
		return multi_gpu_fail(gpus, FASTED_OUT_OF_MEMORY, "Could not allocate memory for a set of rows.");
	set->gpus = gpus;
	set->first_row = options->first_row;
	set->distributed = options->distributed;
	set->each = set->distributed ? FASTED_PARTS_PER_DEVICE : 1;
	set->part_rows = UINT64_MAX;
	set->next = gpus->sets;
	gpus->sets = set;
	if (set->distributed)
	{
		set->part_rows = own.most_rows = own.expected_rows =
			ceil_div(options->most_rows, (uint64_t) (gpus->active * set->each));
		own.distributed = false;
		gpus->bound = true;
	}
	for (int i = 0; i < parts_of(set); i++)
		set->parts[i].device = i / set->each;
	for_each_device(m, gpus)
	{
		if (!multi_gpu_check(gpus, m, open_parts(set, m, &own)))
			return gpus->failed;
		for (int i = m * set->each; i < (m + 1) * set->each && set->distributed; i++)
		{
			set->parts[i].first = first;
			first += set->part_rows;
		}
	}
	*result = (FastedSet *) set;
	return FASTED_OK;
}

/*
 * Returns the part in which rows are staged, or NULL if all parts are full.  If the set is not
 * distributed, this is always the part of the first device.
 */
static SetPart *
next_part(MultiGpuSet *set)
{
	for (int i = 0; i < parts_of(set); i++)
	{
		SetPart    *part = &set->parts[i];

		if (set->gpus->devices[part->device].in_use && part->rows < set->part_rows)
			return part;
	}
	return NULL;
}

static FastedStatus
multi_gpu_stage(FastedSet *handle, float **rows, size_t *capacity)
{
	MultiGpuSet *set = (MultiGpuSet *) handle;
	SetPart    *part = next_part(set);
	FastedStatus status;

	if (part == NULL)
		return FASTED_FULL;
	status = set->gpus->base->stage(part->set, rows, capacity);
	(void) multi_gpu_check(set->gpus, part->device, status);
	if (status == FASTED_OK && *capacity > set->part_rows - part->rows)
		*capacity = set->part_rows - part->rows;
	return status;
}

/*
 * Checks the status of a call that adds rows to a device after the first device has added them.  A
 * device whose memory is full is not used any further, unless a join or a set depends on it.
 */
static void
check_same_rows(MultiGpu *gpus, int m, FastedStatus status)
{
	Device	   *device = &gpus->devices[m];

	if (status != FASTED_FULL)
		(void) multi_gpu_check(gpus, m, status);
	else if (gpus->bound)
		multi_gpu_fail(gpus, FASTED_OUT_OF_DEVICE_MEMORY,
					   "GPU \"%s\" has less free memory than another GPU.",
					   device->name);
	else
	{
		device->in_use = false;
		gpus->active--;
	}
}

/* The other devices read the rows before the first device may reuse its staging buffer. */
static FastedStatus
multi_gpu_commit(FastedSet *handle, size_t nrows)
{
	MultiGpuSet *set = (MultiGpuSet *) handle;
	MultiGpu   *gpus = set->gpus;
	SetPart    *part = next_part(set);

	if (part == NULL)
		return multi_gpu_fail(gpus, FASTED_INTERNAL, "rows were committed without being staged");
	for_each_device(m, gpus)
	{
		if (set->distributed || m == part->device || nrows == 0)
			continue;
		check_same_rows(gpus, m, gpus->base->copy_staged(set->parts[m].set, part->set, nrows));
		if (gpus->failed != FASTED_OK)
			return gpus->failed;
		set->parts[m].rows += nrows;
	}
	(void) multi_gpu_check(gpus, part->device, gpus->base->commit(part->set, nrows));
	part->rows += nrows;
	return gpus->failed;
}

/* Registers the memory for all devices in use, or for none of them. */
static bool
multi_gpu_register_memory(FastedSet *handle, void *memory, size_t bytes)
{
	MultiGpuSet *set = (MultiGpuSet *) handle;

	for_each_device(m, set->gpus)
	{
		if (set->gpus->base->register_memory(set->parts[m].set, memory, bytes))
			continue;
		multi_gpu_unregister_memory(handle);
		return false;
	}
	return true;
}

/* Adds nrows rows to one device's set. */
static void
put_rows(MultiGpuSet *set, int m, const float *rows, size_t nrows)
{
	while (nrows > 0)
	{
		size_t		taken = 0;
		FastedStatus status = set->gpus->base->put(set->parts[m].set, rows, nrows, &taken);

		check_same_rows(set->gpus, m, status);
		if (status != FASTED_OK)
			return;
		set->parts[m].rows += taken;
		rows += taken * set->gpus->row_floats;
		nrows -= taken;
	}
}

/* The first device decides how many rows are added; the others add the same number. */
static FastedStatus
multi_gpu_put(FastedSet *handle, const float *rows, size_t nrows, size_t *taken)
{
	MultiGpuSet *set = (MultiGpuSet *) handle;
	MultiGpu   *gpus = set->gpus;
	int			first = next_device(gpus, 0);
	FastedStatus status = gpus->base->put(set->parts[first].set, rows, nrows, taken);

	if (status == FASTED_FULL || !multi_gpu_check(gpus, first, status))
		return status;
	set->parts[first].rows += *taken;
	for_each_device(m, gpus)
	{
		if (m != first && gpus->failed == FASTED_OK)
			put_rows(set, m, rows, *taken);
	}
	return gpus->failed;
}

static FastedStatus
multi_gpu_wait_read(FastedSet *handle, bool all)
{
	MultiGpuSet *set = (MultiGpuSet *) handle;
	MultiGpu   *gpus = set->gpus;

	for_each_device(m, gpus)
	{
		if (!multi_gpu_check(gpus, m, gpus->base->wait_read(set->parts[m].set, all)))
			break;
	}
	return gpus->failed;
}

static FastedStatus
seal_parts(MultiGpu *gpus, int m, void *argument)
{
	MultiGpuSet *set = argument;
	FastedStatus status = FASTED_OK;

	for (int i = 0; i < set->each && gpus->devices[m].in_use && status == FASTED_OK; i++)
		status = gpus->base->seal(set->parts[m * set->each + i].set);
	return status;
}

/* Seals the parts of all devices in parallel, because sealing allocates device memory. */
static FastedStatus
multi_gpu_seal(FastedSet *handle)
{
	MultiGpuSet *set = (MultiGpuSet *) handle;

	return call_in_parallel(set->gpus, seal_parts, set);
}

static FastedStatus
multi_gpu_set_reset(FastedSet *handle, uint64_t first_row)
{
	MultiGpuSet *set = (MultiGpuSet *) handle;
	MultiGpu   *gpus = set->gpus;

	set->first_row = first_row;
	for (int i = 0; i < parts_of(set) && gpus->failed == FASTED_OK; i++)
	{
		SetPart    *part = &set->parts[i];

		part->rows = 0;
		if (gpus->devices[part->device].in_use)
			(void) multi_gpu_check(gpus, part->device,
								   gpus->base->set_reset(part->set, first_row + part->first));
	}
	for (int m = 0; m < gpus->ndevices; m++)
		set->copies[m].part = NULL;
	return gpus->failed;
}

/* Reads rows from the first device; all devices have the same rows. */
static FastedStatus
multi_gpu_read_back(FastedSet *handle, uint64_t first_row, size_t nrows, float *rows)
{
	MultiGpuSet *set = (MultiGpuSet *) handle;
	MultiGpu   *gpus = set->gpus;
	int			first = next_device(gpus, 0);

	(void) multi_gpu_check(gpus, first,
						   gpus->base->read_back(set->parts[first].set, first_row, nrows, rows));
	return gpus->failed;
}

static FastedEngine multi_gpu_engine = {
	.abi = FASTED_ENGINE_ABI,
	.open = multi_gpu_open,
	.stats = multi_gpu_stats,
	.last_error = multi_gpu_last_error,
	.close = multi_gpu_close,
	.fits = multi_gpu_fits,
	.set_open = multi_gpu_set_open,
	.stage = multi_gpu_stage,
	.commit = multi_gpu_commit,
	.register_memory = multi_gpu_register_memory,
	.unregister_memory = multi_gpu_unregister_memory,
	.put = multi_gpu_put,
	.wait_read = multi_gpu_wait_read,
	.read_back = multi_gpu_read_back,
	.seal = multi_gpu_seal,
	.set_reset = multi_gpu_set_reset,
	.set_close = multi_gpu_set_close,
	.join_open = multi_gpu_join_open,
	.next = multi_gpu_next,
	.pause = multi_gpu_pause,
	.counts = multi_gpu_counts,
	.rows_for_lists = multi_gpu_rows_for_lists,
	.device_count = multi_gpu_device_count,
	.join_close = multi_gpu_join_close,
};

const FastedEngine *
fasted_multi_gpu_engine(const FastedEngine *base)
{
	base_engine = base;
	multi_gpu_engine.name = base->name;
	multi_gpu_engine.probe = base->probe;
	multi_gpu_engine.connects = base->connects;
	multi_gpu_engine.nearest = base->nearest != NULL ? multi_gpu_nearest : NULL;
	multi_gpu_engine.chooses_representatives = base->chooses_representatives;
	return &multi_gpu_engine;
}
