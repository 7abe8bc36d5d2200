/*-------------------------------------------------------------------------
 *
 * kernel.c
 *	  Selects a kernel that this CPU can run.
 *
 *-------------------------------------------------------------------------
 */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "kernel.h"

/* All kernels, best first. */
static const CpuKernel *const kernels[] = {
#if defined(__x86_64__)
#ifdef FASTED_HAVE_AMX
	&fasted_kernel_amx,
#endif
	&fasted_kernel_avx512vnni,
	&fasted_kernel_avx512,
#ifdef FASTED_HAVE_AVXVNNI
	&fasted_kernel_avxvnni,
#endif
	&fasted_kernel_avx2int16,
	&fasted_kernel_avx2,
#endif
#if defined(__aarch64__)
	&fasted_kernel_sdot,
	&fasted_kernel_neon,
#endif
	&fasted_kernel_portable,
};

#define KERNELS ((int) (sizeof(kernels) / sizeof(kernels[0])))

/*
 * Returns how many of the best kernels are hidden.  It is 0 except in the build of the unit tests.
 * There the environment variable FASTED_BEST_KERNEL hides all kernels before the one that it
 * names, to simulate a less capable CPU.
 */
static int
hidden_kernels(void)
{
	int			hidden = 0;

#ifdef FASTED_UNIT_TESTS
	const char *best = getenv("FASTED_BEST_KERNEL");

	while (best != NULL && hidden < KERNELS && strcmp(kernels[hidden]->name, best) != 0)
		hidden++;
#endif
	return hidden;
}

const CpuKernel *
fasted_cpu_kernel(int k)
{
	int			hidden = hidden_kernels();

	return (k >= 0 && k < KERNELS - hidden) ? kernels[hidden + k] : NULL;
}

const CpuKernel *
fasted_cpu_choose_kernel(const char *name)
{
	const CpuKernel *kernel;

	for (int k = 0; (kernel = fasted_cpu_kernel(k)) != NULL; k++)
	{
		if ((name == NULL || strcmp(name, kernel->name) == 0) &&
			kernel->available())
			return kernel;
	}
	return NULL;
}

void
fasted_cpu_reset_fpu(void)
{
	(void) fesetenv(FE_DFL_ENV);
#if defined(__x86_64__)
	_mm_setcsr(0x1f80);			/* all exceptions masked, round to nearest, denormals kept */
#endif
}
