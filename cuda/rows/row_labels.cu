/*-------------------------------------------------------------------------
 *
 * row_labels.cu
 *	  Which group each row of a set is in, where only rows of one group meet.
 *
 *-------------------------------------------------------------------------
 */
#include "rows/row_labels.h"

#include <algorithm>

#include "device/check.h"

namespace fasted
{

namespace
{

std::vector<uint32_t>
labels_of(const FastedRowGroup *groups, uint32_t ngroups, int side, uint32_t rows)
{
	std::vector<uint32_t> labels(rows);
	uint32_t	row = 0;

	for (uint32_t g = 0; g < ngroups; g++)
	{
		FastedSpan	span = fasted_group_rows(&groups[g], side);

		std::fill(labels.begin() + row, labels.begin() + span.first, 2 * g);
		std::fill(labels.begin() + span.first, labels.begin() + span.end, 2 * g + 1);
		row = span.end;
	}
	std::fill(labels.begin() + row, labels.end(), 2 * ngroups);
	return labels;
}

}								/* namespace */

bool
RowLabels::set(Budget &budget, const FastedRowGroup *groups, uint32_t ngroups, int side,
			   uint32_t rows, cudaStream_t stream)
{
	std::vector<uint32_t> labels;

	if (groups != nullptr)
		labels = labels_of(groups, ngroups, side, rows);
	if (labels == known_)
		return false;
	known_.swap(labels);
	if (known_.empty())
		return true;
	if (labels_.size() < rows)
	{
		labels_.release();
		labels_.allocate(budget, rows, "allocating device memory for the rows' groups");
	}
	check_cuda(cudaMemcpyAsync(labels_.get(), known_.data(), rows * sizeof(uint32_t),
							   cudaMemcpyHostToDevice, stream),
			   "copying the rows' groups");
	/* pageable memory need not have been read before, and known_ may change */
	check_cuda(cudaStreamSynchronize(stream), "copying the rows' groups");
	return true;
}

int
RowLabels::bits() const
{
	int			bits = 1;

	while (!known_.empty() && known_.back() >> bits != 0)
		bits++;
	return bits;
}

}								/* namespace fasted */
