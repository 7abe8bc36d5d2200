/*-------------------------------------------------------------------------
 *
 * reader.h
 *	  Rows in: reads keys and vectors through the planner and the executor.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_READER_H
#define FASTED_READER_H

#include "rows/row_sink.h"
#include "rows/source.h"

/*
 * Runs the source's query and gives each of its rows that has a vector to the
 * sink.  The query runs as the current user, in the active snapshot: table and
 * column privileges, row security and views apply as to any SELECT.  Where rows come
 * in the source's order, no workers read.
 */
extern void ReadVectors(const VectorSource *source, RowSink *sink);

#endif							/* FASTED_READER_H */
