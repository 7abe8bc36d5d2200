#!/usr/bin/env python3
"""Tests of the comparison of results.

    bench/gpu_peers/test_gpu_peers.py [-v]
"""
import unittest

from numpy import array
from run import compared, counts, page

NOISE, CORE = -1, array([True, True, True, True, False])
CLUSTERS = array([0, 0, 1, 1, NOISE])


class Compared(unittest.TestCase):
    def test_distances(self):
        self.assertEqual(compared("nearest", array([0.0, 2, 4]), array([0.0, 2, 4.5])), {"largest_difference": 0.125})

    def test_clusters_have_other_numbers(self):
        self.assertEqual(compared("dbscan", (CLUSTERS, CORE), (array([7, 7, 3, 3, NOISE]), CORE)),
                         {"rows_that_differ": 0, "noise_that_differs": 0})

    def test_clusters_differ(self):
        self.assertEqual(compared("dbscan", (CLUSTERS, CORE), (array([0, 0, 1, 0, NOISE]), CORE))["rows_that_differ"], 1)

    def test_core_rows_and_noise_differ(self):
        self.assertEqual(compared("dbscan", (CLUSTERS, CORE), (array([0, 0, 1, 1, 1]), array([True, True, True, False, False]))),
                         {"rows_that_differ": 1, "noise_that_differs": 1})

    def test_rows_that_are_not_core_rows_are_not_compared(self):
        self.assertEqual(compared("dbscan", (array([0, 0, 1, 1, 0]), CORE), (array([0, 0, 1, 1, 1]), CORE))["rows_that_differ"], 0)

    def test_counts(self):
        self.assertEqual(counts("hdbscan", (CLUSTERS, CORE)), {"clusters": 2, "noise": 1})

    def test_page(self):
        about = {"data": "sift-like", "rows": 5, "dimensions": 128, "eps": 1.0, "kind": "nearest"}
        text = page({}, {"k": 10, "min_samples": 10, "min_cluster_size": 10},
                    [{**about, "method": "fasted", "seconds": {"warm": [0.5]}, "memory_mib": 9},
                     {**about, "method": "cuML", "seconds": {"warm": [2.0]}, "memory_mib": 9, "largest_difference": 1e-7},
                     {**about, "method": "cuhc", "reason": "not available"}])
        self.assertIn("| nearest | cuML | 2.000 | 4.0 | 9 |  | 1e-07 |", text)
        self.assertIn("| nearest | cuhc | not available |", text)


if __name__ == "__main__":
    unittest.main()
