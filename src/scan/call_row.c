/*-------------------------------------------------------------------------
 *
 * call_row.c
 *	  Whole rows of a call, where rows of others are locked or changed beside it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "scan/call_row.h"
#include "utils/memutils.h"

CallRow
BeginCallRow(CustomScanState *node, List *column_numbers)
{
	const CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	TupleDesc	scan = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	CallRow		row = {0};

	if (column_numbers == NIL || llast_int(column_numbers) != InvalidAttrNumber)
		return row;
	row.relation = castNode(Var, linitial_node(TargetEntry, plan->custom_scan_tlist)->expr)->varno;
	row.columns = CreateTemplateTupleDesc(scan->natts - 1);
	for (int i = 1; i < scan->natts; i++)
		TupleDescCopyEntry(row.columns, i, scan, i);
	row.columns = BlessTupleDesc(row.columns);
	row.context = AllocSetContextCreate(CurrentMemoryContext, "fasted row", ALLOCSET_SMALL_SIZES);
	return row;
}

Datum
MakeCallRow(CallRow *row, Datum *values, bool *nulls)
{
	MemoryContext old;
	Datum		datum;

	MemoryContextReset(row->context);
	old = MemoryContextSwitchTo(row->context);
	datum = HeapTupleGetDatum(heap_form_tuple(row->columns, values, nulls));
	MemoryContextSwitchTo(old);
	return datum;
}

/* As ExecScan does it for a row that is kept whole, which has all columns but itself. */
bool
LooksAgain(CustomScanState *node, CallRow *row, TupleTableSlot *slot)
{
	EPQState   *again = node->ss.ps.state->es_epq_active;
	Index		relation = row->relation;

	if (row->columns == NULL || again == NULL || again->relsubs_rowmark[relation - 1] == NULL)
		return false;
	ExecClearTuple(slot);
	if (!again->relsubs_done[relation - 1] && EvalPlanQualFetchRowMark(again, relation, slot))
	{
		int			whole = row->columns->natts;

		slot->tts_values[whole] = MakeCallRow(row, slot->tts_values, slot->tts_isnull);
		slot->tts_isnull[whole] = false;
	}
	again->relsubs_done[relation - 1] = true;
	return true;
}
