/*-------------------------------------------------------------------------
 *
 * join_node.h
 *	  A join method of the planner: two relations, joined by an engine.
 *
 * The node is offered where a join clause bounds the distance of two vectors (DistanceClause).
 * Both sides are read, their rows are kept (KeptRows), and their vectors are given to an
 * engine.  The pairs that the engine finds are checked by the other clauses, so the result is
 * that of a nested loop.
 *
 * In arrays of two elements the first one is the outer side's, the second one the inner side's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_NODE_H
#define FASTED_JOIN_NODE_H

#include "join/join.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "rows/vector.h"
#include "storage/buffile.h"
#include "utils/sortsupport.h"

#define OUTER_SIDE 0
#define INNER_SIDE 1

/* --- join_clause.c: clauses that the node knows */

typedef enum DistanceForm
{
	FORM_WITHIN,				/* fasted_within: x must not be negative */
	FORM_DISTANCE,				/* a distance of ours */
	FORM_FOREIGN				/* one that is computed in FP32 */
} DistanceForm;

typedef struct DistanceKind
{
	DistanceForm form;
	bool		cosine;			/* else Euclidean: then the engine's distance is ours */
	bool		strict;			/* below x; else x too */
	bool		similarity;		/* 1 - distance is compared with the bound: NaN is no small one */
} DistanceKind;

/*
 * A join clause that bounds the distance of two vectors:
 *
 *	  fasted_within(a, b, x)
 *	  fasted_distance(a, b) < x, or <=, or the other way round
 *	  fasted_cosine_distance(a, b) < x ...
 *	  a <-> b < x, a <=> b < x ...	of pgvector's vector and halfvec; also as functions
 *	  1 - (a <=> b) > y		of those, and 1 - fasted_cosine_distance(a, b) > y
 *
 * a is of one side of the join and b of the other; x has one value while the join is computed.
 */
typedef struct DistanceClause
{
	RestrictInfo *rinfo;		/* all of it */
	DistanceKind kind;
	Expr	   *written[2];		/* a and b */
	Expr	   *vectors[2];		/* as real[] or double precision[], by side */
	Expr	   *bound;			/* x or y, as double precision */
} DistanceClause;

/* Is the clause such a clause, with one vector of each side? */
extern bool MatchDistanceClause(RestrictInfo *rinfo, RelOptInfo *const rels[2],
								DistanceClause *clause);

/*
 * Can the evaluation of vectors or of a bound raise an error?  The answer is false only for
 * columns, constants, parameters, those casts that accept every value, sums and differences.
 */
extern bool MayRaise(Node *expr, void *context);

/*
 * Does the clause put the rows of a pair in order: a.x < b.x, of one column?  In a join of a
 * relation with itself it says of each pair which of its rows is the outer one, if any, and
 * that no row meets itself.
 */
extern bool IsRowOrder(PlannerInfo *root, const RestrictInfo *rinfo);

/* Are no two rows alike in that column of the table, so that each pair has an order? */
extern bool IsTotalOrder(PlannerInfo *root, const RelOptInfo *rel, const RestrictInfo *order);

/* Tells the planner the selectivity of comparisons of a distance. */
extern void InstallJoinEstimates(void);

/* --- join_path.c: what a plan holds, beside the plans of both sides */

typedef struct JoinPlan
{
	/* Numbers, up to shared_columns. */
	JoinType	type;			/* INNER, LEFT, SEMI or ANTI */
	DistanceKind distance;
	bool		may_raise;		/* the evaluation of a vector that other clauses leave out can be an error */
	bool		count;			/* the only row is the number of matches: the last column of the scan tuple */
	bool		distance_decides;	/* then: a pair within the radius, of equal keys, is to be counted */
	bool		shared;			/* one relation with itself, and the same rows of it: read once */
	int			outer_columns;	/* of the scan tuple; those of the inner side follow */

	int			left_vector[2]; /* column of a side's rows: a vector that is left in its table; -1: none */
	int			left_place[2];	/* and the row's place there */
	int			order_qual;		/* which of the join quals puts shared rows in order; -1: none */
	int			distance_qual;	/* and bounds the distance */
	int			outer_quals;	/* so many of them come before all others, and are about the outer side alone */

	/* Lists of numbers, up to vectors. */
	List	   *shared_columns; /* which columns of the outer side's the inner one's are */
	List	   *hashes[2];		/* of equalities beside the distance: hash functions */
	List	   *key_collations;

	/* Expressions of the scan tuple, up to the end. */
	Expr	   *vectors[2];
	Expr	   *bound;			/* what the distance or the similarity is compared with */
	List	   *keys[2];		/* of those equalities */
	List	   *join_quals;		/* all of them, in the order of evaluation */
	List	   *other_quals;	/* above an outer join */
	List	   *one_time_quals; /* about neither side: false, and there is no row */
} JoinPlan;

extern JoinPlan ReadJoinPlan(const CustomScan *scan);
extern void InstallJoinNode(void);

/* --- rows in memory, and then in a file (join_rows.c) */

/* Where a row in the file begins. */
typedef struct FilePlace
{
	int			fileno;
	uint32		length;
	off_t		offset;
} FilePlace;

/* A row in memory is its values and then its null flags. */
typedef struct KeptRows
{
	MemoryContext context;
	MemoryContext values;		/* of what the values of rows in memory point to */
	TupleDesc	columns;
	Size		row_bytes;
	Size		left;			/* bytes that further rows in memory may take */
	uint32		count;

	uint32		in_memory;		/* rows from 0 on; the others are in the file */
	uint32		room;
	char	   *rows;

	BufFile    *file;			/* the rows behind those; NULL: there are none */
	FilePlace  *places;
	uint32		place_room;
	TupleTableSlot *slots[2];	/* a row of the file, for each reader */
} KeptRows;

/* The row will be fetched soon. */
static inline void
KeptRowsPrefetch(const KeptRows *kept, uint32 row)
{
	if (row < kept->in_memory)
		__builtin_prefetch(kept->rows + row * kept->row_bytes);
}

/* So will what its values point to; the row itself has come by now. */
extern void KeptRowsPrefetchValues(KeptRows *kept, uint32 row);

/* A longer array than one of so many elements, in which there is no room left. */
extern void *GrowArray(MemoryContext context, void *array, uint32 *room, Size size);

/* --- the node at run time */

typedef struct RowList
{
	uint32	   *numbers;
	uint32		count;
	uint32		room;
} RowList;

/* A row and the hash of its keys. */
typedef struct GroupedRow
{
	uint64		hash;
	uint32		row;
} GroupedRow;

/* A group of rows that have one hash: where it is among all rows in the order of hashes. */
typedef struct GroupPlace
{
	uint32		first;
	uint32		count;
} GroupPlace;

/* Of rows that meet, of both sides; shared rows are those of one. */
typedef struct GroupSize
{
	double		rows;
	double		pairs;
} GroupSize;

/* One side of the join: its rows, and which of them the engine has. */
typedef struct JoinSide
{
	int			number;			/* OUTER_SIDE or INNER_SIDE */
	PlanState  *plan;
	ExprState  *vector;
	int			first;			/* its columns in the scan tuple */
	int			columns;
	int		   *from;			/* which columns of the plan's rows those are */
	TupleTableSlot *row;		/* of the plan, all of whose columns are kept */

	/*
	 * Vectors that are left in their table.  The engine has them, the clauses rarely want them,
	 * and nobody else does.  So a side that is a scan of a table keeps nulls in their place, and
	 * fetches those few once more by their place in the table, where the query's snapshot keeps
	 * row versions.
	 */
	int			left_vector;	/* which column of the plan's rows; -1: vectors are kept */
	int			left_column;	/* the vector's column of the scan tuple */
	TupleTableSlot *left_slot;	/* a row of the table */

	/* Vectors of pgvector's, which need no copy to be read. */
	int			plain_vector;	/* column of the scan tuple; -1: none */

	/* Keys, for groups. */
	List	   *keys;			/* ExprStates */
	FmgrInfo   *hashes;

	/* Of one run, from here on. */
	KeptRows   *kept;
	bool		complete;		/* all rows are */
	int64		loaded;			/* row in the scan tuple; -1: none, -2: nulls */
	bool		has_vector;		/* with the one that is left in the table */
	const GroupedRow *grouped;	/* in the order of hashes; NULL: there are no keys, and one group of all rows */
	uint32		ngrouped;
	GroupPlace	group;			/* the one at work */
	GroupPlace	next;			/* the last one that was taken for a batch */
	uint32		partner;		/* number in a group of the row at which the last search for a partner ended */
	float	   *vectors;		/* of few rows, which need no engine */

	/* Of the groups that are joined together. */
	RowList		pushed;			/* by the engine's number */
	RowList		odd;			/* not for the engine, by number in their group, in order */
} JoinSide;

/* One of the groups that are joined together: on each side, where it is in the side's lists. */
typedef struct BatchSide
{
	GroupPlace	place;
	uint32		first_odd;
	uint32		nodd;
	uint32		nvectors;		/* its rows with a vector that is not null */
} BatchSide;

typedef BatchSide BatchGroup[2];

/* The rows of a pair that is to be checked. */
typedef struct Candidate
{
	uint32		outer;
	uint32		inner;
	bool		sure;			/* it is within the radius, whoever computes the distance */
} Candidate;

typedef enum JoinPhase
{
	JOIN_TO_BEGIN,
	JOIN_PAIRS,					/* of the groups that are joined together */
	JOIN_UNMATCHED,				/* rows of the outer side that have no match */
	JOIN_OVER
} JoinPhase;

typedef struct JoinNode
{
	CustomScanState css;
	RowPusher	pusher;
	JoinPlan	plan;
	ExprState  *bound;
	ExprState  *one_time_quals;
	ExprState  *outer_quals;	/* the first ones, if they are about the outer side alone and rows are not shared */
	ExprState  *partner_quals;	/* those between them and the distance's, if a vector may raise an error; else NULL */
	ExprState  *join_quals;		/* without the distance's, and without the order */
	ExprState  *all_quals;		/* with them, in their order */
	ExprState  *other_quals;
	SortSupport order;			/* of shared rows, by a column of the outer side's; NULL: there is none */
	int			order_column;
	bool		order_swapped;	/* it is inner < outer */
	bool		no_columns;		/* nobody above looks at the rows */
	bool	   *wanted;			/* columns of the scan tuple that clauses use: TOAST is fetched at once */
	FastedElement element;		/* of the engine's vectors: doubles, if the clause's are */
	JoinSide	sides[2];
	MemoryContext context;		/* of one run */

	/* Of all runs. */
	int			runs;
	uint64		all_groups;
	uint64		engine_groups;	/* of these, by an engine */
	FastedStats stats;			/* sums over groups and runs that are over */

	/* Of one run, from here on. */
	JoinPhase	phase;
	uint64		count;			/* of count(*), so far */
	int			direction;		/* how each row compares with the next one; 0: not all alike */
	bool		radius_known;	/* then the next three are */
	bool		nothing;		/* no pair can be within the radius, or a side has no rows */
	bool		undecided;		/* the clauses decide everything */
	double		radius;
	double		surely_within;	/* a foreign distance: below it a pair is within the radius all the same */
	VectorJoin *join;			/* NULL: no engine has anything to do */
	FastedPair *own_pairs;		/* of few rows; SMALL_JOIN_PAIRS of them */
	bool	   *matched;		/* rows of the outer side; NULL in an inner join */
	uint32		next_unmatched;
	GroupSize	all_size;		/* of all groups */
	bool		group_waits;	/* the last group that was taken did not go with the others */
	BatchGroup *batch;
	FastedRowGroup *row_groups; /* their rows, by the engine's numbers */
	uint32		batch_room;
	int			room_dimensions;	/* for which the next two are known; zero: for none */
	uint64		most_rows;
	bool		alone;			/* large groups are no part of a batch */

	/* Of the groups that are joined together, from here on. */
	uint32		nbatch;
	GroupSize	batch_size;
	int			dimensions;		/* of what the engine has; zero: nothing */
	bool		distance_decides;	/* to be counted, a pair need only be within the radius */

	/* What the engine finds. */
	const FastedPair *pairs;
	size_t		npairs;
	size_t		next_pair;
	Candidate	last;
	bool		mirrored;		/* shared rows: the last pair comes the other way round */
	uint32		next_equal;		/* shared rows: each with itself, at last */

	/* Then pairs with odd rows. */
	uint32		odd_group;		/* the one at work */
	int			odd_side;
	uint32		next_odd;		/* the odd row at work, of the side's list */
	uint32		next_other;		/* number in the group of the other side */
	uint32		met;			/* odd rows of the outer side before that one */
} JoinNode;

/* Is the engine's distance the clause's? */
static inline bool
IsExact(const JoinNode *node)
{
	return node->plan.distance.form != FORM_FOREIGN;
}

/* Floats that a vector takes the room of. */
static inline Size
JoinNodeRowFloats(const JoinNode *node)
{
	return RowFloats(node->element, node->dimensions);
}

/* The number of a row, from its number in the group at work. */
static inline uint32
RowOfGroup(const JoinSide *side, uint32 i)
{
	return side->grouped == NULL ? i : side->grouped[side->group.first + i].row;
}

/* --- join_rows.c: from a plan to where rows are kept, and into the scan tuple */

/* Prepares to read a side, and to keep its rows. */
extern void InitSide(JoinNode *node, int number, PlanState *plan);

/* A run begins: there are no rows yet.  It ends: they are gone with the node's context. */
extern void BeginSide(JoinNode *node, JoinSide *side);
extern void EndSide(JoinSide *side);

/* Reads one more row, keeps it, and leaves it in the scan tuple; false: there is none. */
extern bool ReadRow(JoinNode *node, JoinSide *side);

/* Reads all that are left. */
extern void ReadSide(JoinNode *node, JoinSide *side);

/* Has the side no rows?  Reads the first one to find out. */
extern bool IsEmptySide(JoinNode *node, JoinSide *side);

/* Puts a row of the side, or of both, into the scan tuple, without a vector that is not kept. */
extern void LoadRow(JoinNode *node, JoinSide *side, uint32 row);
extern void LoadPair(JoinNode *node, uint32 outer_row, uint32 inner_row);

/* The vector of the row that is there, too. */
extern void LoadVector(JoinNode *node, JoinSide *side);

/* Nulls in the place of a row. */
extern void LoadNulls(JoinNode *node, JoinSide *side);

/* The scan tuple for expressions; what they allocate goes with the next one. */
extern ExprContext *ScanTuple(JoinNode *node);

/* Compares shared rows by the clause that puts them in order; zero: they have no order. */
extern int	CompareByOrder(JoinNode *node, uint32 row, uint32 other);

/* A vector in the scan tuple.  Without elements it is null, or of no use. */
typedef struct VectorView
{
	const float *elements;		/* or doubles; perhaps some that are not finite */
	int			dimensions;
	bool		isnull;
} VectorView;

/* Valid as long as the scan tuple is, and until the next call of ScanTuple. */
extern VectorView ViewVector(JoinNode *node, JoinSide *side);

/* --- join_push.c: groups of rows with equal keys, and vectors on their way to an engine */

/* Puts rows into groups; sides that can wait are not read yet. */
extern void FindGroups(JoinNode *node);

/* Makes one of the groups that are joined together the one at work. */
extern void TakeGroup(JoinNode *node, uint32 g);

/* Begins to join the rows of the next groups; false: there are no more. */
extern bool BeginNextGroups(JoinNode *node);

/* Sums over groups and runs, with the join that is not over yet. */
extern FastedStats JoinNodeStatistics(const JoinNode *node);

/* The engine's memory does not wait for the end of the query. */
extern void EndJoin(JoinNode *node);

/* --- join_exec.c */

extern const CustomScanMethods fasted_join_methods;

#endif							/* FASTED_JOIN_NODE_H */
