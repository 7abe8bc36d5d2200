/*-------------------------------------------------------------------------
 *
 * base_table.h
 *	  The table whose rows a relation has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_BASE_TABLE_H
#define FASTED_BASE_TABLE_H

/*
 * Of a table: itself.  Of a view that selects from one table, or from such a view, what any
 * server would select: that table.  InvalidOid: of other views, and what is no relation.
 */
extern Oid	BaseTable(Oid relid);

#endif							/* FASTED_BASE_TABLE_H */
