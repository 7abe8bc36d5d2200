#!/usr/bin/env python3
"""Tests of the benchmark's predictions, checks and report.  They need neither a server nor a GPU.

    bench/real_world/test_real_world.py [-v]
"""
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

import numpy

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE.parent / "report")]
import epsilon  # noqa: E402
import ours  # noqa: E402
import others  # noqa: E402
import plan  # noqa: E402
import chosen  # noqa: E402
import real_world  # noqa: E402
import run  # noqa: E402
from check import Check  # noqa: E402
from peers import reference  # noqa: E402


class Plan(unittest.TestCase):
    def test_all_rows_where_they_fit(self):
        # 100 times as many rows take 10000 times as long
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
        """Every PyTorch method has a prediction, which includes export and import."""
        for method in others.ON_GPU:
            self.assertGreater(plan.predict_gpu(method, 10 ** 6, 960, 64), 5)
            self.assertLess(plan.predict_gpu(method, 10 ** 6, 128, 64), plan.predict_gpu(method, 10 ** 6, 960, 64))
        self.assertGreater(plan.predict_gpu("export, PyTorch FP32", 10 ** 6, 960, 64),
                           plan.predict_gpu("PyTorch FP32", 10 ** 6, 960, 64) + 20)
        # the import depends on the number of pairs
        self.assertGreater(plan.predict_gpu("export, PyTorch FP32", 10 ** 6, 128, 256),
                           plan.predict_gpu("export, PyTorch FP32", 10 ** 6, 128, 64) + 20)

    def test_outputs(self):
        self.assertEqual(plan.predict_output("count", 10 ** 9, 13.0), 13.0)
        self.assertGreater(plan.predict_output("rows", 10 ** 9, 13.0), 200)
        self.assertLess(plan.predict_output("sample", 3 * 10 ** 8), 30)

    def test_repetitions(self):
        self.assertTrue(plan.may_repeat(0, 5, 0.0, 1.0))
        self.assertTrue(plan.may_repeat(2, 5, 20.0, 30.0))
        self.assertFalse(plan.may_repeat(2, 5, 20.1, 30.0))
        self.assertFalse(plan.may_repeat(5, 5, 0.1, 30.0))

    def test_names(self):
        self.assertIn("pgvector HNSW", others.METHODS)
        methods = ["fasted cuda", "PyTorch FP16", "export, PyTorch FP32"]
        self.assertEqual(plan.select_methods(methods, ["torch"]), methods[1:])
        self.assertEqual(plan.select_methods(methods, ["cuda", "FP32"]), ["fasted cuda", "export, PyTorch FP32"])
        self.assertEqual(plan.select_methods(methods, None), methods)
        # a complete name selects only the method of that name
        methods = ["fasted cuda", "fasted cuda fp16", "PyTorch FP16", "PyTorch FP16-32"]
        self.assertEqual(plan.select_methods(methods, ["fasted cuda", "pytorch fp16"]), ["fasted cuda", "PyTorch FP16"])
        self.assertEqual(plan.select_methods(methods, ["cuda", "FP16-32"]), [methods[0], methods[1], methods[3]])


class Server:
    """A server whose psql() returns the answers of a list."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def psql(self, _):
        return self.answers.pop(0)


class Epsilon(unittest.TestCase):
    def test_by_the_server(self):
        rows = numpy.full((3, 2), 0.25, dtype=numpy.float32)
        found = epsilon.choose(Server("0.5"), "items", rows, [64])
        self.assertEqual(found, {64: 0.5})

    def test_between_distances_of_integers(self):
        rows = numpy.array([[0, 0], [3, 4]], dtype=numpy.float32)
        for eps in (numpy.nextafter(5.0, 0), 5.0):
            self.assertAlmostEqual(epsilon.between(rows, eps) ** 2, 25.5)
        self.assertEqual(epsilon.between(rows / 8, 5.0), 5.0)


class Checked(unittest.TestCase):
    """Compares the pairs of a sample of rows with those that numpy finds."""

    ROWS = numpy.random.default_rng(3).standard_normal((500, 6), dtype=numpy.float32)

    def check(self, eps, change):
        """Compares a changed result within eps; the check was created for a larger eps."""
        check = Check(self.ROWS, 20, 2.0)
        answer = reference.join(self.ROWS, eps)
        return check.compare(change(*check.pairs_of_chosen(answer.a, answer.b, answer.dist)), eps)

    def test_right(self):
        for eps in (2.0, 1.2):
            found = self.check(eps, lambda a, b, dist: (a, b, dist))
            self.assertEqual((found["checked_rows"], found["missed"], found["spurious"]), (20, 0, 0))
            self.assertGreater(found["checked_pairs"], 20)
            self.assertEqual(found["errors"]["most"], 0)

    def test_wrong(self):
        self.assertEqual(self.check(1.2, lambda a, b, dist: (a[1:], b[1:], dist[1:]))["missed"], 1)
        found = self.check(1.2, lambda a, b, dist: (numpy.append(a, 498), numpy.append(b, 499), numpy.append(dist, 1.0)))
        self.assertEqual((found["missed"], found["spurious"]), (0, 1))


class Methods(unittest.TestCase):
    def test_methods_at(self):
        """Peers run only with their S, and the join inside PostgreSQL runs with each of them."""
        one = run.Run.__new__(run.Run)
        one.args = SimpleNamespace(peer_selectivity=[64])
        one.methods, one.engine, one.unavailable = ["fasted cuda", "PyTorch FP32", "FAISS flat, CPU"], "fasted cuda", {"FAISS flat, CPU"}
        counts = {"fasted cuda": 1000, "PyTorch FP32": 500, "FAISS flat, CPU": 200}
        found = {(n, s): one.methods_at(counts, n, s) for n in counts.values() for s in (64, 128)}
        self.assertEqual(found, {(1000, 64): ["fasted cuda"], (1000, 128): ["fasted cuda"],
                                 (500, 64): ["fasted cuda", "PyTorch FP32"], (500, 128): [], (200, 64): [], (200, 128): []})


class Page(unittest.TestCase):
    """The report combines the results of both files."""

    @staticmethod
    def of(data, rows, seconds):
        return [{"data": data, "rows": rows, "dimensions": 128, "selectivity": 64, "eps": 1.5, "method": "fasted cuda",
                 "output": "count", "seconds": {"first": [2 * seconds], "warm": [seconds]}}]

    def results(self):
        environment = {"revision": "abc", "date": "today"}
        reason = {"data": "sift-like", "rows": 10 ** 7, "selectivity": 64, "method": "fasted cuda", "output": "rows", "reason": "too long"}
        small = self.of("sift-like", 50000, 0.5) + self.of("gist-like", 10 ** 6, 9.0)
        large = self.of("sift-like", 10 ** 7, 13.0) + self.of("sift-like", 10 ** 6, 1.0) + self.of("gist-like", 10 ** 6, 2.0) + [reason]
        return {"real_world": {"environment": environment, "measurements": small}, "over_rows": None, "large_on_cpu": None,
                "real_world_large": {"environment": environment, "measurements": large}}

    def test_both(self):
        results = self.results()
        self.assertEqual([(m["data"], m["rows"], chosen.usual(m)) for m in chosen.timed(chosen.measured(results))],
                         [("sift-like", 50000, [0.5]), ("sift-like", 10 ** 7, [13.0]), ("sift-like", 10 ** 6, [1.0]),
                          ("gist-like", 10 ** 6, [2.0])])
        self.assertEqual([found[:2] for found in real_world.counted(results)],
                         [("sift-like", 10 ** 7), ("sift-like", 10 ** 6), ("gist-like", 10 ** 6)])
        self.assertEqual(len(list(real_world.headlines(results))), 1)
        self.assertEqual(real_world.without_times(chosen.measured(results)),
                         ["- sift-like, n = 10000000, S = 64, fasted cuda, rows: too long"])

    def test_small_alone(self):
        results = {**self.results(), "real_world_large": None}
        self.assertEqual(chosen.measured(results), results["real_world"]["measurements"])


class Calls(unittest.TestCase):
    def test_first_apart(self):
        self.assertEqual(run.first_and_warm([3, 1, 2]), {"first": [3], "warm": [1, 2]})
        self.assertEqual(run.first_and_warm([3]), {"first": [3]})
        self.assertEqual([chosen.usual({"seconds": run.first_and_warm(runs)}) for runs in ([3, 1, 2], [3])], [[1, 2], [3]])


class Explain(unittest.TestCase):
    def test_node(self):
        join = {"Rows Read": 3}
        self.assertIs(ours.join_node({"Plans": [{"Plans": []}, {"Plans": [join]}]}), join)
        self.assertIsNone(ours.join_node({"Plans": [{}]}))


if __name__ == "__main__":
    unittest.main()
