/*-------------------------------------------------------------------------
 *
 * panel_state.h
 *	  A join by panels, for the files that make it up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PANEL_STATE_H
#define FASTED_PANEL_STATE_H

#include "host_device.h"
#include "panel_join.h"
#include "row_groups.h"

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
	uint64_t	devices;		/* so many, at first */
	uint64_t	inner_rows;
	uint64_t	inner_next;		/* the first row that no inner panel has had yet */
	uint64_t	inner_end;		/* and behind the last one that the outer panel has to meet */
	FastedRowGroup *groups;		/* those of the panels that are joined; NULL: all rows meet */
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
	uint64_t	given_first;	/* and those of the last batch */
	uint64_t	given_count;
	uint64_t	given_most;
	uint32_t   *given_lengths;
	FastedNeighbor *given;

	FastedStats before;			/* of the context, when it was restarted */

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
extern void panels_choose(PanelJoin *join);
extern FastedStatus panels_open(PanelJoin *join);
extern FastedStatus panels_load_outer(PanelJoin *join, uint64_t first);
extern FastedStatus panels_load_inner(PanelJoin *join);
extern bool panels_want_rows(PanelJoin *join, FastedBatch *batch);
extern FastedStatus panels_finish_loading(PanelJoin *join);
extern bool panels_make_groups(PanelJoin *join);
extern void panels_clip_groups(PanelJoin *join);

#endif
