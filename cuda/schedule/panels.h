/*-------------------------------------------------------------------------
 *
 * panels.h
 *	  In which order panels of rows are loaded and joined.
 *
 * Rows that do not fit on the device come in panels, two at a time on its two
 * sides.  Panel a stays while the others pass, from the last down to a + 1,
 * which then stays as the next a: T panels cost T (T - 1) / 2 + 1 loads.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_PANELS_H
#define FASTED_CUDA_PANELS_H

#include <cstdint>

namespace fasted
{

struct PanelStep
{
	enum Kind
	{
		kLoad,					/* panel b into side_b */
		kJoin,					/* panel a with panel b; a <= b */
		kDone
	};

	Kind		kind;
	uint32_t	a;
	uint32_t	b;
	int			side_a;
	int			side_b;
};

class PanelSchedule
{
public:
	/* resident: the only panel is on side 0 already. */
	PanelSchedule(uint32_t panels, bool resident)
		: panels_(panels), loaded_(resident)
	{
	}

	PanelStep
	next()
	{
		if (panels_ == 0 || a_ == panels_)
			return {PanelStep::kDone, 0, 0, 0, 0};

		int			side_b = b_ == a_ ? side_ : side_ ^ 1;

		if (!loaded_)
		{
			loaded_ = true;
			return {PanelStep::kLoad, a_, b_, side_, side_b};
		}

		PanelStep	step = {PanelStep::kJoin, a_, b_, side_, side_b};

		if (b_ == a_ && a_ + 1 < panels_)
		{
			b_ = panels_ - 1;
			loaded_ = false;
		}
		else if (b_ > a_ + 1)
		{
			b_--;
			loaded_ = false;
		}
		else
		{
			/* the panel that passed last stays */
			a_++;
			b_ = a_;
			side_ ^= 1;
		}
		return step;
	}

private:
	uint32_t	panels_;
	bool		loaded_;
	uint32_t	a_ = 0;
	uint32_t	b_ = 0;
	int			side_ = 0;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_PANELS_H */
