/*-------------------------------------------------------------------------
 *
 * engine.cu
 *	  The entry points of the library: implements engine.h with C++ and CUDA.
 *
 * Errors are returned as a status and a message.  Every entry point blocks all signals
 * while it calls CUDA.  Threads that CUDA creates inherit this mask, so that signal handlers
 * of the host program never run in them.
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <list>
#include <new>
#include <type_traits>

#include "schedule/context.h"

struct FastedSet : fasted::Set
{
	FastedContext *owner;

	FastedSet(FastedContext *owner_, fasted::Context &context, const FastedSetOptions &options)
		: Set(context, options), owner(owner_)
	{
	}
};

struct FastedJoin : fasted::Join
{
	FastedContext *owner;

	FastedJoin(FastedContext *owner_, fasted::Context &context, const FastedProblem &problem,
			   fasted::Set &a, fasted::Set &b)
		: Join(context, problem, a, b), owner(owner_)
	{
	}
};

/* A failure belongs to the context.  After a failure, only close functions do anything. */
struct FastedContext
{
	fasted::Context *context;	/* null if it could not be opened */
	std::list<FastedSet> sets;
	std::list<FastedJoin> joins;	/* at most one */
	fasted::Failure failure;	/* first failure; the status is FASTED_OK before */
	int			ordinal;		/* ordinal of the device, or -1 */
	pid_t		process;		/* process that opened the context */
};

namespace fasted
{

namespace
{

class SignalsBlocked
{
public:
	SignalsBlocked()
	{
		sigset_t	all;

		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before_);
	}
	~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
	sigset_t	before_;
};

/* The process that uses CUDA; processes forked from it cannot. */
std::atomic<pid_t> cuda_process{0};

void
enter_cuda()
{
	pid_t		none = 0;
	pid_t		here = getpid();

	if (!cuda_process.compare_exchange_strong(none, here) && none != here)
		fail(FASTED_DEVICE_FAILED,
			 "CUDA cannot be used in a process that was forked from a process using CUDA.\n"
			 "Start a new process.");
}

/*
 * Runs body and converts exceptions to a failure.  Returns the status that body returns, or
 * FASTED_OK if it returns nothing.  If body returns a bool, false becomes FASTED_FULL.
 */
template <class Body>
FastedStatus
guarded(Failure *failure, const Body &body) noexcept
{
	using Result = decltype(body());

	try
	{
		if constexpr (std::is_same_v<Result, FastedStatus>)
			return body();
		else if constexpr (std::is_same_v<Result, bool>)
			return body() ? FASTED_OK : FASTED_FULL;
		else
		{
			body();
			return FASTED_OK;
		}
	}
	catch (const Failure &thrown)
	{
		*failure = thrown;
	}
	catch (const std::bad_alloc &)
	{
		*failure = {FASTED_OUT_OF_MEMORY, false, "Could not allocate host memory."};
	}
	catch (const std::exception &thrown)
	{
		/* CUB's own exceptions do not say whether the CUDA context is lost; then any call fails */
		cudaError_t error = cudaStreamQuery(nullptr);
		const char *hint = is_sticky(error) ? hint_for(error) : "";

		(void) cudaGetLastError();
		*failure = {FASTED_DEVICE_FAILED, is_sticky(error), ""};
		snprintf(failure->text, sizeof(failure->text), "CUDA reported an error: %s.%s%s", thrown.what(),
				 hint[0] ? "\n" : "", hint);
	}
	catch (...)
	{
		*failure = {FASTED_INTERNAL, false, "unexpected exception in the CUDA engine"};
	}
	return failure->status;
}

/* The same for an entry point that uses a context.  Does nothing after a failure. */
template <class Body>
FastedStatus
enter(FastedContext *context, const Body &body) noexcept
{
	SignalsBlocked blocked;

	if (FASTED_FAILED(context->failure.status))
		return context->failure.status;

	FastedStatus status = guarded(&context->failure, [&]
	{
		enter_cuda();
		check_cuda(cudaSetDevice(context->ordinal), "choosing the device");
		return body();
	});

	if (FASTED_FAILED(status) && context->failure.sticky)
		note_lost(context->ordinal);
	return status;
}

/* An entry point that calls a method of Set or Join with the same arguments. */
template <auto kMethod>
struct Entry;

template <class Object, class Result, class... Args, Result (Object::*kMethod)(Args...)>
struct Entry<kMethod>
{
	using Handle = std::conditional_t<std::is_same_v<Object, Set>, FastedSet, FastedJoin>;

	static FastedStatus call(Handle *handle, Args... args)
	{
		Object	   &object = *handle;

		return enter(handle->owner, [&] { return (object.*kMethod)(args...); });
	}
};

/*
 * The same for an entry point that only releases resources, even after a failure.  In a forked
 * child process, all resources belong to the parent: returns false without calling CUDA.
 */
template <class Body>
bool
release(FastedContext *context, const Body &body) noexcept
{
	SignalsBlocked blocked;
	Failure		ignored;

	if (context->process != getpid())
		return false;
	guarded(&ignored, [&]
	{
		if (context->ordinal >= 0)
			(void) cudaSetDevice(context->ordinal);
		body();
	});
	return true;
}

/* Removes an element from its list. */
template <class Element>
void
remove_from(std::list<Element> &list, const Element *element)
{
	list.remove_if([&](const Element &each) { return &each == element; });
}

/* The same for an entry point that queries GPUs, without a context. */
template <class Body>
FastedStatus
query(Failure *failure, const Body &body) noexcept
{
	SignalsBlocked blocked;

	return guarded(failure, [&]
	{
		enter_cuda();

		std::lock_guard<std::mutex> lock(devices_mutex);

		body();
	});
}

FastedStatus
engine_probe(const char *devices, char *reason, size_t size)
{
	Failure		failure;
	FastedStatus status = query(&failure, [&] { find_device(devices); });

	if (status == FASTED_OK)
		return status;
	if (reason != nullptr && size > 0)
		snprintf(reason, size, "%s", failure.text);
	return status == FASTED_UNKNOWN_DEVICE ? status : FASTED_NO_DEVICE;
}

int
engine_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	Failure		ignored;
	int			count = 0;

	query(&ignored, [&] { count = list_same_model(devices, names, most); });
	return count;
}

bool
engine_describe(int ordinal, char *description, size_t size)
{
	Failure		ignored;
	bool		found = false;

	query(&ignored, [&] { found = describe_device(ordinal, description, size); });
	return found;
}

bool
engine_warm(const FastedOptions *options)
{
	Failure		ignored;
	bool		warm = true;

	query(&ignored, [&] { warm = warm_device(options->devices, options->idle_timeout); });
	return warm;
}

FastedStatus
engine_open(const FastedOptions *options, FastedContext **result)
{
	SignalsBlocked blocked;
	FastedContext *context = new (std::nothrow) FastedContext();
	FastedOptions kept = *options;

	*result = context;
	if (context == nullptr)
		return FASTED_OUT_OF_MEMORY;
	/* the caller may free these strings */
	kept.devices = kept.kernel = nullptr;
	context->process = getpid();
	context->ordinal = -1;
	guarded(&context->failure, [&]
	{
		enter_cuda();
		if (options->dimensions < 1 || options->dimensions > FASTED_MAX_DIMENSIONS)
			fail(FASTED_INTERNAL, "the options are out of range");

		const MetricRules *rules = fasted_metric_rules(options->metric);

		if (rules == nullptr)
			fail(FASTED_UNSUPPORTED, "Metric %d is unknown.", (int) options->metric);
		if (rules->of_bits != (options->element == FASTED_ELEMENT_BIT))
			fail(FASTED_INTERNAL, "the metric does not suit the type of the elements");

		Device		device = find_device(options->devices);

		begin_use(device.ordinal, options->idle_timeout);
		context->ordinal = device.ordinal;
		context->context = new Context(kept, device);
	});
	if (context->failure.sticky && context->ordinal >= 0)
		note_lost(context->ordinal);
	return context->failure.status;
}

void
engine_stats(const FastedContext *context, FastedStats *stats)
{
	memset(stats, 0, sizeof(*stats));
	if (context->context != nullptr)
		context->context->stats(stats);
	else
		snprintf(stats->engine, sizeof(stats->engine), "cuda");
}

const char *
engine_last_error(const FastedContext *context)
{
	return context != nullptr ? context->failure.text : "Could not allocate host memory.";
}

/* In a forked child process, the memory is leaked because CUDA must not be called. */
void
engine_close(FastedContext *context)
{
	if (context == nullptr)
		return;

	bool		ours = release(context, [&]
	{
		context->joins.clear();
		context->sets.clear();
		delete context->context;
	});

	if (!ours)
		return;
	if (context->ordinal >= 0)
	{
		SignalsBlocked blocked;
		Failure		ignored;

		guarded(&ignored, [&] { end_use(context->ordinal); });
	}
	delete context;
}

bool
engine_fits(const FastedContext *context, const uint64_t *rows, int nsets)
{
	SignalsBlocked blocked;
	bool		fits = false;
	Failure		ignored;

	if (context->context == nullptr || context->process != getpid())
		return false;
	guarded(&ignored, [&]
	{
		check_cuda(cudaSetDevice(context->ordinal), "choosing the device");
		fits = context->context->fits(rows, nsets);
	});
	return fits;
}

FastedStatus
engine_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **set)
{
	*set = nullptr;
	return enter(context, [&]
	{
		*set = &context->sets.emplace_back(context, *context->context, *options);
	});
}

bool
engine_register_memory(FastedSet *set, void *memory, size_t bytes)
{
	bool		registered = false;

	enter(set->owner, [&] { registered = set->register_memory(memory, bytes); });
	return registered;
}

/* Also works after a failure, because the caller is going to free the memory. */
void
engine_unregister_memory(FastedSet *set)
{
	release(set->owner, [&] { set->unregister_memory(); });
}

FastedStatus
engine_put(FastedSet *set, const float *rows, size_t nrows, size_t *taken)
{
	*taken = 0;
	return enter(set->owner, [&]
	{
		*taken = set->put(rows, nrows);
		return *taken > 0;
	});
}

void
engine_set_close(FastedSet *set)
{
	if (set != nullptr)
		release(set->owner, [&] { remove_from(set->owner->sets, set); });
}

FastedStatus
engine_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a,
				 FastedSet *b, FastedJoin **join)
{
	*join = nullptr;
	return enter(context, [&]
	{
		*join = &context->joins.emplace_back(context, *context->context, *problem, *a, *b);
	});
}

FastedStatus
engine_merge_lists(FastedJoin *join, const FastedJoin *from, uint64_t first_row, size_t nrows)
{
	return enter(join->owner, [&] { return join->merge_lists(*from, first_row, nrows); });
}

uint64_t
engine_rows_for_lists(const FastedContext *context, uint64_t rows, uint32_t k)
{
	return context->context != nullptr ? context->context->rows_for_lists(rows, k) : 0;
}

FastedStatus
engine_copy_set(FastedSet *set, const FastedSet *from)
{
	return enter(set->owner, [&] { return set->copy_set(*from); });
}

FastedStatus
engine_select_rows(FastedSet *set, const FastedSet *from, const uint32_t *positions, size_t nrows)
{
	return enter(set->owner, [&] { return set->select_rows(*from, positions, nrows); });
}

void
engine_join_close(FastedJoin *join)
{
	if (join != nullptr)
		release(join->owner, [&] { remove_from(join->owner->joins, join); });
}

const FastedEngine cuda_engine = {
	FASTED_ENGINE_ABI,
	"cuda",
	engine_probe,
	engine_devices,
	engine_describe,
	engine_warm,
	engine_open,
	engine_stats,
	engine_last_error,
	engine_close,
	stop_background,
	engine_fits,
	engine_set_open,
	Entry<&Set::stage>::call,
	Entry<&Set::commit>::call,
	engine_register_memory,
	engine_unregister_memory,
	engine_put,
	Entry<&Set::wait_read>::call,
	Entry<&Set::read_back>::call,
	Entry<&Set::seal>::call,
	engine_copy_set,
	Entry<&Set::reset>::call,
	engine_set_close,
	engine_join_open,
	Entry<&Join::next>::call,
	[](FastedJoin *) {},		/* pause: only next starts rounds, and they end within about 30 ms */
	Entry<&Join::counts>::call,
	Entry<&Join::nearest>::call,
	engine_merge_lists,
	kMostSorted,				/* most_merged */
	engine_rows_for_lists,
	engine_select_rows,
	engine_join_close,
	true,						/* connects */
	true,						/* chooses_representatives */
};

}								/* namespace */

}								/* namespace fasted */

/* The only symbol that the library exports. */
extern "C" __attribute__((visibility("default"))) const FastedEngine *
fasted_engine(void)
{
	return &fasted::cuda_engine;
}
