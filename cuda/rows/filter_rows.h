/*-------------------------------------------------------------------------
 *
 * filter_rows.h
 *	  What a filter reads of a set of rows, and what that was made for.
 *
 * Quantised values depend on the form alone, thresholds on eps too.  The order of
 * the rows is that of their thresholds for eps = 0: it hardly differs from that for
 * any other one, and is the same in every join.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_FILTER_ROWS_H
#define FASTED_CUDA_FILTER_ROWS_H

#include <memory>

#include "device/device_memory.h"
#include "rows/folded_rows.h"
#include "rows/form.h"
#include "rows/quantised.h"
#include "rows/row_labels.h"
#include "rows/row_order.h"

namespace fasted
{

/* Where quantised rows lie. */
struct RowPlace
{
	uint8_t    *values;
	RowNorm	   *norms;
};

class FilterRows
{
public:
	/* What allocate takes. */
	static size_t bytes(uint64_t rows, uint32_t row_bytes, uint32_t fold_bytes = 0);

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

	/* From the next quantise with an order on: is that spread too (row_order.h)? */
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
	 * Folds thresholds into the rows (folded_rows.h), if there is room, and most fit.
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
