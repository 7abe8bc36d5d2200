/*-------------------------------------------------------------------------
 *
 * join.h
 *	  The state of a join.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_JOIN_H
#define FASTED_CPU_JOIN_H

#include "block_order.h"
#include "context.h"
#include "cpu_filter.h"

/* Rows sampled for the centre and the scale: one in CENTRE_SHARE, between the least and CENTRE_ROWS. */
#define CENTRE_ROWS_LEAST 12
#define CENTRE_ROWS 64
#define CENTRE_SHARE 16

/* Largest number of blocks per side of a square of blocks: see block_order.h. */
#define SQUARE_BLOCKS 8

/* Number of sets of levels, and most rows of tiles with which they are tested. */
#define PRUNE_SEQUENCES (1U << FASTED_PRUNE_LEVELS)
#define TESTED_MOST 32

/*
 * Phases of a join.  Sets that are joined share an encoding and a filter, which the first phases
 * establish.  A phase is skipped if the sets already have its result.
 */
typedef enum Phase
{
	PHASE_TRY,					/* test the larger set's encoding; if it does not suit both sets: */
	PHASE_CENTRE,				/* compute an encoding from a sample of both sets, by coordinates */
	PHASE_CHOOSE,				/* choose INT8 or FP32, from a sample */
	PHASE_FIT,					/* compute a projection, if it is likely to help */
	PHASE_PROJECT,				/* project rows that are not yet projected: by slivers */
	PHASE_ORDER,				/* order rows so that near rows are adjacent: one thread per set */
	PHASE_LEVELS,				/* pack level rows, or compute their thresholds: by slivers */
	PHASE_TEST,					/* test a sample of tiles, to choose the levels: by rows of tiles */
	PHASE_FOLD,					/* rows of bits: choose the fold, from a sample */
	PHASE_SORT,					/* rows of bits: sort rows by their number of bits: one thread per set */
	PHASE_PACK,					/* pack rows, or compute their thresholds: by slivers */
	PHASE_GROUP,				/* components: move rows of a component together: one thread per set */
	PHASE_RADII,				/* nearest neighbors: compute initial radii, by blocks */
	PHASE_JOIN,					/* join the strips */
	PHASE_OVER
} Phase;

/* Preparation that a set needs for the join, in increasing order of work. */
typedef enum Packing
{
	PACKED_ALREADY,
	PACK_THRESHOLDS,
	PACK_ROWS
} Packing;

/* How a join finds its encoding. */
typedef enum EncodingChoice
{
	ENCODING_NEW,				/* a new one is computed from a sample */
	ENCODING_TESTED,			/* that of the larger set, unless a test shows that a new one is needed */
	ENCODING_COMMON_TESTED,		/* the same, but both sets have it, and it suits both in FP32 */
	ENCODING_COMMON				/* that which both sets have, with their filter */
} EncodingChoice;

/* How a join finds its filter. */
typedef enum FilterChoice
{
	FILTER_OF_CONTEXT,			/* the context's filter */
	FILTER_INTEGERS,			/* the integer filter, because the caller requests it */
	FILTER_BY_SAMPLE			/* a sample decides; of rows of bits, it decides the fold */
} FilterChoice;

/* How far the rows of a join are packed. */
typedef enum PackProgress
{
	ROWS_NOT_LAID_OUT,
	ROWS_LAID_OUT,				/* packing has started */
	ROWS_PACKED					/* packing has finished */
} PackProgress;

/* Pruning of a join, and how far its preparation is. */
typedef enum PruningState
{
	PRUNING_OFF,				/* it does not pay, or no projection helps */
	PRUNING_FIT,				/* the projection has to be computed */
	PRUNING_PROJECTED,			/* the projection is known */
	PRUNING_LEVELED				/* the sets' level rows are complete, and the levels are chosen */
} PruningState;

/*
 * A strip: one block of row_set against consecutive blocks of col_set.  Rows are identified by
 * their places within the sets.
 */
struct Strip
{
	size_t		first_a;
	uint32_t	rows_a;
	size_t		first_b;		/* first column of the first block */
	uint32_t	block_rows;		/* columns per block, the last block excepted */
	uint32_t	blocks;
	bool		diagonal;		/* the first block of columns is the block of rows */
};

/* Choice of the encoding and the filter of a join: see choice.c, and bits.c for rows of bits. */
typedef struct JoinChoice
{
	EncodingChoice encoding;
	FilterChoice filter;
	Encoding   *known_encoding; /* encoding of the larger set, or NULL */
	const CpuFilter *known_filter;	/* filter with which it is used or tested */
	Encoding   *new_encoding;	/* encoding to be computed, or NULL */
	double		sample_peak[CENTRE_ROWS];	/* largest centred coordinate of each sampled row */
	double		eps;			/* eps for which the filter is chosen */
	ChoiceKey	key;			/* key under which the sets remember the choice */
	bool		sorts;			/* rows of bits may be sorted */
	bool		int16_pays;		/* INT16 rows pay; true if no sample was taken */
} JoinChoice;

/* Pruning of a join: see level_choice.c. */
typedef struct JoinPruning
{
	PruningState state;
	Projection *projection;		/* projection of the sets, or the one to be computed; or NULL */
	Packing		packing[2];		/* what the level rows, or the order, of each set need */
	uint32_t	levels;			/* bit mask of the levels at which tiles are tested */

	/* Tested rows of tiles: their tiles, and their cost with each set of levels. */
	uint32_t	tested_rows;
	size_t		tested_tiles[TESTED_MOST];
	double		tested_costs[TESTED_MOST][PRUNE_SEQUENCES];
} JoinPruning;

/* Partition of a join into work items: see work_plan.c. */
typedef struct JoinWork
{
	int			nworkers;
	uint32_t	block_rows;		/* rows per block */
	size_t		hit_stride;		/* bytes per row of a strip's hit map */
	FastedOrder order;
	FastedPartitionTiles strips;	/* strips, for a join within partitions */
	double		partition_columns;	/* mean number of columns per row within its partition */
	FastedSpan *spans;
	FastedStripe *stripes;
	uint64_t	first_item;		/* first work item of the slice */
	uint64_t	end_item;
	bool		interleaved;	/* the slice has interleaved work items: cpu_is_in_slice */
	uint64_t	number;			/* number of the join within the context, from 1 */
} JoinWork;

struct FastedJoin
{
	FastedContext *context;
	FastedProblem problem;
	FastedSet  *sets[2];		/* a and b; the same set for a self-join */
	bool		self;
	int			nsets;			/* number of distinct sets */
	bool		nearest;		/* the output is nearest neighbors */
	int			row_side;		/* index of the smaller set, which gives the rows of tiles */
	FastedSet  *row_set;
	FastedSet  *col_set;
	Phase		phase;			/* guarded by the lock */
	uint64_t	begun_at;		/* see fasted_now */

	JoinWork	work;
	JoinChoice	choice;
	Encoding   *encoding;		/* the encoding chosen */
	const CpuFilter *filter;	/* the filter chosen */
	JoinPruning pruning;
	PackProgress packed;
	Packing		packing[2];		/* what the packed rows of each set need */
	bool		fine;			/* both sets have INT16 rows */

	/* Nearest neighbors: packing error of most rows of each set, by stage.  See near_thresholds.c. */
	double		rho_most[FULL_STAGE + 1][2];

	/* Components: whether a row has no finite bound; buffers for the order of each set, or NULL. */
	bool		unbounded;
	uint32_t   *keys[2];
};

/* Returns the span of rows of the other set with which a row of this side is compared. */
static inline FastedSpan
cpu_rows_met(const FastedJoin *join, int side, uint32_t row)
{
	if (join->problem.partitions != NULL)
		return fasted_columns_of_row(join->problem.partitions, join->problem.npartitions, side, row);
	return (FastedSpan) {.first = 0,.end = (uint32_t) join->sets[1 - side]->rows.rows};
}

/*
 * Returns true if rows may be reordered.  The order depends on the kernel's rounding, but slices must be
 * the same on every machine, and rows of a partition must be adjacent.
 */
static inline bool
cpu_rows_may_move(const FastedJoin *join)
{
	return (join->problem.slices == 1 || join->problem.identical_kernels) && join->problem.partitions == NULL;
}

/* Returns the number of rows of the distinct sets. */
static inline uint64_t
cpu_join_rows(const FastedJoin *join)
{
	return join->sets[0]->rows.rows + (join->self ? 0 : join->sets[1]->rows.rows);
}

/* Returns the number of pairs to compare, in all slices together. */
static inline double
cpu_join_area(const FastedJoin *join)
{
	double		a = (double) join->sets[0]->rows.rows;
	double		b = (double) join->sets[1]->rows.rows;

	if (join->problem.partitions != NULL)
		return fasted_partition_pairs(join->problem.partitions, join->problem.npartitions, join->self);
	return join->self ? 0.5 * a * (a - 1.0) : a * b;
}

#endif							/* FASTED_CPU_JOIN_H */
