/*-------------------------------------------------------------------------
 *
 * kernel_avxvnni.h
 *	  The kernel for AVX-VNNI, which processors without AVX-512 have.
 *
 * Compilers before GCC 11 and Clang 12 do not know the instructions.  Tests and
 * benchmarks on processors that have AVX-512 instead define FASTED_AVXVNNI_EVEX and
 * get the same instructions, of 256 bits as well, in its encoding.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_KERNEL_AVXVNNI_H
#define FASTED_KERNEL_AVXVNNI_H

#include "cpu_kernel.h"

#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<avxvnniintrin.h>)
#define FASTED_HAVE_AVXVNNI
#endif
#endif

#ifdef FASTED_HAVE_AVXVNNI
extern const CpuKernel fasted_kernel_avxvnni;
extern const Int8Kernel fasted_int8_avxvnni;

extern bool fasted_avxvnni_present(void);
#endif

#endif							/* FASTED_KERNEL_AVXVNNI_H */
