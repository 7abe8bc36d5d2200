#!/usr/bin/env python3
"""Compare brute-force joins on tensor cores with FP64, by dimension (the paper's section 4.4, Figure "TFLOPS, synthetic").

    bench/brute_force/run.py [--n 100000] [--dimensions 64 ... 4096] [--runs 5]

The paper compares FaSTED with TED-Join, a brute-force join in FP64.  This benchmark
compares the INT8, FP16 and FP64 filters, each with the exact recheck.  It also measures
cuBLAS's matrix products in FP16 and FP64.  It checks that all joins return the same pairs.
"""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import gpu_programs  # noqa: E402
from record import REPEATS, write  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100000, help="number of rows")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2 ** i for i in range(6, 13)], help="numbers of dimensions")
    parser.add_argument("--runs", type=int, default=REPEATS, help="timed runs of each join")
    args = parser.parse_args()

    measurements, clocks = [], []
    for d in args.dimensions:
        found, gpu_state = gpu_programs.join_rows([args.n], d, ["int8", "fp16", "fp64"], args.runs, "fp16,fp64")
        measurements += found
        clocks.append(gpu_state)
        write("brute_force", vars(args), measurements, clocks)


if __name__ == "__main__":
    main()
