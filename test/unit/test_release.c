/*-------------------------------------------------------------------------
 *
 * test_release.c
 *	  Memory and files are given back beside other work.
 *
 * Processor time of the calling thread is what is measured: it tells who does the
 * work, on a busy machine too.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/cpu/release.h"
#include "join.h"

#define ROWS 100000
#define DIMENSIONS 1024
#define BYTES ((size_t) ROWS * DIMENSIONS * sizeof(float))
#define MEGABYTE ((size_t) 1 << 20)

static double
own_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return 1e3 * (double) now.tv_sec + 1e-6 * (double) now.tv_nsec;
}

/* What is resident, in megabytes. */
static size_t
resident(void)
{
	FILE	   *file = fopen("/proc/self/statm", "r");
	unsigned long size;
	unsigned long pages = 0;

	if (file == NULL || fscanf(file, "%lu %lu", &size, &pages) != 2)
		exit(EXIT_FAILURE);
	fclose(file);
	return pages * (size_t) sysconf(_SC_PAGESIZE) / MEGABYTE;
}

static FastedContext *
open_context(void)
{
	FastedOptions options = {.dimensions = DIMENSIONS,.memory_limit = 4 * BYTES};
	FastedContext *context;

	if (fasted_cpu_engine()->open(&options, &context) != FASTED_OK)
		exit(EXIT_FAILURE);
	return context;
}

/* A context that holds BYTES of rows. */
static FastedContext *
large_context(void)
{
	const FastedEngine *engine = fasted_cpu_engine();
	FastedContext *context = open_context();
	FastedSetOptions options = {0};
	FastedSet  *set;

	if (engine->set_open(context, &options, &set) != FASTED_OK)
		exit(EXIT_FAILURE);
	for (size_t there = 0; there < ROWS;)
	{
		float	   *room;
		size_t		capacity;

		if (engine->stage(set, &room, &capacity) != FASTED_OK)
			exit(EXIT_FAILURE);
		if (capacity > ROWS - there)
			capacity = ROWS - there;
		memset(room, 1, capacity * DIMENSIONS * sizeof(float));
		engine->commit(set, capacity);
		there += capacity;
	}
	return context;
}

/* What closing a context takes of the caller's time. */
static double
close_ms(void)
{
	FastedContext *context = large_context();
	double		begin = own_ms();

	fasted_cpu_engine()->close(context);
	return own_ms() - begin;
}

/* No room for a thread's stack, as long as none has been there. */
static void
test_without_thread(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	ok(true, "a sanitizer needs room too");
#else
	size_t		empty = resident();
	FastedContext *context = large_context();
	struct rlimit before;
	struct rlimit none;

	getrlimit(RLIMIT_AS, &before);
	none = before;
	none.rlim_cur = MEGABYTE;
	setrlimit(RLIMIT_AS, &none);
	fasted_cpu_engine()->close(context);
	setrlimit(RLIMIT_AS, &before);
	ok(resident() < empty + BYTES / MEGABYTE / 4,
	   "where no thread can be had, the caller gives memory back: %zu MB are left (%zu)", resident(), empty);
#endif
}

static double
unmap_ms(void)
{
	char	   *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double		begin;

	if (memory == MAP_FAILED)
		exit(EXIT_FAILURE);
	memset(memory, 1, BYTES);
	begin = own_ms();
	munmap(memory, BYTES);
	return own_ms() - begin;
}

static void
test_memory(void)
{
	size_t		empty = resident();
	double		whole = unmap_ms();
	double		least = INFINITY;
	size_t		left = 0;

	for (int i = 0; i < 3; i++)
	{
		least = fmin(least, close_ms());
		fasted_cpu_engine()->close(open_context());
		if (resident() > left)
			left = resident();
		whole = fmin(whole, unmap_ms());
	}
	ok(least < 0.5 * whole, "%zu MB: to close a context takes %.2f ms, to unmap them %.2f", BYTES / MEGABYTE,
	   least, whole);
	ok(left < empty + BYTES / MEGABYTE / 4, "the next one begins when they are gone: %zu MB are left (%zu)",
	   left, empty);
}

/* Does the descriptor get closed? */
static bool
gets_closed(int descriptor)
{
	for (int i = 0; i < 1000; i++)
	{
		if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
			return true;
		usleep(20000);
	}
	return false;
}

static void
test_file(void)
{
	char		name[] = "/tmp/fasted_release_XXXXXX";
	int			descriptor = mkostemp(name, O_CLOEXEC);
	int			other = dup(descriptor);
	Release    *release = release_begin();
	struct stat st;

	if (descriptor < 0 || other < 0 || ftruncate(descriptor, 300 * (off_t) MEGABYTE) != 0)
		exit(EXIT_FAILURE);
	release_file(release, descriptor);
	release_end(release);
	release_wait();
	usleep(100000);
	ok(fcntl(descriptor, F_GETFD) >= 0 && fstat(other, &st) == 0 && st.st_size == 300 * (off_t) MEGABYTE,
	   "a file that is still there is left alone");
	unlink(name);
	ok(gets_closed(descriptor), "when it is removed it is closed");
	(void) fstat(other, &st);
	ok(st.st_size <= 64 * (off_t) MEGABYTE, "and its blocks are free: %lld bytes are left", (long long) st.st_size);
	close(other);
}

int
main(void)
{
	/* small pages, which take their time */
	(void) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	test_without_thread();
	test_memory();
	test_file();
	return tap_done();
}
