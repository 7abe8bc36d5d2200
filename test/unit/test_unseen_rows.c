/*-------------------------------------------------------------------------
 *
 * test_unseen_rows.c
 *	  What a sample may miss: as many as one row after the other gives, and soon.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "../../src/epsilon/epsilon.h"

/* PostgreSQL's names for these are macros. */
#undef printf
#undef vprintf
#include "tap.h"

/* The probability that each further row is missed, multiplied; stops where it is too small. */
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

/* Where a probability is that of a number of rows, rounding decides. */
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

/* 100 of two thousand million rows, of which one by one would be 70 million steps. */
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
		ok(same_for_all(total), "of %.0f rows", total);
	ok(is_soon(), "a thousand times of 2000000000 rows, within a second");
	return tap_done();
}
