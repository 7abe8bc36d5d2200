"""The result of a peer, its exceptions, and the clock that measures it."""
import time
from dataclasses import dataclass, field
from math import inf

import numpy


class TimeLimit(Exception):
    """The peer exceeded its time limit, or is predicted to exceed it."""


class Unavailable(Exception):
    """The peer cannot run on this machine; the message gives the reason."""


class Unsuitable(Exception):
    """The peer cannot join these rows; the message gives the reason."""


@dataclass
class Answer:
    """Pairs of row numbers (from 0) with a < b, each pair once, in any order."""
    a: numpy.ndarray                # (pairs,) int32 or int64
    b: numpy.ndarray                # (pairs,) int32 or int64
    dist: numpy.ndarray | None      # (pairs,) Euclidean distances; None if the peer returns no distances
    seconds: float                  # from the rows in host memory, or in the table, to the pairs in host memory
    parts: dict                     # {name: seconds}; the parts need not add up to the total
    about: dict = field(default_factory=dict)   # version and options


class Clock:
    """Measures the elapsed seconds of named parts of the work, and enforces a time limit."""

    def __init__(self, limit_seconds=inf):
        self.limit_seconds = limit_seconds
        self.parts = {}
        self.begun = self.last = time.perf_counter()

    def lap(self, name):
        """Adds the time since the last lap to the part of that name."""
        now = time.perf_counter()
        self.parts[name] = self.parts.get(name, 0.0) + now - self.last
        self.last = now

    def seconds(self):
        return time.perf_counter() - self.begun

    def check(self, share):
        """Raises TimeLimit if the limit is exceeded; share (0 to 1) is the fraction of the work that is done."""
        if self.seconds() > self.limit_seconds:
            raise TimeLimit(f"{100 * share:.1f} % done after {self.seconds():.1f} s")

    def answer(self, a, b, dist, **about):
        return Answer(a, b, dist, self.seconds(), self.parts, about)


def concatenate(pieces, dtypes):
    """[(x, y, ...), ...] -> (X, Y, ...): concatenates each column and converts it to its type."""
    if not pieces:
        return tuple(numpy.empty(0, dtype) for dtype in dtypes)
    return tuple(numpy.concatenate(column).astype(dtype, copy=False) for column, dtype in zip(zip(*pieces), dtypes))


def squared_radius(eps):
    """Returns the FP32 number after eps^2, for a peer that compares with "less than" in FP32."""
    return float(numpy.nextafter(numpy.float32(float(eps) ** 2), numpy.float32(inf)))
