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

#define FIELD(field) {#field, offsetof(JoinPlan, field), sizeof(((JoinPlan *) NULL)->field)}
#define FIELDS(field) FIELD(field[OUTER_SIDE]), FIELD(field[INNER_SIDE])

typedef struct PlanField
{
	const char *name;
	Size		offset;
	Size		size;			/* 1: bool; 4: int or an enum; otherwise a pointer to a node */
} PlanField;

static const PlanField values[] = {
	FIELD(type), FIELD(distance.function), FIELD(distance.metric), FIELD(distance.strict),
	FIELD(distance.similarity), FIELD(count), FIELD(distance_decides), FIELD(shared),
	FIELD(outer_columns), FIELDS(late_vector), FIELDS(late_ctid), FIELD(order_qual),
	FIELD(distance_qual), FIELD(outer_quals), FIELD(shared_columns), FIELDS(hashes),
	FIELD(key_collations)
};

static const PlanField expressions[] = {
	FIELDS(vectors), FIELD(bound), FIELDS(keys), FIELD(join_quals), FIELD(other_quals)
};

void
WriteJoinPlan(const JoinPlan *plan, CustomScan *scan)
{
	for (size_t i = 0; i < lengthof(values); i++)
	{
		const void *value = (const char *) plan + values[i].offset;
		Node	   *node = values[i].size == sizeof(bool) ? (Node *) makeInteger(*(const bool *) value) :
			values[i].size == sizeof(int) ? (Node *) makeInteger(*(const int *) value) :
			*(Node *const *) value;

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
		if (values[i].size == sizeof(bool))
			*(bool *) value = intVal(element->arg) != 0;
		else if (values[i].size == sizeof(int))
			*(int *) value = intVal(element->arg);
		else
			*(void **) value = element->arg;
	}
	for (size_t i = 0; i < lengthof(expressions); i++)
		*(void **) ((char *) &plan + expressions[i].offset) = list_nth(scan->custom_exprs, i);
	return plan;
}
