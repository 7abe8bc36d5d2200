"""Published data sets: their addresses, their expected contents, and how to download them.

The authors of the texmex data sets (Jegou, Douze, Schmid) publish MD5 checksums of their
archives, and each archive is checked against its checksum.  MD5 does not protect from a
forged file.  Therefore the size, the shape and the dimension of every record of the
unpacked file are checked, too.  No checksum is published for the other archives.  For
ANN_SIFT1B only the first rows are downloaded, and its checksum covers the whole file.
These files are checked by size, shape and record dimensions alone.
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
    """A download failed, or the downloaded file is not the expected one."""


@dataclass(frozen=True)
class Published:
    """A published data set: a member of a tar archive, or the first bytes of a compressed file."""
    name: str
    url: str
    member: str             # path in the tar archive, or the name of the uncompressed file
    n: int
    d: int
    licence: str
    md5: str = None         # checksum of the file at url
    exact: bool = True      # False: n is approximate, and only d is checked

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
def open_url(url):
    """Opens a URL for reading; turns every connection error into a FetchError with a hint."""
    try:
        with urllib.request.urlopen(url, timeout=60) as source:
            yield source
    except (OSError, EOFError, http.client.HTTPException) as error:
        raise FetchError(f"could not download {url}: {error}; check the network connection, or copy the file "
                         "into the data folder") from error


def copy(source, path, size=None):
    """Copies a stream, or its first size bytes, into a file; returns the number of bytes copied."""
    copied = 0
    with open(path, "wb") as file:
        while piece := source.read(PIECE if size is None else min(PIECE, size - copied)):
            file.write(piece)
            copied += len(piece)
    return copied


def part_of(path):
    """Returns the path under which an incomplete file is written."""
    return path.with_name(path.name + ".part")


def download(url, path):
    """Downloads a file.  The file appears at path only when it is complete."""
    with open_url(url) as source:
        received, expected = copy(source, part_of(path)), source.headers.get("Content-Length")
    if expected and received != int(expected):
        raise FetchError(f"{url}: received only {received} of {expected} bytes")
    part_of(path).rename(path)


def head(url, path, size):
    """Downloads the first size uncompressed bytes of the gzip file at url, and not the rest."""
    with open_url(url) as source, gzip.open(source) as unpacked:
        received = copy(unpacked, part_of(path), size)
    if received < size:
        raise FetchError(f"{url}: the uncompressed file has {received} bytes, but {size} are needed")
    part_of(path).rename(path)


def unpack(archive, member, path):
    """Extracts one member of a tar archive, found by its file name, to path."""
    try:
        with tarfile.open(archive) as tar:
            found = next((m for m in tar if m.isfile() and Path(m.name).name == Path(member).name), None)
            if found is None:
                raise FetchError(f"{archive}: the archive has no member {member}")
            copy(tar.extractfile(found), part_of(path))
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise FetchError(f"{archive}: {error}; remove the file and download it again") from error
    part_of(path).rename(path)


def check_sum(published, archive):
    """Compares an archive with the published MD5 checksum, if one is published."""
    if published.md5 and (found := manifest.checksum(archive, "md5")) != published.md5:
        raise FetchError(f"{archive}: the MD5 checksum is {found}, but the published one is {published.md5}; "
                         "remove the file and download it again")


def check_shape(published, path):
    """Checks the number and the dimension of a file's records; returns (n, d).

    A file that fails the check is renamed to <file>.wrong, so that it can be examined.
    """
    try:
        n, d = files.check(path)
        if (published.exact and n != published.n) or d != published.d:
            raise FetchError(f"{path}: the shape is {n} x {d}, but the published one is {published.n} x {published.d}")
    except (FetchError, files.FormatError):
        path.rename(path.with_name(path.name + ".wrong"))
        raise
    return n, d


def fetch(data, published):
    """Downloads, checks and unpacks a data set in the folder data; returns its manifest."""
    path, archive = data / published.file, data / Path(published.url).name
    if published.url.endswith(".tar.gz"):
        if not archive.exists():
            print(f"downloading {published.url}", flush=True)
            download(published.url, archive)
        check_sum(published, archive)
        unpack(archive, published.member, path)
    else:
        print(f"downloading the first {published.n} rows of {published.url}", flush=True)
        head(published.url, path, published.bytes)
    shape = check_shape(published, path)
    return manifest.write(data, published.name, path, shape, url=published.url, md5=published.md5,
                          checked_by="MD5, size and shape" if published.md5 else "size and shape")
