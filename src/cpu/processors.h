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
 * As many as the quotas of the process's cgroup and those above it come to,
 * rounded up; zero: there is no quota.  Files are looked for below root, which is
 * empty but in tests.
 */
extern int	fasted_cgroup_processors(const char *root);

#endif							/* FASTED_PROCESSORS_H */
