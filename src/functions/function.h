/*-------------------------------------------------------------------------
 *
 * function.h
 *	  Set-returning functions that compute a join: their descriptors, and the run of a call.
 *
 * fasted_self_join, fasted_knn_join, fasted_spanning_tree and the clustering functions share the
 * code that plans, executes, counts, explains and stores a call, here and in function_node/.
 * A FunctionDescriptor holds everything that this code knows about a function.
 *
 *	  function.c		arguments, the SQL functions, and the code that all runs share
 *	  estimate.c		row and cost estimates; the planner support functions
 *	  self_join.c, nearest.c	functions that return pairs
 *	  clustering.h		functions that return one row for each source row
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
#include "tree/spanning_tree.h"

/* --- rows of the result */

#define OUTPUT_ROWS 1024
#define OUTPUT_COLUMNS 7

/* Result columns of functions that return pairs; only fasted_knn_join has COLUMN_RANK. */
enum
{
	COLUMN_ID_A = 1,
	COLUMN_ID_B,
	COLUMN_DIST,
	COLUMN_RANK
};

/*
 * A block of rows, stored by column.  Only functions with nullable columns set nulls; blocks in shared memory are allocated without it.
 */
typedef struct OutputBlock
{
	uint32		nrows;
	Datum		values[OUTPUT_COLUMNS][OUTPUT_ROWS];
	bool		nulls[OUTPUT_COLUMNS][OUTPUT_ROWS];
} OutputBlock;

/* Returns a distance as Datum, which may point to *dist. */
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

/* A relation that the call reads. */
typedef struct CallSource
{
	Oid			relation;
	char	   *vector_column;
	char	   *id_column;		/* NULL: the primary key */
} CallSource;

/* The checked arguments of a call, and the parts of its result that the caller needs. */
typedef struct FunctionCall
{
	const FunctionDescriptor *function;
	const NullableDatum *args;	/* without id_type */
	Oid			key_type;
	CallSource	sources[2];
	double		eps;			/* if the function has this argument; NaN: null, no pair is within it */
	FastedMetric metric;
	char	   *partition_by;	/* partition column (PartitionSource); NULL: not partitioned */
	VectorSource *rows;			/* window functions: the partition's rows, in place of sources */
	uint64		most_rows;		/* number of these rows, with those without a vector */

	bool		ids;			/* the columns of ids are needed */
	bool		count;			/* only the number of rows is needed: it is the only column of one row */
} FunctionCall;

/* Raises an error if a required argument is null. */
extern void RequireArguments(const FunctionDescriptor *function, const NullableDatum *args);

/*
 * Sets and checks the arguments that functions have in common.  args: without id_type; the call points to
 * them.  Those of a window function have no sources.
 * Errors: eps is negative or NaN, the metric is unknown.
 */
extern FunctionCall MakeFunctionCall(const FunctionDescriptor *function, const NullableDatum *args,
									 Oid key_type);

/* Argument n: a name, or NULL; an integer of at least `least`, or `otherwise` if it is null. */
extern char *NameArgument(const FunctionCall *call, int n);
extern int32 IntegerArgument(const FunctionCall *call, int n, int32 least, int32 otherwise);

/* Resolves source n (ResolveSource).  id_column: NULL for the primary key. */
extern VectorSource *ResolveCallSource(const FunctionCall *call, int n, const char *id_column);

/* --- the run of a call: a join from the first row to the last */

/* Sums of runs, for EXPLAIN ANALYZE; bytes, spilled_pairs, tree and shares are those of the last run. */
typedef struct FunctionTotals
{
	int			runs;
	FastedStats stats;			/* totals of these joins */
	uint64		partitions;
	double		read_seconds;
	double		wait_seconds;	/* waiting for the engine */
	double		output_seconds; /* converting pairs to rows */
	uint64		bytes;			/* memory of clustering, without the engine's */
	uint64		spilled_pairs;	/* pairs written to a temporary file */
	TreeStats	tree;
	double		tree_seconds;	/* from the last neighbour list to the last edge of the tree */
	List	   *shares;			/* descriptions of the servers' shares (JoinShares) */
} FunctionTotals;

/* The state of a run: the first field of each function's own struct. */
struct FunctionRun
{
	FunctionCall call;
	MemoryContext context;		/* holds everything that the run allocates */
	VectorJoin *join;			/* the current join, or NULL */
	FunctionTotals totals;		/* of earlier runs and this one, without the current join */
};

/*
 * Reads the sources and starts the join.  For a window function, only opens the join.  All resources of
 * the run belong to the current memory context, on error too.  before: totals of earlier runs of the
 * call, or NULL.
 */
extern FunctionRun *BeginFunctionRun(const FunctionCall *call, const FunctionTotals *before);

/*
 * Fills the block with at least one row; returns false if there are no more rows.  Values by reference
 * are valid until the next call.  To be called once if call.count is set.
 */
extern bool FillRows(FunctionRun *run, OutputBlock *block);

/* Pauses the engine until the next call of FillRows. */
extern void PauseFunctionRun(FunctionRun *run);

/* Ends the run, even if it has more rows.  Must not be called after an error. */
extern void EndFunctionRun(FunctionRun *run);

/* Returns the totals with the current join, allocated in the current memory context. */
extern FunctionTotals RunTotals(const FunctionRun *run);

/* --- for the functions: JoinNext and JoinNextList, with a measure of waiting; the end of the join */

/* Sets *npairs to 0 at the end, when it returns false. */
extern bool NextPairs(FunctionRun *run, const FastedPair **pairs, size_t *npairs);
extern const NeighborList *NextList(FunctionRun *run, bool wait);
extern void FinishJoin(FunctionRun *run);

/*
 * Adds the statistics of a join, which need not have ended, to *sum, which gets the texts of the last
 * join that had an engine, the largest sizes, and sums of other numbers.
 */
extern void AddJoinStatistics(FastedStats *sum, const VectorJoin *join);

static inline instr_time
RunClock(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return now;
}

/* --- planner estimates (estimate.c) */

/* The number of dimensions that is assumed if there are no statistics. */
#define DEFAULT_DIMENSIONS 256.0

/*
 * Floating-point operations (2 n n d) at the cost of cpu_operator_cost: about as many as two cores
 * compute while PostgreSQL evaluates one or two operators.
 */
#define FLOP_PER_OPERATOR 10000.0

typedef struct FunctionEstimate
{
	double		rows;
	Cost		startup;		/* before the first row */
	Cost		total;			/* without per_row */
	Cost		per_row;		/* for returning one row */
} FunctionEstimate;

/* --- the functions */

#define FUNCTION_MAX_ARGS 11

/* Arguments are numbered from 0, without id_type, which only some calls have. */
typedef struct FunctionArgument
{
	const char *name;
	bool		required;		/* must not be null */
	const char *label;			/* in EXPLAIN */
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
	const char *node_name;		/* the plan node's name */
	const char *window;			/* the window function that does the same, or NULL */

	int			nargs;			/* the last argument is partition_by */
	FunctionArgument arguments[FUNCTION_MAX_ARGS];
	int			nsources;
	SourceArguments sources[2];
	int			eps;			/* number of argument eps; 0 if there is none */
	int			metric;			/* number of argument metric */

	int			ncolumns;
	Oid			columns[OUTPUT_COLUMNS]; /* types; InvalidOid: the type of the ids */

	bool		parallel;		/* rows may be shared with parallel workers */
	bool		takes_bounds;	/* eps may be reduced to upper bounds of column dist */
	bool		nullable;		/* blocks have nulls */
	bool		builds_tree;	/* computes a minimum spanning tree, which EXPLAIN shows */
	const char *output_label;	/* EXPLAIN label of output_seconds, or NULL */

	Size		run_size;		/* size of the function's own struct, see FunctionRun */
	void		(*begin) (FunctionRun *run);	/* all fields but call and context are zero */
	bool		(*fill) (FunctionRun *run, OutputBlock *block); /* see FillRows */
	uint64		(*count) (FunctionRun *run);	/* returns the number of all rows, instead of fill; or NULL */
	/* Returns to the first row, without computing the join again; NULL if that is impossible. */
	void		(*rewind) (FunctionRun *run);
};

extern const FunctionDescriptor self_join_function;
extern const FunctionDescriptor nearest_function;
extern const FunctionDescriptor neighbors_function;
extern const FunctionDescriptor cluster_function;
extern const FunctionDescriptor keep_one_function;
extern const FunctionDescriptor spanning_tree_function;
extern const FunctionDescriptor hdbscan_function;

/* Returns the estimate of a call with these arguments, without id_type.  root may be NULL. */
extern FunctionEstimate EstimateCall(PlannerInfo *root, const FunctionDescriptor *function, List *args);

/* Functions are numbered from 0 to FUNCTIONS - 1. */
#define FUNCTIONS 7

extern const FunctionDescriptor *NumberedFunction(int number);

/* Returns the number of the function with this address, or -1. */
extern int	FindFunction(PGFunction address);

/*
 * Each function has two forms: with bigint ids, and with an argument id_type anycompatible, whose
 * type is that of the ids.  id_type replaces one of the arguments, which becomes the last one.
 * FindIdType returns its position in the function with this OID, or -1.  CallArguments returns the
 * arguments of a call in the order of the form without id_type, and sets *key_type to the type of the ids.
 */
extern int	FindIdType(Oid funcid);
extern List *CallArguments(const FuncExpr *call, Oid *key_type);

/* Raises the error for an id_type that is not null. */
extern void RequireNullIdType(bool isnull);

/* Arguments of fasted_self_join. */
enum
{
	SELF_JOIN_RELATION,
	SELF_JOIN_COLUMN,
	SELF_JOIN_EPS,
	SELF_JOIN_METRIC,
	SELF_JOIN_ORDERED,
	SELF_JOIN_SELF_PAIRS,
	SELF_JOIN_ID_COLUMN,
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
	NEAREST_METRIC,
	NEAREST_MAX_DISTANCE,
	NEAREST_A_ID,
	NEAREST_B_ID,
	NEAREST_PARTITION_BY,
	NEAREST_NARGS
};

#endif							/* FASTED_FUNCTION_H */
