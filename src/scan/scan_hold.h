/*-------------------------------------------------------------------------
 *
 * scan_hold.h
 *	  The relations that a scan node will read, or has read, are in use.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SCAN_HOLD_H
#define FASTED_SCAN_HOLD_H

#include "nodes/pg_list.h"

/*
 * Opens the relation and all that a SELECT from it reads, as the executor does it
 * with the tables of a plan: until ReleaseRelations, commands of the same session
 * that change one of them (TRUNCATE, ALTER TABLE) answer that it is in use.  So a
 * cursor sees the rows of its beginning, however late the first one is fetched.
 * Returns the list of relations, in the current memory context.
 */
extern List *HoldRelations(Oid relid);
extern void ReleaseRelations(List *relations);

#endif							/* FASTED_SCAN_HOLD_H */
