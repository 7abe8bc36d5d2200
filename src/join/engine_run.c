/*-------------------------------------------------------------------------
 *
 * engine_run.c
 *	  Opens an engine; warns, or raises an error, when it fails.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "engine/row_groups.h"
#include "join/engine_run.h"
#include "join/engines.h"

static void
WarnOfFallBack(const char *text)
{
	static bool warned = false;

	if (!warned)
		ereport(WARNING,
				(errmsg("the GPU failed, so the CPU computes instead"),
				 errdetail_internal("%s", text),
				 errhint("Use \"SET fasted.engine = cpu\" not to try the GPU.")));
	warned = true;
}

void
EngineRunClose(EngineRun *run)
{
	PanelJoin  *join = run->join;

	run->join = NULL;
	panel_join_close(join);
}

void
EngineRunLeave(EngineRun *run)
{
	if (run->spare == NULL || run->join == NULL)
		return;
	run->spare->engine = run->engine;
	run->spare->dimensions = run->dimensions;
	run->spare->join = run->join;
	run->join = NULL;
}

void
EngineSpareClose(EngineSpare *spare)
{
	PanelJoin  *join = spare->join;

	spare->join = NULL;
	panel_join_close(join);
}

/* False: what is left of another join is of no use, or there is nothing. */
static bool
TakeSpare(EngineRun *run)
{
	EngineSpare *spare = run->spare;

	if (spare == NULL || spare->join == NULL)
		return false;
	if (spare->engine != run->engine || spare->dimensions != run->dimensions)
	{
		EngineSpareClose(spare);
		return false;
	}
	run->join = spare->join;
	spare->join = NULL;
	return true;
}

FastedStatus
EngineRunCheck(EngineRun *run, FastedStatus status)
{
	char	   *text;

	if (likely(!FASTED_FAILED(status)))
		return status;
	text = MemoryContextStrdup(run->context, panel_join_last_error(run->engine, run->join));
	EngineRunClose(run);
	if (!run->fallible)
		ReportEngineFailure(run->engine, status, text);
	run->failed = true;
	if (run->spare != NULL)
		run->spare->failed = true;
	WarnOfFallBack(text);
	return status;
}

void
EngineRunAgain(EngineRun *run, const JoinOptions *options)
{
	run->fallible = options->engine == ENGINE_AUTO && run->engine != fasted_cpu_engine();
	run->failed = false;
}

/* How many pairs of rows there are, of a set with itself as if it were two. */
static double
RowPairs(const EngineRun *run, const PanelProblem *problem)
{
	const uint64_t *rows = problem->expected_rows;

	if (run->row_pairs > 0.0)
		return run->row_pairs;
	if (problem->problem.groups != NULL)
		return fasted_group_pairs(problem->problem.groups, problem->problem.ngroups, false);
	return (double) rows[0] * rows[problem->sides == 2 ? 1 : 0];
}

void
EngineRunOpen(EngineRun *run, const JoinOptions *options, const PanelProblem *problem)
{
	PanelProblem whole = *problem;
	uint32		dimensions = problem->options.dimensions;

	run->engine = run->failed || (run->spare != NULL && run->spare->failed) ? fasted_cpu_engine() :
		ChooseEngine(options, RowPairs(run, problem), dimensions);
	EngineRunAgain(run, options);
	if ((whole.problem.output == FASTED_OUTPUT_CONNECTIONS && !run->engine->connects) ||
		(whole.problem.output == FASTED_OUTPUT_KEEPERS && !run->engine->keeps))
		whole.problem.output = FASTED_OUTPUT_PAIRS;
	run->output = whole.problem.output;
	run->dimensions = dimensions;
	if (TakeSpare(run))
	{
		EngineRunCheck(run, panel_join_restart(run->join));
		return;
	}
	whole.options = EngineOptions(options);
	whole.options.dimensions = dimensions;
	EngineRunCheck(run, panel_join_open(run->engine, &whole, &run->join));
}
