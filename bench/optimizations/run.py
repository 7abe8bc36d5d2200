#!/usr/bin/env python3
"""Measure the filter without each of its optimizations (the paper's section 4.3, Table 6).

    bench/optimizations/run.py [--n 100000] [--dimensions 4096 65]

The mma.sync filter computes all n x n distances in the paper's FP16-32.  Each variant omits
one optimization of section 3.3.  Further variants have optimizations that the paper does not
describe.  d = 65 shows the cost of padding to a multiple of 64 dimensions.  Each variant runs
five times.
"""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import gpu_programs  # noqa: E402
from record import write  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100000, help="number of rows")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[4096, 65], help="numbers of dimensions")
    args = parser.parse_args()

    program = gpu_programs.build("switches_bench")
    measurements, clocks = [], []
    for d in args.dimensions:
        result, gpu_state = gpu_programs.run([program, args.n, d])
        measurements += [{"variant": row["variant"], "n": row["n"], "d": row["d"], "seconds": row["filter_s"]}
                         for row in result["rows"]]
        clocks.append({"d": d, "sizes": [args.n], **gpu_state})
    write("optimizations", vars(args), measurements, clocks)


if __name__ == "__main__":
    main()
