/*-------------------------------------------------------------------------
 *
 * filter_rows.cu
 *	  What a filter reads of a set of rows, and what that was made for.
 *
 *-------------------------------------------------------------------------
 */
#include "rows/filter_rows.h"

namespace fasted
{

size_t
FilterRows::bytes(uint64_t rows, uint32_t row_bytes)
{
	return Budget::rounded(rows * row_bytes) + Budget::rounded(rows * sizeof(RowNorm))
		+ Budget::rounded(padded_thresholds(rows) * sizeof(uint32_t))
		+ Budget::rounded(minima_of(rows) * sizeof(uint32_t))
		+ Budget::rounded(sizeof(uint32_t)) + RowOrder::bytes(rows);
}

void
FilterRows::allocate(Budget &budget, uint64_t rows, uint32_t row_bytes)
{
	const char *doing = "allocating device memory for the quantised rows";

	if (rows <= room_)
		return;
	room_ = 0;
	values_.release();
	norms_.release();
	order_.release();
	values_.allocate(budget, rows * row_bytes, doing);
	norms_.allocate(budget, rows, doing);
	thresholds_.allocate(budget, padded_thresholds(rows), doing);
	minima_.allocate(budget, minima_of(rows), doing);
	overflow_.allocate(budget, 1, doing);
	order_.allocate(budget, rows);
	room_ = rows;
}

void
FilterRows::forget()
{
	form_.reset();
	paper_ = ordered_ = by_keys_ = false;
	eps_ = -1;
}

void
FilterRows::quantise(const std::shared_ptr<Form> &form, const RowTable &rows, bool order,
					 cudaStream_t stream)
{
	forget();
	rows_ = rows;
	form->quantise(rows_, values_.get(), norms_.get(), stream);
	if (order)
	{
		form->thresholds(norms_.get(), rows_, 0, thresholds_.get(), stream);
		order_.sort(thresholds_.get(), rows.rows, form->precision(), stream);
		if (spread_)
			order_.spread(rows.rows, stream);
		rows_.order = order_.get();
		form->quantise(rows_, values_.get(), norms_.get(), stream);
	}
	ordered_ = order;
	form_ = form;
}

void
FilterRows::set_spread(bool spread)
{
	if (spread != spread_ || by_keys_)
		forget();
	spread_ = spread;
}

void
FilterRows::order_by_keys(cudaStream_t stream)
{
	eps_ = -1;
	order_.sort_again(rows_.rows, stream);
	rows_.order = order_.get();
	form_->quantise(rows_, values_.get(), norms_.get(), stream);
	by_keys_ = true;
}

uint32_t *
FilterRows::take_thresholds()
{
	eps_ = -1;
	return thresholds_.get();
}

void
FilterRows::quantise_paper(const RowTable &rows, cudaStream_t stream)
{
	forget();
	rows_ = rows;
	check_cuda(cudaMemsetAsync(overflow_.get(), 0, sizeof(uint32_t), stream), "clearing a flag");
	launch_quantise_paper(rows, row_bytes(rows.dimensions, Precision::kFp16),
						  (__half *) values_.get(), thresholds_.get(), overflow_.get(), stream);
	launch_minima(thresholds_.get(), rows.rows, Precision::kFp16, minima_.get(), stream);
	paper_ = true;
}

void
FilterRows::set_eps(double eps, cudaStream_t stream)
{
	if (paper_ || eps == eps_)
		return;
	form_->thresholds(norms_.get(), rows_, eps, thresholds_.get(), stream);
	launch_minima(thresholds_.get(), rows_.rows, form_->precision(), minima_.get(), stream);
	eps_ = eps;
}

}								/* namespace fasted */
