/*-------------------------------------------------------------------------
 *
 * row_sink.h
 *	  Where the rows of a source go: into a join, or into a sample.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_SINK_H
#define FASTED_ROW_SINK_H

typedef struct RowSink RowSink;

/*
 * What the reader calls: first expect_rows, with the planner's guess;
 * set_dimensions with the first vector and the name of its row; then room_for_rows, which tells where
 * vectors go and for how many there is room (none: stop reading), and take_rows
 * with the keys of as many of them as it wrote there.  Rows are of doubles where the
 * source's element is (engine.h).
 */
struct RowSink
{
	/* Rows must come in the same order each time, so no workers may read. */
	bool		in_order;

	void		(*expect_rows) (RowSink *sink, uint64 rows);
	void		(*set_dimensions) (RowSink *sink, int dimensions, const char *row_name);
	size_t		(*room_for_rows) (RowSink *sink, float **room);
	void		(*take_rows) (RowSink *sink, const Datum *keys, size_t nrows);

	/*
	 * Of a source with partitions, instead of set_dimensions: called for each row before its
	 * room is asked for.
	 */
	void		(*begin_row) (RowSink *sink, Datum partition, int dimensions, Datum key);

	/*
	 * A shorter way for rows that lie in memory already, NULL where there is
	 * none.  After lend, and before withdraw, take_block takes the first of nrows
	 * rows in that memory and says how many, which may be read until settle (engine.h); if
	 * it takes none, rows go the usual way.
	 */
	void		(*lend) (RowSink *sink, void *memory, size_t bytes);
	size_t		(*take_block) (RowSink *sink, const float *rows, const Datum *keys, size_t nrows);
	void		(*settle) (RowSink *sink, bool all);
	void		(*withdraw) (RowSink *sink);

	/* For statistics: so many of the rows were read by parallel workers. */
	void		(*read_by_workers) (RowSink *sink, int nworkers, uint64 rows);
};

#endif							/* FASTED_ROW_SINK_H */
