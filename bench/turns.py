#!/usr/bin/env python3
"""Compare the speed of this source tree with that of another revision on one machine.

The benchmark builds both.  Each one has a private PostgreSQL server with the same rows.  The
servers run every statement in turn, so that a slow phase of the machine affects both.  For
each statement, the benchmark prints both medians and their ratio.  A ratio above 1 means
that this source tree is slower.

  joins      count(*) over fasted_self_join and over a join on fasted_within; two columns, or the
             distance, of every pair; two tables; rows that have no near row in another table
  functions  neighbours, clusters, deduplication, nearest rows, nearest rows by partition
  rows in    reading; the last row's vector is NaN, which ends the statement with an error
  rows out   all pairs of one-dimensional vectors: sum, parallel GROUP BY, CREATE TABLE

The benchmark writes no files.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from server import TOP, Server, make_tables, set_storage

NEIGHBOURS = 64
PAIR_ROWS = 4500


def make_rows(server, n, d):
    """Creates the tables and returns eps.

    "parts" has the rows of "items" in partitions of 500 rows, "ended" ends with a vector of NaN, and
    "line" has one-dimensional vectors.
    """
    eps = make_tables(server, n, d, NEIGHBOURS)
    server.psql(f"""
        DROP TABLE IF EXISTS parts, ended, line;
        CREATE TABLE parts (id bigint PRIMARY KEY, part int, v real[]);
        {set_storage('parts')} INSERT INTO parts SELECT id, id / 500, v FROM items;
        CREATE TABLE ended (id bigint, v real[]);
        {set_storage('ended')} INSERT INTO ended SELECT id + c * 1000000 AS id, v FROM items, generate_series(0, 4) AS c;
        INSERT INTO ended VALUES (0, array_fill('NaN'::real, ARRAY[{d}]));
        SELECT setseed(0.25);
        CREATE TABLE line AS SELECT i::bigint AS id, ARRAY[random()]::real[] AS v FROM generate_series(1, {PAIR_ROWS}) AS i;
        ALTER TABLE line ADD PRIMARY KEY (id);
        VACUUM ANALYZE parts, ended, line;""")
    return eps


def statements(server, eps):
    """Returns {title: statement} for one server; the argument for partitions depends on its revision."""
    partition = server.psql("SELECT bool_or('partition_by' = ANY (proargnames)) FROM pg_proc WHERE proname = 'fasted_knn_join'")
    partition = "partition_by" if partition == "t" else "within"
    near = f"a.id < b.id AND fasted_within(a.v, b.v, {eps!r})"
    knn = "SELECT count(*), round(sum(dist)::numeric, 3) FROM fasted_knn_join('parts', 'v', 'parts', 'v', 10"
    everything = "fasted_self_join('line', 'v', 2)"
    return {
        "self-join, count": f"SELECT count(*) FROM fasted_self_join('items', 'v', {eps!r})",
        "self-join, rows": f"SELECT round(sum(dist)::numeric, 3) FROM fasted_self_join('items', 'v', {eps!r})",
        "join, count": f"SELECT count(*) FROM items a JOIN items b ON {near}",
        "join, two columns": f"SELECT sum(a.id + b.id) FROM items a JOIN items b ON {near}",
        "join, distance": f"SELECT round(sum(fasted_distance(a.v, b.v))::numeric, 3) FROM items a JOIN items b ON {near}",
        "join, two tables": f"SELECT count(*) FROM items a JOIN parts b ON {near}",
        "join, within partitions": f"SELECT count(*) FROM parts a JOIN parts b ON a.part = b.part AND {near}",
        "no near row": "SELECT count(*) FROM items a WHERE NOT EXISTS (SELECT FROM parts b WHERE a.id <> b.id"
                       f" AND fasted_within(a.v, b.v, {eps / 2!r}))",
        "neighbours": f"SELECT sum(neighbors) FROM fasted_neighbors('items', 'v', {eps!r})",
        "clusters": f"SELECT count(cluster) FROM fasted_cluster('items', 'v', {eps!r})",
        "clusters of 8": f"SELECT count(cluster) FROM fasted_cluster('items', 'v', {eps!r}, 8)",
        "row to keep": f"SELECT sum(kept) FROM fasted_keep_one('items', 'v', {eps!r})",
        "nearest": f"{knn})",
        "nearest, by partition": f"{knn}, {partition} => 'part')",
        "rows in": f"SELECT count(*) FROM fasted_self_join('ended', 'v', {eps!r}, id_column => 'id')",
        "rows in, 1 worker": "SET max_parallel_workers_per_gather = 1; SET min_parallel_table_scan_size = 0;"
                             f" SELECT count(*) FROM fasted_self_join('ended', 'v', {eps!r}, id_column => 'id')",
        "rows out, sum": f"SELECT round(sum(dist)::numeric, 3) FROM {everything}",
        "rows out, count": f"SELECT count(*) FROM {everything}",
        "rows out, GROUP BY": "SET max_parallel_workers_per_gather = 1; SET parallel_setup_cost = 0;"
                              f" SELECT count(*) FROM (SELECT id_a, count(*) FROM {everything} GROUP BY 1) g",
        "rows out, table": f"CREATE UNLOGGED TABLE result AS SELECT * FROM {everything}; DROP TABLE result",
    }


def timed(server, settings, query):
    """Runs a query in a new session; returns its answer, or its error message, and its seconds."""
    result = subprocess.run(["psql", "-XqAt"], text=True, capture_output=True, env=server.env,
                            input=f"{settings}\n\\timing on\n{query};\n")
    lines = result.stdout.splitlines()
    answer = [line for line in lines if not line.startswith("Time: ")]
    seconds = sum(float(line.split()[1]) for line in lines if line.startswith("Time: ")) / 1000
    return (answer or result.stderr.splitlines()[:1]), seconds


def compare(servers, args, d):
    """Measures and prints all statements for one number of dimensions."""
    eps = {name: make_rows(server, args.rows, d) for name, server in servers.items()}
    settings = f"""SET client_min_messages = error; SET fasted.engine = {args.engine}; SET work_mem = '256MB'; SET jit = off;
        SET enable_nestloop = off; SET max_parallel_workers_per_gather = 0;
        LOAD 'fasted'; SELECT count(*) AS warm FROM fasted_self_join('sample', 'v', 0, id_column => 'id') \\gset"""
    queries = {name: statements(server, eps[name]) for name, server in servers.items()}
    print(f"\nn = {args.rows}, d = {d}, medians of {args.repeats}\n\n| statement | {' | '.join(servers)} | ratio |\n|---|---|---|---|")
    for title in queries["this"]:
        times = {name: [] for name in servers}
        answers = {}
        for turn in range(args.repeats):
            for name in list(servers) if turn % 2 == 0 else list(servers)[::-1]:
                answers[name], seconds = timed(servers[name], settings, queries[name][title])
                times[name].append(seconds)
        old, new = (statistics.median(times[name]) for name in servers)
        note = "" if answers["base"] == answers["this"] else f" different answers: {answers}"
        print(f"| {title} | {old:.4f} s | {new:.4f} s | {new / old:.2f} |{note}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="the other revision, or a folder that contains its source tree")
    parser.add_argument("--rows", type=int, default=20000, help="number of rows")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[128, 960], help="numbers of dimensions")
    parser.add_argument("--engine", choices=["cpu", "cuda"], default="cpu", help="fasted.engine")
    parser.add_argument("--repeats", type=int, default=7, help="runs of each statement")
    args = parser.parse_args()

    scratch = Path(tempfile.mkdtemp(prefix="fasted-turns-"))
    scratch.chmod(0o1777)   # the servers' user creates their directories in it
    tree = Path(args.base)
    if not tree.is_dir():
        tree = scratch / "base"
        subprocess.run(["git", "-C", TOP, "worktree", "add", "--detach", "-f", tree, args.base], check=True, capture_output=True)
    make = ["with_llvm=no"] + (["NVCC="] if args.engine == "cpu" else [f"CUDA_ARCHS={os.environ.get('CUDA_ARCHS', '90a')}"])
    servers = {}
    try:
        for name, top in (("base", tree), ("this", TOP)):
            servers[name] = Server(f"{scratch}/{name}-pg", *make, top=top)
            servers[name].psql("CREATE EXTENSION fasted")
        for d in args.dimensions:
            compare(servers, args, d)
    finally:
        for server in servers.values():
            server.remove()
        if tree.parent == scratch:
            subprocess.run(["git", "-C", TOP, "worktree", "remove", "--force", tree], check=False)
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
