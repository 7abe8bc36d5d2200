/*-------------------------------------------------------------------------
 *
 * group_numbers.h
 *	  Numbers for the values of a partition column: equal values have one number.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_GROUP_NUMBERS_H
#define FASTED_GROUP_NUMBERS_H

#include "rows/source.h"

typedef struct GroupNumbers GroupNumbers;

/* For the column of this source, and others of the same type and collation. */
extern GroupNumbers *GroupNumbersCreate(const VectorSource *source);

/* From 0 on, in the order in which values were asked for first.  Leaves garbage. */
extern uint32 GroupNumberOf(GroupNumbers *numbers, Datum value);
extern uint32 GroupNumbersCount(const GroupNumbers *numbers);

#endif							/* FASTED_GROUP_NUMBERS_H */
