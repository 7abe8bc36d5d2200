/*-------------------------------------------------------------------------
 *
 * life_test.cu
 *	  Joins that end early, run in parallel, lack memory, or lose the device.
 *
 *	life_test				early close, four joins in parallel, bad options, device lists, a fork
 *	life_test --crowded		little free device memory
 *	life_test --fault		the device fails
 *	life_test --large		compares all filters
 *	life_test --idle [n]	CUDA contexts are destroyed and created n times (20)
 *
 *-------------------------------------------------------------------------
 */
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "cases.h"
#include "device/device.h"

namespace
{

void
test_life()
{
	Rows		rows = normal_rows(20000, 64, 51);
	PanelProblem problem = problem_of(INFINITY, modes[0]);
	auto		begin = std::chrono::steady_clock::now();
	size_t		free_before;
	size_t		free_after;
	size_t		whole;

	/* the first join loads the kernels, which remain loaded */
	run_join(normal_rows(300, 64, 50), problem);
	cudaMemGetInfo(&free_before, &whole);
	begin = std::chrono::steady_clock::now();
	run_join(rows, problem, [](const FastedPair *, size_t) { return false; });
	cudaMemGetInfo(&free_after, &whole);

	double		seconds = std::chrono::duration<double>(
		std::chrono::steady_clock::now() - begin).count();

	tap::ok(seconds < 2 && free_after == free_before,
			"closed after the first pairs: %.0f ms, all device memory freed", seconds * 1e3);

	/* Four joins in parallel. */
	Rows		some = normal_rows(900, 33, 52);
	std::vector<double> distances = all_distances(some);
	double		eps = interesting_eps(distances, 0.1)[1];
	bool		good = true;
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t]
		{
			for (int i = 0; i < 5; i++)
			{
				PanelProblem p = {};
				std::string why;

				p.problem.eps = eps;
				p.options.filter = t == 3 ? FASTED_FILTER_FP64 : FASTED_FILTER_AUTO;
				if (!same_as_oracle(some, distances, eps, run_join(some, p), &why))
					good = false;
			}
		});
	for (auto &thread : threads)
		thread.join();
	tap::ok(good, "four joins in parallel");

	PanelProblem tiny = {};
	Outcome		outcome;

	tiny.options.device_memory_limit = 100000;
	outcome = run_join(rows, tiny);
	tap::ok(outcome.status == FASTED_OUT_OF_DEVICE_MEMORY, "too little memory: %s",
			outcome.error.c_str());

	PanelProblem unsupported = {};

	unsupported.options.filter = FASTED_FILTER_INT8;
	outcome = run_join(Rows(2, 40000), unsupported);
	tap::ok(outcome.status == FASTED_UNSUPPORTED, "int8, large d: %s", outcome.error.c_str());

	pid_t		child = fork();

	if (child == 0)
	{
		char		reason[300];

		_exit(fasted_engine()->probe(nullptr, reason, sizeof(reason)) == FASTED_NO_DEVICE
			  && strstr(reason, "forked") ? 0 : 1);
	}

	int			status = 1;

	waitpid(child, &status, 0);
	tap::ok(status == 0, "a forked process gets an error");
}

/* The UUID as nvidia-smi -L prints it. */
std::string
uuid_of(int device)
{
	cudaDeviceProp properties;
	std::string text = "GPU-";

	cudaGetDeviceProperties(&properties, device);
	for (int i = 0; i < 16; i++)
	{
		char		byte[4];

		snprintf(byte, sizeof(byte), "%02x", (unsigned char) properties.uuid.bytes[i]);
		text += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(byte);
	}
	return text;
}

/* Returns whether a join with this device list succeeds and uses that device. */
bool
join_runs_on(const std::string &names, int device, std::string *error)
{
	Rows		rows = normal_rows(900, 33, 52);
	PanelProblem problem = problem_of(INFINITY, modes[0]);
	Outcome		outcome;
	int			current = -1;

	problem.options.devices = names.c_str();
	cudaSetDevice(0);
	outcome = run_join(rows, problem);
	cudaGetDevice(&current);
	*error = outcome.error;
	return outcome.status == FASTED_OK && outcome.pairs.size() == 900 * 899 / 2
		&& current == device;
}

void
runs_on(const std::string &names, int device)
{
	std::string error;
	bool		good = join_runs_on(names, device, &error);

	tap::ok(good, "devices \"%s\": device %d %s", names.c_str(), device, error.c_str());
}

void
refuses(const std::string &names, const std::string &name)
{
	PanelProblem problem = problem_of(1, modes[0]);
	char		reason[1000] = "";
	FastedStatus status = fasted_engine()->probe(names.c_str(), reason, sizeof(reason));

	tap::ok(status == FASTED_UNKNOWN_DEVICE && strstr(reason, ("\"" + name + "\"").c_str())
			&& strstr(reason, ("\nAvailable GPUs: 0 (")) && strstr(reason, uuid_of(0).c_str()),
			"devices \"%s\": %s", names.c_str(), reason);
	problem.options.devices = names.c_str();

	Outcome		outcome = run_join(normal_rows(10, 3, 1), problem);

	tap::ok(outcome.status == FASTED_UNKNOWN_DEVICE && outcome.error == reason,
			"a join fails with the same message");
}

void
test_devices()
{
	int			count = 0;

	cudaGetDeviceCount(&count);
	runs_on("", 0);
	for (int device = 0; device < count; device++)
	{
		std::string ordinal = std::to_string(device);

		runs_on(ordinal, device);
		runs_on(" " + uuid_of(device) + " ,0", device);
		runs_on(uuid_of(device).substr(0, 20), device);
	}
	runs_on(std::to_string(count - 1) + ",0", count - 1);
	refuses("999", "999");
	refuses("0, 998", "998");
	refuses("GPU-00000000-1111-2222", "GPU-00000000-1111-2222");

	/* On all devices in parallel, and then on each of them again. */
	std::vector<std::thread> threads;
	std::atomic<bool> good{true};

	for (int device = 0; device < 2 * count; device++)
		threads.emplace_back([&, device]
		{
			std::string error;

			if (!join_runs_on(std::to_string(device % count), device % count, &error))
				good = false;
		});
	for (auto &thread : threads)
		thread.join();
	tap::ok(good, "two joins in parallel on each of %d devices", count);
	for (int device = 0; device < count; device++)
		runs_on(std::to_string(device), device);
}

void	   *late_hog;

/* Allocates nearly all of the device's memory after the context was opened. */
FastedStatus
open_and_crowd(const FastedOptions *options, FastedContext **context)
{
	FastedStatus status = fasted_engine()->open(options, context);
	size_t		available;
	size_t		whole;

	cudaMemGetInfo(&available, &whole);
	cudaMalloc(&late_hog, available - ((size_t) 144 << 20));
	return status;
}

/* Another allocation holds nearly all of the device's memory. */
void
test_crowded()
{
	Rows		rows = normal_rows(40000, 960, 61);
	size_t		available;
	size_t		whole;
	void	   *hog = nullptr;
	PanelProblem problem = problem_of(39.5, modes[0]);

	problem.options.memory_limit = 0;
	Outcome		alone = run_join(rows, problem);

	cudaMemGetInfo(&available, &whole);
	cudaMalloc(&hog, available - ((size_t) 160 << 20));

	Outcome		crowded = run_join(rows, problem);
	auto		less = [](const FastedPair &x, const FastedPair &y)
	{
		return x.a != y.a ? x.a < y.a : x.b < y.b;
	};
	auto		same = [](const FastedPair &x, const FastedPair &y)
	{
		return x.a == y.a && x.b == y.b && x.dist == y.dist;
	};

	auto		as_alone = [&](Outcome &other, const char *what)
	{
		std::sort(other.pairs.begin(), other.pairs.end(), less);
		tap::ok(alone.stats.panels == 1 && alone.pairs.size() > 100
				&& other.status == FASTED_OK && other.stats.panels > 1
				&& std::equal(alone.pairs.begin(), alone.pairs.end(),
							  other.pairs.begin(), other.pairs.end(), same),
				"%s: %zu pairs in %u panels %s", what, other.pairs.size(),
				other.stats.panels, other.error.c_str());
	};

	std::sort(alone.pairs.begin(), alone.pairs.end(), less);
	as_alone(crowded, "160 MiB free");
	cudaFree(hog);

	FastedEngine late = *fasted_engine();

	late.open = open_and_crowd;
	tested_engine = &late;

	Outcome		crowded_later = run_join(rows, problem);

	tested_engine = fasted_engine();
	as_alone(crowded_later, "144 MiB free after open");
	cudaFree(late_hog);

	cudaMemGetInfo(&available, &whole);
	while (available > ((size_t) 1 << 20)
		   && cudaMalloc(&hog, available / 2 + (1 << 20)) == cudaSuccess)
		cudaMemGetInfo(&available, &whole);
	while (cudaMalloc(&hog, (size_t) 2 << 20) == cudaSuccess)
		;
	(void) cudaGetLastError();

	Outcome		none = run_join(rows, problem);

	tap::ok(none.status == FASTED_OUT_OF_DEVICE_MEMORY, "no free memory: %s",
			none.error.c_str());
}

__global__ void
crash()
{
	*(volatile int *) 8 = 1;
}

/* The device fails during a join.  The next join succeeds, or its error has a hint. */
void
test_fault()
{
	Rows		many = normal_rows(50000, 64, 71);
	Rows		rows = normal_rows(3000, 64, 72);
	PanelProblem problem = problem_of(INFINITY, modes[0]);
	bool		first = true;
	Outcome		outcome = run_join(many, problem, [&](const FastedPair *, size_t)
	{
		if (first)
			crash<<<1, 1>>>();
		first = false;
		return true;
	});

	tap::ok(outcome.status == FASTED_DEVICE_FAILED, "a kernel error: %s",
			outcome.error.c_str());
	outcome = run_join(rows, problem);
	tap::ok((outcome.status == FASTED_OK && outcome.pairs.size() == 3000ul * 2999 / 2)
			|| (outcome.status == FASTED_NO_DEVICE
				&& outcome.error.find("new session") != std::string::npos),
			"the next join: %zu pairs %s", outcome.pairs.size(), outcome.error.c_str());
	tap::ok(strstr(fasted::hint_for(cudaErrorDevicesUnavailable), "new session") != nullptr,
			"hint for an unavailable GPU: %s",
			fasted::hint_for(cudaErrorDevicesUnavailable));
}

/* Returns whether a device has a CUDA context, without creating one. */
bool
is_active(int device)
{
	using GetState = int (*)(int, unsigned *, int *);
	static void *function = nullptr;
	cudaDriverEntryPointQueryResult found;
	unsigned	flags;
	int			active = 1;

	if (function == nullptr)
		cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &function, 12000,
										 cudaEnableDefault, &found);
	return ((GetState) function)(device, &flags, &active) != 0 || active != 0;
}

/* Waits until no device has a CUDA context, at most five seconds. */
bool
all_released()
{
	int			count = 0;

	cudaGetDeviceCount(&count);
	for (int i = 0; i < 500; i++)
	{
		bool		active = false;

		for (int device = 0; device < count; device++)
			active |= is_active(device);
		if (!active)
			return true;
		std::this_thread::sleep_for(std::chrono::milliseconds(10));
	}
	return false;
}

/* Resident memory of this process, in kB. */
long
resident()
{
	long		size = 0;
	long		pages = 0;
	FILE	   *file = fopen("/proc/self/statm", "r");

	if (file == nullptr || fscanf(file, "%ld %ld", &size, &pages) != 2)
		pages = 0;
	if (file != nullptr)
		fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

size_t
free_memory()
{
	size_t		available = 0;
	size_t		whole = 0;

	cudaSetDevice(0);
	cudaMemGetInfo(&available, &whole);
	return available;
}

void
test_idle(int cycles)
{
	Rows		rows = normal_rows(900, 33, 52);
	std::vector<double> distances = all_distances(rows);
	double		eps = interesting_eps(distances, 0.1)[1];
	std::atomic<int> wrong{0};
	int			active = 0;
	int			count = 0;
	long		resident_early = 0;
	size_t		free_before = free_memory();
	auto		begin = std::chrono::steady_clock::now();
	auto		join = [&](const char *devices, int mode, int idle_timeout)
	{
		PanelProblem problem = problem_of(eps, modes[mode]);
		std::string why;

		problem.options.devices = devices;
		problem.options.idle_timeout = idle_timeout;
		if (!same_as_oracle(rows, distances, eps, run_join(rows, problem), &why) && wrong++ == 0)
			tap::note("%s", why.c_str());
	};

	cudaGetDeviceCount(&count);
	for (int cycle = 0; cycle < cycles; cycle++)
	{
		for (int device = 0; device < count; device++)
			join(std::to_string(device).c_str(), cycle % (sizeof(modes) / sizeof(modes[0])), 50);
		active += !all_released();
		if (cycle == cycles / 4)
			resident_early = resident();
	}

	long		grown = resident() - resident_early;
	double		seconds = std::chrono::duration<double>(
		std::chrono::steady_clock::now() - begin).count();

	tap::ok(wrong == 0, "all pairs in %d cycles, %.3f s each", cycles, seconds / cycles);
	tap::ok(active == 0, "no CUDA context after the timeout: %d cycles had one", active);
	tap::ok(grown < 100 * 1024, "host memory grew by %ld kB in the last %d cycles", grown,
			cycles - cycles / 4 - 1);
	join(nullptr, 0, 0);
	std::this_thread::sleep_for(std::chrono::milliseconds(200));
	tap::ok(is_active(0), "timeout 0: the CUDA context remains");

	size_t		free_after = free_memory();

	tap::ok(free_after + ((size_t) 16 << 20) > free_before, "free device memory: %zu MiB before, %zu after",
			free_before >> 20, free_after >> 20);

	/* contexts are opened and closed while others time out */
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t]
		{
			char		reason[300];

			for (int i = 0; i < 10; i++)
			{
				join(nullptr, t % 2, 1);
				fasted_engine()->probe(nullptr, reason, sizeof(reason));
				std::this_thread::sleep_for(std::chrono::milliseconds(t));
			}
		});
	for (auto &thread : threads)
		thread.join();
	tap::ok(wrong == 0 && all_released(), "four threads, timeout 1 ms");

	/* a context is created in advance */
	FastedOptions options = {};
	bool		was_ready;

	options.idle_timeout = 1;
	was_ready = fasted_engine()->warm(&options);
	begin = std::chrono::steady_clock::now();
	while (!fasted_engine()->warm(&options))
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	tap::ok(!was_ready && is_active(0), "warm creates a CUDA context in %.3f s",
			std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
	begin = std::chrono::steady_clock::now();
	join(nullptr, 0, 1);
	tap::ok(wrong == 0, "the join takes %.3f s after that",
			std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
	tap::ok(all_released(), "the CUDA context is destroyed");
	fasted_engine()->warm(&options);
	tap::ok(all_released(), "also if no join follows");

	/* stop waits for the thread, which starts again when it is needed */
	fasted_engine()->warm(&options);
	fasted_engine()->stop();
	join(nullptr, 0, 1);
	tap::ok(wrong == 0 && all_released(), "a join after stop");
	fasted_engine()->stop();
}

/* Compares all filters at a size where most tiles are full. */
void
test_large()
{
	for (uint32_t d : {128u, 960u})
	{
		Rows		rows = clustered_rows(200000, d, 4000, 0.3f, d);
		double		eps = 0.3 * std::sqrt(2.0 * d) * 0.99;
		constexpr int kModes = sizeof(modes) / sizeof(modes[0]);
		uint64_t	hash[kModes];
		uint64_t	count[kModes];
		bool		same = true;

		for (int m = 0; m < kModes; m++)
		{
			auto		begin = std::chrono::steady_clock::now();
			uint64_t	h = 0;
			uint64_t	c = 0;
			Outcome		outcome = run_join(rows, problem_of(eps, modes[m]),
										   [&](const FastedPair *p, size_t n)
			{
				for (size_t i = 0; i < n; i++)
				{
					uint64_t	x;

					memcpy(&x, &p[i].dist, 8);
					x ^= ((uint64_t) p[i].a << 32 | p[i].b) * 0x9E3779B97F4A7C15;
					x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9;
					h += x ^ x >> 29;
				}
				c += n;
				return true;
			});
			double		seconds = std::chrono::duration<double>(
				std::chrono::steady_clock::now() - begin).count();

			hash[m] = h;
			count[m] = c;
			tap::note("%s: %.2f s, filter %.3f s, refine %.3f s, %llu candidates, "
					  "%llu pairs, %llu redone %s", modes[m].name, seconds,
					  outcome.stats.filter_seconds, outcome.stats.refine_seconds,
					  (unsigned long long) outcome.stats.candidates,
					  (unsigned long long) c,
					  (unsigned long long) outcome.stats.redone_units,
					  outcome.error.c_str());
		}
		for (int m = 1; m < kModes; m++)
			same &= count[m] == count[0] && hash[m] == hash[0];
		tap::ok(count[0] > 100000 && same,
				"n = 200000, d = %u: %llu pairs, the same by all filters", d,
				(unsigned long long) count[0]);
	}
}

}								/* namespace */

int
main(int argc, char **argv)
{
	std::string mode = argc > 1 ? argv[1] : "";
	char		reason[300] = "";

	if (fasted_engine()->probe(nullptr, reason, sizeof(reason)) != FASTED_OK)
	{
		tap::ok(false, "a GPU is available: %s", reason);
		return tap::done();
	}
	if (mode == "--large")
		test_large();
	else if (mode == "--crowded")
		test_crowded();
	else if (mode == "--fault")
		test_fault();
	else if (mode == "--idle")
		test_idle(argc > 2 ? atoi(argv[2]) : 20);
	else
	{
		test_life();
		test_devices();
	}
	return tap::done();
}
