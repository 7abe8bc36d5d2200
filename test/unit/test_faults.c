/*-------------------------------------------------------------------------
 *
 * test_faults.c
 *	  Every allocation and every system call of the engine fails once.
 *
 * The Makefile links the engine so that it calls the wrappers below.  Each case runs again and
 * again: the first call fails, then a later one, until a run has no failing call.  A run must
 * report an error or return the expected result, which is computed by brute force in FP64.  After
 * each run all memory must be freed and all threads must have ended, and after some of them the case
 * must succeed if it is run again without failures.
 *
 *	test_faults [name of a case]
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE				/* sched_getaffinity */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/tree/spanning_tree.h"
#include "cpu_devices.h"
#include "faults.h"
#include "tree_answers.h"
#include "ways.h"

/* --- wrappers */

typedef enum Call
{
	CALL_MALLOC,
	CALL_CALLOC,
	CALL_REALLOC,
	CALL_POSIX_MEMALIGN,
	CALL_CPU_SET,
	CALL_MMAP,
	CALL_THREAD,
	CALL_THREAD_ATTR,
	CALL_FOPEN,
	CALL_AFFINITY,
	CALL_SYSCONF,
	CALLS
} Call;

static const char *const call_names[CALLS] = {
	"malloc", "calloc", "realloc", "posix_memalign", "CPU_ALLOC", "mmap", "pthread_create",
	"pthread_attr_init", "fopen", "sched_getaffinity", "sysconf"
};

/* What the engine has allocated and not freed. */
typedef struct Resources
{
	long		bytes;			/* on the heap */
	long		blocks;
	long		mapped;			/* bytes of mappings */
	long		threads;
	long		files;
} Resources;

static Resources used;

static void
count_use(long *counter, long change)
{
	__atomic_add_fetch(counter, change, __ATOMIC_SEQ_CST);
}

static void *
count_block(void *memory, int sign)
{
	if (memory != NULL)
	{
		count_use(&used.bytes, sign * (long) malloc_usable_size(memory));
		count_use(&used.blocks, sign);
	}
	return memory;
}

extern void *__wrap_malloc(size_t size);
extern void *__wrap_calloc(size_t count, size_t size);
extern void *__wrap_realloc(void *memory, size_t size);
extern int	__wrap_posix_memalign(void **memory, size_t alignment, size_t size);
extern void __wrap_free(void *memory);
extern cpu_set_t *__wrap___sched_cpualloc(size_t count);
extern void __wrap___sched_cpufree(cpu_set_t *set);
extern void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd,
						 off_t offset);
extern int	__wrap_munmap(void *address, size_t size);
extern int	__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
								  void *(*work) (void *), void *argument);
extern int	__wrap_pthread_join(pthread_t thread, void **result);
extern int	__wrap_pthread_attr_init(pthread_attr_t *attr);
extern FILE *__wrap_fopen(const char *name, const char *mode);
extern int	__wrap_fclose(FILE *file);
extern int	__wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
extern long __wrap_sysconf(int name);

/* Returns a failure of this kind of call with this error number. */
static bool
fails(Call call, int error)
{
	if (!fault_due(call))
		return false;
	errno = error;
	return true;
}

void *
__wrap_malloc(size_t size)
{
	return fails(CALL_MALLOC, ENOMEM) ? NULL : count_block(malloc(size), 1);
}

void *
__wrap_calloc(size_t count, size_t size)
{
	return fails(CALL_CALLOC, ENOMEM) ? NULL : count_block(calloc(count, size), 1);
}

void *
__wrap_realloc(void *memory, size_t size)
{
	if (fails(CALL_REALLOC, ENOMEM))
		return NULL;
	(void) count_block(memory, -1);
	return count_block(realloc(memory, size), 1);
}

int
__wrap_posix_memalign(void **memory, size_t alignment, size_t size)
{
	int			error = fails(CALL_POSIX_MEMALIGN, ENOMEM) ? ENOMEM
		: posix_memalign(memory, alignment, size);

	if (error == 0)
		(void) count_block(*memory, 1);
	return error;
}

void
__wrap_free(void *memory)
{
	free(count_block(memory, -1));
}

cpu_set_t *
__wrap___sched_cpualloc(size_t count)
{
	return fails(CALL_CPU_SET, ENOMEM) ? NULL : count_block(CPU_ALLOC(count), 1);
}

void
__wrap___sched_cpufree(cpu_set_t *set)
{
	CPU_FREE(count_block(set, -1));
}

void *
__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	void	   *memory = fails(CALL_MMAP, ENOMEM) ? MAP_FAILED
		: mmap(address, size, protection, flags, fd, offset);

	if (memory != MAP_FAILED)
		count_use(&used.mapped, (long) size);
	return memory;
}

int
__wrap_munmap(void *address, size_t size)
{
	count_use(&used.mapped, -(long) size);
	return munmap(address, size);
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*work) (void *),
					  void *argument)
{
	int			error = fails(CALL_THREAD, EAGAIN) ? EAGAIN
		: pthread_create(thread, attr, work, argument);

	count_use(&used.threads, error == 0);
	return error;
}

int
__wrap_pthread_join(pthread_t thread, void **result)
{
	count_use(&used.threads, -1);
	return pthread_join(thread, result);
}

int
__wrap_pthread_attr_init(pthread_attr_t *attr)
{
	return fails(CALL_THREAD_ATTR, ENOMEM) ? ENOMEM : pthread_attr_init(attr);
}

FILE *
__wrap_fopen(const char *name, const char *mode)
{
	FILE	   *file = fails(CALL_FOPEN, EMFILE) ? NULL : fopen(name, mode);

	count_use(&used.files, file != NULL);
	return file;
}

int
__wrap_fclose(FILE *file)
{
	count_use(&used.files, -1);
	return fclose(file);
}

int
__wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	return fails(CALL_AFFINITY, EINVAL) ? -1 : sched_getaffinity(pid, size, set);
}

long
__wrap_sysconf(int name)
{
	return fails(CALL_SYSCONF, EINVAL) ? -1 : sysconf(name);
}

/* --- cases */

typedef struct Case Case;

/* The result of a run. */
typedef struct Result
{
	FastedStatus status;		/* FASTED_DONE, or the status of the failure */
	char		error[300];		/* message of the failure */
	bool		right;			/* whether the result is the expected one, if there is no failure */
} Result;

struct Case
{
	const char *name;
	void		(*run) (const Case *c, Result *result);
	uint32_t	n;				/* number of rows of side 0 */
	FastedOptions options;
	FastedOutput output;
	uint32_t	n_b;			/* number of rows of side 1; 0: self-join */
	bool		partitioned;
	bool		put;			/* rows are put from registered memory */
	int			devices;		/* number of devices of the multi-GPU engine; 0: the CPU engine */
	bool		searches;		/* search for rows of other components after the self-join */

	/* set by prepare */
	Rows		sides[2];
	double	   *dist;			/* distance of rows a and b, at a * (rows of the last side) + b */
	double		eps;
	FastedPartition partitions[3];
	PairList	expected;
	uint32_t   *component;
	double	   *core;
	uint32_t   *searched;		/* rows to search */
	double	   *bound;
	Rows		searched_rows;
	PairList	expected_search;
};

#define NEIGHBORS 4
#define MIN_SAMPLES 3			/* of the spanning tree */
#define COMPONENTS 7

static const float *
row_at(const Case *c, int side, uint32_t row)
{
	return c->sides[side].rows + (size_t) row * fasted_row_floats(&c->options);
}

static int
last_side(const Case *c)
{
	return c->n_b > 0;
}

static double
distance_of(const FastedOptions *options, const void *x, const void *y)
{
	uint32_t	d = options->dimensions;
	bool		doubles = options->element == FASTED_ELEMENT_DOUBLE;

	switch (options->metric)
	{
		case FASTED_METRIC_HAMMING:
			return fasted_exact_hamming(x, y, fasted_bit_words(d));
		case FASTED_METRIC_JACCARD:
			return fasted_exact_jaccard(x, y, fasted_bit_words(d));
		case FASTED_METRIC_INNER_PRODUCT:
			return 0.0 - (doubles ? fasted_exact_dot_double(x, y, d) : fasted_exact_dot(x, y, d));
		case FASTED_METRIC_COSINE:
			return doubles ? fasted_exact_cosine_double(x, y, d) : fasted_exact_cosine(x, y, d);
		default:
			return doubles ? fasted_exact_distance_double(x, y, d) : fasted_exact_distance(x, y, d);
	}
}

/* Makes rows near one of 20 centres. */
static Rows
fill_side(const FastedOptions *options, uint32_t n)
{
	uint32_t	d = options->dimensions;
	size_t		floats = fasted_row_floats(options);
	float	   *rows = must_alloc(n * floats * sizeof(float));

	memset(rows, 0, n * floats * sizeof(float));
	for (uint32_t i = 0; i < n; i++)
	{
		float	   *row = rows + i * floats;

		for (uint32_t k = 0; k < d; k++)
		{
			double		value = 0.2 * random_normal() + sin((i % 20 + 1) * 7.0 * (k + 1));

			if (options->element == FASTED_ELEMENT_BIT)
				((uint64_t *) row)[k / 64] |= (uint64_t) (value > 0.5) << k % 64;
			else if (options->element == FASTED_ELEMENT_DOUBLE)
				((double *) row)[k] = value;
			else
				row[k] = (float) value;
		}
		if (options->element == FASTED_ELEMENT_DOUBLE && options->metric == FASTED_METRIC_COSINE)
			fasted_scale_direction((double *) row, d);
	}
	return (Rows) {.rows = rows,.n = n};
}

static bool
may_meet(const Case *c, uint32_t a, uint32_t b)
{
	if (!c->partitioned)
		return true;
	for (int i = 0; i < 3; i++)
	{
		const FastedPartition *p = &c->partitions[i];

		if (a - p->first_a < p->rows_a && b - p->first_b < p->rows_b)
			return true;
	}
	return false;
}

static int
compare_doubles(const void *left, const void *right)
{
	double		x = *(const double *) left;
	double		y = *(const double *) right;

	return x < y ? -1 : x > y;
}

static int
compare_pairs_by_dist(const void *left, const void *right)
{
	const FastedPair *x = left;
	const FastedPair *y = right;

	if (x->dist != y->dist)
		return x->dist < y->dist ? -1 : 1;
	return x->b < y->b ? -1 : x->b > y->b;
}

/* Finds the nearest neighbours of a row, as pairs of the row and a neighbour. */
static void
expect_neighbors(Case *c, uint32_t a)
{
	uint32_t	nb = (uint32_t) c->sides[last_side(c)].n;
	PairList	list = {0};

	for (uint32_t b = 0; b < nb; b++)
	{
		FastedPair	pair = {.a = a,.b = b,.dist = c->dist[(size_t) a * nb + b]};

		if ((c->n_b > 0 || a != b) && may_meet(c, a, b) && pair.dist <= c->eps)
			pair_add(&list, &pair, 1);
	}
	if (list.count > 0)
		qsort(list.pairs, list.count, sizeof(FastedPair), compare_pairs_by_dist);
	pair_add(&c->expected, list.pairs, list.count < NEIGHBORS ? list.count : NEIGHBORS);
	free(list.pairs);
}

/* Chooses the rows of a search, and finds the nearest row of another component of each. */
static void
expect_search(Case *c)
{
	uint32_t	n = c->n;
	size_t		floats = fasted_row_floats(&c->options);
	float	   *rows = must_alloc(n * floats * sizeof(float));

	c->component = must_alloc(n * sizeof(uint32_t));
	c->core = must_alloc(n * sizeof(double));
	c->searched = must_alloc(n * sizeof(uint32_t));
	c->bound = must_alloc(n * sizeof(double));
	for (uint32_t i = 0; i < n; i++)
	{
		c->component[i] = i % COMPONENTS;
		c->core[i] = c->dist[(size_t) i * n + (i + 20) % n];
	}
	for (uint32_t a = 0; a < n; a += 2)
	{
		uint32_t	position = (uint32_t) c->searched_rows.n++;
		FastedPair	best = {.a = position,.dist = INFINITY};

		for (uint32_t b = 0; b < n; b++)
		{
			double		dist = fmax(c->dist[(size_t) a * n + b], fmax(c->core[a], c->core[b]));

			if (c->component[a] != c->component[b] && dist < best.dist)
				best = (FastedPair) {.a = position,.b = b,.dist = dist};
		}
		pair_add(&c->expected_search, &best, 1);
		c->searched[position] = a;
		c->bound[position] = best.dist;
		memcpy(rows + position * floats, row_at(c, 0, a), floats * sizeof(float));
	}
	c->searched_rows.rows = rows;
}

/* Makes the rows of a case, and its expected result. */
static void
prepare(Case *c)
{
	uint32_t	na = c->n;
	uint32_t	nb = c->n_b > 0 ? c->n_b : c->n;
	double	   *sorted = must_alloc(nb * sizeof(double));

	c->sides[0] = fill_side(&c->options, na);
	if (c->n_b > 0)
		c->sides[1] = fill_side(&c->options, nb);
	for (uint32_t i = 0; i < 3 && c->partitioned; i++)
		c->partitions[i] = (FastedPartition) {i * (na / 3), na / 3, i * (nb / 3), nb / 3};
	c->dist = must_alloc((size_t) na * nb * sizeof(double));
	for (uint32_t a = 0; a < na; a++)
	{
		for (uint32_t b = 0; b < nb; b++)
			c->dist[(size_t) a * nb + b] = c->n_b == 0 && b < a ? c->dist[(size_t) b * nb + a]
				: distance_of(&c->options, row_at(c, 0, a), row_at(c, last_side(c), b));
	}
	memcpy(sorted, c->dist, nb * sizeof(double));
	qsort(sorted, nb, sizeof(double), compare_doubles);
	c->eps = c->output == FASTED_OUTPUT_NEAREST ? INFINITY : sorted[nb / 25];
	free(sorted);
	for (uint32_t a = 0; a < na; a++)
	{
		if (c->output == FASTED_OUTPUT_NEAREST)
			expect_neighbors(c, a);
		for (uint32_t b = c->n_b > 0 ? 0 : a + 1; b < nb && c->output != FASTED_OUTPUT_NEAREST; b++)
		{
			FastedPair	pair = {.a = a,.b = b,.dist = c->dist[(size_t) a * nb + b]};

			if (may_meet(c, a, b) && pair.dist <= c->eps)
				pair_add(&c->expected, &pair, 1);
		}
	}
	if (c->searches)
		expect_search(c);
}

static void
free_case(Case *c)
{
	free((float *) (uintptr_t) c->sides[0].rows);
	free((float *) (uintptr_t) c->sides[1].rows);
	free((float *) (uintptr_t) c->searched_rows.rows);
	free(c->dist);
	free(c->expected.pairs);
	free(c->expected_search.pairs);
	free(c->component);
	free(c->core);
	free(c->searched);
	free(c->bound);
}

/* --- runs */

/* Adds pairs or neighbours to the list until the join is done or fails. */
static FastedStatus
drain(PanelJoin *join, const Case *c, const Rows *sides, bool nearest, PairList *list)
{
	FastedStatus status = FASTED_OK;

	while (status <= FASTED_WANT_ROWS && status != FASTED_DONE)
	{
		FastedBatch batch;
		uint64_t	staged;

		status = panel_join_next(join, 100, &batch);
		if (status == FASTED_OK)
			pair_add(list, batch.pairs, nearest ? 0 : batch.npairs);
		for (uint64_t i = 0; status == FASTED_OK && nearest && i < batch.row_count; i++)
		{
			uint32_t	length;
			uint32_t	row = (uint32_t) (batch.first_row + i);
			const FastedNeighbor *neighbors = panel_join_nearest(join, row, &length);

			for (uint32_t k = 0; k < length; k++)
				pair_add(list, &(FastedPair) {.a = row,.b = neighbors[k].row,.dist = neighbors[k].dist}, 1);
		}
		if (status == FASTED_WANT_ROWS)
			status = stage_rows(join, batch.side, &sides[batch.side], batch.first_row, batch.row_count,
								fasted_row_floats(&c->options), 0, &staged);
	}
	return status;
}

static FastedStatus
run_search(PanelJoin *join, const Case *c, bool *right)
{
	PanelSearch search = {
		.rows = c->searched,.nrows = (uint32_t) c->searched_rows.n,.bound = c->bound,
		.component = c->component,.core = c->core
	};
	Rows		sides[2] = {c->searched_rows, c->sides[0]};
	PairList	list = {0};
	FastedStatus status = panel_join_search(join, &search);

	if (status == FASTED_OK)
		status = drain(join, c, sides, true, &list);
	pair_sort(&list);
	*right = pair_equal(&list, &c->expected_search);
	free(list.pairs);
	return status;
}

/*
 * Returns whether a join has the expected result.  It has returned pairs only if they were requested,
 * and was done in panels only if memory is limited.
 */
static bool
is_right(const PanelJoin *join, const Case *c, const PairList *list)
{
	FastedStats stats;
	uint32_t   *counts[2] = {
		(uint32_t *) (uintptr_t) panel_join_counts(join, 0),
		(uint32_t *) (uintptr_t) panel_join_counts(join, 1)
	};

	panel_join_stats(join, &stats);
	if ((stats.panels > 1) != (c->options.memory_limit > 0))
		return false;
	switch (c->output)
	{
		case FASTED_OUTPUT_COUNT:
			return list->count == 0 && stats.pairs == c->expected.count;
		case FASTED_OUTPUT_COUNTS:
			return list->count == 0 && counts_equal(&c->expected, c->sides, last_side(c) + 1, counts);
		default:
			return pair_equal(list, &c->expected);
	}
}

/* Joins, and joins again or searches. */
static void
run_panels(const Case *c, Result *result)
{
	const FastedEngine *engine = c->devices > 0 ? join_engine : fasted_cpu_engine();
	PanelProblem problem = {
		.options = c->options,.sides = last_side(c) + 1,.searches = c->searches,
		.problem = {.eps = c->eps,.output = c->output,.k = NEIGHBORS,
			.partitions = c->partitioned ? c->partitions : NULL,.npartitions = c->partitioned ? 3 : 0}
	};
	CallerHabits habits = {.put = c->put};
	PairList	list = {0};
	PanelJoin  *join;
	FastedStatus status;

	if (c->devices > 0)
		reset_play(c->devices);
	status = panel_join_open(engine, &problem, &join);
	if (status == FASTED_OK)
		status = load_and_start(join, &problem, c->sides, &habits);
	for (int round = 0; round < 2; round++)
	{
		if (status != FASTED_OK && (status != FASTED_DONE || !result->right))
			break;
		list.count = 0;
		if (round > 0 && c->searches)
		{
			status = run_search(join, c, &result->right);
			continue;
		}
		if (round > 0)
			status = panel_join_again(join, &problem.problem);
		if (status == FASTED_OK || status == FASTED_DONE)
			status = drain(join, c, c->sides, c->output == FASTED_OUTPUT_NEAREST, &list);
		if (status == FASTED_DONE && c->output != FASTED_OUTPUT_NEAREST)
			pair_sort(&list);
		/* the statistics have the pairs of both rounds */
		if (status == FASTED_DONE && (round == 0 || c->output != FASTED_OUTPUT_COUNT))
			result->right = is_right(join, c, &list);
	}
	result->status = status;
	snprintf(result->error, sizeof(result->error), "%s", panel_join_last_error(engine, join));
	panel_join_close(join);
	free(list.pairs);
}

static double
case_distance(const void *data, uint32_t x, uint32_t y)
{
	const Case *c = data;

	return c->dist[(size_t) x * c->n + y];
}

/* Returns whether the sum of the edges' weights is that of Prim's algorithm. */
static bool
is_minimal(const Case *c, const TreeEdge *edges, uint32_t count)
{
	double	   *core = must_alloc(c->n * sizeof(double));
	double	   *nearest = must_alloc(c->n * sizeof(double));
	double	   *weights = must_alloc(c->n * sizeof(double));
	bool		right = count == c->n - 1;

	for (uint32_t x = 0; x < c->n; x++)
	{
		nearest[x] = INFINITY;
		core[x] = c->expected.pairs[x * NEIGHBORS + MIN_SAMPLES - 2].dist;
	}
	for (uint32_t added = 0, x = 0; added < c->n - 1; added++)
	{
		uint32_t	next = x;

		nearest[x] = -INFINITY;
		for (uint32_t y = 0; y < c->n; y++)
		{
			nearest[y] = fmin(nearest[y], fmax(c->dist[(size_t) x * c->n + y], fmax(core[x], core[y])));
			if (nearest[y] > -INFINITY && (next == x || nearest[y] < nearest[next]))
				next = y;
		}
		weights[added] = nearest[next];
		x = next;
	}
	qsort(weights, c->n - 1, sizeof(double), compare_doubles);
	for (uint32_t i = 0; i < c->n - 1 && right; i++)
		right = edges[i].weight == weights[i];
	free(core);
	free(nearest);
	free(weights);
	return right;
}

/* Builds a spanning tree from the expected neighbours. */
static void
run_tree(const Case *c, Result *result)
{
	SpanningTree *tree = tree_create(c->n, NEIGHBORS, MIN_SAMPLES, 3);
	TreeStatus	status;
	uint32_t	count;

	result->status = FASTED_OUT_OF_MEMORY;
	snprintf(result->error, sizeof(result->error), "out of memory");
	if (tree == NULL)
		return;
	for (uint32_t i = 0; i < c->n; i++)
	{
		FastedNeighbor list[NEIGHBORS];

		for (uint32_t k = 0; k < NEIGHBORS; k++)
			list[k] = (FastedNeighbor) {.row = c->expected.pairs[i * NEIGHBORS + k].b,
				.dist = c->expected.pairs[i * NEIGHBORS + k].dist};
		tree_add_list(tree, i, list, NEIGHBORS);
	}
	while ((status = advance(tree)) == TREE_SEARCH)
		answer_search(tree, c->n, c, case_distance);
	if (status == TREE_DONE)
	{
		const TreeEdge *edges;

		result->status = FASTED_DONE;
		tree_trim(tree);
		edges = tree_edges(tree, &count);
		result->right = is_minimal(c, edges, count);
	}
	tree_free(tree);
}

/* Copies rows between sets, and joins two sets with components; see run_search for panels. */
static void
run_selected(const Case *c, Result *result)
{
	const FastedEngine *engine = fasted_cpu_engine();
	FastedSetOptions options = {0};
	FastedContext *context;
	FastedSet  *all = NULL;
	FastedSet  *some = NULL;
	FastedJoin *join = NULL;
	FastedBatch batch;
	uint32_t	count = (uint32_t) c->searched_rows.n;
	uint32_t   *component = must_alloc(count * sizeof(uint32_t));
	double	   *core = must_alloc(count * sizeof(double));
	uint32_t   *lengths = must_alloc(count * sizeof(uint32_t));
	FastedNeighbor *lists = must_alloc(count * sizeof(FastedNeighbor));
	FastedComponents components = {{component, c->component}, {core, c->core}, c->bound};
	FastedProblem problem = {
		.eps = INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = 1,.components = &components
	};
	FastedStatus status = engine->open(&c->options, &context);
	size_t		taken;

	for (uint32_t i = 0; i < count; i++)
	{
		component[i] = c->component[c->searched[i]];
		core[i] = c->core[c->searched[i]];
	}
	if (status == FASTED_OK)
		status = engine->set_open(context, &options, &all);
	if (status == FASTED_OK)
		status = engine->set_open(context, &options, &some);
	for (uint64_t row = 0; row < c->n && status == FASTED_OK; row += taken)
		status = engine->put(all, row_at(c, 0, (uint32_t) row), c->n - row, &taken);
	if (status == FASTED_OK)
		status = engine->seal(all);
	if (status == FASTED_OK)
		status = engine->select_rows(some, all, c->searched, count);
	if (status == FASTED_OK)
		status = engine->seal(some);
	if (status == FASTED_OK)
		status = engine->join_open(context, &problem, some, all, &join);
	while (status == FASTED_OK || status == FASTED_AGAIN)
		status = engine->next(join, 100, &batch);
	result->right = status == FASTED_DONE &&
		engine->nearest(join, 0, count, lengths, lists) == FASTED_OK;
	for (uint32_t i = 0; i < count && result->right; i++)
		result->right = lengths[i] == 1 && lists[i].row == c->expected_search.pairs[i].b &&
			lists[i].dist == c->expected_search.pairs[i].dist;
	result->status = status;
	snprintf(result->error, sizeof(result->error), "%s", engine->last_error(context));
	engine->close(context);
	free(component);
	free(core);
	free(lengths);
	free(lists);
}

/* --- faults */

static char running[200];		/* description of the current run */

/* Ends a test that hangs. */
static void
on_alarm(int signal_number)
{
	static const char text[] = "Bail out! no end of: ";

	(void) signal_number;
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0 ||
		write(STDOUT_FILENO, running, strlen(running)) < 0)
		_exit(3);
	_exit(2);
}

/*
 * Runs a case in which a call fails, unless `at` is zero.  Returns whether the run ended as it must,
 * without a leak.  Sets *due to whether a call has failed, and *status to the run's status.
 */
static bool
run_once(const Case *c, long at, FaultMode mode, bool *due, FastedStatus *status)
{
	Resources	before = used;
	Result		result = {0};
	bool		good;

	snprintf(running, sizeof(running), "%s, call %ld, mode %d\n", c->name, at, mode);
	(void) alarm(60);
	fault_arm(at, mode);
	c->run(c, &result);
	*due = fault_disarm();
	*status = result.status;
	(void) alarm(0);
	good = memcmp(&before, &used, sizeof(used)) == 0 &&
		(*due && FASTED_FAILED(result.status) ?
		 result.status == FASTED_OUT_OF_MEMORY && result.error[0] != '\0'
		 : result.status == FASTED_DONE && result.right);
	if (!good)
		printf("# %s, call %ld%s: status %d \"%s\", %s, %ld bytes, %ld blocks, %ld mapped bytes, "
			   "%ld threads, %ld files remain\n", c->name, at,
			   mode == FAULT_FROM ? " and all later ones" : "", result.status, result.error, result.right ? "right" : "wrong", used.bytes - before.bytes,
			   used.blocks - before.blocks, used.mapped - before.mapped, used.threads - before.threads,
			   used.files - before.files);
	used = before;
	return good;
}

/* Returns the number of open file descriptors. */
static int
open_files(void)
{
	DIR		   *directory = opendir("/proc/self/fd");
	int			count = 0;

	while (directory != NULL && readdir(directory) != NULL)
		count++;
	if (directory != NULL)
		closedir(directory);
	return count;
}

/*
 * Runs a case with a fault in each call, until no call is left.  From the 25th call on, some calls
 * are left out at random, because joins in panels have many equal calls.
 */
static void
check_case(Case c)
{
	int			files = open_files();
	long		bad = 0;
	long		runs = 0;
	long		failed = 0;
	FastedStatus status;
	bool		due;
	time_t		begin = time(NULL);

	if (c.n > 0)
		prepare(&c);
	bad += !run_once(&c, 0, FAULT_ONCE, &due, &status);
	for (int mode = 0; mode < FAULT_MODES; mode++)
	{
		due = true;
		for (long at = 1; due && bad < 10; at += 1 + random_below(1 + (uint32_t) at / 25))
		{
			bool		unused;

			bad += !run_once(&c, at, (FaultMode) mode, &due, &status);
			failed += FASTED_FAILED(status);
			runs += due;
			if (mode == FAULT_ONCE && random_below(4) == 0)
				bad += !run_once(&c, 0, FAULT_ONCE, &unused, &status);
		}
	}
	ok(bad == 0 && runs > 0 && failed > 0 && open_files() == files,
	   "%s: %ld runs with a fault, of which %ld report an error, %ld s", c.name, runs, failed,
	   (long) (time(NULL) - begin));
	free_case(&c);
}

/* The same for calls that the first join of a process makes, in child processes. */
static void
check_first_join(Case c)
{
	int			outcome = 0;
	long		at = 0;

	prepare(&c);
	while (outcome == 0)
	{
		pid_t		child;
		int			status = 0;

		fflush(stdout);
		at++;
		child = fork();
		if (child == 0)
		{
			FastedStatus unused;
			bool		due;
			bool		good = run_once(&c, at, FAULT_ONCE, &due, &unused);

			fflush(stdout);
			_exit(!good ? 1 : due ? 0 : 2);
		}
		if (child < 0 || waitpid(child, &status, 0) != child)
			outcome = 1;
		else
			outcome = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	}
	ok(outcome == 2 && at > 1, "%s: %ld runs with a fault", c.name, at - 1);
	free_case(&c);
}

/* A case with rows of d reals, and other options and fields of Case. */
#define CASE(title, runner, rows, d, ...) \
	{.name = title,.run = runner,.n = rows,.options.dimensions = d, \
	.options.threads = 3, __VA_ARGS__}
#define DOUBLES .options.element = FASTED_ELEMENT_DOUBLE
#define BITS .options.element = FASTED_ELEMENT_BIT
#define METRIC(name) .options.metric = FASTED_METRIC_##name
#define LIMIT(kb) .options.memory_limit = (kb) * 1024
#define PRUNED .options.prune = FASTED_PRUNE_FORCE
#define COUNT .output = FASTED_OUTPUT_COUNT
#define COUNTS .output = FASTED_OUTPUT_COUNTS
#define NEAREST .output = FASTED_OUTPUT_NEAREST

int
main(int argc, char **argv)
{
	const char *kernel = pruning_kernel();
	Case		cases[] = {
		CASE("pairs", run_panels, 300, 20,.options.filter = FASTED_FILTER_FP64),
		CASE("pairs, integers", run_panels, 300, 40,.options.filter = FASTED_FILTER_INT8),
		CASE("pairs, chosen filter", run_panels, 700, 70,.put = false),
		CASE("pairs, pruned", run_panels, 300, 150, PRUNED),
		CASE("pairs, long rows, pruned", run_panels, 50, 1500, PRUNED),
		CASE("pairs, portable", run_panels, 300, 20,.options.kernel = "portable"),
		CASE("pairs, put", run_panels, 300, 20,.put = true),
		CASE("pairs, partitions", run_panels, 300, 20,.partitioned = true),
		CASE("pairs, panels", run_panels, 300, 64, LIMIT(360)),
		CASE("pairs, two sides", run_panels, 200, 20,.n_b = 300),
		CASE("pairs, two sides, long rows", run_panels, 100, 600,.n_b = 100),
		CASE("pairs, two sides, panels", run_panels, 300, 64, LIMIT(360),.n_b = 200,.partitioned = true),
		CASE("pairs, many rows", run_panels, 700, 600,.put = true),
		CASE("count, inner product", run_panels, 300, 20, METRIC(INNER_PRODUCT), COUNT),
		CASE("counts, cosine", run_panels, 300, 40, METRIC(COSINE), COUNTS),
		CASE("counts, two sides", run_panels, 200, 20, COUNTS,.n_b = 300),
		CASE("counts, panels", run_panels, 300, 64, LIMIT(360), COUNTS),
		CASE("nearest", run_panels, 300, 40, NEAREST),
		CASE("nearest, two sides, cosine", run_panels, 200, 20, METRIC(COSINE), NEAREST,.n_b = 300),
		CASE("nearest, partitions, pruned", run_panels, 300, 150, PRUNED, NEAREST,.partitioned = true),
		CASE("nearest, panels", run_panels, 300, 64, LIMIT(360), NEAREST),
		CASE("doubles, pairs", run_panels, 300, 30, DOUBLES),
		CASE("doubles, pairs, inner product", run_panels, 200, 30, DOUBLES, METRIC(INNER_PRODUCT)),
		CASE("doubles, nearest, cosine", run_panels, 200, 30, DOUBLES, METRIC(COSINE), NEAREST),
		CASE("bits, pairs", run_panels, 300, 100, BITS, METRIC(HAMMING)),
		CASE("bits, pairs, long rows", run_panels, 300, 2000, BITS, METRIC(JACCARD)),
		CASE("bits, nearest", run_panels, 300, 300, BITS, METRIC(HAMMING), NEAREST),
		CASE("bits, counts, two sides", run_panels, 200, 100, BITS, METRIC(JACCARD), COUNTS,.n_b = 300),
		CASE("search", run_panels, 300, 40, NEAREST,.searches = true),
		CASE("search, panels", run_panels, 300, 64, LIMIT(360), NEAREST,.searches = true),
		CASE("search among selected rows", run_selected, 300, 70, NEAREST,.searches = true),
		CASE("spanning tree", run_tree, 1100, 5, NEAREST),
		CASE("devices, pairs", run_panels, 300, 20,.devices = 3),
		CASE("devices, counts, two sides", run_panels, 200, 20, COUNTS,.n_b = 100,.devices = 3),
		CASE("devices, nearest", run_panels, 200, 20, NEAREST,.devices = 3),
		CASE("devices, pairs, partitions, panels", run_panels, 300, 64, LIMIT(360),.partitioned = true,
			 .devices = 3)
	};

	random_seed();
	make_base();
	(void) signal(SIGALRM, on_alarm);
	check_first_join((Case) CASE("first join", run_panels, 100, 10, COUNT));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		if (argc > 1 && strcmp(argv[1], cases[i].name) != 0)
			continue;
		if (cases[i].options.kernel == NULL)
			cases[i].options.kernel = kernel;
		check_case(cases[i]);
	}
	for (int call = 0; call < CALLS; call++)
		printf("# %s: %ld faults\n", call_names[call], fault_injected[call]);
	return tap_done();
}
