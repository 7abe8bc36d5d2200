/*-------------------------------------------------------------------------
 *
 * source_planning.h
 *	  What the source of a join means for the plan around it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SOURCE_PLANNING_H
#define FASTED_SOURCE_PLANNING_H

#include "nodes/pathnodes.h"

/*
 * Called for each call of fasted_self_join, before anything around it is planned.
 * relation and column are its first two arguments, as far as they are known.
 *
 * The function reads its source while the plan around it runs.  If that calls what
 * is not parallel safe, or if it is not known what is read, the whole plan does
 * without workers.  And the plan depends on the relations that are read: it is made
 * anew when one of them changes, a view or a policy, for example.
 */
extern void ConsiderSource(PlannerInfo *root, const Node *relation, const Node *column);

#endif							/* FASTED_SOURCE_PLANNING_H */
