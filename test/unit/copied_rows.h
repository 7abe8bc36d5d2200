/*-------------------------------------------------------------------------
 *
 * copied_rows.h
 *	  Copies rows between sets of the CPU engine, for engines that simulate several GPUs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COPIED_ROWS_H
#define COPIED_ROWS_H

#include <string.h>

#include "../../src/cpu/state/join.h"

/* Adds rows of another device's set, as stage and commit do. */
static FastedStatus
copy_rows(FastedSet *set, const FastedSet *from, uint64_t first, size_t nrows)
{
	for (uint64_t end = first + nrows; first < end; first++)
	{
		float	   *room;
		size_t		count;
		FastedStatus status = fasted_cpu_engine()->stage(set, &room, &count);

		if (status != FASTED_OK)
			return status;
		memcpy(room, row_store_row(&from->rows, first), from->rows.row_floats * sizeof(float));
		status = fasted_cpu_engine()->commit(set, 1);
		if (status != FASTED_OK)
			return status;
	}
	return FASTED_OK;
}

/* The staging buffer of the CPU engine follows the rows that the set already has. */
static FastedStatus
copy_staged(FastedSet *set, const FastedSet *from, size_t nrows)
{
	return copy_rows(set, from, from->rows.rows, nrows);
}

#endif							/* COPIED_ROWS_H */
