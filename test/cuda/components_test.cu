/*-------------------------------------------------------------------------
 *
 * components_test.cu
 *	  Searches for nearest neighbours in other components (FastedComponents), compared bit for bit
 *	  with all distances.
 *
 *	components_test				all tests
 *	components_test --small		a subset for compute-sanitizer
 *
 *-------------------------------------------------------------------------
 */
#include <map>

#include "cases.h"

namespace
{

constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kList = 16;	/* length of the neighbour lists before the searches */
constexpr uint32_t kCoreRank = 10;

/* Rows, and the clusters that they are from. */
struct Data
{
	const char *what;
	const Metric &metric;
	uint32_t	dimensions;
	Rows		rows;
	std::vector<uint32_t> cluster;
	std::vector<double> distances = {};	/* of all pairs; empty: they are computed when needed */

	double distance(uint32_t i, uint32_t j) const
	{
		return distances.empty() ? metric.distance(rows.row(i), rows.row(j), rows.d)
			: distances[(size_t) i * rows.n + j];
	}
};

/* Rows of which the nearest row of another component is wanted; arrays are those of engine.h. */
struct Search
{
	std::string name;
	std::vector<uint32_t> positions;	/* the rows */
	std::vector<uint32_t> component;	/* of all rows */
	std::vector<double> core;	/* of all rows */
	std::vector<uint32_t> ranks = {};	/* of all rows; empty: the row number */
	std::vector<FastedPartition> partitions = {};	/* of all rows; empty: no partitions */
	std::vector<double> bound = {};	/* of the rows in positions */
	std::vector<FastedNeighbor> nearest = {};	/* without bounds; its row is kNone if there is none */
};

struct Lists
{
	std::vector<uint32_t> lengths;
	std::vector<FastedNeighbor> neighbors;
};

bool
comes_before(const FastedNeighbor &x, const FastedNeighbor &y)
{
	return x.dist < y.dist || (x.dist == y.dist && x.row < y.row);
}

/* Finds the nearest row of each row in positions, by comparing all rows. */
void
find_nearest(const Data &data, Search *search)
{
	std::vector<uint32_t> partition(data.rows.n, search->partitions.empty() ? 1 : 0);

	for (uint32_t g = 0; g < search->partitions.size(); g++)
		std::fill_n(partition.begin() + search->partitions[g].first_a, search->partitions[g].rows_a, g + 1);
	search->nearest.assign(search->positions.size(), {kNone, 0});
	parallel((uint32_t) search->positions.size(), [&](uint32_t i)
	{
		uint32_t	x = search->positions[i];
		FastedNeighbor best = {kNone, 0};

		for (uint32_t y = 0; y < data.rows.n; y++)
		{
			if (search->component[x] == search->component[y] || partition[x] == 0
				|| partition[x] != partition[y] || std::isinf(search->core[x])
				|| std::isinf(search->core[y]))
				continue;

			double		dist = data.distance(x, y);
			FastedNeighbor other = {search->ranks.empty() ? y : search->ranks[y],
				std::max(dist, std::max(search->core[x], search->core[y]))};

			if (!std::isnan(dist) && (best.row == kNone || comes_before(other, best)))
				best = other;
		}
		search->nearest[i] = best;
	});
}

/* The lists of the kList nearest rows of all rows, and the core distances from them. */
Lists
all_lists(const Data &data)
{
	Lists		lists = {std::vector<uint32_t>(data.rows.n),
		std::vector<FastedNeighbor>((size_t) data.rows.n * kList)};

	parallel(data.rows.n, [&](uint32_t x)
	{
		std::vector<FastedNeighbor> others;

		for (uint32_t y = 0; y < data.rows.n; y++)
		{
			if (y != x && !std::isnan(data.distance(x, y)))
				others.push_back({y, data.distance(x, y)});
		}
		lists.lengths[x] = (uint32_t) std::min<size_t>(kList, others.size());
		std::partial_sort(others.begin(), others.begin() + lists.lengths[x], others.end(), comes_before);
		std::copy_n(others.begin(), lists.lengths[x], lists.neighbors.begin() + (size_t) x * kList);
	});
	return lists;
}

std::vector<double>
cores_of(const Lists &lists)
{
	std::vector<double> cores;

	for (uint32_t x = 0; x < lists.lengths.size(); x++)
	{
		uint32_t	rank = std::min(lists.lengths[x], kCoreRank);

		cores.push_back(rank == 0 ? INFINITY : lists.neighbors[(size_t) x * kList + rank - 1].dist);
	}
	return cores;
}

/* Returns whether the same neighbours are in both lists. */
bool
same_lists(const Lists &x, const Lists &y)
{
	bool		same = x.lengths == y.lengths;

	for (size_t i = 0; same && i < x.neighbors.size(); i++)
	{
		const FastedNeighbor &p = x.neighbors[i];
		const FastedNeighbor &q = y.neighbors[i];

		same = i % kList >= x.lengths[i / kList] || (p.row == q.row && memcmp(&p.dist, &q.dist, 8) == 0);
	}
	return same;
}

/* A context with a set of all rows, and two sets with a half of the rows each. */
class Searcher
{
public:
	Searcher(const Data &data, const Mode &mode, size_t memory, bool halves)
		: data_(data)
	{
		PanelProblem problem = data.metric.problem(0, mode, data.dimensions);
		uint32_t	n = data.rows.n;

		problem.options.device_memory_limit = memory;
		check(tested_engine->open(&problem.options, &context_));
		add_set(0, n, kList);
		if (halves)
		{
			add_set(0, n / 2, 0);
			add_set(n / 2, n - n / 2, 0);
		}
	}
	~Searcher() { tested_engine->close(context_); }

	std::string why;			/* the first error */

	FastedStats stats() const
	{
		FastedStats stats;

		tested_engine->stats(context_, &stats);
		return stats;
	}

	/* The lists of a self-join. */
	Lists lists()
	{
		uint32_t	n = data_.rows.n;
		Lists		lists = {std::vector<uint32_t>(n), std::vector<FastedNeighbor>((size_t) n * kList)};
		FastedProblem problem = {};

		problem.eps = INFINITY;
		problem.output = FASTED_OUTPUT_NEAREST;
		problem.k = kList;
		join(problem, sets_[0].set, sets_[0].set, &lists);
		return lists;
	}

	/* Compares the result of a search of all rows, or (halves) of one half after the other. */
	void search(const Search &search, bool halves)
	{
		uint32_t	n = (uint32_t) search.positions.size();
		std::vector<uint32_t> component;
		std::vector<double> core;
		Lists		found = {std::vector<uint32_t>(n), std::vector<FastedNeighbor>(n)};
		FastedSet  *set = selected(search);

		for (uint32_t x : search.positions)
		{
			component.push_back(search.component[x]);
			core.push_back(search.core[x]);
		}
		for (size_t i = halves ? 1 : 0; i < (halves ? 3 : 1) && why.empty(); i++)
		{
			const Part &part = sets_[i];
			FastedComponents components = {{component.data(), search.component.data() + part.first},
				{core.data(), search.core.data() + part.first}, search.bound.data()};
			std::vector<FastedPartition> partitions = clipped(search, part);
			FastedProblem problem = {};

			problem.eps = INFINITY;
			problem.output = FASTED_OUTPUT_NEAREST;
			problem.k = 1;
			problem.continues = i > 1;
			problem.components = &components;
			problem.partitions = partitions.empty() ? nullptr : partitions.data();
			problem.npartitions = (uint32_t) partitions.size();
			problem.ranks = search.ranks.empty() ? nullptr : search.ranks.data() + part.first;
			join(problem, set, part.set, &found);
		}
		for (uint32_t i = 0; i < n && why.empty(); i++)
		{
			const FastedNeighbor &expected = search.nearest[i];
			bool		any = expected.row != kNone && expected.dist <= search.bound[i];

			if (found.lengths[i] != any || (any && (found.neighbors[i].row != expected.row
				|| memcmp(&found.neighbors[i].dist, &expected.dist, sizeof(double)) != 0)))
				fail_with("row %u: found %u (%u, %.17g), expected %u (%u, %.17g), bound %.17g",
						  search.positions[i], found.lengths[i], found.neighbors[i].row,
						  found.neighbors[i].dist, any, expected.row, expected.dist, search.bound[i]);
		}
		tested_engine->set_close(set);
		if (!why.empty())
			why = search.name + (halves ? ", halves: " : ": ") + why;
	}

private:
	struct Part
	{
		FastedSet  *set;
		uint32_t	first;
		uint32_t	rows;
	};

	template <class... Args>
	void fail_with(const char *format, Args... args)
	{
		char		text[400];

		snprintf(text, sizeof(text), format, args...);
		if (why.empty())
			why = text;
	}

	bool check(FastedStatus status)
	{
		if (FASTED_FAILED(status))
			fail_with("%s", tested_engine->last_error(context_));
		else if (status != FASTED_OK)
			fail_with("status %d", (int) status);
		return why.empty();
	}

	void add_set(uint32_t first, uint32_t rows, uint32_t neighbors)
	{
		FastedSetOptions options = {};
		FastedSet  *set = nullptr;
		float	   *buffer;
		size_t		count;

		options.first_row = first;
		options.expected_rows = options.most_rows = rows;
		options.neighbors = neighbors;
		if (why.empty())
			check(tested_engine->set_open(context_, &options, &set));
		for (uint32_t there = 0; there < rows && why.empty(); there += (uint32_t) count)
		{
			if (!check(tested_engine->stage(set, &buffer, &count)))
				break;
			count = std::min<size_t>(count, rows - there);
			memcpy(buffer, data_.rows.row(first + there), count * data_.rows.d * sizeof(float));
			check(tested_engine->commit(set, count));
		}
		if (why.empty())
			check(tested_engine->seal(set));
		sets_.push_back({set, first, rows});
	}

	/* Selects the rows of a search in two steps; first tries to select too many. */
	FastedSet  *selected(const Search &search)
	{
		uint32_t	n = (uint32_t) search.positions.size();
		uint32_t	half = n / 3;
		size_t		floats = data_.rows.d;
		std::vector<float> back(n * floats);
		FastedSetOptions options = {};
		FastedSet  *set = nullptr;

		options.expected_rows = options.most_rows = n;
		options.neighbors = 1;
		if (!why.empty() || !check(tested_engine->set_open(context_, &options, &set))
			|| !check(tested_engine->select_rows(set, sets_[0].set, search.positions.data(), half)))
			return set;
		if (half > 0 && tested_engine->select_rows(set, sets_[0].set, search.positions.data(), n)
			!= FASTED_FULL)
			fail_with("more rows than fit were selected");
		check(tested_engine->select_rows(set, sets_[0].set, search.positions.data() + half, n - half));
		check(tested_engine->read_back(set, 0, n, back.data()));
		for (uint32_t i = 0; i < n; i++)
		{
			if (memcmp(&back[i * floats], data_.rows.row(search.positions[i]), floats * sizeof(float)) != 0)
				fail_with("selected row %u is wrong", i);
		}
		check(tested_engine->seal(set));
		return set;
	}

	/* The partitions of the selected rows and of a part of all rows. */
	static std::vector<FastedPartition> clipped(const Search &search, const Part &part)
	{
		std::vector<FastedPartition> partitions = search.partitions;
		const std::vector<uint32_t> &all = search.positions;

		for (FastedPartition &g : partitions)
		{
			uint32_t	end = g.first_b + g.rows_b;
			uint32_t	first = std::max(g.first_b, part.first);

			end = std::max(first, std::min(end, part.first + part.rows));
			g.first_b = std::min(first, part.first + part.rows) - part.first;
			g.rows_b = std::max(end - part.first, g.first_b) - g.first_b;
			g.rows_b = std::min(g.rows_b, part.rows - g.first_b);
			end = (uint32_t) (std::lower_bound(all.begin(), all.end(), g.first_a + g.rows_a) - all.begin());
			g.first_a = (uint32_t) (std::lower_bound(all.begin(), all.end(), g.first_a) - all.begin());
			g.rows_a = end - g.first_a;
		}
		return partitions;
	}

	void join(const FastedProblem &problem, FastedSet *a, FastedSet *b, Lists *lists)
	{
		FastedJoin *join = nullptr;
		FastedStatus status = FASTED_AGAIN;
		FastedBatch batch;

		if (!why.empty() || !check(tested_engine->join_open(context_, &problem, a, b, &join)))
			return;
		while (status == FASTED_AGAIN)
			status = tested_engine->next(join, 20, &batch);
		if (status != FASTED_DONE)
			check(status);
		else
			check(tested_engine->nearest(join, 0, lists->lengths.size(), lists->lengths.data(),
										 lists->neighbors.data()));
		tested_engine->join_close(join);
	}

	const Data &data_;
	FastedContext *context_ = nullptr;
	std::vector<Part> sets_;
};

/* Returns bounds from the nearest rows: kind 0: infinite; 1: equal or just below; 2: low. */
std::vector<double>
bounds_of(const Search &search, int kind)
{
	std::vector<double> bounds;

	for (size_t i = 0; i < search.nearest.size(); i++)
	{
		double		dist = search.nearest[i].dist;

		if (kind == 0 || search.nearest[i].row == kNone)
			bounds.push_back(INFINITY);
		else if (kind == 1)
			bounds.push_back(i % 3 == 0 ? std::nextafter(dist, -INFINITY) : dist);
		else
			bounds.push_back(i % 2 == 0 ? -1e300 : 0.0);
	}
	return bounds;
}

/* Returns the weight of the lightest edge of each row's component. */
std::vector<double>
component_bounds(const Search &search)
{
	std::map<uint32_t, double> lightest;
	std::vector<double> bounds;

	for (size_t i = 0; i < search.nearest.size(); i++)
	{
		double	   &least = lightest.insert({search.component[search.positions[i]], INFINITY}).first->second;

		if (search.nearest[i].row != kNone)
			least = std::min(least, search.nearest[i].dist);
	}
	for (uint32_t x : search.positions)
		bounds.push_back(lightest[search.component[x]]);
	return bounds;
}

std::vector<Search>
searches_of(const Data &data, const std::vector<double> &core)
{
	uint32_t	n = data.rows.n;
	std::vector<Search> all;
	Normal		random(n);
	std::vector<uint32_t> ranks(n);

	std::iota(ranks.begin(), ranks.end(), 0);
	std::shuffle(ranks.begin(), ranks.end(), std::mt19937_64(n));
	for (int kind = 0; kind < 6; kind++)
	{
		static const char *const names[] = {"random components", "one component per row", "one component",
			"clusters", "partitions", "few rows"};
		Search		search = {names[kind], {}, std::vector<uint32_t>(n), core};

		for (uint32_t i = 0; i < n; i++)
		{
			bool		some = random.bits() % 5 < 2;

			search.component[i] = kind == 1 ? i : kind == 2 ? 7 : kind == 3 ? data.cluster[i] * 1000003
				: (uint32_t) (random.bits() % 5) * 0x30000001;
			if (kind == 3 ? data.cluster[i] % 2 == 0 : kind == 5 ? i % 300 == 5 : some)
				search.positions.push_back(i);
			if (kind == 0 && random.bits() % 7 == 0)
				search.core[i] = INFINITY;
			if (kind == 1 || kind == 5)
				search.core[i] = data.metric.metric == FASTED_METRIC_INNER_PRODUCT ? -1e300 : 0.0;
		}
		if (search.positions.empty())
			search.positions.push_back(0);
		if (kind == 0 || kind == 3)
			search.ranks = ranks;
		if (kind == 4)
			search.partitions = {{1, n / 3, 1, n / 3}, {n / 3 + 1, 0, n / 3 + 1, 0},
				{n / 2, 1, n / 2, 1}, {n / 2 + 1, n / 3, n / 2 + 1, n / 3}};
		find_nearest(data, &search);
		for (int bound = 0; bound < 4; bound++)
		{
			static const char *const bounds[] = {"infinite", "equal or just below", "too low",
				"the component's lightest edge"};
			Search		bounded = search;

			bounded.name += std::string(", bound ") + bounds[bound];
			bounded.bound = bound < 3 ? bounds_of(search, bound) : component_bounds(search);
			all.push_back(bounded);
		}
	}
	return all;
}

/* Returns the smallest limit with which all rows, their lists, and the selected rows fit. */
size_t
limit_for(const Data &data, const Mode &mode, const std::vector<Search> &searches)
{
	PanelProblem problem = data.metric.problem(0, mode, data.dimensions);
	size_t		most = 0;
	bool		fits = false;

	for (const Search &search : searches)
		most = std::max(most, search.positions.size());
	problem.options.device_memory_limit = 1 << 20;
	while (!fits)
	{
		FastedContext *context = nullptr;

		problem.options.device_memory_limit += problem.options.device_memory_limit / 20;
		if (tested_engine->open(&problem.options, &context) == FASTED_OK)
		{
			uint64_t	rows[2] = {data.rows.n, most};

			rows[0] += tested_engine->rows_for_lists(context, rows[0], kList);
			rows[1] += tested_engine->rows_for_lists(context, rows[1], 1);
			fits = tested_engine->fits(context, rows, 2);
		}
		tested_engine->close(context);
	}
	return problem.options.device_memory_limit;
}

/* Makes all searches in all modes.  halves: also in two parts; limited: with little memory. */
void
check_data(Data data, bool halves = false, bool limited = false)
{
	data.distances = all_distances(data.rows, data.rows, data.metric.distance);

	Lists		lists = all_lists(data);
	std::vector<Search> searches = searches_of(data, cores_of(lists));

	for (const Mode &mode : modes_of(data.metric))
	{
		size_t		limit = limited ? limit_for(data, mode, searches) : 0;
		Searcher	searcher(data, mode, limit, halves);
		bool		same = same_lists(searcher.lists(), lists);

		for (const Search &search : searches)
		{
			if (searcher.why.empty())
				searcher.search(search, false);
			if (searcher.why.empty() && halves)
				searcher.search(search, true);
		}
		same = same && same_lists(searcher.lists(), lists);
		tap::ok(same && searcher.why.empty()
				&& (limit == 0 || searcher.stats().device_bytes <= limit),
				"%s, %s, %u rows, %u dimensions, %s: %s", data.metric.name, data.what, data.rows.n,
				data.dimensions, mode.name, same ? searcher.why.c_str() : "lists of the self-join differ");
	}
}

/* Clusters of consecutive rows. */
std::vector<uint32_t>
blocks(uint32_t n, uint32_t size)
{
	std::vector<uint32_t> cluster(n);

	for (uint32_t i = 0; i < n; i++)
		cluster[i] = i / size;
	return cluster;
}

Data
data_of(const char *what, const Metric &metric, uint32_t n, uint32_t d)
{
	Rows		rows = metric.element == FASTED_ELEMENT_BIT ? bit_rows(n, d, 0.2, n)
		: clustered_rows(n, d, 5, 0.3f, n + d);

	/* rows without a direction */
	for (uint32_t i = 3; i < n && metric.metric == FASTED_METRIC_COSINE; i += 50)
		std::fill_n(rows.row(i), d, 0.0f);
	if (metric.element == FASTED_ELEMENT_DOUBLE)
		rows = as_doubles(rows, 1);
	return {what, metric, d, rows, blocks(n, 300)};
}

const Metric *const all_metrics[] = {&euclidean_metric, &euclidean_double_metric, &cosine_metric,
	&cosine_double_metric, &product_metric, &product_double_metric, &hamming_metric, &jaccard_metric};

/* Rows of small integers, at few different distances from each other. */
Rows
integers(uint32_t n, uint32_t d)
{
	Rows		rows(n, d);
	Normal		random(n);

	for (float &v : rows.values)
		v = (float) (random.bits() % 2);
	return rows;
}

/* Rows in a few clusters, far from each other; row i is in cluster i % clusters. */
Rows
separated(uint32_t n, uint32_t d, uint32_t clusters, float distance)
{
	Rows		rows = normal_rows(n, d, n);

	for (uint32_t i = 0; i < n; i++)
		rows.row(i)[i % clusters] += distance / std::sqrt(2.0f);
	return rows;
}

/*
 * Clusters whose rows are nearer to each other than to other clusters.  Pairs within a cluster must
 * not become candidates.
 */
void
test_separated(uint32_t n, uint32_t d, uint32_t clusters, uint32_t part)
{
	Data		data = {"separated clusters", euclidean_metric, d, separated(n, d, clusters, 30),
		std::vector<uint32_t>(n)};
	Search		search = {"separated clusters", {}, {}, std::vector<double>(n, 0.1)};
	double		within = 0;

	for (uint32_t i = 0; i < n; i++)
	{
		search.component.push_back(i % clusters);
		if (i % clusters % part == 0)
			search.positions.push_back(i);
	}
	within = (double) search.positions.size() * n / clusters;
	find_nearest(data, &search);
	search.bound = component_bounds(search);
	for (const Mode &mode : modes)
	{
		Searcher	searcher(data, mode, 0, false);
		double		before;
		double		candidates;

		searcher.lists();
		before = (double) searcher.stats().candidates;
		searcher.search(search, false);
		candidates = (double) searcher.stats().candidates - before;
		tap::ok(searcher.why.empty() && (mode.prune == FASTED_PRUNE_FORCE || candidates < within / 2),
				"%u clusters of %u rows, %s: %.0f candidates, %.0f pairs within clusters %s", clusters,
				n / clusters, mode.name, candidates, within, searcher.why.c_str());
	}
}

/* Several devices do not support components. */
FastedEngine base;

int
two_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	int			count = fasted_engine()->devices(devices, names, 1);

	if (count == 1 && most > 1)
		memcpy(names[count++], names[0], FASTED_DEVICE_NAME);
	return count;
}

void
test_refusals()
{
	FastedComponents components = {};
	FastedProblem problem = {};
	FastedSetOptions options = {};
	FastedStatus expected[2] = {FASTED_INTERNAL, FASTED_UNSUPPORTED};

	base = *fasted_engine();
	base.devices = two_devices;
	problem.eps = 1;
	problem.output = FASTED_OUTPUT_NEAREST;
	problem.k = 1;
	problem.components = &components;
	for (int several = 0; several < 2; several++)
	{
		const FastedEngine *engine = several ? fasted_multi_gpu_engine(&base) : fasted_engine();
		FastedOptions own = {};
		FastedContext *context = nullptr;
		FastedSet  *set = nullptr;
		FastedJoin *join = nullptr;
		FastedStatus status;

		own.dimensions = 3;
		status = engine->open(&own, &context);
		if (status == FASTED_OK)
			status = engine->set_open(context, &options, &set);
		if (status == FASTED_OK)
			status = engine->seal(set);
		if (status == FASTED_OK)
			status = engine->join_open(context, &problem, set, set, &join);
		tap::ok(status == expected[several] && (engine->select_rows == nullptr) == (several == 1),
				"%s: %s", several ? "several devices" : "a self-join", engine->last_error(context));
		engine->close(context);
	}
}

void
test_all()
{
	Data		equal = {"equal rows", euclidean_metric, 20, Rows(700, 20), blocks(700, 300)};
	Data		few = {"small integers", euclidean_metric, 12, integers(900, 12), blocks(900, 211)};

	test_refusals();
	for (const Metric *metric : all_metrics)
	{
		check_data(data_of("clusters", *metric, 1001, metric->element == FASTED_ELEMENT_BIT ? 200 : 100),
				   true);
		check_data(data_of("few rows", *metric, 37, 17), true);
	}
	check_data(data_of("many dimensions", euclidean_metric, 701, 997), true);
	check_data(equal, true);
	check_data(few, true);
	check_data(data_of("little memory", euclidean_metric, 2500, 64), false, true);
	tuning.candidates = fasted::kMostAtOnce;
	check_data(data_of("small buffers", euclidean_metric, 1501, 40), true);
	check_data(data_of("small buffers", jaccard_metric, 1501, 100), true);
	tuning.candidates = 0;
	tuning.always_choose = true;
	check_data(data_of("filter chosen", euclidean_metric, 1501, 64));
	tuning.always_choose = false;
	test_separated(20001, 32, 5, 3);
	test_separated(50001, 32, 12, 11);
}

}								/* namespace */

int
main(int argc, char **argv)
{
	char		reason[300] = "";

	if (fasted_engine()->probe(nullptr, reason, sizeof(reason)) != FASTED_OK)
	{
		tap::ok(false, "a GPU is available: %s", reason);
		return tap::done();
	}
	if (argc > 1 && strcmp(argv[1], "--small") == 0)
		check_data(data_of("clusters", product_double_metric, 400, 30));
	else
		test_all();
	return tap::done();
}
