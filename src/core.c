/*-------------------------------------------------------------------------
 *
 * core.c
 *	  Hands over the functions of this library that another library of the project calls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "core.h"

#define CORE_VALUE(name) .name = name,

PGDLLEXPORT const CoreFunctions *fasted_core(const char *interface);

const CoreFunctions *
fasted_core(const char *interface)
{
	static const CoreFunctions functions = {CORE_FUNCTIONS(CORE_VALUE)};

	return strcmp(interface, FASTED_INTERFACE) == 0 ? &functions : NULL;
}
