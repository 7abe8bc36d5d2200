/*-------------------------------------------------------------------------
 *
 * engine_bench.cu
 *	  What a statement waits for in the engine, step by step, in milliseconds.
 *
 *	engine_bench [--n N,N,...] [--d D] [--runs R] [--filter auto|int8|fp16]
 *
 * Rows lie in ordinary host memory and go in as the extension hands them over, one
 * staging buffer after the other.  Every row of the first half has one of the second
 * half near it.  Medians of R joins of one process after a first one:
 *
 *	open	the join and its staging buffers
 *	room	stage: waiting for a staging buffer, and device memory for rows
 *	copy	rows into staging buffers, and asking for their transfer
 *	start	memory for candidates, and the choice of the filter
 *	next	until the last pair
 *	close	giving all back
 *
 *-------------------------------------------------------------------------
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "numbers.h"

using bench::median;
using bench::split;

extern "C" const FastedEngine *fasted_engine(void);

namespace
{

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
check(FastedStatus status, const FastedEngine *engine, const FastedJoin *join)
{
	if (!FASTED_FAILED(status))
		return;
	fprintf(stderr, "engine_bench: %s\n", engine->last_error(join));
	exit(1);
}

/* n rows in [0, 1); row n / 2 + i is row i, moved a little. */
std::vector<float>
make_rows(size_t n, size_t d)
{
	std::vector<float> rows(n * d);
	uint32_t	x = 2463534242u;
	size_t		half = n / 2 * d;

	for (size_t i = 0; i < rows.size(); i++)
	{
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		rows[i] = (x >> 8) * 0x1p-24f;
		if (i >= half && i < 2 * half)
			rows[i] = rows[i - half] + 0.01f * rows[i];
	}
	return rows;
}

Run
join_once(const FastedProblem &problem, const std::vector<float> &rows)
{
	const FastedEngine *engine = fasted_engine();
	FastedJoin *join = nullptr;
	FastedBatch batch;
	FastedStatus status;
	Run			run;
	Laps		laps(&run);
	size_t		n = rows.size() / problem.dimensions;

	check(engine->open(&problem, &join), engine, join);
	laps.lap(kOpen);
	for (size_t done = 0; done < n;)
	{
		float	   *room;
		size_t		count;

		check(engine->stage(join, &room, &count), engine, join);
		laps.lap(kRoom);
		count = std::min(count, n - done);
		memcpy(room, rows.data() + done * problem.dimensions,
			   count * problem.dimensions * sizeof(float));
		check(engine->commit(join, count), engine, join);
		laps.lap(kCopy);
		done += count;
	}
	check(engine->start(join, n), engine, join);
	laps.lap(kStart);
	while ((status = engine->next(join, 100, &batch)) != FASTED_DONE)
		check(status, engine, join);
	laps.lap(kNext);
	engine->stats(join, &run.stats);
	engine->close(join);
	laps.lap(kClose);
	return run;
}

void
measure(size_t n, FastedProblem problem, int runs)
{
	std::vector<float> rows = make_rows(n, problem.dimensions);
	std::vector<Run> done;
	double		sum = 0;

	problem.expected_rows = n;
	for (int i = 0; i <= runs; i++)
		done.push_back(join_once(problem, rows));
	done.erase(done.begin());	/* the first one wakes the GPU */
	printf("%8zu %5u %5s", n, problem.dimensions, done.back().stats.filter);
	for (int step = 0; step < kSteps; step++)
	{
		std::vector<double> ms;

		for (const Run &run : done)
			ms.push_back(run.ms[step]);
		sum += median(ms);
		printf(" %8.2f", median(ms));
	}
	printf(" %8.2f   %llu pairs, device %.2f, quantising %.2f\n", sum,
		   (unsigned long long) done.back().stats.pairs,
		   done.back().stats.device_seconds * 1e3, done.back().stats.prepare_seconds * 1e3);
	fflush(stdout);
}

}								/* namespace */

int
main(int argc, char **argv)
{
	FastedProblem problem = {};
	std::vector<std::string> sizes = {"10000", "20000", "64512", "1000000"};
	int			runs = 5;

	problem.dimensions = 384;
	for (int i = 1; i + 1 < argc; i += 2)
	{
		std::string key = argv[i];

		if (key == "--n")
			sizes = split(argv[i + 1]);
		else if (key == "--d")
			problem.dimensions = (uint32_t) atoi(argv[i + 1]);
		else if (key == "--runs")
			runs = atoi(argv[i + 1]);
		else if (key == "--filter")
			problem.filter = strcmp(argv[i + 1], "int8") == 0 ? FASTED_FILTER_INT8
				: strcmp(argv[i + 1], "fp16") == 0 ? FASTED_FILTER_FP16 : FASTED_FILTER_AUTO;
		else
		{
			fprintf(stderr, "engine_bench: unknown option %s\n", argv[i]);
			return 1;
		}
	}
	problem.eps = 0.5;
	printf("%8s %5s %5s", "n", "d", "");
	for (const char *name : step_names)
		printf(" %8s", name);
	printf(" %8s\n", "sum");
	for (const std::string &n : sizes)
		measure(strtoul(n.c_str(), nullptr, 10), problem, runs);
	return 0;
}
