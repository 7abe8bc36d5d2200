"""Join with scikit-learn: brute-force radius neighbours, with all CPUs.

Each block of queries is searched among the rows from the block's first row on, so that only
half of the distances are computed.
"""
import numpy
import sklearn
from sklearn.neighbors import NearestNeighbors

from .answer import Clock, concatenate

COLUMNS = ("int32", "int32", "float32")


def join(rows, eps, limit_seconds=float("inf"), block=4096, jobs=-1):
    """Joins rows (n, d) float32; block is the number of queries per search."""
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
    a, b, dist = concatenate(pieces, COLUMNS)
    clock.lap("pairs")
    return clock.answer(a, b, dist, version=sklearn.__version__, block=block)


def pairs_of_block(first, distances, found):
    """Converts one array of neighbours per query to (a, b, dist) with a < b."""
    a = numpy.repeat(numpy.arange(len(found)), [len(one) for one in found])
    b, dist = numpy.concatenate(found), numpy.concatenate(distances)
    keep = a < b
    return ((first + a[keep]).astype(numpy.int32), (first + b[keep]).astype(numpy.int32),
            dist[keep].astype(numpy.float32))
