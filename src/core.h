/*-------------------------------------------------------------------------
 *
 * core.h
 *	  The functions of this library that another library of the project calls.
 *
 * They are handed over as a table, not exported one by one (exports.map), so no name can collide
 * with that of another extension.  A library that was built with other declarations is rejected.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CORE_H
#define FASTED_CORE_H

#include "base/guc.h"
#include "base/interrupts.h"
#include "base/row_numbers.h"
#include "cpu/kernels/kernel.h"
#include "join/join.h"
#include "rows/reader.h"
#include "rows/vector.h"

/* CORE_FUNCTIONS(F) is F(name) for each function. */
#define CORE_FUNCTIONS(F) \
	F(CastKeepsOrder) \
	F(CheckJoinInterrupts) \
	F(fasted_add_stats) \
	F(fasted_cpu_choose_kernel) \
	F(fasted_scale_direction) \
	F(JoinDescribeCut) \
	F(JoinEnd) \
	F(JoinNext) \
	F(JoinNextList) \
	F(JoinOpen) \
	F(JoinSink) \
	F(JoinStart) \
	F(JoinStatistics) \
	F(KeySetAdd) \
	F(KeySetFinish) \
	F(KeySetSort) \
	F(MakeSourceQuery) \
	F(MetricFromText) \
	F(MetricName) \
	F(OwnRowNumbers) \
	F(PlanQuery) \
	F(PrepareTypeOrder) \
	F(ReadVectors) \
	F(RegisterDistributor) \
	F(ReportManyRows) \
	F(RequestedCpuKernel) \
	F(RequireDistance) \
	F(ResolveSource) \
	F(RunPlan) \
	F(SameRowNumbers) \
	F(ShareElement) \
	F(TakeSlot) \
	F(TakeSourceRow) \
	F(VectorElements) \
	F(VectorShape)

#define CORE_MEMBER(name) __typeof__(name) *name;

typedef struct CoreFunctions
{
	CORE_FUNCTIONS(CORE_MEMBER)
} CoreFunctions;

/*
 * The entry point, fasted_core.  interface is FASTED_INTERFACE (build.mk) of the caller.  Returns
 * NULL if that of this library differs.
 */
typedef const CoreFunctions *(*CoreEntry) (const char *interface);

#endif							/* FASTED_CORE_H */
