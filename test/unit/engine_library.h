/*-------------------------------------------------------------------------
 *
 * engine_library.h
 *	  Loads an engine from a library that was built with the same engine.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ENGINE_LIBRARY_H
#define ENGINE_LIBRARY_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../src/engine/engine.h"

/* Returns the engine.  On failure, prints `words` and the reason to `out`, and exits. */
static inline const FastedEngine *
engine_of_library(const char *path, FILE *out, const char *words)
{
	void	   *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void	   *entry = library != NULL ? dlsym(library, FASTED_ENGINE_ENTRY) : NULL;
	const FastedEngine *engine;

	if (entry == NULL)
	{
		fprintf(out, "%s%s\n", words, dlerror());
		exit(EXIT_FAILURE);
	}
	engine = ((FastedEngineEntry) (uintptr_t) entry) ();
	if (engine->abi != FASTED_ENGINE_ABI)
	{
		fprintf(out, "%s%s has ABI %u, expected %d\n", words, path, engine->abi, FASTED_ENGINE_ABI);
		exit(EXIT_FAILURE);
	}
	return engine;
}

#endif							/* ENGINE_LIBRARY_H */
