/*-------------------------------------------------------------------------
 *
 * cluster.h
 *	  The Citus cluster: whether its nodes can share a join, the messages that they send, and
 *	  reading a distributed table.  Declares functions of cluster.c and remote_join.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CITUS_CLUSTER_H
#define FASTED_CITUS_CLUSTER_H

#include "engine/engine.h"
#include "links.h"
#include "nodes/execnodes.h"
#include "rows/distributor.h"
#include "rows/reader.h"
#include "vectors.h"

/*
 * Returns the worker nodes that can share a join of this source, always in the same order.  Returns
 * NIL if the join cannot be divided.  Then *reason says why, or is NULL if fasted_citus.distribute is
 * off or Citus is not installed.
 */
extern List *FindWorkers(const VectorSource *source, const char **reason);

/*
 * Returns the table that a relation's rows come from.  For a simple view, this is the base table of
 * the relation that it selects from (see SelectedRelation).  Returns InvalidOid for other views.
 * Returns any other relation unchanged.
 */
extern Oid	BaseTable(Oid relid);

/*
 * Returns the commands to send to a node before a query.  They begin a transaction, so that nothing
 * persists in a session of a connection pooler, and copy the settings of this session to it.
 */
extern char *SlicePrologue(void);

/*
 * JoinDistributor.read: reads a distributed table directly from its shards, if the source's rows are
 * to come in the order of their keys.  Each node is read in its own transaction, as the current
 * user.  Views, tables with row security, tables without a distribution column, and sources in
 * another order are read through Citus, with vectors as bytea.  Returns false for other tables, and
 * for elements of type numeric.
 */
extern bool ReadDistributed(RowTaker *taker, const PlannedStmt *plan);

/* --- slices */

/* Kind of result that is requested from a worker, and its name in the protocol. */
typedef enum SliceOutput
{
	SLICE_PAIRS,
	SLICE_COUNT,				/* number of pairs */
	SLICE_COUNTS,				/* number of pairs of each row */
	SLICE_CONNECTIONS,			/* pairs that suffice to connect all connected rows */
	SLICE_NEAREST				/* each row of a with its nearest rows of b */
} SliceOutput;

/* Names by SliceOutput.  SLICE_NEAREST has none, because another function serves it. */
extern const char *const slice_output_names[4];

/*
 * The rows of a are assigned to slices round-robin in blocks of this size.  A worker can thus
 * select its rows before it knows their total number.
 */
#define SHARE_BLOCK_ROWS 64

static inline bool
IsInShare(uint32 row, uint32 slice, uint32 slices)
{
	return row / SHARE_BLOCK_ROWS % slices == slice;
}

/* --- messages of a worker about its slice, each one a bytea */

/*
 * A message is a tag and an array of elements in the worker's memory format.  All nodes have the
 * same byte order, as vectors require too (VectorFromBytes).
 */
#define MESSAGE_ROWS 'R'		/* a SliceReport: rows have been read, the join begins */
#define MESSAGE_PAIRS 'P'		/* FastedPair: row numbers and distances */
#define MESSAGE_COUNTS 'C'		/* uint32: numbers of pairs of the next rows */
#define MESSAGE_DONE 'D'		/* a SliceReport: the last message */

/* The largest number of elements in a message. */
#define MESSAGE_MAX_PAIRS 4096
#define MESSAGE_MAX_COUNTS 16384

/* To be raised with every change of messages or FastedStats.  All nodes must have the same. */
#define WIRE_VERSION 4

typedef struct SliceReport
{
	uint32		version;		/* WIRE_VERSION */
	Fingerprint rows[2];		/* rows read for each side; a self-join has only side 0 */
	char		cut[768];		/* what the division into slices depends on, besides the rows */
	double		read_seconds;
	FastedStats stats;
} SliceReport;

/* The core's interface to this library. */
extern const JoinDistributor distributor;

#endif							/* FASTED_CITUS_CLUSTER_H */
