"""Join with FAISS on the CPU: an exact flat index and range_search, with all threads.

Blocks of rows are added to the index one after the other.  Each block is searched in the
index as soon as it is added, so that only half of the distances are computed.  FAISS
compares squared distances in FP32, with "less than".
"""
import os

import faiss
import numpy

from .answer import Clock, concatenate, squared_radius

COLUMNS = ("int32", "int32", "float32")


def join(rows, eps, limit_seconds=float("inf"), block=4096, threads=None):
    """Joins rows (n, d) float32, C-contiguous; block is the number of queries per search."""
    faiss.omp_set_num_threads(threads or os.cpu_count())
    clock = Clock(limit_seconds)
    n, d = rows.shape
    index = faiss.IndexFlatL2(d)
    radius = squared_radius(eps)
    pieces = []
    for first in range(0, n, block):
        queries = rows[first:first + block]
        index.add(queries)
        ends, squares, found = index.range_search(queries, radius)
        clock.lap("search")
        later = first + numpy.repeat(numpy.arange(len(queries)), numpy.diff(ends.astype(numpy.int64)))
        keep = found < later
        pieces.append((found[keep].astype(numpy.int32), later[keep].astype(numpy.int32),
                       numpy.sqrt(numpy.maximum(squares[keep], 0))))
        clock.lap("pairs")
        clock.check(((first + len(queries)) / n) ** 2)
    a, b, dist = concatenate(pieces, COLUMNS)
    clock.lap("pairs")
    return clock.answer(a, b, dist, version=faiss.__version__, block=block)
