"""Compute the exact result with numpy in FP64, independently of the extension, for tests and checks.

A matrix product in FP32 finds all candidate pairs: the pairs that can be within eps if
rounding errors are taken into account.  For each candidate, the sum of squared differences
is computed in FP64.
"""
import numpy

from .answer import Clock, concatenate

COLUMNS = ("int64", "int64", "float64")
ROUNDING = 2.0 ** -24           # relative rounding error of one FP32 operation


def distances(rows, a, b, block=1 << 16):
    """Returns the distances of the pairs in FP64: (pairs,).  A block of pairs needs 8 block d bytes."""
    found = numpy.empty(len(a))
    for first in range(0, len(a), block):
        part = slice(first, first + block)
        difference = rows[a[part]].astype(numpy.float64) - rows[b[part]]
        found[part] = numpy.sqrt(numpy.einsum("ij,ij->i", difference, difference))
    return found


def candidates(rows, queries, eps, first=0, end=None):
    """Returns the candidate pairs (query, row) of the given queries and of the rows from first to end."""
    p, q = rows[queries], rows[first:end]
    p2, q2 = (numpy.einsum("ij,ij->i", x, x) for x in (p, q))
    # error bound relative to |p|^2 + |q|^2: twice the bound for d products and d additions
    error = numpy.float32(2 * (rows.shape[1] + 8) * ROUNDING)
    # compute p.q - |q|^2 / 2 >= (|p|^2 - eps^2) / 2 in place, less the error bound
    products = p @ q.T
    products -= q2 * (numpy.float32(0.5) - error)
    least = (p2 * (1 - 2 * error) - numpy.float32(float(eps) ** 2)) / 2
    i, j = numpy.divmod(numpy.flatnonzero(products >= least[:, None]), len(q))
    return queries[i], first + j


def within(rows, a, b, eps):
    """Returns (a, b, dist) of the pairs that are within eps."""
    dist = distances(rows, a, b)
    return a[dist <= eps], b[dist <= eps], dist[dist <= eps]


def join(rows, eps, limit_seconds=float("inf"), block=512):
    """Joins rows (n, d) float32.  A block of queries needs 5 block n bytes."""
    clock = Clock(limit_seconds)
    n = len(rows)
    pieces = []
    for first in range(0, n, block):
        a, b = candidates(rows, numpy.arange(first, min(n, first + block)), eps, first)
        pieces.append(within(rows, a[a < b], b[a < b], eps))
        clock.check(1 - (1 - min(n, first + block) / n) ** 2)
    clock.lap("join")
    return clock.answer(*concatenate(pieces, COLUMNS))


def of_queries(rows, queries, eps, block=1 << 14):
    """Returns (a, b, dist), a < b, of all pairs within eps that contain a query.

    queries (m,) are row numbers.  A block of rows needs 5 m block bytes.
    """
    queries = numpy.unique(numpy.asarray(queries, dtype=numpy.int64))
    pieces = []
    for first in range(0, len(rows), block):
        i, j = candidates(rows, queries, eps, first, first + block)
        a, b = numpy.minimum(i, j), numpy.maximum(i, j)
        # a pair of two queries is found twice; retain it only once
        keep = (a < b) & ((i == a) | ~numpy.isin(j, queries))
        pieces.append(within(rows, a[keep], b[keep], eps))
    return concatenate(pieces, COLUMNS)
