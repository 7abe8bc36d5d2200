/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  Reads a source once and keeps a random sample of its rows in a reservoir.
 *
 * The method is reservoir sampling: J. S. Vitter, Random Sampling with a Reservoir, ACM
 * Transactions on Mathematical Software 11 (1985), algorithm Z.  As in ANALYZE, it comes from
 * utils/sampling.h.  All rows are converted and checked, including those that are not sampled,
 * so that errors do not depend on chance.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/guc.h"
#include "base/interrupts.h"
#include "epsilon/epsilon.h"
#include "rows/reader.h"
#include "rows/vector.h"
#include "utils/memutils.h"
#include "utils/sampling.h"

/*
 * If the sample size is not specified, it is chosen for about this many pairs within the wanted
 * eps, within these bounds.
 */
#define WANTED_PAIRS 2000.0
#define LEAST_ROWS 20000
#define MOST_ROWS 100000

/* Size of the buffer for rows that are not sampled. */
#define SKIPPED_BYTES (64 * 1024)

/* Number of rows between two checks of the clock, for progress. */
#define ROWS_PER_CLOCK_CHECK 64

typedef struct Reservoir
{
	RowSink		sink;
	MemoryContext context;
	Cleanup		cleanup;
	const VectorSource *source;
	const EpsilonRequest *request;
	ReservoirStateData random;

	uint64		limit_rows;		/* rows that fit into fasted.memory_limit */
	uint32		wanted;			/* wanted number of rows of the sample */
	uint32		dimensions;
	Size		row_bytes;
	float	   *rows;			/* the sample */
	uint32		allocated;		/* capacity of rows */
	float	   *skipped;		/* buffer for rows that are not sampled */
	uint32		skipped_rows;	/* its capacity in rows */

	uint64		seen;
	double		skip;			/* number of rows to skip before the next sampled one */
	uint32		replaced;		/* index of the row that it replaces */

	uint64		expected_rows;
	Progress	progress;
	uint64		next_clock_check;	/* number of rows at which to check the clock next */
} Reservoir;

static inline float *
RowAt(const Reservoir *reservoir, uint64 row)
{
	return reservoir->rows + row * reservoir->row_bytes / sizeof(float);
}

static void
ShowProgress(Reservoir *reservoir)
{
	ProgressNumbers numbers = {
		.rows_read = reservoir->seen,.rows_expected = reservoir->expected_rows
	};

	ProgressShow(&reservoir->progress, PROGRESS_READING, &numbers);
}

static void
ExpectRows(RowSink *sink, uint64 rows)
{
	Reservoir  *reservoir = (Reservoir *) sink;

	reservoir->expected_rows = rows;
	ShowProgress(reservoir);
}

static void
SetDimensions(RowSink *sink, int dimensions, const char *row_name)
{
	Reservoir  *reservoir = (Reservoir *) sink;
	const EpsilonRequest *request = reservoir->request;

	reservoir->dimensions = dimensions;
	reservoir->row_bytes = RowBytes(reservoir->source->element, dimensions);
	reservoir->limit_rows = (uint64) fasted_setting_memory_limit * 1024 / reservoir->row_bytes;
	reservoir->wanted = request->sample_rows;
	if (reservoir->wanted == 0)
	{
		double		rows = sqrt(2.0 * WANTED_PAIRS * reservoir->expected_rows / request->neighbors);

		rows = Max(LEAST_ROWS, Min(rows, MOST_ROWS));
		reservoir->wanted = Max(LEAST_SAMPLE_ROWS, Min(rows, reservoir->limit_rows));
	}
	reservoir->skipped_rows = Max(1, SKIPPED_BYTES / reservoir->row_bytes);
	reservoir->skipped = MemoryContextAlloc(reservoir->context,
											reservoir->skipped_rows * reservoir->row_bytes);

	reservoir_init_selection_state(&reservoir->random, reservoir->wanted);
	if (request->seed != NULL)
	{
		pg_prng_seed(&reservoir->random.randstate, *request->seed);
		/* repeat the rest of reservoir_init_selection_state, with this seed */
		reservoir->random.W = exp(-log(sampler_random_fract(&reservoir->random.randstate)) /
								  reservoir->wanted);
	}
}

static void
Enlarge(Reservoir *reservoir)
{
	uint64		rows = Max(1024, (uint64) reservoir->allocated * 2);
	Size		bytes;

	rows = Min(Min(rows, reservoir->wanted), reservoir->limit_rows);
	if (rows <= reservoir->allocated)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("sample of %u rows exceeds fasted.memory_limit",
						reservoir->wanted),
				 errdetail("Each row of \"%s\" takes %zu bytes.",
						   reservoir->source->relation, reservoir->row_bytes),
				 reservoir->limit_rows < LEAST_SAMPLE_ROWS ? errhint("Increase fasted.memory_limit.") :
				 errhint("Use sample_rows => " UINT64_FORMAT ", or increase fasted.memory_limit.",
						 reservoir->limit_rows)));
	bytes = rows * reservoir->row_bytes;
	reservoir->rows = reservoir->rows == NULL ? MemoryContextAllocHuge(reservoir->context, bytes) :
		repalloc_huge(reservoir->rows, bytes);
	reservoir->allocated = rows;
}

static size_t
BufferForRows(RowSink *sink, float **buffer)
{
	Reservoir  *reservoir = (Reservoir *) sink;

	if (reservoir->seen < reservoir->wanted)
	{
		if (reservoir->seen == reservoir->allocated)
			Enlarge(reservoir);
		*buffer = RowAt(reservoir, reservoir->seen);
		return reservoir->allocated - reservoir->seen;
	}
	if (reservoir->skip > 0)
	{
		*buffer = reservoir->skipped;
		return Min(reservoir->skip, reservoir->skipped_rows);
	}
	*buffer = RowAt(reservoir, reservoir->replaced);
	return 1;
}

/* For a full reservoir: chooses how many rows to skip, and the row to replace then. */
static void
ChooseNext(Reservoir *reservoir)
{
	reservoir->skip = reservoir_get_next_S(&reservoir->random, reservoir->seen, reservoir->wanted);
	reservoir->replaced = reservoir->wanted * sampler_random_fract(&reservoir->random.randstate);
}

static void
TakeRows(RowSink *sink, const Datum *keys, size_t nrows)
{
	Reservoir  *reservoir = (Reservoir *) sink;
	bool		passed_over = reservoir->seen >= reservoir->wanted && reservoir->skip > 0;

	reservoir->seen += nrows;
	if (passed_over)
		reservoir->skip -= nrows;
	else if (reservoir->seen >= reservoir->wanted)
		ChooseNext(reservoir);

	if (reservoir->seen >= reservoir->next_clock_check)
	{
		if (ProgressIsDue(&reservoir->progress))
			ShowProgress(reservoir);
		reservoir->next_clock_check = reservoir->seen + ROWS_PER_CLOCK_CHECK;
	}
}

static void
EndProgress(void *arg)
{
	ProgressEnd(&((Reservoir *) arg)->progress);
}

/* Shuffles the sample, so that its first rows are a random sample of it. */
static void
Shuffle(Reservoir *reservoir, uint32 count)
{
	for (uint32 i = 0; i + 1 < count; i++)
	{
		uint32		other = i + (uint32) ((count - i) * sampler_random_fract(&reservoir->random.randstate));
		float	   *a = RowAt(reservoir, i);
		float	   *b = RowAt(reservoir, other);

		if (i % ROWS_PER_CLOCK_CHECK == 0)
			CheckJoinInterrupts();
		if (other == i)
			continue;
		memcpy(reservoir->skipped, a, reservoir->row_bytes);
		memcpy(a, b, reservoir->row_bytes);
		memcpy(b, reservoir->skipped, reservoir->row_bytes);
	}
}

uint64
ReadSample(const VectorSource *source, const EpsilonRequest *request, RowArray *array)
{
	Reservoir  *reservoir = palloc0(sizeof(Reservoir));

	reservoir->sink = (RowSink) {
		.in_order = request->seed != NULL,.expect_rows = ExpectRows,
		.set_dimensions = SetDimensions,.buffer_for_rows = BufferForRows,.take_rows = TakeRows
	};
	reservoir->context = CurrentMemoryContext;
	reservoir->source = source;
	reservoir->request = request;
	CleanupRegister(&reservoir->cleanup, EndProgress, reservoir);

	ProgressBegin(&reservoir->progress, source->relid);
	ReadVectors(source, &reservoir->sink);
	ProgressEnd(&reservoir->progress);
	*array = (RowArray) {
		.element = source->element,.rows = reservoir->rows,
		.count = Min(reservoir->seen, reservoir->wanted),.dimensions = reservoir->dimensions
	};
	Shuffle(reservoir, array->count);
	return reservoir->seen;
}
