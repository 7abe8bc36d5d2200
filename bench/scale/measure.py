#!/usr/bin/env python3
"""Measure the CPU time of a distributed join on the workers and the coordinator of a Citus cluster.

    bench/scale/measure.py --coordinator "host=127.0.0.1 port=9700" --workers "..." "..." "..."
                           [--rows 100000] [--dimensions 128] [--most 3] [--pruned] [--out FILE]

The benchmark needs psql and a running cluster with the extension, like the one of make
check-citus.  It creates a table there and drops it at the end.

Times are user and system time of the backend with all its threads, from log_statement_stats.
They are meaningful on a loaded machine, too.  They do not include backends that read shards
for this backend.  Pruning is disabled unless --pruned is given.

For m = 1, 2, ..., each of the m slices of the join runs separately, on a worker of its own.
One slice of a million measures the time of reading alone.  The benchmark prints a table and
writes JSON.
"""
import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import record  # noqa: E402

TABLE = "scale_items"


def run(connection, sql):
    """Runs a statement on a server; returns its standard output and error output."""
    done = subprocess.run(["psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", connection, "-c", sql],
                          text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout.strip(), done.stderr


def seconds(connection, sql, prune):
    """Runs a statement; returns its result and its CPU time (user and system) in seconds."""
    command = ["psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", connection,
               "-c", f"SET fasted.prune = {prune}", "-c", "SET log_statement_stats = on", "-c", "SET client_min_messages = log", "-c", sql]
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    user, system = re.findall(r"!\s+([\d.]+) s user, ([\d.]+) s system, [\d.]+ s elapsed", done.stderr)[-1]
    return done.stdout.strip(), float(user) + float(system)


def slice_seconds(connection, eps, number, slices, prune):
    """Returns the CPU time of slice "number" of "slices" slices of the join, in seconds."""
    identical_kernel = "false" if prune == "off" else "true"
    call = f"fasted_citus.join_slice('{TABLE}', 'v', {eps}, 'id', 'bigint', 'l2', false, 'count', {number}, {slices}, {identical_kernel})"
    return seconds(connection, f"SELECT count(*) FROM (SELECT {call}) x", prune)[1]


def make_table(args):
    run(args.coordinator, f"""
        DROP TABLE IF EXISTS {TABLE};
        CREATE TABLE {TABLE} (id bigint PRIMARY KEY, v real[]);
        SELECT create_distributed_table('{TABLE}', 'id')""")
    for first in range(1, args.rows + 1, 20000):
        last = min(first + 19999, args.rows)
        run(args.coordinator, f"""INSERT INTO {TABLE} SELECT i, (SELECT array_agg((hashint4((i % 1000) * 1024 + k) & 255)
            + (hashint4(i * 1024 + k) & 15)) FROM generate_series(1, {args.dimensions}) k)::real[]
            FROM generate_series({first}, {last}) i""")


def measure(args):
    eps = 6.2 * args.dimensions ** 0.5
    points = []
    prune = "auto" if args.pruned else "off"
    read = min(slice_seconds(args.workers[0], eps, 0, 1000000, "off") for _ in range(args.repeats))
    for m in range(1, args.most + 1):
        each = [min(slice_seconds(args.workers[i % len(args.workers)], eps, i, m, prune) for _ in range(args.repeats))
                for i in range(m)]
        points.append({"workers": m, "each": each})
        print(f"m = {m}: " + ", ".join(f"{s:.2f} s" for s in each), file=sys.stderr)
    count, whole = seconds(args.coordinator, f"SET fasted_citus.distribute = force; "
                           f"SELECT count(*) FROM fasted_self_join('{TABLE}', 'v', {eps})", prune)
    return {"rows": args.rows, "dimensions": args.dimensions, "prune": prune, "pairs": int(count.split()[-1]), "read": read,
            "points": points, "coordinator": whole, "load": dict(zip(("1 min", "5 min", "15 min"), os.getloadavg()))}


def page(result):
    lines = ["| workers | CPU time of each, s | without reading, s | relative to one worker |", "|---|---|---|---|"]
    read = result["read"]
    one = result["points"][0]["each"][0] - read
    for point in result["points"]:
        rest = [s - read for s in point["each"]]
        lines.append(f"| {point['workers']} | {', '.join(f'{s:.2f}' for s in point['each'])} "
                     f"| {', '.join(f'{s:.2f}' for s in rest)} | {', '.join(f'{s / one:.2f}' for s in rest)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coordinator", required=True, help="connection string of the coordinator")
    parser.add_argument("--workers", nargs="+", required=True, help="connection strings of the workers")
    parser.add_argument("--rows", type=int, default=100000, help="number of rows")
    parser.add_argument("--dimensions", type=int, default=128, help="number of dimensions")
    parser.add_argument("--most", type=int, default=3, help="maximum number of slices m")
    parser.add_argument("--repeats", type=int, default=2, help="runs of each slice, of which the fastest counts")
    parser.add_argument("--pruned", action="store_true", help="enable pruning, as for workers with an identical kernel")
    parser.add_argument("--out", help="file for the JSON results")
    args = parser.parse_args()
    make_table(args)
    result = measure(args)
    run(args.coordinator, f"DROP TABLE {TABLE}")
    print(page(result))
    print(f"CPU time of reading alone: {result['read']:.2f} s; of the coordinator: {result['coordinator']:.2f} s; {result['pairs']} pairs")
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(record.text(result))


if __name__ == "__main__":
    main()
