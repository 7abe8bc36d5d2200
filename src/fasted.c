/*-------------------------------------------------------------------------
 *
 * fasted.c
 *	  Entry of the library: what PostgreSQL calls when it loads it.
 *
 * The folders, from the top down.  Files include headers of their own folder and of folders
 * below it only (test/setup/check-includes).
 *
 *	  info.c	fasted_info(): the state of all of these, and how to preload the library
 *	  join_node/	joins on a distance, as a join method of the planner: both sides' rows are
 *				kept and pushed, pairs are checked by the other clauses
 *	  function_node/	functions in FROM: one plan node plans, executes, counts and explains
 *				all of them, and deals their rows to parallel workers
 *	  epsilon/	fasted_epsilon: a sample, its nearest pairs, an interval
 *	  functions/	pairs -> rows of a result: fasted_self_join, fasted_knn_join,
 *				fasted_neighbors, fasted_cluster and fasted_keep_one, a description of each,
 *				and the planner's estimates
 *	  distance/	SQL functions of two vectors
 *	  citus/	joins whose work the workers of a Citus cluster share
 *	  join/		rows -> engine, staged or spilled; engine -> pairs of row numbers; the ids of
 *				the rows and their order
 *	  rows/		heap tuple -> row of floats or doubles: the query that reads a source, by parallel
 *				workers too (intake.c), checks and conversion; statistics of its columns
 *	  cpu/		the CPU engine: candidate -> exact pair, by threads; the CUDA engine is a
 *				library of its own, in the folder cuda beside this one
 *	  base/		settings, interrupts, cleanup, progress, arrays of row numbers, the ring of blocks
 *				between processes; what differs between server versions
 *	  engine/	the interface of the engines, and what they share; plain C
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/guc.h"
#include "fmgr.h"
#include "function_node/function_node.h"
#include "join_node/join_node.h"
#include "rows/reader.h"

/* The name and version that pg_get_loaded_modules() shows; the Makefile knows the latter. */
#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "fasted",.version = FASTED_VERSION);
#else
PG_MODULE_MAGIC;
#endif

void		_PG_init(void);

void
_PG_init(void)
{
	DefineSettings();
	InstallPlannerHook();
	InstallIntakeNode();
	InstallFunctionNode();
	InstallJoinNode();
}
