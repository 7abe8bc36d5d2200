/*-------------------------------------------------------------------------
 *
 * nearest_sources.c
 *	  The relations of a call: looked up, and checked against each other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nearest/nearest.h"
#include "utils/builtins.h"

/* What messages call the function. */
#define FUNCTION "fasted_knn_join"

static VectorSource *
Resolve(const NearestArgs *args, const NearestSide *side, const char *id_column,
		const char *id_argument)
{
	VectorSource *source = ResolveSource(side->relation, side->vector_column, id_column,
										 id_argument, args->key_type, args->metric, FUNCTION);

	if (args->partition_by != NULL)
		GroupSource(source, args->partition_by);
	return source;
}

/* One equality tells which rows of both are of one partition. */
static void
RequireSamePartitions(const NearestArgs *args, const VectorSource *a, const VectorSource *b)
{
	if (a->group_type != b->group_type)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" has different types in \"%s\" and in \"%s\"",
						args->partition_by, a->relation, b->relation),
				 errdetail("They are %s and %s.", format_type_be(a->group_type),
						   format_type_be(b->group_type)),
				 errhint("Join a view that casts one of them.")));
	if (a->group_collation != b->group_collation)
		ereport(ERROR,
				(errcode(ERRCODE_COLLATION_MISMATCH),
				 errmsg("column \"%s\" has different collations in \"%s\" and in \"%s\"",
						args->partition_by, a->relation, b->relation),
				 errhint("Join a view that gives one of them the other one's collation.")));
}

/* One of the ids is enough where it is the same row. */
static NearestSources
ResolveOne(const NearestArgs *args)
{
	const char *id_column = args->a.id_column != NULL ? args->a.id_column : args->b.id_column;
	NearestSources sources = {0};

	if (args->b.id_column != NULL && strcmp(id_column, args->b.id_column) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"a_id\" and \"b_id\" must be the same column where both are of the same rows"),
				 errdetail("They are \"%s\" and \"%s\".", id_column, args->b.id_column),
				 errhint("Join the result with the relation for another column of it.")));
	sources.a = Resolve(args, &args->a, id_column, "a_id");
	return sources;
}

NearestSources
ResolveNearestSources(const NearestArgs *args)
{
	NearestSources sources = {0};

	if (args->a.relation == args->b.relation &&
		strcmp(args->a.vector_column, args->b.vector_column) == 0)
		return ResolveOne(args);
	sources.a = Resolve(args, &args->a, args->a.id_column, "a_id");
	sources.b = Resolve(args, &args->b, args->b.id_column, "b_id");
	ShareElement(sources.a, sources.b);
	if (args->partition_by != NULL)
		RequireSamePartitions(args, sources.a, sources.b);
	return sources;
}
