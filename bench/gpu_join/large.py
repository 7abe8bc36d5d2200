#!/usr/bin/env python3
"""Large tables joined on the GPU, inside PostgreSQL, from the statement to the count.

    bench/gpu_join/large.py [--cases 1000000x960 10000000x128] [--repeats 3] [--workers 12]

Starts a private PostgreSQL with the extension and fills tables with vectors like
embeddings: unit vectors in clusters of 200 on average, as in
bench/kernel/device_rows.cuh.  Measures SELECT count(*) FROM fasted_self_join(...)
at eps such that a row has 64 neighbours on average (S = 64):

  first     the first call of a new session, which wakes the GPU
  warm      one more call in the same session

Tables lie in the file system's cache; vectors are stored PLAIN, in line, which
is what doc/reading.md advises.  --workers are those that read beside the leader.
Writes JSON and a table to bench/results/<GPU>/.  Needs numpy.
"""
import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from pathlib import Path

import numpy

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from peers import binary_copy, postgres  # noqa: E402
from server import (describe_gpu, describe_machine, gpu_architectures, join_node, private_server,  # noqa: E402
                    write_results)

NEIGHBOURS = 64
CHUNK = 20000
QUERIES = 64
BINS = numpy.linspace(0, 2, 200001)


def centres(n, d):
    return numpy.random.default_rng(1).standard_normal((n // 200 + 1, d), dtype=numpy.float32)


def chunk_of_rows(number, n, d, middles):
    """Rows number * CHUNK and on, the same every time."""
    random = numpy.random.default_rng([2, number])
    rows = min(CHUNK, n - number * CHUNK)
    spread = random.uniform(0.3, 0.9, (rows, 1)).astype(numpy.float32)
    v = middles[random.integers(len(middles), size=rows)] + spread * random.standard_normal((rows, d), dtype=numpy.float32)
    v *= numpy.arange(1, d + 1, dtype=numpy.float32) ** -0.25
    return v / numpy.linalg.norm(v, axis=1, keepdims=True)


def fill(share):
    """One of several processes: its chunks into the table; counts of distances to the queries."""
    server, n, d, part, parts = share
    middles = centres(n, d)
    queries = chunk_of_rows(0, n, d, middles)[:QUERIES]
    counts = numpy.zeros(len(BINS) - 1, dtype=numpy.int64)

    def pieces():
        for number in range(part, (n + CHUNK - 1) // CHUNK, parts):
            v = chunk_of_rows(number, n, d, middles)
            yield from binary_copy.pieces_out(number * CHUNK, v)
            distances = numpy.sqrt(numpy.maximum(0, 2 - 2 * (queries @ v.T)))
            numpy.add(counts, numpy.histogram(distances, BINS)[0], out=counts)

    postgres.copy_in(server, "items", pieces())
    return counts


def make_table(server, n, d, processes):
    postgres.create(server, "items", d)
    with multiprocessing.Pool(processes) as pool:
        counts = sum(pool.map(fill, [(server, n, d, part, processes) for part in range(processes)]))
    server.psql("VACUUM ANALYZE items; SELECT count(*) FROM items;")

    # each query finds itself too
    return float(BINS[numpy.searchsorted(numpy.cumsum(counts), (NEIGHBOURS + 1) * QUERIES)])


def measure(server, n, d, repeats, workers):
    begin = time.time()
    eps = make_table(server, n, d, min(12, os.cpu_count()))
    print(f"{n} x {d}: table made in {time.time() - begin:.0f} s, eps {eps:.5f}", flush=True)
    settings = f"SET fasted.engine = cuda; SET max_parallel_workers_per_gather = {workers};"
    query = f"SELECT count(*) FROM fasted_self_join('items', 'v', {eps!r}, id_column => 'id')"
    first, warm = [], []
    for r in range(repeats):
        pairs, times = server.timed(settings, query, 2)
        first.append(times[0])
        warm.append(times[1])
        print(f"  first {times[0]:.3f} s, warm {times[1]:.3f} s, {pairs} pairs", flush=True)
    plan = json.loads(server.psql(f"{settings} EXPLAIN (ANALYZE, FORMAT json) {query}"))
    return {"n": n, "d": d, "eps": eps, "pairs": int(pairs), "first": first, "warm": warm,
            "table_bytes": int(server.psql("SELECT pg_table_size('items')")), "plan": plan[0]["Plan"]}


def table(machine, rows):
    lines = ["# Large joins on the GPU, inside PostgreSQL", "",
             "Written by `bench/gpu_join/large.py`; rates are 2 n n d / t; medians, and the range.", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", "| n | d | table, GB | pairs | first call, s | warm, s | warm, TFLOPS | filter | read, s | device, s |",
              "|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        first, warm = (statistics.median(row[k]) for k in ("first", "warm"))
        plan = join_node(row["plan"])
        lines.append(f"| {row['n']} | {row['d']} | {row['table_bytes'] / 1e9:.1f} | {row['pairs']} "
                     f"| {first:.2f} ({min(row['first']):.2f} to {max(row['first']):.2f}) "
                     f"| {warm:.2f} ({min(row['warm']):.2f} to {max(row['warm']):.2f}) "
                     f"| {2.0 * row['n'] ** 2 * row['d'] / warm / 1e12:.0f} | {plan['Distance Filter']} "
                     f"| {plan['Read Time'] / 1000:.2f} | {plan.get('Device Time', 0) / 1000:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=["1000000x960", "10000000x128"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=12)
    args = parser.parse_args()

    gpu = describe_gpu()
    with private_server(gpu_architectures()) as (server, _):
        for name in ("max_worker_processes", "max_parallel_workers"):
            server.psql(f"ALTER SYSTEM SET {name} = 32")
        server.start()
        machine = {**gpu, **describe_machine(server)}
        rows = [measure(server, *map(int, case.split("x")), args.repeats, args.workers) for case in args.cases]
    write_results("large", gpu["gpu"], {"machine": machine, "rows": rows}, table(machine, rows))


if __name__ == "__main__":
    main()
