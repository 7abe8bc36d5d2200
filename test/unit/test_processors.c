/*-------------------------------------------------------------------------
 *
 * test_processors.c
 *	  Quotas of cgroups, in made-up trees of files.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE

#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/cpu/processors.h"
#include "tap.h"

#define V2_AT(root, place) \
	"24 23 0:21 / /proc rw - proc proc rw\n" \
	"30 23 0:26 " root " " place " rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_AT(root, place) \
	"31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" \
	"32 23 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" \
	"33 23 0:29 " root " " place " rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"

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

/* Writes a file below the made-up root, and the directories that it is in. */
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

	ok(got == expected, "%s: %d (%d)", name, expected, got);
	clear();
}

static void
test_version2(void)
{
	put("/proc/self/mountinfo", V2_AT("/", "/sys/fs/cgroup"));
	put("/proc/self/cgroup", "0::/system.slice/postgresql.service\n");
	put("/sys/fs/cgroup/system.slice/postgresql.service/cpu.max", "250000 100000\n");
	is(3, "2.5 processors, rounded up");

	put("/proc/self/mountinfo", V2_AT("/", "/sys/fs/cgroup"));
	put("/proc/self/cgroup", "0::/system.slice/postgresql.service\n");
	put("/sys/fs/cgroup/system.slice/postgresql.service/cpu.max", "max 100000\n");
	is(0, "no limit");

	put("/proc/self/mountinfo", V2_AT("/", "/sys/fs/cgroup"));
	put("/proc/self/cgroup", "0::/a/b/c\n");
	put("/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	put("/sys/fs/cgroup/a/cpu.max", "50000 25000\n");
	is(2, "a cgroup further up has less");

	put("/proc/self/mountinfo", V2_AT("/", "/sys/fs/cgroup"));
	put("/proc/self/cgroup", "0::/\n");
	put("/sys/fs/cgroup/cpu.max", "10000 100000\n");
	is(1, "in a container, with a namespace; a tenth of a processor");

	put("/proc/self/mountinfo", V2_AT("/kubepods/pod1", "/sys/fs/cgroup"));
	put("/proc/self/cgroup", "0::/kubepods/pod1/inner\n");
	put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
	put("/sys/fs/cgroup/inner/cpu.max", "500000 100000\n");
	is(4, "in a container, without a namespace");

	put("/proc/self/mountinfo", V2_AT("/", "/sys/fs/cgroup"));
	put("/proc/self/cgroup", "0::/../outside\n");
	put("/sys/fs/cgroup/cpu.max", "700000 100000\n");
	is(7, "a cgroup that is out of sight");

	put("/proc/self/mountinfo", V2_AT("/", "/a\\040place"));
	put("/proc/self/cgroup", "0::/x\n");
	put("/a place/x/cpu.max", "600000 100000\n");
	is(6, "mounted at a place with a space in its name");
}

static void
test_version1(void)
{
	put("/proc/self/mountinfo", V1_AT("/", "/sys/fs/cgroup/cpu,cpuacct"));
	put("/proc/self/cgroup", "5:memory:/m\n4:cpuset:/s\n3:cpu,cpuacct:/x/y\n0::/z\n");
	put("/sys/fs/cgroup/cpu,cpuacct/x/y/cpu.cfs_quota_us", "350000\n");
	put("/sys/fs/cgroup/cpu,cpuacct/x/y/cpu.cfs_period_us", "100000\n");
	put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
	is(4, "version 1");

	put("/proc/self/mountinfo", V1_AT("/docker/12", "/sys/fs/cgroup/cpu"));
	put("/proc/self/cgroup", "3:cpuacct,cpu:/docker/12\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	is(2, "version 1, in a container");

	put("/proc/self/mountinfo", V1_AT("/", "/sys/fs/cgroup/cpu"));
	put("/proc/self/cgroup", "3:cpu,cpuacct:/x\n");
	put("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
	is(0, "version 1, no limit");

	put("/proc/self/mountinfo", V1_AT("/", "/sys/fs/cgroup/cpu") V2_AT("/", "/sys/fs/cgroup/unified"));
	put("/proc/self/cgroup", "3:cpu,cpuacct:/x\n0::/y\n");
	put("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "100000\n");
	put("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "50000\n");
	is(2, "both versions, the quota in the first");
}

static void
test_nonsense(void)
{
	is(0, "no files at all");

	put("/proc/self/mountinfo", "nonsense\n\n30 23 - cgroup2\n");
	put("/proc/self/cgroup", "0::/\n");
	is(0, "a file of mounts that is none");

	put("/proc/self/mountinfo", V2_AT("/", "/sys/fs/cgroup"));
	put("/proc/self/cgroup", "0\n:\n");
	put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
	is(0, "a file of cgroups that is none");

	for (int i = 0; i < 4; i++)
	{
		static const char *const texts[] = {"", "100000\n", "100000 0\n", "x y\n"};

		put("/proc/self/mountinfo", V2_AT("/", "/sys/fs/cgroup"));
		put("/proc/self/cgroup", "0::/\n");
		put("/sys/fs/cgroup/cpu.max", texts[i]);
		is(0, "a quota that is none");
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
	test_version2();
	test_version1();
	test_nonsense();
	ok(fasted_processors() >= 1, "this machine: %d", fasted_processors());
	nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return tap_done();
}
