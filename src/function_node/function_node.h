/*-------------------------------------------------------------------------
 *
 * function_node.h
 *	  The custom scan node that replaces a FunctionScan of one of fasted's functions.
 *
 * A FunctionScan stores the whole result of a function before it returns the first row.
 * This node returns rows as soon as they are computed.
 *
 *	  plan.c		which calls the node can run; paths and plans, also for count(*)
 *	  exec.c		begin, run, rescan, end; blocks of rows, shared with the workers of a parallel plan
 *	  explain.c		EXPLAIN output
 *
 * The node scans no relation of the range table (scanrelid is 0).  Its scan tuple (custom_scan_tlist) has
 * the columns of the call.
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

/* The part of a plan that is specific to this node. */
typedef struct FunctionPlan
{
	FuncExpr   *call;
	List	   *args;			/* its arguments without id_type */
	Oid			key_type;		/* the type of its ids */
	int			number;			/* the function's number (NumberedFunction) */
	const FunctionDescriptor *function;
	bool		count;			/* the scan tuple is only count(*) of all rows */
	bool		ids;			/* the columns of ids are used; else they are null */
	double		estimated_rows;
	List	   *bounds;			/* upper bounds of dist, expressions, that reduce eps */
	List	   *strategies;		/* IntList: the btree strategies of their operators */
} FunctionPlan;

extern FunctionPlan ReadFunctionPlan(const CustomScan *scan);

/* The node at run time. */
typedef struct FunctionNode
{
	CustomScanState css;
	FunctionPlan plan;
	List	   *open_relations;	/* source relations that are open until the node ends */

	/* Arguments of the call.  They are evaluated again only when a parameter has changed. */
	List	   *arguments;		/* ExprStates */
	ExprState  *id_type;		/* NULL: the function has no such argument */
	List	   *bounds;			/* ExprStates of the plan's bounds */
	Bitmapset  *params;			/* PARAM_EXEC parameters that the arguments depend on */
	MemoryContext argument_context; /* holds the values */
	NullableDatum *values;		/* values of the arguments; NULL before they are evaluated */

	MemoryContext context;		/* holds the run */
	FunctionRun *run;			/* the current run; NULL before it begins and after it ends */
	FunctionTotals totals;		/* totals of the runs that have ended */

	int			columns[OUTPUT_COLUMNS];	/* of a block, by column of the scan tuple */

	/* The block that rows are returned from; NULL if there is none. */
	OutputBlock *block;
	uint32		next_row;		/* the next row of the block */
	OutputBlock *own_block;		/* the block to fill if the plan is not parallel */
	bool		over;			/* the run has no more blocks */

	/* In a parallel plan, whose leader fills the blocks: */
	BlockRing  *ring;			/* the blocks in shared memory; NULL if there are none */
	int			ring_block;		/* the number of the current block; -1 if there is none */
} FunctionNode;

/* --- exec.c */

extern Node *CreateFunctionNode(CustomScan *plan);

/* Returns the totals of all runs, including the current one. */
extern FunctionTotals CurrentTotals(const FunctionNode *scan);

/* --- explain.c */

extern void ExplainFunctionNode(CustomScanState *node, List *ancestors, struct ExplainState *es);

/* Shows the engine that ran; if none did (its name is empty), the engine that is requested. */
extern void ExplainEngine(const FastedStats *stats, struct ExplainState *es);

/* Shows numbers of rows, candidates and pairs, summed over this number of runs. */
extern void ExplainWork(const FastedStats *stats, int runs, struct ExplainState *es);

/* Shows hardware, memory and times, which vary between machines: omitted with TIMING OFF. */
extern void ExplainMachine(const FastedStats *stats, struct ExplainState *es);

#endif							/* FASTED_FUNCTION_NODE_H */
