"""What was made, beside the file: <name>.json with rows, dimensions, checksum and sources."""
import hashlib
import json
import time
from pathlib import Path

import numpy


def checksum(path, algorithm="sha256"):
    """Of a whole file, in hexadecimal digits, read in pieces."""
    digest = hashlib.new(algorithm)
    with open(path, "rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()


def write(data, name, path, shape, **more):
    """Writes data/<name>.json and returns what is in it."""
    found = {"name": name, "file": Path(path).name, "n": int(shape[0]), "d": int(shape[1]),
             "bytes": Path(path).stat().st_size, "sha256": checksum(path), "made": time.strftime("%Y-%m-%d"),
             "numpy": numpy.__version__, **more}
    (data / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    return found


def read(data, name):
    """The manifest of a set that was made, or None."""
    path = data / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
