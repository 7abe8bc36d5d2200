/*-------------------------------------------------------------------------
 *
 * connections_bench.cu
 *	  Compare the time of a join for the different outputs of the engine, in
 *	  milliseconds.
 *
 *	connections_bench [--n N] [--d D] [--selectivity S] [--core-pairs C] [--runs R]
 *					  [--metric l2|cosine]
 *
 * The rows resemble embeddings (device_rows.cuh) and have S neighbours on average.
 * They are staged once.  Then the program runs the join in turn with each output:
 * the number of pairs, the number of pairs of each row, the connections of the
 * connected components, the connections between rows with at least C pairs, the
 * pairs that determine the representatives, and all pairs.  It prints medians of R
 * rounds of elapsed time.  The first round is not counted.  For each output it also
 * prints the number of pairs returned to the host, and the time in which the host
 * unites them.
 *
 *-------------------------------------------------------------------------
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "device_rows.cuh"
#include "engine/engine.h"
#include "engine/panel_join.h"
#include "numbers.h"

using bench::median;

extern "C" const FastedEngine *fasted_engine(void);

namespace
{

struct Output
{
	const char *name;
	FastedOutput output;
	uint32_t	core_pairs;
	std::vector<double> ms;
	std::vector<double> device_ms;
	uint64_t	returned = 0;	/* number of pairs returned to the host */
	double		unite_ms = 0;
};

double
now_ms()
{
	using namespace std::chrono;
	return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

/* Exits if the status is an error. */
void
check(FastedStatus status, const PanelJoin *join)
{
	if (!FASTED_FAILED(status))
		return;
	fprintf(stderr, "connections_bench: %s\n", panel_join_last_error(fasted_engine(), join));
	exit(1);
}

/* Stages all rows. */
void
stage_all(PanelJoin *join, const std::vector<float> &rows, size_t d)
{
	for (size_t done = 0, n = rows.size() / d; done < n;)
	{
		float	   *buffer;
		size_t		count;
		FastedStatus status = panel_join_stage(join, 0, &buffer, &count);

		check(status, join);
		if (status == FASTED_FULL)
		{
			fprintf(stderr, "connections_bench: the rows do not fit into the GPU's memory\n");
			exit(1);
		}
		count = std::min(count, n - done);
		memcpy(buffer, rows.data() + done * d, count * d * sizeof(float));
		check(panel_join_commit(join, 0, count), join);
		done += count;
	}
}

/* Unites the components of rows a and b, like base/row_numbers.h. */
void
unite(std::vector<uint32_t> &parent, uint32_t a, uint32_t b)
{
	auto		root = [&](uint32_t row)
	{
		while (parent[row] != row)
			row = parent[row] = parent[parent[row]];
		return row;
	};

	if (parent[a] == parent[b])
		return;
	a = root(a);
	b = root(b);
	parent[std::max(a, b)] = std::min(a, b);
}

/* Fetches and unites the pairs of one join, and records its times. */
void
drain(PanelJoin *join, Output *output, std::vector<uint32_t> &parent, uint64_t *pairs)
{
	FastedStats before;
	FastedStats after;
	FastedBatch batch;
	FastedStatus status;
	double		begin = now_ms();

	panel_join_stats(join, &before);
	output->returned = 0;
	output->unite_ms = 0;
	while ((status = panel_join_next(join, 100, &batch)) != FASTED_DONE)
	{
		double		unite_begin = now_ms();

		check(status, join);
		for (size_t i = 0; i < batch.npairs; i++)
			unite(parent, batch.pairs[i].a, batch.pairs[i].b);
		output->returned += batch.npairs;
		output->unite_ms += now_ms() - unite_begin;
	}
	output->ms.push_back(now_ms() - begin);
	panel_join_stats(join, &after);
	output->device_ms.push_back((after.device_seconds - before.device_seconds) * 1e3);
	*pairs = after.pairs - before.pairs;
}

void
measure(const std::vector<float> &rows, PanelProblem problem, uint32_t core_pairs, int runs)
{
	std::vector<Output> outputs = {{"count", FASTED_OUTPUT_COUNT, 0},
		{"counts", FASTED_OUTPUT_COUNTS, 0}, {"components", FASTED_OUTPUT_CONNECTIONS, 0},
		{"dbscan", FASTED_OUTPUT_CONNECTIONS, core_pairs}, {"representatives", FASTED_OUTPUT_REPRESENTATIVES, 0}, {"pairs", FASTED_OUTPUT_PAIRS, 0}};
	uint64_t	n = rows.size() / problem.options.dimensions;
	std::vector<uint32_t> parent(n);
	PanelJoin  *join = nullptr;
	uint64_t	pairs = 0;

	problem.problem.output = FASTED_OUTPUT_COUNT;
	problem.expected_rows[0] = n;
	check(panel_join_open(fasted_engine(), &problem, &join), join);
	stage_all(join, rows, problem.options.dimensions);
	check(panel_join_start(join, &n), join);
	for (int run = 0; run <= runs; run++)
	{
		for (Output &output : outputs)
		{
			for (uint32_t i = 0; i < n; i++)
				parent[i] = i;
			problem.problem.output = output.output;
			problem.problem.core_pairs = output.core_pairs;
			check(panel_join_again(join, &problem.problem), join);
			drain(join, &output, parent, &pairs);
			if (run == 0)		/* this run allocates memory and chooses the filter */
			{
				output.ms.clear();
				output.device_ms.clear();
			}
		}
	}
	for (const Output &output : outputs)
		printf("%-12s %9.2f ms, device %9.2f ms, %.3f times count; %llu pairs, %llu returned, "
			   "united in %.2f ms\n",
			   output.name, median(output.ms), median(output.device_ms),
			   median(output.ms) / median(outputs[0].ms), (unsigned long long) pairs,
			   (unsigned long long) output.returned, output.unite_ms);
	panel_join_close(join);
}

}								/* namespace */

int
main(int argc, char **argv)
{
	PanelProblem problem = {};
	uint32_t	n = 1000000;
	uint32_t	core_pairs = 9;
	double		selectivity = 64;
	int			runs = 3;

	problem.sides = 1;
	problem.options.dimensions = 960;
	for (int i = 1; i + 1 < argc; i += 2)
	{
		std::string key = argv[i];

		if (key == "--n")
			n = (uint32_t) strtoul(argv[i + 1], nullptr, 10);
		else if (key == "--d")
			problem.options.dimensions = (uint32_t) atoi(argv[i + 1]);
		else if (key == "--selectivity")
			selectivity = atof(argv[i + 1]);
		else if (key == "--core-pairs")
			core_pairs = (uint32_t) atoi(argv[i + 1]);
		else if (key == "--runs")
			runs = atoi(argv[i + 1]);
		else if (key == "--metric")
			problem.options.metric = strcmp(argv[i + 1], "cosine") == 0 ? FASTED_METRIC_COSINE
				: FASTED_METRIC_L2;
		else
		{
			fprintf(stderr, "connections_bench: unknown option %s\n", argv[i]);
			return 1;
		}
	}

	std::vector<float> rows((size_t) n * problem.options.dimensions);
	{
		bench::DeviceRows made("clustered", n, problem.options.dimensions);
		double		eps = made.eps_for(selectivity);

		/* for unit vectors, 1 - cosine is half of the squared distance */
		problem.problem.eps = problem.options.metric == FASTED_METRIC_COSINE ? eps * eps / 2 : eps;
		fasted::check_cuda(cudaMemcpy(rows.data(), made.values(), rows.size() * sizeof(float),
									  cudaMemcpyDeviceToHost), "copying rows");
	}
	printf("%u x %u, eps = %.6g\n", n, problem.options.dimensions, problem.problem.eps);
	measure(rows, problem, core_pairs, runs);
	return 0;
}
