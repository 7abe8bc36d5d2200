/*-------------------------------------------------------------------------
 *
 * path.h
 *	  Index conditions for conditions on a distance.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INDEX_PATH_H
#define FASTED_INDEX_PATH_H

/* Installs a planner hook that adds index paths for conditions on a distance. */
extern void InstallIndexPaths(void);

#endif							/* FASTED_INDEX_PATH_H */
