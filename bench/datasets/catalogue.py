"""Published sets of vectors: where they are, what must come, how they are fetched.

The texmex sets (Jegou, Douze, Schmid) are archives with an MD5 sum that their authors
publish in the file MD5SUM beside them; the archive is checked against it.  MD5 is no
proof against malice, so the unpacked file is checked by its size, shape and every
record's dimension as well.  Of the other archives no checksum is published: there, and
for the first rows of ANN_SIFT1B, whose sum is of the whole, size and shape are the check.
"""
import contextlib
import gzip
import http.client
import tarfile
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path

from . import files, manifest

TEXMEX = "ftp://ftp.irisa.fr/local/texmex/corpus/"
TEXMEX_LICENCE = "reported as CC0 (a notice on the corpus's server); cite Jegou, Douze and Schmid, PAMI 2011"
GQR = "https://www.cse.cuhk.edu.hk/systems/hash/gqr/dataset/"
GQR_LICENCE = "none stated; derived from 80 Million Tiny Images, which its authors took down in 2020"
PIECE = 1 << 20


class FetchError(RuntimeError):
    """A file that did not come, or came wrong."""


@dataclass(frozen=True)
class Published:
    """A set to fetch: member of an archive, or the head of one compressed file."""
    name: str
    url: str
    member: str             # in the tar archive; the file's own name where it is no archive
    n: int
    d: int
    licence: str
    md5: str = None         # of the file at url
    exact: bool = True      # False: n is what is said of it, and only d is certain

    @property
    def file(self):
        return self.name + Path(self.member).suffix

    @property
    def bytes(self):
        return self.n * (4 + self.d * files.TYPES[Path(self.member).suffix].itemsize)


SETS = {found.name: found for found in (
    Published("siftsmall", TEXMEX + "siftsmall.tar.gz", "siftsmall/siftsmall_base.fvecs", 10000, 128,
              TEXMEX_LICENCE, "0b8324a7a82d7f2663d7dcbd57642df7"),
    Published("sift1m", TEXMEX + "sift.tar.gz", "sift/sift_base.fvecs", 1000000, 128,
              TEXMEX_LICENCE, "b23d1b3b2ee8469d819b61ca900ef0ed"),
    Published("gist1m", TEXMEX + "gist.tar.gz", "gist/gist_base.fvecs", 1000000, 960,
              TEXMEX_LICENCE, "31185e0f00854f74d27e8ad8d52628a9"),
    Published("sift10m", TEXMEX + "bigann_base.bvecs.gz", "bigann_base.bvecs", 10000000, 128, TEXMEX_LICENCE),
    Published("tiny5m", GQR + "tiny5m.tar.gz", "tiny5m/tiny5m_base.fvecs", 5000000, 384, GQR_LICENCE, exact=False),
    Published("cifar60k", GQR + "cifar60k.tar.gz", "cifar60k/cifar60k_base.fvecs", 60000, 512, GQR_LICENCE,
              exact=False),
)}


@contextlib.contextmanager
def connected(url):
    """The open connection; every failure of it as a FetchError that says what to do."""
    try:
        with urllib.request.urlopen(url, timeout=60) as source:
            yield source
    except (OSError, EOFError, http.client.HTTPException) as error:
        raise FetchError(f"{url} did not come ({error}); is there a network? The file may also be fetched "
                         "elsewhere and laid into the data folder") from error


def copy(source, path, size=None):
    """Copies a stream, or its first size bytes, into a file; returns how many bytes came."""
    came = 0
    with open(path, "wb") as file:
        while piece := source.read(PIECE if size is None else min(PIECE, size - came)):
            file.write(piece)
            came += len(piece)
    return came


def part_of(path):
    """Where a file is until it is complete."""
    return path.with_name(path.name + ".part")


def download(url, path):
    """A file from url, complete or not there at all."""
    with connected(url) as source:
        came, said = copy(source, part_of(path)), source.headers.get("Content-Length")
    if said and came != int(said):
        raise FetchError(f"{url}: {came} of {said} bytes came")
    part_of(path).rename(path)


def head(url, path, size):
    """The first size bytes of the gzip file at url, without fetching the rest."""
    with connected(url) as source, gzip.open(source) as unpacked:
        came = copy(unpacked, part_of(path), size)
    if came < size:
        raise FetchError(f"{url}: has {came} bytes unpacked, where {size} are wanted")
    part_of(path).rename(path)


def unpack(archive, member, path):
    """One member of a tar archive, found by its full name or its last part."""
    try:
        with tarfile.open(archive) as tar:
            found = next((m for m in tar if m.isfile() and Path(m.name).name == Path(member).name), None)
            if found is None:
                raise FetchError(f"{archive}: has no {member}")
            copy(tar.extractfile(found), part_of(path))
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise FetchError(f"{archive}: {error}; remove it and fetch again") from error
    part_of(path).rename(path)


def check_sum(published, archive):
    if published.md5 and (found := manifest.checksum(archive, "md5")) != published.md5:
        raise FetchError(f"{archive}: MD5 {found}, where {published.md5} is published; remove it and fetch again")


def check_shape(published, path):
    """Every record of the file, and their number; a wrong file is left, renamed, for whoever looks into it."""
    try:
        n, d = files.check(path)
        if (published.exact and n != published.n) or d != published.d:
            raise FetchError(f"{path}: {n} x {d}, where {published.n} x {published.d} is published")
    except (FetchError, files.FormatError):
        path.rename(path.with_name(path.name + ".wrong"))
        raise
    return n, d


def fetch(data, published):
    """Fetches, checks and unpacks a set into the folder data; returns its manifest."""
    path, archive = data / published.file, data / Path(published.url).name
    if published.url.endswith(".tar.gz"):
        if not archive.exists():
            print(f"fetching {published.url}", flush=True)
            download(published.url, archive)
        check_sum(published, archive)
        unpack(archive, published.member, path)
    else:
        print(f"fetching the first {published.n} rows of {published.url}", flush=True)
        head(published.url, path, published.bytes)
    shape = check_shape(published, path)
    return manifest.write(data, published.name, path, shape, url=published.url, md5=published.md5,
                          checked_by="MD5, size and shape" if published.md5 else "size and shape")
