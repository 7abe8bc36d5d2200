/*-------------------------------------------------------------------------
 *
 * fault_test.cu
 *	  Calls of the CUDA runtime fail, one in each run.
 *
 * The Makefile links the program so that the engine calls the wrappers below.  Each case runs again
 * and again: the first call fails, then a later one, until a run has no failing call.  From the 25th
 * call on, most calls are left out.  A run must report an error or return the expected result, which
 * is computed from all distances.  After each run all device memory, streams and events must be freed,
 * and the case must succeed if it is run again without failures.
 *
 * An error of CUDA also becomes the thread's last error, as with the real functions.  Functions that
 * free resources or wait do so before they fail.
 *
 *-------------------------------------------------------------------------
 */
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "../unit/faults.h"
#include "cases.h"

namespace
{

enum Call
{
	kMalloc, kHostAlloc, kHostRegister, kFree, kMemcpy, kMemset, kLaunch, kStreamCreate, kStreamWait,
	kStreamSynchronize, kEventCreate, kEventRecord, kEventQuery, kEventSynchronize, kEventTime,
	kSetDevice, kGetDevice, kMemGetInfo, kFuncAttributes, kDevices, kCalls
};

const char *const call_names[kCalls] = {
	"cudaMalloc", "cudaHostAlloc", "cudaHostRegister", "functions that free", "cudaMemcpyAsync",
	"cudaMemsetAsync", "kernel launches", "cudaStreamCreateWithFlags", "cudaStreamWaitEvent",
	"cudaStreamSynchronize", "cudaEventCreate", "cudaEventRecord", "cudaEventQuery",
	"cudaEventSynchronize", "cudaEventElapsedTime", "cudaSetDevice", "cudaGetDevice", "cudaMemGetInfo",
	"cudaFuncSetAttribute, cudaFuncGetAttributes", "functions that describe devices"
};

/* The error that the failing call returns. */
cudaError_t error_to_return = cudaErrorMemoryAllocation;

/* The last error of this thread, if it was not reported by CUDA itself. */
thread_local cudaError_t last_error = cudaSuccess;

/* What the engine has allocated and not freed. */
std::atomic<long> arrays{0};
std::atomic<long> streams{0};
std::atomic<long> events{0};

bool
fails(Call call)
{
	bool		due = fault_due(call);

	if (due)
		last_error = error_to_return;
	return due;
}

/* Returns the error to return instead of `real`, if this call must fail. */
cudaError_t
after(Call call, cudaError_t real)
{
	return fails(call) ? error_to_return : real;
}

cudaError_t
counted(std::atomic<long> &number, cudaError_t error)
{
	number += error == cudaSuccess;
	return error;
}

}								/* namespace */

/* A wrapper that fails without calling the function. */
#define WRAP(call, name, parameters, arguments) \
	extern "C" cudaError_t __real_##name parameters; \
	extern "C" cudaError_t __wrap_##name parameters \
	{ \
		return fails(call) ? error_to_return : __real_##name arguments; \
	}

/* The same for a function that creates a resource, which is counted. */
#define WRAP_CREATE(call, number, name, parameters, arguments) \
	extern "C" cudaError_t __real_##name parameters; \
	extern "C" cudaError_t __wrap_##name parameters \
	{ \
		return fails(call) ? error_to_return : counted(number, __real_##name arguments); \
	}

/* A wrapper that calls the function and then fails. */
#define WRAP_AFTER(call, name, parameters, arguments) \
	extern "C" cudaError_t __real_##name parameters; \
	extern "C" cudaError_t __wrap_##name parameters \
	{ \
		return after(call, __real_##name arguments); \
	}

/* The same for a function that frees a resource. */
#define WRAP_DESTROY(number, name, parameters, arguments, exists) \
	extern "C" cudaError_t __real_##name parameters; \
	extern "C" cudaError_t __wrap_##name parameters \
	{ \
		number -= (exists); \
		return after(kFree, __real_##name arguments); \
	}

WRAP_CREATE(kMalloc, arrays, cudaMalloc, (void **memory, size_t bytes), (memory, bytes))
WRAP_DESTROY(arrays, cudaFree, (void *memory), (memory), memory != nullptr)
WRAP(kHostAlloc, cudaHostAlloc, (void **memory, size_t bytes, unsigned flags), (memory, bytes, flags))
WRAP_AFTER(kFree, cudaFreeHost, (void *memory), (memory))
WRAP(kHostRegister, cudaHostRegister, (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags))
WRAP_AFTER(kFree, cudaHostUnregister, (void *memory), (memory))
WRAP(kMemcpy, cudaMemcpyAsync, (void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
								cudaStream_t stream), (to, from, bytes, kind, stream))
WRAP(kMemset, cudaMemsetAsync, (void *to, int value, size_t bytes, cudaStream_t stream),
	 (to, value, bytes, stream))
WRAP(kLaunch, __cudaLaunchKernel, (cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
								   size_t shared, cudaStream_t stream),
	 (kernel, grid, block, arguments, shared, stream))
WRAP(kLaunch, cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *kernel, void **arguments),
	 (config, kernel, arguments))
WRAP_CREATE(kStreamCreate, streams, cudaStreamCreateWithFlags, (cudaStream_t *stream, unsigned flags),
			(stream, flags))
WRAP_DESTROY(streams, cudaStreamDestroy, (cudaStream_t stream), (stream), 1)
WRAP(kStreamWait, cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
	 (stream, event, flags))
WRAP_AFTER(kStreamSynchronize, cudaStreamSynchronize, (cudaStream_t stream), (stream))
WRAP_CREATE(kEventCreate, events, cudaEventCreate, (cudaEvent_t *event), (event))
WRAP_DESTROY(events, cudaEventDestroy, (cudaEvent_t event), (event), 1)
WRAP(kEventRecord, cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
WRAP_AFTER(kEventQuery, cudaEventQuery, (cudaEvent_t event), (event))
WRAP_AFTER(kEventSynchronize, cudaEventSynchronize, (cudaEvent_t event), (event))
WRAP(kEventTime, cudaEventElapsedTime, (float *ms, cudaEvent_t begin, cudaEvent_t end), (ms, begin, end))
WRAP(kSetDevice, cudaSetDevice, (int device), (device))
WRAP(kGetDevice, cudaGetDevice, (int *device), (device))
WRAP(kMemGetInfo, cudaMemGetInfo, (size_t *available, size_t *whole), (available, whole))
WRAP(kFuncAttributes, cudaFuncSetAttribute, (const void *kernel, cudaFuncAttribute attribute, int value),
	 (kernel, attribute, value))
WRAP(kFuncAttributes, cudaFuncGetAttributes, (cudaFuncAttributes *attributes, const void *kernel),
	 (attributes, kernel))
WRAP(kDevices, cudaGetDeviceCount, (int *count), (count))
WRAP(kDevices, cudaGetDeviceProperties, (cudaDeviceProp *properties, int device), (properties, device))
WRAP(kDevices, cudaDriverGetVersion, (int *version), (version))

extern "C" cudaError_t __real_cudaGetLastError();
extern "C" cudaError_t
__wrap_cudaGetLastError()
{
	cudaError_t error = __real_cudaGetLastError();

	if (last_error != cudaSuccess)
		error = last_error;
	last_error = cudaSuccess;
	return error;
}

namespace
{

constexpr uint32_t kNeighbors = 4;

struct Case
{
	const char *name;
	const Metric &metric;
	Rows		rows;
	PanelProblem problem;
	bool		put = false;	/* rows are put from registered memory */
	std::vector<FastedPartition> partitions = {};
	std::vector<FastedPair> expected = {};
};

/* --- results, reduced to what all correct results have in common */

/* Returns pairs of each row and the smallest row that is connected with it. */
std::vector<FastedPair>
components_of(uint32_t rows, const std::vector<FastedPair> &pairs)
{
	std::vector<uint32_t> root(rows);
	std::vector<FastedPair> result;
	bool		changed = true;

	std::iota(root.begin(), root.end(), 0);
	while (changed)
	{
		changed = false;
		for (const FastedPair &p : pairs)
		{
			uint32_t	least = std::min(root[p.a], root[p.b]);

			changed |= root[p.a] != least || root[p.b] != least;
			root[p.a] = root[p.b] = least;
		}
	}
	for (uint32_t row = 0; row < rows; row++)
		result.push_back({row, root[row], 0.0});
	return result;
}

/* Returns pairs of each row and its nearest representative, by the definition in engine.h. */
std::vector<FastedPair>
representatives_of(uint32_t rows, const std::vector<FastedPair> &pairs)
{
	std::vector<FastedPair> result;

	for (uint32_t row = 0; row < rows; row++)
		result.push_back({row, row, INFINITY});
	std::vector<FastedPair> sorted = pairs;

	std::sort(sorted.begin(), sorted.end(), [](const FastedPair &p, const FastedPair &q)
	{
		return p.b != q.b ? p.b < q.b : p.dist != q.dist ? p.dist < q.dist : p.a < q.a;
	});
	for (const FastedPair &p : sorted)
	{
		if (result[p.b].b == p.b && result[p.a].b == p.a)
			result[p.b] = {p.b, p.a, p.dist};
	}
	return result;
}

std::vector<FastedPair>
reduce(FastedOutput output, uint32_t rows, std::vector<FastedPair> pairs)
{
	std::vector<uint32_t> counts(rows);

	switch (output)
	{
		case FASTED_OUTPUT_CONNECTIONS:
			return components_of(rows, pairs);
		case FASTED_OUTPUT_REPRESENTATIVES:
			return representatives_of(rows, pairs);
		case FASTED_OUTPUT_COUNTS:
			for (const FastedPair &p : pairs)
			{
				counts[p.a]++;
				counts[p.b]++;
			}
			pairs.clear();
			for (uint32_t row = 0; row < rows; row++)
				pairs.push_back({row, counts[row], 0.0});
			return pairs;
		default:
			sort_pairs(&pairs);
			return pairs;
	}
}

bool
same_pairs(const std::vector<FastedPair> &x, const std::vector<FastedPair> &y)
{
	return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const FastedPair &p, const FastedPair &q)
	{
		return p.a == q.a && p.b == q.b && memcmp(&p.dist, &q.dist, sizeof(double)) == 0;
	});
}

bool
may_meet(const Case &c, uint32_t a, uint32_t b)
{
	for (const FastedPartition &p : c.partitions)
	{
		if (a - p.first_a < p.rows_a && b - p.first_b < p.rows_b)
			return true;
	}
	return c.partitions.empty();
}

/* Chooses eps so that a twentieth of the pairs is within it, and computes the expected result. */
void
expect(Case &c)
{
	FastedOutput output = c.problem.problem.output;
	bool		nearest = output == FASTED_OUTPUT_NEAREST;
	uint32_t	n = c.rows.n;
	std::vector<double> distances = all_distances(c.rows, c.metric.distance);
	std::vector<FastedPair> pairs;

	c.problem.problem.eps = nearest ? INFINITY : interesting_eps(distances, 0.05)[1];
	if (!c.partitions.empty())
	{
		c.problem.problem.partitions = c.partitions.data();
		c.problem.problem.npartitions = (uint32_t) c.partitions.size();
	}
	for (uint32_t a = 0; a < n; a++)
	{
		std::vector<FastedPair> list;

		for (uint32_t b = nearest ? 0 : a + 1; b < n; b++)
		{
			double		dist = distances[(size_t) std::min(a, b) * n + std::max(a, b)];

			if (a != b && may_meet(c, a, b) && dist <= c.problem.problem.eps)
				list.push_back({a, b, dist});
		}
		std::sort(list.begin(), list.end(), [&](const FastedPair &p, const FastedPair &q)
		{
			return nearest && p.dist != q.dist ? p.dist < q.dist : p.b < q.b;
		});
		if (nearest && list.size() > kNeighbors)
			list.resize(kNeighbors);
		pairs.insert(pairs.end(), list.begin(), list.end());
	}
	c.expected = reduce(output, n, pairs);
}

/* --- runs */

struct Result
{
	FastedStatus status;
	std::string error;
	std::vector<FastedPair> pairs;
};

/* Adds the result of a join to result.pairs until the join is done or fails. */
FastedStatus
drain(PanelJoin *join, const Case &c, Result *result)
{
	bool		nearest = c.problem.problem.output == FASTED_OUTPUT_NEAREST;
	FastedStatus status = FASTED_OK;

	while (status <= FASTED_WANT_ROWS && status != FASTED_DONE)
	{
		FastedBatch batch;
		uint64_t	staged;

		status = panel_join_next(join, 100, &batch);
		if (status == FASTED_WANT_ROWS)
			status = stage_rows(join, batch.side, c.rows, batch.first_row, batch.row_count, &staged);
		else if (status == FASTED_OK && !nearest)
			result->pairs.insert(result->pairs.end(), batch.pairs, batch.pairs + batch.npairs);
		for (uint64_t i = 0; status == FASTED_OK && nearest && i < batch.row_count; i++)
		{
			uint32_t	length;
			uint32_t	row = (uint32_t) (batch.first_row + i);
			const FastedNeighbor *list = panel_join_nearest(join, row, &length);

			for (uint32_t k = 0; k < length; k++)
				result->pairs.push_back({row, list[k].row, list[k].dist});
		}
	}
	return status;
}

Result
run(const Case &c)
{
	FastedOutput output = c.problem.problem.output;
	Result		result = {};
	Outcome		outcome;
	PanelJoin  *join = nullptr;

	tuning.always_register = c.put;
	result.status = panel_join_open(fasted_engine(), &c.problem, &join);
	if (result.status == FASTED_OK)
		result.status = fill_and_start(join, c.rows, &outcome);
	if (result.status == FASTED_OK)
		result.status = drain(join, c, &result);
	if (FASTED_FAILED(result.status))
		result.error = panel_join_last_error(fasted_engine(), join);
	else if (output == FASTED_OUTPUT_COUNTS)
	{
		const uint32_t *counts = panel_join_counts(join, 0);

		for (uint32_t row = 0; row < c.rows.n; row++)
			result.pairs.push_back({row, counts[row], 0.0});
	}
	else
		result.pairs = reduce(output, c.rows.n, result.pairs);
	panel_join_close(join);
	return result;
}

/* Runs a case in which call `at` fails; 0: none.  Returns whether the run ended as it must. */
bool
run_once(const Case &c, long at, bool *due, bool *failed)
{
	long		before[] = {arrays, streams, events};
	Result		result;
	bool		good;

	(void) alarm(60);
	fault_arm(at, FAULT_ONCE);
	result = run(c);
	*due = fault_disarm();
	(void) __wrap_cudaGetLastError();
	*failed = FASTED_FAILED(result.status);
	good = before[0] == arrays && before[1] == streams && before[2] == events
		&& (*due && *failed ? result.status != FASTED_INTERNAL && !result.error.empty()
			: result.status == FASTED_DONE && same_pairs(result.pairs, c.expected));
	/* after such an error, CUDA may be unusable in this process */
	if (error_to_return == cudaErrorLaunchFailure && result.error.find("new session") != std::string::npos)
		good = true;
	if (!good)
		tap::note("%s, call %ld: status %d \"%s\", %zu of %zu, %ld arrays, %ld streams, %ld events remain",
				  c.name, at, result.status, result.error.c_str(), result.pairs.size(), c.expected.size(),
				  arrays - before[0], streams - before[1], events - before[2]);
	return good;
}

/* Runs a case with a fault in many of its calls.  most is the maximum number of faults. */
void
check_case(Case &c, int most)
{
	std::mt19937_64 random(c.rows.n);
	int			bad = 0;
	int			runs = 0;
	int			reported = 0;
	bool		due = true;
	bool		failed;
	bool		unused;

	bad += !run_once(c, 0, &unused, &failed);
	for (long at = 1; due && bad < 5 && runs < most; at += 1 + (long) (random() % (1 + at / 12)))
	{
		bad += !run_once(c, at, &due, &failed);
		runs += due;
		reported += failed;
		bad += !run_once(c, 0, &unused, &failed);
	}
	tap::ok(bad == 0 && reported > 0, "%s, %s: %d runs with a fault, of which %d report an error", c.name,
			cudaGetErrorName(error_to_return), runs, reported);
}

/* The same for the first calls of a process, each in a child process. */
void
check_first_join(Case &c, int most)
{
	int			good = 0;

	for (int at = 1; at <= most; at++)
	{
		int			status = 1;
		pid_t		child = fork();

		if (child == 0)
		{
			bool		due;
			bool		failed;

			_exit(run_once(c, at, &due, &failed) && due ? 0 : 1);
		}
		if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
			good++;
		else
			tap::note("%s, call %d: the process returned %d", c.name, at, status);
	}
	tap::ok(good == most, "%s: %d of %d runs with a fault end correctly", c.name, good, most);
}

Case
make_case(const char *name, const Metric &metric, const Rows &rows, const Mode &mode, FastedOutput output,
		  uint32_t dimensions = 0)
{
	Case		c = {name, metric, rows, metric.problem(0.0, mode, dimensions > 0 ? dimensions : rows.d)};

	c.problem.sides = 1;
	c.problem.problem.output = output;
	c.problem.problem.k = kNeighbors;
	return c;
}

}								/* namespace */

int
main()
{
	const Mode &automatic = modes[5];
	Rows		some = clustered_rows(1500, 64, 20, 0.3f, 1);
	Rows		doubles = as_doubles(clustered_rows(700, 30, 20, 0.3f, 2), 1.0);
	std::vector<Case> cases = {
		make_case("pairs", euclidean_metric, some, automatic, FASTED_OUTPUT_PAIRS),
		make_case("pairs, fp64", euclidean_metric, some, modes[2], FASTED_OUTPUT_PAIRS),
		make_case("pairs, int8", euclidean_metric, some, modes[3], FASTED_OUTPUT_PAIRS),
		make_case("pairs, projected", euclidean_metric, clustered_rows(1500, 200, 20, 0.3f, 3), modes[6],
				  FASTED_OUTPUT_PAIRS),
		make_case("pairs, put", euclidean_metric, some, automatic, FASTED_OUTPUT_PAIRS),
		make_case("pairs, partitions", euclidean_metric, some, automatic, FASTED_OUTPUT_PAIRS),
		make_case("pairs, panels", euclidean_metric, some, modes[0], FASTED_OUTPUT_PAIRS),
		make_case("counts, cosine", cosine_metric, some, automatic, FASTED_OUTPUT_COUNTS),
		make_case("nearest", euclidean_metric, some, automatic, FASTED_OUTPUT_NEAREST),
		make_case("nearest, doubles", euclidean_double_metric, doubles, automatic, FASTED_OUTPUT_NEAREST, 30),
		make_case("connections", euclidean_metric, some, automatic, FASTED_OUTPUT_CONNECTIONS),
		make_case("representatives", euclidean_metric, some, automatic, FASTED_OUTPUT_REPRESENTATIVES),
		make_case("bits", jaccard_metric, bit_rows(1000, 300, 0.2, 4), bit_modes[0], FASTED_OUTPUT_PAIRS, 300),
	};

	cases[4].put = true;
	cases[5].partitions = {{0, 500, 0, 500}, {500, 700, 500, 700}};
	for (Case &c : cases)
		expect(c);

	/* the parent process must not have used CUDA before */
	check_first_join(cases[0], 12);
	cases[6].problem.options.device_memory_limit = little_memory(modes[0], some.n, some.d);
	for (Case &c : cases)
	{
		tuning.kernel = &c == &cases[3] || &c == &cases[2] || &c == &cases[6] ? "wgmma" : nullptr;
		check_case(c, 60);
	}
	error_to_return = cudaErrorLaunchFailure;
	tuning.kernel = nullptr;
	check_case(cases[0], 15);
	for (int call = 0; call < kCalls; call++)
		tap::note("%s: %ld faults", call_names[call], fault_injected[call]);
	return tap::done();
}
