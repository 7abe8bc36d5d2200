/*-------------------------------------------------------------------------
 *
 * amx.h
 *	  The parts of the AMX kernel that need its instructions (amx.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_AMX_H
#define FASTED_CPU_AMX_H

#include "kernel.h"

#define AMX_SIDE 16				/* rows of a tile register, and its columns of 4 bytes */
#define AMX_TILE (2 * AMX_SIDE) /* rows and columns of a tile */

/* Int8Kernel.begin and end: configure and release the tile registers of this thread. */
extern void fasted_begin_amx(void);
extern void fasted_end_amx(void);

/* Int8Kernel.sweep: multiplies the tiles of one tile column over one segment of INT8 rows. */
extern void fasted_sweep_amx(const TileSweep *sweep);

/*
 * Returns true if the CPU has AMX and the process may use it.  Only the first call asks the
 * system.
 */
extern bool fasted_amx_permitted(void);

#endif							/* FASTED_CPU_AMX_H */
