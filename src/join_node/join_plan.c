/*-------------------------------------------------------------------------
 *
 * join_plan.c
 *	  Stores the plan data of the join node in a CustomScan, and reads it.
 *
 * Expressions are in custom_exprs, in the order of plan_fields, because the planner adapts the
 * column references there.  All other fields are in custom_private, each as a named DefElem.  So
 * PostgreSQL can copy and print the plan, and send it to parallel workers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join_node/join_plan.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"

typedef enum FieldType
{
	FIELD_BOOL,
	FIELD_INT,					/* also an enum */
	FIELD_LIST,					/* a list of integers or OIDs */
	FIELD_EXPRESSION			/* an expression or a list of expressions */
} FieldType;

#define FIELD(type, field) {#field, type, offsetof(JoinPlan, field)}

static const struct PlanField
{
	const char *name;
	FieldType	type;
	Size		offset;
}			plan_fields[] = {
	FIELD(FIELD_INT, type),
	FIELD(FIELD_INT, distance.function),
	FIELD(FIELD_INT, distance.metric),
	FIELD(FIELD_BOOL, distance.strict),
	FIELD(FIELD_BOOL, distance.similarity),
	FIELD(FIELD_BOOL, count),
	FIELD(FIELD_BOOL, distance_decides),
	FIELD(FIELD_BOOL, shared),
	FIELD(FIELD_INT, outer_columns),
	FIELD(FIELD_INT, late_vector[OUTER_SIDE]),
	FIELD(FIELD_INT, late_vector[INNER_SIDE]),
	FIELD(FIELD_INT, late_ctid[OUTER_SIDE]),
	FIELD(FIELD_INT, late_ctid[INNER_SIDE]),
	FIELD(FIELD_INT, order_qual),
	FIELD(FIELD_INT, distance_qual),
	FIELD(FIELD_INT, outer_quals),
	FIELD(FIELD_LIST, shared_columns),
	FIELD(FIELD_LIST, hashes[OUTER_SIDE]),
	FIELD(FIELD_LIST, hashes[INNER_SIDE]),
	FIELD(FIELD_LIST, key_collations),
	FIELD(FIELD_EXPRESSION, vectors[OUTER_SIDE]),
	FIELD(FIELD_EXPRESSION, vectors[INNER_SIDE]),
	FIELD(FIELD_EXPRESSION, bound),
	FIELD(FIELD_EXPRESSION, keys[OUTER_SIDE]),
	FIELD(FIELD_EXPRESSION, keys[INNER_SIDE]),
	FIELD(FIELD_EXPRESSION, join_quals),
	FIELD(FIELD_EXPRESSION, other_quals)
};

void
WriteJoinPlan(const JoinPlan *plan, CustomScan *scan)
{
	for (size_t i = 0; i < lengthof(plan_fields); i++)
	{
		const struct PlanField *field = &plan_fields[i];
		const void *value = (const char *) plan + field->offset;
		Node	   *node;

		switch (field->type)
		{
			case FIELD_BOOL:
				node = (Node *) makeInteger(*(const bool *) value);
				break;
			case FIELD_INT:
				node = (Node *) makeInteger(*(const int *) value);
				break;
			default:
				node = *(Node *const *) value;
		}
		if (field->type == FIELD_EXPRESSION)
			scan->custom_exprs = lappend(scan->custom_exprs, node);
		else
			scan->custom_private = lappend(scan->custom_private,
										   makeDefElem(pstrdup(field->name), node, -1));
	}
}

JoinPlan
ReadJoinPlan(const CustomScan *scan)
{
	JoinPlan	plan = {0};
	int			values = 0;
	int			expressions = 0;

	for (size_t i = 0; i < lengthof(plan_fields); i++)
	{
		const struct PlanField *field = &plan_fields[i];
		void	   *value = (char *) &plan + field->offset;
		const DefElem *element;

		if (field->type == FIELD_EXPRESSION)
		{
			*(void **) value = list_nth(scan->custom_exprs, expressions++);
			continue;
		}
		element = list_nth_node(DefElem, scan->custom_private, values++);
		if (strcmp(element->defname, field->name) != 0)
			elog(ERROR, "unexpected field \"%s\" in the plan of a fasted join", element->defname);
		if (field->type == FIELD_BOOL)
			*(bool *) value = intVal(element->arg) != 0;
		else if (field->type == FIELD_INT)
			*(int *) value = intVal(element->arg);
		else
			*(void **) value = element->arg;
	}
	return plan;
}
