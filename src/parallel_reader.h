/*-------------------------------------------------------------------------
 *
 * parallel_reader.h
 *	  Rows in, by parallel workers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PARALLEL_READER_H
#define FASTED_PARALLEL_READER_H

#include "row_taker.h"
#include "utils/guc.h"

/*
 * Reads the taker's source with parallel workers, if the planner finds that they
 * pay; false: it does not, or may not, and nothing was read.  rows is its
 * estimate.  Within SPI.
 */
extern bool ReadInParallel(RowTaker *taker, uint64 rows);

/* The setting that tells a worker where its leader's ring is. */
extern char *fasted_setting_ring;
extern bool CheckRingSetting(char **newval, void **extra, GucSource source);

#endif							/* FASTED_PARALLEL_READER_H */
