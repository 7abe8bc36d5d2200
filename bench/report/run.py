#!/usr/bin/env python3
"""Writes bench/evaluation.md, its plots, and the measured figures in README.md and the users' pages.

    bench/report/run.py [--machine nvidia-h200] [--no-plots] [--check]

All figures come from the result files, bench/results/*/*.json.  The figures of the FaSTED
paper come from published.json in this folder.  --check writes no file.  It fails if a page
differs from what the results give, or if a user's page contains a figure that does not come
from the results (figures.py).  Plots are in SVG and need matplotlib.
"""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import bits  # noqa: E402
import brute_force  # noqa: E402
import clustering  # noqa: E402
import environment  # noqa: E402
import expect  # noqa: E402
import figures  # noqa: E402
import hdbscan  # noqa: E402
import models  # noqa: E402
import nearest  # noqa: E402
import on_cpu  # noqa: E402
import over_rows  # noqa: E402
import profiler  # noqa: E402
import pruning  # noqa: E402
import real_world  # noqa: E402
import rows_out  # noqa: E402
import throughput  # noqa: E402
from page import TOP, Results  # noqa: E402

PAGE = TOP / "bench/evaluation.md"
SECTIONS = (expect, real_world, on_cpu, pruning, clustering, hdbscan, nearest, bits, rows_out, throughput, brute_force, profiler, environment)
PLOTTED = (models, over_rows, real_world, pruning, throughput, brute_force)

INTRODUCTION = """# Evaluation

This page compares fasted with other programs, and repeats the evaluation of the FaSTED paper (Curless and Gowanlock, 2025, section 4). `make report` writes it from the [result files](results), which contain all measurements. [Benchmarks](README.md) explains how to repeat them.

A time is the median of several runs, in seconds. S is the mean number of neighbours per row, and is 64 unless another value is given. A *first* call is the first join of a session; it includes the initialization of the GPU. All others are *later* calls.
"""


def page(results):
    parts = [INTRODUCTION, *(module.section(results) for module in SECTIONS)]
    return "\n".join(part for part in parts if part)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", default="nvidia-h200", help="folder of bench/results with the GPU's results")
    parser.add_argument("--no-plots", action="store_true")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a page is not up to date")
    args = parser.parse_args()

    results = Results(args.machine)
    written = {PAGE: page(results), **figures.pages(results)}
    if args.check:
        stale = [f"{path.relative_to(TOP)} is not up to date: run make report"
                 for path, text in written.items() if path.read_text(encoding="utf-8") != text]
        sys.exit("\n".join([*stale, *figures.unknown(TOP)]) or 0)
    if not args.no_plots:
        for module in PLOTTED:
            module.plot(results)
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(TOP)}")


if __name__ == "__main__":
    main()
