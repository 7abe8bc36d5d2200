/*-------------------------------------------------------------------------
 *
 * interrupts.c
 *	  Polls for cancellation and for the postmaster's death; calls cleanups at the end of a
 *	  memory context or resource owner.
 *
 * PostgreSQL notices that a client is gone when it next writes to it, unless
 * client_connection_check_interval is set.  A join may compute for hours before
 * it writes a byte, so it asks by itself.  Neither does it wait for anything, in
 * the way in which PostgreSQL notices that the postmaster is gone: it asks for
 * that too, for no server can start as long as a process of the old one is left.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/pmsignal.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"

#define LOOK_EACH_MS 50.0

/*
 * From libpq/libpq.h, which needs headers (Kerberos, OpenSSL) that PostgreSQL's
 * development packages don't bring along.
 */
extern bool pq_check_connection(void);

static bool
LookIsDue(void)
{
	static instr_time last;		/* zero before the first call */
	instr_time	now;
	instr_time	elapsed;

	INSTR_TIME_SET_CURRENT(now);
	elapsed = now;
	INSTR_TIME_SUBTRACT(elapsed, last);
	if (INSTR_TIME_GET_MILLISEC(elapsed) < LOOK_EACH_MS)
		return false;
	last = now;
	return true;
}

/* As PostgreSQL does it where it waits. */
static void
ExitWithoutPostmaster(void)
{
	if (IsUnderPostmaster && !PostmasterIsAlive())
		ereport(FATAL,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("terminating connection due to unexpected postmaster exit")));
}

static bool
ClientIsGone(void)
{
	return MyProcPort != NULL && whereToSendOutput == DestRemote && !pq_check_connection();
}

void
CheckJoinInterrupts(void)
{
	if (LookIsDue())
	{
		ExitWithoutPostmaster();
		if (ClientIsGone())
		{
			ClientConnectionLost = true;
			InterruptPending = true;
		}
	}
	CHECK_FOR_INTERRUPTS();
}

/* The latest one first. */
static dlist_head owned = DLIST_STATIC_INIT(owned);

static void
Disown(Cleanup *cleanup)
{
	if (cleanup->owner != NULL)
		dlist_delete(&cleanup->node);
	cleanup->owner = NULL;
}

static void
ContextGoes(void *arg)
{
	Cleanup    *cleanup = arg;

	Disown(cleanup);
	cleanup->clean(cleanup->arg);
}

/* An owner that ends without an error leaves the rest to the context. */
static void
OwnerIsReleased(ResourceReleasePhase phase, bool is_commit, bool is_top, void *arg)
{
	dlist_mutable_iter iter;

	if (phase != RESOURCE_RELEASE_AFTER_LOCKS)
		return;
	dlist_foreach_modify(iter, &owned)
	{
		Cleanup    *cleanup = dlist_container(Cleanup, node, iter.cur);

		if (cleanup->owner != CurrentResourceOwner)
			continue;
		Disown(cleanup);
		if (!is_commit)
			cleanup->clean(cleanup->arg);
	}
}

void
CleanupRegister(Cleanup *cleanup, void (*clean) (void *arg), void *arg)
{
	static bool listening = false;

	if (!listening)
		RegisterResourceReleaseCallback(OwnerIsReleased, NULL);
	listening = true;

	cleanup->clean = clean;
	cleanup->arg = arg;
	cleanup->owner = CurrentResourceOwner;
	if (cleanup->owner != NULL)
		dlist_push_head(&owned, &cleanup->node);
	cleanup->callback.func = ContextGoes;
	cleanup->callback.arg = cleanup;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &cleanup->callback);
}
