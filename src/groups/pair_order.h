/*-------------------------------------------------------------------------
 *
 * pair_order.h
 *	  The order of pairs by their second row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PAIR_ORDER_H
#define FASTED_PAIR_ORDER_H

#include "engine/engine.h"

/*
 * Sorts pairs by b, where b < nrows; scratch has room for as many.  Returns where
 * the result is: pairs or scratch.
 */
extern FastedPair *SortBySecond(FastedPair *pairs, FastedPair *scratch, size_t npairs,
								uint32 nrows);

#endif							/* FASTED_PAIR_ORDER_H */
