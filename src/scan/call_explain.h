/*-------------------------------------------------------------------------
 *
 * call_explain.h
 *	  What EXPLAIN says of a call in FROM, of the node in its place.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CALL_EXPLAIN_H
#define FASTED_CALL_EXPLAIN_H

#include "commands/explain.h"
#include "nodes/execnodes.h"

/* Arguments are numbered from "relation" on; vector_column and eps come behind it. */
typedef struct ShownCall
{
	const FuncExpr *call;
	int			first;			/* position of "relation": 0, or 1 after id_type */
	int			id_column;		/* numbers of these arguments */
	int			metric;
	const CustomScan *plan;
	List	   *context;		/* of expressions */
	bool		prefix;			/* name the tables of columns */
} ShownCall;

extern ShownCall ShowCall(const CustomScanState *node, const FuncExpr *call, int first,
						  int id_column, int metric, List *ancestors, struct ExplainState *es);

/* The call, its function, relation, columns, eps and metric. */
extern void ExplainCall(const ShownCall *shown, struct ExplainState *es);

/* An argument; a constant without its quotes. */
extern char *ArgumentText(const ShownCall *shown, int n);
extern char *ExpressionText(const ShownCall *shown, Node *expression);

/* Nothing, if text is NULL. */
extern void ExplainText(const char *label, const char *text, struct ExplainState *es);

#endif							/* FASTED_CALL_EXPLAIN_H */
