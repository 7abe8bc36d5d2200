/*-------------------------------------------------------------------------
 *
 * join_helper.h
 *	  Runs a whole join as the extension does, by panel_join.h and engine.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_TEST_JOIN_HELPER_H
#define FASTED_TEST_JOIN_HELPER_H

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/panel_join.h"
#include "oracle.h"
#include "schedule/context.h"

extern "C" const FastedEngine *fasted_engine(void);

/* The engine under test. */
inline const FastedEngine *tested_engine = fasted_engine();

struct Outcome
{
	FastedStatus status = FASTED_OK;
	std::string error;
	std::vector<FastedPair> pairs;
	std::vector<uint32_t> counts[2];
	FastedStats stats = {};
	bool		was_full = false;
	bool		registered = false;	/* rows were put from registered memory */
};

/* The rows of each side; a self-join if there is no b. */
struct Sides
{
	const Rows *a;
	const Rows *b = nullptr;

	Sides(const Rows &rows) : a(&rows) {}
	Sides(const Rows &a_, const Rows &b_) : a(&a_), b(&b_) {}
	int count() const { return b == nullptr ? 1 : 2; }
	const Rows &side(int i) const { return i == 0 ? *a : *b; }
	const Rows &last() const { return side(count() - 1); }
};

/* Stages rows [first, first + count).  Returns FASTED_OK, FASTED_FULL or a failure. */
inline FastedStatus
stage_rows(PanelJoin *join, int side, const Rows &rows, uint64_t first, uint64_t count,
		   uint64_t *staged)
{
	*staged = 0;
	while (*staged < count)
	{
		float	   *room;
		size_t		capacity;
		FastedStatus status = panel_join_stage(join, side, &room, &capacity);

		if (status != FASTED_OK)
			return status;

		/* sometimes one row less than the capacity */
		size_t		n = std::min<uint64_t>(count - *staged, capacity);

		if (n > 3 && *staged % 5 == 1)
			n -= 1;
		memcpy(room, rows.row(first + *staged), n * rows.d * sizeof(float));
		status = panel_join_commit(join, side, n);
		if (status != FASTED_OK)
			return status;
		*staged += n;
	}
	return FASTED_OK;
}

constexpr uint64_t kMostPut = 300;	/* rows per call */

/* Alternates between staging rows and putting them from registered memory, which is reused. */
inline FastedStatus
put_rows(PanelJoin *join, int side, const Rows &rows, std::vector<float> &registered, uint64_t *there)
{
	FastedStatus status = FASTED_OK;

	*there = 0;
	for (uint64_t turn = 1; *there < rows.n && status == FASTED_OK; turn++)
	{
		uint64_t	count = std::min<uint64_t>(rows.n - *there, turn * 37 % kMostPut + 1);
		uint64_t	staged = 0;
		size_t		taken = 0;

		memcpy(registered.data(), rows.row(*there), count * rows.d * sizeof(float));
		if (turn % 4 == 0)
			status = stage_rows(join, side, rows, *there, count, &staged);
		else
			status = panel_join_put(join, side, registered.data(), count, &taken);
		*there += staged + taken;
		if (status == FASTED_OK)
			status = panel_join_wait_read(join, side, true);
		memset(registered.data(), 0xff, registered.size() * sizeof(float));
	}
	panel_join_unregister_memory(join, side);
	return status;
}

/* Loads the rows of a side. */
inline FastedStatus
fill_side(PanelJoin *join, int side, const Rows &rows, Outcome *outcome, uint64_t *staged)
{
	std::vector<float> memory;

	outcome->registered = false;
	if (fasted::tuning.always_register)
	{
		memory.resize(kMostPut * rows.d);
		outcome->registered = panel_join_register_memory(join, side, memory.data(), memory.size() * sizeof(float));
	}
	return outcome->registered ? put_rows(join, side, rows, memory, staged)
		: stage_rows(join, side, rows, 0, rows.n, staged);
}

/* Loads all rows and starts; if memory is full, reads back the loaded ones first. */
inline FastedStatus
fill_and_start(PanelJoin *join, const Sides &sides, Outcome *outcome)
{
	uint64_t	staged[2] = {0, 0};
	uint64_t	rows[2] = {sides.a->n, sides.last().n};
	FastedStatus status = FASTED_OK;

	for (int side = 0; side < sides.count() && status == FASTED_OK; side++)
		status = fill_side(join, side, sides.side(side), outcome, &staged[side]);
	outcome->was_full = status == FASTED_FULL;
	if (outcome->was_full)
		status = FASTED_OK;
	for (int side = 0; side < sides.count() && outcome->was_full && status == FASTED_OK; side++)
	{
		std::vector<float> back(staged[side] * sides.a->d);

		status = panel_join_read_back(join, side, 0, staged[side], back.data());
	}
	return status == FASTED_OK ? panel_join_start(join, rows) : status;
}

/* take is called with every batch, and returns false to stop the join. */
template <class Take>
inline Outcome
run_join(const Sides &sides, PanelProblem problem, const Take &take)
{
	Outcome		outcome;
	PanelJoin  *join = nullptr;
	FastedBatch batch;
	uint64_t	staged;
	bool		stopped = false;

	/* rows of bits and of doubles have another number of floats */
	if (problem.options.dimensions == 0)
		problem.options.dimensions = sides.a->d;
	problem.sides = sides.count();
	outcome.status = panel_join_open(tested_engine, &problem, &join);
	if (outcome.status == FASTED_OK)
		outcome.status = fill_and_start(join, sides, &outcome);
	while (outcome.status == FASTED_OK && !stopped)
	{
		outcome.status = panel_join_next(join, 20, &batch);
		if (outcome.status == FASTED_OK)
			stopped = !take(batch.pairs, batch.npairs);
		else if (outcome.status == FASTED_WANT_ROWS)
			outcome.status = stage_rows(join, batch.side, sides.side(batch.side), batch.first_row,
										batch.row_count, &staged);
		else if (outcome.status == FASTED_AGAIN)
			outcome.status = FASTED_OK;
	}
	if (FASTED_FAILED(outcome.status))
		outcome.error = panel_join_last_error(tested_engine, join);
	for (int side = 0; side < sides.count() && outcome.status == FASTED_DONE; side++)
	{
		const uint32_t *counts = panel_join_counts(join, side);

		if (counts != nullptr)
			outcome.counts[side].assign(counts, counts + sides.side(side).n);
	}
	if (outcome.status == FASTED_DONE || stopped)
		outcome.status = FASTED_OK;
	panel_join_stats(join, &outcome.stats);
	panel_join_close(join);
	return outcome;
}

inline Outcome
run_join(const Sides &sides, const PanelProblem &problem)
{
	std::vector<FastedPair> pairs;
	Outcome		outcome = run_join(sides, problem, [&](const FastedPair *p, size_t n)
	{
		pairs.insert(pairs.end(), p, p + n);
		return true;
	});

	outcome.pairs = std::move(pairs);
	return outcome;
}

/* Returns whether `counted` has the number of pairs of each row in `outcome`. */
inline bool
same_counts(const Sides &sides, const Outcome &counted, const Outcome &outcome)
{
	std::vector<uint32_t> expected[2];

	for (int side = 0; side < sides.count(); side++)
		expected[side].resize(sides.side(side).n);
	for (const FastedPair &p : outcome.pairs)
	{
		expected[0][p.a]++;
		expected[sides.count() - 1][p.b]++;
	}
	return counted.counts[0] == expected[0] && counted.counts[1] == expected[1];
}

/* Compares the result with the distances bit for bit; "why" receives the first difference. */
inline bool
same_as_oracle(const Sides &sides, const std::vector<double> &distances, double eps,
			   const Outcome &outcome, std::string *why)
{
	const uint32_t na = sides.a->n;
	const uint32_t nb = sides.last().n;
	std::vector<bool> seen((size_t) na * nb);
	char		text[200];
	size_t		expected = 0;

	if (FASTED_FAILED(outcome.status))
	{
		*why = outcome.error;
		return false;
	}
	for (const FastedPair &p : outcome.pairs)
	{
		size_t		at = (size_t) p.a * nb + p.b;
		bool		there = p.a < na && p.b < nb && (sides.b != nullptr || p.a < p.b);

		if (!there || seen[at] || memcmp(&distances[at], &p.dist, sizeof(double)) != 0
			|| !(p.dist <= eps))
		{
			snprintf(text, sizeof(text), "pair (%u, %u, %.17g) is wrong%s", p.a, p.b,
					 p.dist, there && seen[at] ? ": twice" : "");
			*why = text;
			return false;
		}
		seen[at] = true;
	}
	for (uint32_t a = 0; a < na; a++)
	{
		for (uint32_t b = sides.b != nullptr ? 0 : a + 1; b < nb; b++)
			expected += distances[(size_t) a * nb + b] <= eps;
	}
	if (expected != outcome.pairs.size())
	{
		snprintf(text, sizeof(text), "%zu pairs, expected %zu", outcome.pairs.size(), expected);
		*why = text;
		return false;
	}
	return true;
}

#endif							/* FASTED_TEST_JOIN_HELPER_H */
