/*-------------------------------------------------------------------------
 *
 * slice_query.c
 *	  Commands and queries for workers, as text.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/compat.h"
#include "citus/slice_query.h"
#include "citus/workers.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "storage/latch.h"
#include "utils/builtins.h"

/*
 * What a session sets holds for its slices, too; what a server's own files say of that
 * server does not.  All in the units that pg_settings has.
 */
#define SETTINGS_QUERY \
	"SELECT name, setting FROM pg_catalog.pg_settings" \
	" WHERE (name OPERATOR(pg_catalog.~) '^fasted[.]' OR name OPERATOR(pg_catalog.=) 'work_mem')" \
	" AND context OPERATOR(pg_catalog.=) 'user' AND source OPERATOR(pg_catalog.<>) ALL ('{default,configuration file,command line}'::pg_catalog.text[])" \
	" ORDER BY name"

static void
AppendSettings(StringInfo commands)
{
	SPI_connect();
	if (SPI_execute(SETTINGS_QUERY, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "settings can't be read");
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		const char *name = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 1);
		const char *value = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 2);

		appendStringInfo(commands, "; SET LOCAL %s = %s", name, quote_literal_cstr(value));
	}
	SPI_finish();
}

char *
SlicePrologue(void)
{
	StringInfoData commands;

	initStringInfo(&commands);
	appendStringInfoString(&commands, "BEGIN");
	AppendSettings(&commands);
	/* while rows are read; a join looks by itself */
	if (WaitEventSetCanReportClosed())
		appendStringInfoString(&commands, "; SET LOCAL client_connection_check_interval = '100ms'");
	return commands.data;
}

/* --- queries */

static char *
DistanceText(double eps)
{
	return isinf(eps) ? pstrdup("Infinity") : psprintf("%.17g", eps);
}

static const char *
MetricName(const VectorSource *source)
{
	return source->metric == FASTED_METRIC_COSINE ? "cosine" : "l2";
}

/* relation, vector_column, id_column */
static char *
SourceText(const VectorSource *source)
{
	return psprintf("%s, %s, %s", quote_literal_cstr(QualifiedName(source->relid)),
					quote_literal_cstr(source->vector_column),
					quote_literal_cstr(source->key_column));
}

static char *
KeyTypeText(const VectorSource *source)
{
	return quote_literal_cstr(format_type_be_qualified(source->key_type));
}

static char *
PairsQuery(const RemoteProblem *problem, uint32 slice, uint32 slices)
{
	const VectorSource *source = problem->sources[0];

	return psprintf("SELECT fasted_citus.join_slice(%s, %s, '%s', %s, %s, '%s', %s, '%s', %u, %u, %s)",
					quote_literal_cstr(QualifiedName(source->relid)),
					quote_literal_cstr(source->vector_column), DistanceText(problem->eps),
					quote_literal_cstr(source->key_column), KeyTypeText(source),
					MetricName(source), source->skip_zeros ? "true" : "false",
					slice_output_names[problem->output], slice, slices,
					problem->alike ? "true" : "false");
}

/* Of one relation with itself it is named twice. */
static char *
NearestQuery(const RemoteProblem *problem, uint32 slice, uint32 slices)
{
	const VectorSource *a = problem->sources[0];
	const VectorSource *b = problem->sources[1] != NULL ? problem->sources[1] : a;

	return psprintf("SELECT fasted_citus.nearest_slice(%s, %s, %s, %u, '%s', '%s', %u, %u)",
					SourceText(a), SourceText(b), KeyTypeText(a), problem->k,
					DistanceText(problem->eps), MetricName(a), slice, slices);
}

char *
SliceQuery(const RemoteProblem *problem, uint32 slice, uint32 slices)
{
	if (problem->output == SLICE_NEAREST)
		return NearestQuery(problem, slice, slices);
	return PairsQuery(problem, slice, slices);
}
