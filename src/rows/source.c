/*-------------------------------------------------------------------------
 *
 * source.c
 *	  Resolves the relation, columns and conversions of a source; checks other arguments; numbers
 *	  the values of a partition column.
 *
 * A conversion runs with the privileges of the user who joins, so it must not run code of another
 * user.  The conversion of a key must not lose information.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/sysattr.h"
#include "base/compat.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "parser/parse_coerce.h"
#include "rows/source.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
#include "utils/varlena.h"

/* Keys longer than this are truncated in messages, in bytes. */
#define MAX_KEY_TEXT 64

typedef struct Column
{
	char	   *name;
	Oid			type;
	Oid			collation;
} Column;

/* --- arguments */

void
ReportNullArgument(const char *function, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("argument \"%s\" of %s must not be null", name, function)));
}

void
RequireDistance(const char *argument, double distance, FastedMetric metric)
{
	bool		products = fasted_metric_rules(metric)->negative_product;

	if (distance >= LeastDistance(metric))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s must not be %s", argument,
					isnan(distance) ? "NaN" : products ? "-Infinity" : "negative"),
			 products ? errhint("The distance is the negative inner product: use -0.8 for inner products of at least 0.8.") :
			 errhint("Use 0 to find exact duplicates, or 'Infinity' to get all pairs.")));
}

bool
FindMetric(const text *name, FastedMetric *metric)
{
	const char *string = text_to_cstring(name);
	const MetricRules *rules;

	*metric = 0;
	while ((rules = fasted_metric_rules(*metric)) != NULL && strcmp(string, rules->name) != 0)
		(*metric)++;
	return rules != NULL;
}

FastedMetric
MetricFromText(const text *name)
{
	FastedMetric metric;

	if (!FindMetric(name, &metric))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unrecognized metric \"%s\"", text_to_cstring(name)),
				 errhint("Valid metrics are \"l2\", \"cosine\", \"inner_product\", \"hamming\" and \"jaccard\".")));
	return metric;
}

int
errmetric(FastedMetric metric, Oid type)
{
	(void) errcode(ERRCODE_DATATYPE_MISMATCH);
	(void) errmsg("metric \"%s\" is not defined for vectors of type %s", MetricName(metric),
				  format_type_be(type));
	return fasted_metric_rules(metric)->of_bits ?
		errhint("Use metric => 'l2', 'cosine' or 'inner_product'; other metrics need vectors of type bit.") :
		errhint("Use metric => 'hamming' or metric => 'jaccard'.");
}

/* --- conversions of vectors */

/* The function that a conversion calls for each value, or for each element. */
typedef struct CastFunction
{
	Oid			function;		/* InvalidOid: none */
	Oid			from;			/* the argument and result types of the conversion */
	Oid			to;
} CastFunction;

/*
 * Finds the function that converts the elements of an array to real.  Returns false if none is
 * called, or if the type is not the true array type of its elements, such as int2vector.
 */
static bool
FindElementCast(Oid array, CastFunction *cast)
{
	Oid			element = get_element_type(array);

	if (!OidIsValid(element) || get_array_type(element) != array)
		return false;
	cast->from = element;
	cast->to = FLOAT4OID;
	return find_coercion_pathway(FLOAT4OID, getBaseType(element), COERCION_ASSIGNMENT,
								 &cast->function) == COERCION_PATH_FUNC;
}

/*
 * Determines in which form vectors of a type are read, and which function converts them.
 * double precision[] and numeric[] are read without a cast.  So numeric elements are
 * rounded to real only once, and an element out of range is reported with its row.  The cast from
 * bit to bit varying calls no function.
 */
static bool
FindVectorForm(Oid type, VectorForm *form, CastFunction *cast)
{
	Oid			base = getBaseType(type);

	cast->function = InvalidOid;
	cast->from = type;
	cast->to = FLOAT4ARRAYOID;
	*form = FormOfType(base);
	if (*form == VECTOR_BIT || base == VectorFormType(*form))
		return true;

	switch (find_coercion_pathway(FLOAT4ARRAYOID, base, COERCION_EXPLICIT, &cast->function))
	{
		case COERCION_PATH_FUNC:
		case COERCION_PATH_RELABELTYPE:
			return true;
		case COERCION_PATH_ARRAYCOERCE:
			return FindElementCast(base, cast);
		default:
			return false;
	}
}

bool
FindVectorCast(Oid type, Oid *function)
{
	VectorForm	form;
	CastFunction cast;

	if (!FindVectorForm(type, &form, &cast))
		return false;
	*function = cast.function;
	return true;
}

/*
 * Sets the form of a source's vectors, which have this type.  Raises an error if the source's metric is
 * not one for this type.
 */
static void
SetForm(VectorSource *source, Oid type, VectorForm form)
{
	if ((form == VECTOR_BIT) != fasted_metric_rules(source->metric)->of_bits)
		ereport(ERROR,
				(errmetric(source->metric, type),
				 source->relation == NULL ? 0 :
				 errdetail("The vectors are in column \"%s\" of relation \"%s\".",
						   source->vector_column, source->relation)));
	source->vector_type = getBaseType(type);
	source->form = form;
	source->element = ElementOfForm(form);
}

/* Makes the rows of a source rows of doubles.  The source must not have vectors of bits. */
static void
ReadAsDoubles(VectorSource *source)
{
	Oid			type = source->vector_type;

	source->element = FASTED_ELEMENT_DOUBLE;
	if (type == INT2ARRAYOID || type == INT4ARRAYOID || type == INT8ARRAYOID ||
		type == NUMERICARRAYOID)
		source->form = VECTOR_FLOAT8;
}

void
ShareElement(VectorSource *a, VectorSource *b)
{
	if (a->element != b->element)
		ReadAsDoubles(a->element == FASTED_ELEMENT_DOUBLE ? b : a);
}

/* --- conversions of keys */

/*
 * Implicit casts, implemented by functions, that map different keys to different keys.  Among
 * those excluded: bigint to double precision rounds, text to name truncates, and timestamp to
 * timestamptz is ambiguous when daylight saving time ends.
 */
static const Oid lossless_casts[][2] = {
	{INT2OID, INT4OID}, {INT2OID, INT8OID}, {INT4OID, INT8OID},
	{INT2OID, NUMERICOID}, {INT4OID, NUMERICOID}, {INT8OID, NUMERICOID},
	{INT2OID, FLOAT4OID}, {INT2OID, FLOAT8OID}, {INT4OID, FLOAT8OID},
	{FLOAT4OID, FLOAT8OID},
	{CHAROID, TEXTOID}, {NAMEOID, TEXTOID},
	{BPCHAROID, TEXTOID}, {BPCHAROID, VARCHAROID},
	{DATEOID, TIMESTAMPOID}, {TIMEOID, INTERVALOID},
	{MACADDROID, MACADDR8OID},
};

/* Returns true if keys of type from may be read as type to, which may be the same type. */
static bool
KeyConverts(Oid from, Oid to)
{
	Oid			function;

	from = getBaseType(from);
	to = getBaseType(to);
	for (size_t i = 0; i < lengthof(lossless_casts); i++)
		if (lossless_casts[i][0] == from && lossless_casts[i][1] == to)
			return true;
	return find_coercion_pathway(to, from, COERCION_IMPLICIT, &function) == COERCION_PATH_RELABELTYPE;
}

/* --- trusted casts */

bool
IsCompiled(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Oid			language = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		language = ((Form_pg_proc) GETSTRUCT(tuple))->prolang;
		ReleaseSysCache(tuple);
	}
	return language == INTERNALlanguageId || language == ClanguageId;
}

/*
 * Raises an error if the current user should not run the cast function implicitly.  Trusted
 * functions are those of PostgreSQL, those in C, which only superusers can create, those of a
 * superuser, and the user's own.  The owner of any other function can change it at any time.
 */
static void
RequireTrustedCast(const CastFunction *cast, const char *column, const char *relation)
{
	HeapTuple	tuple;
	Form_pg_proc function;

	if (!OidIsValid(cast->function) || IsCompiled(cast->function))
		return;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(cast->function));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", cast->function);
	function = (Form_pg_proc) GETSTRUCT(tuple);
	if (function->proowner != GetUserId() && !superuser_arg(function->proowner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cast from type %s to type %s runs code of another user",
						format_type_be(cast->from), format_type_be(cast->to)),
				 relation == NULL ?
				 errdetail("Argument \"%s\" would be converted by function %s of role \"%s\", with your privileges.",
						   column, format_procedure(cast->function),
						   GetUserNameFromId(function->proowner, false)) :
				 errdetail("Column \"%s\" of \"%s\" would be read by function %s of role \"%s\", with your privileges.",
						   column, relation, format_procedure(cast->function),
						   GetUserNameFromId(function->proowner, false)),
				 errhint("Read the column as that role, or let a superuser own the function.")));
	ReleaseSysCache(tuple);
}

/* --- columns */

bool
IsSelectable(char relkind)
{
	return relkind == RELKIND_RELATION || relkind == RELKIND_PARTITIONED_TABLE ||
		relkind == RELKIND_VIEW || relkind == RELKIND_MATVIEW || relkind == RELKIND_FOREIGN_TABLE;
}

static Relation
OpenRelation(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!IsSelectable(rel->rd_rel->relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot join relation \"%s\"", RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(rel->rd_rel->relkind),
				 errhint("Specify a table, a partitioned table, a view, a materialized view or a foreign table.")));
	return rel;
}

/*
 * Parses a column name as in a query, where it may be quoted.  Returns NULL if there is no such
 * column.
 */
static char *
NameInQuery(Relation rel, const char *name)
{
	List	   *names;

	if (!SplitIdentifierString(pstrdup(name), '.', &names) || list_length(names) != 1 ||
		get_attnum(RelationGetRelid(rel), linitial(names)) == InvalidAttrNumber)
		return NULL;
	return linitial(names);
}

pg_noreturn static void
ReportNoColumn(Relation rel, const char *name)
{
	char	   *stored = NameInQuery(rel, name);
	FastedMetric metric;

	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("column \"%s\" of relation \"%s\" does not exist",
					name, RelationGetRelationName(rel)),
			 stored != NULL ?
			 errhint("Write the column name as it is stored, without double quotes: %s.",
					 quote_literal_cstr(stored)) :
			 FindMetric(cstring_to_text(name), &metric) ?
			 errhint("To choose a metric, write metric => '%s'.", name) : 0));
}

/* Looks up a column.  System columns are allowed: ctid identifies the rows of a table. */
static Column
FindColumn(Relation rel, const char *name)
{
	AttrNumber	number = get_attnum(RelationGetRelid(rel), name);
	Column		column = {.name = pstrdup(name)};
	int32		typmod;

	if (number == InvalidAttrNumber)
		ReportNoColumn(rel, name);
	get_atttypetypmodcoll(RelationGetRelid(rel), number, &column.type, &typmod, &column.collation);
	return column;
}

/* Returns the column of the primary key, or NULL unless *nkeys, its number of columns, is 1. */
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

pg_noreturn static void
ReportNoKeyColumn(Relation rel, int nkeys, const char *argument, const char *function,
				  const char *window)
{
	bool		has_ctid = RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind);

	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 nkeys == 0 ?
			 errmsg("relation \"%s\" has no primary key", RelationGetRelationName(rel)) :
			 errmsg("primary key of relation \"%s\" has %d columns",
					RelationGetRelationName(rel), nkeys),
			 errdetail("Rows are identified by one column that is unique and not null."),
			 window != NULL ?
			 errhint("Name such a column with %s => '...', or use the window function %s, which needs none.",
					 argument, window) :
			 nkeys > 0 ?
			 errhint("Join a view with a single key column: row_number() OVER () AS id, or a composite of the key's columns.") :
			 has_ctid ?
			 errhint("Name such a column with %s => '...', or take the rows' addresses: %s(..., id_type => NULL::tid, %s => 'ctid').",
					 argument, function, argument) :
			 errhint("Name such a column with %s => '...', for example one that a view computes with row_number().",
					 argument)));
}

static void
CheckKeyType(Relation rel, const Column *key, Oid key_type, const char *argument,
			 const char *function)
{
	bool		second = strcmp(argument, "b_id") == 0;

	if (KeyConverts(key->type, key_type))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("key column \"%s\" of relation \"%s\" is of type %s, not %s",
					key->name, RelationGetRelationName(rel),
					format_type_be(key->type), format_type_be(key_type)),
			 errdetail("Keys are converted only if no information is lost."),
			 errhint("Use the form of %s with the argument id_type => NULL::%s%s.",
					 function, format_type_be(key->type),
					 second ? ", if the keys of both relations convert to this type" : "")));
}

/*
 * Returns the form of vectors of a type, which is that of a column of the relation, or, if relation
 * is NULL, of an argument of the function.  Errors: as RequireVector.
 */
static VectorForm
RequireForm(Oid type, const char *name, const char *function, const char *relation)
{
	VectorForm	form;
	CastFunction cast;

	if (!FindVectorForm(type, &form, &cast))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("cannot read type %s as a vector", format_type_be(type)),
				 relation != NULL ?
				 errdetail("Column \"%s\" of relation \"%s\" has no cast to real[].", name, relation) :
				 errdetail("Argument \"%s\" of %s has no cast to real[].", name, function),
				 relation == NULL && (type == UNKNOWNOID || TypeCategory(type) == TYPCATEGORY_STRING) ?
				 errhint("Cast it, for example to real[].") :
				 errhint("Vectors are of type real[], double precision[], bit, or any type with a cast to real[].")));
	RequireTrustedCast(&cast, name, relation);
	return form;
}

VectorForm
RequireVector(Oid type, const char *argument, const char *function)
{
	return RequireForm(type, argument, function, NULL);
}

bool
MayRead(Oid relid, AttrNumber column)
{
	return pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK ||
		pg_attribute_aclcheck(relid, column, GetUserId(), ACL_SELECT) == ACLCHECK_OK;
}

/* Sets the key of a source whose keys are used in messages only. */
static void
SetNameKey(VectorSource *source, Relation rel)
{
	int			nkeys;
	char	   *name = PrimaryKeyColumn(rel, &nkeys);
	bool		readable = name != NULL && MayRead(source->relid, get_attnum(source->relid, name));

	source->key_column = readable ? name : NULL;
	source->key_type = readable ? FindColumn(rel, name).type : INT8OID;
}

static void
SetKey(VectorSource *source, Relation rel, const char *id_column, Oid key_type,
	   const char *function, const char *window)
{
	int			nkeys;
	const char *name = id_column != NULL ? id_column : PrimaryKeyColumn(rel, &nkeys);
	Column		key;

	if (name == NULL)
		ReportNoKeyColumn(rel, nkeys, source->id_argument, function, window);
	key = FindColumn(rel, name);
	CheckKeyType(rel, &key, key_type, source->id_argument, function);
	if (!OidIsValid(lookup_type_cache(key_type, TYPECACHE_LT_OPR)->lt_opr))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("could not identify an ordering operator for type %s", format_type_be(key_type)),
				 errdetail("The type of a key needs a default btree operator class."),
				 errhint("Choose another key with %s => '...'.", source->id_argument)));
	source->key_column = key.name;
	source->key_type = key_type;
	source->key_collation = OidIsValid(key.collation) ? key.collation : get_typcollation(key_type);
}

VectorSource *
ResolveSource(Oid relid, const char *vector_column, const char *id_column,
			  const char *id_argument, Oid key_type, FastedMetric metric, const char *function,
			  const char *window)
{
	VectorSource *source = palloc0(sizeof(VectorSource));
	Relation	rel = OpenRelation(relid);
	Column		vector;

	source->relid = relid;
	source->id_argument = id_argument;
	source->metric = metric;
	source->skip_zeros = fasted_metric_rules(metric)->has_direction;
	source->relation = pstrdup(RelationGetRelationName(rel));
	vector = FindColumn(rel, vector_column);
	source->vector_column = vector.name;
	SetForm(source, vector.type, RequireForm(vector.type, vector.name, function, source->relation));
	if (OidIsValid(key_type))
		SetKey(source, rel, id_column, key_type, function, window);
	else
		SetNameKey(source, rel);
	relation_close(rel, NoLock);
	return source;
}

VectorSource *
ResolveValues(Oid type, FastedMetric metric, const char *function)
{
	VectorSource *source = palloc0(sizeof(VectorSource));

	source->metric = metric;
	source->key_type = INT8OID;
	SetForm(source, type, RequireVector(type, "vector", function));
	return source;
}

/*
 * Returns true if a second query in the same snapshot reads the same rows, which a view, a row security
 * policy or another server does not guarantee, and may read their order, too.  Each vector must be null
 * exactly where its column is, which is known only of casts by strict functions that are not a user's.
 */
static bool
CanReadTwice(const VectorSource *source, const char *order)
{
	Oid			cast = InvalidOid;
	ListCell   *cell;

	if (source->partition_column != NULL || !FindVectorCast(source->vector_type, &cast) ||
		(OidIsValid(cast) && !(func_strict(cast) && IsCompiled(cast))) ||
		check_enable_rls(source->relid, InvalidOid, true) == RLS_ENABLED ||
		!MayRead(source->relid, get_attnum(source->relid, order)) ||
		OidIsValid(get_extension_oid("citus", true)))
		return false;
	foreach(cell, find_all_inheritors(source->relid, AccessShareLock, NULL))
	{
		char		kind = get_rel_relkind(lfirst_oid(cell));

		if (kind == RELKIND_VIEW || kind == RELKIND_FOREIGN_TABLE)
			return false;
	}
	return true;
}

VectorSource *
OrderSource(VectorSource *source, const char *column, bool descending)
{
	VectorSource *ordered = palloc(sizeof(VectorSource));
	Relation	rel = OpenRelation(source->relid);
	Column		order = FindColumn(rel, column);

	if (!OidIsValid(lookup_type_cache(order.type, TYPECACHE_LT_OPR)->lt_opr))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("cannot sort rows by column \"%s\" of relation \"%s\" of type %s",
						column, RelationGetRelationName(rel), format_type_be(order.type)),
				 errhint("Specify a column whose type has a default btree operator class; a view can add one.")));
	relation_close(rel, NoLock);
	*ordered = *source;
	ordered->order_column = order.name;
	ordered->descending = descending;
	if (CanReadTwice(source, order.name))
		return ordered;
	*source = *ordered;
	return NULL;
}

void
PartitionSource(VectorSource *source, const char *column)
{
	Relation	rel = OpenRelation(source->relid);
	Column		partition = FindColumn(rel, column);
	TypeCacheEntry *type = lookup_type_cache(getBaseType(partition.type),
											 TYPECACHE_EQ_OPR | TYPECACHE_HASH_PROC);

	if (!OidIsValid(type->eq_opr) || !OidIsValid(type->hash_proc))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("cannot partition rows by column \"%s\" of relation \"%s\" of type %s",
						column, RelationGetRelationName(rel), format_type_be(partition.type)),
				 errhint("Specify a column whose type has a default hash operator class; a view can add one.")));
	source->partition_column = partition.name;
	source->partition_type = getBaseType(partition.type);
	source->partition_collation = partition.collation;
	relation_close(rel, NoLock);
}

void
PrepareTypeOrder(Oid type, Oid collation, MemoryContext context, SortSupport order)
{
	order->ssup_cxt = context;
	order->ssup_collation = collation;
	PrepareSortSupportFromOrderingOp(lookup_type_cache(type, TYPECACHE_LT_OPR)->lt_opr, order);
}

/* --- numbers for the values of a partition column */

typedef struct PartitionEntry
{
	Datum		value;
	uint32		number;
	uint32		hash;
	char		status;
} PartitionEntry;

struct values_hash;

struct GroupNumbers
{
	MemoryContext context;
	TypeCacheEntry *type;
	Oid			collation;
	struct values_hash *table;
	uint32		count;
};

/* The GroupNumbers that a hash table belongs to. */
#define NUMBERS(table) ((GroupNumbers *) (table)->private_data)

#define SH_PREFIX values
#define SH_ELEMENT_TYPE PartitionEntry
#define SH_KEY_TYPE Datum
#define SH_KEY value
#define SH_HASH_KEY(table, key) \
	DatumGetUInt32(FunctionCall1Coll(&NUMBERS(table)->type->hash_proc_finfo, \
									 NUMBERS(table)->collation, key))
#define SH_EQUAL(table, a, b) \
	DatumGetBool(FunctionCall2Coll(&NUMBERS(table)->type->eq_opr_finfo, \
								   NUMBERS(table)->collation, a, b))
#define SH_STORE_HASH
#define SH_GET_HASH(table, entry) (entry)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

GroupNumbers *
GroupNumbersCreate(const VectorSource *source)
{
	GroupNumbers *numbers = palloc0(sizeof(GroupNumbers));

	numbers->context = CurrentMemoryContext;
	numbers->type = lookup_type_cache(source->partition_type,
									  TYPECACHE_HASH_PROC_FINFO | TYPECACHE_EQ_OPR_FINFO);
	numbers->collation = source->partition_collation;
	numbers->table = values_create(CurrentMemoryContext, 256, numbers);
	return numbers;
}

static Datum
CopyValue(const GroupNumbers *numbers, Datum value)
{
	MemoryContext old = MemoryContextSwitchTo(numbers->context);

	if (numbers->type->typlen == -1)
		value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	else
		value = datumCopy(value, numbers->type->typbyval, numbers->type->typlen);
	MemoryContextSwitchTo(old);
	return value;
}

uint32
GroupNumberOf(GroupNumbers *numbers, Datum value)
{
	bool		found;
	PartitionEntry *entry = values_insert(numbers->table, value, &found);

	if (!found)
	{
		entry->value = CopyValue(numbers, value);
		entry->number = numbers->count++;
	}
	return entry->number;
}

uint32
GroupNumbersCount(const GroupNumbers *numbers)
{
	return numbers->count;
}

/* --- keys in messages */

char *
KeyName(const VectorSource *source, Datum key)
{
	Oid			output;
	bool		varlena;
	char	   *text;
	int			length;

	if (source->relation == NULL)
		return psprintf(INT64_FORMAT, DatumGetInt64(key));
	if (source->key_column == NULL)
		return pstrdup("unknown id");
	getTypeOutputInfo(source->key_type, &output, &varlena);
	text = OidOutputFunctionCall(output, key);
	length = pg_mbcliplen(text, strlen(text), MAX_KEY_TEXT);
	return psprintf("%s = %.*s%s", source->key_column, length, text,
					text[length] == '\0' ? "" : "...");
}
