/*-------------------------------------------------------------------------
 *
 * rounds.h
 *	  Runs a join in rounds, and copies pairs to the host while the next round computes.
 *
 * A round consists of the filter, the recheck, and the end of the round (block_order.h), in one
 * stream.  There are two result buffers on the device: while one is filled, the second is copied
 * to the host in pieces, through a ring of small pinned buffers.  The host polls; no call waits for
 * the device.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_ROUNDS_H
#define FASTED_CUDA_ROUNDS_H

#include "filter/filter.h"
#include "nearest/nearest.h"

namespace fasted
{

struct JoinTask;

/*
 * The tiles of a partitioned join (host_device.h), or the tiles that are skipped because of components
 * (block_order.h), on the device.
 */
class PartitionTiles
{
public:
	/* Returns the maximum size for a set of this many rows. */
	static size_t bytes(uint64_t rows);

	/* Sets the partitions of the next join.  The previous join must be complete. */
	void set(Budget &budget, const FastedProblem &problem)
	{
		budget_ = &budget;
		partitions_ = problem.partitions;
		npartitions_ = problem.npartitions;
	}

	/* Computes the tiles and copies them to the device, in the order of the stream. */
	void		find(TileOrder *order, cudaStream_t stream);

	/* Finds the tiles of one component, in the order of the stream. */
	void		find_components(const JoinTask &task, TileOrder *order, cudaStream_t stream);

private:
	Budget	   *budget_ = nullptr;
	const FastedPartition *partitions_ = nullptr;
	uint32_t	npartitions_ = 0;
	DeviceArray<FastedSpan> spans_;
	DeviceArray<FastedStripe> stripes_;
	DeviceArray<SkippedTiles> skipped_;
};

enum class Kernel
{
	kMma,
	kWgmma
};

/* A join of two sets; or a self-join (self), in which a and b are the same. */
struct JoinTask
{
	JoinSide	a;
	JoinSide	b;
	bool		self;
	double		eps;
	uint32_t	slice = 0;		/* join slices slice ... end_slice - 1 of slices */
	uint32_t	end_slice = 1;
	uint32_t	slices = 1;
	bool		keep_pairs = true;	/* false: only count pairs; take returns none */
	PartitionTiles *partitions = nullptr;	/* tiles of a partitioned join, or null */
	PartitionTiles *components = nullptr;	/* rows are sorted by component; or null */
	Connecting	connect;		/* if it selects pairs, take returns only these */
	Keeping		keeping;		/* used if connect.all_open */
	NearTask	near = {};		/* if it has lists, pairs are added to them; take returns none */
};

/* Settings that are the same for all rounds of a join. */
struct RoundSettings
{
	Device		device;
	Kernel		kernel;
	Criterion	criterion;
	uint32_t	dimensions;		/* number of values per row, see RowTable */
	uint32_t	row_bytes;		/* size of a quantised row */
	FastedMetric metric = FASTED_METRIC_L2;
	bool		doubles = false;	/* see RowTable */
	size_t		direction_bytes = 0;	/* buffer size for directions or rounded rows; 0: none */
	size_t		projected_bytes = 0;	/* buffer size for projected rows; 0: not projected */
	uint32_t	forced_width = 0;	/* for tests: project to this many dimensions, or fold to this
									 * many bits; 0: if faster */
};

class Rounds
{
public:
	~Rounds();

	/*
	 * Allocates buffers for this many candidates, a multiple of kMostAtOnce, unless they are large
	 * enough already.  Must not be called during a join.  If keep_pairs is false, no buffers for
	 * pairs are allocated, and joins must not set keep_pairs.
	 */
	static size_t bytes(const Device &device, size_t candidates);
	void		allocate(Budget &budget, const RoundSettings &settings, size_t candidates,
						 bool keep_pairs = true);

	/* Changes the filter and its row size, between joins. */
	void set_filter(Criterion criterion, uint32_t row_bytes)
	{
		settings_.criterion = criterion;
		settings_.row_bytes = row_bytes;
	}

	/* Starts a join after the work in the stream `after`. */
	void		begin(const JoinTask &task, cudaStream_t after);

	/* Adds a following self-join of this many rows to the total work, for progress reports. */
	void		foresee(uint32_t rows);

	/* Aborts the join: waits for running rounds, for at most about 30 ms. */
	void		stop() noexcept;

	/* Returns whether all rounds are done and all pairs have been taken. */
	bool		finished() const;

	/* Processes completed work, and launches further work. */
	void		pump();

	/* Returns the next pairs, valid until the next call; or false if none are ready. */
	bool		take(FastedBatch *batch);

	/* Returns whether the current or last join uses the filter with folded thresholds. */
	bool folded() const { return is_folded(task_); }

	/* The two pair buffers, which other code may use while no round is running. */
	static constexpr int kSlots = 2;
	DeviceArray<FastedPair> &idle_room(int slot) { return slots_[slot].pairs; }

	/* Statistics of all joins so far: units, candidates, pairs, and seconds on the device. */
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
		size_t		count = 0;	/* number of pairs to copy to the host */
		size_t		copied = 0; /* number of pairs whose copy was started */
	};

	struct Piece
	{
		PinnedArray<FastedPair> pairs;
		Event		arrived;
		size_t		count = 0;
		int			slot = 0;
		bool		last = false;	/* last piece of the slot, which is free afterwards */
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
	void		wait_read_open(const Connecting &connect, uint32_t count);
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
	DeviceArray<uint32_t> counts_;
	DeviceArray<WorkState> state_;
	DeviceArray<Work> lists_;
	DeviceArray<RoundReport> reports_;
	PinnedArray<RoundReport> host_reports_;
	PinnedArray<WorkState> host_state_;

	Slot		slots_[kSlots];
	Piece		pieces_[kPieces];
	uint64_t	launched_ = 0;	/* number of rounds; round r uses slot r % kSlots */
	uint64_t	ended_ = 0;
	uint64_t	drained_ = 0;	/* number of rounds whose copies were all started */
	uint64_t	piece_in_ = 0;	/* number of pieces whose copy was started, ... */
	uint64_t	piece_arrived_ = 0; /* ... has arrived, */
	uint64_t	piece_out_ = 0; /* ... and was returned by take */
	bool		held_ = false;	/* the caller reads piece piece_out_ - 1 */

	/* The current join. */
	JoinTask	task_ = {};
	TileOrder	order_ = {};
	uint64_t	first_item_ = 0;
	uint64_t	items_ = 0;
	uint64_t	items_done_ = 0;
	uint64_t	units_before_ = 0;
	double		device_before_ = 0;
	bool		launched_any_ = false;
	uint64_t	units_here_ = 0;
	uint64_t	foreseen_ = 0;	/* units of the next join that are in the total already */
	uint64_t	budget_ = 0;	/* number of new items per round */
	uint64_t	planned_ = 0;	/* number of items of all launched rounds and the next one */
	bool		complete_ = true;	/* all items are done, according to a report */
	uint64_t	open_ = 0;		/* number of stored open pairs (connect.h) */
	uint64_t	open_done_ = 0; /* number of open pairs processed */
	bool		all_there_ = false; /* all open pairs fit into the buffer */
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_ROUNDS_H */
