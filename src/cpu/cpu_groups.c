/*-------------------------------------------------------------------------
 *
 * cpu_groups.c
 *	  Joins in which only rows of one group meet: their strips, and what belongs there.
 *
 * Rows stay in the order in which they came, so that a group's rows lie together: there
 * is no pruning, which would put them in another one.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "cpu_groups.h"

/* Blocks are no larger than such a part of a group. */
#define BLOCKS_A_GROUP 4

/* Which side of a group the rows of tiles are. */
static int
row_side(const FastedJoin *join)
{
	return join->row_set == join->sets[0] ? 0 : 1;
}

double
cpu_group_columns(const FastedJoin *join)
{
	double		columns = 0.0;
	double		rows = 0.0;

	for (uint32_t g = 0; g < join->problem.ngroups; g++)
	{
		FastedSpan	a = fasted_group_rows(&join->problem.groups[g], row_side(join));
		FastedSpan	b = fasted_group_rows(&join->problem.groups[g], !row_side(join));

		if (b.first == b.end)
			continue;
		columns += (double) (a.end - a.first) * (b.end - b.first);
		rows += a.end - a.first;
	}
	return rows > 0.0 ? columns / rows : 0.0;
}

uint32_t
cpu_group_block(const FastedJoin *join, uint32_t step)
{
	double		most = cpu_group_columns(join) / BLOCKS_A_GROUP;

	if (most >= FASTED_MAX_BLOCK)
		return FASTED_MAX_BLOCK / step * step;
	return most < step ? step : (uint32_t) most / step * step;
}

/* The join's strips, of blocks as high and as many blocks wide as planned; false: memory ran out. */
bool
cpu_plan_strips(FastedJoin *join)
{
	uint32_t	width = (uint32_t) join->order.group * join->block_rows;
	uint32_t	nspans = (uint32_t) join->order.rows;
	uint32_t	nstripes = (uint32_t) ceil_div(join->col_set->rows.rows, width);

	cpu_forget_strips(join);
	join->spans = malloc(nspans * sizeof(FastedSpan));
	join->stripes = malloc(((size_t) nstripes + 1) * sizeof(FastedStripe));
	if (join->spans == NULL || join->stripes == NULL)
		return false;
	fasted_find_spans(join->problem.groups, join->problem.ngroups, row_side(join), join->self,
					  join->block_rows, join->spans, nspans);
	join->strips = (FastedGroupTiles) {
		.spans = join->spans,.stripes = join->stripes,.nstripes = nstripes,
		.count = fasted_find_stripes(join->spans, nspans, width, join->stripes, nstripes)
	};
	return true;
}

void
cpu_forget_strips(FastedJoin *join)
{
	free(join->spans);
	free(join->stripes);
	join->spans = NULL;
	join->stripes = NULL;
}

/* The strip of a claim; false: it has none. */
bool
cpu_locate_group_strip(const FastedJoin *join, uint64_t claim, Strip *strip)
{
	uint32_t	block = join->block_rows;
	uint32_t	width = (uint32_t) join->order.group * block;
	uint32_t	stripe = fasted_stripe_of(&join->strips, claim, 0);
	uint32_t	i = join->stripes[stripe].row + (uint32_t) (claim - join->stripes[stripe].first);
	FastedSpan	columns = fasted_span_within(&join->strips, i, (uint64_t) stripe * width, width);
	size_t		left = join->row_set->rows.rows - (size_t) i * block;

	if (columns.first == columns.end)
		return false;
	strip->first_a = (size_t) i * block;
	strip->rows_a = left < block ? (uint32_t) left : block;
	strip->first_b = (size_t) (columns.first / block) * block;
	strip->block_rows = block;
	strip->blocks = (columns.end - 1) / block - columns.first / block + 1;
	strip->diagonal = join->self && strip->first_a == strip->first_b;
	return true;
}

/* Of the candidates of a row, which are the last ones in the list: those of its group. */
void
cpu_keep_group(Worker *worker, const Strip *strip, uint32_t row, uint32_t first)
{
	const FastedJoin *join = worker->join;
	uint32_t	kept = first;
	FastedSpan	columns;

	if (first == worker->listed)
		return;
	columns = fasted_columns_of_row(join->problem.groups, join->problem.ngroups, row_side(join),
									(uint32_t) (strip->first_a + row));
	for (uint32_t c = first; c < worker->listed; c++)
	{
		size_t		column = strip->first_b + worker->list[c].col;

		if (column >= columns.first && column < columns.end)
			worker->list[kept++] = worker->list[c];
	}
	worker->listed = kept;
}
