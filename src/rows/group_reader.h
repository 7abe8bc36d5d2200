/*-------------------------------------------------------------------------
 *
 * group_reader.h
 *	  Rows in, group after group: a source whose rows come in order of a column.
 *
 * Rows without a vector, and those of which the column is null, are left out.  A group
 * is read when it is asked for, so that only one of them is in memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_GROUP_READER_H
#define FASTED_GROUP_READER_H

#include "rows/reader.h"
#include "rows/source.h"

typedef struct GroupReader GroupReader;

/*
 * Begins to read, as ReadVectors does.  Allocates in a child of the current memory context.
 * Vectors have one number of dimensions in each group.
 */
extern GroupReader *GroupReaderBegin(const VectorSource *source);

/* Goes to the next group; false: there is none.  Rows that were not taken are left out. */
extern bool GroupReaderNext(GroupReader *reader);

/* The column's value in the group at hand; valid until the next one. */
extern Datum GroupReaderValue(const GroupReader *reader);

/*
 * Gives the group's rows to the sink, of those that are left at most so many; false: there
 * are more, which another sink may take, or this one has no room.  That other sink is told
 * of no dimensions.
 */
extern bool GroupReaderRead(GroupReader *reader, RowSink *sink, uint64 most);

/*
 * Another one, at the same group, for all of its rows once more: reads the source again up
 * to there, and ends this one.
 */
extern GroupReader *GroupReaderAgain(GroupReader *reader);

/* The planner's guess at the number of rows of all groups. */
extern uint64 GroupReaderExpected(const GroupReader *reader);

/* Not after an error. */
extern void GroupReaderEnd(GroupReader *reader);

#endif							/* FASTED_GROUP_READER_H */
