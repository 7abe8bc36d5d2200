/*-------------------------------------------------------------------------
 *
 * upload_bench.cu
 *	  Compare methods of copying rows from host memory to all GPUs.
 *
 *	upload_bench [--mb M] [--runs R]
 *
 *	one			pageable memory, through pinned buffers, to the first GPU only
 *	each		pageable memory, through separate pinned buffers for each GPU
 *	shared		pageable memory, through pinned buffers that all GPUs share
 *	peer		pageable memory, through pinned buffers to the first GPU, and from
 *				each GPU to the next one
 *	locked		pinned memory, directly to each GPU
 *	locked peer	pinned memory, to the first GPU, and from each GPU to the next one
 *
 * There are three buffers of 2 MiB.  The program prints the median rate of M MiB of
 * rows, in GB/s, until all GPUs have all rows.
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

#include "device/device.h"
#include "numbers.h"

using namespace fasted;

namespace
{

constexpr size_t kBuffer = (size_t) 2 << 20;
constexpr int kBuffers = 3;

struct Gpu
{
	char	   *rows = nullptr;
	cudaStream_t stream = nullptr;
	char	   *buffers[kBuffers] = {};
	cudaEvent_t read[kBuffers] = {};	/* this GPU has read the buffer */
	cudaEvent_t received = nullptr;	/* the next GPU may copy the rows */
};

std::vector<Gpu> gpus;
char	   *host;
char	   *locked;
size_t		bytes = (size_t) 1 << 30;

void
use(size_t g)
{
	check_cuda(cudaSetDevice((int) g), "choosing the device");
}

void
set_up()
{
	int			count = 0;

	check_cuda(cudaGetDeviceCount(&count), "counting devices");
	gpus.resize(count);
	host = (char *) malloc(bytes);
	for (size_t i = 0; i < bytes; i++)
		host[i] = (char) (i * 2654435761u >> 13);
	check_cuda(cudaHostAlloc((void **) &locked, bytes, cudaHostAllocPortable), "locking memory");
	memcpy(locked, host, bytes);
	for (size_t g = 0; g < gpus.size(); g++)
	{
		Gpu		   &gpu = gpus[g];

		use(g);
		check_cuda(cudaMalloc((void **) &gpu.rows, bytes), "allocating");
		check_cuda(cudaStreamCreate(&gpu.stream), "creating a stream");
		check_cuda(cudaEventCreateWithFlags(&gpu.received, cudaEventDisableTiming), "an event");
		for (int i = 0; i < kBuffers; i++)
		{
			check_cuda(cudaHostAlloc((void **) &gpu.buffers[i], kBuffer, cudaHostAllocPortable), "a buffer");
			check_cuda(cudaEventCreateWithFlags(&gpu.read[i], cudaEventDisableTiming), "an event");
		}
		for (size_t other = 0; other < gpus.size(); other++)
		{
			int			can = 0;

			if (other == g)
				continue;
			check_cuda(cudaDeviceCanAccessPeer(&can, (int) g, (int) other), "asking for peers");
			if (can)
				(void) cudaDeviceEnablePeerAccess((int) other, 0);
			printf("# GPU %zu reads GPU %zu %s\n", g, other, can ? "directly" : "through the host");
		}
	}
}

void
send(size_t g, size_t at, const char *from, size_t size)
{
	use(g);
	check_cuda(cudaMemcpyAsync(gpus[g].rows + at, from, size, cudaMemcpyHostToDevice, gpus[g].stream),
			   "copying rows");
}

/* Copies rows from the previous GPU after it has received them. */
void
pass_on(size_t g, size_t at, size_t size)
{
	use(g - 1);
	check_cuda(cudaEventRecord(gpus[g - 1].received, gpus[g - 1].stream), "recording");
	use(g);
	check_cuda(cudaStreamWaitEvent(gpus[g].stream, gpus[g - 1].received, 0), "waiting");
	check_cuda(cudaMemcpyPeerAsync(gpus[g].rows + at, (int) g, gpus[g - 1].rows + at, (int) g - 1, size,
								   gpus[g].stream), "copying from GPU to GPU");
}

/* Copies all rows by one of the methods. */
void
upload(const std::string &way)
{
	size_t		targets = way == "one" ? 1 : gpus.size();
	bool		peer = way.find("peer") != std::string::npos;

	for (size_t at = 0, turn = 0; at < bytes; at += kBuffer, turn++)
	{
		size_t		size = std::min(kBuffer, bytes - at);
		int			slot = (int) (turn % kBuffers);
		const char *from = locked + at;

		for (size_t g = 0; g < targets; g++)
		{
			if (way.find("locked") == std::string::npos && (g == 0 || way == "each"))
			{
				char	   *buffer = gpus[g].buffers[slot];

				for (size_t reader = g; reader < (way == "each" ? g + 1 : targets); reader++)
					check_cuda(cudaEventSynchronize(gpus[reader].read[slot]), "waiting for a buffer");
				memcpy(buffer, host + at, size);
				from = buffer;
			}
			if (peer && g > 0)
				pass_on(g, at, size);
			else
				send(g, at, from, size);
			check_cuda(cudaEventRecord(gpus[g].read[slot], gpus[g].stream), "recording");
		}
	}
	for (size_t g = 0; g < gpus.size(); g++)
		check_cuda(cudaStreamSynchronize(gpus[g].stream), "copying rows");
}

/* Returns whether the first "targets" GPUs have the correct rows, and clears them. */
bool
arrived(size_t targets)
{
	std::vector<char> back(bytes);

	for (size_t g = 0; g < targets; g++)
	{
		use(g);
		check_cuda(cudaMemcpy(back.data(), gpus[g].rows, bytes, cudaMemcpyDeviceToHost), "reading back");
		check_cuda(cudaMemset(gpus[g].rows, 0, bytes), "clearing");
		if (memcmp(back.data(), host, bytes) != 0)
			return false;
	}
	return true;
}

}								/* namespace */

int
main(int argc, char **argv)
{
	int			runs = 5;

	for (int i = 1; i + 1 < argc; i += 2)
	{
		if (strcmp(argv[i], "--mb") == 0)
			bytes = (size_t) atoi(argv[i + 1]) << 20;
		else if (strcmp(argv[i], "--runs") == 0)
			runs = atoi(argv[i + 1]);
	}
	try
	{
		set_up();
		for (const char *way : {"one", "each", "shared", "peer", "locked", "locked peer"})
		{
			std::vector<double> rates;

			for (int run = 0; run <= runs; run++)
			{
				auto		begin = std::chrono::steady_clock::now();

				upload(way);
				if (run > 0)
					rates.push_back(bytes * 1e-9 / std::chrono::duration<double>(
						std::chrono::steady_clock::now() - begin).count());
			}
			printf("%-12s %7.2f GB/s%s\n", way, bench::median(rates),
				   arrived(strcmp(way, "one") == 0 ? 1 : gpus.size()) ? "" : " WRONG");
			fflush(stdout);
		}
	}
	catch (const Failure &failure)
	{
		fprintf(stderr, "upload_bench: %s\n", failure.text);
		return 1;
	}
	return 0;
}
