/*-------------------------------------------------------------------------
 *
 * shard_reader.h
 *	  Reads a table of Citus's where its shards are, without Citus.
 *
 * Through Citus all rows are stored in one session, and then stored once more to be sorted.
 * Here each node sorts those that it has, and reads its vectors after that; they come as
 * streams in the order of keys, one from each node, and are merged as they come.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SHARD_READER_H
#define FASTED_SHARD_READER_H

#include "rows/reader.h"
#include "rows/source.h"

/*
 * A SourceReader.  Not for views, tables with row security, tables that are not divided over
 * shards, and elements of type numeric.  Each node is read in a transaction of its own, as the
 * current user.
 */
extern bool ReadShards(const VectorSource *source, RowTaker *taker);

#endif							/* FASTED_SHARD_READER_H */
