/*-------------------------------------------------------------------------
 *
 * join_helper.h
 *	  A whole join through engine.h, as the extension does it.
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
#include "oracle.h"
#include "schedule/join.h"

extern "C" const FastedEngine *fasted_engine(void);

struct Outcome
{
	FastedStatus status = FASTED_OK;
	std::string error;
	std::vector<FastedPair> pairs;
	FastedStats stats = {};
	bool		was_full = false;
	bool		read_back_right = true;
	bool		lent = false;	/* rows were put, where tuning.always_lend */
};

/* Stages rows [first, first + count); FASTED_OK, FASTED_FULL or a failure. */
inline FastedStatus
stage_rows(FastedJoin *join, const Rows &rows, uint64_t first, uint64_t count,
		   uint64_t *staged)
{
	*staged = 0;
	while (*staged < count)
	{
		float	   *room;
		size_t		capacity;
		FastedStatus status = fasted_engine()->stage(join, &room, &capacity);

		if (status != FASTED_OK)
			return status;

		/* not always all of it */
		size_t		n = std::min<uint64_t>(count - *staged, capacity);

		if (n > 3 && *staged % 5 == 1)
			n -= 1;
		memcpy(room, rows.row(first + *staged), n * rows.d * sizeof(float));
		status = fasted_engine()->commit(join, n);
		if (status != FASTED_OK)
			return status;
		*staged += n;
	}
	return FASTED_OK;
}

constexpr uint64_t kMostPut = 300;	/* rows at a time */

/* Puts rows from lent memory, which other rows come into then, or stages them, in turn. */
inline FastedStatus
put_rows(FastedJoin *join, const Rows &rows, std::vector<float> &lent, uint64_t *there)
{
	FastedStatus status = FASTED_OK;

	*there = 0;
	for (uint64_t turn = 1; *there < rows.n && status == FASTED_OK; turn++)
	{
		uint64_t	count = std::min<uint64_t>(rows.n - *there, turn * 37 % kMostPut + 1);
		uint64_t	staged = 0;
		size_t		taken = 0;

		memcpy(lent.data(), rows.row(*there), count * rows.d * sizeof(float));
		if (turn % 4 == 0)
			status = stage_rows(join, rows, *there, count, &staged);
		else
			status = fasted_engine()->put(join, lent.data(), count, &taken);
		*there += staged + taken;
		if (status == FASTED_OK)
			status = fasted_engine()->settle(join);
		memset(lent.data(), 0xff, lent.size() * sizeof(float));
	}
	fasted_engine()->withdraw(join);
	return status;
}

/* "take": called with every batch; false stops the join early. */
template <class Take>
inline Outcome
run_join(const Rows &rows, FastedProblem problem, const Take &take)
{
	const FastedEngine *engine = fasted_engine();
	Outcome		outcome;
	FastedJoin *join = nullptr;
	FastedBatch batch;
	std::vector<float> memory;
	uint64_t	staged = 0;
	bool		stopped = false;

	problem.dimensions = rows.d;
	outcome.status = engine->open(&problem, &join);
	if (outcome.status == FASTED_OK && fasted::tuning.always_lend)
	{
		memory.resize(kMostPut * rows.d);
		outcome.lent = engine->lend(join, memory.data(), memory.size() * sizeof(float));
	}
	if (outcome.status == FASTED_OK)
		outcome.status = outcome.lent ? put_rows(join, rows, memory, &staged)
			: stage_rows(join, rows, 0, rows.n, &staged);
	if (outcome.status == FASTED_FULL)
	{
		std::vector<float> back(staged * rows.d);

		outcome.was_full = true;
		outcome.status = engine->read_back(join, 0, staged, back.data());
		outcome.read_back_right = staged == 0
			|| memcmp(back.data(), rows.row(0), back.size() * sizeof(float)) == 0;
	}
	if (outcome.status == FASTED_OK)
		outcome.status = engine->start(join, rows.n);
	while (outcome.status == FASTED_OK)
	{
		outcome.status = engine->next(join, 20, &batch);
		if (outcome.status == FASTED_OK)
		{
			if (!take(batch.pairs, batch.npairs))
			{
				stopped = true;
				break;
			}
		}
		else if (outcome.status == FASTED_WANT_ROWS)
			outcome.status = stage_rows(join, rows, batch.first_row,
										batch.row_count, &staged);
		else if (outcome.status == FASTED_AGAIN)
			outcome.status = FASTED_OK;
	}
	if (FASTED_FAILED(outcome.status))
		outcome.error = engine->last_error(join);
	if (outcome.status == FASTED_DONE || stopped)
		outcome.status = FASTED_OK;
	engine->stats(join, &outcome.stats);
	engine->close(join);
	return outcome;
}

inline Outcome
run_join(const Rows &rows, const FastedProblem &problem)
{
	std::vector<FastedPair> pairs;
	Outcome		outcome = run_join(rows, problem, [&](const FastedPair *p, size_t n)
	{
		pairs.insert(pairs.end(), p, p + n);
		return true;
	});

	outcome.pairs = std::move(pairs);
	return outcome;
}

/* Does the engine count as many pairs as it handed out, and hand out none then? */
inline bool
counts_alike(const Rows &rows, FastedProblem problem, const Outcome &outcome, std::string *why)
{
	problem.output = FASTED_OUTPUT_COUNT;

	Outcome		counted = run_join(rows, problem);

	if (counted.status == FASTED_OK && counted.pairs.empty()
		&& counted.stats.pairs == outcome.pairs.size())
		return true;
	*why = std::to_string(counted.stats.pairs) + " pairs counted of "
		+ std::to_string(outcome.pairs.size()) + ", " + std::to_string(counted.pairs.size())
		+ " handed out meanwhile " + counted.error;
	return false;
}

/* Is the result what the distances say, bit for bit?  "why" says what is not. */
inline bool
same_as_oracle(const Rows &rows, const std::vector<double> &distances, double eps,
			   const Outcome &outcome, std::string *why)
{
	std::vector<bool> seen((size_t) rows.n * rows.n);
	char		text[200];
	size_t		expected = 0;

	if (FASTED_FAILED(outcome.status))
	{
		*why = outcome.error;
		return false;
	}
	for (const FastedPair &p : outcome.pairs)
	{
		size_t		at = (size_t) p.a * rows.n + p.b;

		if (p.a >= p.b || p.b >= rows.n || seen[at]
			|| memcmp(&distances[at], &p.dist, sizeof(double)) != 0 || !(p.dist <= eps))
		{
			snprintf(text, sizeof(text), "pair (%u, %u, %.17g) is wrong%s", p.a, p.b,
					 p.dist, p.a < p.b && p.b < rows.n && seen[at] ? ": twice" : "");
			*why = text;
			return false;
		}
		seen[at] = true;
	}
	for (uint32_t a = 0; a < rows.n; a++)
	{
		for (uint32_t b = a + 1; b < rows.n; b++)
			expected += distances[(size_t) a * rows.n + b] <= eps;
	}
	if (expected != outcome.pairs.size())
	{
		snprintf(text, sizeof(text), "%zu pairs, expected %zu",
				 outcome.pairs.size(), expected);
		*why = text;
		return false;
	}
	return true;
}

#endif							/* FASTED_TEST_JOIN_HELPER_H */
