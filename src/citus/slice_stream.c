/*-------------------------------------------------------------------------
 *
 * slice_stream.c
 *	  A worker's function that gives one message a row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "citus/slice_stream.h"
#include "funcapi.h"

Datum
StreamSlice(FunctionCallInfo fcinfo, const SliceStream *stream)
{
	FuncCallContext *call;
	MemoryContext caller = CurrentMemoryContext;
	bytea	   *message;

	if (SRF_IS_FIRSTCALL())
	{
		call = SRF_FIRSTCALL_INIT();
		MemoryContextSwitchTo(call->multi_call_memory_ctx);
		call->user_fctx = stream->begin(fcinfo);
		MemoryContextSwitchTo(caller);
	}
	call = SRF_PERCALL_SETUP();
	message = stream->next(call->user_fctx);
	if (message != NULL)
		SRF_RETURN_NEXT(call, PointerGetDatum(message));
	stream->end(call->user_fctx);
	SRF_RETURN_DONE(call);
}
