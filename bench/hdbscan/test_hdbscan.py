#!/usr/bin/env python3
"""Tests of the peers of HDBSCAN, which need neither a server nor a GPU.

    bench/hdbscan/test_hdbscan.py [-v]

A peer whose library is missing is skipped.
"""
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parent))
import run  # noqa: E402

ARGS = SimpleNamespace(min_samples=5, min_cluster_size=10, threads=2)
N = 600


def rows_of(d):
    """Returns three separate clusters of rows, and their numbers; the rows of a cluster alternate with those of the others."""
    numbers = numpy.arange(N) % 3
    return (numpy.random.default_rng(5).standard_normal((N, d)) + 20 * numpy.eye(3, d)[numbers]).astype(numpy.float32), numbers


def spanning_weights(rows, min_samples):
    """Returns the ascending weights of the minimum spanning tree under mutual reachability, by Prim's algorithm in FP64."""
    wide = rows.astype(numpy.float64)
    distances = numpy.stack([numpy.sqrt(((wide - row) ** 2).sum(1)) for row in wide])
    core = numpy.sort(distances, axis=1)[:, min_samples - 1]
    weights = numpy.maximum(distances, numpy.maximum(core, core[:, None]))
    outside, nearest, found = numpy.ones(len(rows), bool), numpy.full(len(rows), numpy.inf), []
    added = 0
    while outside[added] and outside.sum() > 1:
        outside[added] = False
        nearest = numpy.minimum(nearest, weights[added])
        added = int(numpy.argmin(numpy.where(outside, nearest, numpy.inf)))
        found.append(nearest[added])
    return numpy.sort(found)


class Peers(unittest.TestCase):
    def check_exact(self, name, d=3):
        """The tree has the weights of Prim's algorithm, so min_samples counts the row itself, and the clusters are found."""
        rows, numbers = rows_of(d)
        try:
            seconds, labels, weights = run.run_peer(run.PEERS[name], rows, ARGS)
        except ImportError as error:
            raise unittest.SkipTest(str(error)) from None
        self.assertGreater(seconds, 0)
        self.assertLess(numpy.abs(weights - spanning_weights(rows, ARGS.min_samples)).max(), 1e-5)
        clustered = labels >= 0
        self.assertGreater(clustered.sum(), 0.8 * N)
        self.assertEqual(run.differing_rows(numbers[clustered], labels[clustered]), 0)

    def test_sklearn(self):
        self.check_exact("scikit-learn")

    def test_hdbscan(self):
        """With 60 dimensions or fewer, its tree is approximate by default."""
        self.check_exact("hdbscan", 80)

    def test_fast_hdbscan(self):
        self.check_exact("fast-hdbscan")

    def test_other_min_samples(self):
        """The check of the weights notices a different number of samples."""
        rows, _ = rows_of(3)
        self.assertGreater(numpy.abs(spanning_weights(rows, 5) - spanning_weights(rows, 6)).max(), 1e-2)


class Compared(unittest.TestCase):
    def test_differing_rows(self):
        for ours, theirs, differ in (([0, 0, 1, 1, -1], [4, 4, 2, 2, -1], 0), ([], [], 0), ([0, 0, 0, 1], [5, 5, 6, 6], 1),
                                     ([0, 0, 1, 1], [0, 0, 0, 0], 2), ([0, 0, 0, 0], [0, 0, 1, 1], 2),
                                     ([-1, -1, -1, 0], [0, 0, 0, 0], 3), ([0, 0, 0, 1], [-1, -1, -1, 1], 3)):
            with self.subTest(ours=ours, theirs=theirs):
                self.assertEqual(run.differing_rows(numpy.array(ours), numpy.array(theirs)), differ)

    def test_compared(self):
        try:
            found = run.compared(numpy.array([0, 0, 1, 1, -1]), numpy.array([1., 2., 3., 4.]), numpy.array([1, 1, 0, -1, -1]), numpy.array([1., 2., 3., 4.5]))
        except ImportError as error:
            raise unittest.SkipTest(str(error)) from None
        self.assertEqual((found["rows_that_differ"], found["noise_that_differs"], found["largest_difference"]), (1, 1, 0.5))
        self.assertLess(found["rand_index"], 1)


if __name__ == "__main__":
    unittest.main()
