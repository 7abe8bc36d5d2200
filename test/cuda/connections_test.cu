/*-------------------------------------------------------------------------
 *
 * connections_test.cu
 *	  Connections, compared with those of all pairs, which a slow oracle checks.
 *
 *	connections_test [--small]
 *
 * The pairs that the engine omits must not change which core rows are connected.  It must return
 * each pair with a row that is not a core row.
 *
 *-------------------------------------------------------------------------
 */
#include "cases.h"
#include "engine/engine.h"

namespace
{

/* Nodes are the rows of a, and then those of b, if there is a b. */
struct Graph
{
	uint32_t	nodes;
	uint32_t	first_b;
	std::vector<uint32_t> counts;
	std::vector<uint32_t> label;

	Graph(const Sides &sides, const std::vector<FastedPair> &all)
		: nodes(sides.a->n + (sides.b ? sides.b->n : 0)), first_b(sides.b ? sides.a->n : 0),
		counts(nodes)
	{
		for (const FastedPair &p : all)
		{
			counts[p.a]++;
			counts[first_b + p.b]++;
		}
	}

	bool is_core(uint32_t node, uint32_t core_pairs) const { return counts[node] >= core_pairs; }

	uint32_t root(uint32_t node)
	{
		while (label[node] != node)
			node = label[node] = label[label[node]];
		return node;
	}

	/* Returns the smallest node to which each node is connected by pairs of core rows. */
	std::vector<uint32_t> connect(const std::vector<FastedPair> &pairs, uint32_t core_pairs)
	{
		label.resize(nodes);
		std::iota(label.begin(), label.end(), 0);
		for (const FastedPair &p : pairs)
		{
			uint32_t	a = p.a;
			uint32_t	b = first_b + p.b;

			if (!is_core(a, core_pairs) || !is_core(b, core_pairs))
				continue;
			a = root(a);
			b = root(b);
			label[std::max(a, b)] = std::min(a, b);
		}
		for (uint32_t node = 0; node < nodes; node++)
			label[node] = root(node);
		return label;
	}
};

/* Returns whether `some` is a subset of `all`, both sorted; with `once`, without duplicates. */
bool
is_part_of(const std::vector<FastedPair> &some, const std::vector<FastedPair> &all, bool once)
{
	size_t		at = 0;

	for (size_t i = 0; i < some.size(); i++)
	{
		if (once && i > 0 && pair_key(some[i]) == pair_key(some[i - 1]))
			return false;
		while (at < all.size() && pair_key(all[at]) < pair_key(some[i]))
			at++;
		if (at == all.size() || memcmp(&all[at], &some[i], sizeof(FastedPair)) != 0)
			return false;
	}
	return true;
}

/* Returns whether no pair with a row that is not a core row is missing. */
bool
has_open_pairs(Graph &graph, const std::vector<FastedPair> &some,
			   const std::vector<FastedPair> &all, uint32_t core_pairs)
{
	size_t		at = 0;

	for (const FastedPair &p : all)
	{
		if (graph.is_core(p.a, core_pairs) && graph.is_core(graph.first_b + p.b, core_pairs))
			continue;
		while (at < some.size() && pair_key(some[at]) < pair_key(p))
			at++;
		if (at == some.size() || pair_key(some[at]) != pair_key(p))
			return false;
	}
	return true;
}

bool
counts_right(const Sides &sides, const Graph &graph, const Outcome &outcome, uint32_t core_pairs)
{
	std::vector<uint32_t> found = outcome.counts[0];

	if (core_pairs == 0)
		return outcome.counts[0].empty() && outcome.counts[1].empty();
	if (sides.b)
		found.insert(found.end(), outcome.counts[1].begin(), outcome.counts[1].end());
	return found == graph.counts;
}

/* Returns what is wrong with the connections, given all pairs (sorted), or "". */
std::string
fault_of(const Sides &sides, const std::vector<FastedPair> &all, Outcome outcome,
		 uint32_t core_pairs, bool once)
{
	Graph		graph(sides, all);
	std::vector<FastedPair> &some = outcome.pairs;

	sort_pairs(&some);
	if (outcome.status != FASTED_OK)
		return "failed: " + outcome.error;
	if (outcome.stats.pairs != all.size())
		return "expected " + std::to_string(all.size()) + " pairs, found "
			+ std::to_string(outcome.stats.pairs);
	if (!is_part_of(some, all, once))
		return "a wrong or duplicate pair";
	if (!counts_right(sides, graph, outcome, core_pairs))
		return "counts";
	if (!has_open_pairs(graph, some, all, core_pairs))
		return "a pair with a row that is not a core row is missing";

	std::vector<uint32_t> expected = graph.connect(all, core_pairs);

	if (graph.connect(some, core_pairs) != expected)
		return "different components";
	if (once && core_pairs == 0)
	{
		size_t		components = 0;

		for (uint32_t node = 0; node < graph.nodes; node++)
			components += expected[node] == node;
		if (some.size() != graph.nodes - components)
			return "not a forest: " + std::to_string(some.size()) + " pairs";
	}
	return "";
}

const uint32_t all_core_pairs[] = {0, 2, 9, 70, 4000000000u};

/* Checks the same rows and eps for several values of core_pairs. */
std::string
fault_with(const Sides &sides, PanelProblem problem, bool once, size_t *few)
{
	Outcome		whole = run_join(sides, problem);

	if (whole.status != FASTED_OK)
		return whole.error;
	sort_pairs(&whole.pairs);
	problem.problem.output = FASTED_OUTPUT_CONNECTIONS;
	for (uint32_t core_pairs : all_core_pairs)
	{
		problem.problem.core_pairs = core_pairs;
		Outcome		outcome = run_join(sides, problem);
		std::string fault = fault_of(sides, whole.pairs, outcome, core_pairs, once);

		if (core_pairs == 9)
			*few = outcome.pairs.size();
		if (!fault.empty())
			return fault + ", core_pairs = " + std::to_string(core_pairs) + ", eps = "
				+ std::to_string(problem.problem.eps);
	}
	return "";
}

void
check_rows(const char *what, const Sides &sides, const std::vector<double> &eps, bool all_modes)
{
	for (const Mode &mode : modes)
	{
		if (!all_modes && &mode != &modes[5])
			continue;
		for (double each : eps)
		{
			std::string why;
			size_t		few = 0;
			std::string fault = fault_with(sides, problem_of(each, mode), true, &few);

			if (!fault.empty())
			{
				tap::ok(false, "%s, %u x %u, %s: %s", what, sides.a->n, sides.last().n, mode.name,
						fault.c_str());
				return;
			}
		}
	}
	tap::ok(true, "%s, %u x %u, d = %u", what, sides.a->n, sides.last().n, sides.a->d);
}

/* Compares all pairs with the oracle, so that other tests can rely on them. */
void
check_oracle(const Rows &rows, double eps)
{
	std::vector<double> distances = all_distances(rows, rows);
	std::string why;
	Outcome		outcome = run_join(rows, problem_of(eps, modes[5]));

	tap::ok(same_as_oracle(rows, distances, eps, outcome, &why), "all pairs, eps = %g: %s", eps,
			why.c_str());
}

/* Small cases for compute-sanitizer. */
void
check_small()
{
	check_rows("clustered", clustered_rows(301, 33, 10, 0.1f, 7), {0.9}, false);
	check_rows("all equal", Rows(150, 7), {0.0}, false);
	check_rows("a chain", chain(500, 2), {1.0}, false);
}

void
check_kinds()
{
	for (uint32_t n : {0, 1, 2, 3, 33})
		check_rows("clustered", clustered_rows(n, 33, 10, 0.1f, n + 1), {0.0, 0.8, INFINITY}, false);
	check_rows("clustered", clustered_rows(1001, 33, 10, 0.1f, 7), {0.9}, true);
	check_rows("all equal", Rows(1500, 7), {0.0}, true);
	for (int order = 0; order < 3; order++)
		check_rows("a chain", chain(20011, order), {order < 2 ? 1.0 : 7.0}, false);
	check_rows("clustered", clustered_rows(20003, 96, 300, 0.2f, 3), {2.7}, false);
	check_rows("duplicates", clustered_rows(6007, 40, 900, 0.0f, 4), {0.0, 5.0}, false);
	check_rows("tight clusters", clustered_rows(3001, 40, 50, 1e-3f, 5), {0.008, 0.01, 1e30}, false);
}

void
check_two_sets()
{
	for (const auto &size : {std::pair<uint32_t, uint32_t>(1, 3000), {3000, 1}, {1501, 2100}, {0, 5}})
	{
		Rows		a = clustered_rows(size.first, 40, 60, 0.2f, 11);
		Rows		b = clustered_rows(size.second, 40, 60, 0.2f, 11);

		check_rows("two sets", Sides(a, b), {1.2, 1.8, INFINITY}, size.first == 1501);
	}
}

/* Limits the memory for candidates, for open pairs, and for rows. */
void
check_room()
{
	Rows		rows = clustered_rows(9001, 64, 100, 0.2f, 21);
	std::string fault;
	size_t		few = 0;
	size_t		others = 0;

	for (double eps : {1.9, 2.3})
	{
		check_oracle(rows, eps);
		tuning.candidates = fasted::kMostAtOnce;
		fault = fault_with(rows, problem_of(eps, modes[5]), true, &few);
		tap::ok(fault.empty(), "few candidates at a time, eps = %g: %s", eps, fault.c_str());
		tuning.candidates = 0;
		for (uint64_t room : {0, 1000, 30000})
		{
			tuning.open_pairs = room;
			fault = fault_with(rows, problem_of(eps, modes[5]), true, &others);
			tap::ok(fault.empty(), "%u open pairs, eps = %g: %s (%zu pairs, %zu without limit)",
					(unsigned) room, eps, fault.c_str(), others, few);
		}
		tuning.open_pairs = UINT64_MAX;
		for (int m : {0, 3, 5})
		{
			PanelProblem problem = problem_of(eps, modes[m]);

			problem.options.device_memory_limit = little_memory(modes[m], rows.n, rows.d);
			problem.problem.output = FASTED_OUTPUT_CONNECTIONS;
			uint32_t	panels = run_join(rows, problem).stats.panels;
			problem.problem.output = FASTED_OUTPUT_PAIRS;
			fault = fault_with(rows, problem, false, &others);
			tap::ok(fault.empty() && panels > 1, "%s, %u panels, eps = %g: %s", modes[m].name,
					panels, eps, fault.c_str());
		}
	}
}

void
check_cosine()
{
	Rows		rows = clustered_rows(4001, 48, 80, 0.2f, 31);
	std::string fault;
	size_t		few = 0;

	for (double eps : {0.01, 0.03, 0.1})
	{
		PanelProblem problem = problem_of(eps, modes[5]);

		problem.options.metric = FASTED_METRIC_COSINE;
		fault = fault_with(rows, problem, true, &few);
		tap::ok(fault.empty(), "cosine, eps = %g: %s", eps, fault.c_str());
	}
}

/* Inner products, which may be negative, and rows of bits. */
void
check_metrics()
{
	Rows		rows = clustered_rows(4001, 48, 80, 0.2f, 32);
	Rows		bits = bit_rows(3001, 300, 0.1, 33);
	PanelProblem product = problem_of(0, modes[5]);
	std::string fault;
	size_t		few = 0;

	product.options.metric = FASTED_METRIC_INNER_PRODUCT;
	for (double eps : {-60.0, -40.0, -25.0})
	{
		product.problem.eps = eps;
		fault = fault_with(rows, product, true, &few);
		tap::ok(fault.empty(), "inner product, eps = %g: %s", eps, fault.c_str());
	}
	for (double eps : {0.0, 3.0, 12.0})
	{
		fault = fault_with(bits, bits_problem(eps, modes[5], FASTED_METRIC_HAMMING, 300), true, &few);
		tap::ok(fault.empty(), "Hamming, eps = %g: %s", eps, fault.c_str());
	}
	for (double eps : {0.05, 0.2, 1.0})
	{
		fault = fault_with(bits, bits_problem(eps, modes[6], FASTED_METRIC_JACCARD, 300), true, &few);
		tap::ok(fault.empty(), "Jaccard, eps = %g: %s", eps, fault.c_str());
	}
}

FastedEngine base;

int
two_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	int			count = fasted_engine()->devices(devices, names, most);

	if (count == 1)
		memcpy(names[count++], names[0], FASTED_DEVICE_NAME);
	return count;
}

/* Several devices, which retain connections from slice to slice. */
void
check_devices()
{
	const FastedEngine *one = tested_engine;
	Rows		rows = clustered_rows(20003, 96, 300, 0.2f, 41);
	std::string fault;
	size_t		few = 0;
	size_t		by_one = 0;

	base = *fasted_engine();
	base.devices = two_devices;
	for (double eps : {2.4, 2.7})
	{
		fault_with(rows, problem_of(eps, modes[5]), true, &by_one);
		tested_engine = fasted_multi_gpu_engine(&base);
		fault = fault_with(rows, problem_of(eps, modes[5]), false, &few);
		tap::ok(fault.empty(), "devices, eps = %g: %s (%zu pairs, one: %zu)", eps, fault.c_str(),
				few, by_one);
		tested_engine = one;
	}
}

}								/* namespace */

int
main(int argc, char **argv)
{
	bool		small = argc > 1 && strcmp(argv[1], "--small") == 0;

	if (small)
	{
		check_small();
		return tap::done();
	}
	check_devices();
	check_cosine();
	check_metrics();
	check_two_sets();
	check_room();
	check_kinds();
	return tap::done();
}
