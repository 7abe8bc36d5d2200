/*-------------------------------------------------------------------------
 *
 * join.h
 *	  One self-join from beginning to end: rows in, pairs of row numbers out.
 *
 * Between PostgreSQL on one side (reader.c, self_join.c) and an engine on the
 * other (engine.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_H
#define FASTED_JOIN_H

#include "engine.h"
#include "keys.h"
#include "source.h"

typedef struct Join Join;

/*
 * Reads the whole source and starts the engine.  Everything the join owns hangs
 * on a child of the current memory context, threads and device memory too, and
 * goes with it, on error and abort as well.
 */
extern Join *JoinBegin(const VectorSource *source, double eps);

/*
 * The next pairs, each once with a < b (row numbers), in no order.  False: there
 * are no more.  Valid until the next call.  Answers interrupts.
 */
extern bool JoinNext(Join *join, const FastedPair **pairs, size_t *npairs);

/* The rows' ids; their count is the number of rows that take part. */
extern const KeySet *JoinKeys(const Join *join);

/* The engine's statistics and the seconds it took to read; false: no engine ran. */
extern bool JoinStatistics(const Join *join, FastedStats *stats, double *read_seconds);

extern void JoinEnd(Join *join);

/*
 * What the reader calls: first JoinExpectRows; JoinSetDimensions with the first
 * vector; then JoinRoomForRows, which tells where vectors go and for how many
 * there is room (none: stop reading), and JoinTakeRows with the keys of as many
 * of them as it wrote there.
 */
extern void JoinExpectRows(Join *join, uint64 rows);
extern void JoinSetDimensions(Join *join, int dimensions);
extern size_t JoinRoomForRows(Join *join, float **room);
extern void JoinTakeRows(Join *join, const Datum *keys, size_t nrows);

/* For statistics: so many of the rows were read by parallel workers. */
extern void JoinReadByWorkers(Join *join, int nworkers, uint64 rows);

#endif							/* FASTED_JOIN_H */
