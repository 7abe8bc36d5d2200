/*-------------------------------------------------------------------------
 *
 * nearest_search.h
 *	  The search for nearest neighbours: initial radii, and the strategy of the scan.
 *
 *		 +--------- further probes ---------+
 *		 v                                  |
 *	  kAssignA -> kAssignB -> kProbe -------+--> kRadii -> kEstimate -> kReady -> kScan
 *		 ^                                                     |
 *		 +------------- rows with the largest radii -----------+
 *
 * Before the scan, each row gets an initial radius, an upper bound of its k-th distance.  Rows of
 * both sides are assigned to cells, as in an inverted file index: the cell of a row is its nearest
 * centre among a sample of b.  A probe compares each row of a with rows of b in its cell and in the
 * adjacent ones.  The scan then compares all rows that may be neighbours (rounds.h).  No phase waits
 * for the device; the caller polls.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_NEAREST_SEARCH_H
#define FASTED_CUDA_NEAREST_SEARCH_H

#include "schedule/choice.h"

namespace fasted
{

class Set;

enum class Scan
{
	kEachRow,					/* compare each row of a with all rows of b, for its own list */
	kSampleFirst,				/* self-join: with a sample of the rows first; then kSymmetric */
	kSymmetric					/* self-join: compare each pair once, for the lists of both rows */
};

struct ScanPlan
{
	Scan		scan = Scan::kEachRow;
	uint32_t	sample = 0;		/* kSampleFirst: number of rows of the sample, a prefix of the order */
};

enum class SearchStatus
{
	kPreparing,					/* initial radii are being computed */
	kReady,						/* returned once: the scan can start with task() */
	kScanning					/* also if the join has no search */
};

class NearestSearch
{
public:
	NearestSearch(Budget &budget, const RoundSettings &settings) : budget_(budget), settings_(settings) {}

	static size_t bytes();

	/*
	 * Returns a typical k-th distance within eps, for choosing a filter: the median of the finite
	 * bounds of some rows or, if there are none, an estimate from a sample.  Waits for the device.
	 */
	double		typical_distance(const FastedProblem &problem, const Set &a, const Set &b,
								 cudaStream_t stream);

	/* Starts a search of two sets that are quantised in the same form. */
	void		begin(const FastedProblem &problem, Set &a, Set &b, const JoinTask &task,
					  cudaStream_t stream);

	/* If this is the next slice of the last join: starts it, with the same order of rows and strategy. */
	bool		begin_next_slice(const FastedProblem &problem, const Set &a, const Set &b,
								 const JoinTask &task);

	/* Launches the next part of the current phase, if the previous part is complete. */
	SearchStatus advance();

	/* After the scan: returns true if a second one follows, with the new task(). */
	bool		begin_second_scan();

	/* Ends the search.  `forget`: no slice of the same join follows. */
	void		end(bool forget);

	bool is_preparing() const { return phase_ != Phase::kScan; }
	const ScanPlan &plan() const { return plan_; }
	const JoinTask &task() const { return task_; }
	const Set  &a() const { return *a_; }
	const Set  &b() const { return *b_; }

private:
	enum class Phase
	{
		kAssignA,				/* assign rows of a to cells */
		kAssignB,
		kProbe,					/* find near rows of b in these cells */
		kRadii,					/* compute radii from the canonical distances of these rows */
		kEstimate,				/* self-join: estimate the candidates of a symmetric scan */
		kReady,
		kScan
	};

	NearTask	probe_task() const;
	uint32_t	rows_of_phase() const;
	bool		launch_part();
	void		enter_next_phase();
	void		sort_by_cell();
	void		probe_last_parts(uint32_t parts);
	void		estimate_candidates();
	void		choose_plan(const CandidateCounts &candidates);
	bool		may_be_symmetric() const;
	void		restore_order();
	void		update_task();
	void		set_scan();

	Budget	   &budget_;
	const RoundSettings &settings_;
	cudaStream_t stream_ = nullptr;
	DeviceArray<NearScalars> scalars_;
	DeviceArray<float> sampled_radii_;
	PinnedArray<uint32_t> hits_;	/* of a sample, by part */
	Event		part_;			/* the last part that was launched */

	Set		   *a_ = nullptr;
	Set		   *b_ = nullptr;
	uint64_t	content_a_ = 0;	/* identify the rows of the last join */
	uint64_t	content_b_ = 0;
	JoinTask	task_;
	ScanPlan	plan_;
	Phase		phase_ = Phase::kScan;
	uint32_t	launched_ = 0;	/* number of rows for which this phase was launched */
	uint32_t	skipped_ = 0;	/* number of first rows of a, whose radii are small enough */
	uint32_t	probes_left_ = 0;	/* further probes of all rows */
	uint32_t	repeated_ = 0;	/* number of probes of the rows with the largest radii */
	bool		by_cell_ = false;	/* rows are sorted by cell, or by radius since */
	bool		merges_ = false;	/* lists have the rows of an earlier probe */
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_NEAREST_SEARCH_H */
