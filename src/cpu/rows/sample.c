/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  Samples of the rows of a join, and quantiles of sampled numbers.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "sample.h"

Sample
cpu_choose_sample(const FastedJoin *join, uint32_t coordinates, uint32_t least, uint32_t most)
{
	uint32_t	count = cpu_clamp(coordinates / join->context->options.dimensions, least, most);
	Sample		sample = {.rows = {&join->sets[0]->rows, &join->sets[1]->rows}};

	if (!join->self)
		count = (count + 1) / 2;
	for (int i = 0; i < join->nsets; i++)
		sample.counts[i] = count < sample.rows[i]->rows ? count
			: (uint32_t) sample.rows[i]->rows;
	return sample;
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
