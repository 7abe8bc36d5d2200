/*-------------------------------------------------------------------------
 *
 * choice_eps.h
 *	  Estimate of the distance of nearest neighbors, for which a join chooses its filter.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_CHOICE_EPS_H
#define FASTED_CPU_CHOICE_EPS_H

#include "../state/worker.h"

/* Sets the eps for which the filter is chosen: the median radius of a sample of rows. */
extern void cpu_find_choice_eps(Worker *worker);

#endif							/* FASTED_CPU_CHOICE_EPS_H */
