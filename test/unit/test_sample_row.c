/*-------------------------------------------------------------------------
 *
 * test_sample_row.c
 *	  Sampled rows are stratified, and represent periodic data.
 *
 *-------------------------------------------------------------------------
 */
#include "../../src/engine/host_device.h"
#include "tap.h"

/* Checks that each stratum has one sampled row, for any numbers of rows. */
static bool
in_their_stretches(void)
{
	for (uint32_t rows = 1; rows <= 300; rows++)
	{
		for (uint32_t sampled = 1; sampled <= rows; sampled++)
		{
			for (uint32_t i = 0; i < sampled; i++)
			{
				uint32_t	row = fasted_sample_row(i, sampled, rows);

				if (row < (uint64_t) i * rows / sampled || row >= (uint64_t) (i + 1) * rows / sampled)
					return false;
			}
		}
	}
	return true;
}

/* Checks that a sample of periodic rows has about equally many of each. */
static bool
shows_all_of(uint32_t period, uint32_t sampled, uint32_t rows)
{
	uint32_t	seen[64] = {0};

	for (uint32_t i = 0; i < sampled; i++)
		seen[fasted_sample_row(i, sampled, rows) % period]++;
	for (uint32_t k = 0; k < period; k++)
	{
		if (seen[k] < sampled / period / 2 || seen[k] > 2 * sampled / period)
			return false;
	}
	return true;
}

int
main(void)
{
	bool		all = true;

	ok(in_their_stretches(), "one row per stratum");
	for (uint32_t period = 2; period <= 16; period++)
		all = all && shows_all_of(period, 1024, 1024 * period * 4) && shows_all_of(period, 1024, 1024 * 48) &&
			shows_all_of(period, 1024, 999999);
	ok(all, "samples represent periodic data");
	ok(fasted_sample_row(4095, 4096, UINT32_C(0x7fffffff)) < UINT32_C(0x7fffffff), "sample of the largest set");
	return tap_done();
}
