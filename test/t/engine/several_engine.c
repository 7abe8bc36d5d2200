/*-------------------------------------------------------------------------
 *
 * several_engine.c
 *	  Stands in for the CUDA engine on a machine with three GPUs: the CPU engine is
 *	  each of them.
 *
 * The limit of device memory, in kB, is the look for pairs at which the second device
 * fails; less than 2: none.  Built with the CPU engine's files.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "connecting.h"
#include "engine/device_list.h"
#include "engine/engine.h"

#define DEVICES 3

static FastedEngine engine;
static FastedContext *second;	/* that device's */
static long calls_left;

/* The devices of the list, or all. */
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
			wanted = name.ordinal == i;
		if (wanted)
			snprintf(names[count++], FASTED_DEVICE_NAME, "%d", i);
	}
	return count;
}

static FastedStatus
engine_probe(const char *devices, char *reason, size_t size)
{
	char		names[1][FASTED_DEVICE_NAME];

	if (engine_devices(devices, names, 1) > 0)
		return FASTED_OK;
	snprintf(reason, size, "No GPU is \"%s\".", devices);
	return FASTED_UNKNOWN_DEVICE;
}

static FastedStatus
engine_open(const FastedOptions *options, FastedContext **context)
{
	FastedOptions own = *options;
	FastedStatus status;

	own.devices = NULL;
	own.threads = 1;
	own.device_memory_limit = 0;
	status = fasted_cpu_engine()->open(&own, context);
	if (options->devices != NULL && strcmp(options->devices, "1") == 0)
	{
		second = *context;
		calls_left = (long) (options->device_memory_limit / 1024);
	}
	return status;
}

/* Rows of another device's set, as if they had been staged here. */
static FastedStatus
copy_rows(FastedSet *set, const FastedSet *from, uint64_t first, size_t nrows)
{
	size_t		row = from->rows.row_floats * sizeof(float);

	for (uint64_t end = first + nrows; first < end; first++)
	{
		float	   *room;
		size_t		capacity;
		FastedStatus status = cpu_stage(set, &room, &capacity);

		if (status != FASTED_OK)
			return status;
		memcpy(room, row_store_row(&from->rows, first), row);
		status = cpu_commit(set, 1);
		if (status != FASTED_OK)
			return status;
	}
	return FASTED_OK;
}

/* Room is behind the rows that are there. */
static FastedStatus
take_staged(FastedSet *set, const FastedSet *from, size_t nrows)
{
	return copy_rows(set, from, from->rows.rows, nrows);
}

/* A join begins with its context. */
static FastedStatus
engine_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	if (*(FastedContext **) join == second && calls_left > 1 && --calls_left == 1)
		return FASTED_DEVICE_FAILED;
	return connecting_next(join, timeout_ms, batch);
}

extern __attribute__((visibility("default"))) const FastedEngine *fasted_engine(void);

const FastedEngine *
fasted_engine(void)
{
	engine = *fasted_cpu_engine();
	engine.name = "cuda";
	engine.probe = engine_probe;
	engine.devices = engine_devices;
	engine.open = engine_open;
	engine.take_staged = take_staged;
	engine.copy_rows = copy_rows;
	make_connecting(&engine);
	engine.next = engine_next;
	return &engine;
}
