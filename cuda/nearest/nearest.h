/*-------------------------------------------------------------------------
 *
 * nearest.h
 *	  The nearest rows so far of every row of a set, on the device, and what a join that
 *	  looks for them has beside other joins.
 *
 * A list is a heap of at most k neighbours, the last of them at its root; first comes
 * what is nearer, then what has the smaller rank, which is what a list has of a row.  A row's
 * radius is what a distance may be at most to be of its list: eps, or less where k rows are
 * known to be nearer, and the root's distance once the list is full.  It only shrinks.
 *
 * A pair is a candidate if it may be within the radius of its row of a.  The filter's
 * thresholds are made of the radii that there are before each round; old ones are safe, for
 * radii only shrink.  The proof is in doc/internals/bound-nearest.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_NEAREST_H
#define FASTED_CUDA_NEAREST_H

#include <vector>

#include "device/device.h"
#include "filter/block_order.h"
#include "rows/form.h"

namespace fasted
{

/* What kernels are given; all by the rows' numbers in their set, from 0. */
struct NeighborTable
{
	FastedNeighbor *lists = nullptr;	/* k for each row; null: there are no lists */
	uint32_t   *lengths = nullptr;
	uint32_t   *locks = nullptr;	/* 0: free */
	double	   *radii = nullptr;
	uint32_t	k = 0;

	/* Of the rows that are offered, from this number on; null: ranks are numbers. */
	const uint32_t *ranks = nullptr;
	uint64_t	first_ranked = 0;
};

/* The order of a list, of which neighbours that are as far come by their numbers. */
FASTED_HD inline bool
comes_before(const FastedNeighbor &x, const FastedNeighbor &y)
{
	return x.dist < y.dist || (x.dist == y.dist && x.row < y.row);
}

class NeighborLists
{
public:
	/* Room for such lists; nothing happens where there is as much. */
	void		allocate(Budget &budget, uint64_t rows, uint32_t k);

	/* Empty lists for the first so many rows, of neighbours within eps. */
	void		begin(uint32_t rows, uint32_t k, double eps, cudaStream_t stream);

	/* Empties the lists; radii stay as they are. */
	void		restart(cudaStream_t stream);

	/* Are there such lists, of this set's rows? */
	bool are_there(uint32_t k, double eps) const { return there_ && table_.k == k && eps_ == eps; }
	void forget() { there_ = false; }

	/* Puts every list in order, the farthest first: heaps they stay. */
	void		sort(cudaStream_t stream);

	const NeighborTable &table() const { return table_; }

	/* Room for a threshold of each row, and for padding. */
	uint32_t   *thresholds() { return thresholds_.get(); }

	/* Room for a number of each kLevelRows of them. */
	float	   *levels() { return levels_.get(); }

private:
	NeighborTable table_;
	uint32_t	rows_ = 0;
	double		eps_ = 0;
	bool		there_ = false;
	DeviceArray<FastedNeighbor> lists_;
	DeviceArray<uint32_t> lengths_;
	DeviceArray<uint32_t> locks_;
	DeviceArray<double> radii_;
	DeviceArray<uint32_t> thresholds_;
	DeviceArray<float> levels_;
};

/* Lists of so many are sorted on the device; longer ones are left as they are. */
constexpr uint32_t kMostSorted = 1024;

/*
 * Offers the pairs of a round, state->pairs in number, to the lists of their rows a;
 * both: to those of their rows b too, which are of the same set.  No pair is offered
 * twice.
 */
void launch_offer(const FastedPair *pairs, const WorkState *state, const NeighborTable &table,
				  bool both, uint64_t first_row, const Device &device, cudaStream_t stream);

/*
 * Adds lists of so many rows to those of the table from a row on; all of them have been sorted.
 * What a row has in both is taken once.
 */
void launch_merge(const FastedNeighbor *lists, const uint32_t *lengths, const NeighborTable &table,
				  uint32_t first_row, uint32_t rows, cudaStream_t stream);

/* Lists of neighbours on their way to the host, while no kernel changes them. */
class ListReader
{
public:
	/* Sorts them. */
	ListReader(NeighborLists &lists, uint32_t rows, cudaStream_t stream);

	ListReader(const ListReader &) = delete;
	~ListReader();

	/* As FastedEngine.nearest.  Waits for the device. */
	void		read(uint32_t first, uint32_t count, uint32_t *lengths, FastedNeighbor *neighbors);

	/*
	 * Adds another device's lists of the same rows, which a reader has sorted there.  room: for
	 * so many neighbours here, and for as many numbers of them.  Waits for the device.
	 */
	void		add(const ListReader &from, uint32_t first, uint32_t count, FastedNeighbor *room,
					uint32_t *room_of_lengths, size_t room_size);

private:
	/* Rows come here some at a time, more than are asked for: a copy takes 10 us. */
	struct Window
	{
		PinnedArray<FastedNeighbor> lists;
		uint32_t	first = 0;
		uint32_t	end = 0;
		Event		arrived;
		bool		there = false;	/* that was waited for: to ask takes a microsecond */
	};

	void		fetch(Window &window, uint32_t first);
	const Window &window_with(uint32_t row);
	void		read_lengths(uint32_t first, uint32_t count);

	NeighborTable table_;
	uint32_t	rows_;
	uint32_t	window_rows_;
	cudaStream_t stream_;
	std::vector<uint32_t> lengths_;
	Window		windows_[2];	/* one is read while the next one comes */
};

/* Columns that a row looks at; where there are fewer rows of b there are no first radii. */
constexpr uint32_t kLookColumns = 1024;

/* Parts of the places, as many in each, for which candidates are counted. */
constexpr uint32_t kCountParts = 32;

/* What both sides have in common, on the device. */
struct NearScalars
{
	double		usual_rho;		/* c: most rows of b have been moved so far at most */
	double		largest_reach;	/* F: of rows of a, without infinite ones */
	uint32_t	hits[kCountParts];	/* of a sample, by the place of the later row */
	uint32_t	cells[kLookColumns + 1];	/* where the rows of b of each centre begin */
};

/* One side: rows in the order of their places. */
struct NearSide
{
	RowTable	table;
	const void *values;
	const RowNorm *norms;
	const uint32_t *keys;		/* by which rows are in order; null: by others */
	uint32_t   *thresholds;
	const uint32_t *labels;		/* by the rows' numbers: filter_rows.h; null: all rows meet */
};

struct NearTask
{
	NeighborTable table;		/* lists null: the join is another one */
	bool		self;			/* no row is its own neighbour */
	FormBound	form;
	NearSide	a;
	NearSide	b;
	uint32_t	row_bytes;		/* of quantised rows */
	uint32_t   *minima_b;
	NearScalars *scalars;

	/*
	 * Of one set: each pair of rows is in one tile, for both of their lists, and rows are
	 * in about the order of their radii.
	 */
	bool		either = false;
	float	   *levels = nullptr;	/* M of the proof, of kLevelRows places each */
	bool		met = false;	/* lists have rows of earlier joins: radii are good */
};

/* Places that have one level, and how many levels there are. */
constexpr uint32_t kLevelRows = 1024;

constexpr uint32_t
levels_of(uint64_t rows)
{
	return (uint32_t) (padded_thresholds(rows) / kLevelRows + 1);
}

/* Keys of all places that bring rows of about the same radius together (row_order.h). */
void launch_radius_keys(const NearTask &task, uint32_t *keys, cudaStream_t stream);

/* Finds c, once. */
void launch_usual_rho(const NearTask &task, cudaStream_t stream);

/* Thresholds of both sides, by the radii that there are. */
void launch_near_thresholds(const NearTask &task, cudaStream_t stream);

/* --- first radii */

/* Are they of use? */
inline bool
wants_first_radii(uint32_t rows_a, uint32_t rows_b, uint32_t k)
{
	return rows_a >= 16 && rows_b >= kLookColumns && k < kLookColumns;
}

/* Rows that one launch takes, so that it is over soon. */
uint32_t	look_rows(const NearTask &task);

/*
 * For rows of a, or of b, at places first ... first + count, at least 16 of them in all:
 * keys that bring rows of one neighbourhood together.
 */
void launch_cell_keys(const NearTask &task, bool of_b, uint32_t first, uint32_t count,
					  uint32_t *keys, cudaStream_t stream);

/* Once both sides are in the order of their keys: where neighbourhoods begin. */
void launch_cells(const NearTask &task, cudaStream_t stream);

/*
 * Then: radii of rows of a, from kLookColumns rows of b about them; or, without keys, from
 * so many all over b, or about those of their groups.  Lists are empty.
 */
void launch_first_radii(const NearTask &task, uint32_t first, uint32_t count,
						cudaStream_t stream);

/* With thresholds for either side: counts hits of a sample.  At least kLeastToCount rows. */
constexpr uint32_t kLeastToCount = 8192;
void launch_count(const NearTask &task, cudaStream_t stream);

/*
 * How many candidates that makes, where each pair of rows is in one tile: for each row of
 * all, with the later row in each part of the places.
 */
struct CandidateCounts
{
	double		of_part[kCountParts];

	/* Of all pairs, those with the later row in this part. */
	static double share(uint32_t part)
	{
		return (2.0 * part + 1.0) / (kCountParts * (double) kCountParts);
	}
};
CandidateCounts candidates_of(const uint32_t *hits, uint32_t rows);

/* Where there are no radii: all pairs. */
CandidateCounts all_candidates(uint32_t rows);

/* --- the eps to choose a filter by */

/*
 * The distance of some rows of a to about their k-th neighbour as far as a sample tells,
 * in the middle; NaN: nobody knows.  Waits for the device.  room: for kRadiusRoom
 * numbers there.
 */
constexpr uint32_t kSampledRadii = 64;
constexpr uint32_t kRadiusRoom = 2 * kSampledRadii;
double		find_typical_radius(const RowTable &a, const RowTable &b, bool self, uint32_t k,
								float *room, cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_NEAREST_H */
