/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  What differs between the versions of PostgreSQL that we build with.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_COMPAT_H
#define FASTED_COMPAT_H

/* PostgreSQL 18 has this instead of pg_attribute_noreturn(). */
#ifndef pg_noreturn
#define pg_noreturn _Noreturn
#endif

#endif							/* FASTED_COMPAT_H */
