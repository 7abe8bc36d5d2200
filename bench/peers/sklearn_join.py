"""The join by scikit-learn: brute-force radius neighbours, all processors.

Blocks of queries, each among the rows from its first one on, so that half of the
distances are computed and the answer never holds both directions.
"""
import numpy
import sklearn
from sklearn.neighbors import NearestNeighbors

from .answer import Clock, joined

COLUMNS = ("int32", "int32", "float32")


def join(rows, eps, limit_seconds=float("inf"), block=4096, jobs=-1):
    """rows (n, d) float32; block in queries."""
    clock = Clock(limit_seconds)
    n = len(rows)
    pieces = []
    with sklearn.config_context(assume_finite=True):
        for first in range(0, n, block):
            queries = rows[first:first + block]
            search = NearestNeighbors(algorithm="brute", n_jobs=jobs).fit(rows[first:])
            distances, found = search.radius_neighbors(queries, radius=float(eps))
            clock.lap("search")
            pieces.append(pairs_of_block(first, distances, found))
            clock.lap("pairs")
            clock.check(1 - (1 - (first + len(queries)) / n) ** 2)
    a, b, dist = joined(pieces, COLUMNS)
    clock.lap("pairs")
    return clock.answer(a, b, dist, version=sklearn.__version__, block=block)


def pairs_of_block(first, distances, found):
    """(a, b, dist) with a < b from one array of neighbours for each query."""
    a = numpy.repeat(numpy.arange(len(found)), [len(one) for one in found])
    b, dist = numpy.concatenate(found), numpy.concatenate(distances)
    keep = a < b
    return ((first + a[keep]).astype(numpy.int32), (first + b[keep]).astype(numpy.int32),
            dist[keep].astype(numpy.float32))
