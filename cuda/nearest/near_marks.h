/*-------------------------------------------------------------------------
 *
 * near_marks.h
 *	  To measure: what takes how long before the rounds (-DFASTED_NEAR_MARKS).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_NEAR_MARKS_H
#define FASTED_CUDA_NEAR_MARKS_H

#ifdef FASTED_NEAR_MARKS
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "device/device_memory.h"

namespace fasted
{

struct NearMarks
{
	struct Mark
	{
		const char *what;
		cudaEvent_t event;
	};
	std::vector<Mark> marks;

	void mark(const char *what, cudaStream_t stream)
	{
		Mark		mark = {what, nullptr};

		cudaEventCreate(&mark.event);
		cudaEventRecord(mark.event, stream);
		marks.push_back(mark);
	}
	void print(const char *what, double number, cudaStream_t stream)
	{
		mark(what, stream);
		cudaStreamSynchronize(stream);
		fprintf(stderr, "  marks:");
		for (size_t i = 1; i < marks.size(); i++)
		{
			float		ms;

			cudaEventElapsedTime(&ms, marks[i - 1].event, marks[i].event);
			fprintf(stderr, " %s %.2f", marks[i].what, ms);
		}
		fprintf(stderr, "; candidates %.1f\n", number);
		for (Mark &mark : marks)
			cudaEventDestroy(mark.event);
		marks.clear();
	}
};

static NearMarks near_marks;

#define NEAR_MARK(what, stream) near_marks.mark(what, stream)
#define NEAR_PRINT(what, number, stream) near_marks.print(what, number, stream)

}
#else
#define NEAR_MARK(what, stream) ((void) 0)
#define NEAR_PRINT(what, number, stream) ((void) 0)
#endif

#endif
