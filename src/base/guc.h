/*-------------------------------------------------------------------------
 *
 * guc.h
 *	  The extension's settings, all named fasted.*.
 *
 * doc/settings.md documents them, doc/development.md those for developers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_GUC_H
#define FASTED_GUC_H

typedef enum EngineChoice
{
	ENGINE_AUTO,
	ENGINE_CPU,
	ENGINE_CUDA
} EngineChoice;

/* "force" is for tests: small tables too. */
typedef enum DistributeChoice
{
	DISTRIBUTE_AUTO,
	DISTRIBUTE_OFF,
	DISTRIBUTE_FORCE
} DistributeChoice;

/* "force" is for tests: small joins too. */
typedef enum GpuShareChoice
{
	GPU_SHARE_AUTO,
	GPU_SHARE_OFF,
	GPU_SHARE_FORCE
} GpuShareChoice;

extern int	fasted_setting_engine;		/* an EngineChoice */
extern int	fasted_setting_threads;		/* 0: one for each processor */
extern int	fasted_setting_max_threads; /* administrators' limit; 0: none */
extern int	fasted_setting_memory_limit;	/* kB */
extern int	fasted_setting_cpu_kernel;	/* index into the engine's kernels, 0: auto */
extern int	fasted_setting_prune;	/* a FastedPrune */

extern int	fasted_setting_distribute;	/* a DistributeChoice */

/* For the CUDA engine. */
extern char *fasted_setting_cuda_library;
extern int	fasted_setting_filter;	/* a FastedFilter */
extern bool fasted_setting_refine;
extern int	fasted_setting_gpu_memory_limit;	/* kB, 0: what is free */
extern char *fasted_setting_gpu_devices;	/* see device_list.h */
extern int	fasted_setting_gpu_share;	/* a GpuShareChoice */

/* For the planner. */
extern bool fasted_setting_scan_node;
extern bool fasted_setting_join_node;

extern void DefineSettings(void);

/* The name of the CPU kernel asked for; NULL: the best one there is. */
extern const char *RequestedCpuKernel(void);

#endif							/* FASTED_GUC_H */
