/*-------------------------------------------------------------------------
 *
 * rounds.h
 *	  Runs a join in rounds and drains its pairs while the next round computes.
 *
 * A round is filter, recheck, and end of round (block_order.h), in one stream.
 * Two result buffers on the device take turns: while one is copied to the host,
 * in pieces, through a ring of small pinned buffers, the other one is filled.
 * The host only polls; no call waits for the device.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_ROUNDS_H
#define FASTED_CUDA_ROUNDS_H

#include "filter/filter.h"
#include "nearest/nearest.h"

namespace fasted
{

/* The tiles of a join whose rows meet in groups: host_device.h, on the device. */
class GroupTiles
{
public:
	/* At most, of a set of so many rows, whichever its tiles are. */
	static size_t bytes(uint64_t rows);

	/* The groups of the join to come.  Nothing on the device reads an earlier one's. */
	void set(Budget &budget, const FastedProblem &problem)
	{
		budget_ = &budget;
		groups_ = problem.groups;
		ngroups_ = problem.ngroups;
	}

	/* Gives the order its tiles, which are there when this stream has come here. */
	void		find(TileOrder *order, cudaStream_t stream);

private:
	Budget	   *budget_ = nullptr;
	const FastedRowGroup *groups_ = nullptr;
	uint32_t	ngroups_ = 0;
	DeviceArray<FastedSpan> spans_;
	DeviceArray<FastedStripe> stripes_;
};

enum class Kernel
{
	kMma,
	kWgmma
};

/* One join.  Of two sets, or (self) of one with itself: then b is a. */
struct JoinTask
{
	JoinSide	a;
	JoinSide	b;
	bool		self;
	double		eps;
	uint32_t	slice = 0;		/* up to end_slice, of so many: a range of the items */
	uint32_t	end_slice = 1;
	uint32_t	slices = 1;
	bool		keep_pairs = true;	/* else they are counted, and take gives none */
	GroupTiles *groups = nullptr;	/* where rows meet, if they are labelled; null: everywhere */
	Connecting	connect;		/* what take gives are these pairs */
	Keeping		keeping;		/* where all are open */
	NearTask	near = {};		/* with lists: pairs are offered to them, and take gives none */
};

/* What stays the same in all of a join's rounds. */
struct RoundSettings
{
	Device		device;
	Kernel		kernel;
	Criterion	criterion;
	uint32_t	dimensions;
	uint32_t	row_bytes;		/* of a quantised row */
	bool		cosine = false;
	bool		doubles = false;
	size_t		direction_bytes = 0;	/* of directions, or rounded rows, at a time; 0: none */
	size_t		short_bytes = 0;	/* of short rows at a time; 0: there are no short forms */
	uint32_t	forced_width = 0;	/* for tests: of short rows, always; 0: if it pays */
};

class Rounds
{
public:
	~Rounds();

	/*
	 * Device memory for buffers of this many candidates, which is a multiple of
	 * kMostAtOnce; between joins only.  Nothing happens where there is as much.
	 * Without room for pairs no join may keep them.
	 */
	static size_t bytes(const Device &device, size_t candidates, bool approximate);
	void		allocate(Budget &budget, const RoundSettings &settings, size_t candidates,
						 bool keep_pairs = true);

	/* Changes the filter between joins, and what it reads. */
	void set_filter(Criterion criterion, uint32_t row_bytes)
	{
		settings_.criterion = criterion;
		settings_.row_bytes = row_bytes;
	}

	/* Begins a join, once this stream has come here. */
	void		begin(const JoinTask &task, cudaStream_t after);

	/* A join of a set of so many rows with itself will come next, as a part of this one. */
	void		foresee(uint32_t rows);

	/* Ends it before it is done: waits for what is at work, some 30 ms at most. */
	void		stop() noexcept;

	/* Is everything done, and every pair taken? */
	bool		finished() const;

	/* Takes note of what the device has done and gives it more to do. */
	void		pump();

	/* The next pairs, valid until the next call; false: none are ready. */
	bool		take(FastedBatch *batch);

	/* Is the filter of the last join, or of that in hand, that of folded rows? */
	bool folded() const { return is_folded(task_); }

	/* Room for the pairs of a round, in two parts: free while no round is at work. */
	static constexpr int kSlots = 2;
	DeviceArray<FastedPair> &idle_room(int slot) { return slots_[slot].pairs; }

	/* Of all joins so far: units, candidates, pairs, and seconds on the device. */
	const FastedStats &totals() const { return totals_; }
	cudaStream_t stream() const { return compute_; }
	size_t		pinned_bytes() const;

private:
	static constexpr int kPieces = 4;
	static constexpr size_t kPiecePairs = 65536;

	enum class Phase
	{
		kFree,
		kRunning,
		kDraining
	};

	struct Slot
	{
		Phase		phase = Phase::kFree;
		DeviceArray<FastedPair> pairs;
		Event		begun;
		Event		filtered;
		Event		refined;
		Event		ended;
		size_t		count = 0;	/* pairs to drain */
		size_t		copied = 0; /* of them, on their way */
	};

	struct Piece
	{
		PinnedArray<FastedPair> pairs;
		Event		arrived;
		size_t		count = 0;
		int			slot = 0;
		bool		last = false;	/* frees the slot */
	};

	void		allocate_work(Budget &budget, size_t candidates);
	void		allocate_results(Budget &budget, size_t candidates);
	TileOrder	tile_order(const JoinTask &task) const;
	bool		is_folded(const JoinTask &task) const;
	uint64_t	plan_items(uint64_t wanted);
	void		launch_filter();
	Connecting	connecting(int slot) const;
	void		launch(int slot);
	bool		may_launch() const;
	void		launch_open(int slot);
	void		settle_open(const Connecting &connect, uint32_t count);
	void		finish_launch(int slot);
	void		end_round(int slot);
	void		drain(int slot);

	RoundSettings settings_ = {};
	FastedStats totals_ = {};
	Stream		compute_;
	Stream		copy_;
	Event		first_begun_;

	CandidateBuffer candidates_ = {};
	DeviceArray<uint2> pairs_;
	DeviceArray<float> squares_;
	DeviceArray<uint32_t> counts_;
	DeviceArray<WorkState> state_;
	DeviceArray<Work> lists_;
	DeviceArray<RoundReport> reports_;
	PinnedArray<RoundReport> host_reports_;
	PinnedArray<WorkState> host_state_;

	Slot		slots_[kSlots];
	Piece		pieces_[kPieces];
	uint64_t	launched_ = 0;	/* rounds; round r uses slot r % kSlots */
	uint64_t	ended_ = 0;
	uint64_t	drained_ = 0;	/* rounds whose copies were all issued */
	uint64_t	piece_in_ = 0;	/* pieces filled, arrived, and handed out */
	uint64_t	piece_arrived_ = 0;
	uint64_t	piece_out_ = 0;
	bool		held_ = false;	/* the caller reads piece_out_ - 1 */

	/* The join in hand. */
	JoinTask	task_ = {};
	TileOrder	order_ = {};
	uint64_t	first_item_ = 0;
	uint64_t	items_ = 0;
	uint64_t	items_done_ = 0;
	uint64_t	units_before_ = 0;
	double		device_before_ = 0;
	bool		launched_any_ = false;
	uint64_t	units_here_ = 0;
	uint64_t	foreseen_ = 0;	/* units of the next join that were counted already */
	uint64_t	budget_ = 0;	/* fresh items a round */
	uint64_t	planned_ = 0;	/* of all rounds that were launched, and of the next */
	bool		complete_ = true;	/* a report said so */
	uint64_t	open_ = 0;		/* open pairs (connect.h), and those looked at again */
	uint64_t	open_done_ = 0;
	bool		all_there_ = false; /* there was room for all of them */
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_ROUNDS_H */
