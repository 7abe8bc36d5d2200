#!/usr/bin/env python3
"""Compare the cost of a result row from fasted's nodes with that from a table and from a materializing function.

    bench/rows_out/run.py [--engine cpu | cuda] [--rows 6325] [--threads 2] [--one-core] [--workers 0 1 2]
                          [--repeats 7] [--only ids sum ctas group count limit]

The benchmark starts a private PostgreSQL server with the extension and creates a table of
one-dimensional vectors.  The result consists of all pairs (20 million with 6325 rows), so
that the engine's work per pair is minimal.  The queries run in turn, so that a slow phase
of the machine affects all of them:

  ids       SELECT sum(id_a + id_b): with the join node, as a JOIN b ON a.id < b.id AND
            fasted_within; with the scan node of fasted_self_join; and with a sequential scan
            of a table that contains the result
  sum       SELECT sum(dist): with the scan node; with the table; and with a materialized
            result (fasted.scan_node = off)
  ctas      CREATE UNLOGGED TABLE ... AS SELECT *, in the same three ways
  group     SELECT id_a, count(*) GROUP BY 1: with the scan node and each number of
            workers; with the table; and with a materialized result
  count     SELECT count(*) with either node, which returns no rows, and with the table
  limit     SELECT * LIMIT 10 with the scan node and with a materialized result

Only "group" uses parallel workers.  JIT is off.  The table is in shared buffers.  With
--one-core, the server and the engine's only thread share one CPU core.  The benchmark fails
if the answers differ.  It writes JSON and a table to bench/results/<machine>/.
"""
import argparse
import os
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from server import describe_machine, gpu_architectures, private_server, write_results  # noqa: E402

JOIN = "fasted_self_join('items', 'v', 'Infinity')"
JOIN_NODE = "items a JOIN items b ON a.id < b.id AND fasted_within(a.v, b.v, 'Infinity')"


def make_tables(server, n):
    server.psql(f"""
        DROP TABLE IF EXISTS items, pairs;
        CREATE TABLE items (id bigint PRIMARY KEY, v real[]);
        INSERT INTO items SELECT i, ARRAY[i] FROM generate_series(1, {n}) AS i;
        CREATE UNLOGGED TABLE pairs AS SELECT * FROM {JOIN};
        VACUUM ANALYZE items, pairs;
        SELECT sum(dist) FROM pairs;""")
    return int(server.psql("SELECT count(*) FROM pairs"))


def cases(workers):
    """Returns {name: (settings, query)}."""
    node, stored, materialised = "", "", "SET fasted.scan_node = off;"
    ctas = "DROP TABLE IF EXISTS copy;\nCREATE UNLOGGED TABLE copy AS SELECT * FROM {}"
    group = "SELECT count(*), sum(n) FROM (SELECT id_a, count(*) AS n FROM {} GROUP BY 1) AS g"
    result = {
        "ids join": (node, f"SELECT sum(a.id + b.id) FROM {JOIN_NODE}"),
        "ids node": (node, f"SELECT sum(id_a + id_b) FROM {JOIN}"),
        "ids table": (stored, "SELECT sum(id_a + id_b) FROM pairs"),
        "sum node": (node, f"SELECT sum(dist) FROM {JOIN}"),
        "sum table": (stored, "SELECT sum(dist) FROM pairs"),
        "sum materialised": (materialised, f"SELECT sum(dist) FROM {JOIN}"),
        "ctas node": (node, ctas.format(JOIN)),
        "ctas table": (stored, ctas.format("pairs")),
        "ctas materialised": (materialised, ctas.format(JOIN)),
        "group table": (stored, group.format("pairs")),
        "group materialised": (materialised, group.format(JOIN)),
        "count join": (node, f"SELECT count(*) FROM {JOIN_NODE}"),
        "count table": (stored, "SELECT count(*) FROM pairs"),
        "count node": (node, f"SELECT count(*) FROM {JOIN}"),
        "limit node": (node, f"SELECT count(*) FROM (SELECT * FROM {JOIN} LIMIT 10) AS x"),
        "limit materialised": (materialised, f"SELECT count(*) FROM (SELECT * FROM {JOIN} LIMIT 10) AS x"),
    }
    for n in workers:
        result[f"group node, {n} workers"] = (f"SET max_parallel_workers_per_gather = {n};", group.format(JOIN))
    return result


def measure(server, pairs, args, chosen):
    common = f"""LOAD 'fasted'; SET fasted.engine = {args.engine}; SET fasted.threads = {args.threads}; SET jit = off;
        SET max_parallel_workers_per_gather = 0; SET max_parallel_workers = 64;
        SET min_parallel_table_scan_size = 0; SET enable_nestloop = off;"""
    if "FastedJoin" not in (plan := server.psql(f"{common}\nEXPLAIN SELECT count(*) FROM {JOIN_NODE};")):
        sys.exit(f"the plan does not use the join node:\n{plan}")
    if args.engine == "cuda":       # initialize the GPU
        common += f" SELECT count(*) FROM {JOIN};"
    times = {name: [] for name in chosen}
    # the distances are whole numbers, so that their sum is exact
    due = {"ids": server.psql("SELECT sum(id_a + id_b) FROM pairs"), "sum": server.psql("SELECT sum(dist) FROM pairs"),
           "count": str(pairs), "group": f"{args.rows - 1}|{pairs}"}
    for r in range(args.repeats):
        for name, (settings, query) in chosen.items():
            drop, _, statement = query.rpartition("\n")
            answer, seconds = server.timed(f"{common}\n{settings}\n{drop}", statement)
            if answer != due.get(name.split()[0], answer):
                sys.exit(f"{name} returned {answer} instead of {due[name.split()[0]]}")
            times[name] += seconds
        print(f"  {r + 1} of {args.repeats}", flush=True)
    return times


def summary(times, pairs):
    """Returns the medians, their ratios, and the nanoseconds per pair."""
    median = {name: statistics.median(t) for name, t in times.items()}
    workers = sorted(int(name.split()[2]) for name in times if name.endswith("workers"))
    serial = f"group node, {workers[0]} workers" if workers else None
    compared = [(f"{kind}: join node / table", f"{kind} join", f"{kind} table") for kind in ("ids", "count")]
    compared += [(f"{kind}: node / {other}", f"{kind} node", f"{kind} {other}")
                 for kind in ("sum", "ctas") for other in ("table", "materialised")]
    compared += [(f"group: node / {other}", serial, f"group {other}") for other in ("table", "materialised")]
    compared += [(f"group: speedup with {n} workers", serial, f"group node, {n} workers") for n in workers[1:]]
    ratios = {name: median[over] / median[under] for name, over, under in compared
              if over in median and under in median}
    return {"seconds": median, "ratios": ratios,
            "ns_per_pair": {name: 1e9 * t / pairs for name, t in median.items() if "limit" not in name}}


def table(machine, pairs, times):
    result = summary(times, pairs)
    lines = ["# Cost of a result row", "",
             f"Written by `bench/rows_out/run.py`, with {pairs} pairs. Times are medians (minimum to maximum).", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", "| query | time, s | ns per pair |", "|---|---|---|"]
    for name, t in result["seconds"].items():
        each = f"{result['ns_per_pair'][name]:.0f}" if name in result["ns_per_pair"] else ""
        lines.append(f"| {name} | {t:.3f} ({min(times[name]):.3f} to {max(times[name]):.3f}) | {each} |")
    lines += ["", "| ratio | |", "|---|---|"]
    lines += [f"| {name} | {value:.2f} |" for name, value in result["ratios"].items()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=6325, help="number of rows; the result has n (n - 1) / 2 pairs")
    parser.add_argument("--engine", choices=["cpu", "cuda"], default="cpu", help="fasted.engine")
    parser.add_argument("--threads", type=int, default=2, help="fasted.threads")
    parser.add_argument("--one-core", action="store_true", help="run the server on one CPU core, with fasted.threads = 1")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], help="numbers of parallel workers for group")
    parser.add_argument("--repeats", type=int, default=7, help="runs of each query")
    parser.add_argument("--only", nargs="+", default=["ids", "sum", "ctas", "group", "count", "limit"], help="kinds of queries to measure")
    args = parser.parse_args()

    with private_server(gpu_architectures() if args.engine == "cuda" else "NVCC=") as (server, _):
        server.psql("ALTER SYSTEM SET shared_buffers = '3GB'")
        if args.one_core:
            args.threads = 1
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        server.start()
        pairs = make_tables(server, args.rows)
        machine = describe_machine(server)
        chosen = {name: case for name, case in cases(args.workers).items() if name.split()[0] in args.only}
        times = measure(server, pairs, args, chosen)

    machine |= {"engine": args.engine, "threads": args.threads, "one core": args.one_core}
    name = "rows_out" + ("_cuda" if args.engine == "cuda" else "") + ("_one_core" if args.one_core else "")
    write_results(name, f"{machine['processor']} {machine['processors']} cores",
                  {"machine": machine, "pairs": pairs, "times": times}, table(machine, pairs, times))


if __name__ == "__main__":
    main()
