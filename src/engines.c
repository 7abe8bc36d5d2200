/*-------------------------------------------------------------------------
 *
 * engines.c
 *	  Which engine computes a join, and how its failures become errors.
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

#include "engines.h"
#include "guc.h"
#include "miscadmin.h"

#define MAX_REASON 256

/*
 * A GPU pays from about this many floating-point operations (2 n n d) on: one
 * to a few seconds of a small CPU, against a fifth of a second to wake the GPU.
 */
#define GPU_PAYS_FLOP 1e12

static char cuda_reason[MAX_REASON];	/* why there is no CUDA engine */

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

/* The CUDA engine if it works here, else NULL and cuda_reason. */
static const FastedEngine *
CudaEngine(void)
{
	static const FastedEngine *engine = NULL;
	char		reason[MAX_REASON];

	if (engine == NULL)
		engine = OpenCudaLibrary();
	if (engine == NULL)
		return NULL;
	if (engine->probe(reason, sizeof(reason)) != FASTED_OK)
	{
		strlcpy(cuda_reason, reason, MAX_REASON);
		return NULL;
	}
	return engine;
}

static bool
GpuPays(uint64 rows, uint32 dimensions)
{
	return 2.0 * rows * rows * dimensions >= GPU_PAYS_FLOP;
}

const FastedEngine *
ChooseEngine(uint64 expected_rows, uint32 dimensions)
{
	const FastedEngine *cuda;

	if (fasted_setting_engine == ENGINE_CPU)
		return fasted_cpu_engine();
	if (fasted_setting_engine == ENGINE_AUTO && !GpuPays(expected_rows, dimensions))
		return fasted_cpu_engine();

	cuda = CudaEngine();
	if (cuda != NULL)
		return cuda;
	if (fasted_setting_engine == ENGINE_CUDA)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the CUDA engine is not available"),
				 errdetail_internal("%s", cuda_reason),
				 errhint("Use \"SET fasted.engine = auto\" to compute on the CPU where no GPU answers.")));
	ereport(DEBUG1, (errmsg_internal("fasted: no CUDA engine: %s", cuda_reason)));
	return fasted_cpu_engine();
}

void
ReportEngineFailure(const FastedEngine *engine, FastedStatus status, const char *engine_text)
{
	const char *text = (engine_text != NULL && engine_text[0] != '\0') ? engine_text : "No detail is known.";

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
		case FASTED_NO_DEVICE:
		case FASTED_UNSUPPORTED:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("the %s engine can't do this here", engine->name),
					 errdetail_internal("%s", text),
					 errhint("See the settings fasted.engine, fasted.filter, fasted.refine and fasted.cpu_kernel.")));
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
