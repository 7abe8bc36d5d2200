"""Generated data sets.  The rows are reproducible, and any range of rows can be generated separately.

    rows = generators.make("sift-like", 1000000)
    rows.rows(60000, 20000)         rows 60000 to 79999: float32 (20000, 128)

A data set is determined by its name and its number of rows n.  It is divided into blocks of
BLOCK rows, and each block has a seed of its own.  Therefore a row depends only on the name,
on n and on its row number.  Matrix products run on one thread, because the number of threads
affects the last bits of the result.  The last bits can differ between numpy versions and CPUs.

  uniform-<d>     independent numbers, uniformly distributed in [0, 1)
  normal-<d>      independent numbers, normally distributed.  This is the worst case, because
                  all pairs of rows have nearly the same distance.
  embedding-<d>   unit vectors in n / 200 clusters of equal expected size.  Before it is scaled,
                  a row is its cluster's centre plus 0.3 to 0.9 times normal noise.
                  Coordinate k of both has standard deviation k^-1/4.
  sift-like       imitates SIFT descriptors (128 integers from 0 to 255)
  gist-like       imitates GIST descriptors (960 small non-negative numbers)
  tiny-like       imitates the GIST descriptors of the Tiny5M data set (384 numbers)
  minilm-like     perturbed rows of debian-minilm
  wordllama-like  perturbed rows of debian-wordllama

A row of minilm-like or wordllama-like is a random row of the real data set plus a multiple
of the difference of two other rows, scaled to norm 1.  The factor lies between LEAST_MOVED
and MOST_MOVED.  Thus the perturbation is largest in the directions in which the real data set
varies most.  These data sets can have more rows than the real ones, whose files they need.

The data sets sift-like, gist-like and tiny-like share one model.  They have n / 200 clusters,
whose sizes are log-normally distributed with a size-biased mean of 200 * SIZE_BIAS rows.  The
distance of a row from its cluster's centre is s = most * u^(1/GROWTH), with u uniformly
distributed, in coordinates with a power-law spectrum.  Therefore the number of neighbours
within r grows like r^(2 GROWTH).  The same holds for the real data sets: eps grows by a factor
of 1.11 to 1.12 from S = 64 to 128 and again from 128 to 256.  The parameter "most" is tuned to
the eps at S = 64 that the FaSTED paper reports for Sift10M, Gist1M and Tiny5M.

Measured eps at the default n, from a sample of 1000 rows:

              S = 64, 128, 256            the paper
  sift-like   122.2, 136.3, 154.3         122.5, 136.5, 152.5      norm 512, 19 % zeros, at most 255
  gist-like   0.4782, 0.5392, 0.6087      0.4736, 0.5292, 0.5937   norm 2.0 to 5.8
  tiny-like   0.1829, 0.2043, 0.2295      0.1831, 0.2045, 0.2275   norm 1.2 to 3.2

The largest clusters contribute most neighbours, so these values depend on n.  With 100000
rows, eps at S = 64 is 0.553 for gist-like and 121.7 for sift-like.  SIFT descriptors of
photographs (OpenCV, default contrast threshold) have 19 % zeros, quartiles of 1, 9 and 34,
and a distance of 518 between random pairs.  The same figures of sift-like are 19 %, 2, 15, 44
and 547.  The eps of embedding-384 with 100000 rows is 0.672, 0.773 and 1.246; it increases
steeply because its clusters have only 200 rows.
"""
import functools
import os
import re

import numpy
import threadpoolctl

from . import files, parallel

BLOCK = 4096                # number of rows that are generated from one seed
PARALLEL_FROM = 1 << 25     # n d from which several processes generate the rows; one process takes about a second
CLUSTER = 200               # mean number of rows of a cluster
SIZE_BIAS = 8               # mean size of the cluster of a random row, divided by the mean cluster size
GROWTH = 3.15
LEAST_MOVED, MOST_MOVED = 0.02, 0.2


class Rows:
    """A data set of n rows of d float32 numbers; a subclass generates a block of rows."""

    default_n = 100000
    kind, licence = "generated", "the project's own"

    def __init__(self, name, n, d):
        self.name, self.n, self.d = name, n, d

    def block(self, random, count):
        """Generates count rows (count, d) with the random number generator of a block."""
        raise NotImplementedError

    def rows(self, first, count):
        """Returns count rows from the row number first on, or fewer at the end: float32 (rows, d), C-contiguous."""
        end = min(self.n, first + count)
        result = numpy.empty((max(0, end - first), self.d), numpy.float32)
        for number in range(first // BLOCK, (end + BLOCK - 1) // BLOCK):
            low, high = max(first, number * BLOCK), min(end, (number + 1) * BLOCK)
            random = numpy.random.default_rng([SEEDS[type(self)], self.d, number])
            with threadpoolctl.threadpool_limits(1, "blas"):
                made = self.block(random, BLOCK)
            result[low - first:high - first] = made[low - number * BLOCK:high - number * BLOCK]
        return result

    def all(self, processes=None):
        """Returns all rows; by default a large data set is generated by one process per CPU."""
        processes = processes or (os.cpu_count() if self.n * self.d >= PARALLEL_FROM else 1)
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
        radius = random.uniform(0.3, 0.9, (count, 1)).astype(numpy.float32)
        v = radius * random.standard_normal((count, self.d), dtype=numpy.float32)
        v += self.centres[random.integers(len(self.centres), size=count)]
        v *= numpy.arange(1, self.d + 1, dtype=numpy.float32) ** numpy.float32(-0.25)
        return v / numpy.linalg.norm(v, axis=1, keepdims=True)


class Imitation(Rows):
    """Clusters of different sizes in a latent space; see the documentation of the module."""

    latent = 128            # number of coordinates of the latent space
    decay = 0.5             # coordinate k has standard deviation k^-decay; the total variance is 1
    most = 0.5              # maximum distance from the centre, relative to the typical norm of a centre

    @functools.cached_property
    def clusters(self):
        """(centres (m, latent), cumulative fractions of the rows (m))."""
        random = numpy.random.default_rng([SEEDS[type(self)], self.d])
        m = self.n // CLUSTER + 1
        shares = numpy.cumsum(numpy.exp(random.normal(0, numpy.sqrt(numpy.log(SIZE_BIAS)), m)))
        return random.standard_normal((m, self.latent), dtype=numpy.float32), shares / shares[-1]

    @functools.cached_property
    def scale(self):
        scale = numpy.arange(1, self.latent + 1) ** -self.decay
        return (scale / numpy.linalg.norm(scale)).astype(numpy.float32)

    def latents(self, random, count):
        """Generates points of the latent space: (count, latent), with expected squared norm 1 + s^2."""
        centres, shares = self.clusters
        z = random.standard_normal((count, self.latent), dtype=numpy.float32)
        z *= (self.most * random.random((count, 1)) ** (1 / GROWTH)).astype(numpy.float32)
        z += centres[numpy.searchsorted(shares, random.random(count)).clip(0, len(centres) - 1)]
        return z * self.scale


class SiftLike(Imitation):
    """Histograms of 4 x 4 cells and 8 directions, made from smooth latent functions on this grid."""

    default_n = 10000000
    decay, most = 0.6, 0.471
    offset, power = 1.2, 2.5        # values below -offset become 0; the power makes a few bins large

    @functools.cached_property
    def basis(self):
        """Orthonormal cosines over cells and directions, ordered from low to high frequency: (128, 128)."""
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
    """Filter energies: a profile times the exponential of latent functions."""

    default_n = 1000000
    latent, decay, most = 192, 0.4, 0.585
    level, depth = 0.05, 0.5        # typical value, and standard deviation of its logarithm

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
    """Perturbed rows of a real data set of unit vectors; see the documentation of the module."""

    default_n = 1000000
    kind, licence = "repeated", "as debian-text"
    real = None             # name of the real data set

    @functools.cached_property
    def base(self):
        path = files.folder() / f"{self.real}.npy"
        return files.read(files.require(path, self.real))

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
    """Returns (class, d) for the name of a generated data set, or None."""
    if name in FIXED:
        return FIXED[name]
    found = re.fullmatch(r"([a-z]+)-([1-9][0-9]{0,5})", name)
    return (FAMILIES[found[1]], int(found[2])) if found and found[1] in FAMILIES else None


def make(name, n=None):
    """Returns the data set of that name, with n rows or its default number of rows, as a Rows object."""
    found = find(name)
    if found is None:
        raise ValueError(f'unknown generated data set "{name}"; known ones are {", ".join(LISTED)}')
    made, d = found
    return made(name, made.default_n if n is None else n, d)
