/*-------------------------------------------------------------------------
 *
 * fasted.c
 *	  Entry of the library: what PostgreSQL calls when it loads it.
 *
 * Where a vector goes, and in which file to read about it:
 *
 *	  heap tuple			reader.c		SELECT id, embedding FROM ... by SPI
 *							parallel_reader.c	by parallel workers
 *	  -> float4 row			vector.c		checked, converted
 *	  -> engine				join.c			staged, or spilled (spill.c)
 *	  -> candidate, pair	cpu/, cuda/		behind engine.h
 *	  -> ids				keys.c			row numbers become ids, in order
 *	  -> tuple				scan_node.h		the scan node that streams
 *							self_join.c		the SQL functions, materialised
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "guc.h"
#include "parallel_plan.h"
#include "scan_node.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	DefineSettings();
	InstallPlannerHook();
	InstallScanNode();
}
