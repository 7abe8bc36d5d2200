/*-------------------------------------------------------------------------
 *
 * source.c
 *	  What is joined: a relation, its vector column and its key column.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/sysattr.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "parser/parse_coerce.h"
#include "source.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

typedef struct Column
{
	char	   *name;
	Oid			type;
	Oid			collation;
} Column;

static Relation
OpenRelation(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));

	switch (rel->rd_rel->relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_PARTITIONED_TABLE:
		case RELKIND_VIEW:
		case RELKIND_MATVIEW:
		case RELKIND_FOREIGN_TABLE:
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("cannot join relation \"%s\"", RelationGetRelationName(rel)),
					 errdetail_relkind_not_supported(rel->rd_rel->relkind),
					 errhint("Name a table, a partitioned table, a view, a materialized view or a foreign table.")));
	}
	return rel;
}

static Column
FindColumn(Relation rel, const char *name)
{
	HeapTuple	tuple = SearchSysCacheAttName(RelationGetRelid(rel), name);
	Column		column;
	Form_pg_attribute att;

	if (!HeapTupleIsValid(tuple) ||
		((Form_pg_attribute) GETSTRUCT(tuple))->attnum <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						name, RelationGetRelationName(rel))));

	att = (Form_pg_attribute) GETSTRUCT(tuple);
	column.name = pstrdup(name);
	column.type = att->atttypid;
	column.collation = att->attcollation;
	ReleaseSysCache(tuple);
	return column;
}

/* The column of the primary key, if it is a single one; else NULL. */
static char *
PrimaryKeyColumn(Relation rel, int *nkeys)
{
	Oid			constraint;
	Bitmapset  *attnos = get_primary_key_attnos(RelationGetRelid(rel), true, &constraint);
	int			member;

	*nkeys = bms_num_members(attnos);
	if (*nkeys != 1)
		return NULL;
	member = bms_singleton_member(attnos);
	return get_attname(RelationGetRelid(rel),
					   member + FirstLowInvalidHeapAttributeNumber, false);
}

static Column
FindKeyColumn(Relation rel, const char *id_column)
{
	int			nkeys;
	char	   *name;

	if (id_column != NULL)
		return FindColumn(rel, id_column);

	name = PrimaryKeyColumn(rel, &nkeys);
	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 nkeys == 0 ?
				 errmsg("relation \"%s\" has no primary key", RelationGetRelationName(rel)) :
				 errmsg("the primary key of relation \"%s\" has %d columns",
						RelationGetRelationName(rel), nkeys),
				 errdetail("Rows are identified by one column that is unique and not null."),
				 errhint("Name such a column with id_column => '...'.")));
	return FindColumn(rel, name);
}

/*
 * The expression that reads the key, under that name, as key_type.  Only
 * conversions that lose nothing and need no thought (implicit casts) are made.
 */
static char *
KeyExpression(Relation rel, const Column *key, const char *name, Oid key_type)
{
	Oid			base = getBaseType(key->type);
	Oid			cast_function;

	if (key->type == key_type)
		return pstrdup(name);
	if (find_coercion_pathway(getBaseType(key_type), base, COERCION_IMPLICIT,
							  &cast_function) == COERCION_PATH_NONE)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("key column \"%s\" of relation \"%s\" is of type %s, not %s",
						key->name, RelationGetRelationName(rel),
						format_type_be(key->type), format_type_be(key_type)),
				 errhint("Pass a null of the key's type first: fasted_self_join(NULL::%s, '%s', ...).",
						 format_type_be(key->type), RelationGetRelationName(rel))));
	return psprintf("CAST(%s AS %s)", name, format_type_be_qualified(key_type));
}

static void
CheckKeyOrder(Oid key_type)
{
	TypeCacheEntry *type = lookup_type_cache(key_type, TYPECACHE_LT_OPR);

	if (!OidIsValid(type->lt_opr))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("keys of type %s have no order", format_type_be(key_type)),
				 errdetail("The key's type needs a default btree operator class."),
				 errhint("Choose another key with id_column => '...'.")));
}

/* A type that is the array of its element type: no int2vector, oidvector. */
static Oid
TrueArrayElement(Oid type)
{
	Oid			element = get_element_type(type);

	return (OidIsValid(element) && get_array_type(element) == type) ? element : InvalidOid;
}

/*
 * The expression that reads the vector, under that name, and the form it has
 * then.  double precision[], and arrays that only a lossy cast would make real[] (numeric[]),
 * are read in double precision, so that an element too large for real is
 * reported with its row.
 */
static char *
VectorExpression(Relation rel, const Column *vector, const char *name, VectorForm *form)
{
	Oid			base = getBaseType(vector->type);
	Oid			element = TrueArrayElement(base);
	Oid			cast_function;
	CoercionPathType path;

	*form = VECTOR_FLOAT4;
	if (base == FLOAT4ARRAYOID)
		return pstrdup(name);
	if (base == FLOAT8ARRAYOID || element == NUMERICOID)
	{
		*form = VECTOR_FLOAT8;
		return base == FLOAT8ARRAYOID ? pstrdup(name) :
			psprintf("CAST(%s AS pg_catalog.float8[])", name);
	}

	path = find_coercion_pathway(FLOAT4ARRAYOID, base, COERCION_EXPLICIT, &cast_function);
	if (path == COERCION_PATH_FUNC || path == COERCION_PATH_RELABELTYPE ||
		(path == COERCION_PATH_ARRAYCOERCE && OidIsValid(element) &&
		 find_coercion_pathway(FLOAT4OID, getBaseType(element), COERCION_ASSIGNMENT,
							   &cast_function) == COERCION_PATH_FUNC))
		return psprintf("CAST(%s AS pg_catalog.float4[])", name);

	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("column \"%s\" of relation \"%s\" is of type %s, which is no vector",
					vector->name, RelationGetRelationName(rel), format_type_be(vector->type)),
			 errhint("Vectors are of type real[], double precision[], or any type with a cast to real[].")));
	return NULL;				/* keep compiler quiet */
}

static bool
MayRead(Relation rel, const char *column)
{
	Oid			relid = RelationGetRelid(rel);

	return pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK ||
		pg_attribute_aclcheck(relid, get_attnum(relid, column), GetUserId(), ACL_SELECT) == ACLCHECK_OK;
}

/* The key of a source whose ids only messages want. */
static void
SetNameKey(VectorSource *source, Relation rel)
{
	int			nkeys;
	char	   *name = PrimaryKeyColumn(rel, &nkeys);

	if (name != NULL && MayRead(rel, name))
	{
		Column		key = FindColumn(rel, name);

		source->key_column = key.name;
		source->key_type = key.type;
		source->key_expression = pstrdup(quote_identifier(key.name));
	}
	else
	{
		source->key_type = INT8OID;
		source->key_expression = pstrdup("CAST(0 AS pg_catalog.int8)");
	}
	source->outer_key_expression = pstrdup("k");
}

static void
SetKey(VectorSource *source, Relation rel, const char *id_column, Oid key_type)
{
	Column		key = FindKeyColumn(rel, id_column);

	source->key_column = key.name;
	source->key_type = key_type;
	source->key_collation = OidIsValid(key.collation) ? key.collation : get_typcollation(key_type);
	source->key_expression = KeyExpression(rel, &key, quote_identifier(key.name), key_type);
	source->outer_key_expression = KeyExpression(rel, &key, "k", key_type);
	CheckKeyOrder(key_type);
}

VectorSource *
ResolveSource(Oid relid, const char *vector_column, const char *id_column, Oid key_type)
{
	VectorSource *source = palloc0(sizeof(VectorSource));
	Relation	rel = OpenRelation(relid);
	Column		vector = FindColumn(rel, vector_column);
	const char *vector_name = quote_identifier(vector.name);

	source->vector_expression = VectorExpression(rel, &vector, vector_name, &source->form);
	source->outer_vector_expression = VectorExpression(rel, &vector, "v", &source->form);
	if (OidIsValid(key_type))
		SetKey(source, rel, id_column, key_type);
	else
		SetNameKey(source, rel);

	source->relation = pstrdup(RelationGetRelationName(rel));
	source->vector_column = vector.name;
	source->relid = relid;
	source->qualified_name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
														RelationGetRelationName(rel));
	source->query = psprintf("SELECT %s, %s FROM %s", source->key_expression,
							 source->vector_expression, source->qualified_name);
	relation_close(rel, NoLock);
	return source;
}
