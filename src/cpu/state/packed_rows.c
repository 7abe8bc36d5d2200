/*-------------------------------------------------------------------------
 *
 * packed_rows.c
 *	  Memory and layout of packed rows, and reference counts of encodings.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>
#include <unistd.h>

#include "../../engine/filter_bound.h"
#include "context.h"
#include "cpu_filter.h"

size_t
cpu_packed_row_bytes(const FastedContext *context, uint32_t level)
{
	uint32_t	d = level == FULL_STAGE ? cpu_filter_words(context) : LEVEL_WORDS(level);
	size_t		bytes = context->integer_filter != NULL ? cpu_int8_row_bytes(context->kernel, d) : 0;

	if (level == FULL_STAGE && context->plan.may_use_int16)
		bytes += context->padded * sizeof(int16_t);
	return bytes == 0 || (level == FULL_STAGE && bytes < d * sizeof(float)) ? d * sizeof(float) : bytes;
}

uint32_t
cpu_longest_segment(const CpuKernel *kernel)
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

uint32_t
cpu_segment_words(const FastedContext *context, uint32_t words, uint32_t step)
{
	uint32_t	segments = (words + context->plan.longest_segment - 1) / context->plan.longest_segment;

	return ((words + segments - 1) / segments + step - 1) / step * step;
}

/* Assigns the parts of packed rows within an allocation that begins at `piece`.  Returns its size. */
static size_t
carve_packed(const FastedContext *context, PackedRows *packed, uint32_t level, uintptr_t piece)
{
	uintptr_t	next = piece;
	size_t		capacity = packed->capacity;

	packed->as_b.packed = fasted_carve(&next, capacity * cpu_packed_row_bytes(context, level));
	packed->as_b.threshold = fasted_carve(&next,
									 (context->integer_filter != NULL || context->filter->integer_sums ? 2 : 1)
									 * capacity * sizeof(float));
	packed->terms = fasted_carve(&next, capacity * sizeof(RowTerms));
	if (level == FULL_STAGE && context->metric->of_product)
		packed->squares = fasted_carve(&next, capacity * sizeof(double));
	if (level == FULL_STAGE && context->plan.may_use_int16)
	{
		packed->fine.threshold = fasted_carve(&next, capacity * sizeof(double));
		packed->fine.terms = fasted_carve(&next, capacity * sizeof(RowTerms));
	}
	return next - piece;
}

size_t
cpu_packed_bytes(const FastedContext *context, uint32_t level)
{
	PackedRows	rows = {.capacity = 64};

	return carve_packed(context, &rows, level, 0) / rows.capacity;
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
	fasted_cpu_unmap(packed->as_b.packed, packed->bytes, &context->memory);
	memset(packed, 0, sizeof(*packed));
}

void
cpu_packed_lay_out(const FastedContext *context, PackedRows *packed, size_t rows,
				   uint32_t dimensions, const CpuFilter *filter)
{
	const TileProduct *product = cpu_product(context->kernel, filter);
	PackLayout *layout = &packed->layout;

	packed->rows = rows;
	packed->filter = filter;
	layout->words = filter->transforms ? cpu_int8_words(context->kernel, dimensions) : dimensions;
	layout->segment = cpu_segment_words(context, layout->words, product->word_step);
	layout->padded_rows = cpu_whole_tiles(context, rows);
	packed->gamma = fasted_gamma32(layout->words, 2);
	packed->alpha = fasted_alpha32(layout->words);
	packed->slack = fasted_sum_slack(layout->words);
	packed->as_a = packed->as_b;
	if (sides_differ(product))
		packed->as_a.packed = (uint32_t *) packed->as_b.packed + layout->padded_rows * layout->words;
	if (filter->integer_sums)
		packed->as_a.threshold = (int32_t *) packed->as_b.threshold + layout->padded_rows;
}

/* Returns the bytes of an encoding and of its two centres. */
static size_t
encoding_bytes(const FastedContext *context)
{
	return sizeof(Encoding) + (context->metric->of_bits ? 0 : 2 * context->options.dimensions * sizeof(float));
}

void
cpu_encoding_drop(FastedContext *context, Encoding *encoding)
{
	if (encoding != NULL && --encoding->refcount == 0)
		fasted_cpu_unmap(encoding, encoding_bytes(context), &context->memory);
}

Encoding *
cpu_encoding_new(FastedContext *context)
{
	Encoding	   *encoding = fasted_cpu_map(encoding_bytes(context), &context->memory);

	if (encoding == NULL)
		return NULL;
	encoding->refcount = 1;
	encoding->scale = 1.0;
	encoding->centre = (float *) (encoding + 1);
	encoding->int8_centre = encoding->centre + context->options.dimensions;
	return encoding;
}
