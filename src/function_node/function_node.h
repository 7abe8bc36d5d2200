/*-------------------------------------------------------------------------
 *
 * function_node.h
 *	  The custom scan node that replaces a FunctionScan of one of fasted's functions.
 *
 * A FunctionScan stores the whole result of a function before it returns the first row.
 * This node returns rows as soon as they are computed.
 *
 *	  plan.c		which calls the node can run; paths and plans, also for count(*)
 *	  conditions.c	conditions that are evaluated on pairs, before tuples are formed
 *	  exec.c		begin, run, rescan, end
 *	  output_queue.c		output queue: blocks of rows, shared with the workers of a parallel plan
 *	  explain.c		EXPLAIN output
 *
 * The node scans no relation of the range table (scanrelid is 0).  Its scan tuple has only
 * the columns of the call that the query uses (custom_scan_tlist).
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

/* Sets the planner hooks and registers the node.  Called once, when the library is loaded. */
extern void InstallFunctionNode(void);

/* Returns the count(*) if it is the only aggregate of an ungrouped query; otherwise NULL. */
extern Aggref *OnlyCount(PlannerInfo *root);

/*
 * Conditions of a plan that the node evaluates on pairs: comparisons of dist with a value that
 * does not depend on the row, and comparisons of integer columns id_a and id_b.  The executor
 * evaluates all other conditions.
 */
typedef struct PairConditions
{
	List	   *dist_operators; /* OidList: operators of "dist <operator> bound" */
	List	   *dist_bounds;	/* bounds, one per dist_operators: expressions of type float8 */
	List	   *id_operators;	/* OidList: operators of "id_a <operator> id_b" */
} PairConditions;

/* Sets *conditions to the clauses that the node can evaluate, and returns the other clauses. */
extern List *TakeConditions(List *clauses, Index relid, PairConditions *conditions);

/* Evaluates the conditions to a filter of pairs.  bounds: the ExprStates of dist_bounds. */
extern PairFilter EvaluateConditions(const PairConditions *conditions, List *bounds,
									 ExprContext *econtext);

/* Formats the conditions, as in "dist < 0.5 AND id_a < id_b"; NULL if there are none. */
extern char *ConditionsText(const PairConditions *conditions, List *bound_texts);

/* The part of a plan that is specific to this node. */
typedef struct FunctionPlan
{
	FuncExpr   *call;
	List	   *args;			/* its arguments without id_type */
	Oid			key_type;		/* the type of its ids */
	const FunctionDescriptor *function;
	bool		count;			/* the scan tuple is only count(*) of all rows */
	List	   *columns;		/* IntList: the scan tuple's columns; a last 0 is the whole row */
	double		estimated_rows;
	PairConditions conditions;
} FunctionPlan;

extern FunctionPlan ReadFunctionPlan(const CustomScan *scan);

/* The node at run time. */
typedef struct FunctionNode
{
	CustomScanState css;
	FunctionPlan plan;
	bool		timed;			/* EXPLAIN ANALYZE shows times */
	List	   *open_relations;	/* source relations that are open until the node ends */

	/* Arguments of the call.  They are evaluated again only when a parameter has changed. */
	List	   *arguments;		/* ExprStates */
	List	   *bounds;			/* ExprStates of the conditions' dist_bounds */
	Bitmapset  *params;			/* PARAM_EXEC parameters that the arguments depend on */
	MemoryContext argument_context; /* holds the values */
	NullableDatum *values;		/* values of the arguments; NULL before they are evaluated */

	MemoryContext context;		/* holds the run */
	FunctionRun *run;			/* the current run; NULL before it begins and after it ends */
	FunctionTotals totals;		/* totals of the runs that have ended */

	/*
	 * Whole rows of the call, for EvalPlanQual.  If the query locks or changes rows of other
	 * tables, it may recheck a row with the call's row that it was joined with.  Then the scan
	 * tuple has the whole row as its last column.
	 */
	Index		relation;		/* range table index of the call */
	TupleDesc	row;			/* descriptor of the whole row; NULL if none is needed */
	MemoryContext row_context;	/* holds the current whole row */

	/* The block that rows are returned from; NULL if there is none. */
	OutputBlock *block;
	uint32		next_row;		/* the next row of the block */
	OutputBlock *own_block;		/* the block to fill if the plan is not parallel */
	bool		over;			/* the run has no more blocks */

	/* In a parallel plan: */
	BlockRing  *ring;			/* the blocks in shared memory; NULL if there are none */
	bool		is_leader;		/* this process is the leader, which fills the blocks */
	int			ring_block;		/* the number of the current block; -1 if there is none */
} FunctionNode;

/* --- exec.c */

extern Node *CreateFunctionNode(CustomScan *plan);

/* Fills the block with at least one row.  Returns false if there are no more rows. */
extern bool ProduceBlock(FunctionNode *scan, OutputBlock *block);

/* Runs the call and returns the number of its rows. */
extern uint64 CountScan(FunctionNode *scan);

/*
 * Returns false unless EvalPlanQual rechecks a row.  During a recheck, stores the call's row in
 * the slot the first time, and an empty slot after that.  Only for nodes with whole rows.
 */
extern bool FetchRecheckedRow(FunctionNode *scan, TupleTableSlot *slot);

/* Sets the slot's last column to the whole row, which is valid until the next call. */
extern void AddWholeRow(FunctionNode *scan, TupleTableSlot *slot);

/* Returns the totals of all runs, including the current one. */
extern FunctionTotals CurrentTotals(const FunctionNode *scan);

/* --- output_queue.c: the output queue */

extern void BeginOutput(FunctionNode *scan);

/* Prepares for a rescan: discards the current block. */
extern void RestartOutput(FunctionNode *scan);

/* Methods of the node (CustomExecMethods). */
extern TupleTableSlot *NextOutputRow(CustomScanState *node);
extern Size EstimateSharedOutput(CustomScanState *node, ParallelContext *pcxt);
extern void InitializeSharedOutput(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void ReinitializeSharedOutput(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void InitializeSharedOutputInWorker(CustomScanState *node, shm_toc *toc, void *shared);
extern void DetachSharedOutput(CustomScanState *node);

/* --- explain.c */

extern void ExplainFunctionNode(CustomScanState *node, List *ancestors, struct ExplainState *es);

/* Shows the engine that ran; if none did (its name is empty), the engine that is requested. */
extern void ExplainEngine(const FastedStats *stats, struct ExplainState *es);

/* Shows numbers of rows, candidates and pairs, summed over this number of runs. */
extern void ExplainWork(const FastedStats *stats, int runs, struct ExplainState *es);

/* Shows hardware, memory and times, which vary between machines: omitted with TIMING OFF. */
extern void ExplainMachine(const FastedStats *stats, struct ExplainState *es);

#endif							/* FASTED_FUNCTION_NODE_H */
