/*-------------------------------------------------------------------------
 *
 * representatives_test.cu
 *	  Representatives, compared with those that all pairs determine.
 *
 *	representatives_test [--small]
 *
 * The pairs that the engine omits must not change the representative of a row, or its distance.  If
 * all rows are resident, one pair is returned for each row that is not a representative.
 *
 *-------------------------------------------------------------------------
 */
#include "cases.h"

namespace
{

/* By rank: the rank of each row's representative, and its distance. */
struct Kept
{
	std::vector<uint32_t> representative;
	std::vector<double> dist;
	size_t		dropped = 0;

	bool operator==(const Kept &other) const
	{
		return representative == other.representative
			&& (dist.empty() || memcmp(dist.data(), other.dist.data(), dist.size() * sizeof(double)) == 0);
	}
};

/* Visits the rows by rank, as the definition says. */
Kept
keep(uint32_t rows, const std::vector<FastedPair> &pairs, const std::vector<uint32_t> &ranks)
{
	std::vector<std::vector<std::pair<uint32_t, double>>> earlier(rows);
	Kept		kept;

	for (const FastedPair &p : pairs)
	{
		uint32_t	a = ranks.empty() ? p.a : ranks[p.a];
		uint32_t	b = ranks.empty() ? p.b : ranks[p.b];

		earlier[std::max(a, b)].push_back({std::min(a, b), p.dist});
	}
	kept.representative.resize(rows);
	kept.dist.resize(rows);
	for (uint32_t row = 0; row < rows; row++)
	{
		kept.representative[row] = row;
		for (const auto &[other, dist] : earlier[row])
		{
			bool		first = kept.representative[row] == row;

			if (kept.representative[other] == other && (first || dist < kept.dist[row]
												|| (dist == kept.dist[row] && other < kept.representative[row])))
			{
				kept.representative[row] = other;
				kept.dist[row] = dist;
			}
		}
		kept.dropped += kept.representative[row] != row;
	}
	return kept;
}

std::vector<uint32_t>
some_ranks(uint32_t rows, int kind)
{
	std::vector<uint32_t> ranks(kind == 0 ? 0 : rows);
	std::mt19937_64 random(rows + 5);

	std::iota(ranks.begin(), ranks.end(), 0);
	if (kind == 1)
		std::shuffle(ranks.begin(), ranks.end(), random);
	if (kind == 2)
		std::reverse(ranks.begin(), ranks.end());
	return ranks;
}

/* least: the join must return only one pair for each represented row. */
bool
check(const char *what, const Rows &rows, PanelProblem problem, bool least)
{
	Outcome		whole = run_join(rows, problem);

	sort_pairs(&whole.pairs);
	problem.problem.output = FASTED_OUTPUT_REPRESENTATIVES;
	for (int kind = 0; kind < 3; kind++)
	{
		std::vector<uint32_t> ranks = some_ranks(rows.n, kind);
		problem.problem.ranks = ranks.empty() ? nullptr : ranks.data();
		Outcome		some = run_join(rows, problem);
		Kept		expected = keep(rows.n, whole.pairs, ranks);

		if (some.status != FASTED_OK || !(keep(rows.n, some.pairs, ranks) == expected)
			|| some.stats.pairs != whole.pairs.size()
			|| (least ? some.pairs.size() != expected.dropped : some.pairs.size() > whole.pairs.size()))
		{
			tap::ok(false, "%s, %u rows, ranks %d: %zu of %zu pairs, %zu represented, counted %llu, %s",
					what, rows.n, kind, some.pairs.size(), whole.pairs.size(), expected.dropped,
					(unsigned long long) some.stats.pairs, some.error.c_str());
			return false;
		}
	}
	return true;
}

void
check_rows(const char *what, const Rows &rows, const std::vector<double> &eps, bool least = true,
		   int mode = 5)
{
	bool		right = true;

	for (double each : eps)
		right = right && check(what, rows, problem_of(each, modes[mode]), least);
	if (right)
		tap::ok(true, "%s, %u rows of %u dimensions, %s", what, rows.n, rows.d, modes[mode].name);
}

void
check_room()
{
	Rows		rows = clustered_rows(9001, 64, 100, 0.2f, 21);
	PanelProblem problem = problem_of(2.2, modes[5]);

	tuning.candidates = fasted::kMostAtOnce;
	check_rows("few candidates at a time", rows, {1.9, 2.2, 2.6});
	tuning.candidates = 0;
	for (uint64_t room : {0, 1, 30000})
	{
		tuning.open_pairs = room;
		check_rows("few open pairs", rows, {1.9, 2.2, 2.6}, false);
	}
	tuning.open_pairs = UINT64_MAX;
	problem.options.device_memory_limit = little_memory(modes[5], rows.n, rows.d);
	tap::ok(check("panels", rows, problem, false), "panels");
}

void
check_cosine()
{
	Rows		rows = clustered_rows(4001, 48, 80, 0.2f, 31);
	PanelProblem problem = problem_of(0.03, modes[5]);

	problem.options.metric = FASTED_METRIC_COSINE;
	tap::ok(check("cosine", rows, problem, true), "cosine");
}

/* Negative distances, equal ones, and rows of bits. */
void
check_metrics()
{
	Rows		rows = clustered_rows(4001, 48, 80, 0.2f, 32);
	Rows		integers = clustered_rows(4001, 24, 80, 0.3f, 33);
	Rows		bits = bit_rows(3001, 300, 0.1, 34);

	for (float &v : integers.values)
		v = std::rint(2 * v);
	for (double eps : {-60.0, -40.0, 0.0})
	{
		PanelProblem problem = problem_of(eps, modes[5]);

		problem.options.metric = FASTED_METRIC_INNER_PRODUCT;
		tap::ok(check("inner product", rows, problem, eps < 0)
				&& check("inner product of integers", integers, problem, eps < 0),
				"inner product, eps = %g", eps);
	}
	tap::ok(check("Hamming", bits, bits_problem(5, modes[5], FASTED_METRIC_HAMMING, 300), true),
			"Hamming");
	tap::ok(check("Jaccard", bits, bits_problem(0.1, modes[6], FASTED_METRIC_JACCARD, 300), true),
			"Jaccard");
}

}								/* namespace */

int
main(int argc, char **argv)
{
	bool		small = argc > 1 && strcmp(argv[1], "--small") == 0;

	check_rows("clustered", clustered_rows(301, 33, 10, 0.1f, 7), {0.9});
	check_rows("a shuffled chain", chain(500, 2), {1.0}, false);
	if (small)
		return tap::done();
	for (uint32_t n : {0, 1, 2, 3, 33, 1001, 20003})
		check_rows("clustered", clustered_rows(n, 33, n / 50 + 1, 0.1f, n + 1), {0.0, 0.8, 1.0});
	check_rows("all pairs within eps", clustered_rows(1500, 12, 5, 0.1f, 2), {INFINITY});
	for (int m = 0; m < 5; m++)
		check_rows("clustered", clustered_rows(2001, 40, 40, 0.1f, 9), {0.8, 1.0}, true, m);
	check_rows("all equal", Rows(1500, 7), {0.0, 1.0});
	check_rows("duplicates", clustered_rows(6007, 40, 900, 0.0f, 4), {0.0, 5.0});
	for (int order = 0; order < 3; order++)
		check_rows("a chain", chain(20011, order), {0.5, 1.0, 7.0}, false);
	check_room();
	check_cosine();
	check_metrics();
	return tap::done();
}
