/*-------------------------------------------------------------------------
 *
 * intake_node.h
 *	  The plan node by which parallel workers hand rows to the leader.
 *
 * The planner's plan for reading a source is Gather over a partial plan.  This node
 * goes between the two.  In a worker it takes the rows of the plan below, converts
 * them and writes them into a ring of blocks in the plan's shared memory
 * (intake_ring.h), so that no tuple is made of them.  In the leader it reads the
 * leader's own share of the plan, if that has one, and gives the rows of the ring
 * to the sink.  Nothing else comes out of it but
 *
 *	- rows that the ring does not take: those with an error in them, which the
 *	  leader then reports, and those whose key is too long for a block
 *	- in the leader, a row of nulls to let Gather look for these
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INTAKE_NODE_H
#define FASTED_INTAKE_NODE_H

#include "nodes/plannodes.h"
#include "rows/row_taker.h"

/* Registers the node; once, when the library is loaded. */
extern void InstallIntakeNode(void);

/* Puts the node below the plan's Gather, which is its top. */
extern void AddIntakeNode(PlannedStmt *plan);

/*
 * Runs a plan with the node in it, whose rows go to the taker's sink.  In the GUC
 * nest level in which it was planned.
 */
extern void RunIntakePlan(PlannedStmt *plan, RowTaker *taker);

#endif							/* FASTED_INTAKE_NODE_H */
