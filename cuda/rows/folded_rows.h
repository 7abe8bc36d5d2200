/*-------------------------------------------------------------------------
 *
 * folded_rows.h
 *	  INT8 rows with their thresholds among their numbers, for the folded filter.
 *
 * Of two rows, one of either kind, the product is n_x + n_y - p - 1: negative if and
 * only if they are a candidate (doc/bound-int8.md, section 9).  So a kernel compares
 * nothing.
 *
 * A row's numbers lie in blocks of 8 rows x 16 bytes, as the tensor cores read them
 * without a swizzle; the blocks of eight rows lie together.  So any multiple of eight
 * rows is one plain copy.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_FOLDED_ROWS_H
#define FASTED_CUDA_FOLDED_ROWS_H

#include <cstdint>

#include "engine/host_device.h"
#include "rows/quantised.h"

namespace fasted
{

/* How many numbers a row has, and bytes with its threshold's. */
struct FoldShape
{
	uint32_t	numbers;
	uint32_t	bytes;

	/* On either side, a threshold's high parts; one low part follows them. */
	FASTED_HD constexpr uint32_t parts() const { return (bytes - numbers - 2) / 2; }

	/* That of padding, and what all others are brought below, by their size. */
	FASTED_HD constexpr int32_t most() const { return (int32_t) parts() * 127 * 127; }
};

/* Rows of up to so many bytes get a step more, for their thresholds. */
constexpr uint32_t kMostFolded = 256;

constexpr FoldShape
fold_shape(uint32_t row_bytes)
{
	return {row_bytes, row_bytes + kStepBytes};
}

/* Of either kind, for so many rows, padded to a multiple of what a tile has at most. */
constexpr uint32_t
padded_folded(uint64_t rows)
{
	return (uint32_t) ((rows + kThresholdPad - 1) / kThresholdPad * kThresholdPad);
}

constexpr size_t
folded_bytes(uint64_t rows, uint32_t row_bytes)
{
	return (size_t) padded_folded(rows) * fold_shape(row_bytes).bytes;
}

/*
 * Rows whose thresholds do not fit into their parts.  Where one is too low, the rows are
 * of no use.  One that is too high is lowered, which loses no pair, but such rows have
 * more candidates.
 */
struct Unfit
{
	uint32_t	low;
	uint32_t	high;

	/* So few are too high that the join is faster nevertheless. */
	bool few(uint32_t rows) const { return low == 0 && high <= rows / 64; }
};

/* Fills both kinds, padding included.  *unfit has zeros, and becomes how many there are. */
void launch_fold(const QuantisedRows &rows, const FoldShape &shape, uint8_t *folded_a,
				 uint8_t *folded_b, Unfit *unfit, cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FOLDED_ROWS_H */
