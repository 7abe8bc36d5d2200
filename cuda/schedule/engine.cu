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
#include <new>

#include "device/devices.h"
#include "schedule/join.h"

struct FastedJoin
{
	fasted::Join *join;
	FastedProblem problem;
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

/* Runs body; turns whatever it throws into a status and a text. */
template <class Body>
FastedStatus
guarded(char *error, size_t size, bool *sticky, const Body &body) noexcept
{
	try
	{
		return body();
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

/* The same for an entry that works on a join. */
template <class Body>
FastedStatus
enter(FastedJoin *join, const Body &body) noexcept
{
	SignalsBlocked blocked;

	if (join->failed != FASTED_OK)
		return join->failed;

	FastedStatus status = guarded(join->error, sizeof(join->error), &join->sticky,
								  [&]() -> FastedStatus
	{
		enter_cuda();
		check_cuda(cudaSetDevice(join->ordinal), "choosing the device");
		return body(*join->join);
	});

	if (FASTED_FAILED(status))
	{
		join->failed = status;
		if (join->sticky)
			note_lost(join->ordinal);
	}
	return status;
}

FastedStatus
engine_probe(const char *devices, char *reason, size_t size)
{
	SignalsBlocked blocked;
	bool		sticky = false;
	char		text[kTextBytes] = "";
	FastedStatus status = guarded(text, sizeof(text), &sticky, [&]() -> FastedStatus
	{
		enter_cuda();
		find_device(devices);
		return FASTED_OK;
	});

	if (status == FASTED_OK)
		return status;
	if (reason != nullptr && size > 0)
		snprintf(reason, size, "%s", text);
	return status == FASTED_UNKNOWN_DEVICE ? status : FASTED_NO_DEVICE;
}

FastedStatus
engine_open(const FastedProblem *problem, FastedJoin **result)
{
	SignalsBlocked blocked;
	FastedJoin *join = new (std::nothrow) FastedJoin();

	*result = join;
	if (join == nullptr)
	{
		snprintf(open_error, sizeof(open_error), "out of memory");
		return FASTED_OUT_OF_MEMORY;
	}
	join->problem = *problem;
	/* the caller's strings need not live on */
	join->problem.devices = join->problem.kernel = nullptr;
	join->process = getpid();
	join->ordinal = -1;
	join->failed = guarded(join->error, sizeof(join->error), &join->sticky,
						   [&]() -> FastedStatus
	{
		enter_cuda();
		if (problem->dimensions < 1 || problem->dimensions > FASTED_MAX_DIMENSIONS
			|| !(problem->eps >= 0))
			fail(FASTED_INTERNAL, "the problem is out of range");

		Device		device = find_device(problem->devices);

		begin_use(device.ordinal);
		join->ordinal = device.ordinal;
		join->join = new Join(join->problem, device);
		return FASTED_OK;
	});
	if (join->sticky && join->ordinal >= 0)
		note_lost(join->ordinal);
	return join->failed;
}

FastedStatus
engine_stage(FastedJoin *join, float **rows, size_t *capacity)
{
	return enter(join, [&](Join &j)
	{
		return j.stage(rows, capacity) ? FASTED_OK : FASTED_FULL;
	});
}

FastedStatus
engine_commit(FastedJoin *join, size_t nrows)
{
	return enter(join, [&](Join &j)
	{
		j.commit(nrows);
		return FASTED_OK;
	});
}

bool
engine_lend(FastedJoin *join, void *memory, size_t bytes)
{
	bool		lent = false;

	enter(join, [&](Join &j)
	{
		lent = j.lend(memory, bytes);
		return FASTED_OK;
	});
	return lent;
}

/* After a failure too: the memory goes, whatever became of the join. */
void
engine_withdraw(FastedJoin *join)
{
	SignalsBlocked blocked;

	if (join->join == nullptr || join->process != getpid())
		return;
	(void) cudaSetDevice(join->ordinal);
	join->join->withdraw();
}

FastedStatus
engine_put(FastedJoin *join, const float *rows, size_t nrows, size_t *taken)
{
	*taken = 0;
	return enter(join, [&](Join &j)
	{
		*taken = j.put(rows, nrows);
		return *taken > 0 ? FASTED_OK : FASTED_FULL;
	});
}

FastedStatus
engine_settle(FastedJoin *join)
{
	return enter(join, [&](Join &j)
	{
		j.settle();
		return FASTED_OK;
	});
}

FastedStatus
engine_read_back(FastedJoin *join, uint64_t first_row, size_t nrows, float *rows)
{
	return enter(join, [&](Join &j)
	{
		j.read_back(first_row, nrows, rows);
		return FASTED_OK;
	});
}

FastedStatus
engine_start(FastedJoin *join, uint64_t total_rows)
{
	return enter(join, [&](Join &j)
	{
		j.start(total_rows);
		return FASTED_OK;
	});
}

FastedStatus
engine_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	return enter(join, [&](Join &j)
	{
		return j.next(timeout_ms, batch);
	});
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

void
engine_stats(const FastedJoin *join, FastedStats *stats)
{
	memset(stats, 0, sizeof(*stats));
	if (join->join != nullptr)
		join->join->stats(stats);
	else
		snprintf(stats->engine, sizeof(stats->engine), "cuda");
}

const char *
engine_last_error(const FastedJoin *join)
{
	return join != nullptr ? join->error : open_error;
}

void
engine_close(FastedJoin *join)
{
	if (join == nullptr)
		return;

	SignalsBlocked blocked;

	/* In a forked child the join belongs to the parent: leave CUDA alone. */
	if (join->process == getpid())
	{
		bool		ignored = false;
		char		text[kTextBytes];

		guarded(text, sizeof(text), &ignored, [&]() -> FastedStatus
		{
			if (join->join != nullptr)
				(void) cudaSetDevice(join->ordinal);
			delete join->join;
			return FASTED_OK;
		});
		if (join->ordinal >= 0)
			end_use(join->ordinal);
	}
	delete join;
}

const FastedEngine cuda_engine = {
	FASTED_ENGINE_ABI,
	"cuda",
	engine_probe,
	engine_open,
	engine_stage,
	engine_commit,
	engine_lend,
	engine_withdraw,
	engine_put,
	engine_settle,
	engine_read_back,
	engine_start,
	engine_next,
	engine_pause,
	engine_stats,
	engine_last_error,
	engine_close,
};

}								/* namespace */

}								/* namespace fasted */

/* The library's only symbol. */
extern "C" __attribute__((visibility("default"))) const FastedEngine *
fasted_engine(void)
{
	return &fasted::cuda_engine;
}
