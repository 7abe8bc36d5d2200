/*-------------------------------------------------------------------------
 *
 * tensor_map.cu
 *	  Describes quantised rows to the copy engine (TMA) of Hopper.
 *
 *-------------------------------------------------------------------------
 */
#include "device/check.h"
#include "filter/tensor_map.h"

namespace fasted
{

namespace
{

using EncodeTiled = CUresult (*) (CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
								  const cuuint64_t *, const cuuint64_t *,
								  const cuuint32_t *, const cuuint32_t *,
								  CUtensorMapInterleave, CUtensorMapSwizzle,
								  CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's function, which this library does not link to. */
EncodeTiled
encode_tiled()
{
	void	   *function = nullptr;
	cudaDriverEntryPointQueryResult found;

	if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
										 cudaEnableDefault, &found) != cudaSuccess
		|| found != cudaDriverEntryPointSuccess)
	{
		(void) cudaGetLastError();
		return nullptr;
	}
	return (EncodeTiled) function;
}

EncodeTiled
known_encode_tiled()
{
	static const EncodeTiled encode = encode_tiled();

	return encode;
}

}								/* namespace */

bool
tensor_maps_available()
{
	return known_encode_tiled() != nullptr;
}

CUtensorMap
tensor_map(const QuantisedRows &side, uint32_t row_bytes, uint32_t box_bytes,
		   uint32_t box_rows)
{
	CUtensorMap map;
	cuuint64_t	size[2] = {row_bytes, side.rows};
	cuuint64_t	strides[1] = {row_bytes};
	cuuint32_t	box[2] = {box_bytes, box_rows};
	cuuint32_t	steps[2] = {1, 1};

	if (known_encode_tiled()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *) side.values,
							 size, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
							 CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
							 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
		fail(FASTED_INTERNAL, "the driver refused to describe the quantised rows");
	return map;
}

}								/* namespace fasted */
