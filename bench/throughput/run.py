#!/usr/bin/env python3
"""Measure throughput by number of rows and dimensions (the paper's section 4.2, Figure "TFLOPS").

    bench/throughput/run.py [--sizes 1000 ... 1000000] [--dimensions 64 ... 4096]
                            [--filters int8 fp16] [--runs 5] [--fp16-most 2e15]

The rows are clustered and are generated on the GPU.  A row has 64 neighbours on average.
The paper times only its kernel.  This benchmark times the filter kernel and the whole join
on the GPU, which includes quantization and the exact recheck.  For each number of
dimensions it also measures cuBLAS's FP16 matrix product once.
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
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of rows")
    parser.add_argument("--dimensions", type=int, nargs="+", default=DIMENSIONS, help="numbers of dimensions")
    parser.add_argument("--filters", nargs="+", default=["int8", "fp16"], help="filters to measure")
    parser.add_argument("--runs", type=int, default=REPEATS, help="timed runs of each join")
    parser.add_argument("--fp16-most", type=float, default=float("inf"),
                        help="skip the FP16 filter where 2 n n d exceeds this number")
    args = parser.parse_args()

    measurements, clocks = [], []
    for d in args.dimensions:
        all_filters = [n for n in args.sizes if 2.0 * n * n * d <= args.fp16_most]
        others = [n for n in args.sizes if n not in all_filters]
        for sizes, filters in ((all_filters, args.filters), (others, [f for f in args.filters if f != "fp16"])):
            if sizes:
                found, gpu_state = gpu_programs.join_rows(sizes, d, filters, args.runs)
                measurements += found
                clocks.append(gpu_state)
        write("throughput", vars(args), measurements, clocks)


if __name__ == "__main__":
    main()
