"""Join by cosine distance with USearch: an HNSW index with default options and FP32 vectors, with all threads; approximate.

All rows are added to the index, and then the k nearest rows of each row are searched.
"""
import numpy
import usearch
from usearch.index import Index

from .answer import Clock


def search(rows, k, clock, metric="cos"):
    """Returns (numbers of the k nearest rows of each row (n, k), their distances); adds laps to the clock."""
    index = Index(ndim=rows.shape[1], metric=metric, dtype="f32")
    index.add(numpy.arange(len(rows)), rows)
    clock.lap("index")
    found = index.search(rows, k)
    clock.lap("search")
    return found.keys.astype(numpy.int64), found.distances


def join(rows, eps, k=64):
    """Joins rows (n, d) float32; k is the number of nearest rows per search, which includes the row itself."""
    clock = Clock()
    found, distances = search(rows, min(k, len(rows)), clock)
    query = numpy.arange(len(rows))[:, None]
    a, b = numpy.minimum(query, found), numpy.maximum(query, found)
    a, b = numpy.unique(numpy.stack([a, b], axis=-1)[(a < b) & (distances <= eps)], axis=0).T
    clock.lap("pairs")
    return clock.answer(a, b, None, version=usearch.__version__, k=k)
