/*-------------------------------------------------------------------------
 *
 * filter_mma.cu
 *	  The mma.sync filter as the engine uses it.
 *
 *-------------------------------------------------------------------------
 */
#include "filter_mma.cuh"

namespace fasted
{

void
launch_filter_mma(const FilterParams &params, bool approximate,
				  const Device &device, cudaStream_t stream)
{
	if (approximate)
		mma::launch<AllOn>(params, PaperTest{params.eps2}, device, stream);
	else
		mma::launch<AllOn>(params, CertifiedTest{}, device, stream);
}

}								/* namespace fasted */
