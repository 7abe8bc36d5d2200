/*-------------------------------------------------------------------------
 *
 * choice.h
 *	  INT8 or FP16?  Asks a sample of the rows.
 *
 * INT8 multiplies at twice the rate, but moves rows further, so that more pairs
 * have to be rechecked.  How many more depends on the rows: both filters join a
 * sample of them, and the predicted time decides.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CHOICE_H
#define FASTED_CUDA_CHOICE_H

#include "rows/quantiser.h"
#include "schedule/rounds.h"

namespace fasted
{

/* Fewer rows than this are joined in FP16 before a sample would tell. */
constexpr uint32_t kLeastRowsForChoice = 16384;

struct Choice
{
	Criterion	criterion = Criterion::kFp16;
	bool		sampled = false;	/* else there was no need, or no room */
	uint64_t	candidates_fp16 = 0;	/* in the sample */
	uint64_t	candidates_int8 = 0;
	uint64_t	pairs = 0;
};

/* Device memory that choose_filter takes for a while. */
size_t		choice_bytes(const Device &device, uint32_t dimensions);

/* Takes a sample of the rows and waits for the device, some milliseconds. */
Choice		choose_filter(Budget &budget, const RoundSettings &settings,
						  Quantiser &quantiser, const RowTable &rows, cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_CHOICE_H */
