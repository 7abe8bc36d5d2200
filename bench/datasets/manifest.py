"""Manifests: <name>.json describes a data set's file by its shape, checksum, sources and versions."""
import hashlib
import json
import time
from pathlib import Path

import numpy


def checksum(path, algorithm="sha256"):
    """Returns the checksum of a file in hexadecimal digits."""
    digest = hashlib.new(algorithm)
    with open(path, "rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()


def write(data, name, path, shape, **more):
    """Writes the manifest data/<name>.json and returns it as a dictionary."""
    found = {"name": name, "file": Path(path).name, "n": int(shape[0]), "d": int(shape[1]),
             "bytes": Path(path).stat().st_size, "sha256": checksum(path), "made": time.strftime("%Y-%m-%d"),
             "numpy": numpy.__version__, **more}
    (data / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    return found


def read(data, name):
    """Returns the manifest of a data set, or None if there is none."""
    path = data / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
