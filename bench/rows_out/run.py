#!/usr/bin/env python3
"""Compare the cost of a result row from the scan node with that from a table and from a materializing function.

    bench/rows_out/run.py [--rows 6325] [--threads 2] [--workers 0 1 2]
                          [--repeats 7] [--only sum ctas group count limit]

The benchmark starts a private PostgreSQL server with the extension and creates a table of
one-dimensional vectors.  The result consists of all pairs (20 million with 6325 rows), so
that the engine's work per pair is minimal.  The queries run in turn, so that a slow phase
of the machine affects all of them:

  sum       SELECT sum(dist): with the scan node; with a sequential scan of a table that
            contains the result; and with a materialized result (fasted.scan_node = off)
  ctas      CREATE UNLOGGED TABLE ... AS SELECT *, in the same three ways
  group     SELECT id_a, count(*) GROUP BY 1: with the scan node and each number of
            workers; with the table; and with a materialized result
  count     SELECT count(*) with the scan node, which returns no rows
  limit     SELECT * LIMIT 10 with the scan node and with a materialized result

Only "group" uses parallel workers.  JIT is off.  The table is in shared buffers.  The
benchmark writes JSON and a table to bench/results/<machine>/.
"""
import argparse
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from server import describe_machine, private_server, write_results  # noqa: E402

JOIN = "fasted_self_join('items', 'v', 'Infinity')"


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
        "sum node": (node, f"SELECT sum(dist) FROM {JOIN}"),
        "sum table": (stored, "SELECT sum(dist) FROM pairs"),
        "sum materialised": (materialised, f"SELECT sum(dist) FROM {JOIN}"),
        "ctas node": (node, ctas.format(JOIN)),
        "ctas table": (stored, ctas.format("pairs")),
        "ctas materialised": (materialised, ctas.format(JOIN)),
        "group table": (stored, group.format("pairs")),
        "group materialised": (materialised, group.format(JOIN)),
        "count node": (node, f"SELECT count(*) FROM {JOIN}"),
        "limit node": (node, f"SELECT count(*) FROM (SELECT * FROM {JOIN} LIMIT 10) AS x"),
        "limit materialised": (materialised, f"SELECT count(*) FROM (SELECT * FROM {JOIN} LIMIT 10) AS x"),
    }
    for n in workers:
        result[f"group node, {n} workers"] = (f"SET max_parallel_workers_per_gather = {n};", group.format(JOIN))
    return result


def measure(server, pairs, threads, chosen, repeats):
    common = f"""SET fasted.engine = cpu; SET fasted.threads = {threads}; SET jit = off;
        SET max_parallel_workers_per_gather = 0; SET max_parallel_workers = 64;
        SET min_parallel_table_scan_size = 0;"""
    times = {name: [] for name in chosen}
    for r in range(repeats):
        for name, (settings, query) in chosen.items():
            drop, _, statement = query.rpartition("\n")
            answer, seconds = server.timed(f"{common}\n{settings}\n{drop}", statement)
            if name.startswith("group") and not answer.endswith(f"|{pairs}"):
                sys.exit(f"{name} returned {answer} instead of {pairs} pairs")
            times[name] += seconds
        print(f"  {r + 1} of {repeats}", flush=True)
    return times


def summary(times, pairs):
    """Returns the medians, their ratios, and the nanoseconds per pair."""
    median = {name: statistics.median(t) for name, t in times.items()}
    workers = sorted(int(name.split()[2]) for name in times if name.endswith("workers"))
    serial = f"group node, {workers[0]} workers" if workers else None
    compared = [(f"{kind}: node / {other}", f"{kind} node", f"{kind} {other}")
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
    parser.add_argument("--threads", type=int, default=2, help="fasted.threads")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], help="numbers of parallel workers for group")
    parser.add_argument("--repeats", type=int, default=7, help="runs of each query")
    parser.add_argument("--only", nargs="+", default=["sum", "ctas", "group", "count", "limit"], help="kinds of queries to measure")
    args = parser.parse_args()

    with private_server("NVCC=") as (server, _):
        server.psql("ALTER SYSTEM SET shared_buffers = '3GB'")
        server.start()
        pairs = make_tables(server, args.rows)
        machine = describe_machine(server)
        chosen = {name: case for name, case in cases(args.workers).items() if name.split()[0] in args.only}
        times = measure(server, pairs, args.threads, chosen, args.repeats)

    write_results("rows_out", f"{machine['processor']} {machine['processors']} cores",
                  {"machine": machine, "pairs": pairs, "times": times}, table(machine, pairs, times))


if __name__ == "__main__":
    main()
