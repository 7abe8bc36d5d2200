/*-------------------------------------------------------------------------
 *
 * join_node.h
 *	  A custom join method for the planner: an engine joins two relations by vector distance.
 *
 * The planner is offered the node where a join clause bounds the distance of two vectors
 * (DistanceClause).  The node reads both sides, retains their rows (RetainedRows), and passes their
 * vectors to an engine.  It then checks the other join clauses on each pair that the engine finds,
 * so the result equals that of a nested loop.
 *
 * In arrays of two elements, element 0 belongs to the outer side and element 1 to the inner side.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_NODE_H
#define FASTED_JOIN_NODE_H

#include "join/join.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "rows/input_queue.h"
#include "rows/vector.h"
#include "storage/buffile.h"
#include "utils/sortsupport.h"

#define OUTER_SIDE 0
#define INNER_SIDE 1

/* --- join_clause.c: recognizes distance clauses and ordering clauses */

typedef enum DistanceForm
{
	FORM_WITHIN,				/* fasted_within; an x below every distance is an error */
	FORM_DISTANCE,				/* a distance of fasted, or pgvector's Hamming distance */
	FORM_SIMILARITY,			/* a similarity of fasted, rounded otherwise than its distance */
	FORM_FOREIGN				/* a pgvector distance, rounded otherwise: in FP32, unless of bits */
} DistanceForm;

typedef struct DistanceKind
{
	DistanceForm form;
	FastedMetric metric;
	bool		strict;			/* < or >; false: <= or >= */
	bool		similarity;		/* a similarity is compared; 1 - NaN exceeds every bound */
} DistanceKind;

/*
 * A join clause that bounds the distance of two vectors:
 *
 *	  fasted_within(a, b, x)
 *	  fasted_distance(a, b) < x, also with <= or with the operands exchanged
 *	  fasted_cosine_distance(a, b) < x ..., and the other distances of fasted
 *	  a <-> b < x, a <=> b < x, a <#> b < x ...
 *							for pgvector's vector and halfvec; also as functions
 *	  a <~> b < x, a <%> b < x ...	for bits; also as pgvector's functions
 *	  fasted_cosine_similarity(a, b) > y, fasted_jaccard_similarity(a, b) > y, also with >=
 *	  1 - (a <=> b) > y, 1 - (a <%> b) > y
 *							for pgvector, and 1 - fasted_cosine_distance(a, b) > y ...
 *	  -(a <#> b) > z, (a <#> b) * -1 > z, inner_product(a, b) > z
 *							as a <#> b < x, where x = -z
 *	  (a <~> b) / n < q		as a <~> b <= x, for constants n and q
 *	  (one of these) IS TRUE
 *
 * The vectors a and b belong to different sides of the join.  The bound x or y is constant during
 * the join.
 */
typedef struct DistanceClause
{
	RestrictInfo *rinfo;		/* the whole clause */
	DistanceKind kind;
	Expr	   *written[2];		/* a and b as written in the query */
	Expr	   *vectors[2];		/* cast to real[], unless they are double precision[] or bits */
	Expr	   *bound;			/* x or y, as double precision */
} DistanceClause;

/* Returns true and fills *clause if rinfo is a distance clause with one vector from each side. */
extern bool MatchDistanceClause(RestrictInfo *rinfo, RelOptInfo *const rels[2],
								DistanceClause *clause);

/*
 * Returns true if evaluating the expression may raise an error.  Returns false only for columns,
 * constants, parameters, casts that accept every value, sums and differences.  A subquery may raise
 * one.  root is the PlannerInfo.
 */
extern bool MayRaise(Node *expr, void *root);

/*
 * Returns true if the clause compares one column of both rows, as in a.x < b.x.  In a self-join,
 * such a clause determines which row of a pair is the outer row.  It also excludes pairs of a row
 * with itself.
 */
extern bool IsRowOrder(PlannerInfo *root, const RestrictInfo *rinfo);

/* Returns true if the column is unique and not null, so that the clause orders all row pairs. */
extern bool IsTotalOrder(PlannerInfo *root, const RelOptInfo *rel, const RestrictInfo *order);

/* Installs a planner hook that sets the selectivity of distance clauses. */
extern void InstallJoinEstimates(void);

/* --- join_path.c: the plan data of the node, in addition to the child plans */

typedef struct JoinPlan
{
	/* The fields before shared_columns are copied as integers. */
	JoinType	type;			/* INNER, LEFT, SEMI or ANTI */
	DistanceKind distance;
	bool		may_raise;		/* evaluating a vector may raise an error */
	bool		bound_may_raise;	/* evaluating the bound may raise an error */
	bool		count;			/* return count(*) in the last column of the scan tuple */
	bool		distance_decides;	/* count every pair within the radius that has equal keys */
	bool		shared;			/* self-join of identical rows, which are read once */
	int			outer_columns;	/* outer columns of the scan tuple; inner columns follow */

	int			late_vector[2]; /* child plan's column of late vectors; -1: none */
	int			late_ctid[2];	/* column of its row's ctid */
	int			order_qual;		/* index of the row-ordering clause in join_quals; -1: none */
	int			distance_qual;	/* index of the distance clause in join_quals */
	int			outer_quals;	/* number of leading join_quals that use only outer columns */

	/* The fields before vectors are lists of integers or OIDs. */
	List	   *shared_columns; /* for each inner column, the outer column that holds it */
	List	   *hashes[2];		/* hash functions of the equality clauses */
	List	   *key_collations;

	/* The remaining fields are expressions over the scan tuple. */
	Expr	   *vectors[2];
	Expr	   *bound;			/* bound of the distance or similarity */
	List	   *keys[2];		/* operands of the equality clauses */
	List	   *join_quals;		/* all join clauses, in evaluation order */
	List	   *other_quals;	/* filters above an outer join */
	List	   *one_time_quals; /* clauses without columns; if one is false, the result is empty */
} JoinPlan;

extern JoinPlan ReadJoinPlan(const CustomScan *scan);
extern void InstallJoinNode(void);

/* --- retained rows: in memory first, then in a temporary file (join_rows.c) */

/* Position and length of a row in the temporary file. */
typedef struct FilePlace
{
	int			fileno;
	uint32		length;
	off_t		offset;
} FilePlace;

typedef struct RetainedRows
{
	MemoryContext context;
	TupleDesc	columns;
	int64		budget;			/* remaining memory budget, in bytes */
	uint32		count;

	uint32		in_memory;		/* number of rows in memory; later rows are in the file */
	uint32		capacity;
	Datum	   *rows;			/* values by row and column */
	bool	   *nulls;			/* null flags by row and column; NULL: there are no nulls */
	char	   *free;			/* start and size of free memory for pass-by-reference values */
	Size		free_bytes;
	Size		value_bytes;	/* total size of the memory for these values */

	BufFile    *file;			/* rows that exceed the budget; NULL if none */
	FilePlace  *places;
	uint32		place_capacity;
	TupleTableSlot *slots[2];	/* one row of the file for each reader */
} RetainedRows;

/* Prefetches the first and the last value of the row. */
static inline void
RetainedRowsPrefetch(const RetainedRows *retained, uint32 row)
{
	Size		natts = retained->columns->natts;

	if (row < retained->in_memory)
	{
		__builtin_prefetch(retained->rows + row * natts);
		__builtin_prefetch(retained->rows + row * natts + natts - 1);
	}
}

/* Prefetches the pass-by-reference values of a row whose Datums have already been prefetched. */
extern void RetainedRowsPrefetchValues(RetainedRows *retained, uint32 row);

/* --- the node at run time */

#define NO_ROW UINT32_MAX

typedef struct RowList
{
	uint32	   *numbers;
	uint32		count;
	uint32		capacity;
} RowList;

/* The operand of an equality clause on one side. */
typedef struct EqualityKey
{
	ExprState  *expr;
	FmgrInfo	hash;
	Oid			collation;
	int16		typlen;
	bool		typbyval;
	bool		comparable;		/* keys whose bits equal those of an outer key are equal */
	Datum		value;			/* of the current row */
} EqualityKey;

/* The rows of one side in a hash partition: a range of the side's rows sorted by partition. */
typedef struct PartitionPlace
{
	uint32		first;
	uint32		count;
} PartitionPlace;

/* A hash partition: the rows whose equality keys have the same hash. */
typedef struct HashPartition
{
	PartitionPlace places[2];
	Datum	   *keys;			/* keys of the first outer row */
	bool		equal_keys;		/* all keys are certainly equal, not only their hashes */
} HashPartition;

/* Number of rows on both sides and number of row pairs.  Shared rows are counted once. */
typedef struct PartitionSize
{
	double		rows;
	double		pairs;
} PartitionSize;

/* Columns to copy from a retained row to a slot. */
typedef struct ColumnCopies
{
	int			count;
	int		   *from;			/* columns of the retained row */
	int		   *to;				/* columns of the slot */
} ColumnCopies;

/* State of one side of the join. */
typedef struct JoinSide
{
	struct JoinNode *node;
	int			number;			/* OUTER_SIDE or INNER_SIDE */
	PlanState  *plan;
	InputReader *input;			/* parallel workers read the side; NULL: they do not */
	VectorSource source;		/* representation of the vectors that they convert */
	ExprState  *vector;
	int			first;			/* its first column in the scan tuple */
	int			columns;
	TupleTableSlot *row;		/* the retained columns of the child plan's row */
	ColumnCopies to_scan;		/* from retained rows to the scan tuple */
	ColumnCopies to_result;		/* to the result, if node->direct */

	/*
	 * Late materialization.  Clauses need few of the vectors.  A table scan's columns are therefore
	 * retained without the vector, and with the ctid as an int8.  The few vectors are fetched again
	 * by ctid.  The query's snapshot prevents removal of these row versions.
	 */
	int			late_vector;	/* column in the child plan; -1: vectors are retained */
	int			late_column;	/* column in the scan tuple */
	ScanState  *scan;			/* scan of the table */
	TupleTableSlot *late_slot;	/* slot for the fetched table row */

	int			plain_vector;	/* pgvector column that can be read without its cast; -1: none */
	EqualityKey *keys;			/* these determine the hash partitions */
	int			nkeys;

	/* The fields from here on are reset for each execution. */
	RetainedRows *retained;
	bool		complete;		/* the child plan has returned all rows */
	int64		loaded;			/* row number in the scan tuple, or NO_ROW; -1: none */
	bool		has_vector;		/* the scan tuple includes the late-materialized vector */
	uint32	   *order;			/* rows sorted by partition; NULL: one partition of all rows */
	PartitionPlace partition;	/* current hash partition */
	PartitionPlace next;		/* hash partition most recently returned by NextPartition */
	uint32		partner;		/* index in the partition at which the last partner search ended */
	float	   *vectors;		/* vectors of small partitions, joined without an engine */

	/* Rows of the current batch. */
	bool		takes_vectors;	/* the vectors of rows that are read now are used at once */
	uint32		nvectors;		/* rows of the current partition whose vector is not null */
	RowList		pushed;			/* row number by engine row number */
	bool		all_pushed;		/* they are equal */
	RowList		fallback;		/* fallback rows, as ascending indexes in their partition */
} JoinSide;

/* One side of a hash partition in the batch. */
typedef struct BatchSide
{
	PartitionPlace place;
	uint32		first_fallback;
	uint32		nfallback;
	uint32		nvectors;		/* rows whose vector is not null */
} BatchSide;

typedef BatchSide BatchPartition[2];

/* The row numbers of a candidate pair. */
typedef struct Candidate
{
	uint32		outer;
	uint32		inner;
	bool		sure;			/* the distance clause is certainly true */
} Candidate;

typedef enum JoinPhase
{
	JOIN_TO_BEGIN,
	JOIN_PAIRS,					/* returning matches of the current batch */
	JOIN_UNMATCHED,				/* returning outer rows without a match */
	JOIN_OVER
} JoinPhase;

typedef struct JoinNode
{
	CustomScanState css;
	JoinPlan	plan;
	ExprState  *bound;
	ExprState  *one_time_quals;
	ExprState  *outer_quals;	/* leading clauses on outer columns; NULL if shared */
	ExprState  *partner_quals;	/* then those before the distance clause; NULL unless an error is
								 * possible */
	ExprState  *join_quals;		/* without the distance and ordering clauses */
	ExprState  *all_quals;		/* all join clauses, in evaluation order */
	ExprState  *other_quals;
	SortSupport order;			/* ordering clause of shared rows; NULL: none */
	int			order_column;
	bool		order_swapped;	/* the clause is inner < outer */
	bool		direct;			/* the result consists of columns, copied from retained rows */
	bool	   *used_columns;	/* columns that clauses use; these are detoasted when read */
	FastedElement element;		/* element type of the engine's vectors */
	JoinSide	sides[2];
	MemoryContext context;		/* per-execution context */

	/* Totals over all executions. */
	int			runs;
	uint64		all_partitions;
	uint64		nengine_partitions; /* partitions joined by an engine */
	FastedStats stats;			/* sums over finished engine joins */

	/* The fields from here on are reset for each execution. */
	JoinPhase	phase;
	uint64		count;			/* count(*) so far */
	int			direction;		/* comparison of each row with the next; 0: not monotonic */
	uint32		tried_pairs;	/* in search of a pair that needs the bound */
	bool		radius_known;	/* empty, clauses_decide and radius are set */
	bool		empty;			/* no pair can match, or a side has no rows */
	bool		clauses_decide; /* no engine: clauses are evaluated for every pair */
	double		radius;
	double		surely_within;	/* unless IsExact: the clause is true below this distance */
	double		norms[2];		/* pgvector's inner product: the greatest norms of both sides */
	VectorJoin *join;			/* NULL: no engine is running */
	FastedPair *own_pairs;		/* pairs found without an engine; capacity SMALL_JOIN_PAIRS */
	bool	   *matched;		/* flag for each outer row; NULL in an inner join */
	uint32		next_unmatched;
	struct partition_hash *partition_numbers;	/* indexes in partitions, by hash */
	HashPartition *partitions;
	uint32		npartitions;
	uint32		partition_capacity;
	uint32		next_partition;
	PartitionSize all_size;		/* sum over all hash partitions */
	bool		partition_pending; /* the last partition taken is to start the next batch */
	BatchPartition *batch;
	FastedPartition *engine_partitions; /* the batch's partitions, by engine row numbers */
	uint32		batch_capacity;
	int			capacity_dimensions;	/* for which the next two are valid; 0: none */
	uint64		max_rows;
	bool		separate_large; /* large partitions are not combined with others */

	/* The fields from here on are reset for each batch. */
	uint32		nbatch;
	PartitionSize batch_size;
	int			dimensions;		/* dimensions of the vectors; 0: the engine takes none */
	bool		unequal_keys;	/* the keys of a partition may differ */
	bool		distance_decides;	/* every pair within the radius counts */

	/* Iteration over the engine's pairs. */
	const FastedPair *pairs;
	size_t		npairs;
	size_t		next_pair;
	Candidate	last;			/* inner: NO_ROW for an outer row without a match */
	bool		mirrored;		/* shared rows: return the last pair with sides exchanged */
	uint32		next_equal;		/* shared rows: next row to pair with itself */

	/* Iteration over pairs with fallback rows, after the engine's pairs. */
	uint32		fallback_partition; /* index of the current partition */
	int			fallback_side;
	uint32		next_fallback;	/* index of the current fallback row in the partition's list */
	uint32		next_other;		/* index in the other side's partition */
	uint32		met;			/* outer fallback rows before next_other */
} JoinNode;

/* Returns true if the engine's distance decides the clause: there is no rounding but its own. */
static inline bool
IsExactForm(DistanceForm form)
{
	return form == FORM_WITHIN || form == FORM_DISTANCE;
}

static inline bool
IsExact(const JoinNode *node)
{
	return IsExactForm(node->plan.distance.form);
}

/* Returns true if the distance is pgvector's. */
static inline bool
DistanceIsForeign(const JoinNode *node)
{
	return node->plan.distance.form == FORM_FOREIGN;
}

/* Returns the engine's metric.  For pgvector's cosine distance, rows are unit vectors. */
static inline FastedMetric
JoinNodeMetric(const JoinNode *node)
{
	FastedMetric metric = node->plan.distance.metric;

	return DistanceIsForeign(node) && metric == FASTED_METRIC_COSINE ? FASTED_METRIC_L2 : metric;
}

/* Returns true if the engine's rows have a dimension for the error of pgvector's inner product. */
static inline bool
HasMargin(const JoinNode *node)
{
	return DistanceIsForeign(node) && node->plan.distance.metric == FASTED_METRIC_INNER_PRODUCT;
}

/* Returns the number of dimensions of the engine's rows. */
static inline uint32
EngineDimensions(const JoinNode *node)
{
	return node->dimensions + HasMargin(node);
}

/* Converts an index in the current hash partition to a row number. */
static inline uint32
RowOfPartition(const JoinSide *side, uint32 i)
{
	return side->order == NULL ? i : side->order[side->partition.first + i];
}

/* Returns the row number of a row of the engine. */
static inline uint32
RowOfEngine(const JoinSide *side, uint32 i)
{
	return side->all_pushed ? i : side->pushed.numbers[i];
}

/* --- join_rows.c: reads child plans, retains rows and loads them into the scan tuple */

/* Initializes a side for its child plan, once for all executions. */
extern void InitSide(JoinNode *node, int number, PlanState *plan);

/* Start and end one execution.  EndSide closes the temporary file but frees no memory. */
extern void BeginSide(JoinNode *node, JoinSide *side);
extern void EndSide(JoinSide *side);

/*
 * Reads and retains the next row, and leaves it in the scan tuple with its vector.  If workers read
 * the side, may retain rows of blocks instead; then has_vector is false.  Returns false at the end.
 */
extern bool ReadRow(JoinNode *node, JoinSide *side);

/* Reads all remaining rows. */
extern void ReadSide(JoinNode *node, JoinSide *side);

/* Retains the rows of a block. */
extern void RetainBlock(JoinNode *node, JoinSide *side, const InputBlock *block);

/* Returns true if the side has no rows.  Reads the first row if necessary. */
extern bool IsEmptySide(JoinNode *node, JoinSide *side);

/* Copies columns of a retained row to a slot, or nulls for NO_ROW. */
extern void CopyColumns(JoinSide *side, const ColumnCopies *columns, uint32 row,
						TupleTableSlot *slot);

/* Load rows, or nulls for NO_ROW, into the scan tuple.  They load no late-materialized vectors. */
extern void LoadRow(JoinNode *node, JoinSide *side, uint32 row);
extern void LoadPair(JoinNode *node, uint32 outer_row, uint32 inner_row);

/* Fetches the late-materialized vector of the row in the scan tuple, if it is missing. */
extern void LoadVector(JoinNode *node, JoinSide *side);

/* Resets per-tuple memory and returns an expression context for the scan tuple. */
extern ExprContext *ScanTuple(JoinNode *node);

/* Compares two shared rows by the ordering clause: -1, 0 or 1.  Returns 0 if one is null. */
extern int	CompareByOrder(JoinNode *node, uint32 row, uint32 other);

/* A vector in the scan tuple.  If elements is NULL, the vector is null or malformed. */
typedef struct VectorView
{
	const float *elements;		/* floats or doubles, which may be non-finite, or bytes of bits */
	int			dimensions;
	bool		isnull;
} VectorView;

/* Returns the side's vector.  The result is valid until the next call of ScanTuple. */
extern VectorView ViewVector(JoinNode *node, JoinSide *side);

/* --- join_push.c: forms hash partitions and batches, and passes vectors to an engine */

/* The InputReader callback of a side that workers read.  Retains the rows of a block. */
extern bool TakeBlock(InputReader *reader, const InputBlock *block);

/* Forms the hash partitions.  Reads sides with equality keys completely. */
extern void FindPartitions(JoinNode *node);

/* Makes partition g of the batch the current partition on both sides. */
extern void TakePartition(JoinNode *node, uint32 g);

/* Starts the join of the next batch.  Returns false after the last batch. */
extern bool JoinNextBatch(JoinNode *node);

/* Returns the engine statistics, including those of the running join. */
extern FastedStats JoinNodeStatistics(const JoinNode *node);

/* Ends the engine's join, if any, and releases its memory before the query ends. */
extern void EndJoin(JoinNode *node);

/* --- join_exec.c */

extern const CustomScanMethods fasted_join_methods;

#endif							/* FASTED_JOIN_NODE_H */
