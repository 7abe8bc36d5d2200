/*-------------------------------------------------------------------------
 *
 * cost.c
 *	  Cost of a scan of an index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "index/access.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/float.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

/* CPU time of the head of a row, and of a level with its share of a page, in operators. */
#define HEAD_OPERATORS 0.2
#define LEVEL_OPERATORS 2.0

/* Share of the rows that a scan in the order of distances takes through the levels before it returns one. */
#define FIRST_SHARE 0.02

/* Rows that pass the bounds, for each row of the result. */
#define PASSING_ROWS 1.5

void
IndexCostEstimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost,
				  Cost *total_cost, Selectivity *selectivity, double *correlation, double *pages)
{
	IndexOptInfo *info = path->indexinfo;
	Relation	index = index_open(info->indexoid, NoLock);
	IndexMeta	meta;
	IndexLayout layout = ReadState(index, &meta)->layout;
	GenericCosts costs = {0};
	double		rows = Max(info->tuples, 1.0);
	double		heads = meta.chunks;
	double		page_cost;
	Cost		head_cost;
	Cost		row_cost;

	index_close(index, NoLock);
	get_tablespace_page_costs(info->reltablespace, NULL, &page_cost);
	genericcostestimate(root, path, loop_count, &costs);

	head_cost = heads * page_cost + rows * HEAD_OPERATORS * cpu_operator_cost;
	row_cost = layout.levels * LEVEL_OPERATORS * cpu_operator_cost;
	*startup_cost = path->indexorderbys != NIL ? head_cost + FIRST_SHARE * rows * row_cost : 0.0;
	*total_cost = Max(*startup_cost, head_cost) +
		costs.indexSelectivity * rows * (PASSING_ROWS * row_cost + cpu_index_tuple_cost);
	*selectivity = costs.indexSelectivity;
	*correlation = 0.0;
	*pages = heads;

	/*
	 * A query that uses no column could read the index alone.  A scan does not pin the pages of the rows
	 * that it returns, however, so that their visibility must be checked in the table.
	 */
	if (path->path.pathtype == T_IndexOnlyScan)
	{
		*startup_cost = 0.0;
		*total_cost = get_float8_infinity();
#if PG_VERSION_NUM >= 180000
		path->path.disabled_nodes = 2;
#endif
	}
}
