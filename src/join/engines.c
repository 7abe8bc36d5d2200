/*-------------------------------------------------------------------------
 *
 * engines.c
 *	  Loads the CUDA engine, chooses between the CPU and the CUDA engine, opens one for a join,
 *	  and reports failures as warnings and errors.
 *
 * The CUDA engine is a separate library that is loaded on first use, like PostgreSQL's JIT
 * provider.  A machine without a GPU needs neither the library nor CUDA.  The library is not a
 * PostgreSQL module, so it is loaded with dlopen instead of load_file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <unistd.h>

#include "engine/device_list.h"
#include "join/join.h"
#include "miscadmin.h"
#include "storage/ipc.h"

#define MAX_REASON 1024

/*
 * Minimum number of floating-point operations (2 n m d) for a GPU.  This is one to a few seconds of
 * work for a small CPU; initializing the GPU takes a fifth of a second.
 */
#define GPU_PAYS_FLOP 1e12

/* Number of dimensions that is assumed before the first vector is known. */
#define LIKELY_DIMENSIONS 64

/*
 * Minimum for several GPUs: a quarter of a second of work for one GPU, because each must be initialized.
 * If the user lists GPUs in fasted.gpu_devices, a tenth suffices, where two are slightly faster
 * than one.
 */
#define GPUS_PAY_FLOP 1e15
#define NAMED_GPUS_PAY_FLOP 1e14

/* Estimated bytes of a row besides the vector and its packed copies. */
#define ROW_OVERHEAD 64

/* Rows may use 1/ROWS_SHARE of the memory. */
#define ROWS_SHARE 2

/* The CPU engine may use at least 1/ENGINE_SHARE of the memory, beside the caller of the join. */
#define ENGINE_SHARE 4

/* Number of bits that are compared in the time of one multiplication and addition. */
#define BITS_PER_PRODUCT 8

/* Assumed limit of GPU memory if none is set; filling this much takes seconds. */
#define DEVICE_BYTES (UINT64_C(8) << 30)

static char cuda_reason[MAX_REASON];	/* why the CUDA engine is not available */

/*
 * An engine's error message is a sentence, optionally followed by a hint on a second line.  Removes
 * the hint from the text and returns it, or NULL if there is none.
 */
static const char *
CutHint(char *text)
{
	char	   *end = strchr(text, '\n');

	if (end == NULL)
		return NULL;
	*end = '\0';
	return end + 1;
}

void
EngineRunInit(EngineRun *run)
{
	FastedOptions *options = &run->problem.options;

	run->choice = fasted_setting_engine;
	options->filter = fasted_setting_filter;
	options->prune = fasted_setting_prune;
	options->kernel = RequestedCpuKernel();
	options->devices = pstrdup(fasted_setting_gpu_devices);
	options->threads = fasted_setting_threads;
	options->memory_limit = (uint64) fasted_setting_memory_limit * 1024;
	options->device_memory_limit = (uint64) fasted_setting_gpu_memory_limit * 1024;
	options->idle_timeout = fasted_setting_gpu_idle_timeout < 0 ? 0 :
		Max(fasted_setting_gpu_idle_timeout, 1);
}

static void
StopEngine(int code, Datum engine)
{
	((const FastedEngine *) DatumGetPointer(engine))->stop();
}

static const FastedEngine *
OpenCudaLibrary(void)
{
	char		path[MAXPGPATH];
	void	   *library;
	FastedEngineEntry entry;
	const FastedEngine *engine;

	if (first_dir_separator(fasted_setting_cuda_library) != NULL)
		snprintf(path, sizeof(path), "%s%s", fasted_setting_cuda_library, DLSUFFIX);
	else
		snprintf(path, sizeof(path), "%s/%s%s", pkglib_path, fasted_setting_cuda_library, DLSUFFIX);
	if (access(path, F_OK) != 0)
	{
		strlcpy(cuda_reason, "The extension was built without CUDA.", MAX_REASON);
		return NULL;
	}
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
	{
		snprintf(cuda_reason, MAX_REASON, "Could not load the library: %s.", dlerror());
		return NULL;
	}
	entry = (FastedEngineEntry) (uintptr_t) dlsym(library, FASTED_ENGINE_ENTRY);
	engine = (entry != NULL) ? entry() : NULL;
	if (engine == NULL || engine->abi != FASTED_ENGINE_ABI)
	{
		snprintf(cuda_reason, MAX_REASON, "Library \"%s\" belongs to a different version of the extension.", path);
		dlclose(library);
		return NULL;
	}
	if (engine->stop != NULL)
		on_proc_exit(StopEngine, PointerGetDatum(engine));
	return engine;
}

/* How a failure is reported.  The engine's own hint precedes this one. */
typedef struct Failure
{
	FastedStatus status;
	int			code;
	const char *message;		/* %s: the engine's name */
	const char *hint;
} Failure;

static const Failure failures[] = {
	{FASTED_OUT_OF_MEMORY, ERRCODE_OUT_OF_MEMORY, "out of memory in engine \"%s\"",
	"Reduce fasted.memory_limit or fasted.threads."},
	{FASTED_OUT_OF_DEVICE_MEMORY, ERRCODE_OUT_OF_MEMORY, "out of GPU memory",
	"Try again when other sessions have finished, or use \"SET fasted.engine = cpu\"."},
	{FASTED_UNKNOWN_DEVICE, ERRCODE_INVALID_PARAMETER_VALUE,
	"invalid value for parameter \"fasted.gpu_devices\"", NULL},
	{FASTED_NO_DEVICE, ERRCODE_FEATURE_NOT_SUPPORTED, "the CUDA engine is not available",
	"Use \"SET fasted.engine = auto\" to compute on the CPU if no GPU is available."},
	{FASTED_UNSUPPORTED, ERRCODE_FEATURE_NOT_SUPPORTED, "engine \"%s\" does not support this join", NULL},
	{FASTED_DEVICE_FAILED, ERRCODE_SYSTEM_ERROR, "the GPU reported an error",
	"Use \"SET fasted.engine = cpu\" to compute without the GPU."}
};

/* Raises the error for a failed status.  Splits text into detail and hint. */
pg_noreturn static void
ReportEngineFailure(const char *engine, FastedStatus status, char *text)
{
	const char *own_hint = CutHint(text);

	for (size_t i = 0; i < lengthof(failures); i++)
	{
		const Failure *failure = &failures[i];
		const char *hint = own_hint != NULL ? own_hint : failure->hint;

		if (failure->status == status)
			ereport(ERROR,
					(errcode(failure->code),
					 errmsg(failure->message, engine),
					 errdetail_internal("%s", text),
					 hint != NULL ? errhint("%s", hint) : 0));
	}
	elog(ERROR, "fasted %s engine: status %d: %s", engine, (int) status, text);
}

/* Returns the CUDA engine, loading its library if needed.  On failure: NULL and cuda_reason. */
static const FastedEngine *
CudaLibrary(void)
{
	static const FastedEngine *engine = NULL;

	if (engine == NULL)
		engine = OpenCudaLibrary();
	return engine;
}

/* Checks whether the CUDA engine can use the devices.  Sets cuda_reason on failure. */
static FastedStatus
ProbeCuda(const char *devices)
{
	const FastedEngine *engine = CudaLibrary();

	return engine != NULL ? engine->probe(devices, cuda_reason, MAX_REASON) : FASTED_NO_DEVICE;
}

const char *
CudaProblem(void)
{
	char	   *end;

	if (ProbeCuda(fasted_setting_gpu_devices) == FASTED_OK)
		return NULL;
	/* join both lines: the hint follows the sentence */
	end = strchr(cuda_reason, '\n');
	if (end != NULL)
		*end = ' ';
	return cuda_reason;
}

bool
DescribeGpu(int ordinal, char *text, size_t size)
{
	const FastedEngine *engine = CudaLibrary();

	return engine != NULL && engine->describe != NULL && engine->describe(ordinal, text, size);
}

/*
 * Returns true if a join of this many operations should use all listed GPUs.  A user who selects the
 * CUDA engine and lists its GPUs wants all of them.
 */
static bool
SeveralGpusPay(const EngineRun *run, double flop)
{
	if (fasted_any_device(run->problem.options.devices))
		return flop >= GPUS_PAY_FLOP;
	return run->choice == ENGINE_CUDA || flop >= NAMED_GPUS_PAY_FLOP;
}

/* Returns the number of row pairs.  A self-join is counted like a join of two relations. */
static double
RowPairs(const PanelProblem *problem)
{
	const uint64_t *rows = problem->expected_rows;

	if (problem->problem.partitions != NULL)
		return fasted_partition_pairs(problem->problem.partitions, problem->problem.npartitions, false);
	return (double) rows[0] * rows[problem->sides == 2 ? 1 : 0];
}

/* Returns the number of operations for these pairs. */
static double
Operations(double row_pairs, FastedElement element, uint32 dimensions)
{
	return 2.0 * row_pairs * dimensions / (element == FASTED_ELEMENT_BIT ? BITS_PER_PRODUCT : 1);
}

/* Returns true unless the setting or the number of operations selects the CPU. */
static bool
IsForGpu(const EngineRun *run, double flop)
{
	return run->choice == ENGINE_CUDA || (run->choice == ENGINE_AUTO && flop >= GPU_PAYS_FLOP);
}

bool
EngineIsReady(const EngineRun *run)
{
	const FastedOptions *options = &run->problem.options;
	const FastedEngine *cuda;

	if (!IsForGpu(run, Operations(RowPairs(&run->problem), options->element,
								  options->dimensions > 0 ? options->dimensions : LIKELY_DIMENSIONS)))
		return true;
	cuda = CudaLibrary();
	return cuda == NULL || cuda->warm == NULL || cuda->warm(options);
}

void
WarmEngine(double rows_a, double rows_b)
{
	EngineRun	run = {.problem = {.sides = 2,.expected_rows = {rows_a, rows_b}}};

	EngineRunInit(&run);
	if (rows_a * rows_b > SMALL_JOIN_PAIRS)
		(void) EngineIsReady(&run);
}

/* Handles a failed probe.  Raises an error unless the CPU may be used instead. */
static void
ReportCuda(const EngineRun *run, FastedStatus status)
{
	/* a user who lists a GPU does not want the CPU instead */
	if (status == FASTED_UNKNOWN_DEVICE || run->choice == ENGINE_CUDA)
		ReportEngineFailure("cuda", status, cuda_reason);
	ereport(DEBUG1, (errmsg_internal("fasted: no CUDA engine: %s", cuda_reason)));
}

/*
 * Returns the engine for a join of about this many operations.  Raises an error if fasted.engine is
 * "cuda" and the CUDA engine is not available.
 */
static const FastedEngine *
ChooseEngine(const EngineRun *run, double flop)
{
	const FastedOptions *options = &run->problem.options;
	const FastedEngine *cuda;
	FastedStatus status;
	char		names[2][FASTED_DEVICE_NAME];

	if (!IsForGpu(run, flop))
		return fasted_cpu_engine();
	/* do not probe GPUs if the library does not support the output */
	cuda = CudaLibrary();
	if (run->problem.problem.output == FASTED_OUTPUT_NEAREST && cuda != NULL &&
		(cuda->nearest == NULL || (run->problem.searches && cuda->select_rows == NULL)))
	{
		if (run->choice == ENGINE_AUTO)
			return fasted_cpu_engine();
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the CUDA engine does not find nearest neighbors"),
				 errhint("Use \"SET fasted.engine = auto\" to find them on the CPU.")));
	}
	status = ProbeCuda(options->devices);
	if (status != FASTED_OK)
	{
		ReportCuda(run, status);
		return fasted_cpu_engine();
	}
	if (cuda->devices == NULL || run->problem.searches || !SeveralGpusPay(run, flop) ||
		cuda->devices(options->devices, names, lengthof(names)) < 2)
		return cuda;
	return fasted_multi_gpu_engine(cuda);
}

uint64
JoinCapacity(double row_pairs, FastedElement element, uint32 dimensions, bool *orders)
{
	EngineRun	run = {0};
	const FastedOptions *options = &run.problem.options;
	uint32		floats = RowFloats(element, dimensions);
	uint32		packed = element == FASTED_ELEMENT_BIT ? floats : dimensions;
	uint64		limit;

	EngineRunInit(&run);
	limit = options->memory_limit;
	*orders = ChooseEngine(&run, Operations(row_pairs, element, dimensions)) == fasted_cpu_engine();
	if (!*orders)
		limit = options->device_memory_limit > 0 ? options->device_memory_limit : DEVICE_BYTES;
	/* a row and two packed copies */
	return Min(limit / ROWS_SHARE / (((uint64) floats + 2 * packed) * sizeof(float) + ROW_OVERHEAD),
			   FASTED_MAX_ROWS);
}

/* --- running an engine */

static void
WarnOfFallback(char *text)
{
	static bool warned = false;
	const char *hint = CutHint(text);

	if (!warned)
		ereport(WARNING,
				(errmsg("the GPU failed, computing on the CPU instead"),
				 errdetail_internal("%s", text),
				 errhint("%s", hint != NULL ? hint :
						 _("Use \"SET fasted.engine = cpu\" to avoid trying the GPU."))));
	warned = true;
}

void
EngineRunClose(EngineRun *run)
{
	PanelJoin  *join = run->join;

	run->join = NULL;
	panel_join_close(join);
}

/* Returns a text of the engine's error.  It names the device; of several GPUs, the engine names one. */
static char *
ErrorText(const EngineRun *run, FastedStatus status)
{
	const char *text = panel_join_last_error(run->engine, run->join);
	FastedStats stats = {0};

	if ((status == FASTED_DEVICE_FAILED || status == FASTED_OUT_OF_DEVICE_MEMORY) &&
		run->engine == CudaLibrary())
		panel_join_stats(run->join, &stats);
	if (text[0] == '\0')
		text = "The engine reported no reason.";
	return stats.device[0] == '\0' ? pstrdup(text) : psprintf("%s: %s", stats.device, text);
}

FastedStatus
EngineRunCheck(EngineRun *run, FastedStatus status)
{
	MemoryContext old;
	char	   *text;

	if (likely(!FASTED_FAILED(status)))
		return status;
	old = MemoryContextSwitchTo(run->context);
	text = ErrorText(run, status);
	MemoryContextSwitchTo(old);
	EngineRunClose(run);
	if (!run->can_fall_back)
		ReportEngineFailure(run->engine->name, status, text);
	run->failed = true;
	run->choice = ENGINE_CPU;
	WarnOfFallback(text);
	return status;
}

/*
 * Returns the part of the memory limit that the caller's memory leaves to the engine: at least
 * 1 / ENGINE_SHARE of it.
 */
static uint64
MemoryForEngine(const EngineRun *run)
{
	uint64		limit = run->problem.options.memory_limit;
	uint64		callers = run->problem.expected_rows[0] * run->caller_row_bytes;

	return limit - Min(callers, limit - limit / ENGINE_SHARE);
}

/* Opens the chosen engine, run->engine. */
static void
OpenEngine(EngineRun *run)
{
	PanelProblem problem = run->problem;
	FastedOutput *output = &problem.problem.output;

	if (run->engine == fasted_cpu_engine())
		problem.options.memory_limit = MemoryForEngine(run);
	if ((*output == FASTED_OUTPUT_CONNECTIONS && !run->engine->connects) ||
		(*output == FASTED_OUTPUT_REPRESENTATIVES && !run->engine->chooses_representatives))
		*output = FASTED_OUTPUT_PAIRS;
	run->output = *output;
	run->can_fall_back = run->choice == ENGINE_AUTO && run->engine != fasted_cpu_engine();
	EngineRunCheck(run, panel_join_open(run->engine, &problem, &run->join));
}

void
EngineRunOpen(EngineRun *run)
{
	const FastedOptions *options = &run->problem.options;

	while (!EngineIsReady(run))
	{
		CheckJoinInterrupts();
		pg_usleep(1000L);
	}
	do
	{
		run->failed = false;
		run->engine = ChooseEngine(run, Operations(RowPairs(&run->problem), options->element,
												   options->dimensions));
		OpenEngine(run);
	} while (run->failed);
}
