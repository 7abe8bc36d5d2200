/*-------------------------------------------------------------------------
 *
 * multi_gpu.c
 *	  A multi-GPU engine, which divides each join among several devices of another engine.
 *
 * A multi-GPU context has one context of the other engine for each device.  Each device holds all
 * rows of a set.  They are loaded into the first device, and copied from there to the others when the
 * set is sealed.  A join is divided into slices, which are assigned to idle devices, so that a slower
 * device joins fewer slices.  All devices must divide the join into the same slices, so they must be
 * identical (engine.h, "devices").  If a call fails on one device, the whole context fails, with a
 * message that names the device.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_device.h"
#include "multi_gpu.h"

const FastedEngine *base_engine;

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
		multi_gpu_fail(gpus, status, "%s: %s", device->name, base_engine->last_error(device->context));
	return !FASTED_FAILED(status);
}

/* --- parallel calls for all devices */

static void *
run_call(void *argument)
{
	Device	   *device = argument;
	MultiGpu   *gpus = device->gpus;

	device->status = gpus->call(gpus, (int) (device - gpus->devices), gpus->argument);
	return NULL;
}

/* Starting a thread takes about 20 us, and each call takes a millisecond or more. */
FastedStatus
call_in_parallel(MultiGpu *gpus, DeviceCall call, void *argument)
{
	bool		threaded[FASTED_MOST_GPUS] = {false};
	pthread_t	threads[FASTED_MOST_GPUS];

	gpus->call = call;
	gpus->argument = argument;
	for (int m = 1; m < gpus->ndevices; m++)
		threaded[m] = fasted_start_thread(&threads[m], 0, run_call, &gpus->devices[m]);
	for (int m = 0; m < gpus->ndevices; m++)
	{
		if (!threaded[m])
			run_call(&gpus->devices[m]);
	}
	for (int m = 0; m < gpus->ndevices; m++)
	{
		if (threaded[m])
			(void) pthread_join(threads[m], NULL);
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
	return base_engine->open(&own, &gpus->devices[m].context);
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
	gpus->ndevices = base_engine->devices(options->devices, names, FASTED_MOST_GPUS);
	if (gpus->ndevices == 0)
		return multi_gpu_fail(gpus, FASTED_NO_DEVICE, "No GPU was found.");
	for (int m = 0; m < gpus->ndevices; m++)
	{
		gpus->devices[m].gpus = gpus;
		memcpy(gpus->devices[m].name, names[m], sizeof(names[m]));
	}
	(void) call_in_parallel(gpus, open_device, &own);
	for (int m = 0; m < gpus->ndevices; m++)
	{
		Device	   *device = &gpus->devices[m];

		device->in_use = device->status == FASTED_OK;
		gpus->active += device->in_use;
		if (device->in_use)
			continue;
		multi_gpu_fail(gpus, device->status, "%s", base_engine->last_error(device->context));
		base_engine->close(device->context);
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
	char		kind[64];

	memset(stats, 0, sizeof(*stats));
	snprintf(stats->engine, sizeof(stats->engine), "%s", base_engine->name);
	for_each_device(m, gpus)
	{
		FastedStats one;

		base_engine->stats(gpus->devices[m].context, &one);
		if (m == next_device(gpus, 0))
			*stats = one;
		else
			fasted_add_stats(stats, &one);
	}
	snprintf(kind, sizeof(kind), "%.60s", stats->device);
	describe_devices(gpus, kind, stats);
	stats->pairs = gpus->closed.pairs;
	stats->units_done = gpus->closed.units_done;
	stats->units_total = gpus->closed.units_total;
	stats->order_hash = gpus->closed.order_hash;
	if (gpus->join != NULL)
		multi_gpu_join_stats(gpus->join, stats);
}

static const char *
multi_gpu_last_error(const FastedContext *context)
{
	return context != NULL ? multi_gpu_of(context)->error : "Could not allocate memory for a context.";
}

static bool
multi_gpu_fits(const FastedContext *context, const uint64_t *rows, int nsets)
{
	const MultiGpu *gpus = multi_gpu_of(context);

	for_each_device(m, gpus)
	{
		if (!base_engine->fits(gpus->devices[m].context, rows, nsets))
			return false;
	}
	return true;
}

static uint64_t
multi_gpu_rows_for_lists(const FastedContext *context, uint64_t rows, uint32_t k)
{
	const MultiGpu *gpus = multi_gpu_of(context);

	return base_engine->rows_for_lists(gpus->devices[next_device(gpus, 0)].context, rows, k);
}

/* --- sets: rows are added to the set of the first device */

static FastedSet *
first_set(const FastedSet *handle)
{
	const MultiGpuSet *set = (const MultiGpuSet *) handle;

	return set->sets[next_device(set->gpus, 0)];
}

/* Checks the status of a call for the first device's set.  Returns the status. */
static FastedStatus
of_first(FastedSet *handle, FastedStatus status)
{
	MultiGpu   *gpus = ((MultiGpuSet *) handle)->gpus;

	(void) multi_gpu_check(gpus, next_device(gpus, 0), status);
	return status;
}

static FastedStatus
close_set(MultiGpu *gpus, int m, void *argument)
{
	(void) gpus;
	base_engine->set_close(((MultiGpuSet *) argument)->sets[m]);
	return FASTED_OK;
}

/* Waits until the other devices have copied the rows of the first one. */
static void
end_copies(MultiGpuSet *set)
{
	for (int m = next_device(set->gpus, 0) + 1; m < set->gpus->ndevices; m++)
	{
		if (set->sets[m] != NULL)
			base_engine->unregister_memory(set->sets[m]);
	}
}

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
	end_copies(set);
	(void) call_in_parallel(set->gpus, close_set, set);
	free(set);
}

static FastedStatus
close_device(MultiGpu *gpus, int m, void *unused)
{
	(void) unused;
	if (gpus->devices[m].context != NULL)
		base_engine->close(gpus->devices[m].context);
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

static FastedStatus
open_set(MultiGpu *gpus, int m, void *argument)
{
	MultiGpuSet *set = argument;

	return !gpus->devices[m].in_use ? FASTED_OK
		: base_engine->set_open(gpus->devices[m].context, &set->options, &set->sets[m]);
}

/* Opens the sets of all devices in parallel, because this may allocate device memory. */
static FastedStatus
multi_gpu_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **result)
{
	MultiGpu   *gpus = multi_gpu_of(context);
	MultiGpuSet *set = calloc(1, sizeof(*set));

	*result = NULL;
	if (set == NULL)
		return multi_gpu_fail(gpus, FASTED_OUT_OF_MEMORY, "Could not allocate memory for a set of rows.");
	set->gpus = gpus;
	set->options = *options;
	set->next = gpus->sets;
	gpus->sets = set;
	if (call_in_parallel(gpus, open_set, set) == FASTED_OK)
		*result = (FastedSet *) set;
	return gpus->failed;
}

static FastedStatus
multi_gpu_stage(FastedSet *handle, float **rows, size_t *capacity)
{
	return of_first(handle, base_engine->stage(first_set(handle), rows, capacity));
}

static FastedStatus
multi_gpu_commit(FastedSet *handle, size_t nrows)
{
	((MultiGpuSet *) handle)->rows += nrows;
	return of_first(handle, base_engine->commit(first_set(handle), nrows));
}

static bool
multi_gpu_register_memory(FastedSet *handle, void *memory, size_t bytes)
{
	return base_engine->register_memory(first_set(handle), memory, bytes);
}

static void
multi_gpu_unregister_memory(FastedSet *handle)
{
	base_engine->unregister_memory(first_set(handle));
}

static FastedStatus
multi_gpu_put(FastedSet *handle, const float *rows, size_t nrows, size_t *taken)
{
	FastedStatus status = of_first(handle, base_engine->put(first_set(handle), rows, nrows, taken));

	if (status == FASTED_OK)
		((MultiGpuSet *) handle)->rows += *taken;
	return status;
}

static FastedStatus
multi_gpu_wait_read(FastedSet *handle, bool all)
{
	return of_first(handle, base_engine->wait_read(first_set(handle), all));
}

static FastedStatus
multi_gpu_read_back(FastedSet *handle, uint64_t first_row, size_t nrows, float *rows)
{
	return of_first(handle, base_engine->read_back(first_set(handle), first_row, nrows, rows));
}

static FastedStatus
copy_set(MultiGpu *gpus, int m, void *argument)
{
	MultiGpuSet *set = argument;
	int			first = next_device(gpus, 0);

	return gpus->devices[m].in_use && m != first ? base_engine->copy_set(set->sets[m], set->sets[first])
		: FASTED_OK;
}

/*
 * Copies the rows to all other devices at once, because the first one can send to several as fast as
 * to one.  A device whose memory is too small is not used any further, unless a join depends on it.
 */
static FastedStatus
multi_gpu_seal(FastedSet *handle)
{
	MultiGpuSet *set = (MultiGpuSet *) handle;
	MultiGpu   *gpus = set->gpus;

	if (of_first(handle, base_engine->seal(first_set(handle))) != FASTED_OK || gpus->active == 1 ||
		call_in_parallel(gpus, copy_set, set) != FASTED_OK)
		return gpus->failed;
	for_each_device(m, gpus)
	{
		Device	   *device = &gpus->devices[m];

		if (device->status != FASTED_FULL)
			continue;
		if (gpus->bound)
			return multi_gpu_fail(gpus, FASTED_OUT_OF_DEVICE_MEMORY,
								  "GPU \"%s\" has less free memory than another GPU.", device->name);
		device->in_use = false;
		gpus->active--;
	}
	return FASTED_OK;
}

static FastedStatus
multi_gpu_set_reset(FastedSet *handle, uint64_t first_row)
{
	MultiGpuSet *set = (MultiGpuSet *) handle;
	MultiGpu   *gpus = set->gpus;

	set->rows = 0;
	end_copies(set);
	for_each_device(m, gpus)
		(void) multi_gpu_check(gpus, m, base_engine->set_reset(set->sets[m], first_row));
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
