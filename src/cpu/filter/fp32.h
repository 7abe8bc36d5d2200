/*-------------------------------------------------------------------------
 *
 * fp32.h
 *	  The filter for numbers in FP32.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_FP32_H
#define FASTED_CPU_FP32_H

#include "../state/worker.h"

/* The filter for numbers in FP32. */
extern const CpuFilter cpu_filter_fp32;

/* Functions of CpuFilter (cpu_filter.h says what each does) that the filter for bits has, too. */
extern uint32_t cpu_fp32_words(const CpuKernel *kernel, uint32_t dimensions);
extern uint32_t cpu_fp32_word_step(const CpuKernel *kernel);
extern bool cpu_fp32_sides_differ(const CpuKernel *kernel);
extern void cpu_fp32_sweep(const CpuKernel *kernel, const TileSweep *sweep);
extern uint32_t cpu_fp32_partial_side(const CpuKernel *kernel);

#endif							/* FASTED_CPU_FP32_H */
