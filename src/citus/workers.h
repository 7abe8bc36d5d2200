/*-------------------------------------------------------------------------
 *
 * workers.h
 *	  Who takes part: the nodes of a Citus cluster, and whether a table is theirs.
 *
 * Citus is known by its catalog alone, which is read by SQL: without it nothing is
 * looked up, and nothing is linked against it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_WORKERS_H
#define FASTED_WORKERS_H

#include "nodes/pg_list.h"
#include "rows/source.h"

typedef struct WorkerNode
{
	char	   *host;
	int			port;
	int			group;			/* that placements name */
	char	   *pool;			/* connection string that replaces these, as pg_dist_poolinfo has it; or empty */
	char	   *auth;			/* further parameters, as pg_dist_authinfo has them; or empty */
} WorkerNode;

/*
 * The nodes, in an order that is the same in all calls, if a join of this source can be
 * divided over them; else NIL, and why not, or NULL where nobody expects it to be.  In the
 * current memory context.
 */
extern List *FindWorkers(const VectorSource *source, const char **reason);

/* The shards of a table that one node has, of which each is on one such node. */
typedef struct ShardNode
{
	WorkerNode	node;
	List	   *shards;			/* names with their schema, as SQL has them */
} ShardNode;

/*
 * A list of ShardNode; NIL: the table is not one of Citus's whose rows are divided over shards,
 * or a shard is nowhere.  In the current memory context.
 */
extern List *FindShards(Oid relid);

/* Is Citus in this database, and loaded?  Then: is this a table of its own? */
extern bool CitusIsHere(void);
extern bool IsCitusTable(Oid relid);

/* The table's name with its schema, as SQL has it. */
extern char *QualifiedName(Oid relid);

#endif							/* FASTED_WORKERS_H */
