/*-------------------------------------------------------------------------
 *
 * cleanup.c
 *	  Hangs a cleanup on a memory context and on a resource owner.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/cleanup.h"
#include "utils/memutils.h"

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
