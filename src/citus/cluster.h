/*-------------------------------------------------------------------------
 *
 * cluster.h
 *	  The Citus cluster: whether its nodes can share a join, and reading a table of its own.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CLUSTER_H
#define FASTED_CLUSTER_H

#include "citus/links.h"
#include "join/row_set.h"
#include "rows/vector.h"
#include "rows/reader.h"

/*
 * The nodes that a join of this source can be divided over, in an order that is the same in all
 * calls.  NIL: it can't be divided; *reason tells why, or is NULL where nobody expects it to be.
 */
extern List *FindWorkers(const VectorSource *source, const char **reason);

/*
 * The nodes that have shards of a table, with the names of these shards.  NIL: the table is not
 * one of Citus's whose rows are divided over shards, or a shard is nowhere.
 */
extern List *FindShards(Oid relid);

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

/*
 * What the coordinator reads itself, no vectors: adds the keys of the source's rows, in their
 * order, and returns the fingerprint of the rows that the current snapshot has.  Vectors are
 * hashed where they lie.  If the source has an order, *ranks has each row's place in it, in the
 * keys' context; else NULL.
 */
extern Fingerprint ReadOwnRows(const VectorSource *source, KeySet *keys, uint32 **ranks);

#endif							/* FASTED_CLUSTER_H */
