#!/usr/bin/env python3
"""Measure the accuracy of FP16-32 and of the exact mode (the paper's section 4.6, Tables 8 and 9, and the histogram).

    bench/accuracy/run.py [--data embedding-512 debian-text ...] [--rows 60000] [--selectivity 64 128 256]

The ground truth is the extension's join in FP64 (fasted.filter = fp64).  The regression
tests compare that join with independent brute-force programs.  Three methods are compared
with the ground truth: the paper's FP16-32 (fasted.refine = off), and the exact mode with
the FP16 and the INT8 filter.  The exact mode must reach an overlap of 1 and errors of 0.
Overlap is Equation 3 of the paper.  The error of a distance is the method's distance minus
the true distance; it is computed for the pairs that both results contain.
"""
import argparse
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH / "real_world")]
import epsilon  # noqa: E402
import ours  # noqa: E402
import record  # noqa: E402
from datasets import load  # noqa: E402
from peers import compare, postgres  # noqa: E402
from server import gpu_architectures, private_server  # noqa: E402

TABLE = "items"
DATA = ["embedding-512", "debian-text", "debian-minilm", "wallpaper-sift", "sift-like", "tiny-like", "gist-like"]
BINS = 101
TRUTH = "SET fasted.filter = fp64;"
METHODS = {
    "FP16-32 of the paper": "SET fasted.filter = fp16; SET fasted.refine = off;",
    "exact, FP16 filter": "SET fasted.filter = fp16;",
    "exact, INT8 filter": "SET fasted.filter = int8;",
}


def measure(server, data, rows, selectivity, eps, settings):
    """Yields one measurement (a dictionary) for each method."""
    n, d = rows.shape
    join = ours.join_of(TABLE, eps)
    truth = ours.pairs(server, settings + TRUTH, join)
    about = {"data": data, "rows": n, "dimensions": d, "selectivity": selectivity, "eps": eps, "true_pairs": len(truth[0])}
    for name, setting in METHODS.items():
        # the exact mode's errors are all 0
        bins = BINS if "refine = off" in setting else None
        answer = compare.compare(truth, ours.pairs(server, settings + setting, join), n, bins)
        errors = answer["errors"] or {}
        print(f"{data}, S = {selectivity}, {name}: overlap {answer['overlap']:.6f}, {answer['missed']} missed, "
              f"{answer['spurious']} spurious, error {errors.get('mean', 0):.2g} +- {errors.get('deviation', 0):.2g}", flush=True)
        yield {**about, "method": name, **answer}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=DATA, help="names of data sets in bench/datasets")
    parser.add_argument("--rows", type=int, default=60000, help="number of rows taken from each data set")
    parser.add_argument("--selectivity", type=int, nargs="+", default=[64, 128, 256], help="mean numbers of neighbours per row")
    args = parser.parse_args()

    measurements = []
    settings = "SET fasted.engine = cuda; " + ours.session_settings(ours.default_workers(), 64)
    with private_server(gpu_architectures()) as (server, _):
        for data in args.data:
            rows = load(data, args.rows)
            postgres.fill(server, TABLE, rows)
            eps = epsilon.choose(server, TABLE, rows, args.selectivity)
            for selectivity in args.selectivity:
                measurements += measure(server, data, rows, selectivity, eps[selectivity], settings)
                record.write("accuracy", {**vars(args), "seed": epsilon.SEED}, measurements)


if __name__ == "__main__":
    main()
