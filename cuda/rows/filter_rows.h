/*-------------------------------------------------------------------------
 *
 * filter_rows.h
 *	  Rows as they were staged, in chunks; and as a filter reads them: their groups, their
 *	  order, and what they were made for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_FILTER_ROWS_H
#define FASTED_CUDA_FILTER_ROWS_H

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.h"
#include "engine/host_device.h"
#include "rows/form.h"
#include "rows/row_table.h"

namespace fasted
{

/* How rows lie as they were staged: in chunks of 2^shift rows. */
struct ChunkShape
{
	uint32_t	dimensions = 0;
	uint32_t	shift = 0;
	bool		doubles = false;

	size_t rows() const { return (size_t) 1 << shift; }
	uint32_t row_floats() const { return (doubles ? 2 : 1) * dimensions; }
	size_t row_bytes() const { return row_floats() * sizeof(float); }
	size_t bytes() const { return Budget::rounded(rows() * row_bytes()); }

	/* All that RowStore allocates for this many rows. */
	size_t bytes_for(uint64_t count) const
	{
		uint64_t	chunks = (count + rows() - 1) / rows();

		return chunks * bytes() + Budget::rounded(chunks * sizeof(float *));
	}
};

class RowStore
{
public:
	explicit RowStore(const ChunkShape &shape) : shape_(shape) {}

	/* Room for this many rows; what cudaMalloc says if there is none. */
	cudaError_t try_grow(Budget &budget, uint64_t count)
	{
		while (chunks_.size() * shape_.rows() < count)
		{
			DeviceArray<float> chunk;
			cudaError_t error = chunk.try_allocate(budget, shape_.rows() * shape_.row_floats());

			if (error != cudaSuccess)
				return error;
			chunks_.push_back(std::move(chunk));
		}
		return cudaSuccess;
	}

	/*
	 * Calls visit(first, done, count) for `nrows` rows from row `from` on, as far as they lie in
	 * one piece: where it begins, how many rows came before it, and its own.
	 */
	template <class Visit>
	void for_pieces(uint64_t from, size_t nrows, const Visit &visit) const
	{
		for (size_t done = 0; done < nrows;)
		{
			uint64_t	within = (from + done) & (shape_.rows() - 1);
			size_t		count = std::min<size_t>(nrows - done, shape_.rows() - within);

			visit(chunks_[(from + done) >> shape_.shift].get() + within * shape_.row_floats(),
				  done, count);
			done += count;
		}
	}

	/*
	 * No more chunks for now: tells kernels where they lie, those of this stream and
	 * those that wait for it.
	 */
	void finish(Budget &budget, cudaStream_t stream)
	{
		if (table_.size() == chunks_.size())
			return;
		pointers_.clear();
		for (const DeviceArray<float> &chunk : chunks_)
			pointers_.push_back(chunk.get());
		table_.allocate(budget, chunks_.size(), "allocating the table of rows");

		/* cudaMemcpy may return before its copy is seen by other streams */
		copy_async(table_.get(), pointers_.data(), chunks_.size(), cudaMemcpyHostToDevice, stream,
				   "copying the table of rows");
	}

	RowTable table() const
	{
		RowTable	table = {table_.get(), shape_.shift, shape_.dimensions, rows};

		table.doubles = shape_.doubles;
		return table;
	}

	uint32_t	rows = 0;

private:
	ChunkShape	shape_;
	std::vector<DeviceArray<float>> chunks_;
	std::vector<const float *> pointers_;	/* for table_'s copy to read */
	DeviceArray<const float *> table_;
};

/* The rows of each set in one piece; of all of them if they are few. */
class RowSample
{
public:
	static uint32_t most_rows(uint32_t dimensions);
	void		allocate(Budget &budget, uint32_t dimensions, bool doubles = false);

	void		take(const SpreadRows &rows, cudaStream_t stream);

	/* Of side 0 or 1.  Valid on the device once the stream has come here. */
	RowTable	table(int side) const;

private:
	DeviceArray<float> values_;
	DeviceArray<const float *> chunks_;
	DeviceArray<double> squares_;	/* those of the rows, where these have them */
	bool		has_squares_ = false;
	bool		doubles_ = false;
	uint32_t	dimensions_ = 0;
	uint32_t	rows_[2] = {0, 0};
};

/*
 * Which group each row of a set is in, where only rows of one group meet.
 *
 * Labels ascend with the rows' numbers: group g is 2 g + 1, rows between it and the
 * group before are 2 g.  Rows are quantised in the order of their labels and, in a
 * group, of their thresholds: a group's places are its numbers, in another order.
 */

/* Is a row with this label in any group? */
FASTED_EVERYWHERE bool
is_group(uint32_t label)
{
	return label % 2 != 0;
}

class RowLabels
{
public:
	static size_t bytes(uint64_t rows) { return Budget::rounded(rows * sizeof(uint32_t)); }

	/*
	 * The labels of so many rows, by the side 0 or 1 of these groups; groups null: they
	 * have none.  Answers whether that is news.
	 */
	bool		set(Budget &budget, const FastedRowGroup *groups, uint32_t ngroups, int side,
					uint32_t rows, cudaStream_t stream);

	/* Other rows will come. */
	void forget() { known_.clear(); }

	/* By the rows' numbers; null: they have none. */
	const uint32_t *get() const { return known_.empty() ? nullptr : labels_.get(); }

	/* All labels are below 2^bits. */
	int			bits() const;

private:
	std::vector<uint32_t> known_;	/* the same, on the host */
	DeviceArray<uint32_t> labels_;
};

/*
 * In which order rows are quantised: that of their thresholds for eps = 0.
 *
 * Rows that are in groups stay with their group.  A tile's rows then have nearly the same
 * threshold, and so have its columns:
 * the filter compares all products of a thread with a few numbers, not each with
 * two of its own (epilogue.cuh).
 */

/* Rows that spreading leaves together: those that have one least threshold. */
constexpr uint32_t kStretch = kMinimaColumns;

class RowOrder
{
public:
	/* Room for the order of this many rows, and for sorting them. */
	void		allocate(Budget &budget, uint64_t rows);

	/* Sorts rows, as many as were allocated or fewer, by their thresholds. */
	void		sort(const uint32_t *thresholds, uint32_t rows, Precision precision,
					 cudaStream_t stream);

	/* Sorts them further by their labels, which are below 2^bits. */
	void		sort_by_label(const uint32_t *labels, int bits, uint32_t rows,
							  cudaStream_t stream);

	/*
	 * Then shuffles stretches of kStretch rows, so that any number of rows from the first
	 * one on are about as all rows are.
	 */
	void		spread(uint32_t rows, cudaStream_t stream);

	/* After sort: room for a key of each place, less than 2^31, and sorts by these again. */
	uint32_t   *keys() { return keys_[0].get(); }
	const uint32_t *sorted_keys() const { return sorted_keys_; }
	void		sort_again(uint32_t rows, cudaStream_t stream);

	/* Which row is at each place; null before sort. */
	const uint32_t *get() const { return order_; }

private:
	DeviceArray<uint32_t> keys_[2];
	DeviceArray<uint32_t> rows_[2];
	DeviceArray<uint8_t> room_;
	uint32_t   *order_ = nullptr;
	const uint32_t *sorted_keys_ = nullptr;	/* of the last sort_again */
};

void launch_minima(const uint32_t *thresholds, uint32_t rows, Precision precision,
				   uint32_t *minima, cudaStream_t stream);

/*
 * Whether several devices have the same rows in the same order.
 *
 * Slices of a join are parts of one list of tiles, which are of rows in their order.  The
 * order comes from the form that rows are in, and so from sums of floats: devices had
 * better not take it on trust that theirs are the same.
 */

class OrderHash
{
public:
	void		allocate(Budget &budget) { sum_.allocate(budget, 1, "allocating room for a sum"); }

	explicit operator bool() const { return sum_.size() > 0; }

	/* Of the orders of both, and what else tiles depend on.  Waits for the device. */
	uint64_t	of(const RowTable &a, const RowTable &b, uint64_t more, cudaStream_t stream);

private:
	DeviceArray<unsigned long long> sum_;
};

/* Fills both kinds, padding included.  *unfit has zeros, and becomes how many there are. */
void launch_fold(const QuantisedRows &rows, const FoldShape &shape, uint8_t *folded_a,
				 uint8_t *folded_b, Unfit *unfit, cudaStream_t stream);

/*
 * What a filter reads of a set of rows, and what that was made for.
 *
 * Quantised values depend on the form alone, thresholds on eps too.  The order of
 * the rows is that of their thresholds for eps = 0: it hardly differs from that for
 * any other one, and is the same in every join.
 */

/* Where quantised rows lie. */
struct RowPlace
{
	uint8_t    *values;
	RowNorm	   *norms;
};

class FilterRows
{
public:
	/*
	 * Room for so many rows, of so many bytes each, and to fold rows of so many (0: none);
	 * nothing happens where there is.
	 */
	void		allocate(Budget &budget, uint64_t rows, uint32_t row_bytes,
						 uint32_t fold_bytes = 0);

	/* Other rows came, or will. */
	void		forget();

	/*
	 * Brings rows into a form, in their order or (a sample) as they stand.  Rows with labels
	 * are in the order of these first.
	 */
	void		quantise(const std::shared_ptr<Form> &form, const RowTable &rows, bool order,
						 cudaStream_t stream, const RowLabels *labels = nullptr);

	/* The paper's own: no form, and norms instead of thresholds. */
	void		quantise_paper(const RowTable &rows, cudaStream_t stream);

	/* From the next quantise with an order on: is that spread too? */
	void		set_spread(bool spread);

	/* Orders the rows again, by a key of each place, and quantises them so. */
	uint32_t   *keys() { return order_.keys(); }
	void		order_by_keys(cudaStream_t stream);
	const uint32_t *sorted_keys() const { return order_.sorted_keys(); }

	/* What thresholds are made of, and room for others', which no eps made. */
	const RowNorm *norms() const { return norms_.get(); }
	uint32_t   *take_thresholds();
	uint32_t   *minima() { return minima_.get(); }

	/* Thresholds for this eps. */
	void		set_eps(double eps, cudaStream_t stream);

	/*
	 * Folds thresholds into the rows (row_table.h), if there is room, and most fit.
	 * Waits for the device.
	 */
	void		fold(cudaStream_t stream);

	const std::shared_ptr<Form> &form() const { return form_; }
	bool is_paper() const { return paper_; }
	const uint32_t *order() const { return ordered_ ? order_.get() : nullptr; }
	uint64_t orders() const { return orders_; }
	const uint32_t *overflow() const { return overflow_.get(); }
	QuantisedRows get() const
	{
		return {values_.get(), thresholds_.get(), minima_.get(), rows_.rows,
			folded_ ? folds_[0].get() : nullptr, folded_ ? folds_[1].get() : nullptr};
	}

private:
	RowPlace place() const { return {values_.get(), norms_.get()}; }
	bool		has_room_aside(uint64_t rows, uint32_t row_bytes, RowPlace *aside) const;

	RowTable	rows_ = {};
	std::shared_ptr<Form> form_;
	bool		paper_ = false;
	bool		ordered_ = false;
	bool		spread_ = false;
	bool		by_keys_ = false;	/* the order is neither of these */
	uint64_t	orders_ = 0;	/* that rows have been put in */
	double		eps_ = -1;		/* of thresholds_; none: negative */
	double		fold_eps_ = -1; /* of those that were folded, or did not fit */
	bool		folded_ = false;
	uint64_t	room_ = 0;		/* rows */
	DeviceArray<uint8_t> values_;
	DeviceArray<RowNorm> norms_;
	DeviceArray<uint32_t> thresholds_;
	DeviceArray<uint32_t> minima_;
	DeviceArray<uint32_t> overflow_;
	DeviceArray<uint8_t> folds_[2];
	DeviceArray<Unfit> unfit_;
	RowOrder	order_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FILTER_ROWS_H */
