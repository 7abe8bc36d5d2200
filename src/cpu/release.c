/*-------------------------------------------------------------------------
 *
 * release.c
 *	  A detached thread unmaps memory, piece by piece, then empties removed files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../engine/thread.h"
#include "release.h"

/* Less memory than this is given back at once: in about the time to make a thread. */
#define WORTH_A_THREAD ((size_t) 32 << 20)

/* What is given back in one go: to unmap it takes some milliseconds. */
#define PIECE_BYTES ((size_t) 16 << 20)
#define FILE_PIECE_BYTES ((off_t) 64 << 20)

/* How long a file is waited for that should be removed. */
#define REMOVED_WITHIN_MS 10000
#define LOOK_EACH_MS 10

#define STACK_BYTES (64 * 1024)

/* One piece of memory, or one descriptor. */
typedef struct Item
{
	struct Item *next;
	char	   *memory;			/* NULL: it is a file */
	size_t		bytes;
	int			descriptor;
} Item;

struct Release
{
	Item	   *memory;
	Item	   *files;
	size_t		bytes;
};

/* Lists whose memory has not been given back yet. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static int	at_work = 0;

Release *
release_begin(void)
{
	return calloc(1, sizeof(Release));
}

void
release_memory(Release *release, void *memory, size_t bytes)
{
	Item	   *item = release != NULL ? malloc(sizeof(Item)) : NULL;

	if (item == NULL)
	{
		munmap(memory, bytes);
		return;
	}
	*item = (Item) {.next = release->memory,.memory = memory,.bytes = bytes};
	release->memory = item;
	release->bytes += bytes;
}

void
release_file(Release *release, int descriptor)
{
	Item	   *item = release != NULL ? malloc(sizeof(Item)) : NULL;

	if (item == NULL)
	{
		close(descriptor);
		return;
	}
	*item = (Item) {.next = release->files,.descriptor = descriptor};
	release->files = item;
}

/* In pieces: the lock on the process's map of memory is held during each. */
static void
give_memory_back(Item *item)
{
	while (item->bytes > 0)
	{
		size_t		bytes = item->bytes < PIECE_BYTES ? item->bytes : PIECE_BYTES;

		munmap(item->memory, bytes);
		item->memory += bytes;
		item->bytes -= bytes;
	}
}

static void
sleep_ms(int ms)
{
	struct timespec time = {.tv_sec = ms / 1000,.tv_nsec = ms % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

/* Somebody else removes it: has that been done? */
static bool
is_removed(int descriptor)
{
	struct stat st;

	for (int ms = 0; ms < REMOVED_WITHIN_MS; ms += LOOK_EACH_MS)
	{
		if (fstat(descriptor, &st) != 0)
			return false;
		if (st.st_nlink == 0)
			return true;
		sleep_ms(LOOK_EACH_MS);
	}
	return false;
}

/* A file that is still there after a while is not ours to empty. */
static void
give_file_back(Item *item)
{
	struct stat st;

	if (is_removed(item->descriptor) && fstat(item->descriptor, &st) == 0)
	{
		while (st.st_size > FILE_PIECE_BYTES)
		{
			st.st_size -= FILE_PIECE_BYTES;
			if (ftruncate(item->descriptor, st.st_size) != 0)
				break;
		}
	}
	close(item->descriptor);
}

static void
give_back(Item *item, void (*one) (Item *item))
{
	while (item != NULL)
	{
		Item	   *next = item->next;

		one(item);
		free(item);
		item = next;
	}
}

static void *
release_main(void *arg)
{
	Release    *release = arg;

	/* as long as it has no name, it has nothing to do */
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	give_back(release->memory, give_memory_back);
	pthread_mutex_lock(&lock);
	at_work--;
	pthread_cond_broadcast(&done);
	pthread_mutex_unlock(&lock);

	give_back(release->files, give_file_back);
	free(release);
	return NULL;
}

/* A thread that nobody waits for; its name tells it from those of a join. */
static bool
start_thread(Release *release)
{
	pthread_t	thread;
	bool		started;

	pthread_mutex_lock(&lock);
	started = fasted_start_thread(&thread, STACK_BYTES, release_main, release);
	if (started)
	{
		at_work++;
		(void) pthread_setname_np(thread, "fasted release");
		(void) pthread_detach(thread);
	}
	pthread_mutex_unlock(&lock);
	return started;
}

/* Without a thread: a descriptor is closed and leaves the file to who removes it. */
static void
close_file(Item *item)
{
	close(item->descriptor);
}

void
release_end(Release *release)
{
	if (release == NULL)
		return;
	if ((release->bytes >= WORTH_A_THREAD || release->files != NULL) &&
		start_thread(release))
		return;
	give_back(release->memory, give_memory_back);
	give_back(release->files, close_file);
	free(release);
}

void
release_wait(void)
{
	pthread_mutex_lock(&lock);
	while (at_work > 0)
		pthread_cond_wait(&done, &lock);
	pthread_mutex_unlock(&lock);
}
