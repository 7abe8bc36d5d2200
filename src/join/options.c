/*-------------------------------------------------------------------------
 *
 * options.c
 *	  Copies the settings.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join/options.h"

JoinOptions
OptionsFromSettings(void)
{
	JoinOptions options = {0};

	options.engine = fasted_setting_engine;
	options.filter = fasted_setting_filter;
	options.prune = fasted_setting_prune;
	options.kernel = RequestedCpuKernel();
	options.devices = pstrdup(fasted_setting_gpu_devices);
	options.share = fasted_setting_gpu_share;
	options.exact = fasted_setting_refine;
	options.threads = fasted_setting_threads;
	options.max_threads = fasted_setting_max_threads;
	options.memory_limit = (uint64) fasted_setting_memory_limit * 1024;
	options.device_memory_limit = (uint64) fasted_setting_gpu_memory_limit * 1024;
	return options;
}

FastedOptions
EngineOptions(const JoinOptions *options)
{
	FastedOptions result = {0};

	result.filter = options->filter;
	result.prune = options->prune;
	result.metric = options->metric;
	result.element = options->element;
	result.kernel = options->kernel;
	result.devices = options->devices;
	result.approximate = !options->exact;
	result.threads = options->threads;
	result.max_threads = options->max_threads;
	result.memory_limit = options->memory_limit;
	result.device_memory_limit = options->device_memory_limit;
	return result;
}
