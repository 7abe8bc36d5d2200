/*-------------------------------------------------------------------------
 *
 * row_numbers.h
 *	  Arrays with a number of each row.
 *
 * The system makes their memory as it is first written, which takes more than a tenth
 * of a second for a hundred million rows.  So all of these answer interrupts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_NUMBERS_H
#define FASTED_ROW_NUMBERS_H

/* Room for them, in the current memory context; what is in there is not known. */
extern uint32 *AllocRowNumbers(uint32 count);

/* Each row has its own number, from zero on. */
extern uint32 *OwnRowNumbers(uint32 count);

/* Each row has this one. */
extern uint32 *SameRowNumbers(uint32 count, uint32 number);

extern void CopyRowNumbers(uint32 *to, const uint32 *from, uint32 count);

/* The row that has each number, where no two have the same and the greatest is count - 1. */
extern uint32 *RowsOfNumbers(const uint32 *numbers, uint32 count);

#endif							/* FASTED_ROW_NUMBERS_H */
