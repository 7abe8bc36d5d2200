/*-------------------------------------------------------------------------
 *
 * slice_query.h
 *	  What a worker is told: the settings of this session, and the query of its slice.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SLICE_QUERY_H
#define FASTED_SLICE_QUERY_H

#include "join/remote_join.h"

/* Commands that come first: a transaction, so that nothing stays in a session of a pooler's. */
extern char *SlicePrologue(void);

/* The query of a slice, whose rows are messages (wire.h). */
extern char *SliceQuery(const RemoteProblem *problem, uint32 slice, uint32 slices);

#endif							/* FASTED_SLICE_QUERY_H */
