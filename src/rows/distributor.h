/*-------------------------------------------------------------------------
 *
 * distributor.h
 *	  An extension that distributes joins over other servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_DISTRIBUTOR_H
#define FASTED_DISTRIBUTOR_H

struct JoinRequest;
struct PlannedStmt;
struct RowTaker;
struct VectorJoin;

/*
 * distribute: starts a distributed join of the request's sources.  Returns false if this is not possible
 * or not wanted.  Otherwise it adds the rows' keys to the join's `keys` and finishes them, and sets
 * the join's backend, distributed, output and order.  Memory and connections belong to the current
 * memory context, and the sources outlive the join.  Raises an error if a server is unreachable.
 * read: passes all rows of the taker's source to the taker.  Returns false if the plan, that of the
 * source's query, is to be run instead; then nothing was read.
 * label: the label of the servers' shares in EXPLAIN.
 */
typedef struct JoinDistributor
{
	bool		(*distribute) (struct VectorJoin *join, const struct JoinRequest *request);
	bool		(*read) (struct RowTaker *taker, const struct PlannedStmt *plan);
	const char *label;
} JoinDistributor;

/* The distributor whose library this session has loaded, which has set it; or NULL. */
extern const JoinDistributor *join_distributor;

extern void RegisterDistributor(const JoinDistributor *distributor);

/*
 * Returns the distributor if its extension exists in this database, else NULL.  The first call
 * loads its library.  Error: the library cannot be loaded.
 */
extern const JoinDistributor *FindDistributor(void);

#endif							/* FASTED_DISTRIBUTOR_H */
