/*-------------------------------------------------------------------------
 *
 * near_share.c
 *	  A score test with its variance at each distance, inverted.
 *
 * The share p of a sample's pairs that are near is a U-statistic of order two.
 * By W. Hoeffding, A Class of Statistics with Asymptotically Normal
 * Distribution, Annals of Mathematical Statistics 19 (1948), its variance in a
 * sample of m rows is
 *
 *	  4 zeta1 / m + 2 (zeta2 - 2 zeta1) / (m (m - 1))
 *
 * where zeta1 is the covariance of two pairs that share a row, and zeta2 =
 * p (1 - p) the variance of one.  In a sample of a fraction f of the rows without
 * replacement, the first term shrinks by 1 - f, the second by 1 - f f: so the
 * covariances of pairs with two, one and no rows in common add up.
 *
 * That p is normally distributed is not so where few rows have most of the near
 * pairs.  Of k rows of a tight cluster in the sample k (k - 1) / 2 pairs are near:
 * p goes with the square of a number that chance makes small or large, and its
 * variance with k's third power.  So each side of a supposed share P is tested by
 * what holds there:
 *
 * - Is P more than p?  By the variance that p would have were P right, as E. B.
 *	 Wilson does (Probable Inference, the Law of Succession, and Statistical
 *	 Inference, JASA 22, 1927): that of clusters that grow, with zeta1's part times
 *	 (P / p) ^ 1.5, and the other times P / p.  zeta1's part is known no better
 *	 than by the rows that have neighbours, so Student's t replaces the normal
 *	 distribution for it.  A p below P by z deviations speaks against P.
 * - Is P less than p?  As if x = p p / variance were the events counted of a Poisson
 *	 distribution, by M. P. Fay and E. J. Feuer, Confidence Intervals for Directly
 *	 Standardized Rates, Statistics in Medicine 16 (1997).  The quantile of the gamma
 *	 distribution is D. P. Byar's: x (1 - 1 / (9 x) - z / (3 sqrt(x))) ^ 3.
 *
 * Where P is above one half, the same goes for the pairs that are not near.
 *
 * Rows that are not in the sample at all show in no variance.  So many rows as the
 * sample misses with a probability of half of 1 - confidence, by chance, may all
 * lie together, or far away from all others.  A share for which the pairs within
 * that many rows suffice, or the share of far pairs for which all pairs of that
 * many rows do, can't be excluded as too large.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "epsilon/near_share.h"
#include "epsilon/unseen_rows.h"
#include "utils/memutils.h"

/* How many standard deviations from the mean enclose this share of a normal distribution. */
static double
NormalDeviation(double share)
{
	double		low = 0.0;
	double		high = 10.0;

	for (int i = 0; i < 60; i++)
	{
		double		middle = (low + high) / 2.0;

		if (erf(middle / sqrt(2.0)) < share)
			low = middle;
		else
			high = middle;
	}
	return high;
}

void
ShareTestBegin(ShareTest *test)
{
	test->deviations = NormalDeviation(test->confidence);
	test->unseen = fasted_unseen_rows(test->rows, test->total, (1.0 - test->confidence) / 2.0);
	test->neighbours = MemoryContextAllocHuge(CurrentMemoryContext,
											  test->rows * sizeof(uint32));
}

/* Two rows that are near a third: how often, and how many rows have most of it. */
typedef struct Paths
{
	double		sum;			/* of c (c - 1), c being the number of a row's near ones */
	double		rows;			/* L. Kish's effective number: sum sum / sum of squares */
} Paths;

/* Of the pairs that are near; if far, of those that are not. */
static Paths
CountPaths(const ShareTest *test, const FastedPair *near, size_t count, bool far)
{
	uint32	   *neighbours = test->neighbours;
	Paths		paths = {0};
	double		squares = 0.0;

	memset(neighbours, 0, test->rows * sizeof(uint32));
	for (size_t i = 0; i < count; i++)
	{
		neighbours[near[i].a]++;
		neighbours[near[i].b]++;
	}
	for (uint32 row = 0; row < test->rows; row++)
	{
		double		c = far ? test->rows - 1.0 - neighbours[row] : neighbours[row];
		double		weight = c * (c - 1.0);

		paths.sum += weight;
		squares += weight * weight;
	}
	if (squares > 0.0)
		paths.rows = paths.sum * paths.sum / squares;
	return paths;
}

/* How much wider than a normal distribution is Student's t, with so many degrees of freedom? */
static double
WidthOfT(double z, double freedom)
{
	double		n = Max(freedom, 1.0);
	double		zz = z * z;

	return 1.0 + (zz + 1.0) / (4.0 * n) + ((5.0 * zz + 16.0) * zz + 3.0) / (96.0 * n * n);
}

/* The variance of the sample's share of near pairs: what clusters add, and the rest. */
typedef struct ShareVariance
{
	double		clusters;
	double		rest;
	double		rows;			/* that the estimate of clusters rests on */
} ShareVariance;

/*
 * zeta1 + p p is the probability that two rows are both near a third: the paths of
 * the sample by their number.  (The variance of the rows' numbers of neighbours
 * would add to zeta1 what is chance, most of it where they are mostly zero.)
 * Where all rows have as many neighbours it is negative, by p (1 - p) for each of
 * all rows.
 */
static ShareVariance
VarianceOfShare(const ShareTest *test, double p, Paths paths)
{
	double		m = test->rows;
	double		f = m / test->total;
	double		zeta1 = Max(paths.sum / (m * (m - 1) * (m - 2)) - p * p, -p * (1.0 - p) / test->total);
	double		zeta2 = p * (1.0 - p);
	double		of_zeta1 = 4.0 / m * (1.0 - f) - 4.0 / (m * (m - 1)) * (1.0 - f * f);
	double		rest = 2.0 * zeta2 / (m * (m - 1)) * (1.0 - f * f);
	ShareVariance variance;

	variance.clusters = Max(zeta1, 0.0) * of_zeta1;
	variance.rest = Max(rest + Min(zeta1, 0.0) * of_zeta1, 0.0);
	variance.rows = paths.rows;
	return variance;
}

/* The share that pairs of unseen rows may have: with one another, or with all rows. */
static double
UnseenShare(const ShareTest *test, bool far)
{
	double		all = test->total * (test->total - 1.0);

	if (far)
		return test->unseen * (2.0 * test->total - test->unseen - 1.0) / all;
	return test->unseen * (test->unseen - 1.0) / all;
}

/* Can the share be this one, though that of the sample, p, is less? */
static bool
MayBeMore(const ShareTest *test, double share, double p, ShareVariance variance)
{
	double		factor = share / p;
	double		width = WidthOfT(test->deviations, variance.rows - 1.0);
	double		supposed;

	if (p <= 0.0)
		return false;
	supposed = variance.clusters * width * width * factor * sqrt(factor) + variance.rest * factor;
	return share - p <= test->deviations * sqrt(supposed);
}

/* Can the share be this one, though that of the sample, p, is more? */
static bool
MayBeLess(const ShareTest *test, double share, double p, ShareVariance variance)
{
	double		sum = variance.clusters + variance.rest;
	double		x;
	double		root;

	if (sum <= 0.0)
		return false;
	x = p * p / sum;
	root = 1.0 - 1.0 / (9.0 * x) - test->deviations / (3.0 * sqrt(x));
	return share >= p * pow(Max(root, 0.0), 3.0);
}

ShareAnswer
TestShare(const ShareTest *test, const FastedPair *near, size_t count)
{
	bool		far = test->share > 0.5;
	double		share = far ? 1.0 - test->share : test->share;
	double		all = test->rows * (test->rows - 1.0) / 2.0;
	double		p = (far ? all - count : count) / all;
	ShareVariance variance = VarianceOfShare(test, p, CountPaths(test, near, count, far));
	bool		possible;

	if (p < share)
		possible = share <= UnseenShare(test, far) || MayBeMore(test, share, p, variance);
	else
		possible = p == share || MayBeLess(test, share, p, variance);
	if (possible)
		return SHARE_IS_POSSIBLE;
	return (p < share) == far ? SHARE_IS_MORE : SHARE_IS_LESS;
}
