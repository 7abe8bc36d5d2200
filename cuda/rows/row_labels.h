/*-------------------------------------------------------------------------
 *
 * row_labels.h
 *	  Which group each row of a set is in, where only rows of one group meet.
 *
 * Labels ascend with the rows' numbers: group g is 2 g + 1, rows between it and the
 * group before are 2 g.  Rows are quantised in the order of their labels and, in a
 * group, of their thresholds: a group's places are its numbers, in another order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_ROW_LABELS_H
#define FASTED_CUDA_ROW_LABELS_H

#include <cstdint>
#include <vector>

#include "device/device_memory.h"
#include "engine/row_groups.h"

namespace fasted
{

/* Is a row with this label in any group? */
FASTED_EVERYWHERE bool
is_group(uint32_t label)
{
	return label % 2 != 0;
}

class RowLabels
{
public:
	static size_t bytes(uint64_t rows) { return Budget::rounded(rows * sizeof(uint32_t)); }

	/*
	 * The labels of so many rows, by the side 0 or 1 of these groups; groups null: they
	 * have none.  Answers whether that is news.
	 */
	bool		set(Budget &budget, const FastedRowGroup *groups, uint32_t ngroups, int side,
					uint32_t rows, cudaStream_t stream);

	/* Other rows will come. */
	void forget() { known_.clear(); }

	/* By the rows' numbers; null: they have none. */
	const uint32_t *get() const { return known_.empty() ? nullptr : labels_.get(); }

	/* All labels are below 2^bits. */
	int			bits() const;

private:
	std::vector<uint32_t> known_;	/* the same, on the host */
	DeviceArray<uint32_t> labels_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_ROW_LABELS_H */
