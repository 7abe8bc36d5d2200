#!/usr/bin/env python3
"""Writes doc/evaluation.md, and its plots, from the results of a machine.

    bench/report/run.py [--machine nvidia-h200] [--no-plots] [--check]

No number on that page is typed by hand: they come from bench/results/<machine>/*.json,
and the paper's from published.json beside this file.  --check writes nothing and
fails where the page is not what the results give.  Plots, in SVG, need matplotlib.
"""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import accuracy  # noqa: E402
import brute_force  # noqa: E402
import environment  # noqa: E402
import expect  # noqa: E402
import groups  # noqa: E402
import nearest  # noqa: E402
import on_cpu  # noqa: E402
import optimizations  # noqa: E402
import profiler  # noqa: E402
import pruning  # noqa: E402
import real_world  # noqa: E402
import throughput  # noqa: E402
from page import TOP, Results  # noqa: E402

PAGE = TOP / "doc/evaluation.md"
SECTIONS = (real_world, on_cpu, pruning, groups, nearest, throughput, brute_force, optimizations, profiler, accuracy, environment)
PLOTTED = (real_world, pruning, throughput, brute_force, accuracy)

INTRODUCTION = """# Evaluation

The evaluation of the FaSTED paper (Curless and Gowanlock, 2025, section 4), repeated with this extension, and what its users would
otherwise take beside it. This page is written by `make report` from the results in [bench/results](../bench/results/{machine});
[bench](../bench/README.md) says how to repeat them. A time is a median with its range, least to most, in brackets.
"""


# what no comparison above shows; without numbers
REMARKS = (
    "- Who has the rows in a program's memory, and wants the pairs there, has no need of a table: the way in and out of PostgreSQL, not "
    "the join, is most of our time then.",
    "- Small tables: the statement's fixed costs, planning, starting workers, waking the GPU in the first call, are all that is measured.",
    "- Of vectors that hardly change, an approximate index answers many searches once it is built, for those whom most of the neighbours "
    "serve as well as all.",
    "- Isotropic rows of many dimensions blur the INT8 filter; `fasted.filter = auto` then takes FP16, at its speed.",
)


def where_we_lose(results):
    found = real_world.losses(results)
    lines = ["## Where we lose", ""]
    if found:
        lines += ["Methods that had the pairs in the client's memory in less time than ours takes to stream all of them out of PostgreSQL. "
                  "They begin with the rows in that memory, too.", "", found, ""]
    return "\n".join([*lines, *REMARKS, ""])


def summary(results):
    lines = [line for module in (throughput, real_world, on_cpu, pruning, accuracy) for line in module.headlines(results)]
    return "\n".join(lines + [""])


def page(results):
    parts = [INTRODUCTION.format(machine=results.machine), expect.section(results), summary(results)]
    texts = [module.section(results) for module in SECTIONS]
    parts += [text for text in texts[:1] if text] + [where_we_lose(results)] + [text for text in texts[1:] if text]
    return "\n".join(part for part in parts if part)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", default="nvidia-h200")
    parser.add_argument("--no-plots", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()

    results = Results(args.machine)
    text = page(results)
    if args.check:
        sys.exit(0 if PAGE.read_text() == text else f"{PAGE.relative_to(TOP)} is not up to date: run make report")
    if not args.no_plots:
        for module in PLOTTED:
            module.plot(results)
    PAGE.write_text(text)
    print(f"wrote {PAGE.relative_to(TOP)}")


if __name__ == "__main__":
    main()
