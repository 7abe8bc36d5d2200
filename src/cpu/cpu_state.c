/*-------------------------------------------------------------------------
 *
 * cpu_state.c
 *	  What all phases share: errors, rests, room for packed rows, forms.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu_state.h"

FastedStatus
cpu_fail(FastedContext *context, FastedStatus status, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(context->error, sizeof(context->error), format, args);
	va_end(args);
	return status;
}

uint64_t
cpu_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * UINT64_C(1000000000) + (uint64_t) now.tv_nsec;
}

/*
 * Workers rest when so many milliseconds have gone by, unless this is called
 * again; those that do so now go on.  With the lock held.
 */
void
cpu_rest_after(FastedContext *context, uint64_t ms)
{
	atomic_store(&context->rest_at, cpu_now() + ms * UINT64_C(1000000));
	if (context->resting > 0)
		pthread_cond_broadcast(&context->rest_cond);
}

/*
 * Called between pieces of work of some milliseconds at most.  Waits while the caller has not
 * asked for pairs for a while, until it is back or closes the join.
 */
void
cpu_rest_if_alone(FastedContext *context)
{
	if (cpu_now() < atomic_load_explicit(&context->rest_at, memory_order_relaxed))
		return;
	pthread_mutex_lock(&context->lock);
	context->resting++;
	while (!cpu_stopping(context) && cpu_now() >= atomic_load(&context->rest_at))
		pthread_cond_wait(&context->rest_cond, &context->lock);
	context->resting--;
	pthread_mutex_unlock(&context->lock);
}

/* Bytes of a packed row: in FP32, or of integers as row and as column of a tile, and fine. */
size_t
cpu_packed_row_bytes(const FastedContext *context)
{
	size_t		bytes = context->options.dimensions * sizeof(float);
	size_t		int8_bytes;

	if (!context->may_use_int8)
		return bytes;
	int8_bytes = cpu_int8_row_bytes(context->kernel, context->options.dimensions)
		+ cpu_fine_row_bytes(context);
	return bytes > int8_bytes ? bytes : int8_bytes;
}

size_t
cpu_threshold_row_bytes(const FastedContext *context)
{
	return (context->may_use_int8 ? 2 : 1) * sizeof(float);
}

/*
 * Words of a slice, a multiple of step, itself one of 8: a column of tiles takes three
 * quarters of the L1 cache.  Slices are of even length.
 */
uint32_t
cpu_slice_length(const CpuKernel *kernel, uint32_t words, uint32_t step)
{
	long		cache = 0;
	uint32_t	most;
	uint32_t	slices;

#ifdef _SC_LEVEL1_DCACHE_SIZE
	cache = sysconf(_SC_LEVEL1_DCACHE_SIZE);
#endif
	if (cache < 16 * 1024 || cache > 256 * 1024)
		cache = 32 * 1024;
	most = (uint32_t) cache / 4 * 3 / (kernel->tile_cols * sizeof(float));
	if (most > 256)
		most = 256;
	slices = (words + most - 1) / most;
	return ((words + slices - 1) / slices + step - 1) / step * step;
}

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

void
cpu_fine_free(FastedContext *context, FineRows *fine)
{
	fasted_cpu_unmap(fine->threshold, fine->room * sizeof(double), &context->memory);
	fasted_cpu_unmap(fine->terms, fine->room * sizeof(RowTerms), &context->memory);
	memset(fine, 0, sizeof(*fine));
}

bool
cpu_fine_reserve(FastedContext *context, FineRows *fine, size_t rows)
{
	size_t		room = cpu_whole_tiles(context, rows);

	if (!context->may_use_fine || room <= fine->room)
		return true;
	cpu_fine_free(context, fine);
	fine->room = room;
	fine->threshold = fasted_cpu_map(room * sizeof(double), &context->memory);
	fine->terms = fasted_cpu_map(room * sizeof(RowTerms), &context->memory);
	return fine->threshold != NULL && fine->terms != NULL;
}

void
cpu_form_drop(FastedContext *context, Form *form)
{
	size_t		bytes = context->options.dimensions * sizeof(float);

	if (form == NULL || --form->holders > 0)
		return;
	fasted_cpu_unmap(form->centre, bytes, &context->memory);
	fasted_cpu_unmap(form->int8_centre, bytes, &context->memory);
	free(form);
}

Form *
cpu_form_hold(Form *form)
{
	if (form != NULL)
		form->holders++;
	return form;
}

Form *
cpu_form_new(FastedContext *context)
{
	size_t		bytes = context->options.dimensions * sizeof(float);
	Form	   *form = calloc(1, sizeof(*form));

	if (form == NULL)
		return NULL;
	form->scale = 1.0;
	form->centre = fasted_cpu_map(bytes, &context->memory);
	if (context->may_use_int8)
		form->int8_centre = fasted_cpu_map(bytes, &context->memory);
	if (form->centre == NULL || (context->may_use_int8 && form->int8_centre == NULL))
	{
		cpu_form_drop(context, cpu_form_hold(form));
		return NULL;
	}
	return form;
}
