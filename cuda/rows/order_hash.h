/*-------------------------------------------------------------------------
 *
 * order_hash.h
 *	  Whether several devices have the same rows in the same order.
 *
 * Slices of a join are parts of one list of tiles, which are of rows in their order.  The
 * order comes from the form that rows are in, and so from sums of floats: devices had
 * better not take it on trust that theirs are the same.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_ORDER_HASH_H
#define FASTED_CUDA_ORDER_HASH_H

#include "device/device_memory.h"
#include "rows/row_table.h"

namespace fasted
{

class OrderHash
{
public:
	static size_t bytes() { return Budget::rounded(sizeof(unsigned long long)); }
	void		allocate(Budget &budget) { sum_.allocate(budget, 1, "allocating room for a sum"); }

	explicit operator bool() const { return sum_.size() > 0; }

	/* Of the orders of both, and what else tiles depend on.  Waits for the device. */
	uint64_t	of(const RowTable &a, const RowTable &b, uint64_t more, cudaStream_t stream);

private:
	DeviceArray<unsigned long long> sum_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_ORDER_HASH_H */
