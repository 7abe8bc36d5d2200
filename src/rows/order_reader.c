/*-------------------------------------------------------------------------
 *
 * order_reader.c
 *	  Runs the query that has the keys in order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/parsenodes.h"
#include "rows/order_reader.h"
#include "rows/source_query.h"
#include "utils/memutils.h"

typedef struct OrderReceiver
{
	DestReceiver base;
	OrderSink  *sink;
	MemoryContext row_context;
} OrderReceiver;

static bool
ReceiveKey(TupleTableSlot *slot, DestReceiver *self)
{
	OrderReceiver *receiver = (OrderReceiver *) self;
	MemoryContext old = MemoryContextSwitchTo(receiver->row_context);
	bool		isnull;
	Datum		key = slot_getattr(slot, 1, &isnull);

	/* of a row with a vector it can't be null: that was an error before */
	if (!isnull)
		receiver->sink->take(receiver->sink, key);
	MemoryContextSwitchTo(old);
	MemoryContextReset(receiver->row_context);
	return true;
}

void
ReadOrder(const VectorSource *source, OrderSink *sink)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted reading",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	OrderReceiver *receiver = palloc0(sizeof(OrderReceiver));

	receiver->base = *None_Receiver;
	receiver->base.receiveSlot = ReceiveKey;
	receiver->sink = sink;
	receiver->row_context = AllocSetContextCreate(context, "fasted row", ALLOCSET_DEFAULT_SIZES);
	RunPlan(source, PlanQuery(source, MakeOrderQuery(source), CURSOR_OPT_PARALLEL_OK), &receiver->base);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
