/*-------------------------------------------------------------------------
 *
 * join_node.h
 *	  A join method of the planner: two relations, joined by an engine.
 *
 * The node is offered where a join clause bounds the distance of two vectors (join_plan.h).
 * Both sides are read, their rows are kept (kept_rows.h), and their vectors are given to an
 * engine.  The pairs that the engine finds are checked by the other clauses, so the result is
 * that of a nested loop.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_NODE_H
#define FASTED_JOIN_NODE_H

extern void InstallJoinNode(void);

#endif							/* FASTED_JOIN_NODE_H */
