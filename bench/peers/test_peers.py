#!/usr/bin/env python3
"""Tests of compare.py and of the peers that need neither a GPU nor a server.

    bench/peers/test_peers.py [-v]

A peer whose library is missing is skipped.
"""
import importlib
import sys
import unittest
from functools import partial
from pathlib import Path

import numpy
from numpy import array

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from peers import binary_copy, compare, reference  # noqa: E402
from peers.answer import TimeLimit, Unsuitable  # noqa: E402

N, D = 700, 24


def rows_of(n=N, d=D, seed=7):
    return numpy.random.default_rng(seed).standard_normal((n, d), dtype=numpy.float32)


def all_distances(rows):
    """Returns the distances of all pairs in FP64: (n, n)."""
    wide = rows.astype(numpy.float64)
    return numpy.stack([numpy.sqrt(((wide - row) ** 2).sum(1)) for row in wide])


def brute_force(rows, pairs):
    """Returns ({(a, b): dist}, eps) with about the given number of nearest pairs.

    Eps is in the middle of a gap between two distances.
    """
    distances = all_distances(rows)
    a, b = numpy.triu_indices(len(rows), 1)
    order = numpy.argsort(distances[a, b])
    a, b = a[order], b[order]
    dist = distances[a, b]
    # the widest gap, so that rounding in FP32 does not change the result
    last = pairs - 50 + int(numpy.argmax(numpy.diff(dist[pairs - 50:pairs + 50])))
    eps = float(dist[last] + dist[last + 1]) / 2
    return dict(zip(zip(a[:last + 1].tolist(), b[:last + 1].tolist()), dist[:last + 1].tolist())), eps


def as_dict(answer):
    found = dict(zip(zip(answer.a.tolist(), answer.b.tolist()), answer.dist.tolist()))
    assert len(found) == len(answer.a), "a pair was returned twice"
    return found


def import_peer(name):
    try:
        return importlib.import_module(f"peers.{name}")
    except ImportError as error:
        raise unittest.SkipTest(str(error)) from None


class Joins(unittest.TestCase):
    """Blocks and tiles are smaller than the number of rows and do not divide it."""

    def check(self, join, rows=None, digits=5):
        rows = rows_of() if rows is None else rows
        expected, eps = brute_force(rows, 2000)
        found = as_dict(join(rows, eps))
        self.assertEqual(found.keys(), expected.keys())
        for pair, dist in expected.items():
            self.assertAlmostEqual(found[pair], dist, digits)

    def check_limit(self, join):
        with self.assertRaises(TimeLimit):
            join(rows_of(), 1.0, limit_seconds=0)

    def check_none(self, join):
        self.assertEqual(len(join(rows_of(), 1e-3).a), 0)

    def check_all(self, join):
        self.assertEqual(len(join(rows_of(60), 1e3).a), 60 * 59 // 2)

    def check_equal_rows(self, join):
        rows = rows_of(40)
        rows[35] = rows[3]
        answer = join(rows, 0.01)
        self.assertEqual((answer.a.tolist(), answer.b.tolist()), ([3], [35]))

    def check_cases(self, join):
        self.check(join)
        self.check_limit(join)
        self.check_none(join)
        self.check_all(join)
        self.check_equal_rows(join)

    def test_faiss(self):
        self.check_cases(partial(import_peer("faiss_join").join, block=100))

    def test_sklearn(self):
        self.check_cases(partial(import_peer("sklearn_join").join, block=100))

    def test_usearch(self):
        """USearch finds nearly all pairs, each once, and no other pairs; k is less than the number of rows."""
        rows = rows_of()
        expected, eps = brute_force(rows / numpy.linalg.norm(rows, axis=1, keepdims=True), 2000)
        answer = import_peer("usearch_join").join(rows, eps ** 2 / 2)
        found = list(zip(answer.a.tolist(), answer.b.tolist()))
        self.assertEqual(len(found), len(set(found)))
        self.assertLessEqual(set(found), expected.keys())
        self.assertGreater(len(found), 0.95 * len(expected))

    def test_semhash(self):
        rows = rows_of(40)
        rows[35] = 2 * rows[3]
        self.assertEqual(import_peer("semhash_keep").keep(rows, 0.01)[0], [row for row in range(40) if row != 35])

    def test_reference(self):
        join = partial(reference.join, block=100)
        self.check(join, digits=12)
        self.check_limit(join)
        self.check_none(join)
        self.check_all(join)

    def test_torch_fp32(self):
        self.check_cases(partial(import_peer("torch_join").join, device="cpu", precision="fp32", tile=100))

    def test_torch_fp16_overflow(self):
        with self.assertRaisesRegex(Unsuitable, "overflow FP16"):
            import_peer("torch_join").join(rows_of() + 60, 1.0, device="cpu", precision="fp16")

    def test_torch_flushed_in_pieces(self):
        self.check(partial(import_peer("torch_join").join, device="cpu", precision="fp32", tile=100, flush_pairs=50))

    def test_torch_fp16_of_small_integers(self):
        """Products and norms of small integers are exact in FP16."""
        torch_join = import_peer("torch_join")
        rows = numpy.random.default_rng(3).integers(0, 5, (300, 12)).astype(numpy.float32)
        distances = all_distances(rows)
        # eps^2 lies between the squared distances 9 and 10
        expected = {(a, b) for a, b in zip(*numpy.nonzero(numpy.triu(distances <= 3.1, 1)))}
        self.assertGreater(len(expected), 20)
        for precision in ("fp16", "fp16-32"):
            found = as_dict(torch_join.join(rows, 3.1, device="cpu", precision=precision, tile=64))
            self.assertEqual(found.keys(), expected)

    def test_torch_fp16_is_approximate(self):
        """Rounding in FP16 changes the result, which shows that FP16 is used."""
        torch_join = import_peer("torch_join")
        rows = rows_of()
        exact = reference.join(rows, 4.0)
        for precision in ("fp16", "fp16-32"):
            found = torch_join.join(rows, 4.0, device="cpu", precision=precision, tile=256)
            result = compare.compare_answers(exact, found, N)
            self.assertGreater(result["errors"]["most"], 1e-5)
            self.assertLess(result["errors"]["most"], 1e-1)
            self.assertGreater(result["overlap"], 0.9)

    def test_gemm_floor(self):
        seconds = import_peer("torch_join").gemm_floor(rows_of(), device="cpu", tile=300, repeats=2)
        self.assertEqual({form: len(times) for form, times in seconds.items()}, {"whole": 2, "tiles": 2, "triangle": 2})
        times = import_peer("torch_join").gemm_floor(rows_of(), device="cpu", repeats=2, limit_seconds=0)
        self.assertEqual({len(seconds) for seconds in times.values()}, {1})
        self.assertNotIn("whole", import_peer("torch_join").gemm_floor(rows_of(), device="cpu", whole_bytes=100, repeats=1))


class Reference(unittest.TestCase):
    def test_pairs_of_queries(self):
        rows = rows_of()
        expected, eps = brute_force(rows, 2000)
        for queries in ([], [5], range(0, N, 3)):
            a, b, dist = reference.of_queries(rows, queries, eps, block=130)
            wanted = {pair for pair in expected if set(pair) & set(queries)}
            self.assertEqual(sorted(zip(a.tolist(), b.tolist())), sorted(wanted))
            self.assertEqual(len(dist), len(a))


    def test_far_from_the_origin(self):
        """The norms are much larger than eps, so that FP32 cannot decide most pairs."""
        rows = rows_of() + 100
        a, b = numpy.nonzero(numpy.triu(all_distances(rows) <= 4.5, 1))
        answer = reference.join(rows, 4.5)
        self.assertGreater(len(a), 100)
        self.assertEqual(sorted(zip(answer.a.tolist(), answer.b.tolist())), list(zip(a.tolist(), b.tolist())))


class Compare(unittest.TestCase):
    @staticmethod
    def pairs(*pairs, dist=None):
        a, b = (array([pair[side] for pair in pairs], dtype=numpy.int64) for side in (0, 1))
        return a, b, None if dist is None else array(dist, dtype=numpy.float64)

    def test_equal(self):
        result = compare.compare(self.pairs((0, 1), (1, 2)), self.pairs((2, 1), (0, 1)), 4)
        self.assertEqual(result, {"pairs": 2, "missed": 0, "spurious": 0, "repeated": 0, "overlap": 1.0, "errors": None})

    def test_missed(self):
        result = compare.compare(self.pairs((0, 1), (1, 2)), self.pairs((0, 1)), 4)
        self.assertEqual((result["missed"], result["spurious"]), (1, 0))
        # one of two neighbours of row 1 is found, and none of one of row 2; rows 0 and 3 are complete
        self.assertAlmostEqual(result["overlap"], (1 + 0.5 + 0 + 1) / 4)

    def test_spurious(self):
        result = compare.compare(self.pairs((0, 1)), self.pairs((0, 1), (3, 0), (2, 3)), 4)
        self.assertEqual((result["missed"], result["spurious"], result["pairs"]), (0, 2, 3))
        self.assertAlmostEqual(result["overlap"], (0.5 + 1 + 0 + 0) / 4)

    def test_both_directions_of_error(self):
        result = compare.compare(self.pairs((0, 1), (2, 3)), self.pairs((0, 1), (1, 3)), 5)
        self.assertEqual((result["missed"], result["spurious"]), (1, 1))
        self.assertAlmostEqual(result["overlap"], (1 + 0.5 + 0 + 0 + 1) / 5)

    def test_nothing_in_common(self):
        result = compare.compare(self.pairs((0, 1)), self.pairs((2, 3)), 4)
        self.assertEqual((result["missed"], result["spurious"], result["overlap"]), (1, 1, 0.0))

    def test_empty(self):
        empty, one = self.pairs(dist=[]), self.pairs((0, 2), dist=[1.0])
        self.assertEqual(compare.compare(empty, empty, 3)["overlap"], 1.0)
        result = compare.compare(empty, one, 3)
        self.assertEqual((result["missed"], result["spurious"], result["errors"]), (0, 1, None))
        self.assertAlmostEqual(result["overlap"], 1 / 3)
        result = compare.compare(one, empty, 3)
        self.assertEqual((result["missed"], result["spurious"], result["errors"]), (1, 0, None))

    def test_repeated(self):
        result = compare.compare(self.pairs((0, 1)), self.pairs((0, 1), (1, 0), (0, 1)), 2)
        self.assertEqual((result["pairs"], result["repeated"], result["spurious"]), (3, 2, 0))
        self.assertEqual(result["overlap"], 1.0)

    def test_errors_are_of_the_same_pair(self):
        """Errors are other minus exact.  The order of the pairs differs, and each side has a pair that the other lacks."""
        exact = self.pairs((0, 1), (1, 2), (0, 3), dist=[1.0, 2.0, 9.0])
        other = self.pairs((2, 1), (2, 3), (1, 0), dist=[2.5, 7.0, 0.9])
        errors = compare.compare(exact, other, 4)["errors"]
        self.assertEqual(errors["pairs"], 2)
        self.assertAlmostEqual(errors["mean"], (0.5 - 0.1) / 2)
        self.assertAlmostEqual(errors["deviation"], 0.3)
        self.assertAlmostEqual(errors["most"], 0.5)

    def test_large_numbers_of_rows(self):
        """Keys a n + b exceed 32 bits although the arrays have 32-bit elements."""
        n = 10_000_000
        a, b = array([n - 3, n - 2], dtype=numpy.int32), array([n - 2, n - 1], dtype=numpy.int32)
        result = compare.compare((a, b, None), (a[1:], b[1:], None), n)
        self.assertEqual((result["missed"], result["spurious"]), (1, 0))
        # keys that are equal in their lower 32 bits
        result = compare.compare(self.pairs((1, 9000)), self.pairs((4097, 9000)), 1 << 20)
        self.assertEqual((result["missed"], result["spurious"]), (1, 1))


class BinaryCopy(unittest.TestCase):
    @staticmethod
    def rows_out(first, rows, kind="real[]"):
        return b"".join(map(bytes, binary_copy.pieces_out(first, rows, kind)))

    def test_rows(self):
        rows = rows_of(5, 3)
        data = binary_copy.HEADER + self.rows_out(4, rows) + binary_copy.TRAILER
        ids, back = binary_copy.rows_in(data, 3)
        self.assertEqual(ids.tolist(), [4, 5, 6, 7, 8])
        numpy.testing.assert_array_equal(back, rows)
        with self.assertRaises(ValueError):
            binary_copy.rows_in(data[:-1], 3)
        with self.assertRaises(ValueError):
            binary_copy.rows_in(data, 4)

    def test_pieces(self):
        """All pieces share one buffer, and the last piece is shorter."""
        rows = rows_of(50, 3)
        for kind in ("real[]", "vector"):
            whole = self.rows_out(7, rows, kind)
            pieces = [bytes(piece) for piece in binary_copy.pieces_out(7, rows, kind, piece_bytes=1000)]
            self.assertGreater(len(pieces), 2)
            self.assertLess(len(pieces[-1]), len(pieces[0]))
            self.assertEqual(b"".join(pieces), whole)
            self.assertEqual(list(binary_copy.pieces_out(7, rows[:0], kind)), [])

    def test_pairs(self):
        data = binary_copy.HEADER + binary_copy.pairs_out([1, 2], [3, 1 << 40], [0.5, 0.1]) + binary_copy.TRAILER
        a, b, dist = binary_copy.pairs_in(data)
        self.assertEqual((a.tolist(), b.tolist(), dist.tolist()), ([1, 2], [3, 1 << 40], [0.5, 0.1]))


if __name__ == "__main__":
    unittest.main()
