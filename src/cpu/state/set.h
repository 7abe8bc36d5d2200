/*-------------------------------------------------------------------------
 *
 * set.h
 *	  Sets of rows, and what joins have derived from the rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_SET_H
#define FASTED_CPU_SET_H

#include "../store/neighbor_lists.h"
#include "../store/row_store.h"
#include "packed_rows.h"

/* The parameters that turn rows into level rows: see projection.h. */
typedef struct Projection
{
	int			refcount;
	uint32_t	directions;
	uint32_t	levels;
	uint32_t	stride;			/* floats per projected row */
	float	   *centre;
	double		scale;			/* a power of two */
	double		eta;			/* upper bound of the Frobenius norm of P P' - I */
	PackLayout	layout;
	float	   *packed;			/* the directions, packed as columns of a product */
	Encoding		encodings[FASTED_PRUNE_LEVELS]; /* encodings of the level rows */
} Projection;

typedef struct SetLevels
{
	size_t		capacity;		/* capacity in rows */
	size_t		bytes;			/* size of the allocation that begins with order */
	uint32_t   *order;			/* row number at each place */
	bool		ordered;		/* packed rows are stored in this order */
	bool		sorted;			/* rows of bits: this order is by number of bits */
	bool		moving;			/* packed rows are being moved to other places */
	size_t		grouped;		/* the components of this number of first places are contiguous */
	uint64_t	order_hash;		/* hash of the order */
	float	   *projected;		/* NULL: stored in the buffer of the packed rows */
	Projection *projection;		/* projection of the level rows; NULL: no level rows */
	PackedRows	packed[FASTED_PRUNE_LEVELS];
	double		eps;			/* eps of the level rows' thresholds; NaN: not set */
} SetLevels;

/* The joins of a set for which a sample chooses the same filter: within eps, or for k neighbors. */
typedef struct ChoiceKey
{
	bool		known;			/* false: no choice */
	uint32_t	k;				/* number of neighbors; zero: a join within eps */
	double		eps;			/* zero in joins for neighbors */
} ChoiceKey;

/* Returns whether both keys are known and equal. */
static inline bool
choice_keys_are_equal(ChoiceKey x, ChoiceKey y)
{
	return x.known && y.known && x.k == y.k && x.eps == y.eps;
}

struct FastedSet
{
	struct FastedContext *context;
	FastedSet  *next;			/* next set of the context */
	FastedSetOptions options;
	bool		sealed;
	RowStore	rows;
	size_t		held;			/* largest number of rows that the set ever had */

	/* State retained from the set's last join. */
	PackedRows	packed;
	Encoding	   *encoding;			/* encoding of the packed rows; NULL: not packed */
	double		eps;			/* eps of the thresholds; NaN: not set */
	ChoiceKey	chosen_for;		/* joins for which a sample chose the filter */
	bool		suits_itself;	/* the encoding suits a self-join of the set */
	SetLevels	levels;

	_Atomic uint32_t *counts;	/* counts of the current join, if it counts */
	size_t		counts_capacity;
	NeighborLists lists;		/* lists of the last nearest-neighbor join */
};

/* Returns the row number at a place of the packed rows. */
static inline size_t
cpu_row_at(const FastedSet *set, size_t place)
{
	return set->levels.ordered ? set->levels.order[place] : place;
}

/* Returns the input row at a place of the packed rows. */
static inline const float *
cpu_stored_row(const FastedSet *set, size_t place)
{
	return row_store_row(&set->rows, cpu_row_at(set, place));
}

#endif							/* FASTED_CPU_SET_H */
