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

#endif							/* FASTED_CPU_FP32_H */
