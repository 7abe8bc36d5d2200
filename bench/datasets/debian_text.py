"""debian-text: vectors of the descriptions of all packages in Debian's main section.

    bench/datasets/make.py debian-text

A text is a package's name, its one-line and its long description, as in the file
Translation-en that apt fetches (into lists of its own in the data folder, so that
neither root nor a change to the system is needed).  Where suites repeat a package,
the description of the first one stays.  Texts become TF-IDF weights (logarithmic
counts, words in at least LEAST packages and at most a fifth of them, without
English stop words), then a truncated SVD reduces those to DIMENSIONS numbers, and
rows are scaled to norm 1.  Packages of one source often share their text: the near
neighbours of this set are real.  The rows are shuffled (SEED).

The numbers depend on the day's descriptions and, in their last bits, on the versions
of scikit-learn and BLAS; the manifest records which.

Needs python3-sklearn.  Writes debian-text.npy, float32, and a manifest.
"""
import hashlib
import re
import subprocess

import numpy

from . import files, manifest

NAME = "debian-text"
DIMENSIONS = 384
LEAST = 3
SEED = 1


def apt(lists, *arguments):
    """What an apt-get command says that keeps its lists, with English descriptions, in the folder lists."""
    return subprocess.run(["apt-get", "-q", "-o", f"Dir::State::lists={lists}", "-o", "Acquire::Languages=en",
                           "-o", "APT::Sandbox::User=root", "-o", f"Dir::Cache={lists}/cache", *arguments],
                          check=True, text=True, capture_output=True).stdout


def fetch(lists):
    """The Translation-en files of main, as apt stores them, in the order of apt's sources."""
    for folder in ("partial", "cache/archives/partial"):
        (lists / folder).mkdir(parents=True, exist_ok=True)
    targets = ("indextargets", "--format", "$(ORIGIN)|$(COMPONENT)|$(FILENAME)", "Created-By: Translations")
    if not apt(lists, *targets):
        print("fetching the descriptions", flush=True)
        apt(lists, "update")
    found = [line.split("|", 2) for line in apt(lists, *targets).splitlines()]
    paths = [path for origin, component, path in found if (origin, component) == ("Debian", "main")]
    if not paths:
        raise RuntimeError("apt knows no Debian source with the section main")
    return paths


def descriptions(text):
    """Yields (package, description) of a Translation-en file."""
    for stanza in text.split("\n\n"):
        name = re.search(r"^Package: (\S+)", stanza, re.M)
        body = re.search(r"^Description-en: (.*)", stanza, re.M | re.S)
        if name and body:
            yield name.group(1), body.group(1)


def vectors(documents):
    """float32 (texts, DIMENSIONS), rows of norm 1; documents without a known word are left out."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    weights = TfidfVectorizer(sublinear_tf=True, min_df=LEAST, max_df=0.2, stop_words="english",
                              dtype=numpy.float32).fit_transform(documents)
    print(f"{weights.shape[0]} texts of {weights.shape[1]} words", flush=True)
    rows = TruncatedSVD(DIMENSIONS, n_iter=5, random_state=SEED).fit_transform(weights)
    norms = numpy.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / numpy.where(norms > 0, norms, 1))[norms[:, 0] > 1e-6].astype(numpy.float32)


def texts(data):
    """({package: description}, {source: SHA-256}), fetched into the folder data if they are not there."""
    found, sources = {}, {}
    for path in fetch(data / f"{NAME}.sources"):
        text = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", path], check=True, capture_output=True).stdout
        sources[re.sub(r".*_dists_|\.[a-z0-9]+$", "", path)] = hashlib.sha256(text).hexdigest()
        for name, body in descriptions(text.decode()):
            found.setdefault(name, body)
    return found, sources


def make(data):
    """Makes the set in the folder data; returns its manifest."""
    import sklearn
    found, sources = texts(data)
    rows = vectors([f"{name} {found[name]}" for name in sorted(found)])
    rows = rows[numpy.random.default_rng(SEED).permutation(len(rows))]
    path = data / f"{NAME}.npy"
    files.write(path, [rows])
    return manifest.write(data, NAME, path, rows.shape, scikit_learn=sklearn.__version__, packages=len(found),
                          descriptions=sources)
