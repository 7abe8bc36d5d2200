/*-------------------------------------------------------------------------
 *
 * cpu_choice.c
 *	  INT8 or FP32: which filter finds candidates.
 *
 * INT8 multiplies four times as fast, and finds more pairs that turn out to be too
 * far apart.  A sample of the rows, joined with itself, tells how many.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_join.h"

/* Fewer rows than this are joined before a choice pays. */
#define CHOICE_ROWS 4096

/* Sampled rows: a block of them, or fewer of many dimensions. */
#define SAMPLE_COORDINATES (1 << 18)
#define SAMPLE_ROWS_LEAST 96

/*
 * INT8 pays while at most one pair in so many is a candidate in vain: to recheck it
 * takes as long as INT8 saves for these.  It saves about 11 ps a pair and dimension,
 * and a recheck takes 40 ns and 0.25 ns a dimension, on a Xeon of 2023.
 */
static uint64_t
pairs_a_recheck(uint32_t dimensions)
{
	return 24 + 4096 / dimensions;
}

/* Packs count rows that are spread over slot A, in its room, as a slot of their own. */
static void
pack_sample(Worker *worker, uint32_t count, Slot *sample)
{
	FastedJoin *join = worker->join;
	const RowStore *rows = &join->slot_a->rows;
	uint32_t	width = join->kernel->width;

	*sample = *join->slot_a;
	sample->rows.rows = count;
	cpu_slot_lay_out(join, sample, true);
	for (size_t sliver = 0; sliver * width < sample->layout.padded_rows; sliver++)
	{
		const float *chosen[FASTED_MAX_WIDTH] = {NULL};

		for (uint32_t r = 0; r < width && sliver * width + r < count; r++)
			chosen[r] = cpu_sample_row(rows, (uint32_t) (sliver * width) + r, count);
		cpu_int8_pack(worker, sample, sliver, chosen);
	}
}

/* Joins a sample by INT8; whether its candidates are few enough. */
static bool
sample_is_good(Worker *worker)
{
	FastedJoin *join = worker->join;
	const RowStore *rows = &join->slot_a->rows;
	uint32_t	d = join->problem.dimensions;
	uint32_t	count = cpu_sample_count(join, SAMPLE_COORDINATES, SAMPLE_ROWS_LEAST,
											 join->block_rows);
	Strip		strip = {.rows_a = count,.blocks = 1,.diagonal = true};
	uint64_t	candidates = 0;
	uint64_t	pairs = 0;
	Slot		sample;

	pack_sample(worker, count, &sample);
	cpu_filter_strip(worker, &sample, &sample, &strip);
	for (uint32_t row = 0; row < count && !cpu_stopping(join); row++)
	{
		const float *x = cpu_sample_row(rows, row, count);

		worker->listed = 0;
		cpu_list_row(worker, &strip, row, 0);
		for (uint32_t c = 0; c < worker->listed; c++)
		{
			const float *y = cpu_sample_row(rows, worker->list[c].col, count);

			pairs += join->kernel->distance(x, y, d) <= join->problem.eps;
		}
		candidates += worker->listed;
	}
	worker->listed = 0;
	atomic_fetch_add(&join->sampled_candidates, candidates);
	atomic_fetch_add(&join->sampled_pairs, pairs);
	atomic_store(&join->filter_sampled, true);
	return (candidates - pairs) * pairs_a_recheck(d)
		<= (uint64_t) count * (count - 1) / 2;
}

/*
 * The filter of a round of slot A with itself, and of those with its partners: a
 * panel may be unlike the one before it.
 */
void
cpu_choose_filter(Worker *worker)
{
	FastedJoin *join = worker->join;
	bool		forced = join->problem.filter == FASTED_FILTER_INT8;

	if (cpu_claim(join) != 0)
		return;					/* another thread's work */
	if (!join->may_use_int8 || (!forced && join->total_rows < CHOICE_ROWS))
		return;
	cpu_int8_find_transform(worker);
	if (!cpu_stopping(join))
		atomic_store(&join->int8, forced || sample_is_good(worker));
}
