/*-------------------------------------------------------------------------
 *
 * processors.c
 *	  What affinity and the quotas of cgroups leave.
 *
 * A container is often given a share of a machine's time, not some of its
 * processors: it runs on all of them until its quota is used up, and then on none
 * until the next period begins.  More threads than the quota pays for only make
 * the pauses longer.
 *
 * /proc/self/mountinfo says where the cgroups are mounted, /proc/self/cgroup in
 * which of them the process is.  The quota is in cpu.max (version 2), or in
 * cpu.cfs_quota_us and cpu.cfs_period_us (version 1), of it and of each above it.
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
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "processors.h"

/* For how long a quota that was read is taken for true. */
#define QUOTA_MS 1000

/* A hierarchy of cgroups that may limit processor time. */
typedef struct Hierarchy
{
	bool		version2;
	char		top[PATH_MAX];	/* the cgroup that is mounted */
	char		mounted_at[PATH_MAX];
} Hierarchy;

/* A file to be read; NULL: there is none. */
static FILE *
open_in(const char *directory, const char *name)
{
	char		path[3 * PATH_MAX + 32];

	if ((size_t) snprintf(path, sizeof(path), "%s/%s", directory, name) >= sizeof(path))
		return NULL;
	return fopen(path, "re");
}

/* Is word among those that commas separate, up to the end of the list? */
static bool
list_has(const char *list, size_t length, const char *word)
{
	size_t		n = strlen(word);

	for (const char *end = list + length; list < end;)
	{
		const char *comma = memchr(list, ',', (size_t) (end - list));
		const char *stop = comma != NULL ? comma : end;

		if ((size_t) (stop - list) == n && memcmp(list, word, n) == 0)
			return true;
		list = stop + 1;
	}
	return false;
}

/* In mountinfo, spaces and the like are \ and three octal digits. */
static void
unescape(char *path)
{
	char	   *to = path;

	for (const char *from = path; *from != '\0'; to++)
	{
		if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3)
		{
			*to = (char) ((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		}
		else
			*to = *from++;
	}
	*to = '\0';
}

/* A line of mountinfo; false: it is no hierarchy that limits processor time. */
static bool
read_mount(const char *line, Hierarchy *hierarchy)
{
	char		form[64];
	char		type[32];
	char		options[256];
	const char *rest = strstr(line, " - ");

	snprintf(form, sizeof(form), "%%*s %%*s %%*s %%%ds %%%ds", PATH_MAX - 1, PATH_MAX - 1);
	if (rest == NULL || sscanf(line, form, hierarchy->top, hierarchy->mounted_at) != 2 ||
		sscanf(rest, " - %31s %*s %255s", type, options) != 2)
		return false;
	unescape(hierarchy->top);
	unescape(hierarchy->mounted_at);
	hierarchy->version2 = strcmp(type, "cgroup2") == 0;
	return hierarchy->version2 ||
		(strcmp(type, "cgroup") == 0 && list_has(options, strlen(options), "cpu"));
}

/* The process's cgroup in a hierarchy, from a line such as "4:cpu,cpuacct:/a/b". */
static bool
read_membership(char *line, bool version2, char *path)
{
	char	   *controllers = strchr(line, ':');
	char	   *name = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
	size_t		length;

	if (name == NULL)
		return false;
	controllers++;
	length = (size_t) (name - controllers);
	if (version2 ? length > 0 : !list_has(controllers, length, "cpu"))
		return false;
	name[strcspn(name, "\n")] = '\0';
	return snprintf(path, PATH_MAX, "%s", name + 1) < PATH_MAX;
}

static bool
find_membership(const char *root, bool version2, char *path)
{
	char	   *line = NULL;
	size_t		room = 0;
	bool		found = false;
	FILE	   *file = open_in(root, "proc/self/cgroup");

	if (file == NULL)
		return false;
	while (!found && getline(&line, &room, file) > 0)
		found = read_membership(line, version2, path);
	free(line);
	fclose(file);
	return found;
}

/* Two numbers of a cgroup's files; false: they are not there, or "max". */
static bool
read_numbers(const char *directory, const char *name, const char *form, long long *x, long long *y)
{
	int			wanted = y != NULL ? 2 : 1;
	bool		good;
	FILE	   *file = open_in(directory, name);

	if (file == NULL)
		return false;
	good = fscanf(file, form, x, y) == wanted;
	fclose(file);
	return good;
}

/* What the quota of one cgroup comes to; INT_MAX: it has none. */
static int
quota_of(const char *directory, bool version2)
{
	long long	quota;
	long long	period;
	bool		known;

	if (version2)
		known = read_numbers(directory, "cpu.max", "%lld %lld", &quota, &period);
	else
		known = read_numbers(directory, "cpu.cfs_quota_us", "%lld", &quota, NULL) &&
			read_numbers(directory, "cpu.cfs_period_us", "%lld", &period, NULL);
	if (!known || quota <= 0 || period <= 0 || quota / period >= INT_MAX - 1)
		return INT_MAX;
	return (int) ((quota + period - 1) / period);
}

/* The least of a cgroup's quota and of those above it, as far up as we can see. */
static int
least_quota(const char *root, const Hierarchy *hierarchy, const char *path)
{
	char		directory[3 * PATH_MAX];
	size_t		top_length = strcmp(hierarchy->top, "/") == 0 ? 0 : strlen(hierarchy->top);
	size_t		stop;
	int			least = INT_MAX;

	/* Only what is below the mounted cgroup has a directory. */
	if (strncmp(path, hierarchy->top, top_length) == 0 &&
		(path[top_length] == '/' || path[top_length] == '\0'))
		path += top_length;
	else
		path = "";
	if (strstr(path, "/..") != NULL)
		path = "";
	if ((size_t) snprintf(directory, sizeof(directory), "%s%s%s", root, hierarchy->mounted_at,
						  path) >= sizeof(directory))
		return INT_MAX;
	stop = strlen(root) + strlen(hierarchy->mounted_at);
	for (;;)
	{
		int			quota = quota_of(directory, hierarchy->version2);

		if (quota < least)
			least = quota;
		if (strlen(directory) <= stop)
			return least;
		*strrchr(directory, '/') = '\0';
	}
}

int
fasted_cgroup_processors(const char *root)
{
	char	   *line = NULL;
	size_t		room = 0;
	int			least = INT_MAX;
	FILE	   *file = open_in(root, "proc/self/mountinfo");

	if (file == NULL)
		return 0;
	while (getline(&line, &room, file) > 0)
	{
		Hierarchy	hierarchy;
		char		path[PATH_MAX];
		int			quota;

		if (!read_mount(line, &hierarchy) || !find_membership(root, hierarchy.version2, path))
			continue;
		quota = least_quota(root, &hierarchy, path);
		if (quota < least)
			least = quota;
	}
	free(line);
	fclose(file);
	return least == INT_MAX ? 0 : least;
}

static int
allowed_processors(void)
{
	long		online;
	int			count = 0;

	/* the kernel's sets may be larger than cpu_set_t */
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

static uint64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* The quota may change, but files are not read again for each of many small joins. */
int
fasted_processors(void)
{
	static _Atomic uint64_t known;	/* the quota, and when it was read */
	uint64_t	read = atomic_load(&known);
	uint64_t	now = now_ms();
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
