"""The exact answer in FP64 by numpy, independent of the extension: for tests and checks.

A matrix product in FP32 finds all pairs that can be within eps, its rounding errors
granted; the sum of squared differences, in FP64, decides each of these.
"""
import numpy

from .answer import Clock, joined

COLUMNS = ("int64", "int64", "float64")
ROUNDING = 2.0 ** -24           # of one operation in FP32


def distances(rows, a, b, block=1 << 16):
    """(pairs,) FP64, by differences; a block takes 8 block d bytes."""
    found = numpy.empty(len(a))
    for first in range(0, len(a), block):
        part = slice(first, first + block)
        difference = rows[a[part]].astype(numpy.float64) - rows[b[part]]
        found[part] = numpy.sqrt(numpy.einsum("ij,ij->i", difference, difference))
    return found


def near(rows, queries, eps, first=0, end=None):
    """(query, row) of all pairs within eps, and a few more; rows are those from first to end."""
    p, q = rows[queries], rows[first:end]
    p2, q2 = (numpy.einsum("ij,ij->i", x, x) for x in (p, q))
    # of |p|^2 + |q|^2: twice what d products and as many sums can be wrong by
    error = numpy.float32(2 * (rows.shape[1] + 8) * ROUNDING)
    # p.q - |q|^2 / 2 >= (|p|^2 - eps^2) / 2, with room for the error, in place
    products = p @ q.T
    products -= q2 * (numpy.float32(0.5) - error)
    least = (p2 * (1 - 2 * error) - numpy.float32(float(eps) ** 2)) / 2
    i, j = numpy.divmod(numpy.flatnonzero(products >= least[:, None]), len(q))
    return queries[i], first + j


def within(rows, a, b, eps):
    """(a, b, dist) of those pairs that are within eps."""
    dist = distances(rows, a, b)
    return a[dist <= eps], b[dist <= eps], dist[dist <= eps]


def join(rows, eps, limit_seconds=float("inf"), block=512):
    """rows (n, d) float32; a block of queries takes 5 block n bytes."""
    clock = Clock(limit_seconds)
    n = len(rows)
    pieces = []
    for first in range(0, n, block):
        a, b = near(rows, numpy.arange(first, min(n, first + block)), eps, first)
        pieces.append(within(rows, a[a < b], b[a < b], eps))
        clock.check(1 - (1 - min(n, first + block) / n) ** 2)
    clock.lap("join")
    return clock.answer(*joined(pieces, COLUMNS))


def of_queries(rows, queries, eps, block=1 << 14):
    """(a, b, dist), a < b, of the pairs that have a query in them; queries: (m,) row numbers.
    A block of rows takes 5 m block bytes."""
    queries = numpy.unique(numpy.asarray(queries, dtype=numpy.int64))
    pieces = []
    for first in range(0, len(rows), block):
        i, j = near(rows, queries, eps, first, first + block)
        a, b = numpy.minimum(i, j), numpy.maximum(i, j)
        # a pair of two queries is found from both: the lower one's counts
        keep = (a < b) & ((i == a) | ~numpy.isin(j, queries))
        pieces.append(within(rows, a[keep], b[keep], eps))
    return joined(pieces, COLUMNS)
