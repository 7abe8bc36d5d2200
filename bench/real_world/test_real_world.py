#!/usr/bin/env python3
"""Tests of what plans and reads the benchmark; no server, no GPU.

    bench/real_world/test_real_world.py [-v]
"""
import sys
import unittest
from pathlib import Path

import numpy

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import epsilon  # noqa: E402
import ours  # noqa: E402
import others  # noqa: E402
import plan  # noqa: E402


class Plan(unittest.TestCase):
    def test_all_rows_where_they_fit(self):
        # 100 times the rows, 10000 times the time
        self.assertEqual(plan.rows_within("FAISS", 123456, 1234.56, 0.001, 10.0), 123456)

    def test_fewer_rows(self):
        self.assertEqual(plan.rows_within("FAISS", 123456, 10000, 1.0, 30.0), 50000)
        self.assertEqual(plan.rows_within("FAISS", 123456, 10000, 1.0, 24.9), 20000)
        self.assertEqual(plan.rows_within("FAISS", 123456, 10000, 1.0, 1.0), 10000)

    def test_no_rows(self):
        self.assertIsNone(plan.rows_within("FAISS", 123456, 10000, 1e6, 30.0))

    def test_growth(self):
        self.assertAlmostEqual(plan.predict("FAISS", 20000, 10000, 1.0), 4.0)
        self.assertLess(plan.predict("pgvector HNSW", 20000, 10000, 1.0), 2.5)

    def test_pytorch(self):
        """Every PyTorch method has a prediction, and the way out of the table counts."""
        for method in others.ON_GPU:
            self.assertGreater(plan.predict_gpu(method, 10 ** 6, 960, 64), 5)
            self.assertLess(plan.predict_gpu(method, 10 ** 6, 128, 64), plan.predict_gpu(method, 10 ** 6, 960, 64))
        self.assertGreater(plan.predict_gpu("export, PyTorch FP32", 10 ** 6, 960, 64),
                           plan.predict_gpu("PyTorch FP32", 10 ** 6, 960, 64) + 20)
        # and so does the answer's way back
        self.assertGreater(plan.predict_gpu("export, PyTorch FP32", 10 ** 6, 128, 256),
                           plan.predict_gpu("export, PyTorch FP32", 10 ** 6, 128, 64) + 20)

    def test_outputs(self):
        self.assertEqual(plan.predict_output("count", 10 ** 9, 13.0), 13.0)
        self.assertGreater(plan.predict_output("rows", 10 ** 9, 13.0), 200)
        self.assertLess(plan.predict_output("some", 3 * 10 ** 8), 30)

    def test_repetitions(self):
        self.assertTrue(plan.again(0, 5, 0.0, 1.0))
        self.assertTrue(plan.again(2, 5, 20.0, 30.0))
        self.assertFalse(plan.again(2, 5, 20.1, 30.0))
        self.assertFalse(plan.again(5, 5, 0.1, 30.0))

    def test_names(self):
        self.assertIn("pgvector HNSW", others.METHODS)
        methods = ["fasted cuda", "PyTorch FP16", "export, PyTorch FP32"]
        self.assertEqual(plan.matching(methods, ["torch"]), methods[1:])
        self.assertEqual(plan.matching(methods, ["cuda", "FP32"]), ["fasted cuda", "export, PyTorch FP32"])
        self.assertEqual(plan.matching(methods, None), methods)
        # a whole name is that method alone
        methods = ["fasted cuda", "fasted cuda fp16", "PyTorch FP16", "PyTorch FP16-32"]
        self.assertEqual(plan.matching(methods, ["fasted cuda", "pytorch fp16"]), ["fasted cuda", "PyTorch FP16"])
        self.assertEqual(plan.matching(methods, ["cuda", "FP16-32"]), [methods[0], methods[1], methods[3]])


class Server:
    """Answers psql() from a list."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def psql(self, _):
        return self.answers.pop(0)


class Epsilon(unittest.TestCase):
    def test_by_the_server(self):
        rows = numpy.full((3, 2), 0.25, dtype=numpy.float32)
        found = epsilon.choose(Server("1", "0.5|0.4|0.6"), "items", rows, [64])
        self.assertEqual(found, {64: {"eps": 0.5, "eps_low": 0.4, "eps_high": 0.6, "eps_source": "fasted_epsilon",
                                      "seed": epsilon.SEED}})

    def test_by_a_sample(self):
        """All rows asked: the mean number of neighbours is S."""
        rows = numpy.random.default_rng(1).standard_normal((400, 8), dtype=numpy.float32)
        found = epsilon.choose(Server(""), "items", rows, [20, 4])
        distances = numpy.sqrt(((rows[:, None] - rows[None]) ** 2).sum(2))
        for selectivity in (4, 20):
            neighbours = (distances <= found[selectivity]["eps"]).sum() / 400 - 1
            self.assertAlmostEqual(neighbours, selectivity, delta=0.1)


    def test_between_distances_of_integers(self):
        rows = numpy.array([[0, 0], [3, 4]], dtype=numpy.float32)
        for eps in (numpy.nextafter(5.0, 0), 5.0):
            self.assertAlmostEqual(epsilon.between(rows, eps) ** 2, 25.5)
        self.assertEqual(epsilon.between(rows / 8, 5.0), 5.0)


class Explain(unittest.TestCase):
    def test_node(self):
        join = {"Rows Read": 3}
        self.assertIs(ours.join_node({"Plans": [{"Plans": []}, {"Plans": [join]}]}), join)
        self.assertIsNone(ours.join_node({"Plans": [{}]}))


if __name__ == "__main__":
    unittest.main()
