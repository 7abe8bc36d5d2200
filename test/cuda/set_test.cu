/*-------------------------------------------------------------------------
 *
 * set_test.cu
 *	  The encodings and the memory of sets; ../unit/test_sets.c tests joins of them in any order.
 *
 *-------------------------------------------------------------------------
 */
#include "cases.h"
#include "schedule/context.h"

namespace
{

/* A context, or the reason why it could not be opened. */
class TestContext
{
public:
	explicit TestContext(uint32_t d, const Mode &mode = modes[0], uint64_t limit = 0) : d_(d)
	{
		FastedOptions options = {};

		options.dimensions = d;
		options.filter = mode.filter;
		options.device_memory_limit = limit;
		tuning.kernel = mode.kernel;
		note(engine_->open(&options, &context_));
	}
	~TestContext() { engine_->close(context_); }

	FastedContext *get() const { return context_; }
	bool failed() const { return failed_; }
	const char *error() const { return engine_->last_error(context_); }
	void note(FastedStatus status) { failed_ |= FASTED_FAILED(status); }

	FastedStats stats() const
	{
		FastedStats stats;

		engine_->stats(context_, &stats);
		return stats;
	}

	FastedSet *open_set(uint64_t most_rows = 0)
	{
		FastedSetOptions options = {};
		FastedSet  *set;

		options.most_rows = options.expected_rows = most_rows;
		note(engine_->set_open(context_, &options, &set));
		return set;
	}

	/* Stages some rows; returns false if they do not fit. */
	bool stage(FastedSet *set, const Rows &rows, uint32_t first, uint32_t count)
	{
		while (count > 0 && !failed_)
		{
			float	   *room;
			size_t		capacity;
			FastedStatus status = engine_->stage(set, &room, &capacity);

			note(status);
			if (status != FASTED_OK)
				return false;
			capacity = std::min<size_t>(capacity, count);
			memcpy(room, rows.row(first), capacity * d_ * sizeof(float));
			note(engine_->commit(set, capacity));
			first += capacity;
			count -= capacity;
		}
		return !failed_;
	}

	FastedSet *filled(const Rows &rows, uint64_t most_rows = 0)
	{
		FastedSet  *set = open_set(most_rows);

		stage(set, rows, 0, rows.n);
		note(engine_->seal(set));
		return set;
	}

	FastedJoin *begin(FastedSet *a, FastedSet *b, double eps, uint32_t slice = 0,
					  uint32_t slices = 1)
	{
		FastedProblem problem = {};
		FastedJoin *join;

		problem.eps = eps;
		problem.slice = slice;
		problem.slices = slices;
		note(engine_->join_open(context_, &problem, a, b, &join));
		return join;
	}

	/* Runs the rest of a join; beside is called after every batch. */
	template <class Beside>
	void finish(FastedJoin *join, Outcome *outcome, const Beside &beside)
	{
		while (!failed_)
		{
			FastedBatch batch;
			FastedStatus status = engine_->next(join, 5, &batch);

			note(status);
			if (status == FASTED_DONE)
				break;
			outcome->pairs.insert(outcome->pairs.end(), batch.pairs, batch.pairs + batch.npairs);
			beside();
		}
		engine_->join_close(join);
		if (failed_)
		{
			outcome->status = FASTED_INTERNAL;
			outcome->error = error();
		}
	}

	Outcome join(FastedSet *a, FastedSet *b, double eps, uint32_t slice = 0, uint32_t slices = 1)
	{
		Outcome		outcome;

		if (!failed_)
			finish(begin(a, b, eps, slice, slices), &outcome, [] {});
		return outcome;
	}

private:
	const FastedEngine *engine_ = fasted_engine();
	uint32_t	d_;
	FastedContext *context_ = nullptr;
	bool		failed_ = false;
};

/* Compares the join of these sets with the distances. */
bool
right(TestContext &context, FastedSet *a, FastedSet *b, const Sides &sides, double eps,
	  std::string *why)
{
	std::vector<double> distances = sides.b != nullptr ? all_distances(*sides.a, *sides.b)
		: all_distances(*sides.a);

	return same_as_oracle(sides, distances, eps, context.join(a, b, eps), why);
}

/* Rows are quantized only once, as the preparation times show. */
void
test_quantised_once()
{
	Rows		rows = clustered_rows(100000, 960, 500, 0.1f, 3);

	for (const Mode &mode : {modes[0], modes[3]})
	{
		TestContext context(960, mode);
		FastedSet  *set = context.filled(rows);
		double		first;
		double		second;

		context.join(set, set, 1.0);
		context.join(set, set, 1.0);
		first = context.stats().prepare_seconds;
		context.join(set, set, 1.1);
		second = context.stats().prepare_seconds - first;
		tap::ok(!context.failed() && second < first / 4 && first > 0,
				"another eps, %s: only thresholds, %.3f ms after %.3f ms %s", mode.name,
				second * 1e3, first * 1e3, context.error());
	}
}

/* Returns a C++ set with these rows. */
std::unique_ptr<fasted::Set>
new_set(fasted::Context &context, const Rows &rows)
{
	std::unique_ptr<fasted::Set> set(new fasted::Set(context, FastedSetOptions{}));

	for (size_t done = 0; done < rows.n;)
	{
		float	   *room;
		size_t		capacity;

		set->stage(&room, &capacity);
		capacity = std::min(capacity, rows.n - done);
		memcpy(room, rows.row((uint32_t) done), capacity * rows.d * sizeof(float));
		set->commit(capacity);
		done += capacity;
	}
	set->seal();
	return set;
}

/* Joins both sets; returns their form if they then share one. */
std::shared_ptr<fasted::Form>
form_after(fasted::Context &context, fasted::Set &a, fasted::Set &b, double eps)
{
	FastedProblem problem = {};
	FastedBatch batch;

	problem.eps = eps;

	fasted::Join join(context, problem, a, b);

	while (join.next(20, &batch) != FASTED_DONE)
		;
	return a.formed_rows().form == b.formed_rows().form ? a.formed_rows().form : nullptr;
}

/* Tests when sets are encoded again in another form. */
void
test_forms(const Mode &mode)
{
	FastedOptions options = {};
	Rows		few = normal_rows(3000, 64, 52);
	Rows		far = normal_rows(3000, 64, 53);

	for (float &v : far.values)
		v += 10000;
	options.dimensions = 64;
	options.filter = mode.filter;
	tuning.kernel = mode.kernel;

	fasted::Context context(options, fasted::find_device());
	auto		a = new_set(context, normal_rows(9000, 64, 51));
	auto		b = new_set(context, few);
	auto		c = new_set(context, far);
	auto		own = form_after(context, *a, *a, 5);

	tap::ok(own != nullptr && form_after(context, *a, *a, 6) == own,
			"%s: one set keeps its form", mode.name);
	tap::ok(form_after(context, *b, *a, 5) == own && form_after(context, *a, *b, 6) == own,
			"%s: a smaller similar set adopts it", mode.name);

	auto		common = form_after(context, *a, *c, 5);

	/* INT8 clamps these rows, which then are no candidates */
	if (mode.filter == FASTED_FILTER_INT8)
		tap::ok(common == own, "%s: a distant set adopts it, too", mode.name);
	else
	{
		tap::ok(common != nullptr && common != own && form_after(context, *c, *a, 5) == common,
				"%s: a distant set gets a common form", mode.name);
		tap::ok(form_after(context, *a, *a, 5) != common,
				"%s: alone, the set has its own form again", mode.name);
	}
	b->reset(0);
	tap::ok(b->formed_rows().form == nullptr, "%s: an empty set has no form", mode.name);
}

/* Closes joins, sets and contexts while they are in use. */
void
test_close()
{
	const FastedEngine *engine = fasted_engine();
	Rows		a = normal_rows(20000, 64, 21);
	Rows		b = normal_rows(1000, 64, 22);
	size_t		free_before;
	size_t		free_after;
	size_t		whole;

	cudaMemGetInfo(&free_before, &whole);
	for (const Mode &mode : modes)
	{
		TestContext context(64, mode);
		FastedSet  *set_a = context.filled(a);
		FastedSet  *set_b = context.filled(b);
		FastedSet  *open = context.open_set();
		FastedBatch batch;
		FastedStatus status = FASTED_AGAIN;
		FastedJoin *join = context.begin(set_a, set_a, INFINITY);
		std::string why;
		bool		good;

		engine->join_close(join);
		join = context.begin(set_a, set_a, INFINITY);
		for (int i = 0; i < 1000 && status == FASTED_AGAIN; i++)
			status = engine->next(join, 20, &batch);
		engine->join_close(join);
		good = status == FASTED_OK && right(context, set_b, set_b, b, 9.5, &why)
			&& right(context, set_a, set_b, {a, b}, 9.0, &why);
		engine->set_close(set_b);
		engine->set_close(nullptr);
		engine->join_close(nullptr);
		context.stage(open, b, 0, 500);
		join = context.begin(set_a, set_a, INFINITY);
		context.note(engine->next(join, 0, &batch));
		tap::ok(good && !context.failed(), "closed while in use, %s: %s %s", mode.name,
				why.c_str(), context.error());
		/* the context is closed while a join is running and a set is unsealed */
	}
	cudaMemGetInfo(&free_after, &whole);
	tap::ok(free_after == free_before, "all device memory is freed: %zu, %zu", free_before,
			free_after);
}

/* Sets fit if fits returns true, and a few rows always fit. */
void
test_fits()
{
	const FastedEngine *engine = fasted_engine();
	const uint64_t ones[3] = {1, 1, 1};
	const uint64_t many[3] = {FASTED_MAX_ROWS, 1, 1};

	for (const Mode &mode : modes)
	{
		uint64_t	limit = little_memory(mode, 1000, 100);
		TestContext context(100, mode, limit);
		uint64_t	low = 1;
		uint64_t	high = 100000;
		bool		good = engine->fits(context.get(), ones, 3) && !engine->fits(context.get(), many, 3);

		while (low < high)
		{
			uint64_t	middle = (low + high + 1) / 2;
			uint64_t	rows[3] = {middle, middle / 8 + 1, middle / 8 + 1};

			if (engine->fits(context.get(), rows, 3))
				low = middle;
			else
				high = middle - 1;
		}
		for (uint64_t n : {low, low / 8 + 1, low / 8 + 1})
			context.filled(normal_rows((uint32_t) n, 100, 41), n);
		tap::ok(good && !context.failed() && context.stats().device_bytes <= limit,
				"%s: sets of n, n/8 and n/8 rows fit, n = %llu %s", mode.name,
				(unsigned long long) low, context.error());
	}

	TestContext none(100, modes[0], 100000);

	tap::ok(none.failed(), "too little memory: %s", none.error());
}

}								/* namespace */

int
main()
{
	char		reason[300] = "";

	if (fasted_engine()->probe(nullptr, reason, sizeof(reason)) != FASTED_OK)
	{
		tap::ok(false, "a GPU is available: %s", reason);
		return tap::done();
	}
	/* the first join loads the kernels, which remain loaded */
	run_join(normal_rows(300, 64, 50), problem_of(1, modes[0]));
	test_quantised_once();
	test_forms(modes[0]);
	test_forms(modes[3]);
	test_close();
	test_fits();
	return tap::done();
}
