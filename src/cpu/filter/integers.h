/*-------------------------------------------------------------------------
 *
 * integers.h
 *	  The filter for numbers in INT8 or INT16.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_INTEGERS_H
#define FASTED_CPU_INTEGERS_H

#include "../state/worker.h"

/* The filter for numbers in INT8, or in INT16 on CPUs without products of INT8. */
extern const CpuFilter cpu_filter_integers;

#endif							/* FASTED_CPU_INTEGERS_H */
