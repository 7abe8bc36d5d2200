#!/usr/bin/env python3
"""Joins on a distance of a million rows inside PostgreSQL, on a GPU.

    bench/joins/large.py [--data sift-like] [--rows 1000000] [--new 20000] [--groups 1000] [--repeats 5]

Makes a table "seen", another one "incoming" of further rows of the same data set, and
eps such that a row of "seen" has 64 neighbours on average; measures in turn, interleaved,
from the statement to its answer, warm:

  self_join   SELECT count(*) FROM fasted_self_join
  node        the same as seen a JOIN seen b ON a.id < b.id AND distance < eps, which the engine counts
  rows        SELECT sum(a.id + b.id) of it: two columns of every pair are made
  groups      the same with AND a.tenant = b.tenant, so many groups
  new         SELECT count(*) FROM incoming n WHERE NOT EXISTS (a row of seen within eps)

and compares what "groups" and "new" find with other statements that say the same: pairs
filtered by tenant, and the incoming rows that a join of both tables does not name.
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
from server import describe_machine, gpu_architectures, join_node, private_server, write_results  # noqa: E402

NEIGHBOURS = 64
SETTINGS = """LOAD 'fasted'; SET fasted.engine = {engine}; SET max_parallel_workers_per_gather = {workers}; SET jit = off;
    SET work_mem = '1GB'; SET client_min_messages = warning;"""


def make_tables(server, rows, new, groups):
    postgres.fill(server, "items", rows[:-new])
    postgres.fill(server, "incoming", rows[-new:])
    server.psql(f"""DROP TABLE IF EXISTS seen;
        CREATE UNLOGGED TABLE seen (id bigint PRIMARY KEY, tenant integer, v real[]);
        ALTER TABLE seen ALTER COLUMN v SET STORAGE {postgres.storage(rows.shape[1], 'real[]')},
            ALTER COLUMN v SET STATISTICS 0;
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
    """The same answers by other statements."""
    near = f"fasted_distance(a.v, b.v) <= {eps!r}"
    return {
        "node": f"SELECT count(*) FROM fasted_self_join('seen', 'v', {eps!r})",
        "rows": f"SELECT sum(id_a + id_b) FROM fasted_self_join('seen', 'v', {eps!r})",
        "groups": f"SELECT count(*) FROM fasted_self_join('seen', 'v', {eps!r}) WHERE id_a % {groups} = id_b % {groups}",
        "new": "SELECT (SELECT count(*) FROM incoming) - count(DISTINCT a.id) "
               f"FROM incoming a JOIN seen b ON {near}",
    }


def explained(server, settings, query):
    """The join node of EXPLAIN (ANALYZE), or None."""
    plan = json.loads(server.psql(f"{settings} EXPLAIN (ANALYZE, FORMAT json) {query};"))[0]
    return {"execution_ms": plan["Execution Time"], "planning_ms": plan["Planning Time"], "node": join_node(plan["Plan"])}


def measure(server, settings, eps, args):
    asked = queries(eps)
    times = {name: [] for name in asked}
    answers = {}
    for r in range(args.repeats):
        for name, query in asked.items():
            # a session's first call wakes the GPU
            answers[name], seconds = server.timed(settings, query, 2)
            times[name] += seconds[1:]
        print(f"{r + 1} of {args.repeats}: " + ", ".join(f"{name} {t[-1]:.3f} s" for name, t in times.items()), flush=True)
    for name, query in checks(eps, args.groups).items():
        answer = server.psql(f"{settings}\n{query};")
        if answer != answers[name]:
            sys.exit(f"{name} gives {answers[name]}, where {query} gives {answer}")
    return {"times": times, "answers": answers, "plans": {name: explained(server, settings, query) for name, query in asked.items()}}


def table(machine, found):
    median = {name: statistics.median(times) for name, times in found["times"].items()}
    lines = ["# Joins on a distance of a million rows", "", "Written by `bench/joins/large.py`; seconds from the statement to its "
             "answer, warm, medians.", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", f"{found['data']}, {found['rows']} x {found['dimensions']}, eps {found['eps']:.6g}, {found['groups']} groups, "
              f"{found['new']} new rows:", "", "| what | answer | s | range | beside node |", "|---|---|---|---|---|"]
    lines += [f"| {name} | {found['answers'][name]} | {median[name]:.3f} | {min(times):.3f} to {max(times):.3f} | "
              f"{median[name] / median['node']:.3f} x |" for name, times in found["times"].items()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sift-like")
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--new", type=int, default=20000)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--engine", default="cuda")
    parser.add_argument("--workers", type=int, default=12)
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
