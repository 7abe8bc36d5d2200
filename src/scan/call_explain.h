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

/* The parts of it: the call and its function; a relation; the metric, if it is not L2. */
typedef struct ShownSource
{
	const char *relation_label;
	const char *vector_label;
	const char *key_label;
	int			relation;		/* numbers of these arguments */
	int			vector_column;
	int			id_column;
	int			other_id;		/* used where id_column is null; -1: there is none */
} ShownSource;

extern void ExplainFunction(const ShownCall *shown, struct ExplainState *es);
extern void ExplainSource(const ShownCall *shown, const ShownSource *source, struct ExplainState *es);
extern void ExplainMetric(const ShownCall *shown, struct ExplainState *es);

/* Is the argument a null that is written there, or left out? */
extern bool IsNullArgument(const ShownCall *shown, int n);

/* Are the two the same constant? */
extern bool AreSameArguments(const ShownCall *shown, int n, int m);

/* An argument; a constant without its quotes. */
extern char *ArgumentText(const ShownCall *shown, int n);
extern char *ExpressionText(const ShownCall *shown, Node *expression);

/* Nothing, if text is NULL. */
extern void ExplainText(const char *label, const char *text, struct ExplainState *es);

#endif							/* FASTED_CALL_EXPLAIN_H */
