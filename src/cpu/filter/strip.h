/*-------------------------------------------------------------------------
 *
 * strip.h
 *	  Filters a strip of rows: the result is a hit map.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_STRIP_H
#define FASTED_CPU_STRIP_H

#include <string.h>

#include "../state/worker.h"

/* A tile, given by the places of its first row and column. */
typedef struct Tile
{
	size_t		row;
	size_t		col;
	uint8_t    *hits;			/* hit map of the tile's first row */
	size_t		hit_stride;
} Tile;

/* Returns 64 bits of a hit map, from the byte `hits` on; bit b is column b. */
static inline uint64_t
cpu_hit_word(const uint8_t *hits)
{
	uint64_t	bits;

	memcpy(&bits, hits, sizeof(bits));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	bits = __builtin_bswap64(bits);
#endif
	return bits;
}

/* Points a sweep at the segment that begins with word k, for the given rows of tiles and columns. */
static inline void
cpu_point_at_segment(TileSweep *sweep, const CpuKernel *kernel, const PackedRows *a, size_t row,
				   const PackedRows *b, size_t col, uint32_t k)
{
	uint32_t	width = kernel->width;

	sweep->depth = segment_words(&b->layout, k);
	sweep->first = k == 0;
	sweep->last = k + sweep->depth == b->layout.words;
	sweep->a = (const uint32_t *) a->as_a.packed
		+ pack_offset(&a->layout, width, row / width, k) + row % width;
	sweep->b = (const uint32_t *) b->as_b.packed + pack_offset(&b->layout, width, col / width, k);
}

/*
 * Cost per row of a tile in addition to its bytes, in the time in which VNNI multiplies one byte of a
 * pair; other kernels scale it by Int8Kernel.speed.
 */
#define TILE_COST 12.0

/* Returns how many bytes are multiplied in a unit of cost. */
static inline double
cpu_integer_speed(const FastedContext *context)
{
	return context->integer_filter != NULL ? context->kernel->int8->speed : 1;
}

/* Costs of the steps that may follow a level, in bytes per row of a tile. */
typedef struct PruneCosts
{
	double		level[FASTED_PRUNE_LEVELS];
	double		full;			/* filtering at all dimensions */
	double		recheck;		/* recheck of one candidate */
} PruneCosts;

/* Filters a strip: fills the worker's hit map.  `sparse`: see TileSweep. */
extern void cpu_filter_strip(Worker *worker, const PackedRows *a, const PackedRows *b,
							 const Strip *strip, bool sparse);

/* Filters a strip with pruning: fills the worker's hit map, like cpu_filter_strip. */
extern void cpu_prune_strip(Worker *worker, const Strip *strip);

/* Returns the costs of the steps of a join, for its filter and its levels. */
extern PruneCosts cpu_prune_costs(const FastedJoin *join);

/* Returns the number of hits of a tile. */
extern uint32_t cpu_count_hits(const CpuKernel *kernel, const Tile *tile);

/* Sets one tile's hits, using all words of these packed rows. */
extern void cpu_sweep_tile(Worker *worker, const PackedRows *a, const PackedRows *b,
						   const Tile *tile);

#endif							/* FASTED_CPU_STRIP_H */
