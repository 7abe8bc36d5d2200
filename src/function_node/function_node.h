/*-------------------------------------------------------------------------
 *
 * function_node.h
 *	  The scan node that takes the place of one of our functions in FROM.
 *
 * PostgreSQL stores the whole result of a function in FROM before the first row
 * of it is seen.  The node hands rows on as they come instead.
 *
 *	  plan.c		which calls the node serves; paths and plans, also of count(*)
 *	  conditions.c	conditions that are applied to pairs, before tuples are formed
 *	  exec.c		begin, run, rescan, end
 *	  outlet.c		rows of blocks, which in a parallel plan the leader deals
 *	  explain.c		what EXPLAIN says
 *
 * The node scans no relation that the planner knows (scanrelid is 0): its scan
 * tuple has just the columns of the call that are used (custom_scan_tlist).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_FUNCTION_NODE_H
#define FASTED_FUNCTION_NODE_H

#include "access/parallel.h"
#include "base/block_ring.h"
#include "commands/explain.h"
#include "functions/function.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

/* Sets hooks and registers the node; once, when the library is loaded. */
extern void InstallFunctionNode(void);

/* The query's count(*), if that is all that becomes of the rows it reads; else NULL. */
extern Aggref *OnlyCount(PlannerInfo *root);

/*
 * Conditions on pairs in a plan: dist <= x and its like, where x does not depend on the row,
 * and comparisons of id_a with id_b for integer ids.  Conditions of other kinds remain with the
 * executor.
 */
typedef struct PairConditions
{
	List	   *dist_operators; /* of dist <operator> bound, OidList */
	List	   *dist_bounds;	/* expressions of type float8, as many */
	List	   *id_operators;	/* of id_a <operator> id_b, OidList */
} PairConditions;

/* Takes the clauses that it can; returns those that are left. */
extern List *TakeConditions(List *clauses, Index relid, PairConditions *conditions);

/* bounds: the ExprStates of dist_bounds. */
extern PairFilter EvaluateConditions(const PairConditions *conditions, List *bounds,
									 ExprContext *econtext);

/* "dist < 0.5 AND id_a < id_b" with the bounds as texts; NULL: no condition. */
extern char *ConditionsText(const PairConditions *conditions, List *bound_texts);

/* What the plan says beyond what every plan says. */
typedef struct FunctionPlan
{
	FuncExpr   *call;
	const FunctionDescriptor *function;
	int			first;			/* of the arguments: 1 if id_type comes before it, else 0 */
	bool		count;			/* count(*) of all rows is the only column */
	List	   *columns;		/* of the scan tuple, IntList; the last one is 0: the whole row */
	double		estimated_rows;
	PairConditions conditions;
} FunctionPlan;

extern FunctionPlan ReadFunctionPlan(const CustomScan *scan);

/* The type of the call's ids. */
extern Oid	KeyTypeOfCall(const FuncExpr *call, int first);

/* The node at run time. */
typedef struct FunctionNode
{
	CustomScanState css;
	FunctionPlan plan;
	bool		timed;			/* EXPLAIN ANALYZE wants times */
	List	   *held_relations; /* from begin to end */

	/* Arguments, which are evaluated once, and again only when a parameter has changed. */
	List	   *arguments;		/* ExprStates */
	List	   *bounds;			/* those of conditions */
	Bitmapset  *params;			/* executor's parameters in the arguments */
	MemoryContext argument_context; /* the values are copied to it */
	NullableDatum *values;		/* NULL: not evaluated yet */

	MemoryContext context;		/* the run lives here */
	FunctionRun *run;			/* NULL: not begun, or over */
	FunctionTotals totals;		/* of the runs that are over */

	/*
	 * Whole rows of the call, where rows of others are locked or changed beside it: an UPDATE,
	 * say, that had to wait for another one looks at the row once more, with the call's row
	 * that was beside it.  So that one is in the scan tuple, behind its columns.
	 */
	Index		relation;		/* in the range table */
	TupleDesc	row;			/* NULL: no whole row is wanted */
	MemoryContext row_context;	/* of the last one */

	/* The block at work; NULL: none. */
	OutletBlock *block;
	uint32		next_row;
	OutletBlock *own_block;		/* where there are no workers */
	bool		over;			/* there are no further blocks */

	/* In a parallel plan. */
	BlockRing  *ring;			/* NULL: not in one */
	bool		dealer;			/* this process fills blocks */
	int			ring_block;		/* the number of the block at work; -1: none */
} FunctionNode;

/* --- exec.c */

extern Node *CreateFunctionNode(CustomScan *plan);

/* Fills the block with at least one row; false: there are none. */
extern bool ProduceBlock(FunctionNode *scan, OutletBlock *block);
extern uint64 CountScan(FunctionNode *scan);

/*
 * Where whole rows are wanted.  Is a row looked at once more?  Then the call's is in the slot;
 * none, the second time.
 */
extern bool LooksAgain(FunctionNode *scan, TupleTableSlot *slot);

/* Adds the row to its columns in the slot; valid until the next one. */
extern void AddWholeRow(FunctionNode *scan, TupleTableSlot *slot);

/* The totals of all runs, including the one at work. */
extern FunctionTotals TotalsUntilNow(const FunctionNode *scan);

/* --- outlet.c: rows of blocks */

extern void BeginOutlet(FunctionNode *scan);

/* There is no block at work, and rows may come. */
extern void RestartOutlet(FunctionNode *scan);

/* Methods of the node. */
extern TupleTableSlot *NextOutletRow(CustomScanState *node);
extern Size EstimateSharedOutlet(CustomScanState *node, ParallelContext *pcxt);
extern void InitializeSharedOutlet(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void ReinitializeSharedOutlet(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void InitializeSharedOutletInWorker(CustomScanState *node, shm_toc *toc, void *shared);
extern void LeaveSharedOutlet(CustomScanState *node);

/* --- explain.c */

extern void ExplainFunctionNode(CustomScanState *node, List *ancestors, struct ExplainState *es);

/* What computed, or would compute where no engine has run (an empty name). */
extern void ExplainEngine(const FastedStats *stats, struct ExplainState *es);

/* What it did, in so many runs together. */
extern void ExplainWork(const FastedStats *stats, int runs, struct ExplainState *es);

/* What depends on the machine, to be left out with TIMING OFF. */
extern void ExplainMachine(const FastedStats *stats, struct ExplainState *es);

#endif							/* FASTED_FUNCTION_NODE_H */
