/*-------------------------------------------------------------------------
 *
 * fasted_citus.h
 *	  The functions of the library fasted, and the setting of this library.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CITUS_H
#define FASTED_CITUS_H

#include "core.h"

extern const CoreFunctions *core;

/* fasted_citus.distribute, an AutoChoice */
extern int	setting_distribute;

#endif							/* FASTED_CITUS_H */
