/*-------------------------------------------------------------------------
 *
 * distributor.c
 *	  Finds the extension that distributes joins over other servers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "rows/distributor.h"

#define EXTENSION "fasted_citus"

const JoinDistributor *join_distributor = NULL;

void
RegisterDistributor(const JoinDistributor *distributor)
{
	join_distributor = distributor;
}

/* Most databases have no such schema, which the catalog cache knows. */
const JoinDistributor *
FindDistributor(void)
{
	if (!OidIsValid(get_namespace_oid(EXTENSION, true)) ||
		!OidIsValid(get_extension_oid(EXTENSION, true)))
		return NULL;
	if (join_distributor == NULL)
		load_file("$libdir/" EXTENSION, false);
	return join_distributor;
}
