/*-------------------------------------------------------------------------
 *
 * choice.cu
 *	  INT8 or FP16?  Asks a sample of the rows.
 *
 *-------------------------------------------------------------------------
 */
#include "schedule/choice.h"

#include <unistd.h>

#include "rows/sample.h"

namespace fasted
{

namespace
{

constexpr size_t kSampleCandidates = 262144;
constexpr uint32_t kMostSampled = 4096;

/*
 * Operations a second and multiprocessor in FP16, and nanoseconds that a pair of
 * rows takes at least, at about the rates that an NVIDIA H200 keeps (bench/kernel).
 */
constexpr double kRateWgmma = 5.0e12;
constexpr double kRateMma = 2.4e12;
constexpr double kTilePerPair = 1.2e-5;

/* The recheck of a candidate: both rows from memory, and what is the same for all. */
constexpr double kBytesPerSecond = 3.0e12;
constexpr double kRecheckEach = 0.3;

double
nanoseconds_a_pair(const RoundSettings &settings, Precision precision, double candidates)
{
	double		rate = settings.device.multiprocessors
		* (settings.kernel == Kernel::kWgmma ? kRateWgmma : kRateMma);
	/* as many FP16 operations a pair as a row has bytes; INT8 takes half the time */
	double		multiply = row_bytes(settings.dimensions, precision) / rate * 1e9;
	double		recheck = 8.0 * settings.dimensions / kBytesPerSecond * 1e9 + kRecheckEach;

	return std::max(multiply, kTilePerPair) + candidates * recheck;
}

/* Joins the sample with itself: its candidates, and its pairs. */
uint64_t
join_sample(Rounds &rounds, const JoinSide &side, cudaStream_t stream, uint64_t *pairs)
{
	RoundTotals before = rounds.totals();

	rounds.begin(side, side, true, stream);
	while (!rounds.finished())
	{
		rounds.pump();
		usleep(10);
	}
	*pairs = rounds.totals().pairs - before.pairs;
	return rounds.totals().candidates - before.candidates;
}

}								/* namespace */

size_t
choice_bytes(const Device &device, uint32_t dimensions)
{
	return RowSample::bytes(dimensions)
		+ Budget::rounded((size_t) kMostSampled * row_bytes(dimensions, Precision::kFp16))
		+ Budget::rounded(padded_thresholds(kMostSampled) * sizeof(uint32_t))
		+ Budget::rounded(minima_of(kMostSampled) * sizeof(uint32_t))
		+ Rounds::bytes(device, kSampleCandidates, false);
}

Choice
choose_filter(Budget &budget, const RoundSettings &settings, Quantiser &quantiser,
			  const RowTable &rows, cudaStream_t stream)
{
	Choice		choice;
	RowSample	sample;
	DeviceArray<uint8_t> values;
	DeviceArray<uint32_t> thresholds;
	DeviceArray<uint32_t> minima;
	Rounds		rounds;

	if (rows.rows < kLeastRowsForChoice || rows.dimensions > kMostDimensionsInt8
		|| budget.left() < choice_bytes(settings.device, rows.dimensions))
		return choice;

	sample.take(budget, rows, stream);

	RowTable	table = sample.table();

	values.allocate(budget, (size_t) table.rows * row_bytes(rows.dimensions, Precision::kFp16),
					"allocating device memory for a sample");
	thresholds.allocate(budget, padded_thresholds(table.rows),
						"allocating device memory for a sample");
	minima.allocate(budget, minima_of(table.rows), "allocating device memory for a sample");
	rounds.allocate(budget, settings, kSampleCandidates, false);
	for (Criterion criterion : {Criterion::kFp16, Criterion::kInt8})
	{
		uint64_t   &candidates = criterion == Criterion::kInt8 ? choice.candidates_int8
			: choice.candidates_fp16;
		JoinSide	side = {table, {values.get(), thresholds.get(), minima.get(), table.rows}, 0};

		/* from all rows, for they will be used for all of them */
		quantiser.find(precision_of(criterion), rows, stream);
		rounds.set_filter(criterion, row_bytes(rows.dimensions, precision_of(criterion)));
		quantiser.quantise(criterion, table, settings.eps,
						   {values.get(), thresholds.get(), minima.get(), nullptr}, stream);
		candidates = join_sample(rounds, side, stream, &choice.pairs);
	}

	double		pairs = 0.5 * table.rows * (table.rows - 1.0);

	choice.sampled = true;
	if (nanoseconds_a_pair(settings, Precision::kInt8, choice.candidates_int8 / pairs)
		< nanoseconds_a_pair(settings, Precision::kFp16, choice.candidates_fp16 / pairs))
		choice.criterion = Criterion::kInt8;
	return choice;
}

}								/* namespace fasted */
