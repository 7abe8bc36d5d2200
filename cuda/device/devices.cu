/*-------------------------------------------------------------------------
 *
 * devices.cu
 *	  Chooses GPUs, creates and destroys CUDA contexts, and manages the pool of pinned memory.
 *
 *-------------------------------------------------------------------------
 */
#include <algorithm>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
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

struct DeviceInfo
{
	cudaError_t error;			/* if not cudaSuccess, only device.ordinal is valid */
	Device		device;
	size_t		memory;			/* bytes */
	char		uuid[FASTED_UUID_TEXT];
};

using Clock = std::chrono::steady_clock;

struct Use
{
	int			contexts;		/* number of engine contexts */
	bool		initialized;	/* it may have a CUDA context */
	bool		lost;
};

/* Returns the time in `ms` milliseconds; in weeks if ms is 0. */
Clock::time_point
time_in(int ms)
{
	return Clock::now() + std::chrono::milliseconds(ms > 0 ? ms : INT_MAX);
}

/* The fields are protected by devices_mutex. */
struct Usage
{
	Use			uses[FASTED_MOST_DEVICES] = {};
	int			idle_timeout = 0;
	Clock::time_point deadline = time_in(0);	/* when to destroy the CUDA contexts */
	std::string names;			/* argument of warm_device */
	bool		warming = false;	/* warm_device has been called */
	bool		warm = false;	/* and has been carried out */
	bool		stop = false;
	std::condition_variable changed;
	std::thread thread;			/* the background thread */
};

/* It is never deleted, because the thread may wait for `changed` while the process exits. */
Usage	   &usage = *new Usage;

/* Minimum time from warm_device until CUDA contexts are destroyed, in milliseconds. */
constexpr int kLeastWarm = 1000;

/*
 * Returns whether this process can use a GPU.  With driver 580, a process that lost its CUDA
 * context on one GPU cannot create a new context on any GPU; its other contexts remain usable.
 */
bool
is_usable(int ordinal)
{
	if (!context_was_lost || cudaSetDevice(ordinal) == cudaSuccess)
		return true;
	(void) cudaGetLastError();
	return false;
}

/* Formats a UUID as nvidia-smi -L does. */
void
write_uuid(const cudaUUID_t &uuid, char *text)
{
	char	   *to = text + snprintf(text, FASTED_UUID_TEXT, "GPU-");

	for (int i = 0; i < 16; i++)
		to += snprintf(to, text + FASTED_UUID_TEXT - to,
					   i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
					   (unsigned char) uuid.bytes[i]);
}

DeviceInfo
query_device(int ordinal)
{
	cudaDeviceProp properties;
	DeviceInfo		known = {};

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

std::vector<DeviceInfo>
query_all_devices(int count)
{
	std::vector<DeviceInfo> devices;

	for (int ordinal = 0; ordinal < count && ordinal < FASTED_MOST_DEVICES; ordinal++)
		devices.push_back(query_device(ordinal));
	return devices;
}

/* Returns all devices.  Queries them once per process, because it takes 1 ms for each. */
const std::vector<DeviceInfo> &
all_devices()
{
	static const std::vector<DeviceInfo> none;
	int			count = 0;
	int			driver = 0;
	cudaError_t error = cudaGetDeviceCount(&count);

	if (error == cudaErrorInsufficientDriver
		&& cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
	{
		(void) cudaGetLastError();
		fail(FASTED_NO_DEVICE, "No NVIDIA driver was found.");
	}
	check_cuda(error, "looking for a GPU");
	if (count == 0)
		return none;

	static const std::vector<DeviceInfo> devices = query_all_devices(count);

	return devices;
}

/* Throws an error for a name that matches no device, or several devices. */
[[noreturn]] void
fail_name(const FastedDeviceName &name, const std::vector<DeviceInfo> &devices, bool several)
{
	char		ordinal[16];
	char		list[600] = "";
	size_t		length = 0;

	for (const DeviceInfo &known : devices)
	{
		length += snprintf(list + length, sizeof(list) - length, "%s%d (%s, %s)",
						   length > 0 ? ", " : "", known.device.ordinal, known.device.name,
						   known.uuid);
		if (length >= sizeof(list))
			break;				/* the list is long enough for a hint */
	}
	snprintf(ordinal, sizeof(ordinal), "%d", name.ordinal);
	fail(FASTED_UNKNOWN_DEVICE, "%s matches \"%s\".\n%s%s.",
		 several ? "More than one GPU" : "No GPU", name.ordinal >= 0 ? ordinal : name.uuid,
		 devices.empty() ? "This server has no GPU" : "Available GPUs: ", list);
}

const DeviceInfo &
named_device(const FastedDeviceName &name, const std::vector<DeviceInfo> &devices)
{
	const DeviceInfo *found = nullptr;

	for (const DeviceInfo &known : devices)
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
 * Returns the devices in the list, or all devices if it is empty.  All names are checked, so that
 * an invalid name is reported even if an earlier device can be used.
 */
std::vector<DeviceInfo>
named_devices(const char *names, const std::vector<DeviceInfo> &devices)
{
	std::vector<DeviceInfo> chosen;

	if (fasted_any_device(names))
		return devices;
	while (*names != '\0')
	{
		FastedDeviceName name;

		if (!fasted_next_device(&names, &name))
			fail(FASTED_UNSUPPORTED, "The list of GPUs is invalid at \"%s\".", names);
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
			(void) cudaFreeHost(pieces[i].memory);
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
	const std::vector<DeviceInfo> &devices = all_devices();
	bool		unusable = false;
	cudaError_t unanswered = cudaSuccess;

	for (const DeviceInfo &known : named_devices(names, devices))
	{
		const Device &device = known.device;

		/* a device that cannot be queried is reported only if no other one can be used */
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
		fail(FASTED_NO_DEVICE, "This process cannot use GPUs after an earlier GPU error.\n"
			 "Start a new session.");
	fail(FASTED_NO_DEVICE, devices.empty() ? "No GPU was found."
		 : fasted_any_device(names) ? "No GPU has compute capability 8.0 or later."
		 : "No GPU in fasted.gpu_devices has compute capability 8.0 or later.");
}

/* Returns whether two devices are identical, so that they divide a join into the same slices. */
static bool
is_same_model(const Device &a, const Device &b)
{
	return a.capability == b.capability && a.multiprocessors == b.multiprocessors
		&& strcmp(a.name, b.name) == 0;
}

int
list_same_model(const char *names, char (*list)[FASTED_DEVICE_NAME], int most)
{
	Device		first = find_device(names);
	const std::vector<DeviceInfo> &devices = all_devices();
	int			count = 0;

	for (const DeviceInfo &known : named_devices(names, devices))
	{
		bool		listed = false;

		for (int i = 0; i < count; i++)
			listed = listed || strcmp(list[i], known.uuid) == 0;
		if (count < most && !listed && known.error == cudaSuccess
			&& is_same_model(known.device, first)
			&& is_usable(known.device.ordinal))
			snprintf(list[count++], FASTED_DEVICE_NAME, "%s", known.uuid);
	}
	return count;
}

bool
describe_device(int ordinal, char *text, size_t size)
{
	const std::vector<DeviceInfo> &devices = all_devices();

	if (ordinal < 0 || (size_t) ordinal >= devices.size())
		return false;

	const DeviceInfo &known = devices[ordinal];

	if (known.error != cudaSuccess)
		snprintf(text, size, "not available: %s", cudaGetErrorString(known.error));
	else
		snprintf(text, size, "%s, %.1f GiB, compute capability %d.%d, %s", known.device.name,
				 (double) known.memory / (1 << 30), known.device.capability / 10,
				 known.device.capability % 10, known.uuid);
	return true;
}

void
begin_use(int ordinal, int idle_timeout)
{
	std::lock_guard<std::mutex> lock(devices_mutex);

	usage.uses[ordinal].contexts++;
	usage.uses[ordinal].initialized = true;
	usage.idle_timeout = idle_timeout;
	usage.deadline = time_in(0);
}

void
note_lost(int ordinal)
{
	std::lock_guard<std::mutex> lock(devices_mutex);

	usage.uses[ordinal].lost = context_was_lost = true;
}

/* Destroys the CUDA context of a device.  The mutex is locked. */
static void
reset_device(int ordinal)
{
	(void) cudaSetDevice(ordinal);
	forget_pinned(ordinal);
	(void) cudaDeviceReset();
	(void) cudaGetLastError();
	usage.uses[ordinal].initialized = usage.uses[ordinal].lost = usage.warm = false;
}

/* Creates a CUDA context.  The next join reports errors.  The mutex is not locked meanwhile. */
static void
warm_now(std::unique_lock<std::mutex> &lock)
{
	std::string names = usage.names;
	int			idle_timeout = usage.idle_timeout;

	lock.unlock();
	try
	{
		int			ordinal = find_device(names.c_str()).ordinal;

		begin_use(ordinal, idle_timeout);
		(void) (cudaSetDevice(ordinal) == cudaSuccess && cudaFree(nullptr) == cudaSuccess);
		end_use(ordinal);
	}
	catch (...)
	{
	}
	(void) cudaGetLastError();
	lock.lock();
	usage.deadline = std::max(usage.deadline, time_in(kLeastWarm));
	usage.warming = false;
	usage.warm = true;
}

static void
run_background()
{
	std::unique_lock<std::mutex> lock(devices_mutex);

	while (!usage.stop)
	{
		if (usage.warming)
			warm_now(lock);
		else if (Clock::now() < usage.deadline)
			usage.changed.wait_until(lock, usage.deadline);
		else
		{
			for (int ordinal = 0; ordinal < FASTED_MOST_DEVICES; ordinal++)
				if (usage.uses[ordinal].initialized)
					reset_device(ordinal);
			usage.deadline = time_in(0);
		}
	}
}

/* Starts the background thread, or wakes it.  The mutex is locked, and signals are blocked. */
static void
wake_background()
{
	if (!usage.thread.joinable())
		usage.thread = std::thread(run_background);
	usage.changed.notify_all();
}

void
see_memory_of(int ordinal, int other)
{
	int			can = 0;

	if (ordinal == other)
		return;
	if (cudaDeviceCanAccessPeer(&can, ordinal, other) == cudaSuccess && can)
		(void) cudaDeviceEnablePeerAccess(other, 0);
	(void) cudaGetLastError();	/* not an error if it was enabled already */
}

void
end_use(int ordinal)
{
	std::lock_guard<std::mutex> lock(devices_mutex);
	Use		   &use = usage.uses[ordinal];

	if (--use.contexts == 0 && use.lost)
		reset_device(ordinal);
	for (const Use &other : usage.uses)
		if (other.contexts > 0)
			return;
	usage.deadline = time_in(usage.idle_timeout);
	wake_background();
}

bool
warm_device(const char *names, int idle_timeout)
{
	if (usage.warm || usage.warming)
		return usage.warm;
	usage.names = names != nullptr ? names : "";
	usage.idle_timeout = idle_timeout;
	wake_background();
	usage.warming = true;
	return false;
}

void
stop_background()
{
	std::unique_lock<std::mutex> lock(devices_mutex);

	if (!usage.thread.joinable())
		return;
	usage.stop = true;
	usage.changed.notify_all();
	lock.unlock();
	usage.thread.join();
	usage.stop = usage.warming = false;
}

}								/* namespace fasted */
