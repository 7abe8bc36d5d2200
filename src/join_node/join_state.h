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
#include "nodes/execnodes.h"
#include "rows/vector.h"
#include "storage/buffile.h"
#include "utils/sortsupport.h"

/* --- rows in memory, and then in a file */

/* A row in memory is its values and then its null flags; so many rows are a block. */
#define KEPT_BLOCK_ROWS 1024

typedef struct KeptRows
{
	char	  **blocks;
	Size		row_bytes;
	int			ncolumns;
	uint32		in_memory;		/* rows from 0 on; the others are in the file */
	uint32		count;
	MemoryContext context;		/* of all of it */
	TupleDesc	columns;
	Size		limit;
	Size		bytes;

	uint32		nblocks;
	uint32		block_room;
	char	   *chunk;			/* room of the last chunk */
	Size		chunk_left;

	BufFile    *file;			/* the rows behind those; NULL: there are none */
	struct FilePlace *places;
	uint32		place_room;
	TupleTableSlot *slots[2];	/* a row of the file, for each reader */
	TupleTableSlot *values;		/* a row on its way into the file */
} KeptRows;

/* A row's columns, in the order of its description. */
typedef struct KeptRow
{
	const Datum *values;
	const bool *isnull;
} KeptRow;

static inline char *
PlaceOfKeptRow(const KeptRows *kept, uint32 row)
{
	return kept->blocks[row / KEPT_BLOCK_ROWS] + row % KEPT_BLOCK_ROWS * kept->row_bytes;
}

extern KeptRow KeptRowsFetchFromFile(KeptRows *kept, uint32 row, int reader);

/* Row number row; valid until the next call for kept by this reader, 0 or 1. */
static inline KeptRow
KeptRowsFetch(KeptRows *kept, uint32 row, int reader)
{
	const Datum *values;

	if (unlikely(row >= kept->in_memory))
		return KeptRowsFetchFromFile(kept, row, reader);
	values = (const Datum *) PlaceOfKeptRow(kept, row);
	return (KeptRow) {.values = values,.isnull = (const bool *) (values + kept->ncolumns)};
}

/* The row will be fetched soon. */
static inline void
KeptRowsPrefetch(const KeptRows *kept, uint32 row)
{
	if (row < kept->in_memory)
		__builtin_prefetch(PlaceOfKeptRow(kept, row));
}

/* So will what its values point to; the row itself has come by now. */
extern void KeptRowsPrefetchValues(const KeptRows *kept, uint32 row);

/* A longer array than one of so many elements, in which there is no room left. */
extern void *GrowArray(MemoryContext context, void *array, uint32 *room, Size size);

#define OUTER_SIDE 0
#define INNER_SIDE 1

/* A row and the hash of its keys. */
typedef struct GroupedRow
{
	uint64		hash;
	uint32		row;
} GroupedRow;

/* A group of rows that have one hash, and where it is among all rows in the order of hashes. */
typedef struct GroupPlace
{
	const GroupedRow *rows;		/* NULL: there are no keys, and one group of all rows */
	uint32		total;
	uint32		first;			/* of the group */
	uint32		count;
} GroupPlace;

/* One side of the join: its rows, and which of them the engine has. */
typedef struct JoinSide
{
	PlanState  *plan;
	ExprState  *vector;
	int			first;			/* its columns in the scan tuple */
	int			columns;
	int		   *from;			/* which columns of the plan's rows those are */
	TupleDesc	kept_columns;	/* of the plan's rows, all of which are kept */

	/*
	 * Vectors that are left in their table.  The engine has them, the clauses rarely want them,
	 * and nobody else does.  So a side that is a scan of a table keeps nulls in their place, and
	 * fetches those few once more by their place in the table, where the query's snapshot keeps
	 * row versions.
	 */
	int			left_vector;	/* which column of the plan's rows; -1: vectors are kept */
	int			left_place;		/* and which is the row's place */
	int			left_column;	/* the vector's column of the scan tuple */
	TupleTableSlot *left_slot;	/* a row of the table */

	/* Vectors of pgvector's, which need no copy to be read. */
	int			plain_vector;	/* column of the scan tuple; -1: none */
	bool		plain_checked;

	/* Keys, for groups. */
	List	   *keys;			/* ExprStates */
	FmgrInfo   *hashes;

	/* Of one run, from here on. */
	KeptRows   *kept;
	bool		complete;		/* all rows are */
	int64		loaded;			/* row in the scan tuple; -1: none, -2: nulls */
	bool		has_vector;		/* with the one that is left in the table */
	ItemPointerData place;		/* of that row there */
	GroupPlace	group;			/* the one at work */
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

typedef BatchSide BatchGroup[2];

typedef enum JoinPhase
{
	JOIN_TO_BEGIN,
	JOIN_PAIRS,					/* what the engine finds, of the groups that are joined together */
	JOIN_ODD,					/* their odd rows, of the outer side and of the inner one */
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
	bool		exact;			/* the engine's distance is the clause's */
	double		surely_within;	/* if not: below it a pair is within the radius all the same */
	int			dimensions;		/* of what the engine has; zero: nothing */
	bool		distance_decides;	/* to be counted, a pair need only be within the radius */
	bool		engine_counts;	/* and the engine itself counts them */
	VectorJoin *join;			/* NULL: no engine has anything to do */
	FastedPair *own_pairs;		/* of few rows; SMALL_JOIN_PAIRS of them */

	/* Groups that are joined together. */
	GroupPlace	next_group[2];	/* the last one that was taken */
	bool		group_waits;	/* it did not go with the others */
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

	/* JOIN_PAIRS */
	const FastedPair *pairs;
	size_t		npairs;
	size_t		next_pair;
	bool		mirrored;		/* shared rows: the last pair, the other way round */
	uint32		next_equal;		/* shared rows: each with itself, at last */
	bool	   *matched;		/* rows of the outer side; NULL in an inner join */

	/* JOIN_ODD */
	uint32		odd_group;		/* the next one whose odd rows are looked at */
	bool		odd_inner;		/* odd rows of the inner side are at work */
	uint32		next_odd;		/* the one at work, of the list */
	uint32		next_other;		/* number in the group of the other side */
	uint32		met;			/* odd rows of the other side before that one */

	/* JOIN_UNMATCHED */
	uint32		next_unmatched;
} JoinNode;

/* --- join_rows.c: from a plan to where rows are kept, and into the scan tuple */

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
extern int	CompareByOrder(const JoinNode *node, uint32 row, uint32 other);

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

/* The number of a row, from its number in the group at work. */
static inline uint32
RowOfGroup(const JoinSide *side, uint32 i)
{
	return side->group.rows == NULL ? i : side->group.rows[side->group.first + i].row;
}

/* One of these is the one at work. */
extern void TakeGroup(JoinNode *node, uint32 g);

/* Floats that a vector takes the room of. */
static inline Size
JoinNodeRowFloats(const JoinNode *node)
{
	return RowFloats(node->element, node->dimensions);
}

/* Begins to join the rows of the next groups; false: there are no more. */
extern bool BeginNextGroups(JoinNode *node);

/* Gives the vectors of the groups that are joined to the engine: a RowPusher's function. */
extern void PushGroups(RowPusher *pusher, VectorJoin *join);

/* Sums over groups and runs, with the join that is not over yet. */
extern FastedStats JoinNodeStatistics(const JoinNode *node);

/* The engine's memory does not wait for the end of the query. */
extern void EndJoin(JoinNode *node);

#endif							/* FASTED_JOIN_STATE_H */
