#!/usr/bin/env python3
"""Estimate the distance at which a row of a data set has S neighbours on average.

    bench/datasets/eps.py NAME [--rows N] [-s 64 128 256] [--queries 1000]

The script computes the distances between a random sample of rows and all rows.  The seed of
the sample is fixed.  A row does not count as a neighbour of itself.
"""
import argparse
import sys
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import datasets  # noqa: E402

PIECE = 20000


def distances(x, neighbours=(64, 128, 256), queries=1000, seed=0):
    """Returns a list with the eps of each S in neighbours, for the rows x (n, d)."""
    sample = numpy.sort(numpy.random.default_rng(seed).permutation(len(x))[:queries])
    q = x[sample]
    q_squares = numpy.einsum("ij,ij->i", q, q)[:, None]
    wanted = [s * len(q) for s in neighbours]
    if max(wanted) >= len(q) * (len(x) - 1):
        raise ValueError(f"S = {max(neighbours)} is too large for {len(x)} rows")
    nearest = numpy.empty(0, numpy.float32)
    for begin in range(0, len(x), PIECE):
        part = x[begin:begin + PIECE]
        squares = q_squares + numpy.einsum("ij,ij->i", part, part) - 2 * (q @ part.T)
        own = numpy.flatnonzero((sample >= begin) & (sample < begin + len(part)))
        squares[own, sample[own] - begin] = numpy.inf
        nearest = numpy.concatenate((nearest, squares[squares <= cutoff(nearest, wanted)]))
        if len(nearest) > max(wanted):
            nearest = numpy.partition(nearest, max(wanted) - 1)[:max(wanted)]
    nearest.sort()
    return [float(numpy.sqrt(max(0, nearest[count - 1]))) for count in wanted]


def cutoff(nearest, wanted):
    """Returns the squared distance above which a pair cannot be among the nearest ones."""
    return nearest.max() if len(nearest) >= max(wanted) else numpy.inf


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="name of the data set")
    parser.add_argument("--rows", type=int, help="number of rows; by default all")
    parser.add_argument("-s", dest="neighbours", type=int, nargs="+", default=[64, 128, 256],
                        help="mean numbers of neighbours per row")
    parser.add_argument("--queries", type=int, default=1000, help="number of rows in the sample")
    args = parser.parse_args()
    try:
        x = datasets.load(args.name, args.rows)
    except (datasets.MissingFile, ValueError) as error:
        sys.exit(f"eps.py: {error}")
    print(f"{args.name}: {len(x)} x {x.shape[1]}, {args.queries} queries")
    for s, eps in zip(args.neighbours, distances(x, args.neighbours, args.queries)):
        print(f"S = {s}: {eps:.6g}")


if __name__ == "__main__":
    main()
