/*-------------------------------------------------------------------------
 *
 * join_plan.c
 *	  Stores the plan data of the join node in a CustomScan, and reads it.
 *
 * Expressions are in custom_exprs, in the order of the array below, because the planner adapts the
 * column references there.  All other fields are in custom_private, each as a named DefElem.  So
 * PostgreSQL can copy and print the plan, and send it to parallel workers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join_node/join_plan.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"

typedef enum FieldKind
{
	FLAG,						/* a bool */
	NUMBER,						/* an int or an enum */
	NODE						/* a pointer */
} FieldKind;

typedef struct PlanField
{
	const char *name;
	Size		offset;
	FieldKind	kind;
} PlanField;

#define FIELD(kind, field) {#field, offsetof(JoinPlan, field), kind}
#define FIELDS(kind, field) FIELD(kind, field[OUTER_SIDE]), FIELD(kind, field[INNER_SIDE])

static const PlanField values[] = {
	FIELD(NUMBER, type), FIELD(NUMBER, distance.function), FIELD(NUMBER, distance.metric),
	FIELD(FLAG, distance.strict), FIELD(FLAG, distance.similarity), FIELD(FLAG, count),
	FIELD(FLAG, distance_decides), FIELD(FLAG, shared), FIELD(NUMBER, outer_columns),
	FIELDS(NUMBER, late_vector), FIELDS(NUMBER, late_ctid), FIELD(NUMBER, order_qual),
	FIELD(NUMBER, distance_qual), FIELD(NUMBER, outer_quals), FIELD(NODE, shared_columns),
	FIELDS(NODE, hashes), FIELD(NODE, key_collations)
};

static const PlanField expressions[] = {
	FIELDS(NODE, vectors), FIELD(NODE, bound), FIELDS(NODE, keys), FIELD(NODE, join_quals),
	FIELD(NODE, other_quals), FIELD(NODE, distances)
};

void
WriteJoinPlan(const JoinPlan *plan, CustomScan *scan)
{
	for (size_t i = 0; i < lengthof(values); i++)
	{
		const void *value = (const char *) plan + values[i].offset;
		Node	   *node = values[i].kind == NODE ? *(Node *const *) value :
			(Node *) makeInteger(values[i].kind == FLAG ? *(const bool *) value : *(const int *) value);

		scan->custom_private = lappend(scan->custom_private,
									   makeDefElem(pstrdup(values[i].name), node, -1));
	}
	for (size_t i = 0; i < lengthof(expressions); i++)
		scan->custom_exprs = lappend(scan->custom_exprs,
									 *(Node *const *) ((const char *) plan + expressions[i].offset));
}

JoinPlan
ReadJoinPlan(const CustomScan *scan)
{
	JoinPlan	plan = {0};

	for (size_t i = 0; i < lengthof(values); i++)
	{
		void	   *value = (char *) &plan + values[i].offset;
		const DefElem *element = list_nth_node(DefElem, scan->custom_private, i);

		if (strcmp(element->defname, values[i].name) != 0)
			elog(ERROR, "unexpected field \"%s\" in the plan of a fasted join", element->defname);
		if (values[i].kind == FLAG)
			*(bool *) value = intVal(element->arg) != 0;
		else if (values[i].kind == NUMBER)
			*(int *) value = intVal(element->arg);
		else
			*(void **) value = element->arg;
	}
	for (size_t i = 0; i < lengthof(expressions); i++)
		*(void **) ((char *) &plan + expressions[i].offset) = list_nth(scan->custom_exprs, i);
	return plan;
}
