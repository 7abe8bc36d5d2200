/*-------------------------------------------------------------------------
 *
 * test_processors.c
 *	  CPU quotas of cgroups, in simulated file trees.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE

#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/engine/processors.h"
#include "tap.h"

static char top[] = "/tmp/fasted_processors_XXXXXX";

static int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void) st;
	(void) flag;
	(void) ftw;
	return remove(path);
}

static void
clear(void)
{
	nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	mkdir(top, 0700);
}

/* Writes a file below the simulated root, and creates its directories. */
static void
put(const char *name, const char *text)
{
	char		path[PATH_MAX];
	FILE	   *file;

	snprintf(path, sizeof(path), "%s%s", top, name);
	for (char *slash = path + strlen(top) + 1; (slash = strchr(slash, '/')) != NULL; slash++)
	{
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
	{
		printf("Bail out! could not write %s\n", path);
		exit(EXIT_FAILURE);
	}
}

static void
is(int expected, const char *name)
{
	int			got = fasted_cgroup_processors(top);

	ok(got == expected, "%s: expected %d, got %d", name, expected, got);
	clear();
}

static void
test_quotas(void)
{
	put("/proc/self/cgroup", "0::/system.slice/postgresql.service\n");
	put("/sys/fs/cgroup/system.slice/postgresql.service/cpu.max", "250000 100000\n");
	is(3, "2.5 CPUs, rounded up");

	put("/proc/self/cgroup", "0::/system.slice/postgresql.service\n");
	put("/sys/fs/cgroup/system.slice/postgresql.service/cpu.max", "max 100000\n");
	is(0, "no quota");

	put("/proc/self/cgroup", "0::/a/b/c\n");
	put("/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	put("/sys/fs/cgroup/a/cpu.max", "50000 25000\n");
	is(2, "a smaller quota in a parent cgroup");

	put("/proc/self/cgroup", "0::/\n");
	put("/sys/fs/cgroup/cpu.max", "10000 100000\n");
	is(1, "in a container, with a namespace; a tenth of a CPU");

	put("/proc/self/cgroup", "0::/kubepods/pod1\n");
	put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
	is(4, "in a container, without a namespace");

	put("/proc/self/cgroup", "0::/../outside\n");
	put("/sys/fs/cgroup/cpu.max", "700000 100000\n");
	is(7, "a cgroup outside the visible tree");

	put("/proc/self/cgroup", "3:cpu,cpuacct:/x\n0::/y\n");
	put("/sys/fs/cgroup/y/cpu.max", "600000 100000\n");
	is(6, "with cgroups of version 1");
}

static void
test_nonsense(void)
{
	is(0, "no cgroup files");

	put("/proc/self/cgroup", "0\n:\n");
	put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
	is(0, "an invalid cgroup file");

	for (int i = 0; i < 4; i++)
	{
		static const char *const texts[] = {"", "100000\n", "100000 0\n", "x y\n"};

		put("/proc/self/cgroup", "0::/\n");
		put("/sys/fs/cgroup/cpu.max", texts[i]);
		is(0, "an invalid quota");
	}
}

int
main(void)
{
	if (mkdtemp(top) == NULL)
	{
		printf("Bail out! no temporary directory\n");
		return EXIT_FAILURE;
	}
	test_quotas();
	test_nonsense();
	ok(fasted_processors() >= 1, "CPUs of this machine: %d", fasted_processors());
	nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return tap_done();
}
