/*-------------------------------------------------------------------------
 *
 * join.h
 *	  One join: rows in, start, pairs out.
 *
 * The functions are those of engine.h and throw a Failure (check.h) where those
 * return a status.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_JOIN_H
#define FASTED_CUDA_JOIN_H

#include <memory>

#include "device/device_memory.h"
#include "device/devices.h"
#include "engine/engine.h"
#include "rows/quantiser.h"
#include "rows/row_store.h"
#include "schedule/choice.h"
#include "schedule/panels.h"
#include "schedule/rounds.h"

namespace fasted
{

/* What only tests change. */
struct Tuning
{
	uint32_t	candidates = 0;	/* room for them; 0: as memory allows */
	const char *kernel = nullptr;	/* "mma.sync" or "wgmma" */
	uint64_t	staging_rows = 0;	/* at most, in one staging buffer */
	bool		always_lend = false;	/* however few rows there are */
};

extern Tuning tuning;

class Join
{
public:
	Join(const FastedProblem &problem, const Device &device);
	~Join();

	/* False: full. */
	bool		stage(float **rows, size_t *capacity);
	void		commit(size_t nrows);

	/* lend: false where staging is as good.  put: how many it takes; 0: full. */
	bool		lend(void *memory, size_t bytes);
	void		withdraw() noexcept;
	size_t		put(const float *rows, size_t nrows);
	void		settle();

	void		read_back(uint64_t first_row, size_t nrows, float *rows);
	void		start(uint64_t total_rows);
	FastedStatus next(int timeout_ms, FastedBatch *batch);
	void		stats(FastedStats *stats) const;

private:
	static constexpr int kBuffers = 3;

	struct StagingBuffer
	{
		PinnedArray<float> rows;
		Event		sent;
	};

	uint64_t	staging_rows() const;
	uint64_t	grow(uint64_t count);
	void		send(const float *rows, size_t nrows);
	void		choose_kernel();
	void		choose_shape();
	void		choose_panels();
	void		choose_precision(const RowStore &store);
	void		prepare(RowStore &store);
	void		note_prepare_time();
	void		begin_step();
	bool		advance(FastedBatch *batch, FastedStatus *status);
	uint64_t	panel_first(uint32_t panel) const { return panel * panel_rows_; }
	uint64_t	panel_count(uint32_t panel) const;

	FastedProblem problem_;
	Device		device_;
	Budget		budget_;
	RoundSettings settings_ = {};
	RowShape	shape_;
	uint64_t	candidates_ = 0;	/* room for them, at most */
	size_t		room_ = 0;		/* bytes for rows */

	Stream		upload_;
	StagingBuffer staging_[kBuffers];
	uint64_t	buffers_used_ = 0;
	void	   *lent_ = nullptr;	/* the caller's memory, page-locked by lend */
	bool		full_ = false;
	uint64_t	granted_ = 0;	/* rows that there is memory for, before start */

	RowStore	sides_[2];
	RowStore   *filling_ = &sides_[0];
	uint64_t	expected_ = 0;	/* rows to be staged in this panel */

	bool		started_ = false;
	uint64_t	rows_ = 0;
	uint64_t	panel_rows_ = 0;
	uint32_t	panels_ = 1;
	PanelSchedule schedule_{0, true};
	PanelStep	step_ = {PanelStep::kDone, 0, 0, 0, 0};
	bool		asked_ = false; /* for the rows of step_ */

	Quantiser	quantiser_;
	Choice		choice_;
	bool		to_choose_ = false; /* INT8 or FP16, from the first rows */
	Event		prepare_begun_;
	Event		prepare_ended_;
	bool		prepare_timed_ = true;
	double		prepare_seconds_ = 0;

	/* Last, so that it goes first: its kernels read all of the above. */
	std::unique_ptr<Rounds> rounds_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_JOIN_H */
