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
#include "nodes/execnodes.h"

#define OUTER_SIDE 0
#define INNER_SIDE 1

/* One side of the join: its rows, and which of them the engine has. */
typedef struct JoinSide
{
	PlanState  *plan;
	ExprState  *vector;
	int			first;			/* its columns in the scan tuple */
	int			columns;
	int		   *shared;			/* which columns of the row those are; NULL: these, in order */
	TupleTableSlot *slot;		/* of minimal tuples */

	/* Keys, for groups. */
	List	   *keys;			/* ExprStates */
	FmgrInfo   *hashes;
	GroupedRow *grouped;		/* by hash; NULL: there are no groups */
	GroupPlace	group;			/* the one at work, or all rows */
	float	   *vectors;		/* of a small group, which needs no engine */

	KeptRows   *kept;
	int64		loaded;			/* row in the scan tuple; -1: none, -2: nulls */
	uint32	   *rows;			/* by the engine's number */
	uint32		nrows;
	uint32		rows_room;
	bool	   *odd;			/* not for the engine: each with all, by the clauses; or NULL */
} JoinSide;

typedef enum JoinPhase
{
	JOIN_TO_BEGIN,
	JOIN_PAIRS,					/* what the engine finds */
	JOIN_ODD,					/* odd rows of the outer side with all, and of the inner one */
	JOIN_UNMATCHED,				/* rows of the outer side that have no match */
	JOIN_OVER
} JoinPhase;

typedef struct JoinNode
{
	CustomScanState css;
	RowPusher	pusher;
	JoinPlan	plan;
	ExprState  *radius_state;
	ExprState  *distance_qual;
	ExprState  *join_quals;		/* without that one */
	ExprState  *all_quals;		/* with it, in their order */
	ExprState  *other_quals;
	JoinSide	sides[2];
	MemoryContext context;		/* of one run */

	JoinPhase	phase;
	bool		nothing;		/* no pair can be within the radius */
	double		radius;
	int			dimensions;		/* of what the engine has; zero: nothing */
	bool		exact;			/* the engine's distance is the clause's */
	double		surely_within;	/* if not: below it a pair is within the radius all the same */
	Join	   *join;			/* NULL: no engine has anything to do */
	FastedPair *own_pairs;		/* of a small group; MOST_SMALL_PAIRS of them */
	uint64		groups;			/* that were joined in this run */
	bool		no_groups;		/* there are none: nothing can match, or all rows are odd */
	uint64		all_groups;		/* joined in all runs */
	const FastedPair *pairs;
	size_t		npairs;
	size_t		next_pair;
	bool		mirrored;		/* shared rows: the last pair, the other way round */
	uint32		next_equal;		/* shared rows: each with itself, at last */
	bool	   *matched;		/* rows of the outer side; NULL in an inner join */
	bool		odd_inner;		/* JOIN_ODD: odd rows of the inner side are at work */
	uint32		odd_row;		/* the one at work */
	uint32		next_row;		/* of the other side, or in JOIN_UNMATCHED */

	int			runs;
	FastedStats stats;			/* sums over groups and runs */
} JoinNode;

/* join_exec.c */

/* Puts a row of the side into the scan tuple. */
extern void LoadRow(JoinNode *node, JoinSide *side, uint32 row);

/* The scan tuple for expressions; what they allocate goes with the next one. */
extern ExprContext *ScanTuple(JoinNode *node);

/* join_push.c */

/*
 * Puts rows into groups, when both sides are read and the radius is known; decided:
 * as FindRadius has it.
 */
extern void FindGroups(JoinNode *node, bool decided);

/* Begins to join the rows of the next group; false: there are no more. */
extern bool BeginNextGroup(JoinNode *node);

/* The engine's memory does not wait for the end of the query. */
extern void EndJoin(JoinNode *node);

/* Gives the vectors of the group at work to the engine: a RowPusher's function. */
extern void PushGroup(RowPusher *pusher, Join *join);

/* join_radius.c */

/* Finds the radius; false: let the clauses decide everything. */
extern bool FindRadius(JoinNode *node, ExprContext *econtext);

/* The engine's eps for the radius, when the dimensions are known: no match is beyond. */
extern double JoinNodeEps(JoinNode *node);

/* What becomes of a vector. */
typedef enum VectorUse
{
	ENGINE_TAKES_IT,
	CLAUSES_DECIDE,				/* its row is odd */
	NEVER_MATCHES
} VectorUse;

/* Makes of a vector what the engine is to have. */
extern VectorUse JoinNodeVector(const JoinNode *node, float *vector);

/* join_explain.c */
extern void ExplainJoin(CustomScanState *node, List *ancestors, ExplainState *es);

#endif							/* FASTED_JOIN_STATE_H */
