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

/* FastedEngine.copy_set. */
static FastedStatus
copy_set(FastedSet *set, const FastedSet *from)
{
	for (uint64_t row = 0; row < from->rows.rows; row++)
	{
		float	   *room;
		size_t		count;
		FastedStatus status = fasted_cpu_engine()->stage(set, &room, &count);

		if (status != FASTED_OK)
			return status;
		memcpy(room, row_store_row(&from->rows, row), from->rows.row_floats * sizeof(float));
		status = fasted_cpu_engine()->commit(set, 1);
		if (status != FASTED_OK)
			return status;
	}
	return fasted_cpu_engine()->seal(set);
}

#endif							/* COPIED_ROWS_H */
