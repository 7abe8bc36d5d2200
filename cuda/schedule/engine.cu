/*-------------------------------------------------------------------------
 *
 * engine.cu
 *	  The library's border: engine.h on one side, C++ and CUDA on the other.
 *
 * Nothing but a status and a text passes.  Every entry blocks all signals
 * while it is in CUDA, whose threads inherit the mask, so that a handler of the
 * host program never runs on one of them.
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <list>
#include <memory>
#include <new>
#include <type_traits>

#include "schedule/context.h"

struct FastedSet
{
	FastedContext *context;
	std::unique_ptr<fasted::Set> set;
};

struct FastedJoin
{
	FastedContext *context;
	std::unique_ptr<fasted::Join> join;
};

/* A failure is the whole context's: after it nothing but closing goes on. */
struct FastedContext
{
	fasted::Context *context;	/* null: it could not be opened */
	std::list<FastedSet> sets;
	std::list<FastedJoin> joins;	/* one at most */
	FastedStatus failed;		/* FASTED_OK until something did */
	bool		sticky;
	int			ordinal;		/* of the device; -1: none yet */
	char		error[fasted::kTextBytes];
	pid_t		process;
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

/* The process that uses CUDA; a child of it cannot. */
std::atomic<pid_t> cuda_process{0};

char		open_error[kTextBytes];

void
enter_cuda()
{
	pid_t		none = 0;
	pid_t		here = getpid();

	if (!cuda_process.compare_exchange_strong(none, here) && none != here)
		fail(FASTED_DEVICE_FAILED,
			 "this process was forked from one that uses the GPU, and CUDA does "
			 "not work in it. Use a new process.");
}

/* Runs body; turns whatever it throws into a status and a text.  A body without a status is OK. */
template <class Body>
FastedStatus
guarded(char *error, size_t size, bool *sticky, const Body &body) noexcept
{
	try
	{
		if constexpr (!std::is_void_v<decltype(body())>)
			return body();
		else
		{
			body();
			return FASTED_OK;
		}
	}
	catch (const Failure &failure)
	{
		snprintf(error, size, "%s", failure.text);
		*sticky = failure.sticky;
		return failure.status;
	}
	catch (const std::bad_alloc &)
	{
		snprintf(error, size, "out of memory");
		return FASTED_OUT_OF_MEMORY;
	}
	catch (...)
	{
		snprintf(error, size, "an unexpected exception in the CUDA engine");
		return FASTED_INTERNAL;
	}
}

/* The same for an entry that works in a context. */
template <class Body>
FastedStatus
enter(FastedContext *context, const Body &body) noexcept
{
	SignalsBlocked blocked;

	if (context->failed != FASTED_OK)
		return context->failed;

	FastedStatus status = guarded(context->error, sizeof(context->error), &context->sticky, [&]
	{
		enter_cuda();
		check_cuda(cudaSetDevice(context->ordinal), "choosing the device");
		return body();
	});

	if (FASTED_FAILED(status))
	{
		context->failed = status;
		if (context->sticky)
			note_lost(context->ordinal);
	}
	return status;
}

/*
 * The same for an entry that only gives something back: after a failure too.  In a
 * forked child everything belongs to the parent: false, leave CUDA alone.
 */
template <class Body>
bool
give_back(FastedContext *context, const Body &body) noexcept
{
	SignalsBlocked blocked;
	bool		ignored = false;
	char		text[kTextBytes];

	if (context->process != getpid())
		return false;
	guarded(text, sizeof(text), &ignored, [&]
	{
		if (context->ordinal >= 0)
			(void) cudaSetDevice(context->ordinal);
		body();
	});
	return true;
}

FastedStatus
or_full(bool done)
{
	return done ? FASTED_OK : FASTED_FULL;
}

/* Takes an element out of its list. */
template <class Element>
void
take_out(std::list<Element> &list, const Element *element)
{
	list.remove_if([&](const Element &each) { return &each == element; });
}

/* The same for an entry that asks about GPUs, without a context. */
template <class Body>
FastedStatus
ask(char (&text)[kTextBytes], const Body &body) noexcept
{
	SignalsBlocked blocked;
	bool		sticky = false;

	text[0] = '\0';
	return guarded(text, sizeof(text), &sticky, [&]
	{
		enter_cuda();
		body();
	});
}

FastedStatus
engine_probe(const char *devices, char *reason, size_t size)
{
	char		text[kTextBytes];
	FastedStatus status = ask(text, [&] { find_device(devices); });

	if (status == FASTED_OK)
		return status;
	if (reason != nullptr && size > 0)
		snprintf(reason, size, "%s", text);
	return status == FASTED_UNKNOWN_DEVICE ? status : FASTED_NO_DEVICE;
}

int
engine_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	char		text[kTextBytes];
	int			count = 0;

	ask(text, [&] { count = list_alike(devices, names, most); });
	return count;
}

bool
engine_describe(int ordinal, char *description, size_t size)
{
	char		text[kTextBytes];
	bool		found = false;

	ask(text, [&] { found = describe_device(ordinal, description, size); });
	return found;
}

FastedStatus
engine_open(const FastedOptions *options, FastedContext **result)
{
	SignalsBlocked blocked;
	FastedContext *context = new (std::nothrow) FastedContext();
	FastedOptions kept = *options;

	*result = context;
	if (context == nullptr)
	{
		snprintf(open_error, sizeof(open_error), "out of memory");
		return FASTED_OUT_OF_MEMORY;
	}
	/* the caller's strings need not live on */
	kept.devices = kept.kernel = nullptr;
	context->process = getpid();
	context->ordinal = -1;
	context->failed = guarded(context->error, sizeof(context->error), &context->sticky, [&]
	{
		enter_cuda();
		if (options->dimensions < 1 || options->dimensions > FASTED_MAX_DIMENSIONS)
			fail(FASTED_INTERNAL, "the options are out of range");
		if (options->metric != FASTED_METRIC_L2 && options->metric != FASTED_METRIC_COSINE)
			fail(FASTED_UNSUPPORTED, "there is no metric %d", (int) options->metric);

		Device		device = find_device(options->devices);

		begin_use(device.ordinal);
		context->ordinal = device.ordinal;
		context->context = new Context(kept, device);
	});
	if (context->sticky && context->ordinal >= 0)
		note_lost(context->ordinal);
	return context->failed;
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
	return context != nullptr ? context->error : open_error;
}

/* A forked child loses some memory, which is better than to touch the device. */
void
engine_close(FastedContext *context)
{
	if (context == nullptr)
		return;

	bool		ours = give_back(context, [&]
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

		end_use(context->ordinal);
	}
	delete context;
}

bool
engine_fits(const FastedContext *context, const uint64_t *rows, int nsets)
{
	SignalsBlocked blocked;
	bool		fits = false;
	bool		ignored = false;
	char		text[kTextBytes];

	if (context->context == nullptr || context->process != getpid())
		return false;
	guarded(text, sizeof(text), &ignored, [&]
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
		std::unique_ptr<Set> opened(new Set(*context->context, *options));

		context->sets.push_back({context, std::move(opened)});
		*set = &context->sets.back();
	});
}

FastedStatus
engine_stage(FastedSet *set, float **rows, size_t *capacity)
{
	return enter(set->context, [&] { return or_full(set->set->stage(rows, capacity)); });
}

FastedStatus
engine_commit(FastedSet *set, size_t nrows)
{
	return enter(set->context, [&] { set->set->commit(nrows); });
}

FastedStatus
engine_take_staged(FastedSet *set, const FastedSet *from, size_t nrows)
{
	return enter(set->context, [&] { return or_full(set->set->take_staged(*from->set, nrows)); });
}

bool
engine_lend(FastedSet *set, void *memory, size_t bytes)
{
	bool		lent = false;

	enter(set->context, [&] { lent = set->set->lend(memory, bytes); });
	return lent;
}

/* After a failure too: the memory goes, whatever became of the join. */
void
engine_withdraw(FastedSet *set)
{
	give_back(set->context, [&] { set->set->withdraw(); });
}

FastedStatus
engine_put(FastedSet *set, const float *rows, size_t nrows, size_t *taken)
{
	*taken = 0;
	return enter(set->context, [&]
	{
		*taken = set->set->put(rows, nrows);
		return or_full(*taken > 0);
	});
}

FastedStatus
engine_settle(FastedSet *set, bool all)
{
	return enter(set->context, [&] { set->set->settle(all); });
}

FastedStatus
engine_read_back(FastedSet *set, uint64_t first_row, size_t nrows, float *rows)
{
	return enter(set->context, [&] { set->set->read_back(first_row, nrows, rows); });
}

FastedStatus
engine_seal(FastedSet *set)
{
	return enter(set->context, [&] { set->set->seal(); });
}

FastedStatus
engine_set_reset(FastedSet *set, uint64_t first_row)
{
	return enter(set->context, [&] { set->set->reset(first_row); });
}

void
engine_set_close(FastedSet *set)
{
	if (set != nullptr)
		give_back(set->context, [&] { take_out(set->context->sets, set); });
}

FastedStatus
engine_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a,
				 FastedSet *b, FastedJoin **join)
{
	*join = nullptr;
	return enter(context, [&]
	{
		std::unique_ptr<Join> opened(new Join(*context->context, *problem, *a->set, *b->set));

		context->joins.push_back({context, std::move(opened)});
		*join = &context->joins.back();
	});
}

FastedStatus
engine_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	return enter(join->context, [&] { return join->join->next(timeout_ms, batch); });
}

/*
 * Rounds begin in next only, and those at work are over within some 30 ms: there
 * is nothing to stop.
 */
void
engine_pause(FastedJoin *join)
{
	(void) join;
}

FastedStatus
engine_counts(FastedJoin *join, int side, uint64_t first_row, size_t nrows, uint32_t *counts)
{
	return enter(join->context, [&] { join->join->counts(side, first_row, nrows, counts); });
}

FastedStatus
engine_nearest(FastedJoin *join, uint64_t first_row, size_t nrows, uint32_t *lengths,
			   FastedNeighbor *neighbors)
{
	return enter(join->context, [&] { join->join->nearest(first_row, nrows, lengths, neighbors); });
}

FastedStatus
engine_add_lists(FastedJoin *join, const FastedJoin *from, uint64_t first_row, size_t nrows)
{
	return enter(join->context, [&]
	{
		return or_full(join->join->add_lists(*from->join, first_row, nrows));
	});
}

uint64_t
engine_list_rows(const FastedContext *context, uint64_t rows, uint32_t k)
{
	return context->context != nullptr ? context->context->list_rows(rows, k) : 0;
}

FastedStatus
engine_copy_rows(FastedSet *set, const FastedSet *from, uint64_t first, size_t nrows)
{
	return enter(set->context, [&] { set->set->copy_rows(*from->set, first, nrows); });
}

void
engine_join_close(FastedJoin *join)
{
	if (join != nullptr)
		give_back(join->context, [&] { take_out(join->context->joins, join); });
}

const FastedEngine cuda_engine = {
	FASTED_ENGINE_ABI,
	"cuda",
	engine_probe,
	engine_devices,
	engine_describe,
	engine_open,
	engine_stats,
	engine_last_error,
	engine_close,
	engine_fits,
	engine_set_open,
	engine_stage,
	engine_commit,
	engine_take_staged,
	engine_lend,
	engine_withdraw,
	engine_put,
	engine_settle,
	engine_read_back,
	engine_seal,
	engine_set_reset,
	engine_set_close,
	engine_join_open,
	engine_next,
	engine_pause,
	engine_counts,
	engine_nearest,
	engine_add_lists,
	engine_list_rows,
	nullptr,					/* width */
	engine_copy_rows,
	engine_join_close,
	true,						/* connects */
	true,						/* keeps */
};

}								/* namespace */

}								/* namespace fasted */

/* The library's only symbol. */
extern "C" __attribute__((visibility("default"))) const FastedEngine *
fasted_engine(void)
{
	return &fasted::cuda_engine;
}
