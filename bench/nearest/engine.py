#!/usr/bin/env python3
"""Compare the CPU engine's search for the k nearest rows with its join at eps, without PostgreSQL.

    bench/nearest/engine.py [NAME=ROWS ...] [--threads 2] [--repeats 3] [--k 10 100]
"""
import argparse
import glob
import os
import subprocess
import sys
import tempfile

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOP = os.path.dirname(BENCH)
sys.path.insert(0, BENCH)

from datasets import generators  # noqa: E402


def build(folder):
    """Compiles engine.c in a folder; returns the program's path."""
    program = os.path.join(folder, "engine")
    sources = [file for folder in ("cpu", "engine") for file in glob.glob(os.path.join(TOP, "src", folder, "*.c"))]
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-o", program,
                    os.path.join(BENCH, "nearest", "engine.c"), *sorted(sources), "-lpthread", "-lm"], check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="number of threads")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case, of which the fastest counts")
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100], help="numbers of neighbours per row")
    parser.add_argument("sets", nargs="*", default=["gist-like=20000", "sift-like=20000", "sift-like=60000"],
                        metavar="NAME=ROWS", help="generated data sets")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        for name, count in (part.split("=") for part in options.sets):
            rows = generators.make(name, int(count))
            path = os.path.join(folder, "rows")
            rows.rows(0, rows.n).tofile(path)
            print(f"{name}, {rows.n} x {rows.d}", flush=True)
            subprocess.run([program, path, str(rows.n), str(rows.d), str(options.threads), str(options.repeats),
                            *map(str, options.k)], check=True)


if __name__ == "__main__":
    main()
