#!/usr/bin/env python3
"""The CUDA engine inside PostgreSQL, from the statement to the last row.

    bench/gpu_join/run.py [--rows 100000] [--dimensions 128 960] [--repeats 5]

Starts a private PostgreSQL with the extension, makes tables of normal random
vectors, and measures SELECT count(*) FROM fasted_self_join(...) at eps such that
a row has 64 neighbours on average (S = 64):

  first     the first call of a new session, which wakes the GPU
  warm      further calls in the same session
  cpu       the CPU engine with all processors, for comparison

All tables store vectors PLAIN, in line; work_mem is 1 GB.  Rates are 2 n n d / seconds.  Writes
JSON and a table to bench/results/<GPU>/.
"""
import argparse
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from server import describe_gpu, describe_machine, gpu_architectures, make_tables, private_server, write_results  # noqa: E402

NEIGHBOURS = 64


def measure(server, n, d, repeats):
    eps = make_tables(server, n, d, NEIGHBOURS)
    query = f"SELECT count(*) FROM fasted_self_join('items', 'v', {eps!r})"
    # each repetition is a session: its first call, then two warm ones
    first, warm, cpu = [], [], []
    server.psql("SELECT sum(cardinality(v)) FROM items")
    for r in range(repeats):
        pairs, times = server.timed("SET fasted.engine = cuda; SET work_mem = '1GB';", query, 3)
        first.append(times[0])
        warm += times[1:]
        print(f"  d = {d}, {r + 1} of {repeats}: first {times[0]:.3f} s, warm {min(times[1:]):.3f} s", flush=True)
    for r in range(2):
        cpu_pairs, times = server.timed("SET fasted.engine = cpu; SET work_mem = '1GB';", query)
        cpu += times
    if cpu_pairs != pairs:
        sys.exit(f"the engines differ: {pairs} pairs on the GPU, {cpu_pairs} on the CPU")
    statistics = {engine: server.statistics(f"SET fasted.engine = {engine};", query) for engine in ("cuda", "cpu")}
    return {"n": n, "d": d, "eps": eps, "pairs": int(pairs), "first": first, "warm": warm, "cpu": cpu,
            "table_bytes": int(server.psql("SELECT pg_table_size('items')")), "statistics": statistics}


def table(machine, rows):
    lines = ["# The join on the GPU, inside PostgreSQL", "",
             "Written by `bench/gpu_join/run.py`; rates are 2 n n d / t; medians, and the range.", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", "| n | d | pairs | first call, s | warm, s | warm, TFLOPS | CPU engine, s | CPU engine / warm |",
              "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        first, warm, cpu = (statistics.median(row[k]) for k in ("first", "warm", "cpu"))
        flop = 2.0 * row["n"] ** 2 * row["d"]
        lines.append(f"| {row['n']} | {row['d']} | {row['pairs']} "
                     f"| {first:.3f} ({min(row['first']):.3f} to {max(row['first']):.3f}) "
                     f"| {warm:.3f} ({min(row['warm']):.3f} to {max(row['warm']):.3f}) "
                     f"| {flop / warm / 1e12:.1f} | {cpu:.2f} | {cpu / warm:.1f} |")
    lines += ["", "Where the time goes, in one call each (kernels by events; of threads, summed):", ""]
    for row in rows:
        for engine, said in row["statistics"].items():
            lines.append(f"- d = {row['d']}, {engine}: {'; '.join(said)}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[128, 960])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()

    gpu = describe_gpu()
    with private_server(gpu_architectures()) as (server, _):
        machine = {**gpu, **describe_machine(server)}
        rows = [measure(server, args.rows, d, args.repeats) for d in args.dimensions]
    write_results("gpu_join", gpu["gpu"], {"machine": machine, "rows": rows}, table(machine, rows))


if __name__ == "__main__":
    main()
