/*-------------------------------------------------------------------------
 *
 * everywhere.h
 *	  How a function is declared that the host and the device compute from one source.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_EVERYWHERE_H
#define FASTED_EVERYWHERE_H

#ifdef __CUDACC__
#define FASTED_EVERYWHERE static inline __host__ __device__
#else
#define FASTED_EVERYWHERE static inline
#endif

#endif							/* FASTED_EVERYWHERE_H */
