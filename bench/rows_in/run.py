#!/usr/bin/env python3
"""Reading a table into the join, beside COPY in binary form.

    bench/rows_in/run.py [--rows 100000] [--dimensions 128 960]
                         [--storage PLAIN EXTERNAL] [--workers 0 1 2 4 8 16]
                         [--repeats 5] [--without-copy] [--engine cpu]

Starts a private PostgreSQL with the extension and makes tables of random
vectors, stored in line (PLAIN) and, from 500 dimensions on, out of line too
(EXTERNAL, which is where PostgreSQL puts such vectors by default, less the
attempt to compress them).  Two rows of a table have the same key, so that a
join ends with an error as soon as all is read, and its whole run is reading (and
handing rows to the engine, which the CPU engine keeps in fresh memory and the GPU
engine sends to the GPU):

  read    until the engine has all rows, as the extension reports it (DEBUG1)
  ended   the whole statement until that error: planning, starting workers,
          reading and ordering the keys
  COPY    COPY (SELECT id, v FROM ...) TO STDOUT (FORMAT binary) into /dev/null

The tables are in the file system's cache, or in shared buffers as far as they
fit.  All is measured in turn, in sessions of their own; medians are quoted.
Workers are those beside the leader, which reads too; numbers of workers beyond
the machine's processors less one are left out.
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
    """Rows 1 to n, the first two with the same key; made by one session for each processor."""
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
    """(seconds to read, seconds to the end, rows that workers read)"""
    sql = f"""SET fasted.engine = {engine}; SET client_min_messages = debug1;
        SET max_parallel_workers_per_gather = {workers}; ALTER TABLE items SET (parallel_workers = {workers});
        SELECT count(*) FROM fasted_self_join('items', 'v', 0, id_column => 'id');"""
    begin = time.perf_counter()
    result = subprocess.run(["psql", "-XqAt"], text=True, capture_output=True, env=server.env, input=sql)
    ended = time.perf_counter() - begin
    line = re.search(r"fasted: read (\d+) rows in (\S+) s, (\d+) of them by (\d+) workers", result.stderr)
    if not line or int(line.group(1)) != n or "is not unique" not in result.stderr:
        sys.exit(f"the join did not read and stop:\n{result.stderr}")
    return float(line.group(2)), ended, int(line.group(3))


def copy(server):
    begin = time.perf_counter()
    subprocess.run(["psql", "-Xq", "-o", "/dev/null", "-c", "COPY (SELECT id, v FROM items) TO STDOUT (FORMAT binary)"],
                   check=True, env=server.env, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def measure(server, engine, n, d, storage, workers, repeats, with_copy):
    """A measurement for each number of workers, with the runs of each; COPY, if any, beside the first."""
    make_table(server, n, d, storage)
    about = {"engine": engine, "n": n, "d": d, "storage": storage}
    times = {w: {**about, "workers": w, "read": [], "ended": [], "worker_rows": []} for w in workers}
    copied = []
    for w in workers:
        read(server, engine, w, n)
    for r in range(repeats):
        if with_copy:
            copied.append(copy(server))
        # who comes first, after COPY, should not always be the same
        turn = r % len(workers)
        for w in workers[turn:] + workers[:turn]:
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
             "Written by `bench/rows_in/run.py`, which says what is measured; medians (least to largest).", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", "| n | d | storage | workers | read, s | us a row | rows read by workers | statement, s | COPY, s | COPY / read | one process / read |",
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
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[128, 960])
    parser.add_argument("--storage", nargs="+", default=["PLAIN", "EXTERNAL"])
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 4, 8, 16])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--engine", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--without-copy", action="store_true")
    args = parser.parse_args()
    workers = [w for w in args.workers if w < max(3, os.cpu_count())]

    with private_server(gpu_architectures() if args.engine == "cuda" else "NVCC=") as (server, _):
        server.allow_workers(32, autovacuum="off")
        machine = describe_machine(server)
        rows = []
        for d in args.dimensions:
            for storage in args.storage if d >= OUT_OF_LINE_FROM else ["PLAIN"]:
                rows += measure(server, args.engine, args.rows, d, storage, workers, args.repeats, not args.without_copy)

    write_results("rows_in" if args.engine == "cpu" else "rows_in_cuda", f"{machine['processor']} {machine['processors']} cores",
                  {"machine": machine, "rows": rows}, table(machine, rows))


if __name__ == "__main__":
    main()
