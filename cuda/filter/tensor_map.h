/*-------------------------------------------------------------------------
 *
 * tensor_map.h
 *	  Describes quantised rows to the copy engine (TMA) of Hopper.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_TENSOR_MAP_H
#define FASTED_CUDA_TENSOR_MAP_H

#include <cuda.h>

#include <cstdint>

#include "filter/filter.h"

namespace fasted
{

/* Can the driver describe rows? */
bool		tensor_maps_available();

/*
 * Boxes of box_bytes (128 at most) of box_rows rows, in shared memory swizzled
 * by 128 bytes; zeros beyond the rows' ends and beyond the last row.
 */
CUtensorMap tensor_map(const QuantisedRows &side, uint32_t row_bytes,
					   uint32_t box_bytes, uint32_t box_rows);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_TENSOR_MAP_H */
