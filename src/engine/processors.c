/*-------------------------------------------------------------------------
 *
 * processors.c
 *	  Counts the CPUs that the process may use, and reads the clock.
 *
 * A container is often given a quota of CPU time rather than some of the machine's CPUs.  It then
 * runs on all CPUs until its quota is used up, and on none until the next period begins.  More
 * threads than the quota allows only make these pauses longer.  The quota is in the file cpu.max
 * of cgroup version 2, whose hierarchy is expected at /sys/fs/cgroup.  The quotas of all parents
 * of a cgroup apply as well.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "processors.h"

/* Where the hierarchy of cgroup version 2 is mounted. */
#define CGROUP_ROOT "/sys/fs/cgroup"

/* How long a quota is cached, in milliseconds. */
#define QUOTA_MS 1000

/*
 * Reads the path of the process's cgroup into path, which has PATH_MAX bytes:
 * the line "0::PATH" of /proc/self/cgroup.  Returns false if there is none.
 */
static bool
read_own_cgroup(const char *root, char *path)
{
	char		name[PATH_MAX];
	char		line[PATH_MAX + 8];
	bool		found = false;
	FILE	   *file;

	if ((size_t) snprintf(name, sizeof(name), "%s/proc/self/cgroup", root) >= sizeof(name))
		return false;
	file = fopen(name, "re");
	if (file == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), file) != NULL)
	{
		line[strcspn(line, "\n")] = '\0';
		found = strncmp(line, "0::/", 4) == 0 &&
			(size_t) snprintf(path, PATH_MAX, "%s", line + 3) < PATH_MAX;
	}
	fclose(file);
	return found;
}

/*
 * Returns the number of CPUs that the quota in a directory's cpu.max allows, rounded up; INT_MAX
 * if there is no such file, no quota ("max") or no valid one.
 */
static int
quota_of(const char *directory)
{
	char		name[3 * PATH_MAX];
	long long	quota;
	long long	period;
	bool		known;
	FILE	   *file;

	snprintf(name, sizeof(name), "%s/cpu.max", directory);
	file = fopen(name, "re");
	if (file == NULL)
		return INT_MAX;
	known = fscanf(file, "%lld %lld", &quota, &period) == 2;
	fclose(file);
	if (!known || quota <= 0 || period <= 0 || quota / period >= INT_MAX - 1)
		return INT_MAX;
	return (int) ((quota + period - 1) / period);
}

/*
 * A container without a cgroup namespace sees its path from the host's root, but only its own
 * cgroup is mounted.  Then the directories of that path are missing, and its quota is in the
 * topmost directory.
 */
int
fasted_cgroup_processors(const char *root)
{
	char		directory[2 * PATH_MAX + sizeof(CGROUP_ROOT)];
	char		path[PATH_MAX];
	size_t		top;
	int			least = INT_MAX;

	if (strlen(root) >= PATH_MAX || !read_own_cgroup(root, path))
		return 0;
	top = (size_t) sprintf(directory, "%s" CGROUP_ROOT, root);
	strcpy(directory + top, path);
	for (;;)
	{
		int			quota = quota_of(directory);

		if (quota < least)
			least = quota;
		if (strlen(directory) <= top)
			return least == INT_MAX ? 0 : least;
		*strrchr(directory, '/') = '\0';
	}
}

static int
allowed_processors(void)
{
	long		online;
	int			count = 0;

	/* Linux's CPU sets may be larger than cpu_set_t */
	for (int most = CPU_SETSIZE; count == 0 && most <= 64 * CPU_SETSIZE; most *= 2)
	{
		cpu_set_t  *set = CPU_ALLOC(most);

		if (set == NULL)
			break;
		if (sched_getaffinity(0, CPU_ALLOC_SIZE(most), set) == 0)
			count = CPU_COUNT_S(CPU_ALLOC_SIZE(most), set);
		CPU_FREE(set);
	}
	if (count > 0)
		return count;
	online = sysconf(_SC_NPROCESSORS_ONLN);
	return online > 0 ? (int) online : 1;
}

uint64_t
fasted_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * UINT64_C(1000000000) + (uint64_t) now.tv_nsec;
}

/* The quota may change, so it is read again after QUOTA_MS.  Many small joins share one read. */
int
fasted_processors(void)
{
	static _Atomic uint64_t known;	/* time of the last read in ms << 16 | quota */
	uint64_t	read = atomic_load(&known);
	uint64_t	now = fasted_now() / 1000000;
	int			allowed = allowed_processors();
	int			quota = (int) (read & 0xffff);

	if (read == 0 || now - (read >> 16) > QUOTA_MS)
	{
		quota = fasted_cgroup_processors("");
		if (quota > 0xffff)
			quota = 0xffff;
		atomic_store(&known, now << 16 | (uint64_t) quota);
	}
	return quota > 0 && quota < allowed ? quota : allowed;
}
