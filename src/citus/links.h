/*-------------------------------------------------------------------------
 *
 * links.h
 *	  Connections to several servers, each of which streams the rows of one query.
 *
 * They are a library's, fasted_libpq, which is loaded when it is first wanted.  Nothing
 * in it blocks but by the session's latch, so that whoever waits can be canceled.  All
 * connections hang on a memory context and are closed with it, on error and abort too.
 * A worker's server looks every now and then whether its client is there
 * (client_connection_check_interval), and our joins do so by themselves: a query ends
 * soon after its connection does.  Unlike a request to cancel, closing waits for no
 * machine that does not answer.
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
	char	   *pool;			/* connection string that replaces these, as pg_dist_poolinfo has it; or empty */
	char	   *auth;			/* further parameters, as pg_dist_authinfo has them; or empty */

	int			group;			/* by which placements of shards name it */
	List	   *shards;			/* that are read from it: names with their schema, quoted */
} WorkerNode;

typedef struct LinkSet LinkSet;

/* Raised with every change of these functions; a library that differs is refused. */
#define LINKS_ABI 4

typedef struct LinkFunctions
{
	int			abi;			/* LINKS_ABI */

	/*
	 * Connects to all nodes, as the current user; a child of the current memory context
	 * has what is allocated.  Errors: a node can't be reached.
	 */
	LinkSet    *(*open) (List *nodes);

	/*
	 * Sends the same commands over all links, and waits until they are done.  Returns the first
	 * value of the last result of each link, or NULL, in the current memory context.
	 */
	char	  **(*command) (LinkSet *links, const char *commands);

	/*
	 * Sends a query over link n, whose rows, with one column in binary form, come by next; or a
	 * COPY ... TO STDOUT, whose data come by take.
	 */
	void		(*send) (LinkSet *links, int n, const char *query);

	/*
	 * Waits for the next row of any of them and gives its link and its value, which is
	 * valid until the next call.  False: all have ended.  Errors are the servers', or say
	 * which connection broke.
	 */
	bool		(*next) (LinkSet *links, int *n, char **value, int *length);

	/*
	 * The next piece of the data that link n copies, valid until the link's next call; false: that
	 * was all.  Meanwhile nothing is taken from other links, whose servers wait when their sockets
	 * are full.
	 */
	bool		(*take) (LinkSet *links, int n, char **data, int *length);

	/* "host:port", for messages; lives as long as the links. */
	const char *(*name) (const LinkSet *links, int n);

	/* Closes all of them, and frees everything. */
	void		(*close) (LinkSet *links);
} LinkFunctions;

/* The library's entry, fasted_link_functions. */
typedef const LinkFunctions *(*LinksEntry) (void (*check_interrupts) (void));

#endif							/* FASTED_LINKS_H */
