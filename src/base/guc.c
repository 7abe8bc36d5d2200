/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  The extension's settings.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "base/guc.h"
#include "engine/device_list.h"
#include "engine/engine.h"
#include "utils/guc.h"

int			fasted_setting_engine = ENGINE_AUTO;
int			fasted_setting_threads = 0;
int			fasted_setting_memory_limit = 1024 * 1024;
int			fasted_setting_cpu_kernel = 0;
int			fasted_setting_prune = FASTED_PRUNE_AUTO;
char	   *fasted_setting_cuda_library = NULL;
int			fasted_setting_filter = FASTED_FILTER_AUTO;
int			fasted_setting_gpu_memory_limit = 0;
int			fasted_setting_gpu_idle_timeout = 10000;
char	   *fasted_setting_gpu_devices = NULL;
bool		fasted_setting_scan_node = true;
bool		fasted_setting_join_node = true;

static const struct config_enum_entry engine_options[] = {
	{"auto", ENGINE_AUTO, false},
	{"cpu", ENGINE_CPU, false},
	{"cuda", ENGINE_CUDA, false},
	{NULL, 0, false}
};

static const struct config_enum_entry filter_options[] = {
	{"auto", FASTED_FILTER_AUTO, false},
	{"int8", FASTED_FILTER_INT8, false},
	{"fp16", FASTED_FILTER_FP16, false},
	{"fp64", FASTED_FILTER_FP64, false},
	{NULL, 0, false}
};

/* "force" is for tests: it can make small problems slower. */
static const struct config_enum_entry auto_options[] = {
	{"auto", CHOICE_AUTO, false},
	{"off", CHOICE_OFF, false},
	{"force", CHOICE_FORCE, true},
	{NULL, 0, false}
};

StaticAssertDecl((int) FASTED_PRUNE_OFF == CHOICE_OFF && (int) FASTED_PRUNE_FORCE == CHOICE_FORCE,
				 "fasted.prune has the engine's values");

/* The numbers are used in this file only: RequestedCpuKernel maps them to names. */
static const struct config_enum_entry cpu_kernel_options[] = {
	{"auto", 0, false},
	{"portable", 1, false},
	{"avx2", 2, false},
	{"avx2int16", 3, false},
	{"avxvnni", 4, false},
	{"avx512", 5, false},
	{"avx512vnni", 6, false},
	{"amx", 7, false},
	{"neon", 8, false},
	{"sdot", 9, false},
	{NULL, 0, false}
};

/* Checks the syntax only: the engine checks whether the devices exist. */
static bool
CheckDeviceList(char **newval, void **extra, GucSource source)
{
	const char *wrong;

	if (fasted_is_device_list(*newval, &wrong))
		return true;
	GUC_check_errdetail("\"%s\" does not start with the ordinal or UUID of a GPU.", wrong);
	GUC_check_errhint("List GPUs as \"nvidia-smi -L\" names them, separated by commas: \"0, 1\" or \"GPU-8932f937\".");
	return false;
}

/* Returns true if the setting is defined, not only set by a user. */
static bool
IsDefined(const char *name)
{
	return GetConfigOption(name, true, false) != NULL &&
		(GetConfigOptionFlags(name, true) & GUC_CUSTOM_PLACEHOLDER) == 0;
}

/* Defines a setting, unless an earlier call of _PG_init did so before it ran out of memory. */
#define DEFINE(type, name, ...) \
	do \
	{ \
		if (!IsDefined(name)) \
			DefineCustom##type##Variable(name, __VA_ARGS__); \
	} while (0)

static void
DefineCpuSettings(void)
{
	DEFINE(Int, "fasted.threads",
		   "Sets the maximum number of threads of the CPU engine.",
		   "0 means one for each CPU that the server may use.",
		   &fasted_setting_threads, 0, 0, 1024,
		   PGC_SUSET, 0, NULL, NULL, NULL);

	DEFINE(Int, "fasted.memory_limit",
		   "Sets the maximum memory for the vectors of one join.",
		   "A larger table is stored in a temporary file and processed in panels of rows.",
		   &fasted_setting_memory_limit, 1024 * 1024, 1024, MAX_KILOBYTES,
		   PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
}

static void
DefineGpuSettings(void)
{
	DEFINE(String, "fasted.cuda_library",
		   "Sets the library that holds the CUDA engine.",
		   "A name without a directory is looked up in PostgreSQL's library directory.",
		   &fasted_setting_cuda_library, "fasted_cuda",
		   PGC_SUSET, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);

	DEFINE(Int, "fasted.gpu_memory_limit",
		   "Sets the maximum GPU memory of one join.",
		   "0 means all free memory. A larger table is processed in panels of rows.",
		   &fasted_setting_gpu_memory_limit, 0, 0, MAX_KILOBYTES,
		   PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);

	DEFINE(Int, "fasted.gpu_idle_timeout",
		   "Sets how long a session keeps GPU memory after its last join.",
		   "-1 means until the session ends.",
		   &fasted_setting_gpu_idle_timeout, 10000, -1, INT_MAX,
		   PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);

	DEFINE(String, "fasted.gpu_devices",
		   "Names the GPUs to choose from, by ordinal or UUID.",
		   "A join uses the first capable GPU of the list, and other GPUs of the same model. An empty value means all GPUs.",
		   &fasted_setting_gpu_devices, "",
		   PGC_USERSET, GUC_LIST_INPUT, CheckDeviceList, NULL, NULL);
}

/*
 * Options for tests and measurements, marked as PostgreSQL marks its developer options.  They are
 * documented in doc/development.md, not in doc/reference.md.
 */
static void
DefineDeveloperOptions(void)
{
	DEFINE(Enum, "fasted.filter",
		   "Selects how candidate pairs are found.",
		   "The CPU engine uses FP32 instead of \"fp16\" and \"fp64\".",
		   &fasted_setting_filter, FASTED_FILTER_AUTO, filter_options,
		   PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);

	DEFINE(Enum, "fasted.prune",
		   "Selects whether rows are first compared in reduced dimensions.",
		   "\"auto\" does so if a sample of the rows predicts that it saves time.",
		   &fasted_setting_prune, FASTED_PRUNE_AUTO, auto_options,
		   PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);

	DEFINE(Enum, "fasted.cpu_kernel",
		   "Selects the instruction set of the CPU engine.",
		   "For tests; the result is the same with each instruction set.",
		   &fasted_setting_cpu_kernel, 0, cpu_kernel_options,
		   PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);

	DEFINE(Bool, "fasted.scan_node",
		   "Enables scan nodes that stream the results of functions.",
		   "If off, the whole result of a function is stored before its first row is returned.",
		   &fasted_setting_scan_node, true,
		   PGC_USERSET, GUC_NOT_IN_SAMPLE | GUC_EXPLAIN, NULL, NULL, NULL);
}

void
DefineSettings(void)
{
	DefineCpuSettings();
	DefineGpuSettings();
	DefineDeveloperOptions();

	DEFINE(Enum, "fasted.engine",
		   "Selects the engine that computes distances.",
		   "\"auto\" uses a GPU if one is available and the join is large enough.",
		   &fasted_setting_engine, ENGINE_AUTO, engine_options,
		   PGC_USERSET, 0, NULL, NULL, NULL);

	DEFINE(Bool, "fasted.join_node",
		   "Enables join nodes that compute joins on the distance of vectors with an engine.",
		   NULL,
		   &fasted_setting_join_node, true,
		   PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	MarkGUCPrefixReserved("fasted");
}

const char *
RequestedCpuKernel(void)
{
	return fasted_setting_cpu_kernel == 0 ? NULL : cpu_kernel_options[fasted_setting_cpu_kernel].name;
}
