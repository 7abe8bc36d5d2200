/*-------------------------------------------------------------------------
 *
 * type_order.h
 *	  The order of a type's values, as its default operator class has it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_TYPE_ORDER_H
#define FASTED_TYPE_ORDER_H

#include "utils/sortsupport.h"
#include "utils/typcache.h"

/* order: as the caller made it, zeros or with its abbreviate; context: what it allocates is there. */
static inline void
PrepareTypeOrder(Oid type, Oid collation, MemoryContext context, SortSupport order)
{
	order->ssup_cxt = context;
	order->ssup_collation = collation;
	PrepareSortSupportFromOrderingOp(lookup_type_cache(type, TYPECACHE_LT_OPR)->lt_opr, order);
}

#endif							/* FASTED_TYPE_ORDER_H */
