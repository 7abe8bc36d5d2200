/*-------------------------------------------------------------------------
 *
 * links.c
 *	  Loads the library that has libpq.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "citus/links.h"
#include "fmgr.h"

typedef const LinkFunctions *(*LinksEntry) (void (*check_interrupts) (void));

const LinkFunctions *
Links(void)
{
	static const LinkFunctions *links = NULL;
	const LinkFunctions *loaded;
	LinksEntry	entry;

	if (links != NULL)
		return links;
	entry = (LinksEntry) load_external_function("$libdir/fasted_libpq", "fasted_link_functions",
												true, NULL);
	loaded = entry(CheckJoinInterrupts);
	if (loaded->abi != LINKS_ABI)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("library \"fasted_libpq\" is of another version of the extension"),
				 errhint("Start a new session, or use \"SET fasted.distribute = off\".")));
	links = loaded;
	return links;
}
