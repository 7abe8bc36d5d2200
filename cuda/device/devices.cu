/*-------------------------------------------------------------------------
 *
 * devices.cu
 *	  Which GPU a context uses, what became of each in this process, and its pinned memory.
 *
 *-------------------------------------------------------------------------
 */
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "engine/device_list.h"

namespace fasted
{

namespace
{

constexpr size_t kSmallest = 4096;
constexpr int kPieces = 64;

struct Piece
{
	int			device;
	void	   *memory;
	size_t		size;
};

std::mutex	mutex;
Piece		pieces[kPieces];
int			count;
size_t		kept;

constexpr int kLeastCapability = 80;

struct Known
{
	cudaError_t error;			/* else the rest is nothing */
	Device		device;
	size_t		memory;			/* bytes */
	char		uuid[FASTED_UUID_TEXT];
};

struct Use
{
	std::atomic<int> contexts{0};
	std::atomic<bool> lost{false};
};

Use			uses[FASTED_MOST_DEVICES];

/*
 * Returns whether this process can use a GPU.  With driver 580 a process that lost its
 * context on one GPU gets no new context, on any GPU; a context that it has elsewhere stays.
 */
bool
is_usable(int ordinal)
{
	if (!context_was_lost || cudaSetDevice(ordinal) == cudaSuccess)
		return true;
	(void) cudaGetLastError();
	return false;
}

/* As nvidia-smi -L writes it. */
void
write_uuid(const cudaUUID_t &uuid, char *text)
{
	char	   *to = text + snprintf(text, FASTED_UUID_TEXT, "GPU-");

	for (int i = 0; i < 16; i++)
		to += snprintf(to, text + FASTED_UUID_TEXT - to,
					   i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
					   (unsigned char) uuid.bytes[i]);
}

Known
look_at(int ordinal)
{
	cudaDeviceProp properties;
	Known		known = {};

	known.device.ordinal = ordinal;
	known.error = cudaGetDeviceProperties(&properties, ordinal);
	if (known.error != cudaSuccess)
	{
		(void) cudaGetLastError();
		return known;
	}
	known.device.capability = properties.major * 10 + properties.minor;
	known.device.multiprocessors = properties.multiProcessorCount;
	known.device.shared_per_multiprocessor = (int) properties.sharedMemPerMultiprocessor;
	known.memory = properties.totalGlobalMem;
	snprintf(known.device.name, sizeof(known.device.name), "%.90s", properties.name);
	write_uuid(properties.uuid, known.uuid);
	return known;
}

std::vector<Known>
look_at_all(int count)
{
	std::vector<Known> devices;

	for (int ordinal = 0; ordinal < count && ordinal < FASTED_MOST_DEVICES; ordinal++)
		devices.push_back(look_at(ordinal));
	return devices;
}

/* To ask takes a millisecond for each, and in one process the answer stays the same. */
const std::vector<Known> &
known_devices()
{
	static const std::vector<Known> none;
	int			count = 0;
	int			driver = 0;
	cudaError_t error = cudaGetDeviceCount(&count);

	if (error == cudaErrorInsufficientDriver
		&& cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
	{
		(void) cudaGetLastError();
		fail(FASTED_NO_DEVICE, "no NVIDIA driver was found");
	}
	check_cuda(error, "looking for a GPU");
	if (count == 0)
		return none;

	static const std::vector<Known> devices = look_at_all(count);

	return devices;
}

/* A name that is no device's, or several devices'. */
[[noreturn]] void
fail_name(const FastedDeviceName &name, const std::vector<Known> &devices, bool several)
{
	char		ordinal[16];
	char		list[600] = "";
	size_t		length = 0;

	for (const Known &known : devices)
	{
		length += snprintf(list + length, sizeof(list) - length, "%s%d (%s, %s)",
						   length > 0 ? ", " : "", known.device.ordinal, known.device.name,
						   known.uuid);
		if (length >= sizeof(list))
			break;				/* so many will do */
	}
	snprintf(ordinal, sizeof(ordinal), "%d", name.ordinal);
	fail(FASTED_UNKNOWN_DEVICE, "%s GPU is \"%s\".\n%s%s%s",
		 several ? "More than one" : "No", name.ordinal >= 0 ? ordinal : name.uuid,
		 devices.empty() ? "There is no GPU at all" : "There are: ", list, ".");
}

const Known &
named_device(const FastedDeviceName &name, const std::vector<Known> &devices)
{
	const Known *found = nullptr;

	for (const Known &known : devices)
	{
		if (!fasted_is_device(&name, known.device.ordinal, known.uuid))
			continue;
		if (found != nullptr)
			fail_name(name, devices, true);
		found = &known;
	}
	if (found == nullptr)
		fail_name(name, devices, false);
	return *found;
}

/*
 * All devices, or those that are named.  Every name is looked at, so that a wrong one is told,
 * wherever it stands.
 */
std::vector<Known>
named_devices(const char *names, const std::vector<Known> &devices)
{
	std::vector<Known> chosen;

	if (fasted_any_device(names))
		return devices;
	while (*names != '\0')
	{
		FastedDeviceName name;

		if (!fasted_next_device(&names, &name))
			fail(FASTED_UNSUPPORTED, "\"%s\" names no GPU", names);
		chosen.push_back(named_device(name, devices));
	}
	return chosen;
}

}								/* namespace */

size_t
pinned_size(size_t bytes)
{
	size_t		size = kSmallest;

	while (size < bytes)
		size *= 2;
	return size;
}

void *
take_pinned(int device, size_t size)
{
	std::lock_guard<std::mutex> lock(mutex);

	for (int i = 0; i < count; i++)
	{
		if (pieces[i].device == device && pieces[i].size == size)
		{
			void	   *memory = pieces[i].memory;

			pieces[i] = pieces[--count];
			kept -= size;
			return memory;
		}
	}
	return nullptr;
}

bool
keep_pinned(int device, void *memory, size_t size)
{
	std::lock_guard<std::mutex> lock(mutex);

	if (count == kPieces || size > kPinnedKept - kept)
		return false;
	pieces[count++] = {device, memory, size};
	kept += size;
	return true;
}

void
forget_pinned(int device)
{
	std::lock_guard<std::mutex> lock(mutex);

	for (int i = 0; i < count;)
	{
		if (pieces[i].device == device)
		{
			kept -= pieces[i].size;
			pieces[i] = pieces[--count];
		}
		else
			i++;
	}
}

Device
find_device(const char *names)
{
	const std::vector<Known> &devices = known_devices();
	bool		unusable = false;
	cudaError_t unanswered = cudaSuccess;

	for (const Known &known : named_devices(names, devices))
	{
		const Device &device = known.device;

		/* one that does not answer is of no interest where another one will do */
		if (known.error != cudaSuccess)
		{
			unanswered = known.error;
			continue;
		}
		if (device.capability < kLeastCapability)
			continue;
		if (is_usable(device.ordinal))
			return device;
		unusable = true;
	}
	check_cuda(unanswered, "asking for a GPU's properties");
	if (unusable)
		fail(FASTED_NO_DEVICE, "an earlier error of a GPU ended this process's use of GPUs. Use a new session.");
	fail(FASTED_NO_DEVICE, devices.empty() ? "no GPU was found"
		 : fasted_any_device(names) ? "no GPU has compute capability 8.0 or later"
		 : "no GPU that is named has compute capability 8.0 or later");
}

/* Those that cut a join into the same slices. */
static bool
is_alike(const Device &a, const Device &b)
{
	return a.capability == b.capability && a.multiprocessors == b.multiprocessors
		&& strcmp(a.name, b.name) == 0;
}

int
list_alike(const char *names, char (*list)[FASTED_DEVICE_NAME], int most)
{
	Device		first = find_device(names);
	const std::vector<Known> &devices = known_devices();
	int			count = 0;

	for (const Known &known : named_devices(names, devices))
	{
		bool		listed = false;

		for (int i = 0; i < count; i++)
			listed = listed || strcmp(list[i], known.uuid) == 0;
		if (count < most && !listed && known.error == cudaSuccess && is_alike(known.device, first)
			&& is_usable(known.device.ordinal))
			snprintf(list[count++], FASTED_DEVICE_NAME, "%s", known.uuid);
	}
	return count;
}

bool
describe_device(int ordinal, char *text, size_t size)
{
	const std::vector<Known> &devices = known_devices();

	if (ordinal < 0 || (size_t) ordinal >= devices.size())
		return false;

	const Known &known = devices[ordinal];

	if (known.error != cudaSuccess)
		snprintf(text, size, "does not answer: %s", cudaGetErrorString(known.error));
	else
		snprintf(text, size, "%s, %.1f GiB, compute capability %d.%d, %s", known.device.name,
				 (double) known.memory / (1 << 30), known.device.capability / 10,
				 known.device.capability % 10, known.uuid);
	return true;
}

void
begin_use(int ordinal)
{
	uses[ordinal].contexts++;
}

void
note_lost(int ordinal)
{
	uses[ordinal].lost = true;
	context_was_lost = true;
}

void
see_memory_of(int ordinal, int other)
{
	int			can = 0;

	if (ordinal == other)
		return;
	if (cudaDeviceCanAccessPeer(&can, ordinal, other) == cudaSuccess && can)
		(void) cudaDeviceEnablePeerAccess(other, 0);
	(void) cudaGetLastError();	/* also where it is enabled already */
}

void
end_use(int ordinal)
{
	Use		   &use = uses[ordinal];

	if (--use.contexts > 0 || !use.lost.exchange(false))
		return;
	forget_pinned(ordinal);
	(void) cudaSetDevice(ordinal);
	(void) cudaDeviceReset();
}

}								/* namespace fasted */
