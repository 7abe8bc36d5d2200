/*-------------------------------------------------------------------------
 *
 * interrupts.c
 *	  Cancellation during long computations.
 *
 * PostgreSQL notices that a client is gone when it next writes to it, unless
 * client_connection_check_interval is set.  A join may compute for hours before
 * it writes a byte, so it asks by itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "interrupts.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"

#define CLIENT_CHECK_MS 50.0

/*
 * From libpq/libpq.h, which needs headers (Kerberos, OpenSSL) that PostgreSQL's
 * development packages don't bring along.
 */
extern bool pq_check_connection(void);

static bool
ClientIsGone(void)
{
	static instr_time last;		/* zero before the first call */
	instr_time	now;
	instr_time	elapsed;

	if (MyProcPort == NULL || whereToSendOutput != DestRemote)
		return false;
	INSTR_TIME_SET_CURRENT(now);
	elapsed = now;
	INSTR_TIME_SUBTRACT(elapsed, last);
	if (INSTR_TIME_GET_MILLISEC(elapsed) < CLIENT_CHECK_MS)
		return false;
	last = now;
	return !pq_check_connection();
}

void
CheckJoinInterrupts(void)
{
	if (ClientIsGone())
	{
		ClientConnectionLost = true;
		InterruptPending = true;
	}
	CHECK_FOR_INTERRUPTS();
}
