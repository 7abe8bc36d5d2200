/*-------------------------------------------------------------------------
 *
 * divide_up.h
 *	  Into how many pieces, the last of which may be smaller.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_DIVIDE_UP_H
#define FASTED_DIVIDE_UP_H

#include <stdint.h>

static inline uint64_t
divide_up(uint64_t n, uint64_t by)
{
	return (n + by - 1) / by;
}

#endif							/* FASTED_DIVIDE_UP_H */
