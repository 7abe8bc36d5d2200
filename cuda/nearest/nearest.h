/*-------------------------------------------------------------------------
 *
 * nearest.h
 *	  Neighbour lists on the device, and thresholds and radii of joins for nearest neighbours.
 *
 * The neighbour list of a row is a heap of at most k neighbours, with the last one at its root.
 * Neighbours are ordered by distance, then by rank; a list stores the ranks of rows.  The radius
 * of a row is an upper bound of the distances in its final list.  It is eps at first, smaller if k
 * rows are known to be nearer, and the distance of the root once the list is full.  A radius never
 * increases.  In a join of different components (FastedComponents), the initial radius of a row is its
 * bound, and distances are mutual reachability distances, which are never below the distances that
 * the filter compares.
 *
 * A pair is a candidate if its distance may be within the radius of its row of a.  Thresholds are
 * computed from the radii before each round.  They remain valid during the round, because radii
 * never increase.  The proof is in doc/internals/bound-nearest.md.
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

/* The lists as seen by kernels.  Arrays are indexed by the position of a row in its set. */
struct NeighborTable
{
	FastedNeighbor *lists = nullptr;	/* k entries per row; null: there are no lists */
	uint32_t   *lengths = nullptr;
	uint32_t   *locks = nullptr;	/* 0: not locked */
	double	   *radii = nullptr;
	uint32_t	k = 0;

	/* Ranks of possible neighbours, for numbers from first_ranked on; null: rank is number. */
	const uint32_t *ranks = nullptr;
	uint64_t	first_ranked = 0;
};

/* The order of neighbours: by distance, then by rank. */
FASTED_HD inline bool
comes_before(const FastedNeighbor &x, const FastedNeighbor &y)
{
	return x.dist < y.dist || (x.dist == y.dist && x.row < y.row);
}

class NeighborLists
{
public:
	/* Allocates memory for lists of length k, unless there is enough already. */
	void		allocate(Budget &budget, uint64_t rows, uint32_t k);

	/*
	 * Initializes empty lists for rows.  Radii are eps or, if bounds is not null, the smaller of eps and
	 * the bound of the row.  bounds is an array on the host, which is copied in the order of the
	 * stream.
	 */
	void		begin(uint32_t rows, uint32_t k, double eps, const double *bounds,
					  cudaStream_t stream);

	/* Empties the lists, but keeps the radii. */
	void		restart(cudaStream_t stream);

	/* Returns whether there are lists for the current rows with these parameters. */
	bool are_for(uint32_t k, double eps) const { return valid_ && table_.k == k && eps_ == eps; }
	void forget() { valid_ = false; }

	/* Sorts each list in descending order, so that it still is a heap. */
	void		sort(cudaStream_t stream);

	const NeighborTable &table() const { return table_; }

	/* Returns a buffer for the threshold of each row, and for padding. */
	uint32_t   *thresholds() { return thresholds_.get(); }

	/* Returns a buffer with one number per kLevelRows rows. */
	float	   *levels() { return levels_.get(); }

private:
	NeighborTable table_;
	uint32_t	rows_ = 0;
	double		eps_ = 0;
	bool		valid_ = false;	/* the lists belong to the current rows */
	DeviceArray<FastedNeighbor> lists_;
	DeviceArray<uint32_t> lengths_;
	DeviceArray<uint32_t> locks_;
	DeviceArray<double> radii_;
	DeviceArray<uint32_t> thresholds_;
	DeviceArray<float> levels_;
};

/* Lists up to this length are sorted on the device; longer ones are sorted on the host. */
constexpr uint32_t kMostSorted = 1024;

/*
 * Inserts the pairs of a round into the lists of their rows of a, if they are near enough.  The
 * number of pairs is state->pairs.  If `both` is true, b is the same set, and pairs are inserted
 * into the lists of both rows.  No pair must be passed twice.
 */
void launch_offer(const FastedPair *pairs, const WorkState *state, const NeighborTable &table,
				  bool both, uint64_t first_row, const Device &device, cudaStream_t stream);

/*
 * Merges sorted lists of `rows` rows into the sorted lists of the table, from first_row on.
 * Neighbours in both lists of a row are taken once.
 */
void launch_merge(const FastedNeighbor *lists, const uint32_t *lengths, const NeighborTable &table,
				  uint32_t first_row, uint32_t rows, cudaStream_t stream);

/* Reads neighbour lists to the host.  No kernel must change them meanwhile. */
class ListReader
{
public:
	/* Sorts the lists. */
	ListReader(NeighborLists &lists, uint32_t rows, cudaStream_t stream);

	ListReader(const ListReader &) = delete;
	~ListReader();

	/* See FastedEngine.nearest.  Waits for the device. */
	void		read(uint32_t first, uint32_t count, uint32_t *lengths, FastedNeighbor *neighbors);

	/*
	 * Merges the lists that another device has for the same rows, and that its reader has sorted.
	 * lists and lengths are buffers on this device, with a capacity of `capacity` elements each.
	 * Waits for the device.
	 */
	void		add(const ListReader &from, uint32_t first, uint32_t count, FastedNeighbor *lists,
					uint32_t *lengths, size_t capacity);

private:
	/* Lists are read ahead in windows of rows, because each copy takes 10 us. */
	struct Window
	{
		PinnedArray<FastedNeighbor> lists;
		uint32_t	first = 0;
		uint32_t	end = 0;
		Event		arrived;
		bool		is_complete = false;	/* remembers arrived.done(), which takes 1 us */
	};

	void		fetch(Window &window, uint32_t first);
	const Window &window_with(uint32_t row);
	void		read_lengths(uint32_t first, uint32_t count);

	NeighborTable table_;
	uint32_t	rows_;
	uint32_t	window_rows_;
	cudaStream_t stream_;
	std::vector<uint32_t> lengths_;
	Window		windows_[2];	/* one is being read while the next one is being copied */
};

/* Number of columns of a probe, and of centres; b must have at least this many rows. */
constexpr uint32_t kProbeColumns = 1024;

/* Number of equal parts of the rows, in their order, for which candidates are counted. */
constexpr uint32_t kCountParts = 32;

/*
 * Values for the whole join, on the device.  Their letters are those of
 * doc/internals/bound-nearest.md.
 */
struct NearScalars
{
	double		usual_rho;		/* c: quantisation error that few rows of b exceed; Jaccard: w, see
								 * own_half */
	double		largest_reach;	/* F: largest finite reach of rows of a */
	uint32_t	hits[kCountParts];	/* candidates in a sample, by the place of the later row */
	uint32_t	cells[kProbeColumns + 1];	/* first place of each centre's rows of b */
};

/* One side of the join.  A place is a position in the sorted order of rows. */
struct NearSide
{
	RowTable	table;
	const void *values;
	const RowNorm *norms;
	const uint32_t *keys;		/* sort keys, by place; null if sorted by other keys */
	uint32_t   *thresholds;
	const uint32_t *labels;		/* partition of each row (filter_rows.h); null: no partitions */
	const double *cores;		/* core distance by row number; null: no components */
};

struct NearTask
{
	NeighborTable table;		/* lists are null in joins with other outputs */
	bool		self;			/* self-join: no row is its own neighbour */
	FormBound	form;
	NearSide	a;
	NearSide	b;
	uint32_t	row_bytes;		/* size of a quantised row */
	uint32_t   *minima_b;
	NearScalars *scalars;

	/*
	 * Symmetric scan of a self-join: each pair is compared once, for the lists of both rows.  Rows
	 * are sorted approximately by their radii.
	 */
	bool		symmetric = false;
	float	   *levels = nullptr;	/* M of the proof, one for each kLevelRows places */
	bool		radii_are_small = false;	/* before the first round, from earlier joins or bounds */
	bool		merges = false;	/* probe: merge the rows of an earlier probe, which are in the lists */
};

/* Number of places per level, and number of levels for this many rows. */
constexpr uint32_t kLevelRows = 1024;

constexpr uint32_t
levels_of(uint64_t rows)
{
	return (uint32_t) (padded_thresholds(rows) / kLevelRows + 1);
}

/* Computes sort keys that bring rows with similar radii together (row_order.cu). */
void launch_radius_keys(const NearTask &task, uint32_t *keys, cudaStream_t stream);

/* Computes usual_rho. */
void launch_usual_rho(const NearTask &task, cudaStream_t stream);

/* Computes the thresholds of both sides from the current radii. */
void launch_near_thresholds(const NearTask &task, cudaStream_t stream);

/* --- initial radii: upper bounds of the k-th distances, computed before the first round */

/* Returns whether initial radii can be computed for these numbers of rows. */
inline bool
may_have_initial_radii(uint32_t rows_a, uint32_t rows_b, uint32_t k)
{
	return rows_a >= 16 && rows_b >= kProbeColumns && k < kProbeColumns;
}

/* Returns the number of rows per launch, such that a launch takes a short time. */
uint32_t	rows_per_launch(const NearTask &task);

/*
 * Computes keys that bring neighbouring rows together, for count rows of a or (of_b) b, from
 * place `first` on.  The side must have at least 16 rows.
 */
void launch_cell_keys(const NearTask &task, bool of_b, uint32_t first, uint32_t count,
					  uint32_t *keys, cudaStream_t stream);

/* Computes scalars->cells, when both sides are sorted by their keys. */
void launch_cells(const NearTask &task, cudaStream_t stream);

/* Lists up to this length are merged with those of earlier probes. */
constexpr uint32_t kMostMerged = 128;

/*
 * Stores in the lists of count rows of a the k nearest of the probed rows of b, by the distances of
 * quantised rows.  If rows are sorted by keys, kProbeColumns rows of b with similar keys are
 * compared.  Otherwise these are rows of the same partition, or a sample of b.  With task.merges,
 * the rows in the lists are compared, too.  The lengths of the lists must be zero.
 */
void launch_probe(const NearTask &task, uint32_t first, uint32_t count, cudaStream_t stream);

/* Computes radii of count rows of a from their lists. */
void launch_initial_radii(const NearTask &task, uint32_t first, uint32_t count, cudaStream_t stream);

/*
 * Counts candidates in a sample (scalars->hits), of a symmetric scan.  There must
 * be at least kLeastToCount rows.
 */
constexpr uint32_t kLeastToCount = 8192;
void launch_count(const NearTask &task, cudaStream_t stream);

/*
 * Estimated number of candidates of a symmetric scan: the average number per row, by the part that
 * contains the later row of the pair.
 */
struct CandidateCounts
{
	double		of_part[kCountParts];

	/* Returns the share of all pairs whose later row is in this part. */
	static double share(uint32_t part)
	{
		return (2.0 * part + 1.0) / (kCountParts * (double) kCountParts);
	}
};
CandidateCounts candidates_of(const uint32_t *hits, uint32_t rows);

/* Returns the counts if there are no radii, so that all pairs are candidates. */
CandidateCounts all_candidates(uint32_t rows);

/* --- the eps for choosing a filter */

/*
 * Returns an estimate of the median distance of rows of a to their k-th neighbours, from a
 * sample; or NaN if it is unknown.  buffer has kRadiusBuffer numbers on the device.
 * Waits for the device.
 */
constexpr uint32_t kSampledRadii = 64;
constexpr uint32_t kRadiusBuffer = 2 * kSampledRadii;
double		find_typical_radius(const RowTable &a, const RowTable &b, bool self, uint32_t k,
								float *buffer, cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_NEAREST_H */
