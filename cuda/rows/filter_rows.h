/*-------------------------------------------------------------------------
 *
 * filter_rows.h
 *	  Staged rows in chunks, and the rows that a filter reads: their partition labels, their
 *	  order, and the parameters that they were computed for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_FILTER_ROWS_H
#define FASTED_CUDA_FILTER_ROWS_H

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.h"
#include "engine/host_device.h"
#include "rows/form.h"
#include "rows/row_table.h"

namespace fasted
{

/* Layout of staged rows: chunks of 2^shift rows. */
struct ChunkShape
{
	uint32_t	dimensions = 0;
	uint32_t	shift = 0;
	bool		doubles = false;
	FastedMetric metric = {};

	size_t rows() const { return (size_t) 1 << shift; }
	uint32_t row_floats() const { return (doubles ? 2 : 1) * dimensions; }
	size_t row_bytes() const { return row_floats() * sizeof(float); }
	size_t bytes() const { return Budget::rounded(rows() * row_bytes()); }

	/* Device memory that RowStore allocates for `count` rows. */
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

	/* Allocates chunks for `count` rows; returns the error of cudaMalloc. */
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
	 * Calls visit(first, done, count) for each contiguous piece of the `nrows` rows that begin with
	 * row `from`. `first` points to the piece, `done` is the number of rows before it, and `count`
	 * is its number of rows.
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
	 * Copies the table of chunk addresses to the device, for kernels in this stream and in streams
	 * that wait for it.  Called when no more chunks are added for the time being.
	 */
	void finish(Budget &budget, cudaStream_t stream)
	{
		if (table_.size() == chunks_.size())
			return;
		pointers_.clear();
		for (const DeviceArray<float> &chunk : chunks_)
			pointers_.push_back(chunk.get());
		table_.allocate(budget, chunks_.size(), "allocating the table of rows");

		/* cudaMemcpy may return before other streams see the copy */
		copy_async(table_.get(), pointers_.data(), chunks_.size(), cudaMemcpyHostToDevice, stream,
				   "copying the table of rows");
	}

	RowTable table() const
	{
		RowTable	table = {table_.get(), shape_.shift, shape_.dimensions, rows};

		table.doubles = shape_.doubles;
		table.metric = shape_.metric;
		return table;
	}

	uint32_t	rows = 0;

private:
	ChunkShape	shape_;
	std::vector<DeviceArray<float>> chunks_;
	std::vector<const float *> pointers_;	/* host copy of table_ */
	DeviceArray<const float *> table_;
};

/* A sample of the rows of one set or two, in contiguous memory; all rows if they are few. */
class RowSample
{
public:
	static uint32_t most_rows(uint32_t dimensions);
	void		allocate(Budget &budget, uint32_t dimensions, bool doubles = false);

	void		take(const SampledRows &rows, cudaStream_t stream);

	/* The sample of side 0 or 1, valid on the device after the work enqueued by take(). */
	RowTable	table(int side) const;

private:
	DeviceArray<float> values_;
	DeviceArray<const float *> chunks_;
	DeviceArray<double> squares_;	/* see has_squares */
	FastedMetric metric_ = {};
	bool		doubles_ = false;
	uint32_t	dimensions_ = 0;
	uint32_t	rows_[2] = {0, 0};
};

/*
 * The partition of each row, in a join where only rows of the same partition are compared.
 *
 * Labels ascend with the row number.  Rows of partition g have label 2 g + 1; rows between
 * partition g - 1 and g have label 2 g.  Rows are quantized in the order of their labels and,
 * within a partition, of their thresholds.  A partition therefore occupies the places of its row
 * numbers, in another order.
 */

/* Returns true if a row with this label is in a partition. */
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
	 * Sets the labels of `rows` rows from side 0 or 1 of the partitions; partitions null: no
	 * labels.  Returns true if any label changed.
	 */
	bool		set(Budget &budget, const FastedPartition *partitions, uint32_t npartitions, int side,
					uint32_t rows, cudaStream_t stream);

	/* Must be called before the rows change. */
	void forget() { known_.clear(); }

	/* Device array indexed by row number; null: no labels. */
	const uint32_t *get() const { return known_.empty() ? nullptr : labels_.get(); }

	/* While there are no labels: allocates their array for this many rows, for other use. */
	uint32_t   *unused(Budget &budget, uint64_t rows)
	{
		labels_.make_room(budget, rows, "allocating device memory for the components of rows");
		return labels_.get();
	}

private:
	std::vector<uint32_t> known_;	/* host copy of the labels */
	DeviceArray<uint32_t> labels_;
};

/*
 * The order in which rows are quantized: by their thresholds for order_eps, within each partition if
 * there are partitions.
 *
 * The rows of a tile then have nearly the same threshold, and so have its columns.  The filter
 * compares the largest of a thread's products with few thresholds, instead of each product with its
 * own two (epilogue.cuh).
 */

/* Interleaving moves stretches of this many rows, which share one threshold minimum. */
constexpr uint32_t kStretch = kMinimaColumns;

class RowOrder
{
public:
	/* Allocates buffers to sort `rows` rows. */
	void		allocate(Budget &budget, uint64_t rows);

	/* Sorts rows by their thresholds; `rows` is at most the number allocated. */
	void		sort(const uint32_t *thresholds, uint32_t rows, Precision precision,
					 cudaStream_t stream);

	/* After sort: sorts rows by their labels; the sort is stable. */
	void		sort_by_label(const uint32_t *labels, uint32_t rows, cudaStream_t stream);

	/*
	 * After sort: interleaves stretches of kStretch rows, so that the rows in any prefix of the
	 * order are representative of all rows.
	 */
	void		interleave(uint32_t rows, cudaStream_t stream);

	/*
	 * After sort: the caller writes a key below 2^31 for each place to keys(); sort_again() then
	 * sorts rows by these keys.
	 */
	uint32_t   *keys() { return keys_of(0); }
	const uint32_t *sorted_keys() const { return sorted_keys_; }
	void		sort_again(uint32_t rows, cudaStream_t stream);

	/* The row number at each place; null before sort. */
	const uint32_t *get() const { return order_; }

	/* A double for each row, in the memory of keys: valid until rows are sorted the next time. */
	double	   *doubles() const { return keys_.get(); }

private:
	uint32_t *keys_of(int i) const { return (uint32_t *) keys_.get() + i * keys_.size(); }

	DeviceArray<double> keys_;	/* two 32-bit keys for each row, in two arrays */
	DeviceArray<uint32_t> rows_[2];
	DeviceArray<uint8_t> room_;
	uint32_t   *order_ = nullptr;
	const uint32_t *sorted_keys_ = nullptr;	/* keys of the last sort_again */
};

/* Gathers the labels of rows in this order. */
void launch_gather(const uint32_t *labels, const uint32_t *order, uint32_t *to, uint32_t rows,
				   cudaStream_t stream);

/*
 * Copies the staged rows of `from` with these numbers, an array on the device, to the last `count`
 * rows of `to`.
 */
void launch_select(const RowTable &from, const uint32_t *numbers, uint32_t count, const RowTable &to,
				   cudaStream_t stream);

/* Computes the minimum threshold of each kMinimaColumns rows, minima_of(rows) values. */
void launch_minima(const uint32_t *thresholds, uint32_t rows, Precision precision,
				   uint32_t *minima, cudaStream_t stream);

/*
 * A hash that shows whether several devices have the same rows in the same order.
 *
 * Slices of a join are parts of one list of tiles, and tiles depend on the order of rows.  The
 * order depends on the form, which is computed from sums of floats.  Devices therefore compare
 * hashes, since the sums might differ.
 */

class OrderHash
{
public:
	void		allocate(Budget &budget) { sum_.allocate(budget, 1, "allocating device memory"); }

	explicit operator bool() const { return sum_.size() > 0; }

	/* Hash of both orders and of `more`, other inputs of the tile list. Waits for the device. */
	uint64_t	of(const RowTable &a, const RowTable &b, uint64_t more, cudaStream_t stream);

private:
	DeviceArray<unsigned long long> sum_;
};

/*
 * Writes folded rows for the first and the second operand, including padding (row_table.h). Adds
 * the numbers of rows that do not fit to *unfit, which must be zero.
 */
void launch_fold(const QuantisedRows &rows, const FoldShape &shape, uint8_t *folded_a,
				 uint8_t *folded_b, Unfit *unfit, cudaStream_t stream);

/*
 * The rows that a filter reads, and the parameters that they were computed for.
 *
 * Quantized values depend on the form alone; thresholds also depend on eps.  Rows are ordered by
 * their thresholds for order_eps. This order differs little from that for another eps, and is the
 * same in every join.
 */

/* Memory of quantized rows. */
struct RowPlace
{
	uint8_t    *values;
	RowNorm	   *norms;
};

class FilterRows
{
public:
	/*
	 * Allocates memory for `rows` rows of row_bytes each and, if fold_bytes > 0, for folding rows
	 * of fold_bytes.  Does nothing if the capacity suffices.
	 */
	void		allocate(Budget &budget, uint64_t rows, uint32_t row_bytes,
						 uint32_t fold_bytes = 0);

	/* Invalidates everything; called when the staged rows change. */
	void		forget();

	/* Invalidates the order, so that is_in() returns false. */
	void		forget_order();

	/* Returns whether rows are quantized in this form, and sorted. */
	bool is_in(const std::shared_ptr<Form> &form) const { return ordered_ && form_ == form; }

	/*
	 * Quantizes rows in a form.  `order`: sort them, by labels first if they are not null; otherwise
	 * (a sample) the staged order is used.
	 */
	void		quantise(const std::shared_ptr<Form> &form, const RowTable &rows, bool order,
						 cudaStream_t stream, const uint32_t *labels = nullptr);

	/* Sets whether the next quantise() with `order` interleaves the order. */
	void		set_interleaved(bool interleaved);

	/* Sorts the rows by keys(), which the caller has written, and quantizes them again. */
	uint32_t   *keys() { return order_.keys(); }
	void		order_by_keys(cudaStream_t stream);
	const uint32_t *sorted_keys() const { return order_.sorted_keys(); }

	/* See RowOrder. */
	double	   *doubles() const { return order_.doubles(); }

	/*
	 * norms(): input of thresholds.  reset_thresholds(): returns the threshold array for the caller
	 * to fill with thresholds that belong to no single eps.
	 */
	const RowNorm *norms() const { return norms_.get(); }
	uint32_t   *reset_thresholds();
	uint32_t   *minima() { return minima_.get(); }

	/* Computes thresholds for this eps, unless they are current. */
	void		set_eps(double eps, cudaStream_t stream);

	/*
	 * Folds thresholds into the rows (row_table.h), if memory was allocated for it and the
	 * thresholds of most rows fit.  Waits for the device.
	 */
	void		fold(cudaStream_t stream);

	const std::shared_ptr<Form> &form() const { return form_; }
	const uint32_t *order() const { return ordered_ ? order_.get() : nullptr; }
	uint64_t orders() const { return orders_; }
	QuantisedRows get() const
	{
		return {values_.get(), thresholds_.get(), minima_.get(), rows_.rows,
			folded_ ? folds_[0].get() : nullptr, folded_ ? folds_[1].get() : nullptr};
	}

private:
	RowPlace place() const { return {values_.get(), norms_.get()}; }
	bool		has_spare_memory(uint64_t rows, uint32_t row_bytes, RowPlace *aside) const;

	RowTable	rows_ = {};
	std::shared_ptr<Form> form_;
	bool		ordered_ = false;
	bool		interleaved_ = false;
	bool		by_keys_ = false;	/* order_by_keys() made the order */
	uint64_t	orders_ = 0;	/* number of orders made so far */
	double		eps_ = NAN;		/* eps of thresholds_; NaN: no eps */
	double		fold_eps_ = NAN;	/* eps of the last attempt to fold */
	bool		folded_ = false;
	uint64_t	room_ = 0;		/* capacity in rows */
	DeviceArray<uint8_t> values_;
	DeviceArray<RowNorm> norms_;
	DeviceArray<uint32_t> thresholds_;
	DeviceArray<uint32_t> minima_;
	DeviceArray<uint8_t> folds_[2];
	DeviceArray<Unfit> unfit_;
	RowOrder	order_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FILTER_ROWS_H */
