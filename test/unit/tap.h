/*-------------------------------------------------------------------------
 *
 * tap.h
 *	  TAP output and random numbers for these tests.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TAP_H
#define TAP_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int	tap_count;
static int	tap_failed;

/* Prints the result of one test with its description; returns whether it passed. */
static inline bool __attribute__((format(printf, 2, 3)))
ok(bool passed, const char *format,...)
{
	va_list		args;

	printf("%sok %d - ", passed ? "" : "not ", ++tap_count);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	tap_failed += !passed;
	return passed;
}

/* Prints the plan and returns the exit status. */
static inline int
tap_done(void)
{
	printf("1..%d\n", tap_count);
	if (tap_failed > 0)
		printf("# %d of %d failed\n", tap_failed, tap_count);
	return tap_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static uint64_t random_state;

/* Returns whether to run fewer and smaller cases, for an emulator. */
static inline bool
quick(void)
{
	return getenv("FASTED_QUICK") != NULL;
}

/* Takes the seed from FASTED_SEED, and prints it. */
static inline void
random_seed(void)
{
	const char *given = getenv("FASTED_SEED");

	random_state = given != NULL ? strtoull(given, NULL, 0) : 1;
	printf("# FASTED_SEED=%llu\n", (unsigned long long) random_state);
}

/* splitmix64 */
static inline uint64_t
random_bits(void)
{
	uint64_t	z = (random_state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline uint32_t
random_below(uint32_t limit)
{
	return (uint32_t) (random_bits() % limit);
}

/* Returns a random number in [0, 1). */
static inline double
random_uniform(void)
{
	return (double) (random_bits() >> 11) * 0x1p-53;
}

static inline double
random_normal(void)
{
	double		u = 1.0 - random_uniform();

	return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * random_uniform());
}

/* Allocates memory.  Ends the test if memory is exhausted. */
static inline void *
must_alloc(size_t size)
{
	void	   *memory = malloc(size > 0 ? size : 1);

	if (memory == NULL)
	{
		printf("Bail out! out of memory\n");
		exit(EXIT_FAILURE);
	}
	return memory;
}

#endif							/* TAP_H */
