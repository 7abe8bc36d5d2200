/*-------------------------------------------------------------------------
 *
 * spill.h
 *	  Rows in a temporary file, for sets beyond fasted.memory_limit.
 *
 * A PostgreSQL temporary file: in temp_tablespaces, counted by temp_file_limit,
 * removed when the query ends in whatever way.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SPILL_H
#define FASTED_SPILL_H

typedef struct SpillFile SpillFile;

extern SpillFile *SpillCreate(size_t row_bytes);
extern void SpillAppend(SpillFile *spill, const float *rows, size_t nrows);
extern void SpillRead(SpillFile *spill, uint64 first_row, float *rows, size_t nrows);
extern void SpillClose(SpillFile *spill);

#endif							/* FASTED_SPILL_H */
