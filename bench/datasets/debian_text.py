"""debian-text: vectors of the descriptions of all packages in Debian's main section.

    bench/datasets/make.py debian-text

A text consists of a package's name, its one-line description and its long description.
The texts come from apt's file Translation-en, which apt downloads to the data folder;
therefore the script needs no root privileges and does not change the system.  If several
suites contain a package, the first description is used.

The texts are converted to TF-IDF weights with logarithmic counts.  Words count if they
occur in at least LEAST packages and in at most a fifth of all packages; English stop words
are removed.  A truncated SVD reduces the weights to DIMENSIONS dimensions, and each row is
scaled to norm 1.  Near neighbours are usually packages that were built from one source and
share much of their text.  The rows are shuffled with the seed SEED.

The result depends on the current descriptions.  Its last bits depend on the versions of
scikit-learn and BLAS.  The manifest records checksums and versions.

The script needs python3-sklearn.  It writes debian-text.npy (float32) and a manifest.
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
    """Runs apt-get with its package lists, with English descriptions, in the folder lists; returns its output."""
    return subprocess.run(["apt-get", "-q", "-o", f"Dir::State::lists={lists}", "-o", "Acquire::Languages=en",
                           "-o", "APT::Sandbox::User=root", "-o", f"Dir::Cache={lists}/cache", *arguments],
                          check=True, text=True, capture_output=True).stdout


def fetch(lists):
    """Downloads the Translation-en files of main if necessary; returns their paths, in the order of apt's sources."""
    for folder in ("partial", "cache/archives/partial"):
        (lists / folder).mkdir(parents=True, exist_ok=True)
    targets = ("indextargets", "--format", "$(ORIGIN)|$(COMPONENT)|$(FILENAME)", "Created-By: Translations")
    if not apt(lists, *targets):
        print("downloading the package descriptions", flush=True)
        apt(lists, "update")
    found = [line.split("|", 2) for line in apt(lists, *targets).splitlines()]
    paths = [path for origin, component, path in found if (origin, component) == ("Debian", "main")]
    if not paths:
        raise RuntimeError("apt has no Debian source with the section main")
    return paths


def descriptions(text):
    """Yields (package, description) for each package of a Translation-en file."""
    for stanza in text.split("\n\n"):
        name = re.search(r"^Package: (\S+)", stanza, re.M)
        body = re.search(r"^Description-en: (.*)", stanza, re.M | re.S)
        if name and body:
            yield name.group(1), body.group(1)


def vectors(documents):
    """Returns float32 (n, DIMENSIONS) with rows of norm 1; skips documents that contain none of the words."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    weights = TfidfVectorizer(sublinear_tf=True, min_df=LEAST, max_df=0.2, stop_words="english",
                              dtype=numpy.float32).fit_transform(documents)
    print(f"{weights.shape[0]} texts of {weights.shape[1]} words", flush=True)
    rows = TruncatedSVD(DIMENSIONS, n_iter=5, random_state=SEED).fit_transform(weights)
    norms = numpy.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / numpy.where(norms > 0, norms, 1))[norms[:, 0] > 1e-6].astype(numpy.float32)


def texts(data):
    """Returns ({package: description}, {source: SHA-256}); downloads the descriptions to the folder data if necessary."""
    found, sources = {}, {}
    for path in fetch(data / f"{NAME}.sources"):
        text = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", path], check=True, capture_output=True).stdout
        sources[re.sub(r".*_dists_|\.[a-z0-9]+$", "", path)] = hashlib.sha256(text).hexdigest()
        for name, body in descriptions(text.decode()):
            found.setdefault(name, body)
    return found, sources


def make(data):
    """Makes the data set in the folder data; returns its manifest."""
    import sklearn
    found, sources = texts(data)
    rows = vectors([f"{name} {found[name]}" for name in sorted(found)])
    rows = rows[numpy.random.default_rng(SEED).permutation(len(rows))]
    path = data / f"{NAME}.npy"
    files.write(path, [rows])
    return manifest.write(data, NAME, path, rows.shape, scikit_learn=sklearn.__version__, packages=len(found),
                          descriptions=sources)
