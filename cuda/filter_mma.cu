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

template <class S>
static void
launch_with(const FilterParams &params, bool approximate, const Device &device,
			cudaStream_t stream)
{
	if (approximate)
		mma::launch<S>(params, PaperTest{params.eps2}, device, stream);
	else
		mma::launch<S>(params, CertifiedTest{}, device, stream);
}

void
launch_filter_mma(const FilterParams &params, bool approximate,
				  const Device &device, cudaStream_t stream)
{
	/* Two blocks of three stages need 2 x 97 KiB of a multiprocessor. */
	if (device.shared_per_multiprocessor >= 2 * 98 * 1024)
		launch_with<ThreeStages>(params, approximate, device, stream);
	else
		launch_with<AllOn>(params, approximate, device, stream);
}

}								/* namespace fasted */
