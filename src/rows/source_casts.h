/*-------------------------------------------------------------------------
 *
 * source_casts.h
 *	  Which conversions are made of the keys and vectors of a source.
 *
 * A conversion runs as whoever joins, so it must run nobody else's code; and a
 * key's must lose nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SOURCE_CASTS_H
#define FASTED_SOURCE_CASTS_H

#include "rows/source.h"

/* The function that a conversion calls, for each row or element. */
typedef struct CastFunction
{
	Oid			function;		/* InvalidOid: none */
	Oid			from;			/* the types that it converts */
	Oid			to;
} CastFunction;

/*
 * Is a column of this type one of vectors, in which form is it read, and by which
 * function?
 */
extern bool FindVectorForm(Oid type, VectorForm *form, CastFunction *cast);

/* A type to which this one has a cast, and which has a form; InvalidOid: none. */
extern Oid	VectorTypeBetween(Oid type);

/* May keys of the first type be read as the second?  The same type may. */
extern bool KeyConverts(Oid from, Oid to);

/*
 * Raises an error if the current user should not run the function unasked: it is
 * neither PostgreSQL's own, nor C, nor a superuser's, nor the user's own.  The
 * names are for the message.
 */
extern void RequireTrustedCast(const CastFunction *cast, const char *column,
							   const char *relation);

#endif							/* FASTED_SOURCE_CASTS_H */
