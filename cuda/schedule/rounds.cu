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
				  "copying the places of tiles");
	return to.get();
}

constexpr uint32_t kBlock = 256;

/*
 * Returns the first place whose component is `component` or larger; or, if `after` is true, the first
 * one whose component is larger.
 */
__device__ uint32_t
find_component(const QuantisedRows &rows, uint32_t component, bool after)
{
	uint32_t	low = 0;
	uint32_t	high = rows.rows;

	while (low < high)
	{
		uint32_t	middle = low + (high - low) / 2;
		uint32_t	there = rows.components[middle];

		if (there < component || (after && there == component))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
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
	uint32_t	end = find_component(b, component, true);
	uint32_t	first = (find_component(b, component, false) + order.tile_n - 1) / order.tile_n;

	/* the last tile may have fewer columns */
	end = end == b.rows ? order.tiles_n() : end / order.tile_n;
	skipped[m] = {first, component == last && first < end ? end - first : 0};
}

/* Intended duration of a round.  Close and cancel wait for two rounds at most. */
constexpr double kRoundSeconds = 0.016;

/* Number of dimensions from which candidates are collected in small chunks. */
constexpr uint32_t kLongRows = 512;

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

	if (settings.criterion == Criterion::kFp64)
		return share * kGuessFp64 / (is_fast_in_fp64(settings.device) ? 1 : 16);
	if (settings.kernel == Kernel::kMma)
		return share * kGuessMma;
	return share * (settings.criterion == Criterion::kInt8 ? kGuessWgmmaInt8 : kGuessWgmmaFp16);
}

/* Returns the number of elements per row that the filter reads. */
uint32_t
numbers_of_row(const RoundSettings &settings)
{
	return settings.row_bytes / element_bytes(precision_of(settings.criterion));
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
		(void) cudaMemsetAsync(&state_.get()->cancelled, 1, sizeof(uint32_t), copy_);
	if (compute_ != nullptr)
		(void) cudaStreamSynchronize(compute_);
	if (copy_ != nullptr)
		(void) cudaStreamSynchronize(copy_);
	(void) cudaGetLastError();

	for (Slot &slot : slots_)
		slot.phase = Phase::kFree;
	ended_ = drained_ = launched_;
	foreseen_ = 0;
	piece_arrived_ = piece_out_ = piece_in_;
	held_ = false;
	complete_ = true;
	open_ = open_done_ = 0;
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

size_t
Rounds::pinned_bytes() const
{
	return pieces_[0].pairs.size() * sizeof(FastedPair) * kPieces;
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
		copy_.create();
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
	uint32_t	shift = settings_.dimensions >= kLongRows ? kSmallChunkShift : kLargeChunkShift;
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
	for (Piece &piece : pieces_)
		piece.pairs.allocate(std::min(kPiecePairs, candidates), "allocating device memory for results");
}

/* Returns whether the filter with folded thresholds can be used for a join. */
bool
Rounds::is_folded(const JoinTask &task) const
{
	return settings_.kernel == Kernel::kWgmma && settings_.criterion == Criterion::kInt8
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
	uint64_t	items;
	uint64_t	units;
	Event		ready;

	task_ = task;
	order_ = tile_order(task);
	if (task.partitions != nullptr && has_pairs(task))
		task.partitions->find(&order_, compute_);
	items = has_pairs(task) ? order_.items() : 0;
	units = has_pairs(task) ? order_.tiles() : 0;
	first_item_ = part_of(items, task.slice, task.slices);
	items_ = part_of(items, task.end_slice, task.slices) - first_item_;
	items_done_ = 0;
	units_before_ = totals_.units_done;
	units_here_ = part_of(units, task.end_slice, task.slices)
		- part_of(units, task.slice, task.slices);
	totals_.units_total += units_here_ - foreseen_;
	foreseen_ = 0;
	device_before_ = totals_.device_seconds;
	launched_any_ = false;
	open_ = open_done_ = 0;
	complete_ = (items_ == 0);
	budget_ = even_rounds(items_, guessed_rate(settings_)
						  / (2.0 * order_.tile_m * order_.tile_n * numbers_of_row(settings_)),
						  settings_.device);
	if (complete_)
	{
		totals_.units_done += units_here_;
		return;
	}

	/* the previous join is done, so host_state_ is not being copied any more */
	planned_ = 0;
	*host_state_.get() = first_state(first_item_, first_item_ + items_, plan_items(budget_));
	ready.record(after);
	check_cuda(cudaStreamWaitEvent(compute_, ready, 0), "waiting for rows");
	if (task.components != nullptr)
		task.components->find_components(task, &order_, compute_);
	copy_async(state_.get(), host_state_.get(), 1, cudaMemcpyHostToDevice, compute_,
			   "setting up the work queue");
}

void
Rounds::foresee(uint32_t rows)
{
	JoinTask	task = {};

	task.a.table.rows = task.b.table.rows = rows;
	task.self = true;
	foreseen_ = tile_order(task).tiles();
	totals_.units_total += foreseen_;
}

/* Returns the number of items of the next round; limits it for nearest neighbours. */
uint64_t
Rounds::plan_items(uint64_t wanted)
{
	uint64_t	items = wanted;

	if (task_.near.table.lists != nullptr && !task_.near.either && !task_.near.met
		&& task_.partitions == nullptr)
	{
		double		columns = std::max(1.0, (double) task_.b.table.rows / task_.slices
										   * (task_.end_slice - task_.slice));
		uint64_t	first = (uint64_t) (items_ * std::min(1.0, kFirstColumns / columns));
		uint64_t	least = (uint64_t) settings_.device.multiprocessors * 2;

		items = std::min(items, std::max({planned_, first, least}));
	}
	planned_ += items;
	return items;
}

void
Rounds::launch_filter()
{
	FilterParams filter = {task_.a.quantised, task_.b.quantised, settings_.row_bytes,
		order_, candidates_};

	if (is_folded(task_))
		launch_filter_folded(filter, fold_shape(settings_.row_bytes).bytes, settings_.device,
							 compute_);
	else if (settings_.kernel == Kernel::kWgmma)
		launch_filter_wgmma(filter, settings_.criterion, settings_.device, compute_);
	else
		launch_filter_mma(filter, settings_.criterion, settings_.device, compute_);
}

/* Returns the parameters for selecting pairs in a round. */
Connecting
Rounds::connecting(int slot) const
{
	Connecting	connect = task_.connect;
	WorkState  *state = state_.get();

	connect.first_row_a = task_.a.first_row;
	connect.first_row_b = task_.b.first_row;
	connect.counts_a = task_.a.counts;
	connect.counts_b = task_.b.counts;
	connect.pairs = slots_[slot].pairs.get();
	connect.handed_out = &state->handed_out;
	connect.cancelled = &state->cancelled;
	connect.open_count = &state->open;
	return connect;
}

void
Rounds::launch(int slot)
{
	Slot	   &s = slots_[slot];
	RefineParams refine = {task_.a, task_.b, task_.self, task_.eps, candidates_,
		task_.keep_pairs ? s.pairs.get() : nullptr, connecting(slot), task_.near.table.radii,
		task_.near.self, task_.near.either};
	bool		nearest = task_.near.table.lists != nullptr;

	check_cuda(cudaMemsetAsync(counts_.get(), 0, candidates_.chunks * sizeof(uint32_t),
							   compute_),
			   "clearing the candidate counts");
	if (!launched_any_)
		first_begun_.record(compute_);
	launched_any_ = true;
	if (nearest)
		launch_near_thresholds(task_.near, compute_);
	s.begun.record(compute_);
	launch_filter();
	s.filtered.record(compute_);
	launch_refine(refine, settings_.device, compute_);
	if (nearest)
		launch_offer(s.pairs.get(), state_.get(), task_.near.table, task_.near.either,
					 task_.a.first_row, settings_.device, compute_);
	s.refined.record(compute_);
	finish_launch(slot);
}

/* Launches the processing of the next open pairs. */
void
Rounds::wait_read_open(const Connecting &connect, uint32_t count)
{
	if (!connect.all_open)
	{
		launch_connect_open(connect, open_done_, count, compute_);
		return;
	}
	if (open_done_ == 0 && all_there_)
		launch_keep_rounds(task_.keeping, connect, open_, compute_);
	launch_keep_open(task_.keeping, connect, open_done_, count, compute_);
}

/* Launches a round of open pairs; their number is limited by the buffer, as all may be returned. */
void
Rounds::launch_open(int slot)
{
	Slot	   &s = slots_[slot];
	uint64_t	count = std::min<uint64_t>(open_ - open_done_, s.pairs.size());

	s.begun.record(compute_);
	s.filtered.record(compute_);
	wait_read_open(connecting(slot), (uint32_t) count);
	s.refined.record(compute_);
	finish_launch(slot);
	open_done_ += count;
}

/* Launches the end of a round. */
void
Rounds::finish_launch(int slot)
{
	Slot	   &s = slots_[slot];

	launch_advance(candidates_, plan_items(budget_), reports_.get() + slot, compute_);
	copy_async(host_reports_.get() + slot, reports_.get() + slot, 1, cudaMemcpyDeviceToHost,
			   compute_, "reading a report");
	s.ended.record(compute_);
	s.phase = Phase::kRunning;
	launched_++;
}

/* Returns whether there is work and a free slot for the next round. */
bool
Rounds::may_launch() const
{
	return (!complete_ || open_done_ < open_) && launched_ - ended_ < kSlots
		&& slots_[launched_ % kSlots].phase == Phase::kFree;
}

/* Processes the report of a completed round. */
void
Rounds::end_round(int slot)
{
	Slot	   &s = slots_[slot];
	const RoundReport &report = host_reports_.get()[slot];
	double		seconds = s.filtered.seconds_since(s.begun);
	uint64_t	items = report.items_done - first_item_ - items_done_;

	ended_++;
	if (report.again > candidates_.list_size)
		fail(FASTED_INTERNAL, "%u work items must be repeated, but the list has space for %u",
			 report.again, candidates_.list_size);

	totals_.filter_seconds += seconds;
	totals_.refine_seconds += s.refined.seconds_since(s.filtered);
	totals_.device_seconds = device_before_ + s.refined.seconds_since(first_begun_);
	totals_.candidates += report.candidates;
	totals_.pairs += report.pairs;
	totals_.redone_units += report.voided;
	items_done_ = report.items_done - first_item_;
	complete_ = report.finished;
	totals_.units_done = units_before_
		+ (complete_ ? units_here_
		   : (uint64_t) ((double) units_here_ * items_done_ / items_));

	/* Adjust the size of rounds, unless this round was too short or incomplete. */
	if (seconds > 1e-4 && report.voided == 0 && items > 0)
	{
		uint64_t	begun = items_done_ + (launched_ - ended_) * budget_;

		if (begun < items_)
			budget_ = even_rounds(items_ - begun, items / seconds, settings_.device);
	}

	if (complete_)
		open_ = std::min<uint64_t>(report.open, task_.connect.open_room);
	all_there_ = report.open <= task_.connect.open_room;
	s.count = task_.connect.selects() ? report.handed_out
		: task_.keep_pairs && task_.near.table.lists == nullptr ? report.pairs : 0;
	s.copied = 0;
	s.phase = s.count > 0 ? Phase::kDraining : Phase::kFree;
}

/* Starts to copy pairs of a round to the host, as many as there are free pieces for. */
void
Rounds::drain(int slot)
{
	Slot	   &s = slots_[slot];

	while (s.copied < s.count && piece_in_ - (piece_out_ - held_) < kPieces)
	{
		Piece	   &piece = pieces_[piece_in_ % kPieces];

		piece.count = std::min(s.count - s.copied, piece.pairs.size());
		piece.slot = slot;
		copy_async(piece.pairs.get(), s.pairs.get() + s.copied, piece.count,
				   cudaMemcpyDeviceToHost, copy_, "copying results to the host");
		piece.arrived.record(copy_);
		s.copied += piece.count;
		piece.last = s.copied == s.count;
		piece_in_++;
	}
}

void
Rounds::pump()
{
	while (ended_ < launched_
		   && slots_[ended_ % kSlots].ended.done("computing distances"))
		end_round(ended_ % kSlots);

	/* Pairs are copied in the order of rounds.  A round may have no pairs. */
	while (drained_ < ended_)
	{
		Slot	   &s = slots_[drained_ % kSlots];

		if (s.phase == Phase::kDraining)
		{
			drain(drained_ % kSlots);
			if (s.copied < s.count)
				break;
		}
		drained_++;
	}
	while (piece_arrived_ < piece_in_
		   && pieces_[piece_arrived_ % kPieces].arrived.done("copying results"))
	{
		Piece	   &piece = pieces_[piece_arrived_ % kPieces];

		if (piece.last)
			slots_[piece.slot].phase = Phase::kFree;
		piece_arrived_++;
	}
	while (may_launch())
	{
		if (complete_)
			launch_open(launched_ % kSlots);
		else
			launch(launched_ % kSlots);
	}
}

bool
Rounds::take(FastedBatch *batch)
{
	held_ = false;
	if (piece_out_ == piece_arrived_)
		return false;

	Piece	   &piece = pieces_[piece_out_ % kPieces];

	batch->pairs = piece.pairs.get();
	batch->npairs = piece.count;
	piece_out_++;
	held_ = true;
	return true;
}

bool
Rounds::finished() const
{
	return complete_ && open_done_ == open_ && ended_ == launched_ && drained_ == ended_
		&& piece_out_ == piece_in_;
}

}								/* namespace fasted */
