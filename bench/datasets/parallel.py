"""Generate all rows of a data set with several processes, in shared memory.

Each process is a separate Python interpreter that runs this file.  The rows do not depend
on the number of processes.
"""
import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy


def shared(file, n, d):
    """Maps the memory of an open file as float32 (n, d)."""
    return numpy.frombuffer(mmap.mmap(file, 4 * n * d), numpy.float32).reshape(n, d)


def all_rows(rows, block, processes):
    """Returns all rows of a Rows object: float32 (n, d).  Each process generates whole blocks of the given size."""
    name, n, d = rows.name, rows.n, rows.d
    blocks = -(-n // block)
    ends = [min(n, block * (blocks * part // processes)) for part in range(processes + 1)]
    file = os.memfd_create(name)
    try:
        os.ftruncate(file, 4 * n * d)
        makers = [subprocess.Popen([sys.executable, __file__, name, *map(str, (n, d, file, first, end))], pass_fds=[file])
                  for first, end in zip(ends, ends[1:])]
        if any([maker.wait() for maker in makers]):
            raise RuntimeError(f"{name}: a process failed to generate its part of the {n} rows")
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
