/*-------------------------------------------------------------------------
 *
 * rounds.h
 *	  Runs a join in rounds, and copies pairs to the host while the next round computes.
 *
 * A round consists of the filter, the recheck, and the end of the round (block_order.h), in one
 * stream.  There are two result buffers on the device: while one is filled, the other is copied to
 * the host (PairRing).  The host polls; no call waits for the device.
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
	bool		keep_pairs = true;	/* false: only count pairs; next_batch returns none */
	PartitionTiles *partitions = nullptr;	/* tiles of a partitioned join, or null */
	PartitionTiles *components = nullptr;	/* rows are sorted by component; or null */
	Connecting	connect;		/* if it selects pairs, next_batch returns only these */
	Keeping		keeping;		/* used if connect.all_open */
	NearTask	near = {};		/* if it has lists, pairs are added to them, not returned */
};

/* Settings that are the same for all rounds of a join. */
struct RoundSettings
{
	Device		device;
	Kernel		kernel;
	Precision	precision;
	uint32_t	dimensions;		/* number of values per row, see RowTable */
	uint32_t	row_bytes;		/* size of a quantised row */
	FastedMetric metric = {};
	bool		doubles = false;	/* see RowTable */
	size_t		direction_bytes = 0;	/* buffer size for directions or rounded rows; 0: none */
	size_t		projected_bytes = 0;	/* buffer size for projected rows; 0: not projected */
	uint32_t	forced_width = 0;	/* for tests: project to this many dimensions, or fold to this
									 * many bits; 0: if faster */
};

/* A ring of small pinned buffers, the stages, through which pairs are copied to the host. */
class PairRing
{
public:
	void create() { stream_.create(); }
	void allocate(size_t pairs);
	void		stop() noexcept;

	/* Starts to copy the first pairs, as many as there are free stages for; returns their number. */
	size_t		copy(const FastedPair *pairs, size_t count);

	/* Returns the pairs of the next stage, valid until the next call; or false if none are ready. */
	bool		next(FastedBatch *batch);

	/* Number of stages whose copy was started so far, and whose copy is complete. */
	uint64_t started() const { return started_; }
	uint64_t	complete();

	bool is_empty() const { return returned_ == started_; }
	cudaStream_t stream() const { return stream_; }
	size_t pinned_bytes() const { return stages_[0].pairs.size() * sizeof(FastedPair) * kStages; }

private:
	static constexpr int kStages = 4;
	static constexpr size_t kStagePairs = 65536;

	struct Stage
	{
		PinnedArray<FastedPair> pairs;
		Event		arrived;
		size_t		count = 0;
	};

	Stream		stream_;
	Stage		stages_[kStages];
	uint64_t	started_ = 0;
	uint64_t	complete_ = 0;
	uint64_t	returned_ = 0;
	bool		in_use_ = false;	/* the caller reads the last stage returned */
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
	void set_filter(Precision precision, uint32_t row_bytes)
	{
		settings_.precision = precision;
		settings_.row_bytes = row_bytes;
	}

	/* Starts a join after the work in the stream `after`. */
	void		begin(const JoinTask &task, cudaStream_t after);

	/* Adds a second scan, a self-join of this many rows, to the total work, for progress reports. */
	void		expect(uint32_t rows);

	/* Aborts the join: waits for running rounds, for at most about 30 ms. */
	void		stop() noexcept;

	/* Returns whether all rounds are done and all pairs have been returned. */
	bool		finished() const;

	/* Processes completed work, and launches further work. */
	void		pump();

	/* Returns the next pairs, valid until the next call; or false if none are ready. */
	bool next_batch(FastedBatch *batch) { return ring_.next(batch); }

	/* Returns whether the current or last join uses the filter with folded thresholds. */
	bool folded() const { return is_folded(join_.task); }

	/* The two pair buffers, which other code may use while no round is running. */
	static constexpr int kSlots = 2;
	DeviceArray<FastedPair> &idle_buffer(int slot) { return slots_[slot].pairs; }

	/* Statistics of all joins so far: units, candidates, pairs, and seconds on the device. */
	const FastedStats &totals() const { return totals_; }
	cudaStream_t stream() const { return compute_; }
	size_t pinned_bytes() const { return ring_.pinned_bytes(); }

private:
	/* The result of a round.  A slot is free when the host has received all of its pairs. */
	struct Slot
	{
		DeviceArray<FastedPair> pairs;
		Event		begun;
		Event		filtered;
		Event		refined;
		Event		ended;
		size_t		count = 0;	/* number of pairs to copy to the host */
		size_t		copied = 0; /* number of pairs whose copy was started */
		uint64_t	last_stage = 0;	/* of the ring: number of stages up to its last pairs */
	};

	/* The state of the current or last join. */
	struct CurrentJoin
	{
		JoinTask	task = {};
		TileOrder	order = {};
		uint64_t	first_item = 0;
		uint64_t	items = 0;
		uint64_t	items_done = 0;
		uint64_t	units = 0;
		uint64_t	units_before = 0;	/* statistics of the joins before */
		double		device_before = 0;
		bool		has_begun = false;	/* a round was launched */
		uint64_t	round_items = 0;	/* number of new items per round */
		uint64_t	planned = 0;	/* number of items of all launched rounds and the next one */
		bool		complete = true;	/* all items are done, according to a report */
		uint64_t	open = 0;	/* number of stored open pairs (connect.h) */
		uint64_t	open_done = 0;	/* number of open pairs processed */
		bool		stores_all_open = false;	/* all open pairs fit into the buffer */
	};

	void		allocate_work(Budget &budget, size_t candidates);
	void		allocate_results(Budget &budget, size_t candidates);
	TileOrder	tile_order(const JoinTask &task) const;
	bool		is_folded(const JoinTask &task) const;
	uint64_t	plan_items(uint64_t wanted);
	void		launch_filter();
	Connecting	connecting(int slot) const;
	void		launch(int slot);
	bool		may_launch();
	void		launch_open_round(int slot);
	void		launch_open_pairs(const Connecting &connect, uint32_t count);
	void		finish_launch(int slot);
	void		end_round(int slot);
	void		copy_results();

	RoundSettings settings_ = {};
	FastedStats totals_ = {};
	Stream		compute_;
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
	PairRing	ring_;
	uint64_t	launched_ = 0;	/* number of rounds; round r uses slot r % kSlots */
	uint64_t	ended_ = 0;
	uint64_t	copied_ = 0;	/* number of rounds whose copies were all started */
	uint64_t	expected_units_ = 0;	/* units of a second scan that are in the total already */
	CurrentJoin join_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_ROUNDS_H */
