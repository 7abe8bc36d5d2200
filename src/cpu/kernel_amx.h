/*-------------------------------------------------------------------------
 *
 * kernel_amx.h
 *	  The kernel for AMX: INT8 tiles of 32 x 32, the rest by AVX-512.
 *
 * Compilers before GCC 11 and Clang 12 do not know the instructions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_KERNEL_AMX_H
#define FASTED_KERNEL_AMX_H

#include "cpu_kernel.h"

#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<amxint8intrin.h>)
#define FASTED_HAVE_AMX
#endif
#endif

#ifdef FASTED_HAVE_AMX

/* Rows and columns of a tile: two by two of the processor's own. */
#define AMX_TILE 32

extern const CpuKernel fasted_kernel_amx;
extern const Int8Kernel fasted_int8_amx;

/*
 * Has the processor AMX, and may this process use it?  The first call asks the
 * system.
 */
extern bool fasted_amx_permitted(void);

/* FP32 in tiles of the same size. */
extern void fasted_sweep_amx_fp32(const TileSweep *sweep);

#endif							/* FASTED_HAVE_AMX */
#endif							/* FASTED_KERNEL_AMX_H */
