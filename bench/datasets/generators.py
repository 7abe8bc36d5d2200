"""Generated sets: the same rows every time, any piece of them alone.

    rows = generators.make("sift-like", 1000000)
    rows.chunk(3, 20000)            rows 60000 to 79999: float32 (20000, 128)

A set is made of its name and its size n; it is cut into blocks of BLOCK rows, each
from a seed of its own, so a row depends on (name, n, its number) and not on how it is
asked for.  numpy computes them, matrix products by one thread, for several would change
last bits; another version or processor may differ in these.

  uniform-<d>     independent, uniform in [0, 1)
  normal-<d>      independent, normal: the worst case, all rows about equally far apart
  embedding-<d>   unit vectors in n / 200 clusters of equal expected size: a row is its
                  centre plus 0.3 to 0.9 times normal noise, both with coordinate k of
                  standard deviation k^-1/4
  sift-like       imitates SIFT descriptors (128 integers of 0 to 255)
  gist-like       imitates GIST descriptors (960 small non-negative numbers)
  tiny-like       the same of 384 dimensions, as the Tiny5M set has them
  minilm-like     rows of debian-minilm, over and over, each a little moved
  wordllama-like  the same of debian-wordllama

A row of the last two is a row of the real set, any one, plus LEAST_MOVED to MOST_MOVED
times the difference of two others, scaled to norm 1: so what is added varies most where
the set does.  They are for more rows than there are sentences, and need the real set.

The imitations (sift-like to tiny-like) share one model: n / 200 clusters whose sizes spread log-normally, with
a size-biased mean of 200 * SIZE_BIAS rows; a row lies at s = most * u^(1/GROWTH) from
its centre, u uniform, in coordinates with a power-law spectrum, so that the number of
neighbours within r grows like r^(2 GROWTH) as it does in the real sets: from S = 64 to
128 to 256 their distance grows by 1.11 to 1.12 each time.  "most" is tuned to the
distance at S = 64 that the FaSTED paper gives for Sift10M, Gist1M and Tiny5M.

What came out, at the size that is each one's default and from 1000 rows:

              S = 64, 128, 256            the paper
  sift-like   122.2, 136.3, 154.3         122.5, 136.5, 152.5            norm 512, 19 % zeros, at most 255
  gist-like   0.4782, 0.5392, 0.6087      0.4736, 0.5292, 0.5937   norm 2.0 to 5.8
  tiny-like   0.1829, 0.2043, 0.2295      0.1831, 0.2045, 0.2275   norm 1.2 to 3.2

The largest clusters decide, so another n moves these: gist-like of 100000 rows has
0.553 at S = 64, sift-like 121.7.  SIFT descriptors of photographs (OpenCV, its usual
contrast) have 19 % zeros, quartiles 1, 9, 34 and lie 518 apart at random; sift-like
has 19 %, 2, 15, 44, and 547.  embedding-384 of 100000 rows: 0.672, 0.773, 1.246; its
clusters end at 200 rows, hence the step.
"""
import functools
import os
import re

import numpy
import threadpoolctl

from . import files, parallel

BLOCK = 4096                # rows from one seed
MANY = 1 << 25              # numbers that take one process a second or so
CLUSTER = 200               # rows in a cluster, on average
SIZE_BIAS = 8               # mean size of a row's own cluster, in clusters of average size
GROWTH = 3.15
LEAST_MOVED, MOST_MOVED = 0.02, 0.2


class Rows:
    """n rows of d float32; a subclass says how a block of them is made."""

    default_n = 100000
    kind, licence = "generated", "the project's own"

    def __init__(self, name, n, d):
        self.name, self.n, self.d = name, n, d

    def block(self, random, count):
        """count rows (count, d) from a random generator that belongs to the block."""
        raise NotImplementedError

    def rows(self, first, count):
        """Rows first to first + count - 1, fewer where the set ends: float32 (rows, d), C-contiguous."""
        end = min(self.n, first + count)
        result = numpy.empty((max(0, end - first), self.d), numpy.float32)
        for number in range(first // BLOCK, (end + BLOCK - 1) // BLOCK):
            low, high = max(first, number * BLOCK), min(end, (number + 1) * BLOCK)
            random = numpy.random.default_rng([SEEDS[type(self)], self.d, number])
            with threadpoolctl.threadpool_limits(1, "blas"):
                made = self.block(random, BLOCK)
            result[low - first:high - first] = made[low - number * BLOCK:high - number * BLOCK]
        return result

    def chunk(self, number, size):
        """Rows number * size and on, size of them."""
        return self.rows(number * size, size)

    def all(self, processes=None):
        """Every row, where they are many by several processes, by default one for each processor."""
        processes = processes or (os.cpu_count() if self.n * self.d >= MANY else 1)
        if processes == 1:
            return self.rows(0, self.n)
        return parallel.all_rows(self, BLOCK, processes)


class Uniform(Rows):
    def block(self, random, count):
        return random.random((count, self.d), dtype=numpy.float32)


class Normal(Rows):
    def block(self, random, count):
        return random.standard_normal((count, self.d), dtype=numpy.float32)


class Embedding(Rows):
    default_n = 1000000

    @functools.cached_property
    def centres(self):
        random = numpy.random.default_rng([SEEDS[Embedding], self.d])
        return random.standard_normal((self.n // CLUSTER + 1, self.d), dtype=numpy.float32)

    def block(self, random, count):
        spread = random.uniform(0.3, 0.9, (count, 1)).astype(numpy.float32)
        v = spread * random.standard_normal((count, self.d), dtype=numpy.float32)
        v += self.centres[random.integers(len(self.centres), size=count)]
        v *= numpy.arange(1, self.d + 1, dtype=numpy.float32) ** numpy.float32(-0.25)
        return v / numpy.linalg.norm(v, axis=1, keepdims=True)


class Imitation(Rows):
    """Clusters of many sizes in a latent space of self.latent coordinates; see the module's doc."""

    latent = 128            # coordinates, coordinate k of standard deviation k^-decay, total variance 1
    decay = 0.5
    most = 0.5              # the largest distance from the centre, in typical distances of centres from 0

    @functools.cached_property
    def clusters(self):
        """(centres (m, latent), upper bounds of their shares of the rows (m))."""
        random = numpy.random.default_rng([SEEDS[type(self)], self.d])
        m = self.n // CLUSTER + 1
        shares = numpy.cumsum(numpy.exp(random.normal(0, numpy.sqrt(numpy.log(SIZE_BIAS)), m)))
        return random.standard_normal((m, self.latent), dtype=numpy.float32), shares / shares[-1]

    @functools.cached_property
    def scale(self):
        scale = numpy.arange(1, self.latent + 1) ** -self.decay
        return (scale / numpy.linalg.norm(scale)).astype(numpy.float32)

    def latents(self, random, count):
        """Points of the latent space: (count, latent), their expected squared norm 1 + s^2."""
        centres, shares = self.clusters
        z = random.standard_normal((count, self.latent), dtype=numpy.float32)
        z *= (self.most * random.random((count, 1)) ** (1 / GROWTH)).astype(numpy.float32)
        z += centres[numpy.searchsorted(shares, random.random(count)).clip(0, len(centres) - 1)]
        return z * self.scale


class SiftLike(Imitation):
    """Histograms of 4 x 4 cells and 8 directions from smooth latent functions on that grid."""

    default_n = 10000000
    decay, most = 0.6, 0.471
    offset, power = 1.2, 2.5        # what lies below -offset is 0; the power makes few bins large

    @functools.cached_property
    def basis(self):
        """Orthonormal cosines over cells and directions, the smoothest first: (128, 128)."""
        def cosines(m):
            k = numpy.arange(m)
            rows = numpy.cos(numpy.pi * k[:, None] * (2 * k + 1) / (2 * m))
            return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)
        waves = numpy.add.outer(numpy.add.outer(numpy.arange(4), numpy.arange(4)), numpy.arange(8) / 2).ravel()
        whole = numpy.kron(numpy.kron(cosines(4), cosines(4)), cosines(8))
        return (whole[numpy.argsort(waves, kind="stable")] * numpy.sqrt(128)).astype(numpy.float32)

    def block(self, random, count):
        v = numpy.maximum(self.latents(random, count) @ self.basis + numpy.float32(self.offset), 0)
        v = v ** numpy.float32(self.power) + numpy.float32(1e-6)
        v /= numpy.linalg.norm(v, axis=1, keepdims=True)
        numpy.minimum(v, numpy.float32(0.2), out=v)
        v *= 512 / numpy.linalg.norm(v, axis=1, keepdims=True)
        return numpy.rint(v).clip(0, 255)


class GistLike(Imitation):
    """Energies of filters: a profile times the exponential of latent functions."""

    default_n = 1000000
    latent, decay, most = 192, 0.4, 0.585
    level, depth = 0.05, 0.5        # typical value; standard deviation of its logarithm

    @functools.cached_property
    def basis(self):
        random = numpy.random.default_rng([SEEDS[type(self)], self.d, 1 << 40])
        directions = random.standard_normal((self.latent, self.d), dtype=numpy.float32)
        return directions * numpy.float32(self.depth)

    @functools.cached_property
    def profile(self):
        random = numpy.random.default_rng([SEEDS[type(self)], self.d, 1 << 41])
        return (self.level * numpy.exp(random.normal(0, 0.4, self.d))).astype(numpy.float32)

    def block(self, random, count):
        return self.profile * numpy.exp(self.latents(random, count) @ self.basis)


class TinyLike(GistLike):
    default_n = 5000000
    most = 0.35


class Repeated(Rows):
    """Rows of a real set, of unit vectors, a little moved."""

    default_n = 1000000
    kind, licence = "repeated", "as debian-text"
    real = None             # the set's name

    @functools.cached_property
    def base(self):
        path = files.folder() / f"{self.real}.npy"
        return files.read(files.existing(path, self.real))

    def block(self, random, count):
        n = len(self.base)
        row, one = random.integers(n, size=(2, count))
        other = (one + random.integers(1, n, count)) % n
        moved = random.uniform(LEAST_MOVED, MOST_MOVED, (count, 1)).astype(numpy.float32)
        v = self.base[row] + moved * (self.base[one] - self.base[other])
        return v / numpy.linalg.norm(v, axis=1, keepdims=True)


class MinilmLike(Repeated):
    real = "debian-minilm"


class WordllamaLike(Repeated):
    real = "debian-wordllama"


SEEDS = {Uniform: 1, Normal: 2, Embedding: 3, SiftLike: 4, GistLike: 5, TinyLike: 6, MinilmLike: 7, WordllamaLike: 8}
FIXED = {"sift-like": (SiftLike, 128), "gist-like": (GistLike, 960), "tiny-like": (TinyLike, 384),
         "minilm-like": (MinilmLike, 384), "wordllama-like": (WordllamaLike, 256)}
FAMILIES = {"uniform": Uniform, "normal": Normal, "embedding": Embedding}
LISTED = (*FIXED, "embedding-384", "embedding-768", "embedding-960", "embedding-1536", "uniform-<d>", "normal-<d>")


def find(name):
    """(class, d) of a name, or None."""
    if name in FIXED:
        return FIXED[name]
    found = re.fullmatch(r"([a-z]+)-([1-9][0-9]{0,5})", name)
    return (FAMILIES[found[1]], int(found[2])) if found and found[1] in FAMILIES else None


def make(name, n=None):
    """The set of that name with n rows, or as many as is its default; a Rows object."""
    found = find(name)
    if found is None:
        raise ValueError(f'no generator "{name}"; there are {", ".join(LISTED)}')
    made, d = found
    return made(name, made.default_n if n is None else n, d)
