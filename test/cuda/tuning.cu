/*-------------------------------------------------------------------------
 *
 * tuning.cu
 *	  Lets tests that load the engine's library change its tuning; not a part of the installed library.
 *
 *-------------------------------------------------------------------------
 */
#include "schedule/context.h"
#include "../unit/engine_tuning.h"

extern "C" __attribute__((visibility("default"))) void
fasted_tune(const EngineTuning *wanted)
{
	fasted::tuning.kernel = wanted->kernel;
	fasted::tuning.candidates = wanted->few_candidates ? fasted::kMostAtOnce : 0;
	fasted::tuning.staging_rows = wanted->staging_rows;
	fasted::tuning.always_register = wanted->always_register;
	fasted::tuning.always_choose = wanted->always_choose;
}
