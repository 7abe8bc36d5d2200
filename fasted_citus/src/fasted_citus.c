/*-------------------------------------------------------------------------
 *
 * fasted_citus.c
 *	  Entry point of the library: finds the library fasted, and registers with it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fasted_citus.h"
#include "fmgr.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

const CoreFunctions *core;
int			setting_distribute = CHOICE_AUTO;

void		_PG_init(void);

void
_PG_init(void)
{
	static const struct config_enum_entry options[] = {
		{"auto", CHOICE_AUTO, false},
		{"off", CHOICE_OFF, false},
		{"force", CHOICE_FORCE, true},
		{NULL, 0, false}
	};
	/* loads the library fasted, if the session has not done so */
	CoreEntry	entry = (CoreEntry) load_external_function("$libdir/fasted", "fasted_core", true, NULL);

	core = entry(FASTED_INTERFACE);
	if (core == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("library \"fasted_citus\" was built with another version of library \"fasted\""),
				 errhint("Install the same version of both, and start a new session.")));
	DefineCustomEnumVariable("fasted_citus.distribute",
							 "Selects whether joins of Citus tables are distributed over the workers.",
							 "\"auto\" does so if that is expected to save time.",
							 &setting_distribute, CHOICE_AUTO, options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("fasted_citus");
	core->RegisterDistributor(&distributor);
}
