/*-------------------------------------------------------------------------
 *
 * test_unseen_rows.c
 *	  Bounds on rows that a sample misses, compared with multiplication row by row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "../../src/epsilon/epsilon.h"

/* PostgreSQL's names for these are macros. */
#undef printf
#undef vprintf
#include "tap.h"

/* Multiplies the probabilities that rows are missed until the product is too small. */
static double
one_by_one(double rows, double total, double probability)
{
	double		unseen = 0.0;
	double		missed = 1.0;

	while (unseen < total - rows)
	{
		missed *= (total - rows - unseen) / (total - unseen);
		if (missed < probability)
			break;
		unseen++;
	}
	return unseen;
}

/* Allows a difference of one row, due to rounding. */
static bool
same_for_all(double total)
{
	static const double probabilities[] = {0.45, 0.1, 0.025, 0.0005, 1e-12};

	for (double rows = 1.0; rows <= total; rows += 1.0 + floor(total / 50.0))
		for (int i = 0; i < 5; i++)
			if (fabs(fasted_unseen_rows(rows, total, probabilities[i]) - one_by_one(rows, total, probabilities[i])) > 1.0)
				return false;
	return true;
}

/* Tests 100 of 2e9 rows, for which one_by_one would need 70 million steps. */
static bool
is_soon(void)
{
	clock_t		begin = clock();
	bool		right = true;

	for (int i = 0; i < 1000; i++)
	{
		double		unseen = fasted_unseen_rows(100.0, 2e9, 0.025);
		double		expected = 2e9 * (1.0 - pow(0.025, 0.01));

		right = right && fabs(unseen / expected - 1.0) < 1e-4;
	}
	return right && clock() - begin < CLOCKS_PER_SEC;
}

int
main(void)
{
	for (double total = 1.0; total < 300000.0; total = floor(total * 3.0) + 1.0)
		ok(same_for_all(total), "%.0f rows: the same bound as by multiplication", total);
	ok(is_soon(), "1000 calls for 2000000000 rows within a second");
	return tap_done();
}
