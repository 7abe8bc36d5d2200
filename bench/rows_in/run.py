#!/usr/bin/env python3
"""Compare the time in which the join reads a table with that of a binary COPY.

    bench/rows_in/run.py [--rows 100000] [--dimensions 128 960]
                         [--storage EXTENDED PLAIN] [--workers 0 1 2 4 8 16]
                         [--repeats 5] [--without-copy] [--engine cpu]

The benchmark starts a private PostgreSQL server with the extension and creates tables
of random vectors.  They are stored as CREATE TABLE does it (EXTENDED, which is out of line
from about 500 dimensions on) and, from 500 dimensions on, also in line (PLAIN).  Two rows of a table have the same key.  Therefore the join ends with an
error as soon as it has read all rows.  The CPU engine stores the rows in new memory, and the
GPU engine copies them to the GPU.

  read    the time until the engine has all rows, as the extension reports it at DEBUG1
  ended   the time of the whole statement: planning, start of the workers, reading,
          and sorting the keys
  COPY    COPY (SELECT id, v FROM ...) TO STDOUT (FORMAT binary), written to /dev/null

The tables are in the file system's cache and, as far as they fit, in shared buffers.  Each
run has a session of its own, and all cases run in turn.  The leader process reads rows in
addition to the workers.  A number of workers is skipped if the machine has too few CPUs.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from server import describe_machine, gpu_architectures, private_server, write_results  # noqa: E402

OUT_OF_LINE_FROM = 500


def make_table(server, n, d, storage):
    """Creates a table of n rows, the first two with the same key.  One session per CPU fills it."""
    server.psql(f"""
        DROP TABLE IF EXISTS items;
        CREATE TABLE items (id bigint, v real[]);
        ALTER TABLE items ALTER COLUMN v SET STORAGE {storage};""")
    sessions = os.cpu_count()
    bounds = [n * i // sessions for i in range(sessions + 1)]

    def fill(first, last):
        server.psql(f"""SELECT setseed({first / n});
            INSERT INTO items SELECT greatest(i, 2), ARRAY(
                SELECT (random() + 0 * i)::real FROM generate_series(1, {d}))
            FROM generate_series({first + 1}, {last}) AS i;""")

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, bounds[:-1], bounds[1:]))
    server.psql("VACUUM ANALYZE items; CHECKPOINT; SELECT sum(cardinality(v)) FROM items;")


def read(server, engine, workers, n):
    """Runs the join; returns the seconds of reading, those of the whole statement, and the number of rows that workers read."""
    sql = f"""SET fasted.engine = {engine}; SET client_min_messages = debug1;
        SET max_parallel_workers_per_gather = {workers}; ALTER TABLE items SET (parallel_workers = {workers});
        SELECT count(*) FROM fasted_self_join('items', 'v', 0, id_column => 'id');"""
    begin = time.perf_counter()
    result = subprocess.run(["psql", "-XqAt"], text=True, capture_output=True, env=server.env, input=sql)
    ended = time.perf_counter() - begin
    line = re.search(r"fasted: read (\d+) rows in (\S+) s, (\d+) of them by (\d+) workers", result.stderr)
    if not line or int(line.group(1)) != n or "is not unique" not in result.stderr:
        sys.exit(f"the join did not end with the expected error:\n{result.stderr}")
    return float(line.group(2)), ended, int(line.group(3))


def copy(server):
    """Returns the seconds of a binary COPY."""
    begin = time.perf_counter()
    subprocess.run(["psql", "-Xq", "-o", "/dev/null", "-c", "COPY (SELECT id, v FROM items) TO STDOUT (FORMAT binary)"],
                   check=True, env=server.env, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def measure(server, engine, n, d, storage, workers, repeats, with_copy):
    """Returns one measurement for each number of workers; the first one includes the times of COPY, if measured."""
    make_table(server, n, d, storage)
    about = {"engine": engine, "n": n, "d": d, "storage": storage}
    times = {w: {**about, "workers": w, "read": [], "ended": [], "worker_rows": []} for w in workers}
    copied = []
    for w in workers:
        read(server, engine, w, n)
    for r in range(repeats):
        if with_copy:
            copied.append(copy(server))
        # rotate the order, so that each case is the first one after COPY in some repetition
        first = r % len(workers)
        for w in workers[first:] + workers[:first]:
            seconds, ended, worker_rows = read(server, engine, w, n)
            for name, value in (("read", seconds), ("ended", ended), ("worker_rows", worker_rows)):
                times[w][name].append(value)
        print(f"  d = {d}, {storage}, {r + 1} of {repeats}: COPY {copied[-1:]} s, read "
              + ", ".join(f"{times[w]['read'][-1]:.3f}" for w in workers), flush=True)
    if copied:
        times[workers[0]]["copy"] = copied
    return list(times.values())


def table(machine, rows):
    lines = ["# Reading a table", "",
             "Written by `bench/rows_in/run.py`, which describes the measurements. Times are medians (minimum to maximum).", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", "| n | d | storage | workers | read, s | us per row | rows read by workers | statement, s | COPY, s | COPY / read "
              "| read without workers / read |",
              "|---|---|---|---|---|---|---|---|---|---|---|"]
    for m in rows:
        same = [other for other in rows if all(other[key] == m[key] for key in ("n", "d", "storage"))]
        copied = next((statistics.median(other["copy"]) for other in same if "copy" in other), None)
        alone = next((statistics.median(other["read"]) for other in same if other["workers"] == 0), None)
        seconds = statistics.median(m["read"])
        lines.append(
            f"| {m['n']} | {m['d']} | {m['storage']} | {m['workers']} | {seconds:.3f} ({min(m['read']):.3f} to "
            f"{max(m['read']):.3f}) | {seconds / m['n'] * 1e6:.2f} | "
            f"{statistics.median(m['worker_rows']) / m['n']:.0%} | {statistics.median(m['ended']):.3f} "
            + (f"| {copied:.3f} | {copied / seconds:.1f} " if copied else "| | ")
            + (f"| {alone / seconds:.1f} |" if alone else "| |"))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100000, help="number of rows")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[128, 960], help="numbers of dimensions")
    parser.add_argument("--storage", nargs="+", default=["EXTENDED", "PLAIN"], help="storages of the vectors; short ones have the first")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 4, 8, 16], help="numbers of parallel workers")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each case")
    parser.add_argument("--engine", choices=["cpu", "cuda"], default="cpu", help="fasted.engine")
    parser.add_argument("--without-copy", action="store_true", help="do not measure COPY")
    args = parser.parse_args()
    workers = [w for w in args.workers if w < max(3, os.cpu_count())]

    with private_server(gpu_architectures() if args.engine == "cuda" else "NVCC=") as (server, _):
        server.allow_workers(32, autovacuum="off")
        machine = describe_machine(server)
        del machine["storage"]      # each measurement has its own
        rows = []
        for d in args.dimensions:
            for storage in args.storage if d >= OUT_OF_LINE_FROM else args.storage[:1]:
                rows += measure(server, args.engine, args.rows, d, storage, workers, args.repeats, not args.without_copy)

    write_results("rows_in" if args.engine == "cpu" else "rows_in_cuda", f"{machine['processor']} {machine['processors']} cores",
                  {"machine": machine, "rows": rows}, table(machine, rows))


if __name__ == "__main__":
    main()
