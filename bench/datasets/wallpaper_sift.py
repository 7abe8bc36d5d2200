"""wallpaper-sift: SIFT descriptors of the photographs in Debian's wallpaper packages.

    bench/datasets/make.py wallpaper-sift

The script downloads PACKAGES with "apt-get download" and unpacks them with "dpkg-deb -x" in
the data folder.  It does not install them.  It uses the JPEG files whose longer edge has at
least LEAST_EDGE pixels, except for those in DRAWINGS.  Drawings, among them all PNG and WebP
files of these packages, are excluded because they repeat shapes and yield many equal
descriptors.  One of them had more pairs with a distance below 75 than all photographs together.
A picture often exists in several sizes or crops.  If the thumbnails of two pictures correlate
by more than SAME, only the larger picture is used.

The descriptors are computed by OpenCV's SIFT from grey pictures, which are reduced to at most
MOST_EDGE pixels.  A descriptor has 128 integers from 0 to 255; its norm is about 512.  The
contrast threshold of SIFT is lowered from 0.04 to CONTRAST, so that smooth backgrounds
contribute descriptors, too.  Each picture contributes at most its MOST_FEATURES strongest
keypoints, so that no picture dominates.  The rows are shuffled with the seed SEED, so that the
first rows are a random sample.  The data set has at most MOST_ROWS rows.

The script needs python3-opencv and python3-numpy.  It writes wallpaper-sift.bvecs and a manifest.
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
            "/Volna/", "/firstgeneration.", "/string.", "/waves-")      # substrings of the paths of drawings
LEAST_EDGE, MOST_EDGE = 1000, 4096      # minimum and maximum of the longer edge, in pixels
CONTRAST = 0.01
MOST_FEATURES = 40000
MOST_ROWS = 1000000
THUMBNAIL, SAME = 32, 0.98
SEED = 1


def fetch(folder):
    """Downloads the missing packages to the folder; returns {package: path}."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for package in PACKAGES:
        if not list(folder.glob(f"{package}_*.deb")):
            print(f"downloading {package}", flush=True)
            # Run apt without its sandbox user, which may lack write permission in this folder.
            subprocess.run(["apt-get", "-q", "download", "-o", "APT::Sandbox::User=root", package],
                           cwd=folder, check=True, stdout=subprocess.DEVNULL)
        found[package] = sorted(folder.glob(f"{package}_*.deb"))[-1]
    return found


def unpack(folder, packages):
    """Unpacks each package to folder/unpacked/<package>; returns the sorted paths of all photographs."""
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
    """Reads a picture as grey bytes (height, width), reduced to MOST_EDGE pixels; None if it is too small or unreadable."""
    import cv2
    picture = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    if picture is None or max(picture.shape) < LEAST_EDGE:
        return None
    scale = MOST_EDGE / max(picture.shape)
    if scale < 1:
        picture = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return picture


def thumbnail(path):
    """Returns (number of pixels, THUMBNAIL^2 numbers with mean 0 and norm 1).

    Returns None if the picture is too small, unreadable, or of a single shade.
    """
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
    """Returns the pictures that have a thumbnail, and only the largest one of similar pictures."""
    order = sorted((i for i, found in enumerate(thumbnails) if found), key=lambda i: (-thumbnails[i][0], pictures[i]))
    kept = []
    for i in order:
        if not any(thumbnails[i][1] @ thumbnails[j][1] > SAME for j in kept):
            kept.append(i)
    return [pictures[i] for i in sorted(kept)]


def descriptors(path):
    """Returns the SIFT descriptors of a picture: uint8 (keypoints, 128)."""
    import cv2
    cv2.setNumThreads(1)
    sift = cv2.SIFT_create(nfeatures=MOST_FEATURES, contrastThreshold=CONTRAST)
    found = sift.detectAndCompute(grey(path), None)[1]
    if found is None:
        return numpy.empty((0, 128), numpy.uint8)
    return numpy.rint(found).clip(0, 255).astype(numpy.uint8)


def make(data, processes=None):
    """Makes the data set in the folder data; returns its manifest."""
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
