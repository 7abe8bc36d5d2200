/*-------------------------------------------------------------------------
 *
 * processors.h
 *	  Number of CPUs that the process may use, and the clock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PROCESSORS_H
#define FASTED_PROCESSORS_H

#include <stdint.h>

/* Returns the monotonic time in nanoseconds. */
extern uint64_t fasted_now(void);

/* Returns the number of CPUs that this process may run on, limited by its cgroup's CPU quota. */
extern int	fasted_processors(void);

/*
 * Returns the smallest CPU quota of the process's cgroup and its parents, as a number of CPUs,
 * rounded up; 0 if there is no quota.  Files are sought below root, which is empty except in
 * tests.
 */
extern int	fasted_cgroup_processors(const char *root);

#endif							/* FASTED_PROCESSORS_H */
