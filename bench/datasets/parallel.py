"""All rows of a generated set by several processes, in memory that they share.

Each process is an interpreter of its own and runs this file; the rows are those that one
process makes.
"""
import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy


def shared(file, n, d):
    """The file's memory as float32 (n, d)."""
    return numpy.frombuffer(mmap.mmap(file, 4 * n * d), numpy.float32).reshape(n, d)


def all_rows(rows, block, processes):
    """float32 (n, d) of a Rows object, whole blocks by each process."""
    name, n, d = rows.name, rows.n, rows.d
    blocks = -(-n // block)
    ends = [min(n, block * (blocks * part // processes)) for part in range(processes + 1)]
    file = os.memfd_create(name)
    try:
        os.ftruncate(file, 4 * n * d)
        makers = [subprocess.Popen([sys.executable, __file__, name, *map(str, (n, d, file, first, end))], pass_fds=[file])
                  for first, end in zip(ends, ends[1:])]
        if any([maker.wait() for maker in makers]):
            raise RuntimeError(f"{name}: not all of {n} rows were made")
        return shared(file, n, d)
    finally:
        os.close(file)


def main():
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from datasets import generators

    name = sys.argv[1]
    n, d, file, first, end = map(int, sys.argv[2:])
    made, result = generators.make(name, n), shared(file, n, d)
    for begin in range(first, end, generators.BLOCK):
        piece = made.rows(begin, min(generators.BLOCK, end - begin))
        result[begin:begin + len(piece)] = piece


if __name__ == "__main__":
    main()
