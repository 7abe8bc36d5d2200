/*-------------------------------------------------------------------------
 *
 * cpu_context.c
 *	  The CPU engine's contexts, and the table of its functions.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "cpu_join.h"

FastedStatus
cpu_fail(FastedContext *context, FastedStatus status, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(context->error, sizeof(context->error), format, args);
	va_end(args);
	return status;
}

static FastedStatus
cpu_probe(const char *devices, char *reason, size_t size)
{
	(void) devices;
	if (reason != NULL && size > 0)
		reason[0] = '\0';
	return FASTED_OK;
}

/* Are these options for this engine?  Chooses the kernel. */
static FastedStatus
check_options(FastedContext *context)
{
	const FastedOptions *options = &context->options;

	if (options->dimensions < 1 || options->dimensions > FASTED_MAX_DIMENSIONS)
		return cpu_fail(context, FASTED_UNSUPPORTED,
						"vectors must have between 1 and %u dimensions, not %u",
						FASTED_MAX_DIMENSIONS, options->dimensions);
	if (options->approximate)
		return cpu_fail(context, FASTED_UNSUPPORTED,
						"the CPU engine gives exact results only; approximate results need a GPU");

	if (options->metric != FASTED_METRIC_L2 && options->metric != FASTED_METRIC_COSINE)
		return cpu_fail(context, FASTED_UNSUPPORTED, "there is no metric %d", (int) options->metric);

	context->kernel = fasted_cpu_choose_kernel(options->kernel);
	if (context->kernel == NULL)
	{
		for (int k = 0; fasted_cpu_kernel(k) != NULL; k++)
		{
			if (strcmp(options->kernel, fasted_cpu_kernel(k)->name) == 0)
				return cpu_fail(context, FASTED_UNSUPPORTED,
								"this processor cannot run the CPU kernel \"%s\"",
								options->kernel);
		}
		return cpu_fail(context, FASTED_UNSUPPORTED,
						"there is no CPU kernel \"%.32s\"", options->kernel);
	}
	return FASTED_OK;
}

/* Waits are measured on a clock that nobody sets. */
static bool
init_locks(FastedContext *context)
{
	pthread_condattr_t attr;
	bool		ok;

	if (pthread_condattr_init(&attr) != 0)
		return false;
	ok = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
		pthread_mutex_init(&context->lock, NULL) == 0 &&
		pthread_cond_init(&context->work_cond, &attr) == 0 &&
		pthread_cond_init(&context->free_cond, &attr) == 0 &&
		pthread_cond_init(&context->out_cond, &attr) == 0 &&
		pthread_cond_init(&context->rest_cond, &attr) == 0;
	pthread_condattr_destroy(&attr);
	return ok;
}

static char processor_name[96];
static pthread_once_t processor_named = PTHREAD_ONCE_INIT;

/* The processor's own name.  To ask for it costs a virtual machine an exit. */
static void
find_processor_name(void)
{
	char	   *name = processor_name;
	size_t		size = sizeof(processor_name);

	struct utsname system;
#if defined(__x86_64__)
	unsigned	brand[13] = {0};
	const char *text = (const char *) brand;
	bool		known = true;

	for (unsigned i = 0; i < 3; i++)
		known = known && __get_cpuid(0x80000002U + i, &brand[4 * i],
									 &brand[4 * i + 1], &brand[4 * i + 2],
									 &brand[4 * i + 3]);
	if (known)
	{
		while (*text == ' ')
			text++;
		snprintf(name, size, "%s", text);
		return;
	}
#endif
	snprintf(name, size, "%s", uname(&system) == 0 ? system.machine : "cpu");
}

static void
device_name(char *name, size_t size)
{
	pthread_once(&processor_named, find_processor_name);
	snprintf(name, size, "%s", processor_name);
}

static FastedStatus
cpu_open(const FastedOptions *options, FastedContext **result)
{
	FastedContext *context = calloc(1, sizeof(*context));
	FastedStatus status;

	*result = NULL;
	if (context == NULL)
		return FASTED_OUT_OF_MEMORY;
	if (!init_locks(context))
	{
		free(context);
		return FASTED_OUT_OF_MEMORY;
	}
	*result = context;
	context->options = *options;
	status = check_options(context);
	/* the caller's strings need not live on */
	context->options.kernel = context->options.devices = NULL;
	device_name(context->device, sizeof(context->device));
	if (!FASTED_FAILED(status))
		cpu_plan_memory(context);
	return status;
}

static void
cpu_stats(const FastedContext *context, FastedStats *stats)
{
	/* atomic_load wants no const in C11 */
	FastedContext *open = (FastedContext *) (uintptr_t) context;

	memset(stats, 0, sizeof(*stats));
	snprintf(stats->engine, sizeof(stats->engine), "cpu");
	snprintf(stats->filter, sizeof(stats->filter), "%s",
			 !atomic_load(&open->int8) ? "fp32"
			 : context->kernel->int8->bytes == 2 ? "int16" : "int8");
	stats->filter_sampled = atomic_load(&open->filter_sampled);
	stats->sampled_candidates = atomic_load(&open->sampled_candidates);
	stats->sampled_pairs = atomic_load(&open->sampled_pairs);
	memcpy(stats->device, context->device, sizeof(stats->device));
	if (context->kernel != NULL)
		snprintf(stats->kernel, sizeof(stats->kernel), "%s", context->kernel->name);
	stats->threads = context->join != NULL ? context->join->nworkers : context->nthreads;
	stats->dimensions = context->options.dimensions;
	stats->units_total = context->units_total;
	stats->order_hash = atomic_load(&open->order_hash);
	stats->units_done = atomic_load(&open->units_done);
	stats->candidates = atomic_load(&open->candidates);
	stats->pairs = atomic_load(&open->pairs);
	for (int level = 0; level < FASTED_PRUNE_LEVELS; level++)
		stats->pruned_tiles[level] = atomic_load(&open->tiles[level]);
	stats->full_tiles = atomic_load(&open->full_tiles);
	stats->host_bytes = context->memory.peak;
	stats->prepare_seconds = 1e-9 * (double) atomic_load(&open->prepare_ns);
	stats->filter_seconds = 1e-9 * (double) atomic_load(&open->filter_ns);
	stats->refine_seconds = 1e-9 * (double) atomic_load(&open->refine_ns);
}

static const char *
cpu_last_error(const FastedContext *context)
{
	return context == NULL ? "out of memory" : context->error;
}

static void
cpu_close(FastedContext *context)
{
	if (context == NULL)
		return;
	cpu_join_close(context->join);
	cpu_end_workers(context);
	pair_pool_free(&context->pool, &context->memory);
	while (context->sets != NULL)
		cpu_set_close(context->sets);
	for (int i = 0; i < 2; i++)
		cpu_packed_free(context, &context->samples[i]);
	fasted_cpu_unmap(context->fit_room, context->fit_bytes, &context->memory);
	pthread_cond_destroy(&context->rest_cond);
	pthread_cond_destroy(&context->out_cond);
	pthread_cond_destroy(&context->free_cond);
	pthread_cond_destroy(&context->work_cond);
	pthread_mutex_destroy(&context->lock);
	free(context);
}

static const FastedEngine cpu_engine = {
	.abi = FASTED_ENGINE_ABI,
	.name = "cpu",
	.probe = cpu_probe,
	.open = cpu_open,
	.stats = cpu_stats,
	.last_error = cpu_last_error,
	.close = cpu_close,
	.fits = cpu_fits,
	.set_open = cpu_set_open,
	.stage = cpu_stage,
	.commit = cpu_commit,
	.lend = cpu_lend,
	.withdraw = cpu_withdraw,
	.put = cpu_put,
	.settle = cpu_settle,
	.read_back = cpu_read_back,
	.seal = cpu_seal,
	.set_reset = cpu_set_reset,
	.set_close = cpu_set_close,
	.join_open = cpu_join_open,
	.next = cpu_next,
	.pause = cpu_pause,
	.counts = cpu_counts,
	.nearest = cpu_nearest,
	.list_rows = cpu_list_rows,
	.join_close = cpu_join_close,
};

const FastedEngine *
fasted_cpu_engine(void)
{
	return &cpu_engine;
}
