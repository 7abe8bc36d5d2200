/*-------------------------------------------------------------------------
 *
 * pinned_pool.cu
 *	  Page-locked host memory that outlives a context, for the next one.
 *
 *-------------------------------------------------------------------------
 */
#include "device/pinned_pool.h"

#include <mutex>

namespace fasted
{

namespace
{

constexpr size_t kSmallest = 4096;
constexpr int kPieces = 64;

struct Piece
{
	int			device;
	void	   *memory;
	size_t		size;
};

std::mutex	mutex;
Piece		pieces[kPieces];
int			count;
size_t		kept;

}								/* namespace */

size_t
pinned_size(size_t bytes)
{
	size_t		size = kSmallest;

	while (size < bytes)
		size *= 2;
	return size;
}

void *
take_pinned(int device, size_t size)
{
	std::lock_guard<std::mutex> lock(mutex);

	for (int i = 0; i < count; i++)
	{
		if (pieces[i].device == device && pieces[i].size == size)
		{
			void	   *memory = pieces[i].memory;

			pieces[i] = pieces[--count];
			kept -= size;
			return memory;
		}
	}
	return nullptr;
}

bool
keep_pinned(int device, void *memory, size_t size)
{
	std::lock_guard<std::mutex> lock(mutex);

	if (count == kPieces || size > kPinnedKept - kept)
		return false;
	pieces[count++] = {device, memory, size};
	kept += size;
	return true;
}

void
forget_pinned(int device)
{
	std::lock_guard<std::mutex> lock(mutex);

	for (int i = 0; i < count;)
	{
		if (pieces[i].device == device)
		{
			kept -= pieces[i].size;
			pieces[i] = pieces[--count];
		}
		else
			i++;
	}
}

}								/* namespace fasted */
