/*-------------------------------------------------------------------------
 *
 * cpu_state.c
 *	  Functions shared by all phases: errors, pauses, memory of packed rows, forms.
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

/* Slivers per work item. */
#define ITEM_SLIVERS 4

FastedStatus
cpu_fail(FastedContext *context, FastedStatus status, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(context->error, sizeof(context->error), format, args);
	va_end(args);
	return status;
}

/* Adds a worker's statistics to the context's.  The caller holds the lock. */
void
cpu_add_work_stats(Worker *worker)
{
	fasted_add_stats(&worker->context->stats, &worker->work);
	memset(&worker->work, 0, sizeof(worker->work));
}

/*
 * Makes workers pause after `ms` milliseconds, unless this is called again; resumes those that
 * are paused.  The caller holds the lock.
 */
void
cpu_rest_after(FastedContext *context, uint64_t ms)
{
	atomic_store(&context->rest_at, cpu_now() + ms * UINT64_C(1000000));
	if (context->resting > 0)
		pthread_cond_broadcast(&context->rest_cond);
}

/*
 * Pauses if the caller has not called next for some time, until it calls next or closes the join.
 * Workers call this at least every few milliseconds.  Returns false if the worker must stop.
 */
bool
cpu_may_continue(FastedContext *context)
{
	if (cpu_now() < atomic_load_explicit(&context->rest_at, memory_order_relaxed))
		return !cpu_stopping(context);
	pthread_mutex_lock(&context->lock);
	context->resting++;
	while (!cpu_stopping(context) && cpu_now() >= atomic_load(&context->rest_at))
		pthread_cond_wait(&context->rest_cond, &context->lock);
	context->resting--;
	pthread_mutex_unlock(&context->lock);
	return !cpu_stopping(context);
}

/*
 * Returns the bytes of a packed row: those of an FP32 or an integer row, for full rows the larger
 * of the two.  Integer rows are counted for both sides of a tile, and with INT16 rows.
 */
size_t
cpu_packed_row_bytes(const FastedContext *context, uint32_t level)
{
	uint32_t	d = level == FULL_STAGE ? cpu_filter_words(context) : LEVEL_WORDS(level);
	size_t		bytes = context->may_use_int8 ? cpu_int8_row_bytes(context->kernel, d) : 0;

	if (level == FULL_STAGE && context->may_use_int16)
		bytes += context->padded * sizeof(int16_t);
	return bytes == 0 || (level == FULL_STAGE && bytes < d * sizeof(float)) ? d * sizeof(float) : bytes;
}

static int
compare_doubles(const void *left, const void *right)
{
	double		x = *(const double *) left;
	double		y = *(const double *) right;

	return (x > y) - (x < y);
}

void
cpu_sort_doubles(double *values, size_t count)
{
	qsort(values, count, sizeof(double), compare_doubles);
}

/*
 * Calls `work` for all slivers of set a, then of set b.  Sets that need less preparation than
 * `least` are skipped.  Workers share the slivers.  Returns early if the join is being closed.
 */
void
cpu_do_slivers(Worker *worker, const Packing packing[2], Packing least,
			   void (*work) (Worker *worker, int set, size_t sliver))
{
	const FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	size_t		slivers[2] = {0, 0};
	uint64_t	first;

	for (int i = 0; i < join->nsets; i++)
	{
		if (packing[i] >= least)
			slivers[i] = cpu_whole_tiles(context, join->sets[i]->rows.rows) / context->kernel->width;
	}
	while ((first = cpu_next_item(context) * ITEM_SLIVERS) < slivers[0] + slivers[1])
	{
		(void) cpu_may_continue(context);
		for (uint64_t s = first; s < first + ITEM_SLIVERS && s < slivers[0] + slivers[1]; s++)
		{
			int			i = s >= slivers[0];

			if (cpu_stopping(context))
				return;
			work(worker, i, i == 0 ? s : s - slivers[0]);
		}
	}
}

/*
 * Returns the most words per slice: a column of tiles fills three quarters of the L1 cache.  It is
 * called once per context, because all sides of a join need the same slices, and the size of the
 * cache may depend on the core, or be unknown for a moment.
 */
uint32_t
cpu_longest_slice(const CpuKernel *kernel)
{
	long		cache = 0;
	uint32_t	most;

#ifdef _SC_LEVEL1_DCACHE_SIZE
	cache = sysconf(_SC_LEVEL1_DCACHE_SIZE);
#endif
	if (cache < 16 * 1024 || cache > 256 * 1024)
		cache = 32 * 1024;
	most = (uint32_t) cache / 4 * 3 / (kernel->tile_cols * sizeof(float));
	return most > 256 ? 256 : most;
}

/*
 * Returns the words per slice, a multiple of step; step must be a multiple of 8.  All slices have
 * about the same length.
 */
uint32_t
cpu_slice_length(const FastedContext *context, uint32_t words, uint32_t step)
{
	uint32_t	slices = (words + context->longest_slice - 1) / context->longest_slice;

	return ((words + slices - 1) / slices + step - 1) / step * step;
}

/*
 * Assigns the parts of packed rows within an allocation that begins at `piece`.  Returns its size.
 */
static size_t
carve_packed(const FastedContext *context, PackedRows *packed, uint32_t level, uintptr_t piece)
{
	uintptr_t	next = piece;
	size_t		capacity = packed->capacity;

	packed->packed = fasted_carve(&next, capacity * cpu_packed_row_bytes(context, level));
	packed->threshold = fasted_carve(&next,
									 (context->may_use_int8 || context->bits ? 2 : 1)
									 * capacity * sizeof(float));
	packed->terms = fasted_carve(&next, capacity * sizeof(RowTerms));
	if (level == FULL_STAGE && (context->cosine || context->product || context->jaccard))
		packed->squares = fasted_carve(&next, capacity * sizeof(double));
	if (level == FULL_STAGE && context->may_use_int16)
	{
		packed->fine.threshold = fasted_carve(&next, capacity * sizeof(double));
		packed->fine.terms = fasted_carve(&next, capacity * sizeof(RowTerms));
	}
	return next - piece;
}

/* Returns the bytes per packed row in addition to the row itself: thresholds and terms. */
size_t
cpu_packed_side_bytes(const FastedContext *context, uint32_t level)
{
	PackedRows	rows = {.capacity = 64};

	return carve_packed(context, &rows, level, 0) / rows.capacity
		- cpu_packed_row_bytes(context, level);
}

bool
cpu_packed_reserve(FastedContext *context, PackedRows *packed, size_t rows, uint32_t level)
{
	size_t		capacity = cpu_whole_tiles(context, rows);
	void	   *piece;

	if (capacity <= packed->capacity)
		return true;
	cpu_packed_free(context, packed);
	packed->capacity = capacity;
	packed->bytes = carve_packed(context, packed, level, 0);
	piece = fasted_cpu_map(packed->bytes, &context->memory);
	(void) carve_packed(context, packed, level, (uintptr_t) piece);
	if (piece == NULL)
		memset(packed, 0, sizeof(*packed));
	return piece != NULL;
}

void
cpu_packed_free(FastedContext *context, PackedRows *packed)
{
	fasted_cpu_unmap(packed->packed, packed->bytes, &context->memory);
	memset(packed, 0, sizeof(*packed));
}

/* The two sides of a tile may need separate packed rows.  Columns are stored first. */
void
cpu_packed_lay_out(const FastedContext *context, PackedRows *packed, size_t rows,
				   uint32_t dimensions, bool int8)
{
	PackLayout *layout = &packed->layout;

	packed->rows = rows;
	layout->int8 = int8;
	layout->words = int8 ? cpu_int8_words(context->kernel, dimensions) : dimensions;
	layout->slice = cpu_slice_length(context, layout->words,
									 int8 ? context->kernel->int8->word_step : 8);
	layout->padded_rows = cpu_whole_tiles(context, rows);
	packed->as_a.packed = packed->as_b.packed = packed->packed;
	packed->as_a.threshold = packed->as_b.threshold = packed->threshold;
	if (int8 && !int8_sides_identical(context->kernel->int8))
	{
		packed->as_a.packed = (uint32_t *) packed->packed
			+ layout->padded_rows * layout->words;
		packed->as_a.threshold = (int32_t *) packed->threshold + layout->padded_rows;
	}
	if (context->bits)
		packed->as_a.threshold = (int32_t *) packed->threshold + layout->padded_rows;
}

/* Returns the bytes of a form and of its two centres. */
static size_t
form_bytes(const FastedContext *context)
{
	return sizeof(Form) + (context->bits ? 0 : 2 * context->options.dimensions * sizeof(float));
}

void
cpu_form_drop(FastedContext *context, Form *form)
{
	if (form != NULL && --form->refcount == 0)
		fasted_cpu_unmap(form, form_bytes(context), &context->memory);
}

Form *
cpu_form_new(FastedContext *context)
{
	Form	   *form = fasted_cpu_map(form_bytes(context), &context->memory);

	if (form == NULL)
		return NULL;
	form->refcount = 1;
	form->scale = 1.0;
	form->centre = (float *) (form + 1);
	form->int8_centre = form->centre + context->options.dimensions;
	return form;
}
