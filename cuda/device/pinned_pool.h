/*-------------------------------------------------------------------------
 *
 * pinned_pool.h
 *	  Page-locked host memory that outlives a context, for the next one.
 *
 * To lock pages and to unlock them takes half a millisecond a megabyte, of a
 * statement that may take ten.  A process keeps no more than kPinnedKept of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_PINNED_POOL_H
#define FASTED_CUDA_PINNED_POOL_H

#include <cstddef>

namespace fasted
{

constexpr size_t kPinnedKept = (size_t) 16 << 20;

/* The size that is allocated for so many bytes: few sizes, which fit again. */
size_t		pinned_size(size_t bytes);

/* Memory of a device's context, of a size that pinned_size gave; null: there is none. */
void	   *take_pinned(int device, size_t size);

/* Keeps it, for nothing on the device uses it any more; false: free it. */
bool		keep_pinned(int device, void *memory, size_t size);

/* The device's context went, and all its memory with it. */
void		forget_pinned(int device);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_PINNED_POOL_H */
