/*-------------------------------------------------------------------------
 *
 * call_plan.h
 *	  A call of one of our functions in FROM, in whose place a scan node comes.
 *
 * What the nodes have in common that do so: the planner's side of it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CALL_PLAN_H
#define FASTED_CALL_PLAN_H

#include "fmgr.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

/* The call, if it is all that this item of FROM has; else NULL. */
extern FuncExpr *CallInFrom(const RangeTblEntry *rte);

/* The type of its ids; first: 1 if argument id_type comes before the others, else 0. */
extern Oid	KeyTypeOfCall(const FuncExpr *call, int first);

/*
 * What is called, if it may be one of our functions that return sets, called as it
 * is.  (With SECURITY DEFINER or settings of its own, fmgr puts another function
 * before it.)  Else NULL.
 */
extern PGFunction CalledFunction(Oid funcid);

/*
 * Does the query use nothing of the call but columns of these types?  Whole rows are
 * not ours to make, as locking wants them; nor are columns that the query takes for
 * another type: the parser takes id_type's from the argument that is written first,
 * even if that was given another name.  The executor reports it of a function's rows.
 */
extern bool UsesPlainColumns(PlannerInfo *root, RelOptInfo *rel, const Oid *types, int ncolumns);

/*
 * The same where rows of others are locked or changed, too: then each row of the call is
 * kept whole beside the other one, to be looked at again (call_row.h).
 */
extern bool UsesPlainColumnsOrRow(PlannerInfo *root, RelOptInfo *rel, const Oid *types,
								  int ncolumns);

/*
 * The node's path for what this item of FROM calls, or NULL, where it does not serve that.
 * A path comes not in competition with the function scan, but instead of it; partial ones
 * may be added beside it.
 */
typedef CustomPath *(*OfferCallPath) (PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);

/* From now on, and in every process that reads plans. */
extern void InstallCallNode(const CustomScanMethods *methods, OfferCallPath offer);

/*
 * A path that gives the rows of the call, with the planner's number of them; no costs yet.
 * workers: of a partial path (outlet_scan.h); else 0.
 */
extern CustomPath *MakeCallPath(RelOptInfo *rel, PlannerInfo *root,
								const CustomPathMethods *methods, int workers);

/* For how many workers a partial path of the call is to be offered; 0: none is.  first: see above. */
extern int	WorkersOfCall(PlannerInfo *root, RelOptInfo *rel, FuncExpr *call, int first,
						  int ncolumns);

/* Of the rows, for each process: the leader takes its part where it has time to, as core has it. */
extern double ShareOfCall(const Path *path);

/*
 * The costs of such a path, for what the call costs before its first row and in all,
 * beside those of each row.
 */
extern void CostCallPath(PlannerInfo *root, RelOptInfo *rel, Path *path, Cost startup, Cost total);

/*
 * Sets the node's target list and the columns of its scan tuple, those that are used
 * by it, by the relation's target and by the conditions in plan.qual, which are there.
 * Returns their numbers.
 */
extern List *PlanCallColumns(CustomScan *scan, RelOptInfo *rel, const PathTarget *target,
							 List *tlist);

/*
 * The plan of such a path, whose custom_private is the call and a list of numbers: the
 * call in custom_exprs; the numbers, and those of the columns, in custom_private.
 */
extern Plan *PlanCall(const CustomScanMethods *methods, RelOptInfo *rel, const CustomPath *path,
					  List *tlist, List *clauses);

/* Of such a call: if whole rows are wanted, the scan tuple is all columns, and the row. */
extern void PlanCallRow(PlannerInfo *root, CustomScan *scan, const RelOptInfo *rel);

#endif							/* FASTED_CALL_PLAN_H */
