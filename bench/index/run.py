#!/usr/bin/env python3
"""Measure the exact index, beside sequential scans and pgvector's HNSW.

    bench/index/run.py [--data wordllama-like=1000000] [--queries 40] [--repeats 3] [--hnsw-rows 100000] [--ef-search 40 200]
                       [--prepare]

One session runs each kind of query for --queries vectors, --repeats times each, with the data in shared buffers.  A
query's time is the least of its repeats.  Kinds of queries, by cosine distance:

  within       all rows within 0.05 of a row of the table
  10 of a row  the 10 nearest rows of a row of the table, and 100
  10 far       the same of a vector that is far from all rows: the direction of the sum of three rows
  10 tenant    the 10 nearest of a row among 1% of the rows, by an index on (v, tenant)
  join         1000 new rows with all rows, within 0.05

It also measures the index build, its size, and inserts.  Answers are compared with those of sequential scans, for a few
vectors.  If pgvector is installed, its sequential scan and its HNSW index of the first --hnsw-rows rows run, too.

If FASTED_BENCH_DIR names a directory, the server and the tables are kept there, and --prepare only fills them.

The benchmark writes JSON and a page to bench/results/<machine>/.
"""
import argparse
import json
import re
import statistics
import sys
from pathlib import Path

import numpy

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import datasets  # noqa: E402
import record  # noqa: E402
from peers import pgvector, postgres  # noqa: E402
from peers.answer import Unavailable  # noqa: E402
from server import environment, private_server, set_storage, write_results  # noqa: E402

NEW = 1000                      # rows that are joined and inserted
SEQUENTIAL = 3                  # vectors of sequential scans
TIMES = """SET client_min_messages = warning;
CREATE FUNCTION pg_temp.times(query text, vectors text, repeats int) RETURNS SETOF json LANGUAGE plpgsql AS $$
DECLARE
    vector record;
    answer text;
    begun timestamptz;
    seconds float8;
BEGIN
    FOR vector IN EXECUTE vectors LOOP
        seconds := 'Infinity';
        FOR i IN 1 .. repeats LOOP
            begun := clock_timestamp();
            EXECUTE query INTO answer USING vector.v;
            seconds := least(seconds, extract(epoch FROM clock_timestamp() - begun));
        END LOOP;
        RETURN NEXT json_build_object('seconds', seconds, 'answer', answer);
    END LOOP;
END $$;
SET jit = off; SET max_parallel_workers_per_gather = 0; SET fasted.join_node = off;"""
BY_INDEX = "SET enable_seqscan = off;"
BY_TABLE = "SET enable_indexscan = off; SET enable_bitmapscan = off;"
WITHIN = "SELECT count(*) FROM {table} WHERE v <=> $1 < 0.05"
NEAREST = "SELECT array_agg(d) FROM (SELECT v <=> $1 AS d FROM {table} {where} ORDER BY v <=> $1 LIMIT {k}) AS s"


def kinds(table, tenants=True):
    """Returns {name: (query, kind of vectors)}."""
    found = {"within": (WITHIN.format(table=table), "row")}
    for name, k, vectors in (("10 of a row", 10, "row"), ("100 of a row", 100, "row"), ("10 far", 10, "far"), ("100 far", 100, "far")):
        found[name] = NEAREST.format(table=table, where="", k=k), vectors
    if tenants:
        found["10 tenant"] = NEAREST.format(table=table, where="WHERE tenant = 7", k=10), "row"
    return found


class Case:
    """The tables items (id, v, tenant), fresh and far (id, v) of a data set."""

    def __init__(self, server, args, named):
        self.server, self.args = server, args
        self.data, _, rows = named.partition("=")
        self.n = int(rows or 1000000)
        if self.ask("SELECT to_regclass('filled_with')") and self.ask("SELECT name FROM filled_with") == named:
            self.d = int(self.ask("SELECT cardinality(v) FROM items LIMIT 1"))
            return
        rows = numpy.ascontiguousarray(datasets.load(self.data, self.n + NEW), dtype=numpy.float32)
        self.d = rows.shape[1]
        some = numpy.random.default_rng(1).integers(self.n, size=(args.queries, 3))
        far = rows[some].sum(axis=1)
        far /= numpy.linalg.norm(far, axis=1, keepdims=True)
        for table, part in (("loaded", rows[:self.n]), ("fresh", rows[self.n:]), ("far", far)):
            postgres.fill(server, table, part)
        self.ask("DROP TABLE IF EXISTS items, filled_with; CREATE TABLE items (id bigint, v real[], tenant int);"
                 f"{set_storage('items')} INSERT INTO items SELECT id, v, id % 100 FROM loaded;"
                 "DROP TABLE loaded; ALTER TABLE items ADD PRIMARY KEY (id); VACUUM ANALYZE items;"
                 f"CREATE TABLE filled_with AS SELECT '{named}' AS name")

    def ask(self, sql):
        return self.server.psql(f"SET client_min_messages = warning; SET maintenance_work_mem = '1GB';\n{sql};")

    def seconds(self, sql):
        """Returns the time of a statement."""
        return self.server.timed("SET client_min_messages = warning; SET maintenance_work_mem = '1GB';", sql)[1][0]

    def vectors(self, kind, count, cast=""):
        table = f"items WHERE id % {self.n // self.args.queries} = 7" if kind == "row" else "far"
        return f"SELECT v{cast} AS v FROM (SELECT * FROM {table} ORDER BY id LIMIT {count}) AS s"

    def times(self, settings, query, vectors, repeats):
        """Runs a query for vectors; returns ([seconds, ...], [answer, ...])."""
        lines = self.server.psql(f"{TIMES}\n{settings}\nSELECT pg_temp.times($q${query}$q$, $q${vectors}$q$, {repeats});").splitlines()
        found = [json.loads(line) for line in lines]
        return [one["seconds"] for one in found], [one["answer"] for one in found]

    def fetched(self, query, kind):
        """Returns the rows that the index scan fetched for each of some vectors, by EXPLAIN."""
        found = []
        for place in range(min(10, self.args.queries)):
            vector = f"({self.vectors(kind, 1).replace('LIMIT', f'OFFSET {place} LIMIT')})"
            plan = self.server.psql(f"{TIMES}\n{BY_INDEX}\nEXPLAIN (ANALYZE, FORMAT json) {query.replace('$1', vector)};")
            found += [int(rows) for rows in re.findall(r'"Rows Fetched": (\d+)', plan)]
        return found

    def about(self, method, name):
        return {"data": self.data, "rows": self.n, "dimensions": self.d, "method": method, "query": name}


def measure(case):
    args = case.args
    case.ask("DROP INDEX IF EXISTS items_v, items_tenant")
    for name, columns in (("items_v", "v real_cosine_ops"), ("items_tenant", "v real_cosine_ops, tenant")):
        seconds = case.seconds(f"CREATE INDEX {name} ON items USING fasted ({columns})")
        yield {**case.about("index", f"build of {name}"), "seconds": [seconds], "bytes": int(case.ask(f"SELECT pg_relation_size('{name}')"))}
    case.ask("CREATE EXTENSION IF NOT EXISTS pg_prewarm; SELECT pg_prewarm('items'), pg_prewarm('items_v'), pg_prewarm('items_tenant')")
    for name, (query, vectors) in kinds("items").items():
        seconds, answers = case.times(BY_INDEX, query, case.vectors(vectors, args.queries), args.repeats)
        yield {**case.about("index", name), "seconds": seconds, "fetched": case.fetched(query, vectors)}
        due_seconds, due = case.times(BY_TABLE, query, case.vectors(vectors, SEQUENTIAL), 1)
        if due != answers[:SEQUENTIAL]:
            sys.exit(f"{case.data}: {name}: the index gives {answers[:SEQUENTIAL]}, a sequential scan {due}")
        yield {**case.about("sequential scan", name), "seconds": due_seconds}
    join = "SELECT count(*) FROM fresh AS f JOIN items AS i ON i.v <=> f.v < 0.05"
    seconds, _ = case.times(BY_INDEX, join, "SELECT 1 AS v", args.repeats)
    yield {**case.about("index", "join"), "seconds": seconds}
    case.ask("DROP TABLE IF EXISTS plain; CREATE TABLE plain (LIKE items INCLUDING STORAGE)")
    for table in ("plain", "items"):
        yield {**case.about("index", f"insert into {table}"), "seconds": [case.seconds(
            f"INSERT INTO {table} SELECT -1 - id, v, 1 FROM fresh") / NEW]}
    case.ask("DELETE FROM items WHERE id < 0; VACUUM items")


def measure_pgvector(case):
    args = case.args
    version = pgvector.require(case.server)
    n = min(args.hnsw_rows, case.n)
    case.ask(f"""DROP TABLE IF EXISTS vectors; CREATE TABLE vectors (id bigint, v vector({case.d}));
        {set_storage('vectors')} INSERT INTO vectors SELECT id, v FROM items;
        CREATE TEMP TABLE t AS SELECT pg_prewarm('vectors')""")
    for name, (query, vectors) in kinds("vectors", tenants=False).items():
        seconds, _ = case.times(BY_TABLE, query, case.vectors(vectors, SEQUENTIAL, "::vector"), 1)
        yield {**case.about(f"pgvector {version}, sequential scan", name), "seconds": seconds}
    case.ask(f"DELETE FROM vectors WHERE id >= {n}; VACUUM vectors")
    yield {**case.about(f"pgvector {version}, HNSW of {n} rows", "build"), "seconds": [case.seconds(
        "CREATE INDEX ON vectors USING hnsw (v vector_cosine_ops)")]}
    for ef in args.ef_search:
        for name, (query, vectors) in kinds("vectors", tenants=False).items():
            if name == "within":
                continue
            settings = f"{BY_INDEX} SET hnsw.ef_search = {ef};"
            seconds, answers = case.times(settings, query, case.vectors(vectors, args.queries, "::vector"), args.repeats)
            _, due = case.times(BY_TABLE, query, case.vectors(vectors, args.queries, "::vector"), 1)
            found = [sum(float(d) <= float(right.strip("{}").split(",")[-1]) for d in answer.strip("{}").split(",")) /
                     len(right.split(",")) for answer, right in zip(answers, due)]
            yield {**case.about(f"pgvector {version}, HNSW of {n} rows, ef_search {ef}", name), "seconds": seconds,
                   "recall": statistics.mean(found)}


def page(env, measurements):
    lines = ["# The exact index", "", "Written by `bench/index/run.py`. Times in ms; fetched: rows fetched from the table.", ""]
    lines += [f"- {name}: {env[name]}" for name in ("processor", "processors", "postgresql", "storage", "revision", "date") if env.get(name)]
    lines += ["", "| data | method | query | median | 90% | fetched, most | |", "|---|---|---|---|---|---|---|"]
    for m in measurements:
        runs = sorted(1000 * one for one in m["seconds"])
        more = f"recall {m['recall']:.3f}" if "recall" in m else f"{m['bytes'] / m['rows']:.0f} bytes a row" if "bytes" in m else ""
        lines.append(f"| {m['data']}, {m['rows']} x {m['dimensions']} | {m['method']} | {m['query']} | {statistics.median(runs):.2f} | "
                     f"{runs[int(0.9 * (len(runs) - 1))]:.2f} | {max(m.get('fetched') or [0]) or ''} | {more} |")
    return "\n".join(lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="wordllama-like=1000000", help="data set of bench/datasets, as NAME=ROWS")
    parser.add_argument("--queries", type=int, default=40, help="vectors of each kind of query")
    parser.add_argument("--repeats", type=int, default=3, help="calls for each vector, of which the fastest counts")
    parser.add_argument("--hnsw-rows", type=int, default=100000, help="rows of pgvector's HNSW index")
    parser.add_argument("--ef-search", type=int, nargs="+", default=[40, 200], help="hnsw.ef_search")
    parser.add_argument("--prepare", action="store_true", help="only fill the tables in FASTED_BENCH_DIR")
    return parser.parse_args()


def main():
    args = arguments()
    measurements = []
    with private_server("with_llvm=no", "NVCC=") as (server, _):
        server.allow_workers(max_wal_size="16GB", shared_buffers="5GB", autovacuum="off")
        case = Case(server, args, args.data)
        if args.prepare:
            return
        env = environment(server)
        for m in measure(case):
            print(m["method"], m["query"], f"{1000 * statistics.median(m['seconds']):.2f} ms", m.get("fetched", ""), flush=True)
            measurements.append(m)
        try:
            measurements += measure_pgvector(case)
        except Unavailable as error:
            print(error)
    write_results("index", record.machine_name(env),
                  {"benchmark": "index", "environment": env, "settings": vars(args), "measurements": measurements}, page(env, measurements))


if __name__ == "__main__":
    main()
