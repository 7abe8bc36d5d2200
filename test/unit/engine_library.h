/*-------------------------------------------------------------------------
 *
 * engine_library.h
 *	  An engine of a library that has been built from the same engine.h.
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

/* Exits if it can't be had, and writes why after such words. */
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
		fprintf(out, "%s%s is of ABI %u, not %d\n", words, path, engine->abi, FASTED_ENGINE_ABI);
		exit(EXIT_FAILURE);
	}
	return engine;
}

#endif							/* ENGINE_LIBRARY_H */
