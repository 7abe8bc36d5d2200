/*-------------------------------------------------------------------------
 *
 * test_device_list.c
 *	  The syntax of fasted.gpu_devices.
 *
 *-------------------------------------------------------------------------
 */
#include "../../src/engine/device_list.h"
#include "tap.h"

static const char *const uuids[] = {
	"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
	"GPU-89320000-d72c-4106-c12f-20bd9faed9f6",
	"GPU-f0000000-0000-0000-0000-00000000000f"
};

static void
is_list(bool expected, const char *text)
{
	const char *wrong = "";

	bool		good = fasted_is_device_list(text, &wrong);

	ok(good == expected && strstr(text, wrong) != NULL, "\"%s\" is %s list, \"%s\" is wrong", text,
	   expected ? "a" : "no", wrong);
}

/* Checks which of three devices the list's n-th name matches; one digit per device. */
static void
means(const char *text, int n, const char *expected)
{
	FastedDeviceName name;
	char		found[4] = "";
	bool		good = true;

	for (int i = 0; i <= n; i++)
		good = good && fasted_next_device(&text, &name);
	for (int d = 0; d < 3 && good; d++)
	{
		if (fasted_is_device(&name, d, uuids[d]))
			found[strlen(found)] = (char) ('0' + d);
	}
	ok(good && strcmp(found, expected) == 0, "name %d: devices \"%s\" (\"%s\")", n, expected, found);
}

int
main(void)
{
	static const char *const good[] = {
		"", "  ", "0", " 0 ", "0,1,2", "3 , 1", "1023", "GPU-8", "gpu-8932F937", "0,GPU-8932f937-d72c",
		"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, 2", "GPU-8932f937-"
	};
	static const char *const bad[] = {
		",", "0,", ",0", "0,,1", "-1", "1024", "99999999999999999999", "0x1", "1 2", "one", "GPU", "GPU-", "GPU-x",
		"GPU-89-32", "GPU-8932f937d72c", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f60", "0;1", "MIG-8932f937", "0 !"
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		is_list(true, good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is_list(false, bad[i]);

	means("2", 0, "2");
	means("2, 0", 1, "0");
	means("3", 0, "");
	means("GPU-8932f", 0, "0");
	means("GPU-8932", 0, "01");
	means("0,gpu-F0", 1, "2");
	means("GPU-89320000-d72c-4106-c12f-20bd9faed9f6", 0, "1");
	means("GPU-7", 0, "");
	return tap_done();
}
