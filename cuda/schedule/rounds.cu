/*-------------------------------------------------------------------------
 *
 * rounds.cu
 *	  Runs a join in rounds, and copies pairs to the host while the next round computes.
 *
 *-------------------------------------------------------------------------
 */
#include <algorithm>
#include <cmath>
#include <vector>

#include "schedule/rounds.h"

namespace fasted
{

namespace
{

/* Smallest number of rows or columns of a tile. */
constexpr uint32_t kLeastTile = 128;

template <class T>
const T *
send(Budget &budget, const std::vector<T> &from, DeviceArray<T> &to, cudaStream_t stream)
{
	to.make_room(budget, from.size(), "allocating device memory for tiles");
	/* wait, because the copy from pageable memory may be incomplete when the call returns */
	copy_and_wait(to.get(), from.data(), from.size(), cudaMemcpyHostToDevice, stream,
				  "copying the tiles of partitions");
	return to.get();
}

constexpr uint32_t kBlock = 256;

/* Returns the first place whose component is `component` or larger. */
__device__ uint32_t
find_component(const QuantisedRows &rows, uint32_t component)
{
	return find_place(0, rows.rows, component, [&](uint32_t place) { return rows.components[place]; });
}

/* Finds the tiles of one component; one thread per row of tiles. */
__global__ void
component_kernel(const QuantisedRows a, const QuantisedRows b, const TileOrder order,
				 SkippedTiles *skipped)
{
	uint32_t	m = blockIdx.x * kBlock + threadIdx.x;

	if (m >= order.tiles_m())
		return;

	uint32_t	component = a.components[m * order.tile_m];
	uint32_t	last = a.components[min((m + 1) * order.tile_m, a.rows) - 1];
	uint32_t	end = find_component(b, component + 1);
	uint32_t	first = (find_component(b, component) + order.tile_n - 1) / order.tile_n;

	/* the last tile may have fewer columns */
	end = end == b.rows ? order.tiles_n() : end / order.tile_n;
	skipped[m] = {first, component == last && first < end ? end - first : 0};
}

/* Intended duration of a round.  Close and cancel wait for two rounds at most. */
constexpr double kRoundSeconds = 0.016;

/* Number of dimensions from which candidates are collected in small chunks. */
constexpr uint32_t kManyDimensions = 512;

/* Low estimates of operations per second for 132 multiprocessors, used for the first round. */
constexpr double kGuessWgmmaInt8 = 1200e12;
constexpr double kGuessWgmmaFp16 = 600e12;
constexpr double kGuessMma = 150e12;
constexpr double kGuessFp64 = 8e12;

/*
 * Nearest neighbours: number of columns in the first round.  Each later round has at most as many
 * columns as all previous ones together, so that radii shrink early.
 */
constexpr double kFirstColumns = 2048;

/* Work for at most this many rounds is done in a single round. */
constexpr double kOneRound = 1.5;

/* Most GPUs have few FP64 units; these do not. */
bool
is_fast_in_fp64(const Device &device)
{
	return device.capability == 80 || device.capability == 90 || device.capability == 100;
}

double
guessed_rate(const RoundSettings &settings)
{
	double		share = settings.device.multiprocessors / 132.0;

	if (settings.precision == Precision::kFp32)
		return share * kGuessFp64 / (is_fast_in_fp64(settings.device) ? 1 : 16);
	if (settings.kernel == Kernel::kMma)
		return share * kGuessMma;
	return share * (settings.precision == Precision::kInt8 ? kGuessWgmmaInt8 : kGuessWgmmaFp16);
}

/* Returns the number of elements per row that the filter reads. */
uint32_t
numbers_of_row(const RoundSettings &settings)
{
	return settings.row_bytes / element_bytes(settings.precision);
}

/* Returns the number of items per round, for equal rounds of about the intended duration. */
uint64_t
even_rounds(uint64_t items, double items_a_second, const Device &device)
{
	double		rounds = items / (items_a_second * kRoundSeconds);
	uint64_t	whole = rounds > kOneRound ? (uint64_t) std::ceil(rounds) : 1;

	return std::max((items + whole - 1) / whole, (uint64_t) device.multiprocessors * 2);
}

bool
has_pairs(const JoinTask &task)
{
	uint32_t	a = task.a.table.rows;

	return task.self ? a > 1 : a > 0 && task.b.table.rows > 0;
}

/* Returns the first item of part i if `all` items are divided into n parts. */
uint64_t
part_of(uint64_t all, uint32_t i, uint32_t n)
{
	return all / n * i + all % n * i / n;
}

}								/* namespace */

size_t
PartitionTiles::bytes(uint64_t rows)
{
	uint64_t	tiles = rows / kLeastTile + 2;

	return Budget::rounded(tiles * sizeof(FastedSpan))
		+ Budget::rounded(tiles * sizeof(FastedStripe));
}

void
PartitionTiles::find(TileOrder *order, cudaStream_t stream)
{
	std::vector<FastedSpan> spans(order->tiles_m());
	std::vector<FastedStripe> stripes(order->tiles_n() + 1);

	fasted_find_spans(partitions_, npartitions_, 0, order->triangle, order->tile_m, spans.data(),
					  order->tiles_m());
	order->partitions.nstripes = order->tiles_n();
	order->partitions.count = fasted_find_stripes(spans.data(), order->tiles_m(), order->tile_n,
											  stripes.data(), order->tiles_n());
	order->partitions.spans = send(*budget_, spans, spans_, stream);
	order->partitions.stripes = send(*budget_, stripes, stripes_, stream);
}

void
PartitionTiles::find_components(const JoinTask &task, TileOrder *order, cudaStream_t stream)
{
	uint32_t	tiles = order->tiles_m();

	skipped_.make_room(*budget_, tiles, "allocating device memory for tiles");
	component_kernel<<<(tiles + kBlock - 1) / kBlock, kBlock, 0, stream>>>(
		task.a.quantised, task.b.quantised, *order, skipped_.get());
	check_launch("finding the tiles of components");
	order->skipped = skipped_.get();
}

Rounds::~Rounds()
{
	stop();
}

void
Rounds::stop() noexcept
{
	/* Thread blocks check this flag before they take an item or candidates, in all rounds. */
	if (state_ && launched_ > ended_)
		(void) cudaMemsetAsync(&state_.get()->cancelled, 1, sizeof(uint32_t), ring_.stream());
	if (compute_ != nullptr)
		(void) cudaStreamSynchronize(compute_);
	ring_.stop();
	(void) cudaGetLastError();

	for (Slot &slot : slots_)
		slot.count = slot.copied = 0;
	ended_ = copied_ = launched_;
	expected_units_ = 0;
	join_.complete = true;
	join_.open = join_.open_done = 0;
}

size_t
Rounds::bytes(const Device &device, size_t candidates)
{
	size_t		list = (size_t) device.multiprocessors * kVoidedPerMultiprocessor;

	return Budget::rounded(candidates * sizeof(uint2))
		+ Budget::rounded((candidates >> kSmallChunkShift) * sizeof(uint32_t))
		+ Budget::rounded(sizeof(WorkState))
		+ Budget::rounded(3 * list * sizeof(Work))
		+ Budget::rounded(kSlots * sizeof(RoundReport))
		+ kSlots * Budget::rounded(candidates * sizeof(FastedPair));
}

void
Rounds::allocate(Budget &budget, const RoundSettings &settings, size_t candidates,
				 bool keep_pairs)
{
	bool		first = compute_ == nullptr;

	settings_ = settings;
	if (first)
	{
		compute_.create();
		ring_.create();
		host_reports_.allocate(kSlots, "allocating a report");
		host_state_.allocate(1, "allocating a report");
	}
	if (candidates > pairs_.size())
		allocate_work(budget, candidates);
	if (keep_pairs && slots_[0].pairs.size() < pairs_.size())
		allocate_results(budget, pairs_.size());
}

void
Rounds::allocate_work(Budget &budget, size_t candidates)
{
	const char *doing = "allocating device memory for candidates";
	uint32_t	shift = settings_.dimensions >= kManyDimensions ? kSmallChunkShift : kLargeChunkShift;
	uint32_t	list = settings_.device.multiprocessors * kVoidedPerMultiprocessor;

	for (Slot &slot : slots_)
		slot.pairs.release();
	pairs_.allocate(budget, candidates, doing);
	counts_.allocate(budget, candidates >> kSmallChunkShift, doing);
	if (!state_)
	{
		state_.allocate(budget, 1, doing);
		lists_.allocate(budget, 3 * (size_t) list, doing);
		reports_.allocate(budget, kSlots, doing);
	}

	candidates_.pairs = pairs_.get();
	candidates_.counts = counts_.get();
	candidates_.chunks = (uint32_t) (candidates >> shift);
	candidates_.chunk_shift = shift;
	candidates_.state = state_.get();
	candidates_.lists[0] = lists_.get();
	candidates_.lists[1] = lists_.get() + list;
	candidates_.voided = lists_.get() + 2 * list;
	candidates_.list_size = list;
}

void
Rounds::allocate_results(Budget &budget, size_t candidates)
{
	for (Slot &slot : slots_)
		slot.pairs.allocate(budget, candidates, "allocating device memory for results");
	ring_.allocate(candidates);
}

/* Returns whether the filter with folded thresholds can be used for a join. */
bool
Rounds::is_folded(const JoinTask &task) const
{
	return settings_.kernel == Kernel::kWgmma && settings_.precision == Precision::kInt8
		&& task.a.quantised.folded_a != nullptr && task.b.quantised.folded_b != nullptr
		&& task.partitions == nullptr && task.near.table.lists == nullptr;
}

TileOrder
Rounds::tile_order(const JoinTask &task) const
{
	uint32_t	a = task.a.table.rows;
	uint32_t	b = task.b.table.rows;
	TileShape	shape = {128, 128, kSquareSide};

	if (is_folded(task))
		shape = folded_tiles(fold_shape(settings_.row_bytes).bytes, a, b, task.self,
							 settings_.device);
	else if (settings_.kernel == Kernel::kWgmma)
		shape = wgmma_tiles(settings_.row_bytes, a, b, task.self, settings_.device);
	return {a, b, shape.tile_m, shape.tile_n, task.self, shape.side,
		task.near.table.lists != nullptr && !task.self};
}

void
Rounds::begin(const JoinTask &task, cudaStream_t after)
{
	TileOrder  &order = join_.order;
	uint64_t	items;
	uint64_t	units;
	Event		ready;

	join_ = {};
	join_.task = task;
	order = tile_order(task);
	if (task.partitions != nullptr && has_pairs(task))
		task.partitions->find(&order, compute_);
	items = has_pairs(task) ? order.items() : 0;
	units = has_pairs(task) ? order.tiles() : 0;
	join_.first_item = part_of(items, task.slice, task.slices);
	join_.items = part_of(items, task.end_slice, task.slices) - join_.first_item;
	join_.units_before = totals_.units_done;
	join_.units = part_of(units, task.end_slice, task.slices)
		- part_of(units, task.slice, task.slices);
	totals_.units_total += join_.units - expected_units_;
	expected_units_ = 0;
	join_.device_before = totals_.device_seconds;
	join_.complete = (join_.items == 0);
	join_.round_items = even_rounds(join_.items, guessed_rate(settings_)
									/ (2.0 * order.tile_m * order.tile_n * numbers_of_row(settings_)),
									settings_.device);
	if (join_.complete)
	{
		totals_.units_done += join_.units;
		return;
	}

	/* the previous join is done, so host_state_ is not being copied any more */
	*host_state_.get() = first_state(join_.first_item, join_.first_item + join_.items,
									 plan_items(join_.round_items));
	ready.record(after);
	check_cuda(cudaStreamWaitEvent(compute_, ready, 0), "waiting for rows");
	if (task.components != nullptr)
		task.components->find_components(task, &order, compute_);
	copy_async(state_.get(), host_state_.get(), 1, cudaMemcpyHostToDevice, compute_,
			   "setting up the work queue");
}

void
Rounds::expect(uint32_t rows)
{
	JoinTask	task = {};

	task.a.table.rows = task.b.table.rows = rows;
	task.self = true;
	expected_units_ = tile_order(task).tiles();
	totals_.units_total += expected_units_;
}

/* Returns the number of items of the next round; limits it for nearest neighbours. */
uint64_t
Rounds::plan_items(uint64_t wanted)
{
	const JoinTask &task = join_.task;
	uint64_t	items = wanted;

	if (task.near.table.lists != nullptr && !task.near.symmetric && !task.near.radii_are_small
		&& task.partitions == nullptr)
	{
		double		columns = std::max(1.0, (double) task.b.table.rows / task.slices
										   * (task.end_slice - task.slice));
		uint64_t	first = (uint64_t) (join_.items * std::min(1.0, kFirstColumns / columns));
		uint64_t	least = (uint64_t) settings_.device.multiprocessors * 2;

		items = std::min(items, std::max({join_.planned, first, least}));
	}
	join_.planned += items;
	return items;
}

void
Rounds::launch_filter()
{
	const JoinTask &task = join_.task;
	FilterParams filter = {task.a.quantised, task.b.quantised, settings_.row_bytes, join_.order,
		candidates_};

	if (is_folded(task))
		launch_filter_folded(filter, fold_shape(settings_.row_bytes).bytes, settings_.device,
							 compute_);
	else if (settings_.kernel == Kernel::kWgmma)
		launch_filter_wgmma(filter, settings_.precision, settings_.device, compute_);
	else
		launch_filter_mma(filter, settings_.precision, settings_.device, compute_);
}

/* Returns the parameters for selecting pairs in a round. */
Connecting
Rounds::connecting(int slot) const
{
	const JoinTask &task = join_.task;
	Connecting	connect = task.connect;
	WorkState  *state = state_.get();

	connect.first_row_a = task.a.first_row;
	connect.first_row_b = task.b.first_row;
	connect.counts_a = task.a.counts;
	connect.counts_b = task.b.counts;
	connect.pairs = slots_[slot].pairs.get();
	connect.returned = &state->returned;
	connect.cancelled = &state->cancelled;
	connect.open_count = &state->open;
	return connect;
}

void
Rounds::launch(int slot)
{
	const JoinTask &task = join_.task;
	Slot	   &s = slots_[slot];
	RefineParams refine = {task.a, task.b, task.self, task.eps, candidates_,
		task.keep_pairs ? s.pairs.get() : nullptr, connecting(slot), task.near.table.radii,
		task.near.self, task.near.symmetric};
	bool		nearest = task.near.table.lists != nullptr;

	check_cuda(cudaMemsetAsync(counts_.get(), 0, candidates_.chunks * sizeof(uint32_t),
							   compute_),
			   "clearing the candidate counts");
	if (!join_.has_begun)
		first_begun_.record(compute_);
	join_.has_begun = true;
	if (nearest)
		launch_near_thresholds(task.near, compute_);
	s.begun.record(compute_);
	launch_filter();
	s.filtered.record(compute_);
	launch_refine(refine, settings_.device, compute_);
	if (nearest)
		launch_offer(s.pairs.get(), state_.get(), task.near.table, task.near.symmetric,
					 task.a.first_row, settings_.device, compute_);
	s.refined.record(compute_);
	finish_launch(slot);
}

/* Launches the processing of the next open pairs. */
void
Rounds::launch_open_pairs(const Connecting &connect, uint32_t count)
{
	const Keeping &keeping = join_.task.keeping;

	if (!connect.all_open)
	{
		launch_connect_open(connect, join_.open_done, count, compute_);
		return;
	}
	if (join_.open_done == 0 && join_.stores_all_open)
		launch_keep_rounds(keeping, connect, join_.open, compute_);
	launch_keep_open(keeping, connect, join_.open_done, count, compute_);
}

/* Launches a round of open pairs; their number is limited by the buffer, as all may be returned. */
void
Rounds::launch_open_round(int slot)
{
	Slot	   &s = slots_[slot];
	uint64_t	count = std::min<uint64_t>(join_.open - join_.open_done, s.pairs.size());

	s.begun.record(compute_);
	s.filtered.record(compute_);
	launch_open_pairs(connecting(slot), (uint32_t) count);
	s.refined.record(compute_);
	finish_launch(slot);
	join_.open_done += count;
}

/* Launches the end of a round. */
void
Rounds::finish_launch(int slot)
{
	Slot	   &s = slots_[slot];

	launch_advance(candidates_, plan_items(join_.round_items), reports_.get() + slot, compute_);
	copy_async(host_reports_.get() + slot, reports_.get() + slot, 1, cudaMemcpyDeviceToHost,
			   compute_, "reading a report");
	s.ended.record(compute_);
	launched_++;
}

/* Returns whether there is work and a free slot for the next round. */
bool
Rounds::may_launch()
{
	const Slot &s = slots_[launched_ % kSlots];

	return (!join_.complete || join_.open_done < join_.open) && launched_ - ended_ < kSlots
		&& s.copied == s.count && ring_.complete() >= s.last_stage;
}

/* Processes the report of a completed round. */
void
Rounds::end_round(int slot)
{
	const JoinTask &task = join_.task;
	Slot	   &s = slots_[slot];
	const RoundReport &report = host_reports_.get()[slot];
	double		seconds = s.filtered.seconds_since(s.begun);
	uint64_t	items = report.items_done - join_.first_item - join_.items_done;

	ended_++;
	if (report.unfinished > candidates_.list_size)
		fail(FASTED_INTERNAL, "%u work items must be repeated, but the list has space for %u",
			 report.unfinished, candidates_.list_size);

	totals_.filter_seconds += seconds;
	totals_.refine_seconds += s.refined.seconds_since(s.filtered);
	totals_.device_seconds = join_.device_before + s.refined.seconds_since(first_begun_);
	totals_.candidates += report.candidates;
	totals_.pairs += report.pairs;
	totals_.redone_units += report.voided;
	join_.items_done = report.items_done - join_.first_item;
	join_.complete = report.finished;
	totals_.units_done = join_.units_before
		+ (join_.complete ? join_.units
		   : (uint64_t) ((double) join_.units * join_.items_done / join_.items));

	/* Adjust the size of rounds, unless this round was too short or incomplete. */
	if (seconds > 1e-4 && report.voided == 0 && items > 0)
	{
		uint64_t	begun = join_.items_done + (launched_ - ended_) * join_.round_items;

		if (begun < join_.items)
			join_.round_items = even_rounds(join_.items - begun, items / seconds, settings_.device);
	}

	if (join_.complete)
		join_.open = std::min<uint64_t>(report.open, task.connect.open_capacity);
	join_.stores_all_open = report.open <= task.connect.open_capacity;
	s.count = task.connect.selects() ? report.returned
		: task.keep_pairs && task.near.table.lists == nullptr ? report.pairs : 0;
	s.copied = 0;
}

/* Starts to copy pairs to the host, in the order of rounds.  A round may have no pairs. */
void
Rounds::copy_results()
{
	for (; copied_ < ended_; copied_++)
	{
		Slot	   &s = slots_[copied_ % kSlots];

		if (s.copied < s.count)
		{
			s.copied += ring_.copy(s.pairs.get() + s.copied, s.count - s.copied);
			s.last_stage = ring_.started();
		}
		if (s.copied < s.count)
			break;
	}
}

void
Rounds::pump()
{
	while (ended_ < launched_
		   && slots_[ended_ % kSlots].ended.done("computing distances"))
		end_round(ended_ % kSlots);
	copy_results();
	while (may_launch())
	{
		if (join_.complete)
			launch_open_round(launched_ % kSlots);
		else
			launch(launched_ % kSlots);
	}
}

bool
Rounds::finished() const
{
	return join_.complete && join_.open_done == join_.open && ended_ == launched_
		&& copied_ == ended_ && ring_.is_empty();
}

void
PairRing::allocate(size_t pairs)
{
	for (Stage &stage : stages_)
		stage.pairs.allocate(std::min(kStagePairs, pairs), "allocating device memory for results");
}

/* Waits for the copies, and drops their pairs. */
void
PairRing::stop() noexcept
{
	if (stream_ != nullptr)
		(void) cudaStreamSynchronize(stream_);
	complete_ = returned_ = started_;
	in_use_ = false;
}

size_t
PairRing::copy(const FastedPair *pairs, size_t count)
{
	size_t		copied = 0;

	while (copied < count && started_ - (returned_ - in_use_) < kStages)
	{
		Stage	   &stage = stages_[started_ % kStages];

		stage.count = std::min(count - copied, stage.pairs.size());
		copy_async(stage.pairs.get(), pairs + copied, stage.count, cudaMemcpyDeviceToHost, stream_,
				   "copying results to the host");
		stage.arrived.record(stream_);
		copied += stage.count;
		started_++;
	}
	return copied;
}

uint64_t
PairRing::complete()
{
	while (complete_ < started_ && stages_[complete_ % kStages].arrived.done("copying results"))
		complete_++;
	return complete_;
}

bool
PairRing::next(FastedBatch *batch)
{
	in_use_ = false;
	if (returned_ == complete())
		return false;

	Stage	   &stage = stages_[returned_ % kStages];

	batch->pairs = stage.pairs.get();
	batch->npairs = stage.count;
	returned_++;
	in_use_ = true;
	return true;
}

}								/* namespace fasted */
