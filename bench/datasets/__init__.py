"""The data sets of the evaluation: load(name), describe(name), names().

    import datasets
    x = datasets.load("sift-like", 100000)      float32 (100000, 128), C-contiguous

Generated sets need nothing; real ones are files in the folder FASTED_DATA (by default
files/ beside this), which bench/datasets/make.py makes or fetches.  README.md has the list.
"""
import numpy

from . import catalogue, files, generators, manifest
from .files import MissingFile, folder

SEED = 1

# sets that a script makes of Debian's packages, shuffled: file, d, source, licence
MADE = {
    "wallpaper-sift": ("wallpaper-sift.bvecs", 128, "photographs in Debian's wallpaper packages",
                       "each photograph under its package's licence"),
    "debian-text": ("debian-text.npy", 384, "the descriptions of Debian's packages",
                    "each description under its package's licence"),
    "debian-minilm": ("debian-minilm.npy", 384, "sentences of these descriptions by all-MiniLM-L6-v2",
                      "as debian-text; the model: Apache 2.0"),
    "debian-wordllama": ("debian-wordllama.npy", 256, "sentences of these descriptions by wordllama",
                         "as debian-text; the model: MIT"),
}


def names():
    """All sets; <d> stands for any dimension."""
    return [*MADE, *catalogue.SETS, *generators.LISTED]


def path_of(name):
    """The path of a real set's file, there or not; None for a generated set."""
    if name in MADE:
        return folder() / MADE[name][0]
    if name in catalogue.SETS:
        return folder() / catalogue.SETS[name].file
    if generators.find(name):
        return None
    raise ValueError(f'no data set "{name}"; there are {", ".join(names())}')


def _existing(name):
    path = path_of(name)
    return None if path is None else files.existing(path, name)


def load(name, rows=None):
    """The set, or a part of it of that many rows: float32 (n, d), C-contiguous.

    A generated set of fewer rows is one of its own, with fewer clusters, so that a row
    keeps its neighbours; a real one gives the rows that a seeded shuffle puts first, so
    that smaller parts are in larger ones.  Without rows, a real set is in its file's order.
    """
    if rows is not None and rows < 1:
        raise ValueError(f"{rows} rows")
    path = _existing(name)
    if path is None:
        return generators.make(name, rows).all()
    n, _ = files.shape(path)
    if rows is None:
        return files.read(path)
    if rows > n:
        raise ValueError(f"{name} has {n} rows, not {rows}")
    if name in MADE:            # shuffled when made
        return files.read(path, rows)
    return files.read_some(path, numpy.random.default_rng(SEED).permutation(n)[:rows])


def describe(name):
    """{name, n, d, kind, source, licence, sha256}; of a file that is missing, what is published."""
    path = path_of(name)
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
    """Every record of a real set's file and its checksum against the manifest; (n, d)."""
    path = _existing(name)
    if path is None:
        raise ValueError(f"{name} is generated and has no file")
    shape = files.check(path)
    known = manifest.read(folder(), name)
    if known is None:
        raise MissingFile(f"{folder() / name}.json is missing: make it with\n    bench/datasets/make.py {name}")
    if (found := manifest.checksum(path)) != known["sha256"]:
        raise files.FormatError(f"{path}: sha256 {found}, where its manifest has {known['sha256']}")
    return shape
