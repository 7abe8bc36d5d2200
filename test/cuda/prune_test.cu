/*-------------------------------------------------------------------------
 *
 * prune_test.cu
 *	  Projected rows: each is within its error bound.  Joins of projected rows are tested by
 *	  ../unit/test_prune.c and test_joins.c.
 *
 *	prune_test				all tests
 *	prune_test --small		a subset for compute-sanitizer
 *
 *-------------------------------------------------------------------------
 */
#include "cases.h"
#include "rows/form.h"

using namespace fasted;

namespace
{

enum Kind
{
	kNormal,
	kClusters,
	kLowRank,					/* three directions, far from the origin */
	kConstant,					/* most coordinates are equal in all rows */
	kOutliers,					/* one row in a hundred is much longer */
	kWild,						/* out-of-range rows: not finite or huge */
	kTies,						/* small integers */
	kTinySteps,					/* distant clusters, within which rows differ in the last bits */
	kHuge,
	kTiny,
	kEqual,						/* one vector, repeated */
	kKinds
};

const char *const names[kKinds] = {"normal", "clusters", "low rank", "constant coordinates",
	"outliers", "out of range", "ties", "tiny steps", "huge", "tiny", "equal"};

float
value_of(Kind kind, uint32_t row, uint32_t k, const double *weights, double v)
{
	switch (kind)
	{
		case kClusters:
			return (float) (0.05 * v + 2.0 * sin(row % 12 * 50.0 + (double) k * k));
		case kLowRank:
			return (float) (1e3 + weights[0] * sin(k) + weights[1] * cos(3.0 * k) + weights[2] * (k % 7));
		case kConstant:
			return k % 9 == 0 ? (float) v : 5.25f;
		case kOutliers:
			return (float) (row % 100 == 17 ? 3e3 * v : v);
		case kWild:
			return row % 40 == 3 && k % 5 == 0 ? (row % 80 == 3 ? NAN : INFINITY)
				: (float) (row % 50 == 9 ? 1e30 * v : v);
		case kTies:
			return (float) floor(2.0 * v);
		case kTinySteps:
			return (float) ((row % 5) * 1e4 * cos(k + row % 5) * (1.0 + 1e-7 * floor(4.0 * v)));
		case kHuge:
			return (float) (1e36 * v);
		case kTiny:
			return (float) (1e-38 * v);
		case kEqual:
			return (float) sin(k);
		default:
			return (float) v;
	}
}

/* Makes rows; one in twenty is a copy of another. */
Rows
rows_of(Kind kind, uint32_t n, uint32_t d, uint64_t seed)
{
	Rows		rows(n, d);
	Normal		normal(seed);

	for (uint32_t i = 0; i < n; i++)
	{
		double		weights[3] = {normal(), normal(), normal()};

		if (i > 0 && normal.bits() % 20 == 0)
		{
			memcpy(rows.row(i), rows.row(normal.bits() % i), d * sizeof(float));
			continue;
		}
		for (uint32_t k = 0; k < d; k++)
			rows.row(i)[k] = value_of(kind, i, k, weights, normal());
	}
	return rows;
}

/* Rows and their projection on the device; projected rows of one width on the host. */
struct Projected
{
	Projected(const Rows &rows, uint32_t width)
		: projection(budget, rows.d), z((size_t) rows.n * width), moved(rows.n),
		centre(rows.d), directions((size_t) rows.d * kMostWidth)
	{
		DeviceArray<float> values;
		DeviceArray<const float *> chunk;
		DeviceArray<float> to;
		DeviceArray<float> off;
		Stream		stream;

		values.allocate(budget, rows.values.size(), "testing");
		chunk.allocate(budget, 1, "testing");
		to.allocate(budget, z.size(), "testing");
		off.allocate(budget, moved.size(), "testing");
		stream.create();

		const float *at = values.get();
		RowTable	table = {chunk.get(), 31, rows.d, rows.n};
		ProjectionFit fit(budget, rows.d, (size_t) 8 << 20);

		check_cuda(cudaMemcpy(chunk.get(), &at, sizeof(at), cudaMemcpyHostToDevice), "testing");
		check_cuda(cudaMemcpy(values.get(), rows.values.data(), rows.values.size() * sizeof(float),
							  cudaMemcpyHostToDevice), "testing");
		/* a copy from pageable memory may still be running, and the stream does not wait for it */
		check_cuda(cudaDeviceSynchronize(), "testing");
		found = fit.find(SampledRows(table), &projection, stream);
		if (!found)
			return;
		launch_project(RowPiece{table, 0, rows.n}, projection.view(), width, to.get(), off.get(),
					   stream);
		check_cuda(cudaStreamSynchronize(stream), "testing");
		read(z, to.get());
		read(moved, off.get());
		read(centre, projection.centre());
		read(directions, projection.directions());
	}

	static void read(std::vector<float> &host, const float *device)
	{
		check_cuda(cudaMemcpy(host.data(), device, host.size() * sizeof(float),
							  cudaMemcpyDeviceToHost), "testing");
	}

	Budget		budget;
	Projection	projection;
	bool		found;
	std::vector<float> z;
	std::vector<float> moved;
	std::vector<float> centre;
	std::vector<float> directions;
};

long double
norm_of(const std::vector<long double> &x)
{
	long double sum = 0;

	for (long double v : x)
		sum += v * v;
	return sqrtl(sum);
}

/* Returns the Frobenius norm of P P' - I. */
long double
true_eta(const Projected &p, uint32_t d)
{
	long double sum = 0;

	for (uint32_t i = 0; i < p.projection.count; i++)
	{
		for (uint32_t j = 0; j <= i; j++)
		{
			long double product = i == j ? -1 : 0;

			for (uint32_t k = 0; k < d; k++)
				product += (long double) p.directions[(size_t) k * kMostWidth + i]
					* p.directions[(size_t) k * kMostWidth + j];
			sum += (i == j ? 1 : 2) * product * product;
		}
	}
	return sqrtl(sum);
}

/* Returns the error of a projected row, relative to its bound. */
long double
part_of_bound(const Projected &p, const float *row, uint32_t number, uint32_t d, uint32_t width)
{
	uint32_t	count = std::min(p.projection.count, width - 1);
	const float *z = &p.z[(size_t) number * width];
	std::vector<long double> rest(d);
	std::vector<long double> error(width, 0);
	bool		finite = true;

	for (uint32_t k = 0; k < d; k++)
	{
		rest[k] = ((long double) row[k] - p.centre[k]) * p.projection.scale;
		finite = finite && std::isfinite(row[k]);
	}
	if (!finite)
		return p.moved[number] == INFINITY ? 0 : INFINITY;

	std::vector<long double> along(count, 0);

	for (uint32_t i = 0; i < count; i++)
	{
		for (uint32_t k = 0; k < d; k++)
			along[i] += p.directions[(size_t) k * kMostWidth + i] * rest[k];
		error[i] = along[i] - z[i];
	}
	for (uint32_t i = count; i + 1 < width; i++)
		error[i] = z[i];
	for (uint32_t i = 0; i < count; i++)
	{
		for (uint32_t k = 0; k < d; k++)
			rest[k] -= p.directions[(size_t) k * kMostWidth + i] * along[i];
	}
	error[width - 1] = norm_of(rest) - z[width - 1];
	return norm_of(error) / p.moved[number];
}

void
test_bound(bool small)
{
	for (int kind = 0; kind < kKinds; kind++)
	{
		for (uint32_t d : {1, 5, 63, 64, 100, 128, 301, 960})
		{
			if (small && (d != 301 || kind % 4 != kLowRank))
				continue;
			for (uint32_t width : kProjectedWidths)
			{
				uint32_t	n = d > 128 ? 150 : 500;
				Rows		rows = rows_of((Kind) kind, n, d, kind * 1000 + d);
				Projected	p(rows, width);
				std::vector<long double> parts(n, 0);
				long double most = 0;
				long double typical = 0;

				if (!p.found)
				{
					tap::ok(kind == kEqual || kind == kTiny || kind == kWild,
							"no directions: %s, d = %u, width %u", names[kind], d, width);
					continue;
				}

				long double eta = true_eta(p, d);

				parallel(n, [&](uint32_t i) { parts[i] = part_of_bound(p, rows.row(i), i, d, width); });
				for (long double part : parts)
					most = std::max(most, part);
				for (float moved : p.moved)
					typical += moved == INFINITY ? 0 : moved / n;
				tap::ok(most <= 1 && eta <= p.projection.eta,
						"%s, d = %u, width %u, %u directions: %.2Lg of the bound; mean bound %.2Lg; "
						"eta %.2g, bound %.2g", names[kind], d, width, p.projection.count, most,
						typical, (double) eta, p.projection.eta);
			}
		}
	}
}

}								/* namespace */

int
main(int argc, char **argv)
{
	bool		small = argc > 1 && strcmp(argv[1], "--small") == 0;

	try
	{
		test_bound(small);
	}
	catch (const Failure &failure)
	{
		tap::ok(false, "%s", failure.text);
	}
	return tap::done();
}
