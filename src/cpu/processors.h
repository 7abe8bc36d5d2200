/*-------------------------------------------------------------------------
 *
 * processors.h
 *	  How many processors this process may use.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PROCESSORS_H
#define FASTED_PROCESSORS_H

/* Those that it may run on, or fewer, where a cgroup grants less of their time. */
extern int	fasted_processors(void);

/*
 * The number of processors that the smallest quota of the process's cgroup (of
 * version 2) and its parents pays for, rounded up; 0 if none of them has a quota.
 * Files are looked for below root, which is empty except in tests.
 */
extern int	fasted_cgroup_processors(const char *root);

#endif							/* FASTED_PROCESSORS_H */
