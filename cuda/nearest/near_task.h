/*-------------------------------------------------------------------------
 *
 * near_task.h
 *	  What a join for the nearest rows has beside other joins.
 *
 * Rows of a have radii (neighbor_lists.h), and a pair is a candidate if it may be
 * within that of its row of a.  The filter's thresholds are made of the radii that
 * there are before each round; old ones are safe, for radii only shrink.  The proof is
 * in doc/bound-nearest.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_NEAR_TASK_H
#define FASTED_CUDA_NEAR_TASK_H

#include "nearest/neighbor_lists.h"
#include "rows/form.h"
#include "rows/row_table.h"

namespace fasted
{

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

struct NearTask
{
	NeighborTable table;		/* lists null: the join is another one */
	bool		self;			/* no row is its own neighbour */
	FormBound	form;
	RowTable	a;				/* with the order of its places */
	RowTable	b;
	uint32_t	row_bytes;		/* of quantised rows */
	const void *values_a;
	const void *values_b;
	const RowNorm *norms_a;
	const RowNorm *norms_b;
	const uint32_t *keys_a;		/* by which rows are in order; null: by others */
	const uint32_t *keys_b;
	uint32_t   *thresholds_a;
	uint32_t   *thresholds_b;
	uint32_t   *minima_b;
	NearScalars *scalars;

	/*
	 * Of one set: each pair of rows is in one tile, for both of their lists, and rows are
	 * in about the order of their radii.
	 */
	bool		either = false;
	float	   *levels = nullptr;	/* M of the proof, of kLevelRows places each */
	bool		met = false;	/* lists have rows of earlier joins: radii are good */

	/* By the rows' numbers, of groups (filter_rows.h); null: all rows meet. */
	const uint32_t *labels_a = nullptr;
	const uint32_t *labels_b = nullptr;
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

/* Is it worth it to order both sides by keys? */
inline bool
wants_neighborhoods(uint32_t rows_a, uint32_t rows_b)
{
	return rows_a >= rows_b / 2;
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

#endif							/* FASTED_CUDA_NEAR_TASK_H */
