/*-------------------------------------------------------------------------
 *
 * cpu_prepare.h
 *	  Preparation of rows for the filter: cpu_form.c, cpu_pack.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_PREPARE_H
#define FASTED_CPU_PREPARE_H

#include "cpu_state.h"

/* A sample: counts[i] rows of set i, evenly distributed over it; or an array of given rows. */
typedef struct Sample
{
	const RowStore *rows[2];
	uint32_t	counts[2];
	const float *const *given;	/* counts[0] filter rows; or NULL */
} Sample;

static inline const float *
cpu_sampled_row(const RowStore *rows, uint32_t s, uint32_t count)
{
	return row_store_row(rows, fasted_sample_row(s, count, (uint32_t) rows->rows));
}

static inline uint32_t
cpu_sample_size(const Sample *sample)
{
	return sample->counts[0] + sample->counts[1];
}

static inline const float *
cpu_stored_sample_row(const Sample *sample, uint32_t s)
{
	return s < sample->counts[0] ? cpu_sampled_row(sample->rows[0], s, sample->counts[0])
		: cpu_sampled_row(sample->rows[1], s - sample->counts[0], sample->counts[1]);
}

/* Returns coordinate k of an input row. */
static inline double
cpu_coordinate(const FastedContext *context, const float *row, uint32_t k)
{
	return context->doubles ? ((const double *) row)[k] : (double) row[k];
}

/* cpu_form.c: filter rows, centre, scale, integer transform */
extern const float *cpu_filter_row(const Worker *worker, const float *row, float *to,
								   double *square);
extern double cpu_row_moved(const FastedContext *context, const float *row);
extern Sample cpu_take_sample(const FastedJoin *join, uint32_t coordinates, uint32_t least,
							  uint32_t most);
extern void cpu_find_centre(Worker *worker);
extern void cpu_find_scale(FastedJoin *join);
extern void cpu_int8_find_transform(Worker *worker, Form *form);
extern float cpu_int8_find_factor(Worker *worker, const Int8Transform *transform,
								  const Sample *sample);

/* Largest number of rows from which an integer scale is computed. */
#define FASTED_INT8_SCALE_ROWS 256

/* A sliver of rows to be packed: their form, eps and destination. */
typedef struct PackJob
{
	const FastedContext *context;
	const Form *form;
	double		eps;
	double		eps_upper;		/* upper bound of eps in the form's scale; not for products */
	PackedRows *to;
	const float *rows[FASTED_MAX_WIDTH];	/* rows of the sliver; NULL: a row without pairs */
	double		moved[FASTED_MAX_WIDTH];	/* bounds of their distances from the exact rows */
} PackJob;

/*
 * The largest squared norm of a packed row; a row above it is out of range.  Inner products and
 * thresholds are at most that, well within FP32.
 */
#define NORM2_LIMIT 0x1p120

/*
 * Packs a sliver.  Rows that are out of range or not finite are packed as zeros.  Returns a bit
 * mask of them.
 */
static inline uint32_t
cpu_pack_in_range(const CpuKernel *kernel, PackSliver *pack)
{
	uint32_t	out_of_range = 0;

	kernel->pack(pack);
	for (uint32_t r = 0; r < kernel->width; r++)
	{
		if (pack->norm2[r] <= NORM2_LIMIT && pack->error2[r] <= NORM2_LIMIT)
			continue;
		pack->rows[r] = NULL;
		out_of_range |= 1U << r;
	}
	if (out_of_range != 0)
		kernel->pack(pack);
	return out_of_range;
}

/* Returns the scale of packed rows. */
static inline double
cpu_form_scale(const Form *form, bool int8)
{
	return int8 ? (double) form->transform.scale : form->scale;
}

/* cpu_pack.c: one sliver */
extern void cpu_load_row(Worker *worker, PackJob *job, size_t place, const float *row);
extern void cpu_pack_sliver(Worker *worker, const PackJob *job, size_t sliver);
extern PackJob cpu_pack_job(const FastedJoin *join, const Form *form, bool int8, double eps,
							PackedRows *to);
/* Returns the largest distance of two filter rows whose distance is at most eps. */
extern double cpu_reach(const FastedContext *context, double eps);
extern double cpu_product_half(const FastedContext *context, const Form *form,
							   const PackedRows *rows, size_t row, double eps, bool int16);
extern double cpu_eps_upper(const FastedJoin *join, const Form *form, bool int8, double eps);
extern void cpu_set_thresholds(Worker *worker, const PackJob *job, size_t sliver);
extern bool cpu_begin_packing(FastedJoin *join);
extern void cpu_pack(Worker *worker);
extern bool cpu_has_int16(const FastedJoin *join, const Form *form);

#endif							/* FASTED_CPU_PREPARE_H */
