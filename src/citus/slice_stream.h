/*-------------------------------------------------------------------------
 *
 * slice_stream.h
 *	  A worker's function that gives one message a row, none of which is stored.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SLICE_STREAM_H
#define FASTED_SLICE_STREAM_H

#include "fmgr.h"

typedef struct SliceStream
{
	void	   *(*begin) (FunctionCallInfo fcinfo); /* in the memory of all calls */
	bytea	   *(*next) (void *slice);	/* NULL: there are no more */
	void		(*end) (void *slice);
} SliceStream;

/* All of such a function. */
extern Datum StreamSlice(FunctionCallInfo fcinfo, const SliceStream *stream);

#endif							/* FASTED_SLICE_STREAM_H */
