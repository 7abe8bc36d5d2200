"""The data sets of the evaluation: load(name), describe(name), names().

    import datasets
    x = datasets.load("sift-like", 100000)      float32 (100000, 128), C-contiguous

Generated data sets are computed when they are loaded.  Real data sets are files in the data
folder, which the environment variable FASTED_DATA names (by default bench/datasets/files).
bench/datasets/make.py makes or downloads these files.  README.md lists all data sets.
"""
import numpy

from . import bits, catalogue, files, generators, manifest
from .files import MissingFile, folder

SEED = 1

# Data sets that a script makes from Debian packages, in shuffled order: (file, d, source, licence).
MADE = {
    "wallpaper-sift": ("wallpaper-sift.bvecs", 128, "photographs in Debian's wallpaper packages",
                       "each photograph under its package's licence"),
    "debian-text": ("debian-text.npy", 384, "the descriptions of Debian's packages",
                    "each description under its package's licence"),
    "debian-minilm": ("debian-minilm.npy", 384, "sentences of these descriptions by all-MiniLM-L6-v2",
                      "as debian-text; the model: Apache 2.0"),
    "debian-wordllama": ("debian-wordllama.npy", 256, "sentences of these descriptions by wordllama",
                         "as debian-text; the model: MIT"),
    "molecules": ("molecules.npy", 256, "Morgan fingerprints of recombined molecules of RDKit's NCI file", "BSD, as RDKit"),
    "wallpaper-hashes": ("wallpaper-hashes.npy", 8, "perceptual hashes of crops of these photographs", "as wallpaper-sift"),
    "debian-simhash": ("debian-simhash.npy", 8, "SimHash of sentences of Debian's package descriptions", "as debian-text"),
}


def names():
    """Returns the names of all data sets; <d> stands for any number of dimensions."""
    return [*MADE, *catalogue.SETS, *generators.LISTED, bits.GENERATED]


def path_of(name):
    """Returns the path of a real data set's file, which need not exist; None for a generated data set."""
    if name in MADE:
        return folder() / MADE[name][0]
    if name in catalogue.SETS:
        return folder() / catalogue.SETS[name].file
    if name == bits.GENERATED or generators.find(name):
        return None
    raise ValueError(f'unknown data set "{name}"; known data sets are {", ".join(names())}')


def _require(name):
    path = path_of(name)
    return None if path is None else files.require(path, name)


def load(name, rows=None):
    """Returns a data set, or a part of it that has the given number of rows: float32 (n, d), C-contiguous.

    A data set of bits is uint8 (n, bytes); see bits.py.

    A generated data set is generated for this number of rows.  It has fewer clusters if it has
    fewer rows, so that the number of neighbours of a row stays about the same.  A part of a real
    data set consists of the first rows after a shuffle with a fixed seed, so that a larger part
    contains every smaller one.  The whole of a real data set has the order of its file.
    """
    if rows is not None and rows < 1:
        raise ValueError(f"invalid number of rows: {rows}")
    path = _require(name)
    dtype = numpy.uint8 if name in bits.BITS else numpy.float32
    if name == bits.GENERATED:
        return bits.fingerprints(rows or bits.ROWS)
    if path is None:
        return generators.make(name, rows).all()
    n, _ = files.shape(path)
    if rows is None:
        return files.read(path, dtype=dtype)
    if rows > n:
        raise ValueError(f"{name} has {n} rows, not {rows}")
    if name in MADE:            # the file is already shuffled
        return files.read(path, rows, dtype)
    return files.read_rows(path, numpy.random.default_rng(SEED).permutation(n)[:rows])


def describe(name):
    """Returns {name, n, d, kind, source, licence, sha256}; n and d as published if the file is missing."""
    path = path_of(name)
    if name == bits.GENERATED:
        return {"name": name, "n": bits.ROWS, "d": bits.BITS[name] // 8, "kind": "generated", "source": "bench/datasets/bits.py",
                "licence": "the project's own", "sha256": None}
    if path is None:
        made = generators.make(name)
        return {"name": name, "n": made.n, "d": made.d, "kind": made.kind, "source": "bench/datasets/generators.py",
                "licence": made.licence, "sha256": None}
    if name in MADE:
        _, d, source, licence = MADE[name]
        n = None
    else:
        published = catalogue.SETS[name]
        n, d, source, licence = published.n, published.d, published.url, published.licence
    known = manifest.read(folder(), name) if path.exists() else None
    if path.exists():
        n, d = files.shape(path)
    return {"name": name, "n": n, "d": d, "kind": "real", "source": source, "licence": licence,
            "sha256": known["sha256"] if known else None}


def verify(name):
    """Checks every record of a real data set's file and its checksum in the manifest; returns (n, d)."""
    path = _require(name)
    if path is None:
        raise ValueError(f"{name} is a generated data set, which has no file")
    shape = files.check(path)
    known = manifest.read(folder(), name)
    if known is None:
        raise MissingFile(f"{folder() / name}.json is missing; make it with\n    bench/datasets/make.py {name}")
    if (found := manifest.checksum(path)) != known["sha256"]:
        raise files.FormatError(f"{path}: the sha256 checksum is {found}, but its manifest has {known['sha256']}")
    return shape
