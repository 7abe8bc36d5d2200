/*-------------------------------------------------------------------------
 *
 * test_multi_gpu.c
 *	  Multi-GPU joins return the same result as one device; the CPU engine acts as each device.
 *
 * Any call of any device can be made to fail, and devices can be slow.
 *
 *-------------------------------------------------------------------------
 */
#include "../../src/engine/engine.h"
#include "join.h"

#include <pthread.h>

#define DEVICES 4

/* Settings of the devices, and what they recorded. */
static struct
{
	int			devices;
	int			slow;			/* this device finds nothing in most polls; -1: none */
	int			fail_device;	/* this device fails; -1: none */
	int			fail_call;		/* in its call of this number */
	int			fail_calls[DEVICES];	/* the same for each device; 0: never */
	bool		lends;			/* memory is registered by all devices; else by the first only */
	FastedContext *contexts[DEVICES];
	int			opened;
	int			closed;
	int			calls[DEVICES];
	bool		failed[DEVICES];
	int			after_failure;	/* calls after a failure, which are forbidden */
	uint32_t	k;				/* neighbors per row */
	uint32_t	most_added;		/* longest lists that devices can merge */
	int			adds;			/* number of calls that merged lists */
	int			copies;			/* copies of rows between devices */
	int			full_device;	/* out of memory for rows from its call full_call on; -1: none */
	int			full_call;
	int			other_order;	/* device with a different row order; -1: none */
	int			order_from;		/* from its call of this number on */
} play;

/* Devices open, seal, start and close in parallel. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static FastedEngine base;
static uint32_t play_dimensions;

static int
device_of(const FastedContext *context)
{
	for (int i = DEVICES - 1; i > 0; i--)
	{
		if (play.contexts[i] == context)
			return i;
	}
	return 0;
}

/* Counts a call of a device; returns true if the call fails. */
static bool
call_fails(const FastedContext *context)
{
	int			device;
	bool		fails;

	pthread_mutex_lock(&lock);
	device = device_of(context);
	play.after_failure += play.failed[device];
	play.calls[device]++;
	if ((device == play.fail_device && play.calls[device] == play.fail_call) ||
		(play.fail_calls[device] > 0 && play.calls[device] >= play.fail_calls[device]))
		play.failed[device] = true;
	fails = play.failed[device];
	pthread_mutex_unlock(&lock);
	return fails;
}

/* Maps sets and joins to the contexts that opened them. */
#define MOST_HANDLES 128
typedef struct Handle
{
	const void *handle;
	FastedContext *context;
	const float *room;			/* buffer that the set returned last */
	float	   *rows;			/* copies of the set's rows */
	uint64_t	count;
	uint64_t	first_row;
} Handle;
static Handle handles[MOST_HANDLES];
static int	nhandles;

static int
find_handle(const void *handle)
{
	int			i = 0;

	while (i < nhandles && handles[i].handle != handle)
		i++;
	return i;
}

static void
note_handle(const void *handle, FastedContext *context)
{
	int			i;

	pthread_mutex_lock(&lock);
	i = find_handle(handle);
	if (i == MOST_HANDLES)
		abort();
	handles[i].handle = handle;
	handles[i].context = context;
	if (i == nhandles)
	{
		handles[i].rows = NULL;
		handles[i].count = 0;
		nhandles++;
	}
	pthread_mutex_unlock(&lock);
}

/* Stores the rows, for later copies between devices. */
static void
note_rows(const FastedSet *set, const float *rows, size_t nrows)
{
	int			i = find_handle(set);
	size_t		row = play_dimensions * sizeof(float);

	handles[i].rows = realloc(handles[i].rows, (handles[i].count + nrows + 1) * row);
	if (handles[i].rows == NULL)
		abort();
	memcpy(handles[i].rows + handles[i].count * play_dimensions, rows, nrows * row);
	handles[i].count += nrows;
}

static FastedContext *
context_of(const void *handle)
{
	FastedContext *context;
	int			i;

	pthread_mutex_lock(&lock);
	i = find_handle(handle);
	if (i == nhandles)
		abort();
	context = handles[i].context;
	pthread_mutex_unlock(&lock);
	return context;
}

/* Another set or join may get the same address. */
static void
forget_handle(const void *handle)
{
	int			i;

	pthread_mutex_lock(&lock);
	i = find_handle(handle);
	if (i < nhandles)
	{
		free(handles[i].rows);
		handles[i] = handles[--nhandles];
	}
	pthread_mutex_unlock(&lock);
}

/* Forgets all handles of a closed context. */
static void
forget_context(const FastedContext *context)
{
	pthread_mutex_lock(&lock);
	play.closed++;
	for (int i = nhandles; i-- > 0;)
	{
		if (handles[i].context != context)
			continue;
		free(handles[i].rows);
		handles[i] = handles[--nhandles];
	}
	pthread_mutex_unlock(&lock);
}

static int
play_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	(void) devices;
	for (int i = 0; i < play.devices && i < most; i++)
		snprintf(names[i], FASTED_DEVICE_NAME, "device %d", i);
	return play.devices < most ? play.devices : most;
}

static FastedStatus
play_open(const FastedOptions *options, FastedContext **context)
{
	FastedOptions own = *options;
	FastedStatus status;

	own.devices = NULL;
	own.threads = 1;
	status = fasted_cpu_engine()->open(&own, context);
	pthread_mutex_lock(&lock);
	play_dimensions = options->dimensions;
	play.contexts[atoi(options->devices + strlen("device "))] = *context;
	play.opened++;
	pthread_mutex_unlock(&lock);
	return status == FASTED_OK && call_fails(*context) ? FASTED_DEVICE_FAILED : status;
}

static void
play_close(FastedContext *context)
{
	forget_context(context);
	fasted_cpu_engine()->close(context);
}

static const char *
play_last_error(const FastedContext *context)
{
	return context != NULL && play.failed[device_of(context)] ? "The device was told to fail."
		: fasted_cpu_engine()->last_error(context);
}

static FastedStatus
play_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **set)
{
	FastedStatus status;

	*set = NULL;
	if (call_fails(context))
		return FASTED_DEVICE_FAILED;
	status = fasted_cpu_engine()->set_open(context, options, set);
	note_handle(*set, context);
	handles[find_handle(*set)].first_row = options->first_row;
	return status;
}

/* Largest number of rows of a set in a nearest-neighbor join. */
#define MOST_NEAR 300

/* Neighbors that a device has found in its slices, for each row of a. */
typedef struct Near
{
	FastedNeighbor *list;
	uint32_t	length;
	uint32_t	room;
} Near;
static Near near[DEVICES][MOST_NEAR];

static void
add_near(Near *to, FastedNeighbor neighbor)
{
	if (to->length == to->room)
	{
		to->room = 2 * to->room + 16;
		to->list = realloc(to->list, to->room * sizeof(*to->list));
		if (to->list == NULL)
			abort();
	}
	to->list[to->length++] = neighbor;
}

static int
compare_near(const void *left, const void *right)
{
	const FastedNeighbor *x = left;
	const FastedNeighbor *y = right;

	if (x->dist != y->dist)
		return x->dist < y->dist ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Sorts the list and truncates it to k neighbors. */
static void
order_near(Near *list)
{
	if (list->length > 0)
		qsort(list->list, list->length, sizeof(FastedNeighbor), compare_near);
	if (list->length > play.k)
		list->length = play.k;
}

/* Finds all neighbors of a slice.  Rows i and j are compared in slice (i + j) % slices. */
static void
find_near(const FastedProblem *problem, const FastedSet *a, const FastedSet *b, Near *lists)
{
	Handle		rows_a;
	Handle		rows_b;

	pthread_mutex_lock(&lock);
	play.k = problem->k;
	rows_a = handles[find_handle(a)];
	rows_b = handles[find_handle(b)];
	pthread_mutex_unlock(&lock);
	if (rows_a.count > MOST_NEAR)
		abort();
	for (uint64_t i = 0; i < rows_a.count; i++)
	{
		if (!problem->continues)
			lists[i].length = 0;
		for (uint64_t j = 0; j < rows_b.count; j++)
		{
			uint32_t	slice = (uint32_t) ((i + j) % problem->slices);
			double		dist;

			if ((a == b && i == j) || slice < problem->slice ||
				slice > problem->slice + problem->more_slices)
				continue;
			dist = fasted_exact_distance(rows_a.rows + i * play_dimensions,
										 rows_b.rows + j * play_dimensions, play_dimensions);
			if (!(dist <= problem->eps))
				continue;
			add_near(&lists[i], (FastedNeighbor) {
				.row = problem->ranks != NULL ? problem->ranks[j]
				: (uint32_t) (rows_b.first_row + j),.dist = dist
			});
		}
	}
}

static FastedStatus
play_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a, FastedSet *b,
			   FastedJoin **join)
{
	FastedProblem played = *problem;
	FastedStatus status;

	*join = NULL;
	if (call_fails(context))
		return FASTED_DEVICE_FAILED;
	if (context_of(a) != context || context_of(b) != context)
		abort();
	/* neighbors are found immediately; the join to wait for is a counting join */
	if (played.output == FASTED_OUTPUT_NEAREST)
	{
		find_near(problem, a, b, near[device_of(context)]);
		played.output = FASTED_OUTPUT_COUNT;
	}
	/* all pairs determine the representatives, if one device finds them all */
	if (played.output == FASTED_OUTPUT_REPRESENTATIVES)
		played.output = played.slices > 1 ? FASTED_OUTPUT_COUNT : FASTED_OUTPUT_PAIRS;
	status = fasted_cpu_engine()->join_open(context, &played, a, b, join);
	note_handle(*join, context);
	return status;
}

#define PLAY(name, handle, parameters, arguments) \
	static FastedStatus play_##name parameters \
	{ \
		return call_fails(context_of(handle)) ? FASTED_DEVICE_FAILED \
			: fasted_cpu_engine()->name arguments; \
	}

static FastedStatus
play_stage(FastedSet *set, float **rows, size_t *capacity)
{
	FastedStatus status = FASTED_DEVICE_FAILED;

	if (!call_fails(context_of(set)))
		status = fasted_cpu_engine()->stage(set, rows, capacity);
	if (status == FASTED_OK)
		handles[find_handle(set)].room = *rows;
	return status;
}

static FastedStatus
play_commit(FastedSet *set, size_t nrows)
{
	if (call_fails(context_of(set)))
		return FASTED_DEVICE_FAILED;
	note_rows(set, handles[find_handle(set)].room, nrows);
	return fasted_cpu_engine()->commit(set, nrows);
}

static bool
is_full(const FastedContext *context)
{
	int			device = device_of(context);

	return device == play.full_device && play.calls[device] >= play.full_call;
}

/* Has the effect of stage and commit. */
static FastedStatus
take_rows(FastedSet *set, const float *rows, size_t nrows)
{
	note_rows(set, rows, nrows);
	while (nrows > 0)
	{
		float	   *room;
		size_t		count;
		FastedStatus status = fasted_cpu_engine()->stage(set, &room, &count);

		if (status != FASTED_OK)
			return status;
		if (count > nrows)
			count = nrows;
		memcpy(room, rows, count * play_dimensions * sizeof(float));
		status = fasted_cpu_engine()->commit(set, count);
		if (status != FASTED_OK)
			return status;
		rows += count * play_dimensions;
		nrows -= count;
	}
	return FASTED_OK;
}

static FastedStatus
play_copy_staged(FastedSet *set, const FastedSet *from, size_t nrows)
{
	if (call_fails(context_of(set)))
		return FASTED_DEVICE_FAILED;
	if (is_full(context_of(set)))
		return FASTED_FULL;
	return take_rows(set, handles[find_handle(from)].room, nrows);
}

static FastedStatus
play_copy_rows(FastedSet *set, const FastedSet *from, uint64_t first, size_t nrows)
{
	play.copies++;
	return call_fails(context_of(set)) ? FASTED_DEVICE_FAILED
		: take_rows(set, handles[find_handle(from)].rows + first * play_dimensions, nrows);
}

static FastedStatus
play_set_reset(FastedSet *set, uint64_t first_row)
{
	if (call_fails(context_of(set)))
		return FASTED_DEVICE_FAILED;
	handles[find_handle(set)].count = 0;
	handles[find_handle(set)].first_row = first_row;
	return fasted_cpu_engine()->set_reset(set, first_row);
}

static FastedStatus
play_put(FastedSet *set, const float *rows, size_t nrows, size_t *taken)
{
	if (call_fails(context_of(set)))
		return FASTED_DEVICE_FAILED;
	if (is_full(context_of(set)))
		return FASTED_FULL;
	return fasted_cpu_engine()->put(set, rows, nrows > 100 ? 100 : nrows, taken);
}

PLAY(wait_read, set, (FastedSet *set, bool all), (set, all))
PLAY(seal, set, (FastedSet *set), (set))
PLAY(read_back, set, (FastedSet *set, uint64_t first_row, size_t nrows, float *rows),
	 (set, first_row, nrows, rows))
PLAY(counts, join,
	 (FastedJoin *join, int side, uint64_t first_row, size_t nrows, uint32_t *counts),
	 (join, side, first_row, nrows, counts))

/* Returns the first k neighbors that the device found in its slices. */
static FastedStatus
play_nearest(FastedJoin *join, uint64_t first_row, size_t nrows, uint32_t *lengths,
			 FastedNeighbor *neighbors)
{
	if (call_fails(context_of(join)))
		return FASTED_DEVICE_FAILED;
	for (size_t i = 0; i < nrows; i++)
	{
		Near	   *list = &near[device_of(context_of(join))][first_row + i];

		order_near(list);
		lengths[i] = list->length;
		if (list->length > 0)
			memcpy(neighbors + i * play.k, list->list, list->length * sizeof(FastedNeighbor));
	}
	return FASTED_OK;
}

static FastedStatus
play_merge_lists(FastedJoin *join, const FastedJoin *from, uint64_t first_row, size_t nrows)
{
	if (call_fails(context_of(join)))
		return FASTED_DEVICE_FAILED;
	if (play.k > play.most_added)
		return FASTED_FULL;
	play.adds++;
	for (uint64_t row = first_row; row < first_row + nrows; row++)
	{
		Near	   *list = &near[device_of(context_of(join))][row];
		Near	   *other = &near[device_of(context_of(from))][row];
		uint32_t	length;

		order_near(list);
		order_near(other);
		length = list->length;
		for (uint32_t i = 0; i < other->length; i++)
		{
			bool		both = false;

			for (uint32_t j = 0; j < length; j++)
				both = both || compare_near(&list->list[j], &other->list[i]) == 0;
			if (!both)
				add_near(list, other->list[i]);
		}
		order_near(list);
	}
	return FASTED_OK;
}

static void
play_stats(const FastedContext *context, FastedStats *stats)
{
	fasted_cpu_engine()->stats(context, stats);
	stats->join_order = device_of(context) == play.other_order &&
		play.calls[play.other_order] >= play.order_from ? 2 : 1;
}

static void
play_set_close(FastedSet *set)
{
	forget_handle(set);
	fasted_cpu_engine()->set_close(set);
}

static void
play_join_close(FastedJoin *join)
{
	forget_handle(join);
	fasted_cpu_engine()->join_close(join);
}

static bool
play_register_memory(FastedSet *set, void *memory, size_t bytes)
{
	(void) fasted_cpu_engine()->register_memory(set, memory, bytes);
	return play.lends || device_of(context_of(set)) == 0;
}

static FastedStatus
play_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	FastedContext *context = context_of(join);

	if (call_fails(context))
		return FASTED_DEVICE_FAILED;
	if (device_of(context) == play.slow && play.calls[play.slow] % 100 != 0)
		return FASTED_AGAIN;
	return fasted_cpu_engine()->next(join, timeout_ms, batch);
}

static void
make_base(void)
{
	base = *fasted_cpu_engine();
	base.devices = play_devices;
	base.open = play_open;
	base.close = play_close;
	base.last_error = play_last_error;
	base.set_open = play_set_open;
	base.stage = play_stage;
	base.commit = play_commit;
	base.copy_staged = play_copy_staged;
	base.copy_rows = play_copy_rows;
	base.chooses_representatives = true;
	base.register_memory = play_register_memory;
	base.put = play_put;
	base.wait_read = play_wait_read;
	base.seal = play_seal;
	base.set_reset = play_set_reset;
	base.read_back = play_read_back;
	base.set_close = play_set_close;
	base.join_open = play_join_open;
	base.join_close = play_join_close;
	base.next = play_next;
	base.counts = play_counts;
	base.nearest = play_nearest;
	base.merge_lists = play_merge_lists;
	base.stats = play_stats;
	join_engine = fasted_multi_gpu_engine(&base);
}

static void
reset_play(int devices)
{
	memset(&play, 0, sizeof(play));
	play.devices = devices;
	play.slow = play.fail_device = play.full_device = play.other_order = -1;
	play.lends = true;
	play.most_added = UINT32_MAX;
	nhandles = 0;
}

/* A problem and its expected pairs. */
typedef struct Case
{
	PanelProblem problem;
	Rows		sides[2];
	PairList	expected;
} Case;

static Rows
clustered_rows(uint64_t n, uint32_t d)
{
	float	   *rows = must_alloc(n * d * sizeof(float));

	for (uint64_t i = 0; i < n * d; i++)
		rows[i] = (float) (0.05 * random_normal() + sin((double) (i / d % 40) * 7.0 + (double) (i % d)));
	return (Rows) {.rows = rows,.n = n};
}

static Case
make_case(int sides, uint64_t n, uint32_t d, double eps)
{
	Case		made = {.problem = {.sides = sides}};

	made.problem.options.dimensions = d;
	made.problem.problem.eps = eps;
	for (int side = 0; side < sides; side++)
		made.sides[side] = clustered_rows(side == 0 ? n : n / 2 + 3, d);
	if (sides == 1)
		near_pairs(made.sides[0].rows, (uint32_t) n, d, eps, &made.expected);
	else
		near_pairs_of_two(made.sides, d, eps, &made.expected);
	return made;
}

static void
drop_case(Case *made)
{
	free((float *) made->sides[0].rows);
	free((float *) made->sides[1].rows);
	free(made->expected.pairs);
}

/* Checks that the pairs are right and that all devices are closed. */
static bool
joins_right(const Case *made, const CallerHabits *habits, FastedStats *stats)
{
	PairList	list;
	FastedStatus status = run_join_once(&made->problem, made->sides, habits, &list, stats, NULL);
	bool		right = status == FASTED_DONE && pair_equal(&list, &made->expected) &&
		stats->pairs == list.count && play.closed == play.opened && play.after_failure == 0;

	if (!right)
		printf("# status %d, %zu pairs of %zu, counted %llu; %d of %d closed, %d calls after failure\n",
			   status, list.count, made->expected.count, (unsigned long long) stats->pairs, play.closed,
			   play.opened, play.after_failure);
	free(list.pairs);
	return right;
}

static bool
counts_right(const Case *made, const CallerHabits *habits)
{
	return check_count(&made->problem, made->sides, habits, FASTED_OUTPUT_COUNTS, &made->expected) &&
		play.after_failure == 0;
}

static const CallerHabits plain = {.timeout_ms = 100};
static const CallerHabits putting = {.timeout_ms = 100,.put = true,.stage_at_most = 333};

static void
check_numbers_of_devices(void)
{
	for (int devices = 1; devices <= DEVICES; devices++)
	{
		for (int sides = 1; sides <= 2; sides++)
		{
			Case		made = make_case(sides, 3000, 20, 0.3);
			FastedStats stats;
			bool		right;

			reset_play(devices);
			right = joins_right(&made, &plain, &stats);
			reset_play(devices);
			right = joins_right(&made, &putting, &stats) && right;
			reset_play(devices);
			play.lends = false;
			right = joins_right(&made, &plain, &stats) && right;
			reset_play(devices);
			right = counts_right(&made, &plain) && right;
			ok(right && made.expected.count > 1000,
			   "%d devices, %d sides: all pairs once (%zu)", devices, sides, made.expected.count);
			drop_case(&made);
		}
	}
}

/* Tests fewer rows than slices, and no rows. */
static void
check_small(void)
{
	bool		right = true;

	for (uint64_t n = 0; n < 12; n++)
	{
		Case		made = make_case(1 + (int) (n % 2), n, 5, 1.0);
		FastedStats stats;

		reset_play(3);
		right = joins_right(&made, &plain, &stats) && right;
		reset_play(3);
		right = counts_right(&made, &plain) && right;
		drop_case(&made);
	}
	ok(right, "joins of few rows, or none, have all pairs");
}

/* Tests an outer panel whose rows are partitioned over the devices. */
static void
check_panels(void)
{
	for (int sides = 1; sides <= 2; sides++)
	{
		Case		made = make_case(sides, 4000, 64, 0.5);
		FastedStats stats;
		bool		right;

		made.problem.options.memory_limit = 900 * 1024;
		reset_play(3);
		right = joins_right(&made, &plain, &stats) && stats.panels > 1;
		right = right && (sides == 2 || play.copies > 0);
		reset_play(3);
		ok(counts_right(&made, &plain) && right, "panels distributed over devices (%u), %d sides",
		   stats.panels, sides);
		drop_case(&made);
	}
}

/* Tests partitions, also with panels. */
static void
check_partitions(void)
{
	static const FastedPartition partitions[] = {
		{0, 700, 0, 700}, {700, 1, 700, 1}, {800, 1900, 800, 1900}, {2700, 300, 2700, 300}
	};

	for (int panels = 0; panels < 2; panels++)
	{
		Case		made = make_case(1, 3000, 64, 0.5);
		size_t		all = made.expected.count;
		size_t		kept = 0;
		FastedStats stats;
		bool		right;

		for (size_t i = 0; i < all; i++)
		{
			FastedPair	pair = made.expected.pairs[i];

			for (int g = 0; g < 4; g++)
			{
				if (pair.a >= partitions[g].first_a && pair.b < partitions[g].first_a + partitions[g].rows_a)
					made.expected.pairs[kept++] = pair;
			}
		}
		made.expected.count = kept;
		made.problem.problem.partitions = partitions;
		made.problem.problem.npartitions = 4;
		made.problem.options.memory_limit = panels ? 700 * 1024 : 0;
		reset_play(3);
		right = joins_right(&made, &plain, &stats) && (stats.panels > 1) == (panels > 0);
		reset_play(3);
		ok(counts_right(&made, &plain) && right && kept > 100 && kept < all,
		   "partitions: %zu pairs of %zu, %u panels", kept, all, stats.panels);
		drop_case(&made);
	}
}

/* Divides a slice into slices; each pair must be in exactly one. */
static void
check_slices(void)
{
	Case		made = make_case(1, 3000, 20, 0.3);
	PairList	all = {0};

	for (uint32_t slice = 0; slice < 3; slice++)
	{
		PairList	list;

		made.problem.problem.slice = slice;
		made.problem.problem.slices = 3;
		reset_play(1 + (int) slice);
		if (run_join_once(&made.problem, made.sides, &plain, &list, NULL, NULL) == FASTED_DONE)
			pair_add(&all, list.pairs, list.count);
		free(list.pairs);
	}
	pair_sort(&all);
	ok(pair_equal(&all, &made.expected), "slices of 1, 2 and 3 devices together have all pairs");
	free(all.pairs);
	drop_case(&made);
}

static void
check_uneven(void)
{
	Case		made = make_case(1, 6000, 20, 0.3);
	FastedStats stats;
	bool		right;
	int			share = -1;
	const char *at;

	reset_play(2);
	play.slow = 1;
	right = joins_right(&made, &plain, &stats);
	at = strstr(stats.device, "device 1, ");
	if (at != NULL)
		sscanf(at, "device 1, %d%%", &share);
	ok(right && share >= 0 && share < 40, "a slow device does less work: %s", stats.device);
	drop_case(&made);
}

/* Returns whether all pairs of a sorted list are expected, without duplicates. */
static bool
pairs_among(const PairList *list, const PairList *expected)
{
	size_t		at = 0;

	for (size_t i = 0; i < list->count; i++)
	{
		while (at < expected->count && pair_compare(&expected->pairs[at], &list->pairs[i]) < 0)
			at++;
		if (at == expected->count || pair_compare(&expected->pairs[at++], &list->pairs[i]) != 0)
			return false;
	}
	return true;
}

/* Slices of devices with different row orders do not fit together. */
static void
check_orders(FastedOutput output)
{
	Case		made = make_case(1, 700, 16, 0.3);
	PairList	list = {0};
	PanelJoin  *join = NULL;
	FastedStatus status;

	made.problem.problem.output = output;
	reset_play(3);
	play.other_order = 1;
	status = panel_join_open(join_engine, &made.problem, &join);
	if (status == FASTED_OK)
		status = load_and_start(join, &made.problem, made.sides, &plain);
	if (status == FASTED_OK)
		status = drain_join(join, &made.problem, made.sides, &plain, &list);
	ok(status == FASTED_INTERNAL && strstr(panel_join_last_error(join_engine, join), "in another order") != NULL,
	   "output %d: different row orders are an error: %s", output,
	   panel_join_last_error(join_engine, join));
	panel_join_close(join);
	ok(play.closed == play.opened, "all devices are closed");
	free(list.pairs);
	drop_case(&made);
}

/*
 * Runs a join in which a call may fail.  Returns whether the join failed exactly if a call failed,
 * with that device's name and message, and whether its pairs are right.
 */
static bool
ends_rightly(const Case *made, const CallerHabits *habits, FastedOutput output)
{
	PanelProblem problem = made->problem;
	PairList	list = {0};
	PanelJoin  *join = NULL;
	FastedStats stats;
	FastedStatus status;
	bool		right;

	problem.problem.output = output;
	status = panel_join_open(join_engine, &problem, &join);
	if (status == FASTED_OK)
		status = load_and_start(join, &problem, made->sides, habits);
	if (status == FASTED_OK)
		status = drain_join(join, &problem, made->sides, habits, &list);
	pair_sort(&list);
	panel_join_stats(join, &stats);
	if (play.failed[0] || play.failed[1] || play.failed[2])
	{
		int			device = -1;

		right = status == FASTED_DEVICE_FAILED && pairs_among(&list, &made->expected) &&
			sscanf(panel_join_last_error(join_engine, join), "device %d: The device was told to fail.", &device) == 1 &&
			device >= 0 && device < 3 && play.failed[device];
	}
	else
		right = status == FASTED_DONE && stats.pairs == made->expected.count &&
			(output != FASTED_OUTPUT_PAIRS || pair_equal(&list, &made->expected));
	if (!right)
		printf("# status %d, %s\n", status, panel_join_last_error(join_engine, join));
	panel_join_close(join);
	free(list.pairs);
	return right && play.closed == play.opened && play.after_failure == 0;
}

/* Lets each call of a device fail in turn, alone or together with another device. */
static void
check_failures(int sides, FastedOutput output, const CallerHabits *habits, uint64_t memory, bool two)
{
	Case		made = make_case(sides, 700, 16, 0.3);
	bool		right = true;
	bool		reached = true;
	int			call = 2;

	made.problem.options.memory_limit = memory;
	for (; reached && right; call += call < 16 ? 1 : call / 4 + (int) random_below(20))
	{
		reset_play(3);
		play.fail_calls[call % 3] = call;
		play.fail_calls[(call + 1) % 3] = two ? call : 0;
		right = ends_rightly(&made, habits, output);
		reached = play.failed[call % 3] || play.failed[(call + 1) % 3];
	}
	ok(right && call > 12, "%d sides, output %d%s%s%s: each call fails, up to %d", sides, output,
	   habits->put ? ", put" : "", memory > 0 ? ", panels" : "", two ? ", of two devices" : "", call);
	drop_case(&made);
}

/* Devices that cannot be opened are not used.  If none can, the join fails. */
static void
check_open_failures(void)
{
	Case		made = make_case(1, 700, 16, 0.3);
	FastedStats stats;
	PanelJoin  *join = NULL;

	for (int device = 0; device < 3; device++)
	{
		reset_play(3);
		play.fail_calls[device] = 1;
		ok(joins_right(&made, &plain, &stats) && strstr(stats.device, "0%, not used") != NULL,
		   "a device that cannot be opened is not used: %s", stats.device);
	}
	reset_play(3);
	for (int device = 0; device < 3; device++)
		play.fail_calls[device] = 1;
	ok(panel_join_open(join_engine, &made.problem, &join) == FASTED_DEVICE_FAILED &&
	   strcmp(panel_join_last_error(join_engine, join), "The device was told to fail.") == 0,
	   "the join fails if no device can be opened");
	panel_join_close(join);
	ok(play.closed == play.opened && play.opened == 3, "all devices are closed");
	drop_case(&made);
}

/*
 * A device runs out of memory earlier than the first one.  While rows are loaded, it is then not
 * used; after a join was opened, the join fails.
 */
static void
check_full_device(const CallerHabits *habits, uint64_t memory)
{
	Case		made = make_case(1, 700, 16, 0.3);
	bool		right = true;
	int			left_out = 0;
	int			failed = 0;

	made.problem.options.memory_limit = memory;
	for (int call = 3; call < 60; call += call < 12 ? 1 : 9)
	{
		PairList	list;
		FastedStats stats = {0};
		FastedStatus status;

		reset_play(3);
		play.full_device = 1;
		play.full_call = call;
		status = run_join_once(&made.problem, made.sides, habits, &list, &stats, NULL);
		right = right && play.closed == play.opened &&
			(status == FASTED_DONE ? pair_equal(&list, &made.expected)
			 : status == FASTED_OUT_OF_DEVICE_MEMORY && pairs_among(&list, &made.expected));
		left_out += strstr(stats.device, "device 1, 0%, not used") != NULL;
		failed += status != FASTED_DONE;
		free(list.pairs);
	}
	ok(right && left_out > 0 && (failed > 0) == (memory > 0),
	   "less memory%s%s: not used %d times, %d joins failed", habits->put ? ", put" : "",
	   memory > 0 ? ", panels" : "", left_out, failed);
	drop_case(&made);
}

/* A single device finds the representatives. */
static void
check_keepers(void)
{
	Case		made = make_case(1, 1500, 16, 0.3);
	FastedStats stats;

	made.problem.problem.output = FASTED_OUTPUT_REPRESENTATIVES;
	reset_play(3);
	ok(join_engine->chooses_representatives && joins_right(&made, &plain, &stats) &&
	   strstr(stats.device, "device 0, 100%") != NULL,
	   "representatives: one device has all pairs: %s", stats.device);
	drop_case(&made);
}

/* --- nearest neighbors */

/* Runs one join and copies its neighbor lists; returns false if it failed. */
static bool
find_lists(const FastedEngine *engine, const Case *made, FastedNeighbor *lists, uint32_t *lengths,
		   FastedStats *stats)
{
	static const CallerHabits habits = {0};
	PanelProblem problem = made->problem;
	PanelJoin  *join;
	FastedBatch batch;
	FastedStatus status = panel_join_open(engine, &problem, &join);

	if (status == FASTED_OK)
		status = load_and_start(join, &problem, made->sides, &habits);
	while (!FASTED_FAILED(status) && status != FASTED_DONE)
	{
		status = panel_join_next(join, 100, &batch);
		for (uint64_t row = batch.first_row;
			 status == FASTED_OK && row < batch.first_row + batch.row_count; row++)
		{
			const FastedNeighbor *list = panel_join_nearest(join, row, &lengths[row]);

			if (lengths[row] > 0)
				memcpy(lists + row * made->problem.problem.k, list, lengths[row] * sizeof(*list));
		}
		if (status == FASTED_WANT_ROWS)
		{
			uint64_t	staged;

			status = stage_rows(join, batch.side, &made->sides[batch.side], batch.first_row,
								batch.row_count, made->problem.options.dimensions, 0, &staged);
		}
	}
	panel_join_stats(join, stats);
	panel_join_close(join);
	return status == FASTED_DONE;
}

/* Compares the neighbor lists of several devices with those of one engine. */
static bool
lists_right(const Case *made, FastedStats *stats)
{
	uint64_t	n = made->sides[0].n;
	uint32_t	k = made->problem.problem.k;
	FastedNeighbor *lists[2] = {must_alloc(n * k * sizeof(**lists)), must_alloc(n * k * sizeof(**lists))};
	uint32_t   *lengths[2] = {must_alloc(n * sizeof(uint32_t)), must_alloc(n * sizeof(uint32_t))};
	bool		right = find_lists(fasted_cpu_engine(), made, lists[0], lengths[0], stats) &&
		find_lists(join_engine, made, lists[1], lengths[1], stats) && play.after_failure == 0 &&
		play.closed == play.opened;

	for (uint64_t row = 0; row < n && right; row++)
	{
		right = lengths[0][row] == lengths[1][row];
		for (uint32_t i = 0; i < lengths[0][row] && right; i++)
			right = lists[0][row * k + i].row == lists[1][row * k + i].row &&
				lists[0][row * k + i].dist == lists[1][row * k + i].dist;
	}
	for (int i = 0; i < 2; i++)
	{
		free(lists[i]);
		free(lengths[i]);
	}
	return right;
}

/* How neighbor lists are merged. */
typedef enum Merge
{
	BY_DEVICES,
	HERE,
	TOO_LONG					/* the lists are too long for the devices */
} Merge;

static void
play_merge(Merge merge)
{
	base.merge_lists = merge == HERE ? NULL : play_merge_lists;
	if (merge == TOO_LONG)
		play.most_added = 0;
}

/* Tests devices of equal speed, and each device as a slow one. */
static void
check_nearest(int sides, Merge merge, uint64_t memory)
{
	static const uint32_t ks[] = {1, 7, 40};

	for (int i = 0; i < 3; i++)
	{
		Case		made = make_case(sides, MOST_NEAR, memory > 0 ? 100 : 5, 0.1);
		FastedStats stats = {0};
		bool		right = true;
		int			adds = 0;

		made.problem.options.memory_limit = memory;
		made.problem.problem = (FastedProblem) {
			.eps = i == 1 ? 0.3 : INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = ks[i]
		};
		for (int devices = 1; devices <= DEVICES; devices++)
		{
			for (int slow = -1; slow < devices; slow++)
			{
				reset_play(devices);
				play_merge(merge);
				play.slow = slow;
				right = lists_right(&made, &stats) && right;
				adds += play.adds;
			}
		}
		ok(right && (adds > 0) == (merge == BY_DEVICES) &&
		   (stats.panels > 1) == (memory > 0),
		   "nearest, %d sides, k %u, merge %d, %u panels", sides, ks[i], merge, stats.panels);
		drop_case(&made);
	}
}

/*
 * Each call of the second of three devices fails in turn.  The join must then fail, unless that
 * device could not be opened.  With `order`, the device's row order differs from that call on.  The
 * join must then fail, unless the device's last slice was finished before.
 */
static void
check_nearest_failures(int sides, Merge merge, uint64_t memory, bool order)
{
	Case		made = make_case(sides, MOST_NEAR, memory > 0 ? 100 : 5, 0.1);
	bool		reached = true;
	int			call = 1;
	int			failed = 0;
	int			wrong = 0;

	made.problem.options.memory_limit = memory;
	made.problem.problem = (FastedProblem) {.eps = INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = 9};
	for (; reached; call += memory > 0 ? 1 + call / 2 : 1)
	{
		FastedStats stats = {0};
		bool		found;

		reset_play(3);
		play_merge(merge);
		*(order ? &play.other_order : &play.fail_device) = 1;
		*(order ? &play.order_from : &play.fail_call) = call;
		found = lists_right(&made, &stats);
		reached = play.calls[1] >= call;
		failed += !found;
		wrong += (order ? !found && !reached : found != (call == 1 || !reached)) || play.after_failure > 0;
	}
	ok(wrong == 0 && call > 10 && failed > 0,
	   "nearest neighbors, %d sides, merge %d%s: a device %s at calls 1 to %d", sides, merge,
	   memory > 0 ? ", panels" : "", order ? "has another order" : "fails", call);
	drop_case(&made);
}

int
main(void)
{
	random_seed();
	make_base();
	check_numbers_of_devices();
	check_small();
	check_panels();
	check_slices();
	check_partitions();
	check_uneven();
	check_orders(FASTED_OUTPUT_PAIRS);
	check_orders(FASTED_OUTPUT_COUNTS);
	for (int sides = 1; sides <= 2; sides++)
	{
		for (int two = 0; two < 2; two++)
		{
			check_failures(sides, FASTED_OUTPUT_PAIRS, &plain, 0, two);
			check_failures(sides, FASTED_OUTPUT_COUNTS, &plain, 0, two);
			check_failures(sides, FASTED_OUTPUT_COUNTS, &plain, 150 * 1024, two);
			check_failures(sides, FASTED_OUTPUT_PAIRS, &putting, 0, two);
			check_failures(sides, FASTED_OUTPUT_PAIRS, &plain, 150 * 1024, two);
		}
	}
	check_open_failures();
	check_full_device(&plain, 0);
	check_full_device(&putting, 0);
	check_full_device(&plain, 150 * 1024);
	check_keepers();
	for (int sides = 1; sides <= 2; sides++)
	{
		for (Merge merge = BY_DEVICES; merge <= TOO_LONG; merge++)
		{
			check_nearest(sides, merge, 0);
			check_nearest_failures(sides, merge, 0, false);
			check_nearest_failures(sides, merge, 0, true);
		}
		/* lists are merged once, for any number of panels */
		check_nearest(sides, BY_DEVICES, 150 * 1024);
		check_nearest_failures(sides, BY_DEVICES, 150 * 1024, false);
		check_nearest_failures(sides, BY_DEVICES, 150 * 1024, true);
	}
	return tap_done();
}
