/*-------------------------------------------------------------------------
 *
 * engines.h
 *	  Which engine computes a join, with which options; an engine at work for a join, and how
 *	  its failures become errors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ENGINES_H
#define FASTED_ENGINES_H

#include "base/guc.h"
#include "engine/panel_join.h"

/* How a join is to be computed: the settings, as they are when it begins. */
typedef struct JoinOptions
{
	EngineChoice engine;
	FastedFilter filter;
	FastedPrune prune;
	FastedMetric metric;		/* not a setting: L2 until the caller says otherwise */
	FastedElement element;		/* nor is this: real until then */
	const char *kernel;			/* of the CPU engine; NULL: the best one */
	const char *devices;		/* GPUs, as device_list.h has it */
	AutoChoice	share;			/* among several of them */
	bool		exact;			/* else the paper's result */
	bool		nearest;		/* not a setting: neighbours are wanted, which not every engine finds */
	int			threads;		/* 0: one for each processor */
	int			max_threads;	/* 0: no limit */
	uint64_t	memory_limit;	/* bytes, of the host */
	uint64_t	device_memory_limit;	/* bytes; 0: what is free */
} JoinOptions;

/* From fasted.*; whatever changes them while rows are read, these hold. */
extern JoinOptions OptionsFromSettings(void);

/*
 * The engine for a join of about so many pairs of rows, found or not, as the options
 * say.  Raises an error when the CUDA engine is asked for and cannot work here.
 */
extern const FastedEngine *ChooseEngine(const JoinOptions *options, double row_pairs,
										uint32 dimensions);

/*
 * Why the CUDA engine cannot compute a join here, or NULL if it can.  Creates no context on
 * a GPU and raises no error.
 */
extern const char *CudaProblem(void);

/* Describes a GPU in a text of at most size bytes; returns false if there is none with this ordinal. */
extern bool DescribeGpu(int ordinal, char *text, size_t size);

/* An engine is not begun for so few pairs of rows, if their vectors are not long. */
#define SMALL_JOIN_PAIRS 4096
#define SMALL_JOIN_FLOATS (256 * 1024)

/* Few rows, one behind the other as engines have them, that the calling process compares. */
typedef struct SmallJoin
{
	FastedMetric metric;
	FastedElement element;
	uint32_t	dimensions;
	double		eps;
	const float *a;
	const float *b;				/* NULL: a itself, of whose pairs each comes once, with a < b */
} SmallJoin;

/*
 * The pairs of a group that are within eps, by the canonical distance, in the order of their
 * rows.  There must be room for all pairs of the group.  Returns the number of pairs.  The
 * pairs of a group of one row a, sorted by distance, are its nearest neighbours.
 */
extern size_t SmallJoinPairs(const SmallJoin *join, const FastedRowGroup *group, FastedPair *pairs);

/*
 * Rows, of both sides together, for which there is memory in the engine that is chosen for a
 * join of about so many pairs of rows; a guess on the safe side.  orders: it puts rows in
 * order where that pays.
 */
extern uint64 JoinRoom(double row_pairs, FastedElement element, uint32 dimensions, bool *orders);

typedef struct EngineRun
{
	MemoryContext context;		/* for an engine's last words */
	const FastedEngine *engine; /* NULL before the first vector */
	PanelJoin  *join;			/* NULL once it is closed */
	FastedOutput output;		/* all pairs, where the engine does not have what was asked */
	bool		fallible;		/* "auto" chose a GPU: the CPU can still do it */
	bool		failed;			/* and the GPU did fail */
} EngineRun;

/*
 * Chooses an engine, the CPU's after a failure, and opens a join there.  Of the
 * problem's options only the dimensions are the caller's; of its output see "output".
 */
extern void EngineRunOpen(EngineRun *run, const JoinOptions *options, const PanelProblem *problem);

/* No pair has been given yet, or none of this round of pairs. */
extern void EngineRunAgain(EngineRun *run, const JoinOptions *options);

/*
 * Reports a failure of the engine; returns other statuses.  While the CPU can
 * still take over, the failure is only noted (failed) and returned, and the engine
 * is closed.
 */
extern FastedStatus EngineRunCheck(EngineRun *run, FastedStatus status);

/* May be called twice. */
extern void EngineRunClose(EngineRun *run);

#endif							/* FASTED_ENGINES_H */
