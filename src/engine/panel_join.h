/*-------------------------------------------------------------------------
 *
 * panel_join.h
 *	  Joins relations of any size on one engine, in panels (blocks of rows) if necessary.
 *
 * A panel join has one side if a relation is joined with itself, or two sides (0: a, 1: b).  If all rows
 * fit into the engine's memory, each side is one set.  Otherwise the join is a block nested loop.  An
 * outer panel, as large as possible, remains in memory, while the rows to be joined with it (in a
 * partitioned join, those from its first partition to its last one) are loaded in two small inner
 * panels: one is loaded while the other is joined.  With FASTED_OUTPUT_NEAREST, the outer panel holds
 * rows of side 0 and their neighbour lists.
 *
 *	  panel_join_open
 *	  stage, commit, register_memory, put ...	add rows to a side
 *	  start									ends the input
 *	  next, next, ... until FASTED_DONE		return pairs of row numbers
 *	  again, next, ...						join the same rows with another eps or output
 *	  search, next, ...						find neighbours of some rows in other components
 *	  close									at any time
 *
 * If stage or put returns FASTED_FULL, the caller reads back the staged rows of both sides, stores all
 * rows elsewhere, and calls start with the total numbers of rows.  From then on, next may return
 * FASTED_WANT_ROWS.  The caller then stages and commits rows of the named range, from its first row on
 * and not too many at a time, because a join may be running meanwhile, and calls next again.
 *
 * As with an engine (engine.h), only stats, last_error, unregister_memory and close may be called
 * after a failure.
 *
 * Memory that threads of an engine read or write belongs to the panel join, whose close ends the
 * threads, because PostgreSQL frees the memory of an aborted statement in an order that no caller
 * controls.  Every array that a caller passes is therefore copied before the function returns.  The
 * only exception is registered memory, which must be unregistered before it is freed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PANEL_JOIN_H
#define FASTED_PANEL_JOIN_H

#include "engine.h"
#include "host_device.h"

#ifdef __cplusplus
extern "C"
{
#endif

typedef struct PanelJoin PanelJoin;

typedef struct PanelProblem
{
	FastedOptions options;
	FastedProblem problem;
	int			sides;			/* 1: self-join; 2: join of two relations */
	uint64_t	expected_rows[2];	/* estimated number of rows per side; zero if unknown */
	bool		searches;		/* self-join: reserve memory for panel_join_search */
} PanelProblem;

/* Input of panel_join_search. */
typedef struct PanelSearch
{
	const uint32_t *rows;		/* numbers of the rows whose neighbours are to be found, ascending */
	uint32_t	nrows;
	const double *bound;		/* see FastedComponents; indexed like `rows` */
	const uint32_t *component;	/* the same, for all rows, by row number */
	const double *core;
} PanelSearch;

/*
 * Opens a join.  Sets *join even if it fails, unless host memory is exhausted; the caller must close it
 * in both cases.  Arrays in problem->problem, with row numbers of whole sides, are first read by start.
 */
extern FastedStatus panel_join_open(const FastedEngine *engine, const PanelProblem *problem,
									PanelJoin **join);

/* As in engine.h, for a side.  After start, rows may be staged only for the side that next has named. */
extern FastedStatus panel_join_stage(PanelJoin *join, int side, float **rows, size_t *capacity);
extern FastedStatus panel_join_commit(PanelJoin *join, int side, size_t nrows);
extern bool panel_join_register_memory(PanelJoin *join, int side, void *memory, size_t bytes);
extern void panel_join_unregister_memory(PanelJoin *join, int side);
extern FastedStatus panel_join_put(PanelJoin *join, int side, const float *rows, size_t nrows,
								   size_t *taken);
extern FastedStatus panel_join_wait_read(PanelJoin *join, int side, bool all);
extern FastedStatus panel_join_read_back(PanelJoin *join, int side, uint64_t first_row,
										 size_t nrows, float *rows);

/*
 * Before start: sets problem.ranks, those of all rows of the only side or of side 1.  If the join is done
 * in panels, FASTED_OUTPUT_REPRESENTATIVES returns all pairs, regardless of ranks.
 */
extern void panel_join_rank(PanelJoin *join, const uint32_t *ranks);

/*
 * Ends the input and starts the join.  rows has the number of rows of each side.  If that is more than
 * were committed, the join is done in panels.  Otherwise the engine has opened it when start returns.
 */
extern FastedStatus panel_join_start(PanelJoin *join, const uint64_t *rows);

/*
 * After start: joins the same rows again with other parameters.  Pairs that have not been returned yet
 * are lost.  FASTED_OUTPUT_NEAREST requires that the join was opened with it and no smaller k.
 */
extern FastedStatus panel_join_again(PanelJoin *join, const FastedProblem *problem);

/*
 * After a self-join with FASTED_OUTPUT_NEAREST that was opened with `searches`, and has returned
 * FASTED_DONE: finds the nearest neighbour (k = 1) of each of some rows among the rows of other
 * components (FastedComponents), with the same ranks and partitions.  Side 0 then has the positions in
 * search->rows, which next and panel_join_nearest use as row numbers, and side 1 the rows of the
 * self-join.  It can be called repeatedly.
 *
 * If the rows are resident, as many of the searched rows are in memory at a time as fit.  stage and put
 * return FASTED_FULL early, so that this is at least an eighth of all rows.
 */
extern FastedStatus panel_join_search(PanelJoin *join, const PanelSearch *search);

/*
 * Like next in engine.h, but may also return FASTED_WANT_ROWS.  With FASTED_OUTPUT_NEAREST, FASTED_OK
 * means that the neighbours of a range of rows can be read.  Ranges contain all rows of side 0, in order.
 */
extern FastedStatus panel_join_next(PanelJoin *join, int timeout_ms, FastedBatch *batch);
extern void panel_join_pause(PanelJoin *join);

/* After FASTED_DONE: returns the number of pairs of each row of a side, until again or close; or NULL. */
extern const uint32_t *panel_join_counts(const PanelJoin *join, int side);

/*
 * Returns the neighbours of a row in the range that next has just returned, in ascending order, and sets
 * *length to their number; NULL if there are none.  They are valid until the following call.
 */
extern const FastedNeighbor *panel_join_nearest(const PanelJoin *join, uint64_t row,
												uint32_t *length);

/* After start: returns the numbers of rows in an outer and an inner panel; if resident, of side 0, and 0. */
extern void panel_join_sizes(const PanelJoin *join, uint64_t *outer, uint64_t *inner);

extern void panel_join_stats(const PanelJoin *join, FastedStats *stats);
extern const char *panel_join_last_error(const FastedEngine *engine, const PanelJoin *join);
extern void panel_join_close(PanelJoin *join);

/* --- private to panel_join.c and panel_load.c */

/* A set that holds rows first ... first + count - 1 of a side, or is being loaded with them. */
typedef struct Panel
{
	FastedSet  *set;
	int			side;
	uint64_t	first;
	uint64_t	count;
	uint64_t	have;			/* number of rows loaded so far */
	bool		sealed;			/* all rows are loaded */
} Panel;

/* Arrays of a panel join: copies of the caller's, those that it computes, and the results. */
typedef enum PanelArray
{
	ARRAY_PARTITIONS,
	ARRAY_RANKS,
	ARRAY_SEARCH_ROWS,
	ARRAY_SEARCH_BOUND,
	ARRAY_SEARCH_COMPONENT,
	ARRAY_SEARCH_CORE,
	ARRAY_SEARCH_PARTITIONS,	/* with positions of searched rows on side 0 */
	ARRAY_COMPONENT,			/* of the searched rows, by position */
	ARRAY_CORE,
	ARRAY_CLIPPED,				/* partitions, relative to the panels being joined */
	ARRAY_LENGTHS,
	ARRAY_LISTS,
	ARRAY_COUNTS,				/* of side 0; the next one of side 1 */
	ARRAYS = ARRAY_COUNTS + 2
} PanelArray;

struct PanelJoin
{
	const FastedEngine *engine;
	FastedContext *context;
	PanelProblem problem;		/* after start, its arrays are copies */
	void	   *arrays[ARRAYS];
	FastedStatus failed;		/* status of a failure in the panel join itself, or FASTED_OK */
	char		error[128];

	bool		started;
	bool		resident;		/* all rows fit: each side is one panel, in sides[] */
	uint64_t	rows[2];
	Panel		sides[2];

	/* If the rows are resident, the outer panel of a search has as many of the searched rows as fit. */
	uint64_t	most_rows;		/* most rows in memory beside which searches fit; 0: not computed */
	bool		searching;
	PanelSearch search;
	FastedProblem searched;		/* the problem of the self-join */
	uint32_t   *search_component;	/* of the searched rows, by position */
	double	   *search_core;
	FastedComponents components;	/* of the current join */

	/* Used if not all rows fit. */
	int			outer_side;
	uint64_t	outer_rows;		/* rows per outer panel; the last one may have fewer */
	uint64_t	inner_rows;		/* the same of inner panels */
	uint64_t	inner_next;		/* first row to load into the next inner panel */
	uint64_t	inner_end;		/* end of the rows to be joined with the outer panel */
	Panel		outer;
	Panel		inner[2];
	int			turn;			/* index of the inner panel to join next */
	Panel	   *loading;		/* panel that is being loaded, or NULL */

	/* The current join, or the next one to start. */
	FastedJoin *join;			/* NULL if it has not been started */
	Panel	   *a;
	Panel	   *b;
	bool		met_itself;		/* the outer panel need not be joined with itself any more */
	bool		done;

	uint32_t   *counts[2];

	/* FASTED_OUTPUT_NEAREST. */
	uint32_t	list_length;	/* list length for which memory is reserved */
	bool		has_lists;		/* the outer panel has lists from an earlier join */
	uint64_t	ready_first;		/* rows whose lists are complete and not returned yet */
	uint64_t	ready_end;
	uint64_t	batch_count;	/* number of rows in the last batch; they precede ready_first */
	uint64_t	batch_most;		/* maximum number of rows in a batch */
	uint32_t   *batch_lengths;
	FastedNeighbor *batch_lists;	/* lists of the batch, k entries for each row */

	/* Pairs of rows compared so far, and the engine's units when the current join started. */
	double		compared;
	uint64_t	units_done;
	uint64_t	units_total;
};

static inline bool
panels_find_nearest(const PanelJoin *join)
{
	return join->problem.problem.output == FASTED_OUTPUT_NEAREST;
}

/* Returns whether all rows are in memory and nothing has to be loaded into panels. */
static inline bool
panels_all_resident(const PanelJoin *join)
{
	return join->resident && !join->searching;
}

/* panel_join.c */
extern FastedStatus panels_fail(PanelJoin *join, FastedStatus status, const char *text);

/* panel_load.c */
extern uint32_t panels_clip_neighbors(const PanelJoin *join, uint32_t k);
extern void panels_choose(PanelJoin *join);
extern FastedStatus panels_open(PanelJoin *join);
extern FastedStatus panels_open_searched(PanelJoin *join);
extern FastedStatus panels_load_outer(PanelJoin *join, uint64_t first);
extern FastedStatus panels_load_inner(PanelJoin *join);
extern bool panels_want_rows(PanelJoin *join, FastedBatch *batch);
extern FastedStatus panels_finish_loading(PanelJoin *join);

#ifdef __cplusplus
}
#endif

#endif							/* FASTED_PANEL_JOIN_H */
