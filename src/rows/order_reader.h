/*-------------------------------------------------------------------------
 *
 * order_reader.h
 *	  The order of a source's rows, read apart from their vectors.
 *
 * To have rows come in order, PostgreSQL would sort them with their vectors, and no
 * worker could read.  To read keys once more in order costs a look at each row, but
 * not at vectors that are stored out of line.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ORDER_READER_H
#define FASTED_ORDER_READER_H

#include "rows/source.h"

typedef struct OrderSink OrderSink;
struct OrderSink
{
	/* A key by reference is valid until the call returns, and so is what it allocates. */
	void		(*take) (OrderSink *sink, Datum key);
};

/*
 * Gives the keys of all rows with a vector, in the source's order, in the active
 * snapshot.  The source must be one whose order is read apart.
 */
extern void ReadOrder(const VectorSource *source, OrderSink *sink);

#endif							/* FASTED_ORDER_READER_H */
