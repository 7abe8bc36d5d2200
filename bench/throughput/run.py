#!/usr/bin/env python3
"""Throughput over the number of rows and of dimensions (the paper's Figure "TFLOPS", section 4.2).

    bench/throughput/run.py [--sizes 1000 ... 1000000] [--dimensions 64 ... 4096]
                            [--filters int8 fp16] [--runs 5] [--fp16-most 2e15]

Rows are clustered, of S = 64 neighbours, and made on the GPU.  The paper times its
kernel alone; here it is that (the filter) and the whole join on the device, with
quantising and the exact recheck.  cuBLAS's FP16 products run once for each d, too.
--fp16-most leaves FP16 out where 2 n n d is above it.
"""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import gpu_programs  # noqa: E402
from record import REPEATS, write  # noqa: E402

SIZES = [round(10 ** (3 + i / 3)) for i in range(10)]
DIMENSIONS = [2 ** i for i in range(6, 13)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--dimensions", type=int, nargs="+", default=DIMENSIONS)
    parser.add_argument("--filters", nargs="+", default=["int8", "fp16"])
    parser.add_argument("--runs", type=int, default=REPEATS)
    parser.add_argument("--fp16-most", type=float, default=float("inf"))
    args = parser.parse_args()

    measurements, clocks = [], []
    for d in args.dimensions:
        all_filters = [n for n in args.sizes if 2.0 * n * n * d <= args.fp16_most]
        others = [n for n in args.sizes if n not in all_filters]
        for sizes, filters in ((all_filters, args.filters), (others, [f for f in args.filters if f != "fp16"])):
            if sizes:
                found, meanwhile = gpu_programs.join_rows(sizes, d, filters, args.runs)
                measurements += found
                clocks.append(meanwhile)
        write("throughput", vars(args), measurements, clocks)


if __name__ == "__main__":
    main()
