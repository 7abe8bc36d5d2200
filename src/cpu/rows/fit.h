/*-------------------------------------------------------------------------
 *
 * fit.h
 *	  Computation of a projection from a sample of rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_FIT_H
#define FASTED_CPU_FIT_H

#include "../state/worker.h"

/* Returns the bytes of the context's fit buffer, in which a projection is computed. */
extern size_t cpu_fit_bytes(const FastedContext *context);

/*
 * Computes a projection and the encodings of its levels.  Returns false if there is none or the join
 * is being closed.  There may be no rows that can have pairs.
 */
extern bool cpu_fit(Worker *worker, Projection *projection);

/*
 * Computes a cheap trial projection of one level.  Returns true if few pairs of other rows are
 * within reach at that level.
 */
extern bool cpu_fit_promises(Worker *worker, Projection *projection);

#endif							/* FASTED_CPU_FIT_H */
