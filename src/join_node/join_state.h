/*-------------------------------------------------------------------------
 *
 * join_state.h
 *	  The join node at run time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_STATE_H
#define FASTED_JOIN_STATE_H

#include "join/join.h"
#include "join_node/join_node.h"
#include "join_node/kept_rows.h"
#include "join_node/left_vectors.h"
#include "rows/vector.h"
#include "nodes/execnodes.h"

#define OUTER_SIDE 0
#define INNER_SIDE 1

/* From where a column of the scan tuple comes, if not from a kept row. */
#define NOT_KEPT (-1)

/* One side of the join: its rows, and which of them the engine has. */
typedef struct JoinSide
{
	PlanState  *plan;
	ExprState  *vector;
	int			first;			/* its columns in the scan tuple */
	int			columns;
	int		   *from;			/* which columns of the plan's rows those are */
	int		   *place;			/* and of kept ones; or NOT_KEPT */
	int			nmoves;
	struct
	{
		int			from;
		int			to;
	}		   *moves;			/* from a kept row to the scan tuple */
	bool	   *wanted;			/* by clauses or the vector: TOAST is fetched at once */

	/* What is kept of the plan's rows; both sides have the same, if they share rows. */
	TupleDesc	kept_columns;
	int		   *kept_from;		/* which columns of the plan's rows */
	KeptRows   *kept;
	bool		complete;		/* all rows are */
	LeftVectors *left;			/* where the vectors are, if they are not kept */
	int			left_column;	/* which column of the scan tuple that is */
	int			left_vector;	/* which of the plan's rows, and the place */
	int			left_place;
	int64		loaded;			/* row in the scan tuple; -1: none, -2: nulls */
	bool		has_vector;		/* with the one that is not kept */

	/* Vectors of pgvector's, which need no copy to be read. */
	int			plain_vector;	/* column of the scan tuple; -1: none */
	bool		plain_checked;

	/* Keys, for groups. */
	List	   *keys;			/* ExprStates */
	FmgrInfo   *hashes;
	GroupedRow *grouped;		/* by hash; NULL: there are no groups */
	GroupPlace	group;			/* the one at work; without keys, all rows */
	uint32		partner;		/* number in a group of the row at which the last search for a partner ended */
	float	   *vectors;		/* of few rows, which need no engine */

	/* Of the groups that are joined together. */
	uint32	   *rows;			/* by the engine's number */
	uint32		nrows;
	uint32		rows_room;
	uint32	   *all_odd;		/* not for the engine, by number in their group, in order */
	uint32		all_nodd;
	uint32		odd_room;

	/* Of the one at work. */
	const uint32 *odd;
	uint32		nodd;
} JoinSide;

/* One of the groups that are joined together: on each side, where it is in the side's lists. */
typedef struct BatchSide
{
	GroupPlace	place;
	uint32		first_odd;
	uint32		nodd;
	uint32		nvectors;		/* its rows with a vector that is not null */
} BatchSide;

typedef struct BatchGroup
{
	BatchSide	sides[2];
} BatchGroup;

/* An engine is not begun for so few pairs of rows, if their vectors are not long: join_batch.c. */
#define MOST_SMALL_PAIRS 4096
#define MOST_SMALL_FLOATS (256 * 1024)

typedef enum JoinPhase
{
	JOIN_TO_BEGIN,
	JOIN_PAIRS,					/* what the engine finds, of the groups that are joined together */
	JOIN_ODD,					/* a group's odd rows, of the outer side and of the inner one */
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
	ExprState  *distance_qual;
	ExprState  *join_quals;		/* without that one, and without the order */
	ExprState  *all_quals;		/* with them, in their order */
	ExprState  *other_quals;
	SortSupport order;			/* of shared rows; NULL: there is none */
	int			order_column;	/* of a kept row */
	int			direction;		/* how each row compares with the next one; 0: not all alike */
	bool		no_columns;		/* nobody above looks at the rows */
	uint64		count;			/* of count(*), so far */
	JoinSide	sides[2];
	MemoryContext context;		/* of one run */

	JoinPhase	phase;
	bool		radius_known;	/* then the next three are */
	bool		nothing;		/* no pair can be within the radius */
	bool		undecided;		/* the clauses decide everything */
	double		radius;
	FastedElement element;		/* of its vectors: doubles, if the clause's are */
	int			dimensions;		/* of what the engine has; zero: nothing */
	bool		distance_decides;	/* to be counted, a pair need only be within the radius */
	bool		engine_counts;	/* and the engine itself counts them */
	bool		exact;			/* the engine's distance is the clause's */
	double		surely_within;	/* if not: below it a pair is within the radius all the same */
	Join	   *join;			/* NULL: no engine has anything to do */
	FastedPair *own_pairs;		/* of few rows; MOST_SMALL_PAIRS of them */
	uint64		groups;			/* that were joined in this run */
	bool		no_groups;		/* a side has no rows: nothing can match */
	uint64		all_groups;		/* joined in all runs */
	uint64		engine_groups;	/* of these, by an engine */

	/* Groups that are joined together: join_batch.c. */
	GroupPlace	next_group[2];	/* behind the last one that was taken */
	bool		group_waits;	/* or that one: it did not go with the others */
	double		all_pairs;		/* of rows that meet, in all groups */
	double		all_rows;		/* of these, of both sides */
	BatchGroup *batch;
	FastedRowGroup *row_groups; /* their rows, by the engine's numbers */
	uint32		nbatch;
	uint32		batch_room;
	uint64		batch_rows;
	double		batch_pairs;
	int			room_dimensions;	/* for which the next two are known; zero: for none */
	uint64		most_rows;
	bool		alone;			/* large groups are no part of a batch */
	uint32		odd_group;		/* the next one whose odd rows are looked at */

	const FastedPair *pairs;
	size_t		npairs;
	size_t		next_pair;
	bool		mirrored;		/* shared rows: the last pair, the other way round */
	uint32		next_equal;		/* shared rows: each with itself, at last */
	bool	   *matched;		/* rows of the outer side; NULL in an inner join */

	/* JOIN_ODD */
	bool		odd_inner;		/* odd rows of the inner side are at work */
	uint32		next_odd;		/* the one at work, of the list */
	uint32		next_other;		/* number in the group of the other side */
	uint32		met;			/* odd rows of the other side before that one */

	uint32		next_unmatched;

	int			runs;
	FastedStats stats;			/* sums over groups and runs that are over */
} JoinNode;

/* join_matches.c */

/* The next match in the scan tuple; false: the engine has no more of these groups. */
extern bool NextPair(JoinNode *node);

/* The number of all of those. */
extern uint64 CountPairs(JoinNode *node);

/* Goes to the odd rows of the next group that has some; false: there are none. */
extern bool BeginOddRows(JoinNode *node);

/* The next match of an odd row, or of the next one; false: the group has no more. */
extern bool NextOdd(JoinNode *node);

/* The next row of the outer side that has no match, with nulls beside it. */
extern bool NextUnmatched(JoinNode *node);

/* join_rows.c */

/* Prepares to read a side, and to keep its rows. */
extern void InitSide(JoinNode *node, int number, PlanState *plan);

/* A run begins: there are no rows yet.  It ends: they are gone. */
extern void BeginSide(JoinNode *node, JoinSide *side);
extern void EndSide(JoinNode *node, JoinSide *side);

/* Reads one more row, keeps it, and leaves it in the scan tuple; false: there is none. */
extern bool ReadRow(JoinNode *node, JoinSide *side);

/* Reads all that are left. */
extern void ReadSide(JoinNode *node, JoinSide *side);

/* Has the side no rows?  Reads the first one to find out. */
extern bool IsEmptySide(JoinNode *node, JoinSide *side);

/* Puts a row of the side into the scan tuple, without a vector that is not kept. */
extern void LoadRow(JoinNode *node, JoinSide *side, uint32 row);

/* The vector of the row that is there, too. */
extern void LoadVector(JoinNode *node, JoinSide *side);

/* Nulls in the place of a row. */
extern void LoadNulls(JoinNode *node, JoinSide *side);

/* The scan tuple for expressions; what they allocate goes with the next one. */
extern ExprContext *ScanTuple(JoinNode *node);

/* join_vector.c */

/* A vector in the scan tuple.  Without elements it is null, or of no use. */
typedef struct VectorView
{
	const float *elements;		/* or doubles; perhaps some that are not finite */
	int			dimensions;
	bool		isnull;
} VectorView;

/* Valid as long as the scan tuple is, and until the next call of ScanTuple. */
extern VectorView ViewVector(JoinNode *node, JoinSide *side);

/* Finds out whether the side's vectors can be read where they lie. */
extern void InitSideVector(JoinNode *node, JoinSide *side, Expr *vector);

/* Floats that a vector takes the room of. */
static inline Size
JoinNodeRowFloats(const JoinNode *node)
{
	return RowFloats(node->element, node->dimensions);
}

/* join_push.c */

/* Puts rows into groups; sides that can wait are not read yet. */
extern void FindGroups(JoinNode *node);

/* Begins to join the rows of the next groups; false: there are no more. */
extern bool BeginNextGroups(JoinNode *node);

/* The dimensions of the first vector of the group at work that has some; zero: none has. */
extern int	FindDimensions(JoinNode *node);

/* The number of a row, from its number in the group at work. */
extern uint32 RowOfGroup(const JoinSide *side, uint32 i);

/* Sums over groups and runs, with the join that is not over yet. */
extern FastedStats JoinNodeStatistics(const JoinNode *node);

/* The engine's memory does not wait for the end of the query. */
extern void EndJoin(JoinNode *node);

/* Gives the vectors of the groups that are joined to the engine: a RowPusher's function. */
extern void PushGroups(RowPusher *pusher, Join *join);

/* join_batch.c */

/* Rows are in groups, and both sides at the first one. */
extern void BeginBatches(JoinNode *node);

/* Goes on to the next groups that are joined together; false: there are no more. */
extern bool NextBatch(JoinNode *node);

/* Can they be compared without an engine? */
extern bool IsSmallBatch(const JoinNode *node);

/* One of these is the one at work. */
extern void TakeGroup(JoinNode *node, uint32 g);

/* join_radius.c */

/* Evaluates the bound, and finds the radius. */
extern void FindRadius(JoinNode *node);

/* The engine's metric, and its eps for the radius, when the dimensions are known: no match is beyond. */
extern FastedMetric JoinNodeMetric(const JoinNode *node);
extern double JoinNodeEps(JoinNode *node);

/* What becomes of a vector. */
typedef enum VectorUse
{
	HAS_NO_VECTOR,				/* the vector is null, or a nested loop would not evaluate it */
	ENGINE_TAKES_IT,
	CLAUSES_DECIDE,				/* its row is odd */
	NEVER_MATCHES
} VectorUse;

/* Makes of a vector what the engine is to have. */
extern VectorUse JoinNodeVector(const JoinNode *node, float *vector);

/* join_explain.c */
extern void ExplainJoin(CustomScanState *node, List *ancestors, ExplainState *es);

#endif							/* FASTED_JOIN_STATE_H */
