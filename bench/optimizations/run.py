#!/usr/bin/env python3
"""The leave-one-out study of the optimisations (the paper's Table 6, section 4.3).

    bench/optimizations/run.py [--n 100000] [--dimensions 4096 65]

The mma.sync filter in the paper's FP16-32, the whole square of distances, with one
optimisation of section 3.3 left out at a time; then what is past the paper.  d = 65
shows what padding to a multiple of 64 costs.  Five runs of each.
"""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import gpu_programs  # noqa: E402
from record import write  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100000)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[4096, 65])
    args = parser.parse_args()

    program = gpu_programs.build("switches_bench")
    measurements, clocks = [], []
    for d in args.dimensions:
        result, meanwhile = gpu_programs.run([program, args.n, d])
        measurements += [{"variant": row["variant"], "n": row["n"], "d": row["d"], "seconds": row["filter_s"]}
                         for row in result["rows"]]
        clocks.append({"d": d, "sizes": [args.n], **meanwhile})
    write("optimizations", vars(args), measurements, clocks)


if __name__ == "__main__":
    main()
