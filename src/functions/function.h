/*-------------------------------------------------------------------------
 *
 * function.h
 *	  The functions that return the rows of a join: a description of each, and the run of a call.
 *
 * fasted_self_join, fasted_knn_join, fasted_neighbors, fasted_cluster and fasted_keep_one are
 * planned, executed, counted, explained and stored by the same code, here and in the folder
 * function_node.  That code knows of a function what its FunctionDescriptor says.
 *
 *	  function.c		arguments, the SQL functions, and what all runs have in common
 *	  estimate.c		numbers of rows and costs; the support functions
 *	  self_join.c, nearest.c	functions whose rows are pairs
 *	  clustering.h		functions that return a row for each row
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_FUNCTION_H
#define FASTED_FUNCTION_H

#include "engine/engine.h"
#include "fmgr.h"
#include "join/join.h"
#include "nodes/pathnodes.h"
#include "nodes/primnodes.h"
#include "portability/instr_time.h"

/* --- rows of the result */

#define OUTLET_ROWS 1024
#define OUTLET_COLUMNS 4

/* Columns of the result where its rows are pairs; the last one is of fasted_knn_join. */
enum
{
	COLUMN_ID_A = 1,
	COLUMN_ID_B,
	COLUMN_DIST,
	COLUMN_RANK
};

/*
 * Rows, column by column, for the columns that are used.  nulls is set by functions with a
 * nullable column only; blocks in shared memory end before it.
 */
typedef struct OutletBlock
{
	uint32		nrows;
	Datum		values[OUTLET_COLUMNS][OUTLET_ROWS];
	bool		nulls[OUTLET_COLUMNS][OUTLET_ROWS];
} OutletBlock;

/* A distance that lives as long as the rows do. */
static inline Datum
DistanceDatum(const double *dist)
{
#ifdef USE_FLOAT8_BYVAL
	return Float8GetDatum(*dist);
#else
	return PointerGetDatum(dist);
#endif
}

/* --- a call */

typedef struct FunctionDescriptor FunctionDescriptor;
typedef struct FunctionRun FunctionRun;

/* One of the relations that are read. */
typedef struct CallSource
{
	Oid			relation;
	char	   *vector_column;
	char	   *id_column;		/* NULL: the primary key */
} CallSource;

/* Conditions on pairs: least <= dist <= most, and which orders of ids pass. */
typedef struct PairFilter
{
	double		least;
	double		most;
	bool		below;			/* id_a < id_b passes */
	bool		equal;
	bool		above;
} PairFilter;

/* The arguments of a call, checked, and what is wanted of it. */
typedef struct FunctionCall
{
	const FunctionDescriptor *function;
	const NullableDatum *args;	/* from the first one behind id_type on */
	Oid			key_type;
	CallSource	sources[2];
	double		eps;			/* of functions that have it */
	FastedMetric metric;
	char	   *partition_by;	/* see GroupSource; NULL: all rows meet */
	VectorSource *rows;			/* of a window's partition, instead of the sources; or NULL */
	RowPusher  *pusher;			/* of these */
	uint32		few_rows;		/* see JoinRequest */

	List	   *columns;		/* the number of each of the block's columns; 0: the node's own */
	PairFilter	filter;
	bool		count;			/* the number of rows is all that is wanted */
	bool		timed;			/* seconds are wanted */
} FunctionCall;

/*
 * Takes and checks the arguments that functions have in common.  All columns are wanted, and
 * no pair is held back.
 */
extern FunctionCall MakeFunctionCall(const FunctionDescriptor *function, const NullableDatum *args,
									 Oid key_type);

/* The name in argument n; NULL, if that is null. */
extern char *NameArgument(const FunctionCall *call, int n);

/* Resolves source n; errors name the argument for its id. */
extern VectorSource *ResolveCallSource(const FunctionCall *call, int n, const char *id_column);

/* --- its run: a join from its first row to its last */

/*
 * Statistics of runs, for EXPLAIN ANALYZE.  Of several runs bytes, filed_pairs and shares are
 * those of the last one, and all else is summed up.
 */
typedef struct FunctionTotals
{
	int			runs;
	uint64		joins;			/* those for which an engine ran */
	FastedStats stats;			/* of these */
	uint64		partitions;
	double		read_seconds;
	double		wait_seconds;	/* for the engine */
	double		output_seconds; /* making rows of pairs */
	uint64		bytes;			/* beside the engine's */
	uint64		filed_pairs;	/* in a temporary file */
	List	   *shares;			/* of servers: JoinShares */
} FunctionTotals;

/* Every function's run begins with it. */
struct FunctionRun
{
	FunctionCall call;
	MemoryContext context;		/* everything of the run lives here */
	VectorJoin *join;			/* NULL: none is at work */
	FunctionTotals totals;		/* but for the join at work */
};

/*
 * Reads the sources and starts the engine.  Allocates in the current memory context, with
 * which the run goes, on error too.
 */
extern FunctionRun *BeginFunctionRun(const FunctionCall *call);

/*
 * Fills the block with at least one row; false: there are no more.  Values by reference are
 * valid until the next call.
 */
extern bool FillRows(FunctionRun *run, OutletBlock *block);

/* Instead of FillRows, where call.count asks for it: returns the number of all rows. */
extern uint64 CountRows(FunctionRun *run);

/* Lets the engine rest, for nobody asks for further rows for now. */
extern void PauseFunctionRun(FunctionRun *run);

/* Ends the join, also when there are rows left; not to be called after an error. */
extern void EndFunctionRun(FunctionRun *run);

/* Returns the sum of the totals and those of another run, which may still be at work. */
extern FunctionTotals AddRun(const FunctionTotals *totals, const FunctionRun *run);

/* Fetches the next pairs of the join for a function; false, with no pairs: there are no more. */
extern bool NextPairs(FunctionRun *run, const FastedPair **pairs, size_t *npairs);

/* Adds the join's statistics to the run's totals, and ends it. */
extern void FinishJoin(FunctionRun *run);

/*
 * Adds a join, also one that is still at work or was stopped early by a LIMIT, to the
 * statistics and the seconds of reading of the joins before it: texts of the last join that
 * had an engine, the largest sizes, and sums of the other numbers.  Returns false if no engine
 * ran for it.
 */
extern bool AddJoinStatistics(FastedStats *sum, double *read_seconds, const VectorJoin *join);

/* The time; zero, if seconds are not wanted. */
static inline instr_time
RunClock(const FunctionRun *run)
{
	instr_time	now;

	INSTR_TIME_SET_ZERO(now);
	if (run->call.timed)
		INSTR_TIME_SET_CURRENT(now);
	return now;
}

static inline void
AddSeconds(const FunctionRun *run, double *seconds, instr_time begin)
{
	if (run->call.timed)
		*seconds += SecondsSince(begin);
}

/* --- what the planner is told (estimate.c) */

/* The dimensions of vectors that nothing is known of. */
#define DEFAULT_DIMENSIONS 256.0

/*
 * Floating-point operations (2 n n d) for the price of one operator: what two
 * cores compute while PostgreSQL evaluates an operator or two.
 */
#define FLOP_PER_OPERATOR 10000.0

typedef struct FunctionEstimate
{
	double		rows;
	Cost		startup;		/* before the first row */
	Cost		total;			/* but for the rows */
	Cost		per_row;
} FunctionEstimate;

extern FunctionEstimate EstimateSelfJoin(PlannerInfo *root, List *args);
extern FunctionEstimate EstimateNearest(PlannerInfo *root, List *args);
extern FunctionEstimate EstimateClustering(PlannerInfo *root, List *args);

/* --- the functions */

#define FUNCTION_MOST_ARGS 10

/* Numbers of arguments do not count id_type, which the functions "_typed" have before them. */
typedef struct FunctionArgument
{
	const char *name;
	bool		required;		/* it must not be null */
	const char *label;			/* for EXPLAIN; NULL: it is not shown, or with its source */
} FunctionArgument;

/* Numbers of the arguments that name a relation and its columns. */
typedef struct SourceArguments
{
	int			relation;
	int			vector_column;
	int			id_column;
} SourceArguments;

struct FunctionDescriptor
{
	const char *name;
	const char *node_name;		/* of the plan node */
	const char *window;			/* the window function that does the same; NULL: there is none */

	int			nargs;			/* the last one is partition_by */
	FunctionArgument arguments[FUNCTION_MOST_ARGS];
	int			nsources;
	SourceArguments sources[2];
	int			eps;			/* number of the argument; negative: there is none */
	int			metric;

	int			ncolumns;
	Oid			columns[OUTLET_COLUMNS];	/* types; InvalidOid: that of the ids */

	bool		parallel;		/* rows may be dealt to parallel workers */
	bool		takes_conditions;	/* rows are pairs, and PairFilter is applied */
	bool		nullable;		/* it sets the nulls of blocks */
	bool		whole_rows;		/* also where rows of other tables are locked or changed */
	const char *output_label;	/* of output_seconds, for EXPLAIN; or NULL */

	FunctionEstimate (*estimate) (PlannerInfo *root, List *args);

	Size		run_size;		/* of the struct that begins with FunctionRun */
	void		(*begin) (FunctionRun *run);	/* all fields but call and context are zero */
	bool		(*fill) (FunctionRun *run, OutletBlock *block);
	uint64		(*count) (FunctionRun *run);	/* NULL: rows are not counted by the function */
	/* Once computed, rows stay: the first one is the next again.  Else NULL. */
	void		(*rewind) (FunctionRun *run);
};

extern const FunctionDescriptor self_join_function;
extern const FunctionDescriptor nearest_function;
extern const FunctionDescriptor neighbors_function;
extern const FunctionDescriptor cluster_function;
extern const FunctionDescriptor keep_one_function;

/* All of them by number. */
#define FUNCTIONS 5

extern const FunctionDescriptor *NumberedFunction(int number);

/* The number of the function with this address, and whether it has id_type (1 or 0); or -1. */
extern int	FindFunction(PGFunction address, int *first);

/* Arguments of fasted_self_join. */
enum
{
	SELF_JOIN_RELATION,
	SELF_JOIN_COLUMN,
	SELF_JOIN_EPS,
	SELF_JOIN_ID_COLUMN,
	SELF_JOIN_ORDERED,
	SELF_JOIN_SELF_PAIRS,
	SELF_JOIN_METRIC,
	SELF_JOIN_PARTITION_BY,
	SELF_JOIN_NARGS
};

/* Arguments of fasted_knn_join. */
enum
{
	NEAREST_A,
	NEAREST_A_COLUMN,
	NEAREST_B,
	NEAREST_B_COLUMN,
	NEAREST_K,
	NEAREST_A_ID,
	NEAREST_B_ID,
	NEAREST_METRIC,
	NEAREST_MAX_DISTANCE,
	NEAREST_PARTITION_BY,
	NEAREST_NARGS
};

#endif							/* FASTED_FUNCTION_H */
