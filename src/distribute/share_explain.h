/*-------------------------------------------------------------------------
 *
 * share_explain.h
 *	  What EXPLAIN ANALYZE says of the servers that shared a join.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SHARE_EXPLAIN_H
#define FASTED_SHARE_EXPLAIN_H

#include "commands/explain.h"

/* A list of WorkerShare, of the last run; NIL: nothing to say. */
extern void ExplainShares(List *shares, struct ExplainState *es);

#endif							/* FASTED_SHARE_EXPLAIN_H */
