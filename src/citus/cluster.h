/*-------------------------------------------------------------------------
 *
 * cluster.h
 *	  The Citus cluster: whether its nodes can share a join, what they send, and reading a table
 *	  of the cluster.  Declares what cluster.c and remote_join.c define.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CLUSTER_H
#define FASTED_CLUSTER_H

#include "citus/links.h"
#include "commands/explain.h"
#include "engine/engine.h"
#include "nodes/execnodes.h"
#include "rows/reader.h"
#include "rows/vector.h"

/*
 * The nodes that a join of this source can be divided over, in an order that is the same in all
 * calls.  NIL: it can't be divided; *reason tells why, or is NULL where nobody expects it to be.
 */
extern List *FindWorkers(const VectorSource *source, const char **reason);

/*
 * The table whose rows a relation has.  Of a table: itself.  Of a view that selects from one
 * table, or from such a view, what any server would select: that table.  InvalidOid: of other
 * views, and of what is no relation.
 */
extern Oid	BaseTable(Oid relid);

/* The library of connections, which is loaded by the first call; an error, if it is not installed. */
extern const LinkFunctions *Links(void);

/*
 * Commands that go before queries of the nodes: a transaction, so that nothing remains in a
 * session of a pooler's, with the settings of this session.
 */
extern char *SlicePrologue(void);

/*
 * A SourceReader: reads a table of Citus's from its shards, without Citus.  Not for views, tables
 * with row security, tables that are not divided over shards, and elements of type numeric.  Each
 * node is read in a transaction of its own, as the current user.
 */
extern bool ReadShards(const VectorSource *source, RowTaker *taker);

/* --- what a worker sends of its slice: one bytea after the other */

/*
 * A message is a tag and elements as they lie in the worker's memory: all nodes have the same
 * byte order, as vectors require (ArrayFromBytes).
 */
#define MESSAGE_ROWS 'R'		/* a SliceReport: rows have been read, the join begins */
#define MESSAGE_PAIRS 'P'		/* FastedPair: row numbers, with their distances */
#define MESSAGE_COUNTS 'C'		/* uint32: how many pairs the next rows have */
#define MESSAGE_DONE 'D'		/* a SliceReport: that was all */

/* The largest number of elements of a message. */
#define MESSAGE_MOST_PAIRS 4096
#define MESSAGE_MOST_COUNTS 16384

/* Raised with every change of messages and of FastedStats; servers that differ don't divide a join. */
#define WIRE_VERSION 4

typedef struct SliceReport
{
	uint32		version;		/* WIRE_VERSION */
	Fingerprint rows[2];		/* that were read, by side; of one relation with itself there is one */
	char		cut[768];		/* what the cut into slices depends on, beside the rows */
	double		read_seconds;
	FastedStats stats;
} SliceReport;

/* --- EXPLAIN (ANALYZE) */

/*
 * Raises an error when a node begins that reads a Citus table in EXPLAIN (ANALYZE), and that
 * Citus has run before as a subplan.  Citus (13.2) would take every custom scan in such a subplan
 * for its own, and read what is not there, which ends the server's process.  Such a subplan is
 * recognized by its instruments, though it is not to be run.
 */
extern void RefuseCitusExplain(const EState *estate, int eflags, Oid relid);

/* Shows a line with each worker's part of the work: a list of WorkerShare of the last run, or NIL. */
extern void ExplainShares(List *shares, struct ExplainState *es);

#endif							/* FASTED_CLUSTER_H */
