/*-------------------------------------------------------------------------
 *
 * cpu_set.h
 *	  A set of rows, and what the filter reads of it.
 *
 * Packed rows belong to their set.  They are of a form, which sets that are joined
 * have in common, and of a filter; thresholds are of an eps besides.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_SET_H
#define FASTED_CPU_SET_H

#include <stdatomic.h>

#include "../engine/engine.h"
#include "cpu_kernel.h"
#include "neighbor_lists.h"
#include "row_store.h"

/*
 * How rows become packed rows: found from a sample, then shared by all sets that
 * are packed so.  Only the caller's thread counts who has it.
 */
typedef struct Form
{
	int			holders;
	float	   *centre;
	double		scale;			/* a power of two */
	bool		has_int8;		/* the transform has been found */
	float	   *int8_centre;
	Int8Transform transform;
	float		fine_factor;	/* of fine rows: images are multiplied by it; 0: none */
} Form;

/* One side of a tile: packed rows, and a threshold each; no row reaches padding's. */
typedef struct Operand
{
	void	   *packed;
	void	   *threshold;
} Operand;

/* What a row's threshold is made of, for any eps. */
typedef struct RowTerms
{
	double		norm2;			/* of the packed row; negative: it has no pairs */
	double		rho;			/* how far packing moved it; infinite: a wild row */
} RowTerms;

static inline RowTerms
row_without_pairs(void)
{
	return (RowTerms) {.norm2 = -1.0};
}

static inline bool
row_has_pairs(const RowTerms *terms)
{
	return terms->norm2 >= 0.0;
}

typedef struct PackedRows
{
	size_t		rows;
	size_t		row_bytes;		/* of a packed row, at most */
	size_t		room;			/* for so many, padding included */
	PackLayout	layout;
	void	   *packed;
	void	   *threshold;
	RowTerms   *terms;
	double	   *squares;		/* cosine: x.x of rows as they came, by place; or NULL */
	Operand		as_a;			/* rows of tiles; in FP32 the same as columns */
	Operand		as_b;			/* columns of tiles */
} PackedRows;

/*
 * Rows in INT16, row after row, behind packed rows in INT8: candidates are compared
 * in these before they are rechecked.  cpu_fine.c
 */
typedef struct FineRows
{
	size_t		room;
	const int16_t *values;		/* cpu_padded of a row; NULL: there are none */
	double	   *threshold;		/* fasted_threshold_fine */
	RowTerms   *terms;
} FineRows;

/* What pruning makes of a set: cpu_prune.h. */
typedef struct Projection Projection;

typedef struct SetLevels
{
	size_t		room;			/* for so many rows */
	uint32_t   *order;			/* the number of the row at each place */
	bool		ordered;		/* packed rows are in this order */
	uint64_t	order_hash;		/* of the order */
	float	   *projected;		/* NULL: they take the room of packed rows */
	Projection *projection;		/* of the level rows; NULL: there are none */
	PackedRows	packed[FASTED_PRUNE_LEVELS];
	double		eps;			/* of their thresholds; NaN: of none */
} SetLevels;

struct FastedSet
{
	struct FastedContext *context;
	FastedSet  *next;			/* of the context */
	FastedSetOptions options;
	bool		sealed;
	RowStore	rows;
	size_t		held;			/* the most rows that it ever had */

	/* What its last join left. */
	PackedRows	packed;
	FineRows	fine;
	Form	   *form;			/* NULL: nothing is packed */
	double		eps;			/* of the thresholds; NaN: of none */
	double		chosen_eps;		/* for which a sample chose the filter; NaN: none did */
	bool		suits_itself;	/* the form is good for a join of the set with itself */
	SetLevels	levels;

	_Atomic uint32_t *counts;	/* of the join at work, where it counts for rows */
	size_t		counts_room;
	NeighborLists lists;		/* of the last join that found neighbours */
};

/* Sets and their rows: what is engine.h's. */
extern FastedStatus cpu_set_open(FastedContext *context, const FastedSetOptions *options,
								 FastedSet **set);
extern FastedStatus cpu_stage(FastedSet *set, float **rows, size_t *capacity);
extern FastedStatus cpu_commit(FastedSet *set, size_t nrows);
extern bool cpu_lend(FastedSet *set, void *memory, size_t bytes);
extern void cpu_withdraw(FastedSet *set);
extern FastedStatus cpu_put(FastedSet *set, const float *rows, size_t nrows, size_t *taken);
extern FastedStatus cpu_settle(FastedSet *set, bool all);
extern FastedStatus cpu_read_back(FastedSet *set, uint64_t first_row, size_t nrows, float *rows);
extern FastedStatus cpu_seal(FastedSet *set);
extern FastedStatus cpu_set_reset(FastedSet *set, uint64_t first_row);
extern void cpu_set_close(FastedSet *set);

/* Room for a count of each row, all zero; false: memory ran out. */
extern bool cpu_set_zero_counts(FastedSet *set);

/* The number of the row at this place among the packed rows. */
static inline size_t
cpu_row_at(const FastedSet *set, size_t place)
{
	return set->levels.ordered ? set->levels.order[place] : place;
}

/* What was packed is no longer of use, nor is the order of rows. */
extern void cpu_set_forget_form(FastedSet *set);

/* Room for so many rows of so many bytes; what was packed is lost where it grows. */
extern bool cpu_packed_reserve(FastedContext *context, PackedRows *packed, size_t rows,
							   size_t row_bytes);

/* And for their x.x, where the distance is cosine. */
extern bool cpu_squares_reserve(FastedContext *context, PackedRows *packed);
extern void cpu_packed_free(FastedContext *context, PackedRows *packed);

/* Where so many packed rows and their thresholds will be. */
extern void cpu_packed_lay_out(const FastedContext *context, PackedRows *packed, size_t rows,
							   uint32_t dimensions, bool int8);

/* A form without holders, or NULL; the last holder frees it. */
extern Form *cpu_form_new(FastedContext *context);
extern Form *cpu_form_hold(Form *form);
extern void cpu_form_drop(FastedContext *context, Form *form);

/* The same of a projection: cpu_project.c. */
extern Projection *cpu_projection_hold(Projection *projection);
extern void cpu_projection_drop(FastedContext *context, Projection *projection);

/* cpu_levels.c */
extern size_t cpu_levels_row_bytes(const FastedContext *context);
extern bool cpu_levels_reserve(FastedContext *context, SetLevels *levels, size_t rows);
extern void cpu_levels_forget(FastedContext *context, SetLevels *levels);
extern void cpu_levels_free(FastedContext *context, SetLevels *levels);

#endif							/* FASTED_CPU_SET_H */
