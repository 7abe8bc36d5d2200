/*-------------------------------------------------------------------------
 *
 * filter_mma.cu
 *	  The mma.sync filter as the engine uses it.
 *
 *-------------------------------------------------------------------------
 */
#include "filter/filter_mma.cuh"

namespace fasted
{

void
launch_filter_mma(const FilterParams &params, Criterion criterion, const Device &device,
				  cudaStream_t stream)
{
	switch (criterion)
	{
		case Criterion::kInt8:
			mma::launch<AllOn>(params, Int8Test{}, device, stream);
			break;
		case Criterion::kFp64:
			launch_filter_fp64(params, device, stream);
			break;
		case Criterion::kPaper:
			mma::launch<AllOn>(params, PaperTest{params.eps2}, device, stream);
			break;
		default:
			mma::launch<AllOn>(params, Fp16Test{}, device, stream);
			break;
	}
}

}								/* namespace fasted */
