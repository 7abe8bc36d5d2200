#!/usr/bin/env python3
"""Brute force over the dimensions, tensor cores beside FP64 (the paper's Figure "TFLOPS, synthetic",
section 4.4).

    bench/brute_force/run.py [--n 100000] [--dimensions 64 ... 4096] [--runs 5]

The paper sets FaSTED beside TED-Join, a brute-force join in FP64.  Here it is the
INT8, FP16 and FP64 filters, each with the exact recheck, beside cuBLAS's products
alone in FP16 and FP64.  All joins give the same pairs, which is checked.
"""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import gpu_programs  # noqa: E402
from record import REPEATS, write  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100000)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2 ** i for i in range(6, 13)])
    parser.add_argument("--runs", type=int, default=REPEATS)
    args = parser.parse_args()

    measurements, clocks = [], []
    for d in args.dimensions:
        found, meanwhile = gpu_programs.join_rows([args.n], d, ["int8", "fp16", "fp64"], args.runs, "fp16,fp64")
        measurements += found
        clocks.append(meanwhile)
        write("brute_force", vars(args), measurements, clocks)


if __name__ == "__main__":
    main()
