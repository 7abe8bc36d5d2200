#!/usr/bin/env python3
"""Make or download real data sets.

    bench/datasets/make.py NAME...            make or download, e.g. wallpaper-sift or sift1m
    bench/datasets/make.py --list             list the data sets
    bench/datasets/make.py --verify NAME...   check the files

The files are stored in the folder FASTED_DATA (by default bench/datasets/files).  Existing
files are not changed.  README.md describes the data sets and their requirements.
"""
import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import datasets  # noqa: E402
from datasets import bits, catalogue, debian_text, embeddings, files, generators, wallpaper_sift, wheels  # noqa: E402

SCRIPTS = {"wallpaper-sift": wallpaper_sift.make, "debian-text": debian_text.make,
           "debian-minilm": embeddings.make_minilm, "debian-wordllama": embeddings.make_wordllama,
           "molecules": bits.make_molecules, "wallpaper-hashes": bits.make_hashes, "debian-simhash": bits.make_simhash}


def show():
    """Prints the list of data sets."""
    for name in [*SCRIPTS, *catalogue.SETS]:
        found = datasets.describe(name)
        state = "present" if datasets.path_of(name).exists() else "missing"
        print(f"{name:16} {found['n'] or '?':>9} x {found['d']:<5} {state:10} {found['source']}")
    print(f"generated when loaded: {', '.join([*generators.LISTED, bits.GENERATED])}")


def make(name):
    """Makes or downloads one data set, unless its file exists."""
    path = datasets.path_of(name)
    if path is None:
        print(f"{name} is generated when it is loaded; no file is needed")
        return
    if path.exists():
        print(f"{path} exists: {files.shape(path)}")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    begin = time.time()
    if name in SCRIPTS:
        found = SCRIPTS[name](path.parent)
    else:
        found = catalogue.fetch(path.parent, catalogue.SETS[name])
    print(f"{path}: {found['n']} x {found['d']}, {found['bytes']} bytes, in {time.time() - begin:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a data set")
    parser.add_argument("--list", action="store_true", help="list the data sets; the default if no name is given")
    parser.add_argument("--verify", action="store_true", help="check every record and the checksum of existing files")
    args = parser.parse_args()
    if args.list or not args.names:
        show()
    try:
        for name in args.names:
            if args.verify:
                print(f"{name}: {datasets.verify(name)}, matches its manifest")
            else:
                make(name)
    except (catalogue.FetchError, wheels.FetchError, files.FormatError, datasets.MissingFile, ValueError) as error:
        sys.exit(f"make.py: {error}")


if __name__ == "__main__":
    main()
