/*-------------------------------------------------------------------------
 *
 * simulated_engine.c
 *	  Simulates the CUDA engine on a machine with three GPUs, each of which is the CPU engine, and
 *	  fails in a requested call.
 *
 * The limit of device memory, in kB, is 100 n + p: the engine fails in call n + 1 of the function
 * that p selects (enum Place).  GPU 1 fails, and the GPU of a join that uses one of all.  Built
 * with the CPU engine's files.  With WITHOUT_NEAREST the engine does not find nearest neighbours.
 *
 * At the end of the process, stop writes a line to the server's log.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../../unit/copied_rows.h"
#include "connecting.h"
#include "engine/device_list.h"
#include "engine/engine.h"

enum Place
{
	PLACE_OPEN = 2,
	PLACE_SET_OPEN,
	PLACE_STAGE,
	PLACE_COMMIT,
	PLACE_READ_BACK,
	PLACE_SEAL,
	PLACE_JOIN_OPEN,
	PLACE_NEXT,
	PLACE_RESET,				/* before rows are loaded in panels */
	PLACE_STAGE_AGAIN,			/* stage, when panels are loaded */
	PLACE_AFTER_PAIR,			/* next, after a pair was returned */
	PLACE_PUT,					/* the places above do not register memory */
	PLACE_WAIT_READ,
	PLACE_REGISTERED,			/* next, after rows were put from registered memory */
	PLACE_UNSUPPORTED,			/* open reports an unsupported option, with a hint */
	PLACE_NEAREST,
	PLACE_SLOW_START,			/* nothing fails: the GPU is ready after SLOW_START calls of warm */
	PLACES
};

static const char *const place_names[PLACES] = {
	NULL, NULL, "open", "set_open", "stage", "commit", "read_back", "seal", "join_open", "next",
	"set_reset", "stage", "next", "put", "wait_read", "next", NULL, "nearest", NULL
};

#define DEVICES 3
#define SLOW_START 20
#define CONTEXTS 16

/* At places that need panels, sets are full after this many rows. */
#define FEW_ROWS 20

/* Largest number of rows that stage returns room for. */
#define STAGED_ROWS 10

/* Memory that a set registered. */
typedef struct Registered
{
	FastedSet  *set;			/* NULL: an unused entry */
	const volatile char *memory;
	size_t		bytes;
} Registered;

/* An open context. */
typedef struct Simulated
{
	FastedContext *context;		/* NULL: an unused entry */
	int			place;			/* 0: nothing fails */
	int			calls;			/* calls of the place that succeed */
	int			resets;
	bool		returned;		/* next returned pairs */
	char		error[100];
	Registered	registered[8];

	/* The last join for nearest neighbours. */
	FastedSet  *a;
	FastedSet  *b;
	uint64_t	first_b;
	bool		further;		/* it continued the join of an earlier panel */
} Simulated;

static FastedEngine engine;
static const FastedEngine *cpu;
static Simulated contexts[CONTEXTS];
static int	warm_calls;
static int	idle_timeout;

/* Devices open, load and start in parallel threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the entry of a context. */
static Simulated *
simulated(const FastedContext *context)
{
	int			i = 0;

	pthread_mutex_lock(&lock);
	while (i < CONTEXTS && contexts[i].context != context)
		i++;
	pthread_mutex_unlock(&lock);
	if (i == CONTEXTS)
		abort();
	return &contexts[i];
}

/* Returns FASTED_DEVICE_FAILED if this call of the place fails, and otherwise the status. */
static FastedStatus
at(Simulated *own, enum Place place, FastedStatus status)
{
	if (own->place != (int) place || own->calls-- > 0)
		return status;
	snprintf(own->error, sizeof(own->error), "The engine was told to fail in %s.", place_names[place]);
	return FASTED_DEVICE_FAILED;
}

static bool
needs_panels(const Simulated *own)
{
	return own->place == PLACE_READ_BACK || own->place == PLACE_RESET || own->place == PLACE_STAGE_AGAIN;
}

static void
uuid_of(int ordinal, char *uuid, size_t size)
{
	snprintf(uuid, size, "GPU-%d0f0f0f0-0000-0000-0000-000000000000", ordinal);
}

static bool
is_device(const FastedDeviceName *name, int ordinal)
{
	char		uuid[64];

	uuid_of(ordinal, uuid, sizeof(uuid));
	return fasted_is_device(name, ordinal, uuid);
}

/* Returns the devices in the list, or all devices if it is empty. */
static int
engine_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	int			count = 0;

	for (int i = 0; i < DEVICES && count < most; i++)
	{
		const char *text = devices;
		FastedDeviceName name;
		bool		wanted = fasted_any_device(devices);

		while (!wanted && *text != '\0' && fasted_next_device(&text, &name))
			wanted = is_device(&name, i);
		if (wanted)
			snprintf(names[count++], FASTED_DEVICE_NAME, "%d", i);
	}
	return count;
}

static bool
engine_describe(int ordinal, char *text, size_t size)
{
	snprintf(text, size, "model %d", ordinal);
	return ordinal < DEVICES;
}

static FastedStatus
engine_probe(const char *devices, char *reason, size_t size)
{
	int			open = 0;

	for (FastedDeviceName name; !fasted_any_device(devices) && *devices != '\0';)
	{
		bool		found = false;

		if (!fasted_next_device(&devices, &name))
			return FASTED_NO_DEVICE;
		for (int i = 0; i < DEVICES; i++)
			found = found || is_device(&name, i);
		if (!found)
		{
			snprintf(reason, size, "No GPU matches the list.\nAvailable GPUs: 0, 1, 2.");
			return FASTED_UNKNOWN_DEVICE;
		}
	}
	for (int i = 0; i < CONTEXTS; i++)
		open += contexts[i].context != NULL;
	snprintf(reason, size, "%d contexts were not closed.", open);
	return open == 0 ? FASTED_OK : FASTED_NO_DEVICE;
}

static bool
engine_warm(const FastedOptions *options)
{
	return options->device_memory_limit / 1024 != PLACE_SLOW_START || ++warm_calls > SLOW_START;
}

static void
engine_stop(void)
{
	fprintf(stderr, "simulated GPUs stopped, idle_timeout %d\n", idle_timeout);
}

static FastedStatus
engine_open(const FastedOptions *options, FastedContext **context)
{
	FastedOptions options_of_cpu = *options;
	int			code = (int) (options->device_memory_limit / 1024);
	FastedStatus status;
	Simulated  *own;
	char		first[1][FASTED_DEVICE_NAME];

	warm_calls = 0;
	idle_timeout = options->idle_timeout;
	options_of_cpu.devices = NULL;
	options_of_cpu.threads = 1;
	options_of_cpu.device_memory_limit = 0;
	status = cpu->open(&options_of_cpu, context);
	if (*context == NULL)
		return status;
	pthread_mutex_lock(&lock);
	own = contexts;
	while (own < contexts + CONTEXTS && own->context != NULL)
		own++;
	if (own == contexts + CONTEXTS)
		abort();
	*own = (Simulated) {.context = *context};
	pthread_mutex_unlock(&lock);
	if (fasted_any_device(options->devices) ||
		(engine_devices(options->devices, first, 1) == 1 && strcmp(first[0], "1") == 0))
	{
		own->place = code % 100;
		own->calls = code / 100;
	}
	if (own->place == PLACE_UNSUPPORTED)
	{
		snprintf(own->error, sizeof(own->error), "The rows are too long.\nUse shorter rows.");
		return FASTED_UNSUPPORTED;
	}
	return at(own, PLACE_OPEN, status);
}

static void
engine_stats(const FastedContext *context, FastedStats *stats)
{
	cpu->stats(context, stats);
	strcpy(stats->engine, "cuda");
	strcpy(stats->device, "simulated GPU");
}

static const char *
engine_last_error(const FastedContext *context)
{
	return context != NULL && simulated(context)->error[0] != '\0' ? simulated(context)->error :
		cpu->last_error(context);
}

/* Reads the last byte: the memory must still exist. */
static void
engine_unregister_memory(FastedSet *set)
{
	Simulated  *own = simulated(set->context);

	for (int i = 0; i < 8; i++)
	{
		Registered *entry = &own->registered[i];

		if (entry->set != set)
			continue;
		(void) entry->memory[entry->bytes - 1];
		*entry = (Registered) {0};
	}
	cpu->unregister_memory(set);
}

static void
engine_close(FastedContext *context)
{
	Simulated  *own;

	if (context == NULL)
		return;
	own = simulated(context);
	for (int i = 0; i < 8; i++)
	{
		if (own->registered[i].set != NULL)
			engine_unregister_memory(own->registered[i].set);
	}
	connecting_forget(context);
	cpu->close(context);
	own->context = NULL;		/* a later context may get the same address */
}

static bool
engine_fits(const FastedContext *context, const uint64_t *rows, int nsets)
{
	uint64_t	sum = 0;

	for (int i = 0; i < nsets; i++)
		sum += rows[i];
	return needs_panels(simulated(context)) ? sum <= FEW_ROWS : cpu->fits(context, rows, nsets);
}

static FastedStatus
engine_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **set)
{
	return at(simulated(context), PLACE_SET_OPEN, cpu->set_open(context, options, set));
}

static void
engine_set_close(FastedSet *set)
{
	if (set != NULL)
		engine_unregister_memory(set);
	cpu->set_close(set);
}

static FastedStatus
engine_stage(FastedSet *set, float **rows, size_t *capacity)
{
	Simulated  *own = simulated(set->context);
	FastedStatus status;

	if (needs_panels(own) && set->rows.rows >= FEW_ROWS)
		return FASTED_FULL;
	status = cpu->stage(set, rows, capacity);
	if (status == FASTED_OK && *capacity > STAGED_ROWS)
		*capacity = STAGED_ROWS;
	return at(own, own->resets > 0 ? PLACE_STAGE_AGAIN : PLACE_STAGE, status);
}

static FastedStatus
engine_commit(FastedSet *set, size_t nrows)
{
	return at(simulated(set->context), PLACE_COMMIT, cpu->commit(set, nrows));
}

static bool
engine_register_memory(FastedSet *set, void *memory, size_t bytes)
{
	Simulated  *own = simulated(set->context);

	if ((own->place > 0 && own->place < PLACE_PUT) || !cpu->register_memory(set, memory, bytes))
		return false;
	for (int i = 0; i < 8; i++)
	{
		if (own->registered[i].set != NULL)
			continue;
		own->registered[i] = (Registered) {set, memory, bytes};
		return true;
	}
	abort();
}

static FastedStatus
engine_put(FastedSet *set, const float *rows, size_t nrows, size_t *taken)
{
	Simulated  *own = simulated(set->context);
	const char *from = (const char *) rows;
	size_t		bytes = nrows * set->rows.row_floats * sizeof(float);
	bool		known = false;

	for (int i = 0; i < 8; i++)
	{
		const Registered *entry = &own->registered[i];

		known = known || (entry->set == set && from >= entry->memory &&
						  from + bytes <= entry->memory + entry->bytes);
	}
	if (!known)
	{
		snprintf(own->error, sizeof(own->error), "The rows are not in registered memory.");
		return FASTED_INTERNAL;
	}
	return at(own, PLACE_PUT, cpu->put(set, rows, nrows, taken));
}

static FastedStatus
engine_wait_read(FastedSet *set, bool all)
{
	return at(simulated(set->context), PLACE_WAIT_READ, cpu->wait_read(set, all));
}

static FastedStatus
engine_read_back(FastedSet *set, uint64_t first_row, size_t nrows, float *rows)
{
	return at(simulated(set->context), PLACE_READ_BACK, cpu->read_back(set, first_row, nrows, rows));
}

static FastedStatus
engine_seal(FastedSet *set)
{
	return at(simulated(set->context), PLACE_SEAL, cpu->seal(set));
}

static FastedStatus
engine_copy_set(FastedSet *set, const FastedSet *from)
{
	return at(simulated(set->context), PLACE_SEAL, copy_set(set, from));
}

static FastedStatus
engine_set_reset(FastedSet *set, uint64_t first_row)
{
	simulated(set->context)->resets++;
	return at(simulated(set->context), PLACE_RESET, cpu->set_reset(set, first_row));
}

/*
 * The CPU engine does not support slices of joins for nearest neighbours.  So the first slice of
 * two panels on a device finds all neighbours, and its later slices find none.
 */
static FastedStatus
join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a, FastedSet *b,
		  FastedJoin **join)
{
	FastedProblem whole = *problem;
	Simulated  *own = simulated(context);

	if (problem->output != FASTED_OUTPUT_NEAREST)
		return connecting_join_open(context, problem, a, b, join);
	whole.slices = whole.slice = whole.more_slices = 0;
	if (problem->continues && own->a == a && own->b == b && own->first_b == b->options.first_row)
	{
		whole.continues = own->further;
		if (own->further)
		{
			FastedStatus status = cpu->set_open(context, &(FastedSetOptions) {0}, &b);

			if (status == FASTED_OK)
				status = cpu->seal(b);
			if (status != FASTED_OK)
				return status;
		}
	}
	else
	{
		own->a = a;
		own->b = b;
		own->first_b = b->options.first_row;
		own->further = problem->continues;
	}
	return connecting_join_open(context, &whole, a, b, join);
}

static FastedStatus
engine_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a, FastedSet *b,
				 FastedJoin **join)
{
	return at(simulated(context), PLACE_JOIN_OPEN, join_open(context, problem, a, b, join));
}

/* Before a failure while panels are loaded, no pairs are returned: the CPU can take over. */
static FastedStatus
engine_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	Simulated  *own = simulated(((ConnectingJoin *) join)->context);
	FastedStatus status = at(own, own->returned ? PLACE_AFTER_PAIR : PLACE_NEXT, FASTED_OK);

	status = at(own, PLACE_REGISTERED, status);
	if (status != FASTED_OK)
		return status;
	status = connecting_next(join, timeout_ms, batch);
	if (status == FASTED_OK && (own->place == PLACE_RESET || own->place == PLACE_STAGE_AGAIN))
	{
		batch->npairs = 0;
		return FASTED_AGAIN;
	}
	own->returned = own->returned || status == FASTED_OK;
	return status;
}

static FastedStatus
engine_nearest(FastedJoin *join, uint64_t first_row, size_t nrows, uint32_t *lengths,
			   FastedNeighbor *neighbors)
{
	ConnectingJoin *own = (ConnectingJoin *) join;

	return at(simulated(own->context), PLACE_NEAREST,
			  cpu->nearest(own->join, first_row, nrows, lengths, neighbors));
}

/* Every device has found all neighbours. */
static FastedStatus
engine_merge_lists(FastedJoin *join, const FastedJoin *from, uint64_t first_row, size_t nrows)
{
	(void) join;
	(void) from;
	(void) first_row;
	(void) nrows;
	return FASTED_OK;
}

extern __attribute__((visibility("default"))) const FastedEngine *fasted_engine(void);

const FastedEngine *
fasted_engine(void)
{
	cpu = fasted_cpu_engine();
	engine = *cpu;
	engine.name = "cuda";
	engine.probe = engine_probe;
	engine.devices = engine_devices;
	engine.describe = engine_describe;
	engine.warm = engine_warm;
	engine.stop = engine_stop;
	engine.open = engine_open;
	engine.stats = engine_stats;
	engine.last_error = engine_last_error;
	engine.close = engine_close;
	engine.fits = engine_fits;
	engine.set_open = engine_set_open;
	engine.set_close = engine_set_close;
	engine.stage = engine_stage;
	engine.commit = engine_commit;
	engine.register_memory = engine_register_memory;
	engine.unregister_memory = engine_unregister_memory;
	engine.put = engine_put;
	engine.wait_read = engine_wait_read;
	engine.copy_set = engine_copy_set;
	engine.read_back = engine_read_back;
	engine.seal = engine_seal;
	engine.set_reset = engine_set_reset;
	make_connecting(&engine);
	engine.join_open = engine_join_open;
	engine.next = engine_next;
	engine.nearest = engine_nearest;
	engine.merge_lists = engine_merge_lists;
	engine.most_merged = UINT32_MAX;
	engine.rows_for_lists = cpu->rows_for_lists;
#ifdef WITHOUT_NEAREST
	engine.nearest = NULL;
#endif
	return &engine;
}
