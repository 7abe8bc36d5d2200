#!/usr/bin/env python3
"""Compare distance joins inside PostgreSQL: the join node, the function and a nested loop.

    bench/joins/run.py [--rows 20000] [--dimensions 128 960] [--threads 2]
                       [--repeats 5] [--no-nested-loop]

The benchmark starts a private PostgreSQL server with the extension and creates tables of
normal random vectors.  Eps is chosen such that a row has 64 neighbours on average.  These
statements run in turn:

  count      SELECT count(*) over a JOIN b ON a.id < b.id AND distance < eps, which returns no pairs
  self_join  SELECT count(*) over fasted_self_join for the same pairs
  rows       SELECT sum(a.id + b.id), which returns two columns of every pair
  texts      the same with two text columns of about 20 bytes
  function   these two text columns with fasted_self_join, joined twice to the table
  two_tables count over two tables with the same rows
  anti       the rows of one table that have no row of another table within eps / 2
  nested     count with PostgreSQL's nested loop and two parallel workers, over a table that stores
             vectors in line, because it would fetch them for every pair; run once

If pgvector is available, the vectors have its type and the distance is <->.  Otherwise they
are real[] and the distance is fasted_distance.  The benchmark writes JSON and a table to
bench/results/<machine>/.
"""
import argparse
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from server import describe_machine, make_tables, private_server, set_storage, write_results  # noqa: E402

NEIGHBOURS = 64


def vectors(server):
    """Returns the name of the distance, the column type, and the SQL expression for the distance of a and b."""
    if server.psql("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'") == "1":
        server.psql("CREATE EXTENSION IF NOT EXISTS vector")
        version = server.psql("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        return f"pgvector {version}", "vector", "a.v <-> b.v"
    return "fasted_distance", "real[]", "fasted_distance(a.v, b.v)"


def make_rows(server, column_type):
    server.psql(f"""
        DROP TABLE IF EXISTS rows, others;
        CREATE TABLE rows (id bigint PRIMARY KEY, name text, v {column_type});
        {set_storage('rows')}
        CREATE TABLE others (LIKE rows INCLUDING ALL);
        INSERT INTO rows SELECT id, 'a row with number ' || id, v::{column_type} FROM items;
        INSERT INTO others TABLE rows;
        VACUUM ANALYZE rows, others;""")


def queries(expression, eps):
    join = f"a JOIN {{}} b ON a.id < b.id AND {expression} < {eps!r}"
    return {
        "count": f"SELECT count(*) FROM rows {join.format('rows')}",
        "self_join": f"SELECT count(*) FROM fasted_self_join('items', 'v', {eps!r})",
        "rows": f"SELECT sum(a.id + b.id) FROM rows {join.format('rows')}",
        "texts": f"SELECT sum(length(a.name) + length(b.name)) FROM rows {join.format('rows')}",
        "function": f"SELECT sum(length(a.name) + length(b.name)) FROM fasted_self_join('items', 'v', {eps!r}) p"
                    " JOIN rows a ON a.id = p.id_a JOIN rows b ON b.id = p.id_b",
        "two_tables": f"SELECT count(*) FROM rows {join.format('others')}",
        "anti": f"SELECT count(*) FROM rows a WHERE NOT EXISTS (SELECT FROM others b WHERE {expression} < {eps / 2!r} AND a.id <> b.id)",
    }


def measure(server, distance, n, d, threads, repeats):
    _, column_type, expression = distance
    eps = make_tables(server, n, d, NEIGHBOURS)
    make_rows(server, column_type)
    settings = f"""LOAD 'fasted'; SET fasted.engine = cpu; SET fasted.threads = {threads}; SET work_mem = '256MB';
        SET jit = off; SET max_parallel_workers_per_gather = 0; SET enable_nestloop = off;"""
    statements = queries(expression, eps)
    times = {name: [] for name in statements}
    answers = {}
    plan = server.psql(f"{settings}\nEXPLAIN {statements['count']};")
    if "FastedJoin" not in plan:
        sys.exit(f"the plan does not use the join node:\n{plan}")
    for r in range(repeats):
        for name, query in statements.items():
            answers[name], seconds = server.timed(settings, query)
            times[name] += seconds
        print(f"  d = {d}, {r + 1} of {repeats}: count {times['count'][-1]:.3f} s", flush=True)
    # The counts may differ slightly, because pgvector rounds distances to FP32 and eps is the distance of a pair.
    if abs(int(answers["count"]) - int(answers["self_join"])) > 1e-5 * int(answers["count"]):
        sys.exit(f"the join node and the function return different numbers of pairs: {answers}")
    return {"n": n, "d": d, "eps": eps, "pairs": int(answers["count"]), "threads": threads,
            "distance": distance[0], "times": times}


def measure_nested_loop(server, row, distance):
    settings = """SET fasted.join_node = off; SET max_parallel_workers_per_gather = 2;
        SET parallel_leader_participation = off; SET min_parallel_table_scan_size = 0;
        SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET seq_page_cost = 0;
        SET enable_indexscan = off; SET enable_bitmapscan = off; SET jit = off; SET work_mem = '256MB';"""
    server.psql(f"""DROP TABLE IF EXISTS nested; CREATE TABLE nested (LIKE rows INCLUDING ALL);
        {set_storage('nested', 'PLAIN')} INSERT INTO nested TABLE rows; VACUUM ANALYZE nested;""")
    query = queries(distance[2], row["eps"])["count"].replace("rows", "nested")
    plan = server.psql(f"{settings}\nEXPLAIN {query};")
    if "Workers Planned: 2" not in plan or "Nested Loop" not in plan:
        sys.exit(f"the plan is not a parallel nested loop:\n{plan}")
    pairs, row["times"]["nested"] = server.timed(settings, query)
    if int(pairs) != row["pairs"]:
        sys.exit(f"the join node finds {row['pairs']} pairs, but the nested loop finds {pairs}")
    print(f"  d = {row['d']}: nested loop {row['times']['nested'][0]:.1f} s", flush=True)


def table(machine, rows):
    lines = ["# Distance joins", "", "Written by `bench/joins/run.py`. Times are medians.", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    for row in rows:
        median = {name: statistics.median(times) for name, times in row["times"].items()}
        count = median["count"]
        lines += ["", f"n = {row['n']}, d = {row['d']}, {row['pairs']} pairs, {row['distance']}:", "",
                  "| statement | time, s | range, s | time / count | difference to count, ns per pair |", "|---|---|---|---|---|"]
        for name, times in row["times"].items():
            each = (median[name] - count) / row["pairs"] * 1e9
            lines.append(f"| {name} | {median[name]:.3f} | {min(times):.3f} to {max(times):.3f} | "
                         f"{median[name] / count:.2f} | {each:+.0f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20000, help="number of rows")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[128, 960], help="numbers of dimensions")
    parser.add_argument("--threads", type=int, default=2, help="fasted.threads")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each statement")
    parser.add_argument("--no-nested-loop", action="store_true", help="do not measure the nested loop")
    args = parser.parse_args()

    with private_server("NVCC=") as (server, _):
        distance = vectors(server)
        machine = describe_machine(server)
        rows = []
        for d in args.dimensions:
            row = measure(server, distance, args.rows, d, args.threads, args.repeats)
            if not args.no_nested_loop:
                measure_nested_loop(server, row, distance)
            rows.append(row)

    write_results("joins", f"{machine['processor']} {machine['processors']} cores",
                  {"machine": machine, "rows": rows}, table(machine, rows))


if __name__ == "__main__":
    main()
