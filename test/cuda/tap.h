/*-------------------------------------------------------------------------
 *
 * tap.h
 *	  Prints test results in TAP.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_TEST_TAP_H
#define FASTED_TEST_TAP_H

#include <cstdarg>
#include <cstdio>

namespace tap
{

inline int	count = 0;
inline int	failures = 0;

inline bool
ok(bool good, const char *format, ...)
{
	va_list		args;

	printf("%sok %d - ", good ? "" : "not ", ++count);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	failures += !good;
	return good;
}

inline void
note(const char *format, ...)
{
	va_list		args;

	printf("# ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

inline int
done()
{
	printf("1..%d\n", count);
	return failures ? 1 : 0;
}

}								/* namespace tap */

#endif							/* FASTED_TEST_TAP_H */
