/*-------------------------------------------------------------------------
 *
 * multi_gpu.h
 *	  Multi-GPU contexts, sets and joins; private to multi_gpu.c and multi_gpu_join.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_MULTI_GPU_H
#define FASTED_MULTI_GPU_H

#include "engine.h"

/* Maximum number of devices in a context. */
#define FASTED_MOST_GPUS 16

typedef struct MultiGpu MultiGpu;
typedef struct MultiGpuSet MultiGpuSet;
typedef struct MultiGpuJoin MultiGpuJoin;

typedef FastedStatus (*DeviceCall) (MultiGpu *gpus, int device, void *argument);

/* A device of a multi-GPU context. */
typedef struct Device
{
	MultiGpu   *gpus;
	FastedContext *context;		/* NULL if it could not be opened */
	bool		in_use;		/* false: it could not be opened, or has too little memory */
	char		name[FASTED_DEVICE_NAME];
	uint64_t	slices;			/* number of slices that it has finished */
	FastedStatus status;		/* of the last call */
} Device;

struct MultiGpuSet
{
	MultiGpu   *gpus;
	MultiGpuSet *next;			/* next set of the same context */
	FastedSetOptions options;
	uint64_t	rows;
	FastedSet  *sets[FASTED_MOST_GPUS];	/* one per device; NULL if it is not used */
};

struct MultiGpu
{
	Device		devices[FASTED_MOST_GPUS];
	int			ndevices;
	int			active;			/* number of devices in use */
	bool		bound;			/* a join depends on the devices in use */
	MultiGpuSet *sets;
	MultiGpuJoin *join;			/* the open join, or NULL */
	FastedStatus failed;		/* status of the first failure, or FASTED_OK */
	char		error[1024];
	DeviceCall	call;			/* the call_in_parallel that is running, or the last one */
	void	   *argument;
	FastedStats closed;			/* pairs, units and order_hash of all closed joins */
};

static inline MultiGpu *
multi_gpu_of(const FastedContext *context)
{
	return (MultiGpu *) (uintptr_t) context;
}

/* Returns the first device in use from m on, or nmembers if there is none. */
static inline int
next_device(const MultiGpu *gpus, int m)
{
	while (m < gpus->ndevices && !gpus->devices[m].in_use)
		m++;
	return m;
}

#define for_each_device(m, gpus) \
	for (int m = next_device(gpus, 0); m < (gpus)->ndevices; m = next_device(gpus, m + 1))

/* multi_gpu.c */

/* The engine of the devices. */
extern const FastedEngine *base_engine;

/* Records a failure of the context, with an error message.  Returns status. */
extern FastedStatus multi_gpu_fail(MultiGpu *gpus, FastedStatus status, const char *format,...)
			__attribute__((format(printf, 3, 4)));

/*
 * Returns true unless the status of a call for a device is a failure, which then becomes a failure of
 * the context, with a message that names the device.
 */
extern bool multi_gpu_check(MultiGpu *gpus, int device, FastedStatus status);

/*
 * Calls a function for all devices in parallel, also for those that are not in use, whose status is not
 * checked.  Returns the context's status: FASTED_OK or its first failure.
 */
extern FastedStatus call_in_parallel(MultiGpu *gpus, DeviceCall call, void *argument);

/* multi_gpu_join.c: engine functions; multi_gpu_join_stats adds the statistics of the open join */
extern FastedStatus multi_gpu_join_open(FastedContext *context, const FastedProblem *problem,
										FastedSet *a, FastedSet *b, FastedJoin **result);
extern FastedStatus multi_gpu_next(FastedJoin *join, int timeout_ms, FastedBatch *batch);
extern void multi_gpu_pause(FastedJoin *join);
extern FastedStatus multi_gpu_counts(FastedJoin *join, int side, uint64_t first_row, size_t nrows,
									 uint32_t *counts);
extern FastedStatus multi_gpu_nearest(FastedJoin *join, uint64_t first_row, size_t nrows,
									  uint32_t *lengths, FastedNeighbor *neighbors);
extern void multi_gpu_join_close(FastedJoin *join);
extern void multi_gpu_join_stats(const MultiGpuJoin *join, FastedStats *stats);

#endif							/* FASTED_MULTI_GPU_H */
