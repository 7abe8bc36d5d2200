/*-------------------------------------------------------------------------
 *
 * test_bound_values.c
 *	  The functions of filter_bound.h against the formulas of doc/internals.
 *
 * Other tests show that no pair is lost.  They cannot show that each margin is as large as its
 * proof requires, because roundings rarely reach their bounds.  Here each formula is evaluated in
 * long double for random arguments.  Roundings of FP64 have either sign, so that the mean relative
 * difference is almost zero.  A margin that differs by one unit roundoff is therefore detected.
 *
 *-------------------------------------------------------------------------
 */
#include "../../src/engine/filter_bound.h"
#include "tap.h"

#define COUNT 4000

static const long double u32 = 0x1p-24L;
static const long double u64 = 0x1p-53L;

/* Differences in unit roundoffs. */
typedef struct Differences
{
	long double unit;
	long double sum;
	long double most;
	int			count;
} Differences;

/* Adds a computed value; `scale` is the magnitude to which its rounding errors are relative. */
static void
add_scaled(Differences *differences, double computed, long double formula, long double scale)
{
	long double difference = (computed - formula) / (scale * differences->unit);

	differences->sum += difference;
	if (!(fabsl(difference) <= differences->most))
		differences->most = fabsl(difference);
	differences->count++;
}

static void
add(Differences *differences, double computed, long double formula)
{
	add_scaled(differences, computed, formula, fabsl(formula));
}

static void
check(const Differences *differences, const char *name)
{
	long double mean = differences->sum / differences->count;

	ok(fabsl(mean) < 0.25L && differences->most < 16.0L,
	   "%s: differs from its formula by %.2Lf unit roundoffs on average, and by at most %.1Lf",
	   name, mean, differences->most);
}

/* Returns a random number from 2^low to 2^high. */
static double
random_magnitude(int low, int high)
{
	return exp2(low + (high - low) * random_uniform());
}

static uint32_t
random_dimensions(void)
{
	return (uint32_t) random_magnitude(0, 16);
}

static void
check_distances(void)
{
	Differences eps_upper = {.unit = u64};
	Differences reach = {.unit = u64};
	Differences small_reach = {.unit = u64};
	Differences narrowed = {.unit = u64};

	for (int i = 0; i < COUNT; i++)
	{
		uint32_t	d = random_dimensions();
		double		eps = random_magnitude(-40, 1);
		double		scale = ldexp(1.0, (int) random_below(100) - 50);
		double		error2 = random_magnitude(-300, 300);
		long double error = (d / 16.0L + 20) * u64;
		long double rounding = u32 + error;

		add(&eps_upper, fasted_eps_upper(eps, scale, d),
			(long double) eps * scale * (1 + (d + 32.0L) * u64));
		add(&reach, fasted_direction_reach(eps, d),
			(sqrtl(2 * (eps * (1 + 4 * u64) + error)) + 2 * rounding) * (1 + 8 * u64));
		add(&small_reach, fasted_direction_reach(0.0, d),
			(sqrtl(2 * error) + 2 * rounding) * (1 + 8 * u64));
		add(&narrowed, fasted_narrowed(error2, d),
			sqrtl(error2) * (1 + (d + 16.0L) * u64) + 0x1p-528L);
	}
	check(&eps_upper, "eps_upper");
	check(&reach, "direction_reach");
	check(&small_reach, "direction_reach of eps = 0");
	check(&narrowed, "narrowed");
	ok(fasted_eps_upper(0.5, 0x1p-1030, 8) == DBL_MIN && fasted_eps_upper(0.0, 1.0, 8) == 0.0 &&
	   fasted_eps_upper(-0.5, 0x1p-3, 8) < 0.0, "eps_upper does not underflow to zero");
	ok(fasted_has_direction(5e-324) && fasted_has_direction(0.5) &&
	   fasted_has_direction(DBL_MAX) && !fasted_has_direction(0.0) &&
	   !fasted_has_direction(INFINITY) && !fasted_has_direction(NAN),
	   "has_direction");
	ok(fasted_narrow(1e300) == FLT_MAX && fasted_narrow(-1e300) == -FLT_MAX &&
	   fasted_narrow(INFINITY) == FLT_MAX && fasted_narrow(-1.25) == -1.25f &&
	   fasted_narrow(1e38) == 1e38f && fasted_narrow(-1e38) == -1e38f &&
	   isnan(fasted_narrow(NAN)),
	   "narrow");
	ok(fasted_narrowed(0.0, 8) == 0x1p-528 && isinf(fasted_narrowed(INFINITY, 8)) &&
	   isinf(fasted_narrowed(NAN, 8)) && fasted_narrowed(1.0, 8) < 2.0,
	   "narrowed of special values");
}

static void
check_quantised(void)
{
	Differences rho = {.unit = u64};
	Differences exact_rho = {.unit = u64};
	Differences gamma = {.unit = u64};
	Differences half = {.unit = u64};
	Differences clamped = {.unit = u64};
	bool		good = true;

	for (int i = 0; i < COUNT; i++)
	{
		uint32_t	d = random_dimensions();
		uint32_t	extra = random_below(100);
		uint32_t	padded = (d / 32 + 1) * 32;
		double		error2 = random_magnitude(-10, 10);
		double		rounding2 = error2 * random_uniform();
		double		norm2 = random_magnitude(-10, 10);
		double		eps = random_magnitude(-10, 10);
		long double slack = (d + 16.0L) * u64;
		long double error = sqrtl(error2) * (1 + slack);
		long double norm = sqrtl(norm2) * (1 + slack);
		long double ku = ((long double) d + extra) * u32;
		long double reach = eps + 2 * sqrtl(error2);
		long double slack32 = (padded / 32 + 32.0L) * u32;
		long double mu = fasted_rotation_roundings(padded) * u32;
		long double longest = sqrtl(norm2) + sqrtl(error2) * (1 + slack32);

		good = good && fasted_sum_slack(d) == (double) slack &&
			fasted_alpha32(d) == (double) (d * 0x1p-148L);
		add(&rho, fasted_rho(error2, norm2, d), error + 2 * u64 * (norm + error) * (1 + slack));
		add(&exact_rho, fasted_rho(0.0, norm2, d), 2 * u64 * norm * (1 + slack));
		add(&gamma, fasted_gamma32(d, extra), ku / (1 - ku) * (1 + 8 * u64));
		add(&half, fasted_reach_half(sqrt(error2), eps), reach * reach / 2 * (1 + 8 * u64));
		add(&clamped, fasted_rho_clamped(rounding2, error2, norm2, padded),
			(sqrtl(rounding2) * (1 + slack32) + mu / (1 - 2 * mu) * longest) * (1 + 16 * u64) +
				0x1p-60L);
	}
	ok(good, "sum_slack and alpha32");
	check(&rho, "rho");
	check(&exact_rho, "rho without rounding");
	check(&gamma, "gamma32");
	check(&half, "reach_half");
	check(&clamped, "rho_clamped");
	ok(fasted_reach_half(0.0, 0.0) == 0.0 && fasted_reach_half(0.0, 1e-200) == DBL_MIN &&
	   fasted_reach_half(1e-200, 0.0) == DBL_MIN, "reach_half is zero only if the reach is");
	ok(fasted_rho_clamped(0.0, 0.0, 0.0, 32) == 0x1p-60, "rho_clamped of an exact row");
	ok(fasted_rotation_length(32) == 32 && fasted_rotation_length(96) == 64 &&
	   fasted_rotation_length(16384) == 16384 && fasted_rotation_length(16416) == 16384 &&
	   fasted_rotation_length(32768) == 16384, "rotation_length");
	ok(fasted_rotation_roundings(32) == 2 + 5 + 2 &&
	   fasted_rotation_roundings(96) == 2 + 2 * (6 + 2) &&
	   fasted_rotation_roundings(16384) == 2 + 14 + 2 &&
	   fasted_rotation_roundings(32768) == 2 + 2 * (14 + 2),
	   "rotation_roundings");
}

static void
check_thresholds(void)
{
	Differences whole = {.unit = u32};
	Differences cancelled = {.unit = u32};
	Differences cancelled_alpha = {.unit = u32};
	Differences cancelled_gamma = {.unit = u32};
	bool		lower = true;

	for (int i = 0; i < COUNT; i++)
	{
		double		norm2 = random_magnitude(-10, 10);
		double		half = norm2 * random_uniform() / 4.0;
		double		gamma = random_magnitude(-20, -2);
		double		alpha = norm2 * random_magnitude(-20, -2);
		long double t = (norm2 * 0.75L - gamma * norm2 - alpha - half) / 2;
		float		threshold = fasted_threshold(norm2 * 0.75, norm2, half, gamma, alpha);
		float		ulp = nextafterf(fabsf(threshold), INFINITY) - fabsf(threshold);

		/*
		 * If the terms cancel, only the margin for roundings in FP64 remains.  It is multiplied by
		 * 1 + 2 u32 and rounded down, which is 0.7 unit roundoffs on average.
		 */
		long double margin = 16 * u64 * norm2 * (1 + 2.7L * u32);

		lower = lower && threshold < t;
		add_scaled(&whole, threshold + 0.5 * ulp, t - 2 * u32 * fabsl(t), fabsl(t));
		add(&cancelled, fasted_threshold(norm2, norm2, norm2, 0, 0), -3 * margin);
		add(&cancelled_alpha, fasted_threshold(norm2, norm2, norm2 / 2, 0, norm2 / 2),
			-2.5L * margin);
		add(&cancelled_gamma, fasted_threshold(norm2, norm2, 0, 1, 0), -margin);
	}
	ok(lower, "threshold is rounded down");
	check(&whole, "threshold");
	check(&cancelled, "threshold whose terms cancel");
	check(&cancelled_alpha, "threshold that is cancelled by alpha");
	check(&cancelled_gamma, "threshold that is cancelled by gamma");
	ok(fasted_threshold(0, 0, 0, 0, 0) < 0.0f && fasted_threshold(0, 0, 0, 0, 0) > -1e-40f,
	   "threshold of zeros");
	ok(fasted_threshold(0, 0, (double) FLT_MAX / 2 * 0.9999, 0, 0) > -FLT_MAX / 4 &&
	   fasted_threshold(0, 0, (double) FLT_MAX / 2 * 1.0001, 0, 0) == -INFINITY &&
	   fasted_threshold(0, 0, (double) FLT_MAX / 2 * -0.9999, 0, 0) < FLT_MAX / 4 &&
	   fasted_threshold(0, 0, (double) FLT_MAX / 2 * -1.0001, 0, 0) == FLT_MAX / 4,
	   "the range of thresholds");

	ok(fasted_threshold_int(100, 20) == 40 && fasted_threshold_int(101, 20) == 40 &&
	   fasted_threshold_int(100, 19.5) == 40 && fasted_threshold_int(100, 20.5) == 39 &&
	   fasted_threshold_int(0, 3) == -2 && fasted_threshold_int(0, -3.5) == 1 &&
	   fasted_threshold_int(0, 0) == 0, "threshold_int");
	ok(fasted_threshold_int(0, NAN) == FASTED_INT8_EVERY &&
	   fasted_threshold_int(9e9, 4e9) == FASTED_INT8_EVERY &&
	   fasted_threshold_int(3.9e9, 3.9e9) == 0 &&
	   fasted_threshold_int(0, 2e9) == FASTED_INT8_EVERY &&
	   fasted_threshold_int(0, 1.6e9) == -800000000 &&
	   fasted_threshold_int(0, 2.0 * -(FASTED_INT8_EVERY + 1)) == FASTED_INT8_EVERY + 1 &&
	   fasted_threshold_int(0, -5e8) == 250000000 &&
	   fasted_threshold_int(0, -5e9) == FASTED_INT8_MOST,
	   "the range of threshold_int");
	ok(fasted_threshold_int16(100, 20.5) == 39.5 && fasted_threshold_int16(0, -3.5) == 1.5 &&
	   fasted_threshold_int16(0, NAN) == -INFINITY &&
	   fasted_threshold_int16(0, 0x1p50) == -INFINITY &&
	   fasted_threshold_int16(0, 0x1p49) == -0x1p48 &&
	   fasted_threshold_int16(0, 0x1.8p49) == -0x1.8p48 &&
	   fasted_threshold_int16(0, -0x1p49) == 0x1p48 &&
	   fasted_threshold_int16(0, -0x1p51) == 0x1p49 &&
	   fasted_threshold_int16(0, -INFINITY) == 0x1p49,
	   "threshold_int16");

	/* the inequalities that the special thresholds must satisfy */
	{
		int64_t		a = INT64_C(128) * 128 * FASTED_INT8_MOST_DIMENSIONS;
		int64_t		every = FASTED_INT8_EVERY;
		int64_t		padding = FASTED_INT8_PADDING;

		ok(FASTED_INT8_MOST == a / 2 && every == -(3 * a / 2 + 2) && a - padding < every &&
		   a - every < padding && INT32_MIN < -a - padding && a - every <= INT32_MAX,
		   "special thresholds do not overflow");
	}
}

static void
check_products(void)
{
	Differences reach2 = {.unit = u64};
	Differences half = {.unit = u64};
	Differences jaccard = {.unit = u64};
	bool		good = true;

	for (int i = 0; i < COUNT; i++)
	{
		uint32_t	d = random_dimensions();
		uint32_t	ones = 1 + random_below(60000);
		double		norm2 = random_magnitude(-10, 10);
		double		eps = norm2 * (2.0 * random_uniform() - 1.0);
		double		spread = random_magnitude(-10, 2);
		double		rho = random_magnitude(-10, 2);
		double		share = i < COUNT / 2 ? random_uniform() * 0.9 : 0x1p-53 * random_below(8);
		long double most = norm2 * (1 + 4 * (d + 32.0L) * u64);
		long double magnitude = most + fabsl(eps);
		long double stretched = (1 + (long double) spread) * eps;
		long double slack = 2 * (1 + 1 / (long double) spread) * rho * rho;
		long double above = share + 4 * u64;

		add_scaled(&reach2, fasted_product_reach2(norm2, eps, d), most + eps + 4 * u64 * magnitude,
				   magnitude);
		add_scaled(&half, fasted_product_half(eps, rho, spread),
				   stretched + slack + 16 * u64 * (fabsl(stretched) + slack),
				   fabsl(stretched) + slack);
		add(&jaccard, fasted_bits_reach(true, share, ones),
			above / (2 - above) * ones * (1 + 8 * u64));
		good = good && fasted_bits_reach(false, ones + share, 7) == ones / 2.0;
	}
	check(&reach2, "product_reach2");
	check(&half, "product_half");
	check(&jaccard, "bits_reach, Jaccard");
	ok(good, "bits_reach, Hamming");
	ok(fasted_product_reach2(0, 0, 8) == DBL_MIN && fasted_product_half(0, 0, 1) == DBL_MIN,
	   "products do not underflow");
	ok(fasted_bits_reach(true, 1.0 - 0x1p-51, 5) == 5.0 &&
	   fasted_bits_reach(true, 2.0, 5) == 5.0 && fasted_bits_reach(true, 0.5, 0) == 0.0,
	   "bits_reach, Jaccard, at its limits");
}

static void
check_choices(void)
{
	static const uint32_t row[7] = {1, 2, 4, 8, 16, 32, 64};

	ok(fasted_fold_bits(row, 7, 3, 0) == (1 ^ 8 ^ 64) &&
	   fasted_fold_bits(row, 7, 3, 2) == (4 ^ 32) && fasted_fold_bits(row, 7, 7, 6) == 64,
	   "fold_bits");
	ok(fasted_int16_most(32.0f * 100.0f, 32) == 10.0f &&
	   fasted_int16_most(32.0f * 99.0f, 32) == 9.0f &&
	   fasted_int16_most(0x1p40f, 32) == 32767.0f,
	   "int16_most");
	ok(fasted_integer_centre(0, 63) == 0.0f && fasted_integer_centre(0, 64) == 128.0f &&
	   fasted_integer_centre(0, 255) == 128.0f && fasted_integer_centre(-128, 127) == 0.0f &&
	   fasted_integer_centre(-128, 10) == 0.0f && fasted_integer_centre(-1, 127) == 0.0f &&
	   fasted_integer_centre(0, 256) == 128.0f && fasted_integer_centre(-1, 200) == 100.0f &&
	   fasted_integer_centre(-1, 128) == 64.0f && fasted_integer_centre(-129, 100) == -14.0f &&
	   fasted_integer_centre(0.5f, 255) == 128.0f && fasted_integer_centre(300, 555) == 428.0f,
	   "integer_centre");

	/* norms below 2^31 and 2^29; scales up to 8, of which five double the scale */
	ok(FASTED_INT16_ROW_NORM2 > 0x1.ff0p30f && FASTED_INT16_ROW_NORM2 < 0x1p31f &&
	   FASTED_INT16_NORM2 > 0x1.ff0p28f && FASTED_INT16_NORM2 < 0x1p29f &&
	   FASTED_INT16_ROOM == 4.0f && FASTED_INT8_LARGEST_INTEGER == 0x1p22f &&
	   fabs(pow(FASTED_INT8_SCALE_STEP, 5) - 2.0) < 1e-6 &&
	   fabs(pow(FASTED_INT8_SCALE_STEP, FASTED_INT8_SCALES - 1) - 8.0) < 1e-5,
	   "constants of the integer encodings");

	/* the first numbers of splitmix64 with seed 0 */
	ok(fasted_sign_bits(0, 0) == UINT64_C(0xe220a8397b1dcdaf) &&
	   fasted_sign_bits(0, 1) == UINT64_C(0x6e789e6aa1b965f4) &&
	   fasted_sign_bits(1, 0) == UINT64_C(0x06c45d188009454f) &&
	   fasted_sign_bits(1, 1) == UINT64_C(0xf88bb8a8724c81ec),
	   "sign_bits");
}

static void
check_pruning(void)
{
	Differences stretch = {.unit = u64};
	Differences product = {.unit = u64};
	Differences projection = {.unit = u64};
	Differences image = {.unit = u64};
	Differences residual = {.unit = u64};
	Differences no_residual = {.unit = u64};
	Differences moved = {.unit = u64};
	bool		good = true;

	for (int i = 0; i < COUNT; i++)
	{
		uint32_t	d = random_dimensions();
		uint32_t	directions = 1 + random_below(127);
		double		eta = random_magnitude(-20, -1);
		double		gamma = random_magnitude(-20, -4);
		double		norm = random_magnitude(-10, 10);
		double		projected = norm * random_uniform();
		double		projected2 = projected * projected;
		double		norm2 = norm * norm;
		double		error = norm * random_magnitude(-20, -4);
		long double rows = sqrtl(directions * (1 + (long double) eta));
		long double pieces = fasted_gamma32(64, 2) + (d + 32.0L) * u64;
		long double slack = 2 * (d + 48.0L) * u64;
		long double image_norm = sqrtl(projected2) * (1 + slack);
		long double longest = image_norm + error;
		long double error2 = (slack * ((long double) norm2 + projected2) +
							  error * (2 * image_norm + error) + eta * longest * longest) *
							 (1 + 16 * u64);
		double		large = (double) sqrtl(error2) * (1.5 + random_uniform());
		long double level = sqrtl((long double) error * error + (long double) gamma * gamma);

		add(&stretch, fasted_prune_stretch(eta),
			sqrtl(1 + eta + (long double) eta * eta) * (1 + 8 * u64));
		add(&product, fasted_prune_product_error(gamma, norm, projected, eta, directions, d),
			(gamma * rows * norm + 2 * u32 * projected + d * 0x1p-148L * rows) * (1 + 16 * u64) +
				0x1p-140L);
		add(&projection, fasted_prune_projection_error(norm, projected, eta, directions, d),
			(pieces * rows * norm + 2 * u32 * projected + d * 0x1p-148L * rows) * (1 + 16 * u64) +
				0x1p-140L);
		good = good && fasted_prune_gamma_fp32(d) ==
			fasted_gamma32(64 + d / 64 + (d % 64 > 0), 2);
		add(&image, fasted_prune_image_error(norm, d),
			u32 * norm * (1 + 16 * u64) + d * 0x1p-149L);
		add(&residual, fasted_prune_residual_error(norm2, projected2, large, error, eta, d),
			(error2 / large + 2 * u32 * large) * (1 + 16 * u64) + 0x1p-140L);
		add(&no_residual, fasted_prune_residual_error(norm2, projected2, 0.0, error, eta, d),
			sqrtl(error2) * (1 + 16 * u64) + 0x1p-140L);
		add(&moved, fasted_prune_moved(norm, eta, error, gamma),
			(sqrtl(1 + eta + (long double) eta * eta) * (1 + 8 * u64) * norm + level) *
				(1 + 16 * u64));
	}
	check(&stretch, "prune_stretch");
	check(&product, "prune_product_error");
	check(&projection, "prune_projection_error");
	ok(good, "prune_gamma_fp32");
	check(&image, "prune_image_error");
	check(&residual, "prune_residual_error");
	check(&no_residual, "prune_residual_error of a row without residual");
	check(&moved, "prune_moved");
	ok(fasted_prune_product_error(0.5, 0.0, 0.0, 0.0, 4, 0) == 0x1p-140 &&
	   fasted_prune_residual_error(0.0, 0.0, 0.0, 0.0, 0.0, 8) == 0x1p-140 &&
	   fasted_prune_image_error(0.0, 8) == 0x1p-146 &&
	   fasted_prune_product_error(0.5, 0.0, 0.0, 0.0, 4, 512) ==
	   (0x1p-138 * (1.0 + 16 * 0x1p-53)) + 0x1p-140, "errors of rows of zeros");
}

int
main(void)
{
	random_seed();
	check_distances();
	check_quantised();
	check_thresholds();
	check_products();
	check_choices();
	check_pruning();
	return tap_done();
}
