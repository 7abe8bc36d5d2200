/*-------------------------------------------------------------------------
 *
 * tile_amx.h
 *	  The instructions of AMX, and the permission to use them.
 *
 * Tests on other processors replace this header's second half: FASTED_AMX_HEADER
 * names a file with the same names in C.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_TILE_AMX_H
#define FASTED_TILE_AMX_H

#ifdef FASTED_AMX_HEADER

#include FASTED_AMX_HEADER

#else

#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX_TARGET "amx-tile,amx-int8"

#define TILE_CONFIGURE(config) _tile_loadconfig(config)
#define TILE_RELEASE() _tile_release()
#define TILE_ZERO(t) _tile_zero(t)
#define TILE_LOAD(t, p, stride) _tile_loadd(t, p, stride)
#define TILE_MULTIPLY(c, a, b) _tile_dpbssd(c, a, b)

/* What follows reads the memory; not every compiler's header says so. */
#define TILE_STORE(t, p, stride) \
	do \
	{ \
		_tile_stored(t, p, stride); \
		__asm__ volatile ("" ::: "memory"); \
	} while (0)

/* Linux's names; its headers need not be that new. */
#define REQUEST_PERMISSION 0x1023
#define TILE_DATA 18

/* The system grants room for the registers to a process that asks, once for all. */
static inline bool
amx_permitted(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
	const unsigned tile_and_int8 = 3U << 24;
	unsigned	a;
	unsigned	b;
	unsigned	c;
	unsigned	d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & tile_and_int8) == tile_and_int8 &&
		syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
	return false;
#endif
}

#endif							/* FASTED_AMX_HEADER */
#endif							/* FASTED_TILE_AMX_H */
