/*-------------------------------------------------------------------------
 *
 * near_bits.h
 *	  Thresholds of rows of bits in a nearest-neighbor join.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_NEAR_BITS_H
#define FASTED_CPU_NEAR_BITS_H

#include "../state/worker.h"

/* Implements CpuFilter.near_thresholds for rows of bits.  The reaches of the columns are retained. */
extern void cpu_near_thresholds_of_bits(NearThresholds *near, const NearSide *a, const NearSide *b,
										StageThresholds *stage);

#endif							/* FASTED_CPU_NEAR_BITS_H */
