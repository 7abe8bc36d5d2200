/*-------------------------------------------------------------------------
 *
 * path.h
 *	  Index conditions for conditions on a distance, and EXPLAIN of index scans.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INDEX_PATH_H
#define FASTED_INDEX_PATH_H

/* Installs a planner hook that adds index paths for conditions on a distance. */
extern void InstallIndexPaths(void);

/* Installs hooks that add to EXPLAIN (ANALYZE) what scans of indexes have done. */
extern void InstallIndexExplain(void);

#endif							/* FASTED_INDEX_PATH_H */
