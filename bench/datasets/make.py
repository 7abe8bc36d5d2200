#!/usr/bin/env python3
"""Makes or fetches real data sets into the folder FASTED_DATA (by default bench/datasets/files).

    bench/datasets/make.py NAME...      wallpaper-sift debian-text debian-minilm sift1m ...
    bench/datasets/make.py --list       the sets, and which are there
    bench/datasets/make.py --verify NAME...

A set that is there is left as it is.  README.md says what each is, needs and weighs.
"""
import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import datasets  # noqa: E402
from datasets import catalogue, debian_text, embeddings, files, generators, wallpaper_sift, wheels  # noqa: E402

SCRIPTS = {"wallpaper-sift": wallpaper_sift.make, "debian-text": debian_text.make,
           "debian-minilm": embeddings.make_minilm, "debian-wordllama": embeddings.make_wordllama}


def show():
    for name in [*SCRIPTS, *catalogue.SETS]:
        found = datasets.describe(name)
        there = "there" if (datasets.folder() / datasets.path_of(name).name).exists() else "not made"
        print(f"{name:16} {found['n'] or '?':>9} x {found['d']:<5} {there:10} {found['source']}")
    print(f"generated when loaded: {', '.join(generators.LISTED)}")


def make(name):
    """Makes one set unless it is there."""
    path = datasets.path_of(name)
    if path is None:
        print(f"{name} is generated when loaded; there is nothing to make")
        return
    if path.exists():
        print(f"{path} is there: {files.shape(path)}")
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
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verify", action="store_true")
    args = parser.parse_args()
    if args.list or not args.names:
        show()
    try:
        for name in args.names:
            if args.verify:
                print(f"{name}: {datasets.verify(name)}, as its manifest says")
            else:
                make(name)
    except (catalogue.FetchError, wheels.FetchError, files.FormatError, datasets.MissingFile, ValueError) as error:
        sys.exit(f"make.py: {error}")


if __name__ == "__main__":
    main()
