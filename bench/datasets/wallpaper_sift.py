"""wallpaper-sift: SIFT descriptors of the photographs in Debian's wallpaper packages.

    bench/datasets/make.py wallpaper-sift

Fetches PACKAGES by "apt-get download" and unpacks them with "dpkg-deb -x" into the
data folder; nothing is installed.  Pictures are JPEG files of at least LEAST_EDGE
pixels, but for DRAWINGS: photographs, then.  The PNG and WebP files of such packages are
drawings by computer too, which repeat shapes and bring masses of equal descriptors (one
of the pictures left out had more pairs within 75 of each other than all others together).
One picture often comes in several sizes or crops, so of those whose thumbnails
correlate by more than SAME only the largest stays.

Descriptors are those of OpenCV's SIFT, on grey, pictures reduced to MOST_EDGE pixels:
128 integers of 0 to 255 each, norm about 512.  SIFT's contrast threshold is lowered
from 0.04 to CONTRAST, so that soft backgrounds count too, and a picture gives the
MOST_FEATURES strongest of its keypoints, so that no single one makes up the set.
The rows are shuffled (SEED), so the first rows are a fair sample; at most MOST_ROWS.

Needs python3-opencv and python3-numpy.  Writes wallpaper-sift.bvecs and a manifest.
"""
import hashlib
import multiprocessing
import os
import subprocess

import numpy

from . import files, manifest

NAME = "wallpaper-sift"
PACKAGES = ("plasma-workspace-wallpapers", "mate-backgrounds", "ukui-wallpapers", "lomiri-wallpapers-16.04",
            "lomiri-wallpapers-20.04", "lxqt-themes")
KINDS = (".jpg", ".jpeg")
DRAWINGS = ("/2004default.", "/Flow/", "/Honeywave/", "/Infinite-Sea_", "/Painting-Colors_", "/PastelHills/", "/Shell/",
            "/Volna/", "/firstgeneration.", "/string.", "/waves-")      # in the path of a picture
LEAST_EDGE, MOST_EDGE = 1000, 4096      # pixels, of the longer edge
CONTRAST = 0.01
MOST_FEATURES = 40000
MOST_ROWS = 1000000
THUMBNAIL, SAME = 32, 0.98
SEED = 1


def fetch(folder):
    """The packages' files in folder, downloaded where missing: {package: path}."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for package in PACKAGES:
        if not list(folder.glob(f"{package}_*.deb")):
            print(f"fetching {package}", flush=True)
            # apt's sandbox user may not write here; it says so on a stream that nobody needs
            subprocess.run(["apt-get", "-q", "download", "-o", "APT::Sandbox::User=root", package],
                           cwd=folder, check=True, stdout=subprocess.DEVNULL)
        found[package] = sorted(folder.glob(f"{package}_*.deb"))[-1]
    return found


def unpack(folder, packages):
    """Each package into folder/unpacked/<package>; the pictures in them, sorted."""
    pictures = []
    for package, archive in packages.items():
        place = folder / "unpacked" / package
        if not place.exists():
            place.mkdir(parents=True)
            subprocess.run(["dpkg-deb", "-x", archive, place], check=True)
        pictures += [path for path in place.rglob("*")
                     if path.suffix.lower() in KINDS and path.is_file() and not path.is_symlink()
                     and not any(drawing in str(path) for drawing in DRAWINGS)]
    return sorted(pictures)


def grey(path):
    """A picture as grey bytes (height, width), reduced to MOST_EDGE; None where it is small or no picture."""
    import cv2
    picture = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    if picture is None or max(picture.shape) < LEAST_EDGE:
        return None
    scale = MOST_EDGE / max(picture.shape)
    if scale < 1:
        picture = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return picture


def thumbnail(path):
    """(pixels, THUMBNAIL^2 numbers of mean 0 and norm 1), or None; a picture of one shade has no thumbnail."""
    import cv2
    cv2.setNumThreads(1)
    picture = grey(path)
    if picture is None:
        return None
    small = cv2.resize(picture, (THUMBNAIL, THUMBNAIL), interpolation=cv2.INTER_AREA).astype(numpy.float64).ravel()
    small -= small.mean()
    norm = numpy.linalg.norm(small)
    return (picture.size, small / norm) if norm > 0 else None


def without_copies(pictures, thumbnails):
    """The pictures that have a thumbnail, and of those that look the same the largest one."""
    order = sorted((i for i, found in enumerate(thumbnails) if found), key=lambda i: (-thumbnails[i][0], pictures[i]))
    kept = []
    for i in order:
        if not any(thumbnails[i][1] @ thumbnails[j][1] > SAME for j in kept):
            kept.append(i)
    return [pictures[i] for i in sorted(kept)]


def descriptors(path):
    """SIFT descriptors of a picture: uint8 (keypoints, 128)."""
    import cv2
    cv2.setNumThreads(1)
    sift = cv2.SIFT_create(nfeatures=MOST_FEATURES, contrastThreshold=CONTRAST)
    found = sift.detectAndCompute(grey(path), None)[1]
    if found is None:
        return numpy.empty((0, 128), numpy.uint8)
    return numpy.rint(found).clip(0, 255).astype(numpy.uint8)


def make(data, processes=None):
    """Makes the set in the folder data; returns its manifest."""
    import cv2
    sources = data / f"{NAME}.sources"
    packages = fetch(sources)
    pictures = unpack(sources, packages)
    with multiprocessing.Pool(processes or os.cpu_count()) as pool:
        kept = without_copies(pictures, pool.map(thumbnail, pictures, chunksize=1))
        print(f"{len(kept)} pictures of {len(pictures)}", flush=True)
        found = []
        for path, rows in zip(kept, pool.imap(descriptors, kept)):
            found.append(rows)
            print(f"{len(rows):6d}  {path.name}", flush=True)
    rows = numpy.concatenate(found)
    rows = rows[numpy.random.default_rng(SEED).permutation(len(rows))[:MOST_ROWS]]
    path = data / f"{NAME}.bvecs"
    files.write(path, [rows])
    return manifest.write(data, NAME, path, rows.shape, opencv=cv2.__version__,
                          packages={package: archive.name for package, archive in packages.items()},
                          pictures=len(kept), keypoints=sum(map(len, found)),
                          picture_names=hashlib.sha256("\n".join(path.name for path in kept).encode()).hexdigest())
