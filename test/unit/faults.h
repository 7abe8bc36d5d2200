/*-------------------------------------------------------------------------
 *
 * faults.h
 *	  Counts the calls of some functions, and makes one of them fail.
 *
 * The wrapper of each function calls fault_due and fails if it returns true.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdbool.h>

/* Modes of failure. */
typedef enum FaultMode
{
	FAULT_ONCE,					/* only one call fails */
	FAULT_FROM,					/* that call and all following ones fail */
	FAULT_MODES
} FaultMode;

#define FAULT_KINDS 64

static long fault_calls;		/* calls since fault_arm */
static long fault_at;			/* number of the call that fails, from 1 on; 0: none */
static FaultMode fault_mode;
static long fault_injected[FAULT_KINDS];	/* number of failures by kind of call, in all runs */

/* Makes the call of number `at` fail.  No wrapped call may be running. */
static inline void
fault_arm(long at, FaultMode mode)
{
	fault_mode = mode;
	fault_at = at;
	__atomic_store_n(&fault_calls, 0, __ATOMIC_SEQ_CST);
}

/* Ends the failures.  Returns whether a call has failed since fault_arm. */
static inline bool
fault_disarm(void)
{
	bool		failed = fault_at > 0 && __atomic_load_n(&fault_calls, __ATOMIC_SEQ_CST) >= fault_at;

	fault_at = 0;
	return failed;
}

/* Counts a call of this kind.  Returns whether it must fail. */
static inline bool
fault_due(int kind)
{
	long		call;

	if (fault_at == 0)
		return false;
	call = __atomic_add_fetch(&fault_calls, 1, __ATOMIC_SEQ_CST);
	if (call != fault_at && (fault_mode == FAULT_ONCE || call < fault_at))
		return false;
	__atomic_add_fetch(&fault_injected[kind], 1, __ATOMIC_SEQ_CST);
	return true;
}

#endif							/* FAULTS_H */
