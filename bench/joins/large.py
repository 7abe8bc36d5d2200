#!/usr/bin/env python3
"""Measure distance joins of a million rows inside PostgreSQL, on a GPU.

    bench/joins/large.py [--data sift-like] [--rows 1000000] [--new 20000] [--groups 1000] [--repeats 5]

The benchmark creates a table "seen", and a table "incoming" with other rows of the same
data set.  Eps is chosen such that a row of "seen" has 64 neighbours on average.  These
statements run in turn.  Each one runs twice in a new session, and the second run is timed:

  self_join   SELECT count(*) FROM fasted_self_join
  node        the same join as seen a JOIN seen b ON a.id < b.id AND distance <= eps, counted by the engine
  rows        SELECT sum(a.id + b.id) over this join, which returns two columns of every pair
  groups      the count with the additional condition a.tenant = b.tenant, for --groups tenants
  new         SELECT count(*) FROM incoming WHERE NOT EXISTS (a row of seen within eps)

The answers are compared with those of equivalent statements.
"""
import argparse
import json
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from datasets import load  # noqa: E402
from peers import postgres  # noqa: E402
from server import describe_machine, gpu_architectures, join_node, private_server, set_storage, write_results  # noqa: E402

NEIGHBOURS = 64
SETTINGS = """LOAD 'fasted'; SET fasted.engine = {engine}; SET max_parallel_workers_per_gather = {workers}; SET jit = off;
    SET work_mem = '1GB'; SET client_min_messages = warning;"""


def make_tables(server, rows, new, groups):
    postgres.fill(server, "items", rows[:-new])
    postgres.fill(server, "incoming", rows[-new:])
    server.psql(f"""DROP TABLE IF EXISTS seen;
        CREATE UNLOGGED TABLE seen (id bigint PRIMARY KEY, tenant integer, v real[]);
        {set_storage('seen')} ALTER TABLE seen ALTER COLUMN v SET STATISTICS 0;
        INSERT INTO seen SELECT id, id % {groups}, v FROM items;
        VACUUM ANALYZE seen; DROP TABLE items; SELECT count(*) FROM seen;""")


def queries(eps):
    near = f"fasted_distance(a.v, b.v) <= {eps!r}"
    return {
        "self_join": f"SELECT count(*) FROM fasted_self_join('seen', 'v', {eps!r})",
        "node": f"SELECT count(*) FROM seen a JOIN seen b ON a.id < b.id AND {near}",
        "rows": f"SELECT sum(a.id + b.id) FROM seen a JOIN seen b ON a.id < b.id AND {near}",
        "groups": f"SELECT count(*) FROM seen a JOIN seen b ON a.tenant = b.tenant AND a.id < b.id AND {near}",
        "new": f"SELECT count(*) FROM incoming a WHERE NOT EXISTS (SELECT FROM seen b WHERE {near})",
    }


def checks(eps, groups):
    """Returns statements that must give the same answers as queries()."""
    near = f"fasted_distance(a.v, b.v) <= {eps!r}"
    return {
        "node": f"SELECT count(*) FROM fasted_self_join('seen', 'v', {eps!r})",
        "rows": f"SELECT sum(id_a + id_b) FROM fasted_self_join('seen', 'v', {eps!r})",
        "groups": f"SELECT count(*) FROM fasted_self_join('seen', 'v', {eps!r}) WHERE id_a % {groups} = id_b % {groups}",
        "new": "SELECT (SELECT count(*) FROM incoming) - count(DISTINCT a.id) "
               f"FROM incoming a JOIN seen b ON {near}",
    }


def explained(server, settings, query):
    """Runs EXPLAIN (ANALYZE); returns its times and the join node, which is None if there is none."""
    plan = json.loads(server.psql(f"{settings} EXPLAIN (ANALYZE, FORMAT json) {query};"))[0]
    return {"execution_ms": plan["Execution Time"], "planning_ms": plan["Planning Time"], "node": join_node(plan["Plan"])}


def measure(server, settings, eps, args):
    statements = queries(eps)
    times = {name: [] for name in statements}
    answers = {}
    for r in range(args.repeats):
        for name, query in statements.items():
            # the first call of a session initializes the GPU
            answers[name], seconds = server.timed(settings, query, 2)
            times[name] += seconds[1:]
        print(f"{r + 1} of {args.repeats}: " + ", ".join(f"{name} {t[-1]:.3f} s" for name, t in times.items()), flush=True)
    for name, query in checks(eps, args.groups).items():
        answer = server.psql(f"{settings}\n{query};")
        if answer != answers[name]:
            sys.exit(f"{name} gives {answers[name]}, but {query} gives {answer}")
    return {"times": times, "answers": answers, "plans": {name: explained(server, settings, query) for name, query in statements.items()}}


def table(machine, found):
    median = {name: statistics.median(times) for name, times in found["times"].items()}
    lines = ["# Distance joins of a million rows", "", "Written by `bench/joins/large.py`. Times are medians of warm calls, from the "
             "statement to its answer.", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", f"{found['data']}, {found['rows']} x {found['dimensions']}, eps {found['eps']:.6g}, {found['groups']} tenants, "
              f"{found['new']} new rows:", "", "| statement | answer | time, s | range, s | time / node |", "|---|---|---|---|---|"]
    lines += [f"| {name} | {found['answers'][name]} | {median[name]:.3f} | {min(times):.3f} to {max(times):.3f} | "
              f"{median[name] / median['node']:.3f} |" for name, times in found["times"].items()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sift-like", help="data set of bench/datasets")
    parser.add_argument("--rows", type=int, default=1000000, help="number of rows of the table seen")
    parser.add_argument("--new", type=int, default=20000, help="number of rows of the table incoming")
    parser.add_argument("--groups", type=int, default=1000, help="number of tenants")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each statement")
    parser.add_argument("--engine", default="cuda", help="fasted.engine")
    parser.add_argument("--workers", type=int, default=12, help="number of PostgreSQL's parallel workers")
    args = parser.parse_args()

    rows = load(args.data, rows=args.rows + args.new)
    build = [gpu_architectures()] if args.engine == "cuda" else ["NVCC="]
    with private_server(*build) as (server, _):
        server.allow_workers(shared_buffers="4GB")
        machine = describe_machine(server)
        make_tables(server, rows, args.new, args.groups)
        eps = float(server.psql(f"SET fasted.engine = {args.engine}; "
                                f"SELECT eps FROM fasted_epsilon('seen', 'v', {NEIGHBOURS}, seed => 1)"))
        found = {"data": args.data, "rows": args.rows, "dimensions": rows.shape[1], "eps": eps, "groups": args.groups,
                 "new": args.new}
        found |= measure(server, SETTINGS.format(engine=args.engine, workers=args.workers), eps, args)

    name = "NVIDIA H200" if args.engine == "cuda" else f"{machine['processor']} {machine['processors']} cores"
    write_results("joins_large", name, {"machine": machine, **found}, table(machine, found))


if __name__ == "__main__":
    main()
