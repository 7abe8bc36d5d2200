/*-------------------------------------------------------------------------
 *
 * context.h
 *	  A GPU, the memory that may be taken there, what its joins share; sets and joins.
 *
 * A context has one metric, so that forms and what comes of them need not tell.
 * The functions are those of engine.h and throw a Failure (device.h) where those
 * return a status.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CONTEXT_H
#define FASTED_CUDA_CONTEXT_H

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "schedule/choice.h"

namespace fasted
{

/*
 * What a context reads of other contexts' buffers: an event for each buffer's readers.  They
 * are its device's, and go with the context, whose stream has come to rest then.
 */
using Reading = std::map<const class Readers *, Event>;

/* Other contexts that read a buffer. */
class Readers
{
public:
	/* The last copy in this stream is from here. */
	void note(const std::shared_ptr<Reading> &reading, cudaStream_t stream)
	{
		(*reading)[this].record(stream);
		if (std::find(readings_.begin(), readings_.end(), reading) == readings_.end())
			readings_.push_back(reading);
	}
	bool done() const
	{
		for (const std::shared_ptr<Reading> &reading : readings_)
		{
			if (!(*reading)[this].is_over())
				return false;
		}
		return true;
	}
	void wait()
	{
		/* An error is that device's own: its next call tells. */
		for (const std::shared_ptr<Reading> &reading : readings_)
		{
			if (!(*reading)[this].settle())
				(void) cudaGetLastError();
		}
		readings_.clear();
	}

private:
	std::vector<std::shared_ptr<Reading>> readings_;
};

struct StagingBuffer
{
	PinnedArray<float> rows;
	Event		sent;
	Readers		readers;
	bool		held = false;	/* by a set */
	uint64_t	turn = 0;		/* when it was given back */
};

/*
 * Small page-locked buffers through which rows go to the device.
 *
 * The caller fills one while others are on their way.  Sets share them; one that is
 * being filled belongs to its set.  Other devices may read it, too.
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

	/* Waits for the one that was sent first, unless a further one may be made. */
	StagingBuffer *take()
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
		if (others < kBuffers && (first == nullptr || !first->sent.done("copying rows")
								  || !first->readers.done()))
		{
			buffers_.emplace_back(new StagingBuffer);
			first = buffers_.back().get();
			first->rows.allocate(rows_ * row_floats_, "allocating staging buffers");
		}
		first->sent.wait("copying rows to the device");
		first->readers.wait();
		first->held = true;
		return first;
	}

	void give_back(StagingBuffer *buffer)
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

/* What only tests change. */
struct Tuning
{
	uint32_t	candidates = 0;	/* room for them; 0: as memory allows */
	const char *kernel = nullptr;	/* "mma.sync", "wgmma" or, of few rows too, "folded" */
	uint64_t	staging_rows = 0;	/* at most, in one staging buffer */
	bool		always_lend = false;	/* however few rows there are */
	bool		always_choose = false;	/* INT8 or FP16, likewise */
	uint64_t	open_pairs = UINT64_MAX;	/* room for them (connect.h) at most */
};

extern Tuning tuning;

/* What a set takes on the device, if it has so many rows in the end. */
struct SetShape
{
	ChunkShape	chunks;
	uint32_t	row_bytes;		/* of a quantised row, at most */
	bool		cosine;			/* rows have squares */
	bool		may_be_short;	/* its form may be a short one */
	uint32_t	fold_bytes = 0; /* thresholds may be folded into rows of so many; 0: no */
	uint32_t	neighbors = 0;	/* of lists that rows have; 0: they have none */

	size_t		bytes(uint64_t rows) const;

	/* Few rows have no room to fold. */
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

	/* Lists of k for so many rows take at most the memory of so many rows. */
	uint64_t	list_rows(uint64_t rows, uint32_t k) const;

	/* For sets. */
	SetShape	shape_for(uint64_t expected_rows) const;
	void		add(Set *set) { sets_.push_back(set); }
	void		remove(Set *set);
	uint64_t	new_content() { return ++contents_; }

	/* Bytes that this set may take beside all others. */
	size_t		room_beside(const Set *set) const;

	/* Others took the memory: go on with what is held and free; false: no rows are there. */
	bool		keep_to_what_is_left();

	/* For joins. */
	void		begin_join(const FastedProblem &problem, Set &a, Set &b);
	void		stop_join() noexcept;	/* which may be done */

	/*
	 * Nearest rows: gets on with what comes before the rounds; true: they have begun.
	 * Never waits.
	 */
	bool		begin_rounds();

	/* When rounds are over: were there more to come, which have begun now? */
	bool		begin_further_rounds();
	void		note_prepare_time();

	const FastedOptions options;
	const Device device;
	Budget		budget;
	Stream		upload;
	Staging		staging;
	std::shared_ptr<Reading> reading = std::make_shared<Reading>();
	Connections connections;
	Keepers		keepers;
	Rounds		rounds;			/* after what its kernels read, so that it goes first */
	bool		joining = false;

private:
	void		choose_kernel();
	void		divide_memory(size_t whole);
	bool		may_fold(const FastedProblem &problem, const Set &a, const Set &b) const;
	void		plan_short_forms(size_t whole, bool may_sample);
	void		allocate_rounds(const FastedProblem &problem, const Set &a, const Set &b);
	JoinTask	task_for(const FastedProblem &problem, const Set &a, const Set &b);
	void		begin_output(const FastedProblem &problem, Set &a, Set &b, JoinTask *task);
	void		prepare(const FastedProblem &problem, Set &a, Set &b);
	void		note_order(const JoinTask &task, const Set &a, const Set &b);
	void		take_groups(const FastedProblem &problem, Set &a, Set &b);
	void		begin_nearest(const FastedProblem &problem, Set &a, Set &b);
	size_t		round_bytes() const;
	void		divide(size_t memory);
	double		choice_eps(const FastedProblem &problem, const Set &a, const Set &b);
	std::shared_ptr<Form> choose_form(const FastedProblem &problem, const Set &a, const Set &b);

	RoundSettings settings_ = {};
	bool		to_choose_ = false; /* INT8 or FP16 */
	uint32_t	most_row_bytes_ = 0;	/* of a quantised row, whatever is chosen */
	OrderHash	order_hash_;
	std::array<uint64_t, 7> hashed_ = {};	/* what that was made of last */
	uint64_t	hash_ = 0;
	uint32_t	fold_bytes_ = 0;	/* of a row that thresholds may be folded into; 0: none */
	uint64_t	candidates_ = 0;	/* room for them, at most */
	size_t		room_ = 0;		/* bytes for rows */
	size_t		least_ = 0;		/* of them */
	size_t		fixed_ = 0;		/* bytes for what is neither rows nor of rounds */
	std::vector<Set *> sets_;
	uint64_t	contents_ = 0;
	uint64_t	joins_ = 0;
	std::unique_ptr<FormChooser> chooser_;
	GroupTiles	groups_;		/* of the join in hand */

	FastedStats stats_ = {};	/* but for what rounds tell */
	Event		prepare_begun_;
	Event		prepare_ended_;
	bool		prepare_timed_ = true;

	/* Nearest rows: what comes before the rounds, step by step. */
	enum class LookStep
	{
		kKeysOfA,				/* which rows are in one neighbourhood? */
		kKeysOfB,
		kRadii,					/* first radii from there */
		kCount,					/* how many candidates would they leave? */
		kBegin,					/* the rounds */
		kDone
	};
	struct Look
	{
		LookStep	step = LookStep::kDone;
		Set		   *a = nullptr;
		Set		   *b = nullptr;
		std::shared_ptr<Form> form;
		Set		   *further = nullptr;	/* further rounds are of it; null: there are none */
		JoinTask	task;
		bool		met = false;	/* lists have rows already */
		bool		timed = false;	/* what comes before the rounds is preparation */
		bool		either = false; /* each pair of rows meets once, by their first radii */

		/* Which join this was, of which rows. */
		uint64_t	number = 0;
		uint64_t	content_a = 0;
		uint64_t	content_b = 0;
		bool		ordered = false;	/* rows are in the order of neighbourhoods, or of radii */
		uint32_t	next = 0;	/* rows that this step has launched */
		uint32_t	good = 0;	/* rows before the worst ones, if these look once more */
		Event		piece;
	};
	bool		is_next_slice(const FastedProblem &problem, const Set &a, const Set &b) const;
	void		begin_look(const FastedProblem &problem, Set &a, Set &b);
	bool		look_further();
	NearTask	looking() const;
	bool		launch_piece(uint32_t rows);
	void		begin_second_look();
	void		take_near_task();
	void		take_worst_first();
	void		take_keys();
	void		order_as_before();
	void		count_candidates();
	void		begin_near_rounds(uint32_t first);
	uint32_t	rows_first(const CandidateCounts &candidates);

	Look		look_;
	DeviceArray<NearScalars> scalars_;
	DeviceArray<float> sampled_radii_;
	PinnedArray<uint32_t> hits_;	/* of a sample */
};

/*
 * A set of rows on the device.
 *
 * A row goes there once: through a small pinned buffer, while the caller fills the
 * next, or straight from the caller's memory, if that was lent.  All of that is in
 * the context's stream for uploads, beside a join of other sets.
 */
class Set
{
public:
	Set(Context &context, const FastedSetOptions &options);
	~Set();

	/* False: full. */
	bool		stage(float **rows, size_t *capacity);
	void		commit(size_t nrows);

	/* Rows in the room of a set of another context; false: full. */
	bool		take_staged(const Set &from, size_t nrows);

	/* Rows of a sealed set of another context, which stays until settle. */
	void		copy_rows(const Set &from, uint64_t first, size_t nrows);

	/* lend: false where staging is as good.  put: how many it takes; 0: full. */
	bool		lend(void *memory, size_t bytes);
	void		withdraw() noexcept;
	size_t		put(const float *rows, size_t nrows);
	void		settle(bool all);

	void		read_back(uint64_t first_row, size_t nrows, float *rows);
	void		seal();
	void		reset(uint64_t first_row);

	/* For the context and its joins. */
	bool is_sealed() const { return sealed_; }
	uint32_t rows() const { return store_.rows; }
	uint64_t content() const { return content_; }
	size_t bytes_granted() const { return shape_.bytes(granted_); }
	FormedRows formed_rows() const { return {table(), content_, filter.form()}; }
	void		wait_for_rows(cudaStream_t stream) const;
	void		take_form(const std::shared_ptr<Form> &form, cudaStream_t stream);
	void		take_paper_form(cudaStream_t stream);
	JoinSide	side() const;

	/* The side 0 or 1 of groups whose rows stay together from here on; null: none do. */
	void		take_groups(const FastedProblem &problem, int side, cudaStream_t stream);

	/* Room for the number of each row's pairs: zero, or (further) as it was. */
	uint32_t   *begin_counts(bool further, cudaStream_t stream);

	/* Lists of neighbours: empty ones, or those that the last such join left. */
	void		begin_lists(uint32_t k, double eps, bool further, cudaStream_t stream);
	void		take_ranks(const uint32_t *ranks, cudaStream_t stream);
	NearTask	near_task(Set &b, NearScalars *scalars);

	/* Radii are good: orders rows by them, and empties the lists. */
	void		order_by_radii(const NearTask &task, cudaStream_t stream);
	const uint32_t *counts() const { return counts_.get(); }

	FilterRows	filter;
	NeighborLists lists;

private:
	RowTable table() const
	{
		RowTable	table = store_.table();

		table.squares = shape_.cosine ? squares_.get() : nullptr;
		return table;
	}
	NearSide	near_side(uint32_t *thresholds) const;

	/* Rows that arrays beside the rows are allocated for. */
	uint64_t room() const { return std::max<uint64_t>(store_.rows, options_.most_rows); }
	void		check_open() const;
	void		drop_buffer();
	uint64_t	grow(uint64_t count);
	void		send(const float *rows, size_t nrows, cudaMemcpyKind kind, const char *doing);
	void		allocate_for(uint64_t rows);

	Context	   &context_;
	FastedSetOptions options_;
	SetShape	shape_;
	uint64_t	content_;		/* a number for the rows that it has now */
	bool		sealed_ = false;
	bool		full_ = false;
	uint64_t	granted_ = 0;	/* rows that there is memory for */
	StagingBuffer *buffer_ = nullptr;	/* that the caller fills */
	void	   *lent_ = nullptr;	/* the caller's memory, page-locked */
	bool		locked_ = false;	/* by this set */

	RowStore	store_;
	RowLabels	labels_;
	DeviceArray<uint32_t> counts_;
	DeviceArray<uint32_t> ranks_;	/* as a neighbour */
	bool		ranked_ = false;	/* it has them in the join at hand */
	DeviceArray<double> squares_;	/* cosine */
	Event		settled_;		/* after what was put before the last settle */
	Event		uploaded_;
};

/* A join of two sets: its pairs, or what they count. */
class Join
{
public:
	Join(Context &context, const FastedProblem &problem, Set &a, Set &b);
	~Join();

	FastedStatus next(int timeout_ms, FastedBatch *batch);
	void		counts(int side, uint64_t first_row, size_t nrows, uint32_t *counts);
	void		nearest(uint64_t first_row, size_t nrows, uint32_t *lengths,
						FastedNeighbor *neighbors);

	/* False: lists are too long. */
	bool		add_lists(const Join &from, uint64_t first_row, size_t nrows);

private:
	void		check_neighbors(uint64_t first_row, size_t nrows) const;
	bool		advance(FastedBatch *batch, FastedStatus *status);

	Context	   &context_;
	Set		   *sides_[2];		/* the second one is null if there is but one */
	bool		counting_;
	uint32_t	k_;				/* nearest rows: so many; else 0 */
	bool		done_ = false;
	std::unique_ptr<ListReader> reader_;	/* once neighbours are asked for */
	std::vector<uint32_t> counts_[2];	/* once they are asked for */
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_CONTEXT_H */
