/*-------------------------------------------------------------------------
 *
 * engine_bench.cu
 *	  Time each step of a join in the engine, in milliseconds.
 *
 *	engine_bench [--n N,N,...] [--d D] [--runs R] [--filter auto|int8|fp16]
 *				 [--panels P] [--devices LIST] [--put 1] [--groups G] [--eps E]
 *				 [--output pairs|count]
 *
 * The rows are in pageable host memory, and are copied to one staging buffer after the other.
 * Every row of the first half (of a partition) has a near row in the second half.
 *
 *	--panels P			limits the memory to an outer panel of about n / P rows; by
 *						default a million rows of 128 dimensions are joined
 *	--devices LIST		uses several GPUs, listed as in fasted.gpu_devices
 *	--put 1				registers the rows and puts 2 MiB of them at a time, as rows that
 *						parallel workers have read
 *	--groups G			joins only rows of the same one of G partitions
 *
 * The program prints medians of R joins in one process.  The first join is not counted.
 * The steps are:
 *
 *	open	open the engine, and create an empty row set
 *	room	wait for a staging buffer, and allocate device memory for rows; or register them
 *	copy	copy rows to staging buffers, and start their transfer; or put them
 *	start	complete the rows, and copy them to the other GPUs; or allocate panels
 *	next	allocate memory for candidates, choose the filter, and return all pairs
 *	close	release all memory
 *
 *-------------------------------------------------------------------------
 */
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/panel_join.h"
#include "numbers.h"

using bench::median;
using bench::split;

extern "C" const FastedEngine *fasted_engine(void);

namespace
{

const FastedEngine *bench_engine = fasted_engine();

enum Step
{
	kOpen,
	kRoom,
	kCopy,
	kStart,
	kNext,
	kClose,
	kSteps
};

const char *const step_names[kSteps] = {"open", "room", "copy", "start", "next", "close"};

struct Run
{
	double		ms[kSteps] = {};
	FastedStats stats;
};

/* Adds the time since the last call to a step. */
class Laps
{
public:
	explicit Laps(Run *run) : run_(run), last_(Clock::now()) {}
	void lap(Step step)
	{
		Clock::time_point now = Clock::now();

		run_->ms[step] += std::chrono::duration<double, std::milli>(now - last_).count();
		last_ = now;
	}

private:
	using Clock = std::chrono::steady_clock;
	Run		   *run_;
	Clock::time_point last_;
};

void
check(FastedStatus status, const PanelJoin *join)
{
	if (!FASTED_FAILED(status))
		return;
	fprintf(stderr, "engine_bench: %s\n", panel_join_last_error(bench_engine, join));
	exit(1);
}

/*
 * Generates n rows with numbers in [0, 1).  In each partition of "group" rows, the
 * second half is a perturbed copy of the first half.
 */
std::vector<float>
make_rows(size_t n, size_t d, size_t group)
{
	std::vector<float> rows(n * d);
	uint32_t	x = 2463534242u;
	size_t		near = group / 2 * d;

	for (size_t i = 0; i < rows.size(); i++)
	{
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		rows[i] = (x >> 8) * 0x1p-24f;
		if (i / d % group >= group / 2 && group > 1)
			rows[i] = rows[i - near] + 0.01f * rows[i];
	}
	return rows;
}

/* Describes the partitions of "group" rows each. */
std::vector<FastedPartition>
groups_of(size_t n, size_t group)
{
	std::vector<FastedPartition> partitions;

	for (size_t first = 0; first < n; first += group)
	{
		uint32_t	rows = (uint32_t) std::min(group, n - first);

		partitions.push_back({(uint32_t) first, rows, (uint32_t) first, rows});
	}
	return partitions;
}

/* Stages count rows, or as many as fit; returns FASTED_FULL if not all rows fit. */
FastedStatus
stage_rows(PanelJoin *join, const float *rows, size_t d, size_t count, Laps &laps)
{
	for (size_t done = 0; done < count;)
	{
		float	   *buffer;
		size_t		some;
		FastedStatus status = panel_join_stage(join, 0, &buffer, &some);

		check(status, join);
		laps.lap(kRoom);
		if (status == FASTED_FULL)
			return status;
		some = std::min(some, count - done);
		memcpy(buffer, rows + done * d, some * d * sizeof(float));
		check(panel_join_commit(join, 0, some), join);
		laps.lap(kCopy);
		done += some;
	}
	return FASTED_OK;
}

/* Registers all rows, and puts them.  They are read when the function returns. */
void
put_rows(PanelJoin *join, std::vector<float> &rows, size_t d, Laps &laps)
{
	size_t		most = ((size_t) 2 << 20) / (d * sizeof(float)) + 1;

	if (!panel_join_register_memory(join, 0, rows.data(), rows.size() * sizeof(float)))
	{
		fprintf(stderr, "engine_bench: memory was not registered\n");
		exit(1);
	}
	laps.lap(kRoom);
	for (size_t done = 0, taken = 1; done < rows.size() / d && taken > 0; done += taken)
		check(panel_join_put(join, 0, rows.data() + done * d, std::min(most, rows.size() / d - done), &taken),
			  join);
	check(panel_join_wait_read(join, 0, true), join);
	laps.lap(kCopy);
	panel_join_unregister_memory(join, 0);
	laps.lap(kRoom);
}

/* Runs one join and returns the time of each step. */
Run
join_once(const PanelProblem &problem, std::vector<float> &rows, bool put)
{
	PanelJoin  *join = nullptr;
	FastedBatch batch;
	FastedStatus status;
	Run			run;
	Laps		laps(&run);
	size_t		d = problem.options.dimensions;
	uint64_t	n = rows.size() / d;

	check(panel_join_open(bench_engine, &problem, &join), join);
	laps.lap(kOpen);
	if (put)
		put_rows(join, rows, d, laps);
	else
		stage_rows(join, rows.data(), d, n, laps);
	check(panel_join_start(join, &n), join);
	laps.lap(kStart);
	while ((status = panel_join_next(join, 100, &batch)) != FASTED_DONE)
	{
		check(status, join);
		laps.lap(kNext);
		if (status == FASTED_WANT_ROWS)
			stage_rows(join, rows.data() + batch.first_row * d, d, batch.row_count, laps);
	}
	laps.lap(kNext);
	panel_join_stats(join, &run.stats);
	panel_join_close(join);
	laps.lap(kClose);
	return run;
}

/* Returns the memory, in bytes, for an outer panel of this many rows and its inner panels. */
uint64_t
memory_for(const FastedOptions &options, uint64_t rows)
{
	const FastedEngine *engine = bench_engine;
	uint64_t	sets[3] = {rows, rows / 8 + 1, rows / 8 + 1};
	uint64_t	low = 1 << 20;
	uint64_t	high = (uint64_t) 1 << 40;

	while (high - low > 1 << 20)
	{
		FastedOptions tried = options;
		FastedContext *context = nullptr;

		tried.device_memory_limit = low + (high - low) / 2;
		if (engine->open(&tried, &context) == FASTED_OK && engine->fits(context, sets, 3))
			high = tried.device_memory_limit;
		else
			low = tried.device_memory_limit;
		engine->close(context);
	}
	return high;
}

void
measure(size_t n, PanelProblem problem, double panels, uint32_t npartitions, int runs, bool put)
{
	uint32_t	d = problem.options.dimensions;
	size_t		group = std::max<size_t>(1, n / std::max(1u, npartitions));
	std::vector<float> rows = make_rows(n, d, group);
	std::vector<FastedPartition> partitions = groups_of(n, group);
	std::vector<Run> done;
	double		sum = 0;

	problem.expected_rows[0] = n;
	if (npartitions > 0)
	{
		problem.problem.partitions = partitions.data();
		problem.problem.npartitions = (uint32_t) partitions.size();
	}
	if (panels > 1)
		problem.options.device_memory_limit = memory_for(problem.options, (uint64_t) ceil(n / panels));
	for (int i = 0; i <= runs; i++)
		done.push_back(join_once(problem, rows, put));
	done.erase(done.begin());	/* the first join initializes the GPU */
	printf("%8zu %5u %5s", n, d, done.back().stats.filter);
	for (int step = 0; step < kSteps; step++)
	{
		std::vector<double> ms;

		for (const Run &run : done)
			ms.push_back(run.ms[step]);
		sum += median(ms);
		printf(" %8.2f", median(ms));
	}
	printf(" %8.2f   %llu pairs, device %.2f, quantization %.2f", sum,
		   (unsigned long long) done.back().stats.pairs,
		   done.back().stats.device_seconds * 1e3, done.back().stats.prepare_seconds * 1e3);
	if (panels > 1)
		printf(", %u panels in %.0f MiB", done.back().stats.panels,
			   problem.options.device_memory_limit / 1048576.0);
	printf(", %s\n", done.back().stats.device);
	fflush(stdout);
}

}								/* namespace */

int
main(int argc, char **argv)
{
	PanelProblem problem = {};
	std::vector<std::string> sizes;
	double		panels = 0;
	uint32_t	partitions = 0;
	int			runs = 5;
	bool		put = false;

	problem.sides = 1;
	problem.problem.eps = 0.5;
	for (int i = 1; i + 1 < argc; i += 2)
	{
		std::string key = argv[i];

		if (key == "--n")
			sizes = split(argv[i + 1]);
		else if (key == "--d")
			problem.options.dimensions = (uint32_t) atoi(argv[i + 1]);
		else if (key == "--runs")
			runs = atoi(argv[i + 1]);
		else if (key == "--panels")
			panels = atof(argv[i + 1]);
		else if (key == "--groups")
			partitions = (uint32_t) atoi(argv[i + 1]);
		else if (key == "--eps")
			problem.problem.eps = atof(argv[i + 1]);
		else if (key == "--devices")
		{
			problem.options.devices = argv[i + 1];
			bench_engine = fasted_multi_gpu_engine(fasted_engine());
		}
		else if (key == "--put")
			put = atoi(argv[i + 1]) > 0;
		else if (key == "--output")
			problem.problem.output = strcmp(argv[i + 1], "count") == 0 ? FASTED_OUTPUT_COUNT
				: FASTED_OUTPUT_PAIRS;
		else if (key == "--filter")
			problem.options.filter = strcmp(argv[i + 1], "int8") == 0 ? FASTED_FILTER_INT8
				: strcmp(argv[i + 1], "fp16") == 0 ? FASTED_FILTER_FP16 : FASTED_FILTER_AUTO;
		else
		{
			fprintf(stderr, "engine_bench: unknown option %s\n", argv[i]);
			return 1;
		}
	}
	if (sizes.empty() && panels > 0)
		sizes = {"1000000"};
	else if (sizes.empty())
		sizes = {"10000", "20000", "64512", "1000000"};
	if (problem.options.dimensions == 0)
		problem.options.dimensions = panels > 0 ? 128 : 384;
	printf("%8s %5s %5s", "n", "d", "");
	for (const char *name : step_names)
		printf(" %8s", name);
	printf(" %8s\n", "sum");
	for (const std::string &n : sizes)
		measure(strtoul(n.c_str(), nullptr, 10), problem, panels, partitions, runs, put);
	return 0;
}
