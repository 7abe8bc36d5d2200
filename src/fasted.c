/*-------------------------------------------------------------------------
 *
 * fasted.c
 *	  Entry point of the library, called by PostgreSQL when it loads the library.
 *
 * The folders, from the highest layer to the lowest, are listed below.  Files include headers of
 * their own folder and of lower folders only (test/setup/check-includes).
 *
 *	  core.c	the functions that another library of the project calls
 *	  info.c	fasted_info(): versions and state of all components; advice on preloading
 *	  index/	the index access method "fasted", and its index conditions
 *	  join_node/	join method of the planner for joins on a distance: retains the rows of both
 *				sides, pushes their vectors to an engine, checks the other clauses on each pair
 *	  function_node/	plan node for functions in FROM: plans, executes and explains them,
 *				counts their rows, distributes rows to parallel workers
 *	  epsilon/	fasted_epsilon: random sample, distance of a rank
 *	  functions/	from pairs to result rows: fasted_self_join, fasted_knn_join,
 *				fasted_neighbors, fasted_cluster and fasted_keep_one; their common descriptions
 *				and planner estimates; the aggregate fasted_medoid
 *	  distance/	SQL functions of two vectors: how joins recognize them; their selectivity and other
 *				estimates from the statistics of ANALYZE
 *	  join/		from rows to the engine, with staging and spilling; from the engine to pairs of
 *				row numbers; the keys of rows and their order
 *	  tree/		spanning trees of row numbers, and the clusters of HDBSCAN in them
 *	  rows/		from heap tuples to rows of floats or doubles: the query that reads a source, with
 *				parallel workers too (input_queue.c), checks and conversions
 *	  cpu/		the multithreaded CPU engine: from candidates to exact pairs, in folders that
 *				cpu/schedule/engine.c lists; the CUDA engine is a separate library, in the folder
 *				cuda next to this one
 *	  base/		settings, interrupts, cleanup, progress, arrays of row numbers, ring of blocks
 *				between processes; differences between PostgreSQL versions
 *	  engine/	the interface of the engines, and code that they share; plain C
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/guc.h"
#include "fmgr.h"
#include "function_node/function_node.h"
#include "index/path.h"
#include "join_node/join_node.h"
#include "rows/input_queue.h"

/* Name and version for pg_get_loaded_modules(); the Makefile defines the version. */
#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "fasted",.version = FASTED_VERSION);
#else
PG_MODULE_MAGIC;
#endif

void		_PG_init(void);

/* Continues after the last step that succeeded, if an earlier call ran out of memory. */
void
_PG_init(void)
{
	static void (*const steps[]) (void) = {
		DefineSettings, InstallPlannerHook, InstallInputNode, InstallFunctionNode, InstallJoinNode,
		InstallIndexPaths, InstallIndexExplain
	};
	static size_t done = 0;

	for (; done < lengthof(steps); done++)
		steps[done] ();
}
