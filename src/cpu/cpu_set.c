/*-------------------------------------------------------------------------
 *
 * cpu_set.c
 *	  Sets of rows: rows in, and room for what the filter makes of them.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_join.h"

/* --- packed rows */

bool
cpu_packed_reserve(FastedContext *context, PackedRows *packed, size_t rows, size_t row_bytes)
{
	size_t		room = cpu_whole_tiles(context, rows);

	if (room <= packed->room)
		return true;
	cpu_packed_free(context, packed);
	packed->room = room;
	packed->row_bytes = row_bytes;
	packed->packed = fasted_cpu_map(room * row_bytes, &context->memory);
	packed->threshold = fasted_cpu_map(room * cpu_threshold_row_bytes(context),
									   &context->memory);
	packed->terms = fasted_cpu_map(room * sizeof(RowTerms), &context->memory);
	return packed->packed != NULL && packed->threshold != NULL && packed->terms != NULL;
}

/* Level rows have none: only rows as they came are rechecked. */
bool
cpu_squares_reserve(FastedContext *context, PackedRows *packed)
{
	if (cpu_is_cosine(context) && packed->squares == NULL)
		packed->squares = fasted_cpu_map(packed->room * sizeof(double), &context->memory);
	return !cpu_is_cosine(context) || packed->squares != NULL;
}

void
cpu_packed_free(FastedContext *context, PackedRows *packed)
{
	size_t		room = packed->room;

	fasted_cpu_unmap(packed->packed, room * packed->row_bytes, &context->memory);
	fasted_cpu_unmap(packed->threshold, room * cpu_threshold_row_bytes(context),
					 &context->memory);
	fasted_cpu_unmap(packed->terms, room * sizeof(RowTerms), &context->memory);
	fasted_cpu_unmap(packed->squares, room * sizeof(double), &context->memory);
	memset(packed, 0, sizeof(*packed));
}

/* The sides of a tile may have packed rows of their own, columns first. */
void
cpu_packed_lay_out(const FastedContext *context, PackedRows *packed, size_t rows,
				   uint32_t dimensions, bool int8)
{
	PackLayout *layout = &packed->layout;

	packed->rows = rows;
	layout->int8 = int8;
	layout->words = int8 ? cpu_int8_words(context->kernel, dimensions) : dimensions;
	layout->slice = cpu_slice_length(context->kernel, layout->words,
									 int8 ? context->kernel->int8->word_step : 8);
	layout->padded_rows = cpu_whole_tiles(context, rows);
	packed->as_a.packed = packed->as_b.packed = packed->packed;
	packed->as_a.threshold = packed->as_b.threshold = packed->threshold;
	if (int8 && !int8_sides_alike(context->kernel->int8))
	{
		packed->as_a.packed = (uint32_t *) packed->packed
			+ layout->padded_rows * layout->words;
		packed->as_a.threshold = (int32_t *) packed->threshold + layout->padded_rows;
	}
}

/* --- life */

/* Chunks no larger than what is expected. */
static size_t
chunk_bytes(const FastedContext *context, const FastedSetOptions *options)
{
	size_t		row_bytes = fasted_row_bytes(&context->options);
	size_t		bytes = context->chunk_bytes;

	if (options->expected_rows > 0 && options->expected_rows < bytes / row_bytes)
		bytes = options->expected_rows * row_bytes;
	if (options->most_rows > 0 && options->most_rows < bytes / row_bytes)
		bytes = options->most_rows * row_bytes;
	return bytes;
}

FastedStatus
cpu_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **result)
{
	FastedSet  *set = calloc(1, sizeof(*set));

	*result = set;
	if (set == NULL)
		return cpu_fail(context, FASTED_OUT_OF_MEMORY, "out of memory for a set of rows");
	set->context = context;
	set->options = *options;
	set->eps = set->chosen_eps = set->levels.eps = NAN;
	row_store_init(&set->rows, fasted_row_floats(&context->options), chunk_bytes(context, options),
				   options->expected_rows == 0);
	set->next = context->sets;
	context->sets = set;
	return FASTED_OK;
}

void
cpu_set_forget_form(FastedSet *set)
{
	cpu_levels_forget(set->context, &set->levels);
	cpu_form_drop(set->context, set->form);
	set->form = NULL;
	set->eps = set->chosen_eps = NAN;
	set->suits_itself = false;
}

FastedStatus
cpu_set_reset(FastedSet *set, uint64_t first_row)
{
	const FastedJoin *join = set->context->join;

	if (join != NULL && (join->sets[0] == set || join->sets[1] == set))
		return cpu_fail(set->context, FASTED_INTERNAL, "a set was reset that a join uses");
	if (set->rows.rows > set->held)
		set->held = set->rows.rows;
	set->rows.rows = set->rows.offered = 0;
	set->options.first_row = first_row;
	set->sealed = false;
	set->lists.k = 0;
	cpu_set_forget_form(set);
	return FASTED_OK;
}

void
cpu_set_close(FastedSet *set)
{
	FastedContext *context;
	FastedSet **link;

	if (set == NULL)
		return;
	context = set->context;
	for (link = &context->sets; *link != set;)
		link = &(*link)->next;
	*link = set->next;
	cpu_set_forget_form(set);
	row_store_free(&set->rows, &context->memory);
	cpu_packed_free(context, &set->packed);
	cpu_fine_free(context, &set->fine);
	cpu_levels_free(context, &set->levels);
	fasted_cpu_unmap(set->counts, set->counts_room * sizeof(uint32_t), &context->memory);
	neighbor_lists_free(&set->lists, &context->memory);
	free(set);
}

/* --- rows in */

/* Rows for which there is memory in this set, those on their way included. */
static uint64_t
held_rows(const FastedSet *set)
{
	uint64_t	rows = set->rows.rows + set->rows.offered;

	return rows > set->held ? rows : set->held;
}

/* How many more this set may have. */
static uint64_t
rows_left(const FastedSet *set)
{
	const FastedContext *context = set->context;
	uint64_t	most = context->row_limit;
	uint64_t	others = 0;

	for (const FastedSet *other = context->sets; other != NULL; other = other->next)
	{
		if (other != set)
			others += held_rows(other)
				+ cpu_list_rows(context, held_rows(other), other->options.neighbors);
	}
	most = most > others ? cpu_rows_with_lists(context, most - others, set->options.neighbors) : 0;
	if (set->options.most_rows > 0 && most > set->options.most_rows)
		most = set->options.most_rows;
	return most > set->rows.rows ? most - set->rows.rows : 0;
}

FastedStatus
cpu_stage(FastedSet *set, float **rows, size_t *capacity)
{
	uint64_t	left = rows_left(set);

	*rows = NULL;
	*capacity = 0;
	if (set->sealed)
		return cpu_fail(set->context, FASTED_INTERNAL, "rows were staged in a sealed set");
	if (left == 0)
		return FASTED_FULL;
	*rows = row_store_offer(&set->rows, left, capacity, &set->context->memory);
	if (*rows == NULL)
		return cpu_fail(set->context, FASTED_OUT_OF_MEMORY, "out of memory after %zu rows",
						set->rows.rows);
	return FASTED_OK;
}

FastedStatus
cpu_commit(FastedSet *set, size_t nrows)
{
	if (set->sealed || !row_store_commit(&set->rows, nrows))
		return cpu_fail(set->context, FASTED_INTERNAL,
						"%zu rows were committed without room for them", nrows);
	return FASTED_OK;
}

/*
 * Rows from anywhere are copied at once: nothing has to be kept for them, and to
 * stage them is as good.  It is allowed nevertheless, so that what puts rows runs
 * where there is no GPU.
 */
bool
cpu_lend(FastedSet *set, void *memory, size_t bytes)
{
	(void) memory;
	(void) bytes;
	return !set->sealed;
}

void
cpu_withdraw(FastedSet *set)
{
	(void) set;
}

FastedStatus
cpu_put(FastedSet *set, const float *rows, size_t nrows, size_t *taken)
{
	float	   *room;
	size_t		capacity;
	FastedStatus status = cpu_stage(set, &room, &capacity);

	*taken = 0;
	if (status != FASTED_OK)
		return status;
	if (capacity > nrows)
		capacity = nrows;
	memcpy(room, rows, capacity * set->rows.row_floats * sizeof(float));
	*taken = capacity;
	return cpu_commit(set, capacity);
}

FastedStatus
cpu_settle(FastedSet *set, bool all)
{
	(void) all;
	(void) set;
	return FASTED_OK;
}

FastedStatus
cpu_read_back(FastedSet *set, uint64_t first_row, size_t nrows, float *rows)
{
	const RowStore *store = &set->rows;
	size_t		floats = store->row_floats;

	if (set->sealed || first_row > store->rows || nrows > store->rows - first_row)
		return cpu_fail(set->context, FASTED_INTERNAL,
						"rows that are not staged were to be read back");
	for (size_t i = 0; i < nrows; i++)
		memcpy(rows + i * floats, row_store_row(store, first_row + i), floats * sizeof(float));
	return FASTED_OK;
}

FastedStatus
cpu_seal(FastedSet *set)
{
	if (set->sealed)
		return cpu_fail(set->context, FASTED_INTERNAL, "a set was sealed twice");
	set->rows.offered = 0;
	set->sealed = true;
	if (!cpu_packed_reserve(set->context, &set->packed, set->rows.rows,
							cpu_packed_row_bytes(set->context)) ||
		!cpu_squares_reserve(set->context, &set->packed) ||
		!cpu_fine_reserve(set->context, &set->fine, set->rows.rows))
		return cpu_fail(set->context, FASTED_OUT_OF_MEMORY, "out of memory for a join of %zu rows",
						set->rows.rows);
	return FASTED_OK;
}

bool
cpu_set_zero_counts(FastedSet *set)
{
	MemoryCount *memory = &set->context->memory;
	size_t		rows = set->rows.rows;

	if (set->counts != NULL && rows <= set->counts_room)
	{
		for (size_t row = 0; row < rows; row++)
			atomic_init(&set->counts[row], 0);
		return true;
	}
	fasted_cpu_unmap(set->counts, set->counts_room * sizeof(uint32_t), memory);
	set->counts = fasted_cpu_map(rows * sizeof(uint32_t), memory);
	set->counts_room = rows;
	return set->counts != NULL;
}
