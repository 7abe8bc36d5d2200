#!/usr/bin/env python3
"""Time the CPU engine without PostgreSQL, with each kernel that the CPU supports.

    bench/cpu_join/kernels.py [--rows 100000] [--dimensions 128 960] [--threads 1 2]
                              [--repeats 5] [--kernels amx avx512vnni ...] [--evex]

The rows are normally distributed.  Eps is chosen such that a row has 64 neighbours on
average.  The elapsed time runs from the last staged row to the last pair: packing, filter,
recheck, and fetching the pairs.  The CPU time is the sum over all threads; it is the better
measure on a machine that does other work.  The kernels run in turn.

The benchmark needs a C compiler, but no PostgreSQL.  It writes JSON and a table to
bench/results/<machine>/.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
import record  # noqa: E402

KERNELS = ["amx", "avx512vnni", "avx512", "avxvnni", "avx2int16", "avx2", "sdot", "neon", "portable"]
NEIGHBOURS = 64


def build(directory, evex):
    """Compiles engine.c in a directory; returns the program's path."""
    program = Path(directory) / "engine"
    sources = sorted([*(TOP / "src/cpu").glob("*/*.c"), *(TOP / "src/engine").glob("*.c")])
    subprocess.run(["cc", "-std=gnu11", "-O2", "-ffp-contract=off", "-pthread",
                    *(["-DFASTED_AVXVNNI_EVEX"] if evex else []), "-o", program, HERE / "engine.c",
                    *sources, "-lm"], check=True)
    return program


def measure(program, args, d, threads):
    """Runs the program for one shape; returns one measurement for each kernel."""
    command = [program, args.rows, d, NEIGHBOURS, args.repeats, threads, *args.kernels]
    done = subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE)
    return [json.loads(line) for line in done.stdout.splitlines()]


def table(machine, rows):
    lines = ["# The CPU engine by kernel", "",
             "Written by `bench/cpu_join/kernels.py`. Times are medians (minimum to maximum). The rate counts each pair once.", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", "| n | d | mean neighbours | threads | kernel | filter | time, s | CPU time, s "
              "| 10^9 pairs x dimensions per s | candidates per pair |",
              "|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        seconds = statistics.median(row["seconds"])
        spent = f"{statistics.median(row['cpu_seconds']):.3f}" if "cpu_seconds" in row else ""
        work = row["rows"] * (row["rows"] - 1) / 2 * row["dimensions"]
        neighbours = 2 * row["pairs"] / row["rows"]
        lines.append(f"| {row['rows']} | {row['dimensions']} | {neighbours:.2g} | {row['threads']} "
                     f"| {row['kernel']} | {row['filter']} "
                     f"| {seconds:.3f} ({min(row['seconds']):.3f} to {max(row['seconds']):.3f}) "
                     f"| {spent} "
                     f"| {work / seconds / 1e9:.0f} | {row['candidates'] / max(row['pairs'], 1):.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100000, help="number of rows")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[128, 960], help="numbers of dimensions")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each kernel")
    parser.add_argument("--kernels", nargs="+", default=KERNELS, help="kernels to measure; unsupported ones are skipped")
    parser.add_argument("--evex", action="store_true",
                        help="build the avxvnni kernel with the EVEX encoding of its 256-bit instructions, "
                             "for a CPU that has AVX-512 VNNI but not AVX-VNNI")
    args = parser.parse_args()

    known = record.environment()
    machine = {name: known[name] for name in ("processor", "processors", "system", "compiler", "revision", "date")}
    with tempfile.TemporaryDirectory() as scratch:
        program = build(scratch, args.evex)
        rows = []
        for d in args.dimensions:
            for threads in args.threads:
                rows += measure(program, args, d, threads)
                print(f"d = {d}, {threads} threads: done", flush=True)
    text = table(machine, rows)
    folder = record.folder_name(f"{machine['processor']} {machine['processors']} cores")
    path = record.save(folder, "cpu_kernels", {"machine": {**machine, "evex": args.evex}, "rows": rows})
    path.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
