/*-------------------------------------------------------------------------
 *
 * links.h
 *	  Connections to several servers, each of which streams the rows of one query.
 *
 * They wait only on the session's latch, so that a query can be canceled meanwhile.  All
 * connections belong to a memory context and are closed with it, on error and abort too.
 * A worker checks from time to time whether its client is still connected
 * (client_connection_check_interval, or CheckJoinInterrupts within a join).  So its query ends
 * soon after the connection is closed.  Unlike a cancel request, closing a connection does not
 * wait for a server that does not respond.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_LINKS_H
#define FASTED_LINKS_H

#include "nodes/pg_list.h"

/* A node of the cluster. */
typedef struct WorkerNode
{
	char	   *host;
	int			port;
	char	   *pool;			/* parameters in pg_dist_poolinfo that override these, or empty */
	char	   *auth;			/* further parameters in pg_dist_authinfo, or empty */

	int			group;			/* groupid, by which shard placements refer to the node */
	List	   *shards;			/* shards to read from it: qualified and quoted names */
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
 * connection; false if there is no more.  Does not read from other connections, whose servers wait
 * when their sockets are full.
 */
extern bool LinksTake(ConnectionSet *set, int n, char **data, int *length);

/* Returns "host:port" of connection n, for messages; valid until LinksClose. */
extern const char *LinksName(const ConnectionSet *set, int n);

/* Closes all connections, and frees all memory. */
extern void LinksClose(ConnectionSet *set);

#endif							/* FASTED_LINKS_H */
