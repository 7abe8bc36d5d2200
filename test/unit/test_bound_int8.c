/*-------------------------------------------------------------------------
 *
 * test_bound_int8.c
 *	  The error bound of INT8 rows: no pair of the result fails the filter.
 *
 * Rows are centred, scaled, rotated and rounded as doc/internals/bound-int8.md describes, with
 * the functions of filter_bound.h.  Clamping counts either as an error or as a part of the
 * image. eps is exactly the distance of the pair.  Some pairs are exactly on the bound: if rho
 * is one percent smaller, they are lost.  This shows that the test can fail.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../../src/engine/exact_distance.h"
#include "../../src/engine/filter_bound.h"
#include "tap.h"

#define MAX_D 2048

/* The transformation of a set of rows. */
typedef struct Image
{
	uint32_t	d;
	uint32_t	padded;
	float		centre[MAX_D];
	float		scale;
	bool		lossless;		/* no rotation, scale 1 */
} Image;

typedef struct Quantised
{
	int8_t		q[MAX_D];
	float		rounding2;
	float		error2;
	double		norm2;
	bool		exact;
} Quantised;

typedef struct Pair
{
	Image		image;
	float		x[MAX_D];
	float		y[MAX_D];
} Pair;

/* Kinds of difficult pairs. */
typedef enum Kind
{
	ANY_SIZE,
	OFFSET,
	ALL_SIZES,
	OUTLIER,
	ROUNDED_APART,
	ROUNDED_APART_LOSSLESS,
	ROUNDED_APART_BEYOND,
	INTEGERS,
	NOT_QUITE_INTEGERS,
	TINY,
	KINDS
} Kind;

static const char *const names[KINDS] = {
	"any magnitude", "offset", "mixed magnitudes", "an outlier", "moved apart by rounding",
	"moved apart by rounding, not rotated",
	"moved apart by rounding, some out of INT8 range", "integers", "near integers", "tiny"
};

static float signs[2][MAX_D];

/* Clamping is part of the image, as in the CPU engine; otherwise it is an error. */
static bool clamped;

/* Orthonormal Walsh-Hadamard transform in FP32, in place. */
static void
transform(float *v, uint32_t length)
{
	float		root = (float) (1.0 / sqrt(length));

	for (uint32_t i = 0; i < length; i++)
		v[i] *= root;
	for (uint32_t half = 1; half < length; half *= 2)
		for (uint32_t i = 0; i < length; i++)
			if ((i & half) == 0)
			{
				float		a = v[i];
				float		b = v[i + half];

				v[i] = a + b;
				v[i + half] = a - b;
			}
}

static void
rotate(float *v, uint32_t padded)
{
	uint32_t	length = fasted_rotation_length(padded);
	uint32_t	rest = padded - length;

	for (uint32_t k = 0; k < length; k++)
		v[k] *= signs[0][k];
	transform(v, length);
	if (rest == 0)
		return;
	for (uint32_t k = 0; k < length; k++)
		v[rest + k] *= signs[1][k];
	transform(v + rest, length);
}

/* The nearly exact inverse: returns a row whose image is v. */
static void
rotate_back(double *v, uint32_t padded)
{
	uint32_t	length = fasted_rotation_length(padded);

	for (int pass = length < padded ? 1 : 0; pass >= 0; pass--)
	{
		double	   *at = pass == 1 ? v + (padded - length) : v;

		for (uint32_t half = 1; half < length; half *= 2)
			for (uint32_t i = 0; i < length; i++)
				if ((i & half) == 0)
				{
					double		a = at[i];
					double		b = at[i + half];

					at[i] = a + b;
					at[i + half] = a - b;
				}
		for (uint32_t k = 0; k < length; k++)
			at[k] *= signs[pass][k] / sqrt(length);
	}
}

/* Computes the image of a row in FP32. */
static void
image_of(const Image *image, const float *row, float *v)
{
	memset(v, 0, MAX_D * sizeof(float));
	for (uint32_t k = 0; k < image->d; k++)
		v[k] = (row[k] - image->centre[k]) * image->scale;
	if (!image->lossless)
		rotate(v, image->padded);
}

static void
quantise(const Image *image, const float *row, Quantised *out)
{
	static float v[MAX_D];
	float		sums[32] = {0};
	float		roundings[32] = {0};

	image_of(image, row, v);
	memset(out, 0, sizeof(*out));
	out->exact = image->lossless;
	for (uint32_t k = 0; k < image->padded; k++)
	{
		float		inside = fminf(fmaxf(v[k], -128.0f), 127.0f);
		float		q = rintf(inside);
		float		error = v[k] - q;

		out->q[k] = (int8_t) q;
		out->norm2 += (double) q * q;
		sums[k % 32] = fmaf(error, error, sums[k % 32]);
		roundings[k % 32] = fmaf(inside - q, inside - q, roundings[k % 32]);
		if (k < image->d && image->centre[k] + q != row[k])
			out->exact = false;
	}
	for (int i = 0; i < 32; i++)
	{
		out->error2 += sums[i];
		out->rounding2 += roundings[i];
	}
}

/* `part` is the factor for rho; 1 gives the real bound. */
static int32_t
threshold(const Image *image, const Quantised *row, double eps, double part)
{
	double		rho = row->exact ? 0.0
		: fasted_rho_clamped(clamped ? row->rounding2 : row->error2, row->error2, row->norm2, image->padded);

	return fasted_threshold_int(row->norm2,
								fasted_reach_half(rho * part,
												  fasted_eps_upper(eps, image->scale, image->d)));
}

static int32_t
product(const Quantised *x, const Quantised *y, uint32_t padded)
{
	int32_t		sum = 0;

	for (uint32_t k = 0; k < padded; k++)
		sum += x->q[k] * y->q[k];
	return sum;
}

/*
 * Makes two rows that rounding moves apart along their difference.  With `beyond`, one
 * coordinate in four of both rows is out of INT8 range.
 */
static void
make_rounded_apart(Pair *pair, uint32_t apart, bool beyond)
{
	static double v[MAX_D];
	static double w[MAX_D];
	Image	   *image = &pair->image;

	for (uint32_t k = 0; k < image->d; k++)
	{
		double		sign = random_below(2) ? 1.0 : -1.0;
		int			a = (int) random_below(150) - 75;

		v[k] = a + sign * 0.5005;
		w[k] = a - sign * (apart + 0.5005);
		if (beyond && k % 4 == 0)
			v[k] = w[k] = sign * (200.0 + a);
	}
	if (!image->lossless)
	{
		rotate_back(v, image->padded);
		rotate_back(w, image->padded);
	}
	for (uint32_t k = 0; k < image->d; k++)
	{
		pair->x[k] = (float) (v[k] / image->scale);
		pair->y[k] = (float) (w[k] / image->scale);
	}
}

/* Returns a scale that approximately fits the row. */
static float
some_scale(const Image *image, const float *row)
{
	static float v[MAX_D];
	double		largest = 0;

	image_of(image, row, v);
	for (uint32_t k = 0; k < image->padded; k++)
		largest = fmax(largest, fabs(v[k]));
	if (!(largest > 0 && largest < 1e38))
		return 1.0f;
	return (float) fmin(fmax(exp(random_normal()) * 127 / largest, 0x1p-110), 0x1p110);
}

static void
make_coordinate(Pair *pair, Kind kind, uint32_t k, double size, double step)
{
	double		v = random_normal();
	double		w = random_normal();
	float	   *x = &pair->x[k];
	float	   *y = &pair->y[k];
	float	   *centre = &pair->image.centre[k];

	switch (kind)
	{
		case ANY_SIZE:
			*x = (float) (v * size);
			*y = (float) ((v + step * w) * size);
			break;
		case OFFSET:
			*x = (float) (1e4 + v);
			*y = (float) (1e4 + v + step * w);
			*centre = (float) (1e4 * random_uniform());
			break;
		case ALL_SIZES:
			*x = (float) ldexp(v, (int) random_below(250) - 125);
			*y = random_below(2) ? *x : (float) ldexp(w, (int) random_below(250) - 125);
			break;
		case OUTLIER:
			*x = (float) v;
			*y = (float) (v * 1000 * (1 + step));
			break;
		case INTEGERS:
			*x = (float) random_below(256);
			*y = random_below(3) ? *x : (float) random_below(256);
			*centre = 128;
			break;
		case NOT_QUITE_INTEGERS:
			*x = (float) random_below(300);
			*y = *x + (random_below(8) ? 0.0f : (float) (w * step));
			*centre = 100;
			break;
		default:
			*x = (float) ldexp(v, -140);
			*y = (float) ldexp(v + step * w, -140);
			break;
	}
}

static void
make_pair(Pair *pair, Kind kind)
{
	static const uint32_t dims[] = {1, 2, 31, 32, 64, 96, 100, 257, 960, 2048};
	Image	   *image = &pair->image;
	double		size = ldexp(1.0, (int) random_below(200) - 100);
	double		step = ldexp(1.0, -(int) random_below(20));

	memset(pair, 0, sizeof(*pair));
	image->d = dims[random_below(10)];
	image->padded = (image->d + 31) / 32 * 32;
	image->scale = 1.0f;
	image->lossless = kind == ROUNDED_APART_LOSSLESS || kind == ROUNDED_APART_BEYOND
		|| kind == INTEGERS || kind == NOT_QUITE_INTEGERS;
	if (kind == ROUNDED_APART || kind == ROUNDED_APART_LOSSLESS || kind == ROUNDED_APART_BEYOND)
	{
		if (kind == ROUNDED_APART)
		{
			image->d = image->padded;
			image->scale = (float) exp(10 * random_normal());
		}
		make_rounded_apart(pair, random_below(4), kind == ROUNDED_APART_BEYOND);
		return;
	}
	for (uint32_t k = 0; k < image->d; k++)
		make_coordinate(pair, kind, k, size, step);
	if (!image->lossless)
		image->scale = some_scale(image, pair->x);
}

/* Returns whether the pair is lost if eps is its distance. */
static bool
is_lost(const Pair *pair, double part)
{
	static Quantised x;
	static Quantised y;
	double		eps = fasted_exact_distance(pair->x, pair->y, pair->image.d);
	int32_t		p;
	int64_t		left;

	quantise(&pair->image, pair->x, &x);
	quantise(&pair->image, pair->y, &y);
	p = product(&x, &y, pair->image.padded);
	left = (int64_t) p - threshold(&pair->image, &y, eps, part);
	return left < INT32_MIN || left > INT32_MAX
		|| left < threshold(&pair->image, &x, eps, part);
}

static int
run_kind(Kind kind, int count, double part)
{
	static Pair pair;
	int			lost = 0;

	for (int i = 0; i < count; i++)
	{
		make_pair(&pair, kind);
		lost += is_lost(&pair, part);
	}
	return lost;
}

/* Compares the integer threshold with T = (N - R^2 / 2) / 2 in long double. */
static void
check_threshold(void)
{
	bool		below = true;
	bool		close = true;

	for (int i = 0; i < 1000000; i++)
	{
		double		norm2 = random_below(2u << random_below(29));
		double		eps = random_below(4) ? ldexp(random_uniform(), (int) random_below(16))
			: random_below(1000);
		double		rho = random_below(2) ? 0.0 : ldexp(random_uniform(), (int) random_below(10));
		long double reach = (long double) eps + 2.0L * rho;
		long double exact = (norm2 - reach * reach / 2) / 2;
		int32_t		n = fasted_threshold_int(norm2, fasted_reach_half(rho, eps));

		below = below && (n <= exact || n == FASTED_INT8_EVERY);
		close = close && (n >= exact - 1.0001L || exact < FASTED_INT8_EVERY);
	}
	ok(below, "no integer threshold is above the exact one");
	ok(close, "no integer threshold is more than 1 below the exact one");
	ok(fasted_reach_half(0, 0) == 0 && fasted_reach_half(0, 1e-300) > 0 &&
	   fasted_reach_half(INFINITY, 0) == INFINITY && fasted_reach_half(1e200, 0) == INFINITY &&
	   isnan(fasted_reach_half(NAN, 0)) && fasted_threshold_int(10, 0) == 5 &&
	   fasted_threshold_int(11, 0) == 5 && fasted_threshold_int(10, 2.5) == 3 &&
	   fasted_threshold_int(10, 1e-300) == 4 && fasted_threshold_int(10, -3.5) == 6 &&
	   fasted_threshold_int(0, 0) == 0 && fasted_threshold_int(1, INFINITY) == FASTED_INT8_EVERY &&
	   fasted_threshold_int(1, NAN) == FASTED_INT8_EVERY &&
	   fasted_threshold_int(1, -1e200) == FASTED_INT8_MOST, "threshold at extreme arguments");
	ok(fasted_rotation_length(32) == 32 && fasted_rotation_length(96) == 64 &&
	   fasted_rotation_length(32768) == 16384 &&
	   fasted_rotation_roundings(32) == 9 && fasted_rotation_roundings(960) == 24 &&
	   fasted_rotation_roundings(32768) == 34, "length and number of roundings of the rotation");
}

/* The longest rows with the largest coordinates: all differences fit into INT32. */
static void
check_limits(void)
{
	int64_t		largest = INT64_C(128) * 128 * FASTED_INT8_MOST_DIMENSIONS;
	int32_t		rows[] = {
		FASTED_INT8_EVERY, fasted_threshold_int((double) largest, 0),
		fasted_threshold_int((double) largest, 0.5), fasted_threshold_int(0, 0),
		fasted_threshold_int(0, 8e8), fasted_threshold_int(0, 5e9),
		fasted_threshold_int((double) largest, -1e12)
	};
	int64_t		products[] = {-largest, -1, 0, 1, largest};
	bool		fits = true;
	bool		every = true;
	bool		padding = true;

	for (int p = 0; p < 5; p++)
		for (int y = 0; y < 7; y++)
		{
			int64_t		left = products[p] - rows[y];
			int64_t		padded = products[p] - FASTED_INT8_PADDING;

			fits = fits && left <= INT32_MAX && left >= INT32_MIN &&
				padded >= INT32_MIN && -(int64_t) rows[y] <= INT32_MAX;
			every = every && left >= FASTED_INT8_EVERY;
			padding = padding && left < FASTED_INT8_PADDING && padded < FASTED_INT8_PADDING;
			for (int x = 0; x < 7; x++)
				padding = padding && padded < rows[x];
		}
	ok(largest == 1 << 29 && rows[1] == largest / 2, "the largest product is 2^29");
	ok(fits, "no difference overflows");
	ok(every, "a row with the lowest threshold passes with every row");
	ok(padding, "padding passes with no row");
}

#define SET_ROWS 500

/* Returns the number of candidates per pair, or -1 if a pair is lost. */
static double
candidates_per_pair(Pair *work, float (*rows)[MAX_D], double eps, double slack2)
{
	Quantised  *quantised = must_alloc(SET_ROWS * sizeof(Quantised));
	int32_t    *n = must_alloc(SET_ROWS * sizeof(int32_t));
	int			pairs = 0;
	int			candidates = 0;
	bool		good = true;

	for (int i = 0; i < SET_ROWS; i++)
	{
		quantise(&work->image, rows[i], &quantised[i]);
		n[i] = threshold(&work->image, &quantised[i], eps, 1);
	}
	for (int i = 0; i < SET_ROWS; i++)
		for (int j = i + 1; j < SET_ROWS; j++)
		{
			double		dist = fasted_exact_distance(rows[i], rows[j], work->image.d);
			bool		candidate = product(&quantised[i], &quantised[j], work->image.padded)
				- n[j] >= n[i];

			pairs += dist <= eps;
			candidates += candidate;
			good = good && (candidate || !(dist <= eps));
			good = good && !(candidate && dist * dist > eps * eps + slack2);
		}
	free(quantised);
	free(n);
	return good && pairs > 0 ? (double) candidates / pairs : -1;
}

/* Checks that clamping as part of the image keeps long rows from being candidates of all. */
static void
check_long_rows(void)
{
	static Pair work;
	static Quantised rows[SET_ROWS];
	float		row[MAX_D] = {0};
	int32_t		n[SET_ROWS];
	int			candidates[2] = {0, 0};

	work.image.d = work.image.padded = 128;
	work.image.scale = 36;
	for (int i = 0; i < SET_ROWS; i++)
	{
		for (uint32_t k = 0; k < 128; k++)
			row[k] = (float) (random_normal() * (i < 10 ? 5 + 2 * i : 1));
		quantise(&work.image, row, &rows[i]);
	}
	for (int way = 0; way < 2; way++)
	{
		clamped = way == 1;
		for (int i = 0; i < SET_ROWS; i++)
			n[i] = threshold(&work.image, &rows[i], 3.0, 1);
		for (int i = 0; i < 10; i++)
			for (int j = 10; j < SET_ROWS; j++)
				candidates[way] += product(&rows[i], &rows[j], 128) - n[j] >= n[i];
	}
	ok(candidates[0] > 9 * (SET_ROWS - 10) && candidates[1] == 0,
	   "long rows have %d candidates, and %d if clamping is part of the image",
	   candidates[0], candidates[1]);
}

/* Tests rows of 8-bit integers, and clusters of rows of length 1. */
static void
check_sets(void)
{
	static Pair work;
	static float hubs[20][MAX_D];
	float		(*rows)[MAX_D] = must_alloc(SET_ROWS * sizeof(*rows));
	double		ratio;

	memset(&work, 0, sizeof(work));
	work.image.d = work.image.padded = 128;
	work.image.scale = 1;
	work.image.lossless = true;
	for (uint32_t k = 0; k < 128; k++)
		work.image.centre[k] = 128;
	for (int i = 0; i < SET_ROWS; i++)
		for (uint32_t k = 0; k < 128; k++)
			rows[i][k] = i > 0 && random_below(100) ? rows[i - 1][k] : (float) random_below(256);
	ratio = candidates_per_pair(&work, rows, 400, 4);
	ok(ratio >= 1, "8-bit rows: %.3f candidates per pair, due to rounding down", ratio);

	for (uint32_t d = 128; d <= 1024; d += 256)
	{
		work.image.d = work.image.padded = d;
		work.image.lossless = false;
		work.image.scale = (float) (36 * sqrt(d));
		memset(work.image.centre, 0, sizeof(work.image.centre));
		for (int i = 0; i < 20; i++)
			for (uint32_t k = 0; k < d; k++)
				hubs[i][k] = (float) random_normal();
		for (int i = 0; i < SET_ROWS; i++)
		{
			double		norm2 = 0;

			for (uint32_t k = 0; k < d; k++)
			{
				rows[i][k] = (float) (hubs[i % 20][k] + 0.5 * random_normal());
				norm2 += (double) rows[i][k] * rows[i][k];
			}
			for (uint32_t k = 0; k < d; k++)
				rows[i][k] = (float) (rows[i][k] / sqrt(norm2));
		}
		ratio = candidates_per_pair(&work, rows, 0.632, INFINITY);
		ok(ratio >= 1 && ratio < 10, "clusters at d = %u: %.2f candidates per pair", d, ratio);
	}
	free(rows);
}

int
main(void)
{
	random_seed();
	for (int i = 0; i < 2 * MAX_D; i++)
		signs[i / MAX_D][i % MAX_D] = random_below(2) ? 1.0f : -1.0f;
	check_threshold();
	check_limits();
	for (int way = 0; way < 2; way++)
	{
		const char *image = way == 1 ? "clamped, " : "";

		clamped = way == 1;
		for (int kind = 0; kind < KINDS; kind++)
		{
			int			lost = run_kind((Kind) kind, 2000, 1);

			ok(lost == 0, "%s%s: %d pairs lost", image, names[kind], lost);
		}

		/* the test can fail: these rows are on the bound, so that a smaller rho loses pairs */
		for (int kind = ROUNDED_APART; kind <= (clamped ? ROUNDED_APART_BEYOND : ROUNDED_APART_LOSSLESS); kind++)
		{
			int			without = run_kind((Kind) kind, 500, 0);
			int			less = run_kind((Kind) kind, 500, 0.99);

			ok(without > 0, "%s%s: without rho, %d of 500 are lost", image, names[kind], without);
			ok(less > 0, "%s%s: with 0.99 rho, %d of 500 are lost", image, names[kind], less);
		}
	}
	check_long_rows();
	clamped = false;
	check_sets();
	return tap_done();
}
