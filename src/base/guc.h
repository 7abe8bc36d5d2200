/*-------------------------------------------------------------------------
 *
 * guc.h
 *	  The extension's settings, all named fasted.*.
 *
 * doc/reference.md documents them; doc/development.md documents the developer options.
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

/* The values equal those of FastedPrune.  "force" is for tests: it includes small inputs. */
typedef enum AutoChoice
{
	CHOICE_AUTO,
	CHOICE_OFF,
	CHOICE_FORCE
} AutoChoice;

extern int	fasted_setting_engine;		/* an EngineChoice */
extern int	fasted_setting_threads; /* 0: one for each available CPU */
extern int	fasted_setting_memory_limit;	/* kB */
extern int	fasted_setting_cpu_kernel;	/* index into cpu_kernel_options; 0: auto */
extern int	fasted_setting_prune;	/* a FastedPrune */

/* For the CUDA engine. */
extern char *fasted_setting_cuda_library;
extern int	fasted_setting_filter;	/* a FastedFilter */
extern int	fasted_setting_gpu_memory_limit;	/* kB; 0: all free memory */
extern int	fasted_setting_gpu_idle_timeout;	/* ms; -1: no timeout */
extern char *fasted_setting_gpu_devices;	/* see device_list.h */

/* For the planner. */
extern bool fasted_setting_scan_node;
extern bool fasted_setting_join_node;

extern void DefineSettings(void);

/* The name of the CPU kernel that is set; NULL: the best available one. */
extern const char *RequestedCpuKernel(void);

#endif							/* FASTED_GUC_H */
