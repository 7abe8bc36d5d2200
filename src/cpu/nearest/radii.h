/*-------------------------------------------------------------------------
 *
 * radii.h
 *	  Initial radii of a nearest-neighbor join.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_RADII_H
#define FASTED_CPU_RADII_H

#include "../state/worker.h"

/* Phase of a join: sets the radii of all blocks of rows; each block is one work item. */
extern void cpu_find_radii(Worker *worker);

#endif							/* FASTED_CPU_RADII_H */
