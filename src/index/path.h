/*-------------------------------------------------------------------------
 *
 * path.h
 *	  What the rest of the extension calls: index conditions for conditions on a distance, EXPLAIN of index
 *	  scans, and advice.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INDEX_PATH_H
#define FASTED_INDEX_PATH_H

/* Installs a planner hook that adds index paths for conditions on a distance. */
extern void InstallIndexPaths(void);

/* Installs hooks that add to EXPLAIN (ANALYZE) what scans of indexes have done. */
extern void InstallIndexExplain(void);

/* Describes the indexes of this database; NULL if there are none.  Sets the advice, or NULL. */
extern char *DescribeIndexes(char **advice);

#endif							/* FASTED_INDEX_PATH_H */
