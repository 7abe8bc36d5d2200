/*-------------------------------------------------------------------------
 *
 * panel_join.h
 *	  A join of any number of rows: panels of them, on one engine.
 *
 * One relation is joined with itself (one side), or two are (sides 0 and 1: a and
 * b).  As long as all rows fit, each side is one set.  When they do not, the join
 * is a nested loop of blocks: an outer panel, as large as there is room for, stays,
 * while the rows that it still has to meet stream past in small inner panels.
 * Two of these take turns: one is loaded while the other one is joined.
 *
 *	  panel_join_open
 *	  stage, commit, lend, put ...			rows of a side go in
 *	  start									no more rows
 *	  next, next, ... until FASTED_DONE		pairs come out, by the rows' numbers
 *	  again, next, ...						the same rows, another eps or output
 *	  close									any time
 *
 * With FASTED_OUTPUT_NEAREST the outer panel is of side 0, with lists of neighbours, and
 * meets all rows of the other side, or of its own: then its rows' lists are complete.
 *
 * Where only rows of one group meet, an outer panel meets no rows before its first group
 * or behind its last one.
 *
 * When stage (or put) answers FASTED_FULL, the caller reads back what it staged, of
 * both sides, stores all rows elsewhere, and calls start with the full numbers of
 * rows.  From then on next may answer FASTED_WANT_ROWS: the caller stages and commits
 * rows of the named range, from its first one on, as many as it likes, and calls next
 * again.  That may be while a join is at work, so it should not be very many.
 *
 * What is said of an engine's functions in engine.h holds here too: after a failure
 * only stats, last_error, withdraw and close may be called.
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
	int			sides;			/* 1: of one relation with itself; 2 */
	uint64_t	expected_rows[2];	/* guesses; zero: there is none */
} PanelProblem;

/*
 * Sets *join even when it fails, unless memory ran out: close it.  What problem->problem
 * has for groups, by the numbers of all rows, is first looked at by start.
 */
extern FastedStatus panel_join_open(const FastedEngine *engine, const PanelProblem *problem,
									PanelJoin **join);

/* As in engine.h, for the set of a side; after start of the side that next named. */
extern FastedStatus panel_join_stage(PanelJoin *join, int side, float **rows, size_t *capacity);
extern FastedStatus panel_join_commit(PanelJoin *join, int side, size_t nrows);
extern bool panel_join_lend(PanelJoin *join, int side, void *memory, size_t bytes);
extern void panel_join_withdraw(PanelJoin *join, int side);
extern FastedStatus panel_join_put(PanelJoin *join, int side, const float *rows, size_t nrows,
								   size_t *taken);
extern FastedStatus panel_join_settle(PanelJoin *join, int side, bool all);
extern FastedStatus panel_join_read_back(PanelJoin *join, int side, uint64_t first_row,
										 size_t nrows, float *rows);

/* rows: of each side.  More than were committed: see "panels" above. */
extern FastedStatus panel_join_start(PanelJoin *join, const uint64_t *rows);

/*
 * After start: begins to join the same rows once more.  Pairs still to come are gone.
 * Neighbours only if the join was opened to find as many.
 */
extern FastedStatus panel_join_again(PanelJoin *join, const FastedProblem *problem);

/*
 * The ranks for FASTED_OUTPUT_KEEPERS or _NEAREST, if they are not in the problem: before
 * next, of all rows of the only side, or of side 1.  Where there are panels, all pairs come
 * out for _KEEPERS, whatever their ranks.
 */
extern void panel_join_rank(PanelJoin *join, const uint32_t *ranks);

/*
 * As in engine.h; FASTED_WANT_ROWS too.  With FASTED_OUTPUT_NEAREST, FASTED_OK says that
 * the neighbours of batch->row_count rows of side 0 from batch->first_row on are known:
 * each row has its turn, in order, also one without neighbours.
 */
extern FastedStatus panel_join_next(PanelJoin *join, int timeout_ms, FastedBatch *batch);
extern void panel_join_pause(PanelJoin *join);

/*
 * With FASTED_OUTPUT_COUNTS or _CONNECTIONS (unless all rows are core rows), after
 * FASTED_DONE: the number of pairs that each row of a side has.  Valid until again or close.
 */
extern const uint32_t *panel_join_counts(const PanelJoin *join, int side);

/*
 * Of a row that the last call of next named: its neighbours by their ranks, the nearest
 * first, and how many they are.  Valid until the next call of next, again or close.
 */
extern const FastedNeighbor *panel_join_nearest(const PanelJoin *join, uint64_t row,
												uint32_t *length);

/*
 * After start: the rows of panels, of the outer one and of inner ones; all rows and none
 * where everything is resident.
 */
extern void panel_join_sizes(const PanelJoin *join, uint64_t *outer, uint64_t *inner);

extern void panel_join_stats(const PanelJoin *join, FastedStats *stats);
extern const char *panel_join_last_error(const FastedEngine *engine, const PanelJoin *join);
extern void panel_join_close(PanelJoin *join);

/* --- the rest is for panel_join.c and panel_load.c only */

/* A set, and the rows of a side that it has or is to have. */
typedef struct Panel
{
	FastedSet  *set;
	int			side;
	uint64_t	first;
	uint64_t	count;
	uint64_t	have;
	bool		sealed;			/* all of them are there */
} Panel;

struct PanelJoin
{
	const FastedEngine *engine;
	FastedContext *context;
	PanelProblem problem;
	FastedStatus failed;		/* FASTED_OK until something here did */
	char		error[128];

	bool		started;
	bool		resident;		/* each side is one panel: sides[] */
	uint64_t	rows[2];
	Panel		sides[2];

	/* Panels, once rows did not fit. */
	int			outer_side;
	uint64_t	outer_rows;		/* of one panel, but the last */
	bool		spread;			/* on several devices */
	uint64_t	inner_rows;
	uint64_t	inner_next;		/* the first row that no inner panel has had yet */
	uint64_t	inner_end;		/* and behind the last one that the outer panel has to meet */
	FastedRowGroup *groups;		/* those of the panels that are joined, if there are any */
	Panel		outer;
	Panel		inner[2];
	int			turn;			/* the inner panel that is joined next */
	Panel	   *loading;		/* NULL: none */

	/* The join at work, or to come. */
	FastedJoin *join;			/* NULL: none is at work */
	Panel	   *a;
	Panel	   *b;
	bool		met_itself;		/* the outer panel, in a self-join */
	bool		done;

	uint32_t   *counts[2];

	/* FASTED_OUTPUT_NEAREST. */
	uint32_t	list_length;	/* that lists have memory for */
	bool		further;		/* the outer panel has lists */
	uint64_t	give_first;		/* rows whose lists are to be handed out */
	uint64_t	give_end;
	uint64_t	given_count;	/* rows before these, of the last batch */
	uint64_t	given_most;
	uint32_t   *given_lengths;
	FastedNeighbor *given;

	/* Pairs of rows compared so far, and units of the engine when a join began. */
	double		compared;
	uint64_t	units_done;
	uint64_t	units_total;
};

static inline bool
panels_find_nearest(const PanelJoin *join)
{
	return join->problem.problem.output == FASTED_OUTPUT_NEAREST;
}

/* panel_join.c */
extern FastedStatus panels_fail(PanelJoin *join, FastedStatus status, const char *text);

/* panel_load.c */
extern uint32_t panels_clip_neighbors(const PanelJoin *join, uint32_t k);
extern uint64_t panels_width(const PanelJoin *join);
extern void panels_choose(PanelJoin *join);
extern FastedStatus panels_open(PanelJoin *join);
extern FastedStatus panels_load_outer(PanelJoin *join, uint64_t first);
extern FastedStatus panels_load_inner(PanelJoin *join);
extern bool panels_want_rows(PanelJoin *join, FastedBatch *batch);
extern FastedStatus panels_finish_loading(PanelJoin *join);

#ifdef __cplusplus
}
#endif

#endif							/* FASTED_PANEL_JOIN_H */
