/*-------------------------------------------------------------------------
 *
 * room.h
 *	  How many rows an engine surely takes at a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROOM_H
#define FASTED_ROOM_H

#include "engine/engine.h"

/*
 * Rows, of both sides together, for which there is memory in the engine that is chosen for a
 * join of about so many pairs of rows; a guess on the safe side.  orders: it puts rows in
 * order where that pays.
 */
extern uint64 JoinRoom(double row_pairs, FastedElement element, uint32 dimensions, bool *orders);

#endif							/* FASTED_ROOM_H */
