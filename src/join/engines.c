/*-------------------------------------------------------------------------
 *
 * engines.c
 *	  Loads the CUDA engine, chooses between the two, and opens one for a join; raises their
 *	  failures as warnings and errors.
 *
 * The CUDA engine is a library of its own, loaded when first wanted, as
 * PostgreSQL does with its JIT provider: a machine without it, or without a
 * GPU, needs neither.  It is no PostgreSQL module, so it is opened with dlopen
 * and not with load_file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <unistd.h>

#include "base/guc.h"
#include "distance/distance.h"
#include "engine/engine.h"
#include "engine/device_list.h"
#include "join/engines.h"
#include "miscadmin.h"
#include "rows/vector.h"

#define MAX_REASON 1024

/*
 * A GPU pays from about this many floating-point operations (2 n m d) on: one
 * to a few seconds of a small CPU, against a fifth of a second to wake the GPU.
 */
#define GPU_PAYS_FLOP 1e12

/*
 * Further GPUs do from here on: half a second of one, and they must be woken too.  Who names
 * them may have them woken for a tenth of that, where two are a little faster than one.
 */
#define GPUS_PAY_FLOP 1e15
#define NAMED_GPUS_PAY_FLOP 1e14

/* Bytes of a row: as it came, packed twice, and the rest; of half of the memory. */
#define ROW_BYTES(floats, dimensions) ((uint64) ((floats) + 2 * (dimensions)) * sizeof(float) + 64)
#define ROWS_SHARE 2

/* Of a GPU's memory, where no limit is set; it takes seconds to fill so much. */
#define DEVICE_BYTES (UINT64_C(8) << 30)

static char cuda_reason[MAX_REASON];	/* why there is no CUDA engine */

/*
 * An engine's text is a sentence, and perhaps a hint on a second line; our messages
 * are made of both.
 */
typedef struct EngineText
{
	char		text[MAX_REASON];
	const char *hint;			/* NULL: none */
} EngineText;

static EngineText
SplitText(const char *engine_text)
{
	EngineText	split;
	char	   *end;

	strlcpy(split.text, engine_text != NULL && engine_text[0] != '\0' ? engine_text :
			"the engine gave no reason", sizeof(split.text));
	end = strchr(split.text, '\n');
	split.hint = NULL;
	if (end != NULL)
	{
		*end = '\0';
		split.hint = end + 1;
	}
	return split;
}

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
		snprintf(cuda_reason, MAX_REASON, "Library \"%s\" is of another version of the extension.", path);
		dlclose(library);
		return NULL;
	}
	return engine;
}

/* Whoever names a GPU wants that one, and not the CPU. */
static void
ReportUnknownDevice(const char *engine_text)
{
	EngineText	split = SplitText(engine_text);

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("fasted.gpu_devices names a GPU that is not there"),
			 errdetail_internal("%s", split.text),
			 split.hint != NULL ? errhint("%s", split.hint) : 0));
}

/* Whatever it can do here; NULL and cuda_reason: there is none. */
static const FastedEngine *
CudaLibrary(void)
{
	static const FastedEngine *engine = NULL;

	if (engine == NULL)
		engine = OpenCudaLibrary();
	return engine;
}

/* Does the CUDA engine work here?  If not, cuda_reason says why. */
static FastedStatus
ProbeCuda(const char *devices)
{
	const FastedEngine *engine = CudaLibrary();

	return engine != NULL ? engine->probe(devices, cuda_reason, MAX_REASON) : FASTED_NO_DEVICE;
}

/* The CUDA engine if it works here, else NULL and cuda_reason. */
static const FastedEngine *
CudaEngine(const char *devices)
{
	FastedStatus status = ProbeCuda(devices);

	if (status == FASTED_UNKNOWN_DEVICE)
		ReportUnknownDevice(cuda_reason);
	return status == FASTED_OK ? CudaLibrary() : NULL;
}

const char *
CudaProblem(void)
{
	char	   *end;

	if (ProbeCuda(fasted_setting_gpu_devices) == FASTED_OK)
		return NULL;
	/* one line: the hint follows the sentence */
	while ((end = strchr(cuda_reason, '\n')) != NULL)
		*end = ' ';
	return cuda_reason;
}

bool
DescribeGpu(int ordinal, char *text, size_t size)
{
	const FastedEngine *engine = CudaLibrary();

	return engine != NULL && engine->describe != NULL && engine->describe(ordinal, text, size);
}

static bool
SeveralPay(const JoinOptions *options, double flop)
{
	if (options->share != CHOICE_AUTO)
		return options->share == CHOICE_FORCE;
	return flop >= (fasted_any_device(options->devices) ? GPUS_PAY_FLOP : NAMED_GPUS_PAY_FLOP);
}

/* All GPUs of the list, if there are several alike and it pays; else one. */
static const FastedEngine *
OneOrSeveral(const FastedEngine *cuda, const JoinOptions *options, double flop)
{
	char		names[2][FASTED_DEVICE_NAME];

	if (cuda->devices == NULL || !SeveralPay(options, flop) ||
		cuda->devices(options->devices, names, lengthof(names)) < 2)
		return cuda;
	return fasted_device_group(cuda);
}

/* No GPU is asked where the library has no such thing. */
static bool
CudaFindsNearest(void)
{
	const FastedEngine *cuda = CudaLibrary();

	return cuda == NULL || cuda->nearest != NULL;
}

const FastedEngine *
ChooseEngine(const JoinOptions *options, double row_pairs, uint32 dimensions)
{
	double		flop = 2.0 * row_pairs * dimensions;
	const FastedEngine *cuda;

	if (options->engine == ENGINE_CPU)
		return fasted_cpu_engine();
	if (options->engine == ENGINE_AUTO && flop < GPU_PAYS_FLOP)
		return fasted_cpu_engine();

	if (options->nearest && !CudaFindsNearest())
	{
		if (options->engine == ENGINE_AUTO)
			return fasted_cpu_engine();
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the CUDA engine does not find nearest neighbors"),
				 errhint("Use \"SET fasted.engine = auto\" to find them on the CPU.")));
	}
	cuda = CudaEngine(options->devices);
	if (cuda != NULL)
		return OneOrSeveral(cuda, options, flop);
	if (options->engine == ENGINE_CUDA)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the CUDA engine is not available"),
				 errdetail_internal("%s", cuda_reason),
				 errhint("Use \"SET fasted.engine = auto\" to compute on the CPU where no GPU answers.")));
	ereport(DEBUG1, (errmsg_internal("fasted: no CUDA engine: %s", cuda_reason)));
	return fasted_cpu_engine();
}

uint64
JoinRoom(double row_pairs, FastedElement element, uint32 dimensions, bool *orders)
{
	JoinOptions options = OptionsFromSettings();
	const FastedEngine *engine = ChooseEngine(&options, row_pairs, dimensions);
	uint64		limit = options.memory_limit;

	*orders = engine == fasted_cpu_engine();
	if (!*orders)
		limit = options.device_memory_limit > 0 ? options.device_memory_limit : DEVICE_BYTES;
	return Min(limit / ROWS_SHARE / ROW_BYTES(RowFloats(element, dimensions), dimensions),
			   FASTED_MAX_ROWS);
}

size_t
SmallJoinPairs(const SmallJoin *join, const FastedRowGroup *group, FastedPair *pairs)
{
	const float *others = join->b != NULL ? join->b : join->a;
	Size		floats = RowFloats(join->element, join->dimensions);
	size_t		count = 0;

	for (uint32 a = group->first_a; a < group->first_a + group->rows_a; a++)
	{
		uint32		b = join->b != NULL ? group->first_b : a + 1;

		for (; b < group->first_b + group->rows_b; b++)
		{
			double		dist = ExactDistance(join->metric, join->element, join->a + a * floats,
											 others + b * floats, join->dimensions);

			/* a cosine distance that is not a number is within no distance */
			if (dist <= join->eps)
				pairs[count++] = (FastedPair) {.a = a,.b = b,.dist = dist};
		}
	}
	return count;
}

/* --- an engine at work */

/* Raises the error for a failed status; engine_text may be NULL. */
pg_noreturn static void
ReportEngineFailure(const FastedEngine *engine, FastedStatus status, const char *engine_text)
{
	EngineText	split = SplitText(engine_text);
	const char *text = split.text;

	switch (status)
	{
		case FASTED_OUT_OF_MEMORY:
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory in the %s engine", engine->name),
					 errdetail_internal("%s", text),
					 errhint("Lower fasted.memory_limit or fasted.threads.")));
			break;
		case FASTED_OUT_OF_DEVICE_MEMORY:
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of GPU memory"),
					 errdetail_internal("%s", text),
					 errhint("Try again when other sessions have finished, or use \"SET fasted.engine = cpu\".")));
			break;
		case FASTED_UNKNOWN_DEVICE:
			ReportUnknownDevice(engine_text);
			break;
		case FASTED_NO_DEVICE:
		case FASTED_UNSUPPORTED:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg_internal("%s", text),
					 errhint("%s", split.hint != NULL ? split.hint :
							 "See the settings fasted.engine, fasted.filter, fasted.refine and fasted.cpu_kernel.")));
			break;
		case FASTED_DEVICE_FAILED:
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("the GPU reported an error"),
					 errdetail_internal("%s", text),
					 errhint("Use \"SET fasted.engine = cpu\" to compute without the GPU.")));
			break;
		default:
			break;
	}
	elog(ERROR, "fasted %s engine: status %d: %s", engine->name, (int) status, text);
}

static void
WarnOfFallBack(const char *text)
{
	static bool warned = false;

	if (!warned)
		ereport(WARNING,
				(errmsg("the GPU failed, so the CPU computes instead"),
				 errdetail_internal("%s", text),
				 errhint("Use \"SET fasted.engine = cpu\" not to try the GPU.")));
	warned = true;
}

void
EngineRunClose(EngineRun *run)
{
	PanelJoin  *join = run->join;

	run->join = NULL;
	panel_join_close(join);
}

FastedStatus
EngineRunCheck(EngineRun *run, FastedStatus status)
{
	char	   *text;

	if (likely(!FASTED_FAILED(status)))
		return status;
	text = MemoryContextStrdup(run->context, panel_join_last_error(run->engine, run->join));
	EngineRunClose(run);
	if (!run->fallible)
		ReportEngineFailure(run->engine, status, text);
	run->failed = true;
	WarnOfFallBack(text);
	return status;
}

void
EngineRunAgain(EngineRun *run, const JoinOptions *options)
{
	run->fallible = options->engine == ENGINE_AUTO && run->engine != fasted_cpu_engine();
	run->failed = false;
}

/* How many pairs of rows there are, of a set with itself as if it were two. */
static double
RowPairs(const PanelProblem *problem)
{
	const uint64_t *rows = problem->expected_rows;

	if (problem->problem.groups != NULL)
		return fasted_group_pairs(problem->problem.groups, problem->problem.ngroups, false);
	return (double) rows[0] * rows[problem->sides == 2 ? 1 : 0];
}

/* The options for an engine; the number of dimensions is the caller's to add. */
static FastedOptions
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

void
EngineRunOpen(EngineRun *run, const JoinOptions *options, const PanelProblem *problem)
{
	PanelProblem whole = *problem;
	uint32		dimensions = problem->options.dimensions;

	run->engine = run->failed ? fasted_cpu_engine() :
		ChooseEngine(options, RowPairs(problem), dimensions);
	EngineRunAgain(run, options);
	if ((whole.problem.output == FASTED_OUTPUT_CONNECTIONS && !run->engine->connects) ||
		(whole.problem.output == FASTED_OUTPUT_KEEPERS && !run->engine->keeps))
		whole.problem.output = FASTED_OUTPUT_PAIRS;
	run->output = whole.problem.output;
	whole.options = EngineOptions(options);
	whole.options.dimensions = dimensions;
	EngineRunCheck(run, panel_join_open(run->engine, &whole, &run->join));
}
