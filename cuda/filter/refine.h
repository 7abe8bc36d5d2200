/*-------------------------------------------------------------------------
 *
 * refine.h
 *	  From candidates to pairs, and from one round to the next.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_REFINE_H
#define FASTED_CUDA_REFINE_H

#include "engine/engine.h"
#include "filter/filter.h"
#include "output/connect.h"
#include "rows/row_table.h"

namespace fasted
{

struct RefineParams
{
	RowTable	a;
	RowTable	b;
	uint64_t	first_row_a;	/* global numbers of the first rows */
	uint64_t	first_row_b;
	bool		self;			/* of a set with itself: the lesser number first */
	double		eps;
	CandidateBuffer candidates;
	FastedPair *pairs;			/* room for every candidate; null: they are not kept */
	uint32_t   *counts_a;		/* of each row's pairs; null: not wanted */
	uint32_t   *counts_b;
	const uint32_t *labels_a;	/* of rows by number: row_labels.h; null: all rows meet */
	const uint32_t *labels_b;
	Connecting	connect;		/* then pairs has room for every candidate, but few come there */

	/* Nearest rows: what eps is of each row of a, in its place; null: eps is. */
	const double *radii = nullptr;
	bool		not_itself = false;	/* no row is its own neighbour */
	bool		either = false;	/* the radius of either row will do */

	uint32_t	look_mask = 0;	/* when to look whether the join is cancelled; launch_refine knows */
};

/* Rechecks every candidate; approximate: passes all of them on. */
void launch_refine(const RefineParams &params, bool approximate,
				   const Device &device, cudaStream_t stream);

/*
 * Ends the round: writes its report and plans the next one.  The flags say whether a
 * value of either side does not fit (approximate only, else null).
 */
void launch_advance(const CandidateBuffer &candidates, const uint32_t *overflow_a,
					const uint32_t *overflow_b, unsigned long long budget,
					RoundReport *report, cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_REFINE_H */
