"""What every peer returns, and the clock it runs by."""
import time
from dataclasses import dataclass, field
from math import inf

import numpy


class TimeLimit(Exception):
    """The peer stopped: its limit is passed, or would be."""


class Unavailable(Exception):
    """The peer cannot run here; the reason is the message."""


class Unsuitable(Exception):
    """The peer cannot answer for these rows; the reason is the message."""


@dataclass
class Answer:
    """Unordered pairs of row numbers from 0, a < b, each once, in any order."""
    a: numpy.ndarray                # (pairs,) int32 or int64
    b: numpy.ndarray                # (pairs,) the same
    dist: numpy.ndarray | None      # (pairs,) Euclidean, None where the peer has none
    seconds: float                  # from the rows in host memory, or the table, to the pairs in host memory
    parts: dict                     # {name: seconds}; what they leave of the total is not attributed
    about: dict = field(default_factory=dict)   # form, options


class Clock:
    """Seconds since it was made, by name, and a limit on them."""

    def __init__(self, limit_seconds=inf):
        self.limit_seconds = limit_seconds
        self.parts = {}
        self.begun = self.last = time.perf_counter()

    def lap(self, name):
        """The time since the last lap belongs to this name."""
        now = time.perf_counter()
        self.parts[name] = self.parts.get(name, 0.0) + now - self.last
        self.last = now

    def seconds(self):
        return time.perf_counter() - self.begun

    def check(self, share):
        """Called when this share of the work is done (0 to 1)."""
        if self.seconds() > self.limit_seconds:
            raise TimeLimit(f"{100 * share:.1f} % done after {self.seconds():.1f} s")

    def answer(self, a, b, dist, **about):
        return Answer(a, b, dist, self.seconds(), self.parts, about)


def joined(pieces, dtypes):
    """[(x, y, ...), ...] -> (X, Y, ...): each column in one array."""
    if not pieces:
        return tuple(numpy.empty(0, dtype) for dtype in dtypes)
    return tuple(numpy.concatenate(column).astype(dtype, copy=False) for column, dtype in zip(zip(*pieces), dtypes))


def squared_radius(eps):
    """eps^2 in FP32, the next one up, for a peer that takes "less than" and FP32."""
    return float(numpy.nextafter(numpy.float32(float(eps) ** 2), numpy.float32(inf)))
