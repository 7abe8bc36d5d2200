/*-------------------------------------------------------------------------
 *
 * host_test.cc
 *	  Parts of the CUDA engine that need no GPU.
 *
 *-------------------------------------------------------------------------
 */
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "filter/block_order.h"
#include "rows/row_table.h"
#include "tap.h"

using namespace fasted;

/* Checks that every pair of a join is in exactly one located tile. */
static bool
covers(uint32_t rows_a, uint32_t rows_b, uint32_t tile_m, uint32_t tile_n,
	   bool triangle, bool down = false)
{
	TileOrder	order = {rows_a, rows_b, tile_m, tile_n, triangle, kSquareSide, down};
	std::set<std::pair<uint32_t, uint32_t>> tiles;
	uint64_t	items = order.items();

	for (uint64_t item = 0; item < items; item++)
	{
		uint32_t	m;
		uint32_t	n;

		if (!order.locate(item, &m, &n))
			continue;
		if (!tiles.insert({m, n}).second)
			return false;		/* located twice */
	}
	if (tiles.size() != order.tiles())
		return false;
	for (uint32_t m = 0; m < order.tiles_m(); m++)
	{
		for (uint32_t n = 0; n < order.tiles_n(); n++)
		{
			/* the pair that is farthest above the diagonal */
			uint64_t	row = (uint64_t) m * tile_m;
			uint64_t	column = (uint64_t) (n + 1) * tile_n - 1;
			bool		wanted = !triangle || row < column;

			if (wanted != (tiles.count({m, n}) == 1))
				return false;
		}
	}
	return true;
}

/* Checks that every pair of a join is in one tile of one run. */
static bool
covered_by_runs(uint32_t rows_a, uint32_t rows_b, const TileOrder &order)
{
	std::vector<bool> seen;
	uint64_t	tiles_m = (rows_a + order.tile_m - 1) / order.tile_m;
	uint64_t	tiles_n = (rows_b + wgmma::kTileN - 1) / wgmma::kTileN;
	Square		square;
	wgmma::Run	run;

	seen.assign(tiles_m * tiles_n, false);
	for (uint64_t item = 0; item < order.items(); item++)
	{
		if (!wgmma::locate_run(order, item, &square, &run))
			continue;
		for (uint32_t n = run.first; n < run.end; n++)
		{
			uint32_t	column = run.column + n * wgmma::kTileN;
			size_t		at = run.row / order.tile_m * tiles_n + column / wgmma::kTileN;
			bool		whole = run.row + order.tile_m <= rows_a
				&& column + wgmma::kTileN <= rows_b
				&& (!order.triangle || run.row + order.tile_m - 1 < column);

			if (seen[at] || column >= rows_b || whole != wgmma::whole_tile(order, run.row, column))
				return false;
			seen[at] = true;
		}
	}
	for (uint64_t m = 0; m < tiles_m; m++)
	{
		for (uint64_t n = 0; n < tiles_n; n++)
		{
			bool		wanted = !order.triangle
				|| m * order.tile_m < std::min<uint64_t>((n + 1) * wgmma::kTileN, rows_b) - 1;

			/* tiles without pairs are optional, those with pairs are not */
			if (wanted && !seen[m * tiles_n + n])
				return false;
		}
	}
	return true;
}

/* Checks that squares go down the columns, from the first column on. */
static bool
goes_down(uint32_t rows_a, uint32_t rows_b)
{
	TileOrder	order = {rows_a, rows_b, 128, 256, false, kSquareSide, true};
	uint32_t	last = 0;

	for (uint64_t item = 0; item < order.items(); item++)
	{
		uint32_t	m;
		uint32_t	n;

		if (!order.locate(item, &m, &n))
			continue;
		if (n * 256 / kSquareSide < last)
			return false;
		last = n * 256 / kSquareSide;
	}
	return last == (rows_b - 1) / kSquareSide;
}

static void
test_order()
{
	const uint32_t sizes[] = {1, 2, 127, 128, 129, 255, 256, 257, 1000, 1024,
		1025, 3001, 5000};
	bool		good = true;

	for (uint32_t a : sizes)
	{
		for (uint32_t tile_n : {64u, 128u, 256u})
		{
			uint32_t	tile_m = tile_n == 64 ? 64 : 128;

			good &= covers(a, a, tile_m, tile_n, true);
			for (uint32_t b : sizes)
				good &= covers(a, b, tile_m, tile_n, false) && covers(a, b, tile_m, tile_n, false, true);
		}
	}
	tap::ok(good, "every tile with pairs is located once, and no other tile");
	tap::ok(goes_down(5000, 3000) && goes_down(300, 9000) && goes_down(9000, 300),
			"squares go down the columns if requested");

	good = true;
	for (uint32_t side : {1024u, 2048u, 4096u})
	{
		for (uint32_t tile_m : {128u, 256u})
		{
			for (uint32_t tile_n : {256u, side})
			{
				for (uint32_t a : sizes)
				{
					good &= covered_by_runs(a, a, {a, a, tile_m, tile_n, true, side});
					good &= covered_by_runs(a, 3001, {a, 3001, tile_m, tile_n, false, side});
				}
			}
		}
	}
	tap::ok(good, "runs have every pair once; whole tiles have no other pairs");

	/* Large numbers, where the square root of a double is inexact. */
	std::mt19937_64 random(1);

	good = true;
	for (int i = 0; i < 1000000 && good; i++)
	{
		uint64_t	limit = (uint64_t) 1 << (i % 42 + 1);	/* 2^31 rows: 2^42 squares */
		uint64_t	s = random() % limit;
		uint32_t	row;
		uint32_t	column;

		triangle_square(s, &row, &column);
		good = row <= column && (uint64_t) column * (column + 1ull) / 2 + row == s;
	}
	for (uint64_t column = 1; column < 3000000 && good; column += 997)
	{
		uint64_t	first = column * (column + 1) / 2;
		uint32_t	i;
		uint32_t	j;

		triangle_square(first, &i, &j);
		good = i == 0 && j == column;
		triangle_square(first - 1, &i, &j);
		good &= i == column - 1 && j == column - 1;
	}
	tap::ok(good, "squares of the triangle are numbered without gaps up to 2^42");

	/* Consecutive tiles share operands. */
	TileOrder	order = {100000, 100000, 128, 128, true};
	std::set<uint32_t> touched;

	for (uint64_t item = 64 * 500; item < 64 * 504; item++)
	{
		uint32_t	m;
		uint32_t	n;

		if (order.locate(item, &m, &n))
		{
			touched.insert(m);
			touched.insert(n);
		}
	}
	tap::ok(touched.size() <= 40, "256 consecutive tiles read %zu row blocks",
			touched.size());
}

/*
 * Rounds in which tiles are discarded at random, by the device's rules.  In the end, all work must
 * have been done exactly once.
 */
static void
test_queue()
{
	std::mt19937 random(7);
	bool		good = true;
	bool		bounded = true;

	for (int run = 0; run < 200; run++)
	{
		uint64_t	total = random() % 500;
		uint64_t	begin = random() % 3 * 1000;	/* a slice of more tiles */
		uint32_t	blocks = 1 + random() % 8;
		WorkState	state = first_state(begin, begin + total, 1 + random() % 100);
		std::vector<Work> lists[2];
		std::map<std::pair<uint64_t, uint32_t>, int> done;	/* item, warp */
		bool		finished = total == 0;
		int			rounds = 0;

		while (!finished && rounds++ < 100000)
		{
			std::vector<Work> voided;
			uint32_t	room = 1 + random() % 60;	/* capacity in warp tiles */
			uint32_t	after_stop = 0;

			while (state.stop == 0 || after_stop < blocks)
			{
				/* counts blocks that have not yet seen "stop" */
				after_stop += state.stop;

				unsigned long long taken = state.taken++;
				Work		work;

				if (taken < state.unfinished)
					work = lists[state.list][taken];
				else
				{
					work = {state.fresh_first + (taken - state.unfinished), kAllWarps, 0};
					if (work.item >= state.fresh_end)
						break;
				}
				for (uint32_t warp = 0; warp < 4; warp++)
				{
					if (work.warp != kAllWarps && work.warp != warp)
						continue;
					if (room > 0)
					{
						room--;
						done[{work.item, warp}]++;
					}
					else
					{
						voided.push_back({work.item, warp, 0});
						state.voided++;
						state.stop = 1;
					}
				}
			}

			std::vector<Work> next;
			const std::vector<Work> &list = lists[state.list];
			uint32_t	left = unfinished_left(state);

			for (uint32_t i = 0; i < left; i++)
				next.push_back(list[state.unfinished - left + i]);
			next.insert(next.end(), voided.begin(), voided.end());
			bounded &= next.size() <= (blocks + 1) * 4 * 2;
			finished = advance_state(state, 1 + random() % 100).finished;
			lists[state.list] = next;
			good &= state.unfinished == next.size();
		}
		good &= finished && done.size() == total * 4;
		for (const auto &entry : done)
			good &= entry.second == 1 && entry.first.first >= begin
				&& entry.first.first < begin + total;
	}
	tap::ok(good, "discarded work is redone, and no other work");
	tap::ok(bounded, "the list of discarded work remains short");
}

constexpr uint32_t kColumns = 16;	/* columns per run */
constexpr uint32_t kParts = 64; /* warp tiles per column */

/* A multiprocessor that takes runs of columns, and loads columns ahead of its warps. */
struct Multiprocessor
{
	std::deque<Work> ring;		/* loaded columns; resume is the column number */
	uint32_t	part = 0;		/* next warp tile of the first column in the ring */
	Work		asked = {};
	bool		has_asked = false;
	Work		run = {};
	uint32_t	end = 0;		/* run.resume is the next column to load */
	uint32_t	late = 0;		/* columns loaded after "stop" */
	bool		over = false;
};

/* A random round of several multiprocessors, and the work to be redone. */
struct RunsRound
{
	WorkState  &state;
	const std::vector<Work> &list;
	uint32_t	ring;
	uint32_t	room;			/* capacity in warp tiles */
	std::map<std::array<uint64_t, 3>, int> &done;
	std::vector<Work> voided = {};

	void
	give_back(const Work &work)
	{
		voided.push_back(work);
		state.voided++;
	}

	void
	ask(Multiprocessor &m)
	{
		unsigned long long number = state.taken++;

		m.has_asked = number < queue_length(state);
		if (m.has_asked)
			m.asked = number < state.unfinished ? list[number]
				: Work{state.fresh_first + (number - state.unfinished), kAllWarps, 0};
	}

	/* Two columns are loaded before "stop" is seen. */
	void
	send(Multiprocessor &m)
	{
		bool		stopped = state.stop != 0 && m.late++ >= 2;

		if (m.run.resume == m.end)
		{
			m.over = !m.has_asked || stopped;
			if (m.over && m.has_asked)
				give_back(m.asked);
			if (m.over)
				return;
			m.run = m.asked;
			m.end = m.run.warp == kAllWarps ? kColumns : m.run.resume + 1;
			ask(m);
		}
		else if (stopped)
		{
			give_back(m.run);
			if (m.has_asked)
				give_back(m.asked);
			m.over = true;
			return;
		}
		m.ring.push_back(m.run);
		m.run.resume++;
	}

	void
	compute(Multiprocessor &m)
	{
		Work		column = m.ring.front();
		uint32_t	part = m.part++;

		if (m.part == kParts)
		{
			m.ring.pop_front();
			m.part = 0;
		}
		if (column.warp != kAllWarps && column.warp != part)
			return;
		if (room > 0)
		{
			room--;
			done[{column.item, column.resume, part}]++;
			return;
		}
		give_back({column.item, part, column.resume});
		state.stop = 1;
	}

	void
	go(std::vector<Multiprocessor> &all, std::mt19937 &random)
	{
		size_t		going = all.size();

		for (Multiprocessor &m : all)
			ask(m);
		while (going > 0)
		{
			Multiprocessor &m = all[random() % all.size()];

			if (!m.over && m.ring.size() < ring)
				send(m);
			for (uint32_t i = random() % kParts; i > 0 && !m.ring.empty(); i--)
				compute(m);
			going = 0;
			for (const Multiprocessor &each : all)
				going += !each.over || !each.ring.empty();
		}
	}
};

/* Dense joins: most runs have many warp tiles that are redone repeatedly. */
static void
test_runs()
{
	std::mt19937 random(8);
	bool		good = true;
	size_t		longest = 0;

	for (int run = 0; run < 30; run++)
	{
		uint32_t	ring = 2 + random() % 6;
		uint32_t	many = 1 + random() % 6;
		uint64_t	total = many * (2 + random() % 3);
		uint32_t	room = 1 + random() % (kParts * kColumns);
		WorkState	state = first_state(0, total, total);
		std::vector<Work> list;
		std::map<std::array<uint64_t, 3>, int> done;
		bool		finished = false;

		for (int rounds = 0; !finished && rounds < 100000; rounds++)
		{
			RunsRound	round = {state, list, ring, room, done};
			std::vector<Multiprocessor> all(many);

			round.go(all, random);

			uint32_t	left = unfinished_left(state);
			uint32_t	length = left + (uint32_t) round.voided.size();
			uint32_t	numbers[2] = {0, 0};
			std::vector<Work> next(length);

			for (uint32_t i = 0; i < length; i++)
			{
				const Work &work = i < left ? list[state.unfinished - left + i] : round.voided[i - left];

				next[place_of_unfinished(work, length, numbers[work.warp == kAllWarps]++)] = work;
			}
			finished = advance_state(state, total).finished;
			longest = std::max(longest, (size_t) length / many / (ring + 3));
			list = next;
		}
		good &= finished && done.size() == total * kColumns * kParts;
		for (const auto &entry : done)
			good &= entry.second == 1;
	}
	tap::ok(good, "runs that are discarded repeatedly: each warp tile is done once");
	tap::ok(longest <= kParts, "the list has at most %zu entries per loaded column", longest);
}

/* Returns random partitions of one set or of two. */
static std::vector<FastedPartition>
random_groups(std::mt19937 &random, bool self, uint32_t rows[2])
{
	const uint32_t sizes[] = {0, 1, 2, 63, 127, 128, 129, 255, 256, 300, 700};
	std::vector<FastedPartition> partitions;

	rows[0] = rows[1] = random() % 2 * (random() % 600);
	for (uint32_t g = random() % 20; g > 0; g--)
	{
		uint32_t	a = sizes[random() % 11];
		uint32_t	b = self ? a : sizes[random() % 11];

		partitions.push_back({rows[0], a, rows[1], b});
		rows[0] += a + random() % 3 / 2 * (random() % 600);
		rows[1] = self ? rows[0] : rows[1] + b + random() % 3 / 2 * (random() % 600);
	}
	return partitions;
}

/* Checks that every pair within a partition is in one tile of one run. */
static bool
covered_in_groups(const std::vector<FastedPartition> &partitions, const uint32_t rows[2],
				  TileOrder order, bool runs, uint64_t *tiles)
{
	std::vector<FastedSpan> spans(order.tiles_m());
	std::vector<FastedStripe> stripes(order.tiles_n() + 1);
	std::vector<bool> seen((size_t) rows[0] * rows[1]);
	Square		square;
	uint32_t	m;
	uint32_t	n;

	fasted_find_spans(partitions.data(), (uint32_t) partitions.size(), 0, order.triangle, order.tile_m,
					  spans.data(), order.tiles_m());
	order.partitions = {spans.data(), stripes.data(), order.tiles_n(),
		fasted_find_stripes(spans.data(), order.tiles_m(), order.tile_n, stripes.data(),
							order.tiles_n())};
	for (uint64_t item = 0; item < order.items(); item++)
	{
		wgmma::Run	run = {};
		uint32_t	width = runs ? wgmma::kTileN : order.tile_n;

		if (!order.locate(item, &m, &n, &square))
			continue;
		run = {m * order.tile_m, n * order.tile_n, 0, 1};
		if (runs && !wgmma::locate_run(order, item, &square, &run))
			return false;
		for (uint32_t t = run.first; t < run.end; t++)
		{
			++*tiles;
			for (uint32_t i = run.row; i < std::min(run.row + order.tile_m, rows[0]); i++)
			{
				uint32_t	column = run.column + t * width;

				for (uint32_t j = column; j < std::min(column + width, rows[1]); j++)
				{
					if (seen[(size_t) i * rows[1] + j])
						return false;
					seen[(size_t) i * rows[1] + j] = true;
				}
			}
		}
	}
	for (const FastedPartition &g : partitions)
	{
		for (size_t i = g.first_a; i < g.first_a + g.rows_a; i++)
		{
			for (size_t j = g.first_b; j < g.first_b + g.rows_b; j++)
			{
				if ((!order.triangle || i < j) && !seen[i * rows[1] + j])
					return false;
			}
		}
	}
	return true;
}

static void
test_partitions()
{
	std::mt19937 random(11);
	uint64_t	tiles = 0;
	uint64_t	all = 0;
	bool		good = true;

	for (int i = 0; i < 300; i++)
	{
		bool		self = i % 2 == 0;
		bool		runs = i % 3 != 0;
		uint32_t	rows[2];
		std::vector<FastedPartition> partitions = random_groups(random, self, rows);
		uint32_t	tile_n = runs ? (i % 5 == 0 ? 1024 : 256) : 128;
		TileOrder	order = {rows[0], rows[1], i % 4 == 0 ? 256u : 128u, tile_n, self};

		good &= fasted_partitions_are_valid(partitions.data(), (uint32_t) partitions.size(), rows[0], rows[1],
										self);
		good &= covered_in_groups(partitions, rows, order, runs, &tiles);
		all += (uint64_t) (rows[0] / order.tile_m + 1) * (rows[1] / (runs ? 256 : 128) + 1);
	}
	tap::ok(good, "every pair within a partition is in one tile");
	tap::ok(tiles < all / 3, "%llu tiles of %llu", (unsigned long long) tiles,
			(unsigned long long) all);
}

/* Returns sorted components of random sizes; not every component has rows. */
static std::vector<uint32_t>
random_components(std::mt19937 &random)
{
	const uint32_t sizes[] = {0, 0, 1, 3, 127, 128, 256, 300, 1500, 5000};
	std::vector<uint32_t> components;

	for (uint32_t c = 0; c < 8; c++)
		components.insert(components.end(), sizes[random() % 10], 3 * c + 1);
	if (components.empty())
		components.push_back(7);
	return components;
}

/*
 * Checks that exactly those tiles of the order are computed that have a pair of rows of different
 * components, each once.
 */
static bool
skips_components(const std::vector<uint32_t> &a, const std::vector<uint32_t> &b, TileOrder order,
				 bool runs, uint64_t *all_skipped)
{
	std::vector<SkippedTiles> skipped(order.tiles_m());
	std::vector<int> seen((size_t) order.tiles_m() * order.tiles_n());
	Square		square;

	for (uint32_t m = 0; m < order.tiles_m(); m++)
	{
		uint32_t	component = a[m * order.tile_m];
		uint32_t	last = a[std::min<size_t>((m + 1) * order.tile_m, a.size()) - 1];
		uint32_t	first = (uint32_t) (std::lower_bound(b.begin(), b.end(), component) - b.begin());
		uint32_t	end = (uint32_t) (std::upper_bound(b.begin(), b.end(), component) - b.begin());

		first = (first + order.tile_n - 1) / order.tile_n;
		end = end == b.size() ? order.tiles_n() : end / order.tile_n;
		skipped[m] = {first, component == last && first < end ? end - first : 0};
	}
	order.skipped = skipped.data();
	for (uint64_t item = 0; item < order.items(); item++)
	{
		uint32_t	m;
		uint32_t	n;
		wgmma::Run	run = {};

		if (runs && wgmma::locate_run(order, item, &square, &run))
			seen[run.row / order.tile_m * order.tiles_n() + run.column / order.tile_n]++;
		else if (!runs && order.locate(item, &m, &n, &square))
			seen[m * order.tiles_n() + n]++;
	}
	for (uint32_t m = 0; m < order.tiles_m(); m++)
	{
		for (uint32_t n = 0; n < order.tiles_n(); n++)
		{
			uint32_t	end_a = (uint32_t) std::min<size_t>((m + 1) * order.tile_m, a.size());
			uint32_t	end_b = (uint32_t) std::min<size_t>((n + 1) * order.tile_n, b.size());
			std::set<uint32_t> in_a(a.begin() + m * order.tile_m, a.begin() + end_a);
			std::set<uint32_t> in_b(b.begin() + n * order.tile_n, b.begin() + end_b);
			bool		same = in_a.size() == 1 && in_a == in_b;

			if (seen[m * order.tiles_n() + n] != !same)
				return false;
			*all_skipped += same;
		}
	}
	return true;
}

static void
test_components()
{
	std::mt19937 random(12);
	uint64_t	skipped = 0;
	bool		good = true;

	for (int i = 0; i < 200; i++)
	{
		std::vector<uint32_t> a = random_components(random);
		std::vector<uint32_t> b = random_components(random);
		bool		runs = i % 3 != 0;
		uint32_t	side = i % 2 == 0 ? 1024 : 4096;
		uint32_t	tile_n = !runs ? 128 : i % 5 == 0 ? 256 : side;
		TileOrder	order = {(uint32_t) a.size(), (uint32_t) b.size(), i % 4 == 0 ? 256u : 128u,
			tile_n, false, side, i % 7 == 0};

		good &= skips_components(a, b, order, runs, &skipped);
	}
	tap::ok(good && skipped > 500, "tiles of a single component are skipped: %llu",
			(unsigned long long) skipped);
}

/* Samples do not exceed the capacity, whether it is even or odd. */
static void
test_samples()
{
	bool		right = true;

	for (uint32_t most : {2, 3, 64, 173, 4096})
	{
		for (uint32_t rows_a : {1, 50, 1500})
		{
			for (uint32_t rows_b : {0, 1, 250, 5000})
			{
				RowTable	a = {nullptr, 0, 1, rows_a};
				RowTable	b = {nullptr, 0, 1, rows_b};
				SampledRows	all = rows_b > 0 ? SampledRows(a, b) : SampledRows(a);
				SampledRows	some = all.at_most(most);

				right = right && some.from_a + some.from_b <= most && some.from_a > 0
					&& some.from_a <= rows_a && some.from_b <= rows_b
					&& (some.from_b > 0) == (rows_b > 0)
					&& (rows_b > 0 || some.from_a == std::min(most, rows_a));
			}
		}
	}
	tap::ok(right, "samples of one set and of two do not exceed the capacity");
}

int
main()
{
	test_samples();
	test_order();
	test_partitions();
	test_components();
	test_queue();
	test_runs();
	return tap::done();
}
