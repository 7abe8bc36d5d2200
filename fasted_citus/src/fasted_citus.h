/*-------------------------------------------------------------------------
 *
 * fasted_citus.h
 *	  All files of this library: what each of them offers to the others.
 *
 *	  fasted_citus.c	entry point: finds the library fasted, and registers with it
 *	  remote_join.c	the coordinator: divides a join, and merges the results of the workers
 *	  slices.c		a worker: one slice of a join
 *	  cluster.c		Citus's catalog, and reading a distributed table
 *	  links.c		connections to other nodes
 *	  vectors.c		vectors as bytea, hashes of rows
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CITUS_H
#define FASTED_CITUS_H

#include "core.h"
#include "nodes/execnodes.h"

extern const CoreFunctions *core;

/* fasted_citus.distribute, an AutoChoice */
extern int	setting_distribute;

/* --- vectors.c */

/*
 * Servers send an array element by element, with a function call for each on both sides.  That
 * takes several times as long as the rest of reading it.  So queries that Citus executes select
 * arrays, and bits, in their memory format, as bytea.
 */

/*
 * The SQL function that returns a vector of this form as bytea.  InvalidOid if there is none;
 * vectors are then read as such.
 */
extern Oid	VectorBytesFunction(VectorForm form);

/* Returns the bytea as a vector; raises an error if it is not one of the source's form. */
extern struct varlena *VectorFromBytes(Datum bytes, const VectorSource *source);

/*
 * A chain of 64-bit hashes over keys and vectors, row by row.  For two different tables it is
 * equal with a probability of 2^-64.  It detects concurrent writes, but does not protect
 * against an adversary.
 */
typedef struct Fingerprint
{
	uint64		rows;
	uint64		hash;
} Fingerprint;

/* Adds the next row, whose key is not null.  Leaves garbage in the current memory context. */
extern void FingerprintAdd(Fingerprint *print, Datum key, int16 typlen, bool typbyval, uint64 vector_hash);

/*
 * Hash of a converted row, independent of the metric.  It is 0 for a zero vector, and only then.
 * Leaves garbage in the current memory context.
 */
extern uint64 VectorHash(const float *row, FastedElement element, uint32 dimensions);

/* The SQL function that computes VectorHash of vectors of this form on another server. */
extern Oid	VectorHashFunction(VectorForm form);

/*
 * --- links.c: connections to several servers, each of which streams the rows of one query
 *
 * They wait only on the session's latch, so that a query can be canceled meanwhile.  All connections
 * belong to a memory context and are closed with it, on error and abort too.  A worker checks from time
 * to time whether its client is still connected (client_connection_check_interval, or
 * CheckJoinInterrupts within a join), so its query ends soon after the connection is closed.  Unlike a
 * cancel request, closing a connection does not wait for a server that does not respond.
 */

/* A node of the cluster. */
typedef struct WorkerNode
{
	char	   *host;
	char	   *port;
	char	   *pool;			/* connection string of pg_dist_poolinfo, which overrides these, or empty */
	char	   *auth;			/* that of pg_dist_authinfo, or empty */
	char	   *query;			/* query of the shards to read from it, or NULL */
} WorkerNode;

typedef struct ConnectionSet ConnectionSet;

/*
 * Connects to all nodes, as the current user.  Allocates in a child of the current memory context.
 * Error: a node cannot be reached.
 */
extern ConnectionSet *LinksOpen(List *nodes);

/*
 * Sends the same commands over all connections, and waits until they are done.  Returns for each
 * connection the first value of the last result that has rows, or NULL, in the current memory
 * context.
 */
extern char **LinksCommand(ConnectionSet *set, const char *commands);

/*
 * Sends a query over connection n.  Its result is fetched by LinksNext: rows with one column, in
 * binary format.  The result of COPY ... TO STDOUT is fetched by LinksTake.
 */
extern void LinksSend(ConnectionSet *set, int n, const char *query);

/*
 * Waits for the next row from any connection.  Sets *n to the connection, and *value and *length to
 * the row's value, which is valid until the next call.  Returns false if all queries have ended.
 * Errors: those of the servers; a connection was lost.
 */
extern bool LinksNext(ConnectionSet *set, int *n, char **value, int *length);

/*
 * Returns the next piece of COPY data from connection n, valid until the next call for that
 * connection; false once, if there is no more.  Does not read from other connections, whose servers wait
 * when their sockets are full.
 */
extern bool LinksTake(ConnectionSet *set, int n, char **data, int *length);

/* Returns "host:port" of connection n, for messages; valid until LinksClose. */
extern const char *LinksName(const ConnectionSet *set, int n);

/* Raises the error for data from connection n that do not follow the protocol. */
pg_noreturn extern void LinksReportInvalid(const ConnectionSet *set, int n);

/* Closes all connections, and frees all memory. */
extern void LinksClose(ConnectionSet *set);

/* --- cluster.c and remote_join.c */

/*
 * Returns the worker nodes that can share a join of this source, always in the same order.  Returns NIL if
 * it is not to be divided.  DEBUG1 says why, unless fasted_citus.distribute is off or there is no Citus.
 */
extern List *FindWorkers(const VectorSource *source);

/*
 * Returns the table that a relation's rows come from.  For a simple view, this is the base table of the
 * relation that it selects from; for other views, InvalidOid; else the relation itself.
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

/*
 * Names of the results of join_slice by FastedOutput; NULL for _NEAREST, which nearest_slice serves.  With
 * _CONNECTIONS, these are pairs that suffice to connect all connected rows.
 */
extern const char *const slice_output_names[FASTED_OUTPUT_CONNECTIONS + 1];

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

/* The largest size of the elements of a message. */
#define MESSAGE_MAX_BYTES (64 * 1024)

/* To be raised with every change of messages or FastedStats.  All nodes must have the same. */
#define WIRE_VERSION 5

typedef struct SliceReport
{
	uint32		version;		/* WIRE_VERSION */
	Fingerprint rows[2];		/* rows read for each side; a self-join has only side 0 */
	char		cut[768];		/* what the division into slices depends on, besides the rows */
	FastedStats stats;
} SliceReport;

/* The core's interface to this library. */
extern const JoinDistributor distributor;

#endif							/* FASTED_CITUS_H */
