/*-------------------------------------------------------------------------
 *
 * release.h
 *	  Memory and files that are given back beside other work.
 *
 * To give a gigabyte of memory back takes some 30 to 100 ms, and a gigabyte of a
 * file that was removed as long.  Nobody who cancels a join should wait for
 * that: a thread of its own does it, in pieces, so that the process's other
 * threads can map memory meanwhile.  The process may end while it is at work.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_RELEASE_H
#define FASTED_RELEASE_H

#include <stdbool.h>
#include <stddef.h>

/* A list of what is to be given back together. */
typedef struct Release Release;

/* NULL: there is no memory for a list; the functions below take that. */
extern Release *release_begin(void);

/* Mapped memory; without a list it is unmapped at once. */
extern void release_memory(Release *release, void *memory, size_t bytes);

/*
 * A descriptor of a file that is removed, or soon will be: the thread waits for
 * that, then frees the file's blocks and closes the descriptor.
 */
extern void release_file(Release *release, int descriptor);

/* Begins to give back what is on the list; where no thread can be had, does it. */
extern void release_end(Release *release);

/* Waits until all memory that was to be given back has been. */
extern void release_wait(void);

#endif							/* FASTED_RELEASE_H */
