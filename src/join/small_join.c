/*-------------------------------------------------------------------------
 *
 * small_join.c
 *	  Compares few rows, each with each.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "distance/distance.h"
#include "join/small_join.h"
#include "rows/vector.h"

size_t
SmallJoinPairs(const SmallJoin *join, const FastedRowGroup *group, FastedPair *pairs)
{
	const float *others = join->b != NULL ? join->b : join->a;
	Size		floats = RowFloats(join->element, join->dimensions);
	size_t		count = 0;

	for (uint32 a = group->first_a; a < group->first_a + group->rows_a; a++)
	{
		uint32		b = join->b != NULL ? group->first_b : a + 1;

		for (; b < group->first_b + group->rows_b; b++)
		{
			double		dist = ExactDistance(join->metric, join->element, join->a + a * floats,
											 others + b * floats, join->dimensions);

			/* a cosine distance that is not a number is within no distance */
			if (dist <= join->eps)
				pairs[count++] = (FastedPair) {.a = a,.b = b,.dist = dist};
		}
	}
	return count;
}
