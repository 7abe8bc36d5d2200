/*-------------------------------------------------------------------------
 *
 * context.h
 *	  Contexts, sets and joins of the CUDA engine.
 *
 * A context uses one GPU, with a memory budget and buffers that its joins share.  All of its
 * joins have the same metric.  The methods correspond to the functions in engine.h, but throw a
 * Failure (device.h) where those return a failure status.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CONTEXT_H
#define FASTED_CUDA_CONTEXT_H

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "schedule/nearest_search.h"

namespace fasted
{

struct StagingBuffer
{
	PinnedArray<float> rows;
	Event		sent;
	bool		held = false;	/* in use by a set */
	uint64_t	turn = 0;		/* sequence number of its return to the pool */
};

/*
 * A pool of small page-locked buffers, through which rows are copied to the device.
 *
 * The caller fills a buffer while others are being copied.  All sets of a context share the pool,
 * but a buffer that is being filled belongs to one set.
 */
class Staging
{
public:
	void set_size(uint64_t rows, uint32_t row_floats)
	{
		rows_ = rows;
		row_floats_ = row_floats;
	}

	uint64_t rows() const { return rows_; }

	/* Returns a free buffer.  Creates one if all are busy; if there are enough, waits for the oldest. */
	StagingBuffer *acquire()
	{
		StagingBuffer *first = nullptr;
		int			others = 0;

		for (const std::unique_ptr<StagingBuffer> &buffer : buffers_)
		{
			if (buffer->held)
				continue;
			others++;
			if (first == nullptr || buffer->turn < first->turn)
				first = buffer.get();
		}
		if (others < kBuffers && (first == nullptr || !first->sent.done("copying rows")))
		{
			buffers_.emplace_back(new StagingBuffer);
			first = buffers_.back().get();
			first->rows.allocate(rows_ * row_floats_, "allocating staging buffers");
		}
		first->sent.wait("copying rows to the device");
		first->held = true;
		return first;
	}

	void release(StagingBuffer *buffer)
	{
		buffer->held = false;
		buffer->turn = ++turns_;
	}

	size_t bytes() const { return buffers_.size() * rows_ * row_floats_ * sizeof(float); }

private:
	static constexpr int kBuffers = 3;

	uint64_t	rows_ = 0;
	uint32_t	row_floats_ = 0;
	uint64_t	turns_ = 0;
	std::vector<std::unique_ptr<StagingBuffer>> buffers_;
};

/* Parameters that only tests change. */
struct Tuning
{
	uint32_t	candidates = 0;	/* capacity for candidates; 0: depends on memory */
	const char *kernel = nullptr;	/* "mma.sync", "wgmma", or "folded" even for few rows */
	uint64_t	staging_rows = 0;	/* maximum number of rows in a staging buffer */
	bool		always_register = false;	/* register memory even for few rows */
	bool		always_choose = false;	/* choose between INT8 and FP16 even for few rows */
	uint64_t	open_pairs = UINT64_MAX;	/* maximum number of open pairs (connect.h) */
};

extern Tuning tuning;

/* Determines how much device memory a set needs. */
struct SetShape
{
	ChunkShape	chunks;
	uint32_t	row_bytes;		/* maximum size of a quantised row */
	bool		squares;		/* a number per row is stored, see has_squares */
	bool		may_be_projected;	/* rows may be projected to reduced dimensions */
	uint32_t	fold_bytes = 0; /* row size up to which thresholds may be folded in; 0: never */
	uint32_t	neighbors = 0;	/* length of neighbour lists; 0: none */

	/* Returns the number of bytes for a set of this many rows. */
	size_t		bytes(uint64_t rows) const;

	/* Returns fold_bytes, or 0 for sets with so few rows that folding is not used. */
	uint32_t	fold_bytes_of(uint64_t rows) const;
};

class Set;

class Context
{
public:
	Context(const FastedOptions &options, const Device &device);
	~Context();

	bool		fits(const uint64_t *rows, int nsets) const;
	void		stats(FastedStats *stats) const;

	/* See FastedEngine.rows_for_lists. */
	uint64_t	rows_for_lists(uint64_t rows, uint32_t k) const;

	/* For sets. */
	SetShape	shape_for(uint64_t expected_rows) const;
	void		add(Set *set) { sets_.push_back(set); }
	void		remove(Set *set);
	uint64_t	new_content() { return ++contents_; }

	/* Returns the number of bytes that this set may use, given the other sets. */
	size_t		memory_for(const Set *set) const;

	/*
	 * Reduces the memory limit to what is allocated or free, if other processes have taken memory.
	 * Returns false, without any change, if no set has rows.
	 */
	bool		shrink_to_free_memory();

	/* For joins. */
	void		begin_join(const FastedProblem &problem, Set &a, Set &b);
	void		stop_join() noexcept;	/* the join may be done */

	/*
	 * Joins for nearest neighbours: continues the search before the rounds.  Returns true if the
	 * rounds have started.  Does not wait for the device.
	 */
	bool		begin_rounds();

	/* Called at the end of the rounds.  Returns true if a second series of rounds was started. */
	bool		begin_second_rounds();
	void		note_prepare_time();

	const FastedOptions options;
	const Device device;
	Budget		budget;
	Stream		upload;
	Staging		staging;
	Connections connections;
	Representatives		representatives;
	Rounds		rounds;			/* destroyed before the members above, which its kernels read */
	bool		joining = false;

private:
	void		choose_kernel();
	void		divide_memory(size_t whole);
	bool		may_fold(const FastedProblem &problem, const Set &a, const Set &b) const;
	void		plan_projected_forms(size_t whole, bool may_sample);
	void		allocate_rounds(const FastedProblem &problem, const Set &a, const Set &b);
	JoinTask	task_for(const FastedProblem &problem, const Set &a, const Set &b);
	void		begin_output(const FastedProblem &problem, Set &a, Set &b, JoinTask *task);
	void		prepare(const FastedProblem &problem, Set &a, Set &b);
	void		note_order(const JoinTask &task, const Set &a, const Set &b);
	void		set_partitions(const FastedProblem &problem, Set &a, Set &b);
	bool		begin_search(const FastedProblem &problem, Set &a, Set &b, bool has_pairs);
	size_t		round_bytes() const;
	void		divide(size_t memory);
	std::shared_ptr<Form> choose_form(const FastedProblem &problem, const Set &a, const Set &b);

	const MetricRules &rules_ = *fasted_metric_rules(options.metric);
	RoundSettings settings_ = {};
	bool		to_choose_ = false; /* choose between INT8 and FP16 */
	uint32_t	most_row_bytes_ = 0;	/* size of a quantised row in the largest format */
	OrderHash	order_hash_;
	std::array<uint64_t, 7> hashed_ = {};	/* input of the last hash */
	uint64_t	hash_ = 0;
	uint32_t	fold_bytes_ = 0;	/* see SetShape.fold_bytes */
	uint64_t	candidates_ = 0;	/* maximum capacity for candidates */
	size_t		row_memory_ = 0;	/* bytes available for rows */
	size_t		least_row_memory_ = 0;	/* minimum of row_memory_ */
	size_t		reserved_ = 0;	/* bytes reserved for samples, forms and small buffers */
	std::vector<Set *> sets_;
	uint64_t	contents_ = 0;
	std::unique_ptr<FormChooser> chooser_;
	PartitionTiles	partitions_;		/* partitions of the current join */

	FastedStats stats_ = {};	/* without the statistics of rounds */
	Event		prepare_begun_;
	Event		prepare_ended_;
	enum class PrepareTime { kNone, kRunning, kEnded } prepare_time_ = PrepareTime::kNone;
	NearestSearch search_{budget, settings_};
};

/*
 * A set of rows on the device.
 *
 * Each row is copied to the device once: through a small pinned buffer, while the caller fills the
 * next one, or directly from registered memory.  Copies use the upload stream of the context, so
 * that they can overlap with a join of other sets.
 */
class Set
{
public:
	Set(Context &context, const FastedSetOptions &options);
	~Set();

	/* These correspond to functions of FastedEngine.  They return false if the set is full. */
	bool		stage(float **rows, size_t *capacity);
	void		commit(size_t nrows);
	bool		select_rows(const Set &from, const uint32_t *positions, size_t nrows);

	/*
	 * register_memory returns false if staging is as fast.  put returns the number of rows added;
	 * 0: full.
	 */
	bool		register_memory(void *memory, size_t bytes);
	void		unregister_memory() noexcept;
	size_t		put(const float *rows, size_t nrows);
	void		wait_read(bool all);

	void		read_back(uint64_t first_row, size_t nrows, float *rows);
	void		seal();
	bool		copy_set(const Set &from);
	void		reset(uint64_t first_row);

	/* For the context and its joins. */
	bool is_sealed() const { return sealed_; }
	uint32_t rows() const { return store_.rows; }
	uint64_t content() const { return content_; }
	size_t bytes_granted() const { return shape_.bytes(granted_); }
	FormedRows formed_rows() const { return {table(), content_, filter.form()}; }
	void		wait_for_rows(cudaStream_t stream) const;
	void		encode(const std::shared_ptr<Form> &form, cudaStream_t stream);
	JoinSide	side() const;

	/*
	 * Sets the partitions and components on side 0 or 1.  The rows of a partition are kept together;
	 * if there are no partitions, those of a component.
	 */
	void		set_partitions(const FastedProblem &problem, int side, cudaStream_t stream);

	/* After encode: prepares the components and core distances for the rounds. */
	void		set_core_distances(const FastedComponents &components, int side, cudaStream_t stream);

	/* Returns the counts of the rows: zeroed, or (continues) those of the previous join. */
	uint32_t   *begin_counts(bool continues, cudaStream_t stream);

	/* Prepares neighbour lists: empty, or (continues) those of the previous join. */
	void		begin_lists(const FastedProblem &problem, cudaStream_t stream);
	void		set_ranks(const uint32_t *ranks, cudaStream_t stream);
	NearTask	near_task(Set &b, NearScalars *scalars);

	/* Sorts rows by their radii, and empties the lists. */
	void		order_by_radii(const NearTask &task, cudaStream_t stream);
	const uint32_t *counts() const { return counts_.get(); }

	FilterRows	filter;
	NeighborLists lists;

private:
	RowTable table() const
	{
		RowTable	table = store_.table();

		table.squares = shape_.squares ? squares_.get() : nullptr;
		return table;
	}
	NearSide	near_side(uint32_t *thresholds) const;

	/* Returns the number of rows for which arrays are allocated. */
	uint64_t capacity() const { return std::max<uint64_t>(store_.rows, options_.most_rows); }
	void		check_open() const;
	void		drop_buffer();
	uint64_t	grow(uint64_t count);
	void		send(const float *rows, size_t nrows);
	void		allocate_for(uint64_t rows);

	Context	   &context_;
	FastedSetOptions options_;
	SetShape	shape_;
	uint64_t	content_;		/* unique number that identifies the current rows */
	bool		sealed_ = false;
	bool		full_ = false;
	uint64_t	granted_ = 0;	/* number of rows for which there is memory */
	StagingBuffer *buffer_ = nullptr;	/* buffer that the caller fills, or null */
	void	   *registered_ = nullptr;	/* registered memory of the caller, or null */

	RowStore	store_;
	RowLabels	labels_;
	DeviceArray<uint32_t> counts_;	/* also selected positions, and the components of rows */
	bool		by_component_ = false;	/* the current join has components */
	const uint32_t *sorted_components_ = nullptr;	/* in the order of rows; null with partitions */
	DeviceArray<uint32_t> ranks_;	/* ranks of the rows as neighbours */
	bool		ranked_ = false;	/* the current join has ranks */
	DeviceArray<double> squares_;	/* see has_squares */
	Event		settled_;		/* recorded after the rows put before the last wait_read */
	Event		uploaded_;
};

/* A join of two sets, or of one set with itself. */
class Join
{
public:
	Join(Context &context, const FastedProblem &problem, Set &a, Set &b);
	~Join();

	FastedStatus next(int timeout_ms, FastedBatch *batch);
	void		counts(int side, uint64_t first_row, size_t nrows, uint32_t *counts);
	void		nearest(uint64_t first_row, size_t nrows, uint32_t *lengths,
						FastedNeighbor *neighbors);

	/* See FastedEngine.merge_lists. */
	void		merge_lists(const Join &from, uint64_t first_row, size_t nrows);

private:
	void		check_neighbors(uint64_t first_row, size_t nrows) const;
	bool		advance(FastedBatch *batch, FastedStatus *status);

	Context	   &context_;
	Set		   *sides_[2];		/* the second one is null in a self-join */
	bool		counting_;
	uint32_t	k_;				/* number of nearest neighbours, or 0 */
	bool		done_ = false;
	std::unique_ptr<ListReader> reader_;	/* created by the first call of nearest */
	std::vector<uint32_t> counts_[2];	/* read by the first call of counts */
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_CONTEXT_H */
