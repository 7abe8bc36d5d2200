/*-------------------------------------------------------------------------
 *
 * device.h
 *	  What there is to know of a GPU.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_DEVICE_H
#define FASTED_CUDA_DEVICE_H

namespace fasted
{

struct Device
{
	int			ordinal;
	int			capability;		/* 90 for 9.0 */
	int			multiprocessors;
	int			shared_per_multiprocessor;
	char		name[96];
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_DEVICE_H */
