#!/usr/bin/env python3
"""Compare the CPU engine inside PostgreSQL with sgemm and with a nested-loop join.

    bench/cpu_join/run.py [--rows 20000] [--dimensions 128 960] [--threads 2]
                          [--repeats 5] [--no-nested-loop]

The benchmark starts a private PostgreSQL server with the extension and creates tables
of normal random vectors.  It measures in turn, so that a slow phase of the machine
affects all of them:

  join      SELECT count(*) FROM fasted_self_join(...), including the table scan; eps
            is chosen such that a row has 64 neighbours on average (S = 64)
  sgemm     OpenBLAS's matrix product of the same n x n x d, with the two fastest core
            types; the whole product in one call, and in tiles
  nested    a nested loop on a.id < b.id AND distance(a.v, b.v) < eps by two parallel
            workers, with pgvector if it is available, otherwise with l2_distance.c;
            measured once; its table stores vectors in line, because it would fetch them for every pair

work_mem is 256 MB, so that no result is written to disk.  Rates are 2 n n d / seconds.  The benchmark writes JSON
and a table to bench/results/<machine>/.  It needs libopenblas-dev and a C compiler, and
the packages that doc/development.md lists.
"""
import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from server import describe_machine, make_tables, output, private_server, set_storage, write_results  # noqa: E402

CORE_TYPES = ["", "Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids"]
NEIGHBOURS = 64


def install_distance(server, scratch):
    """Installs the distance function of the nested loop; returns (name, column type, SQL expression)."""
    if server.psql("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'") == "1":
        server.psql("CREATE EXTENSION IF NOT EXISTS vector")
        version = server.psql("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        return f"pgvector {version}", "vector", "a.v <-> b.v"
    library = Path(scratch) / "l2_distance.so"
    include = output("pg_config", "--includedir-server", env=server.env).strip()
    subprocess.run(["cc", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "-I", include,
                    "-o", library, HERE / "l2_distance.c"], check=True)
    library.chmod(0o755)
    server.psql(f"""CREATE FUNCTION bench_l2_distance(real[], real[]) RETURNS float8
                  AS '{library}' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE""")
    return "l2_distance.c", "real[]", "bench_l2_distance(a.v, b.v)"


def build_sgemm(directory):
    """Compiles sgemm.c in a directory; returns the program's path."""
    program = Path(directory) / "sgemm"
    try:
        subprocess.run(["cc", "-O2", "-o", program, HERE / "sgemm.c", "-lopenblas", "-lm"], check=True)
    except subprocess.CalledProcessError:
        sys.exit("could not build sgemm.c: install libopenblas-dev")
    return program


def run_sgemm(program, core_type, n, d, threads, repeats):
    """Returns {core, full: [s], tiled: [s]}, or None if the CPU does not support the core type."""
    env = dict(os.environ, OPENBLAS_NUM_THREADS=str(threads))
    if core_type:
        env["OPENBLAS_CORETYPE"] = core_type
    result = subprocess.run([program, str(n), str(d), str(threads), str(repeats)],
                            text=True, capture_output=True, env=env)
    if result.returncode != 0:
        return None
    core, *lines = result.stdout.split("\n")
    times = [list(map(float, line.split())) for line in lines if line]
    return {"core": core, "full": [t[0] for t in times], "tiled": [t[1] for t in times]}


def best_core_types(program, n, d, threads):
    """Returns the core types that the CPU supports, ordered by the time of a short trial."""
    trial = {c: run_sgemm(program, c, min(n, 8000), d, threads, 2) for c in CORE_TYPES}
    supported = {c: min(t["full"]) for c, t in trial.items() if t}
    return sorted(supported, key=supported.get)


def measure(server, program, n, d, threads, repeats):
    """Measures the join and sgemm in turn for one shape; returns a measurement (a dictionary)."""
    eps = make_tables(server, n, d, NEIGHBOURS)
    settings = f"SET fasted.engine = cpu; SET fasted.threads = {threads}; SET work_mem = '256MB';"
    query = f"SELECT count(*) FROM fasted_self_join('items', 'v', {eps!r})"
    core_types = best_core_types(program, n, d, threads)
    joins, sgemms = [], {c: {"full": [], "tiled": []} for c in core_types[:2]}

    server.timed(settings, query)
    for r in range(repeats):
        pairs, seconds = server.timed(settings, query)
        joins += seconds
        for c in sgemms:
            one = run_sgemm(program, c, n, d, threads, 1)
            sgemms[c]["core"] = one["core"]
            for form in ("full", "tiled"):
                sgemms[c][form] += one[form]
        print(f"  d = {d}, {r + 1} of {repeats}: join {seconds[0]:.3f} s", flush=True)
    return {"n": n, "d": d, "eps": eps, "pairs": int(pairs), "threads": threads,
            "join": joins, "sgemm": list(sgemms.values())}


def measure_nested_loop(server, row, distance):
    """Adds the nested loop's time to the measurement "row"."""
    name, column_type, expression = distance
    server.psql(f"""
        DROP TABLE IF EXISTS nested;
        CREATE TABLE nested (id bigint PRIMARY KEY, v {column_type});
        {set_storage('nested', 'PLAIN')}
        INSERT INTO nested SELECT id, v::{column_type} FROM items;
        VACUUM ANALYZE nested;""")
    settings = """SET fasted.join_node = off; SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off;
        SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
        SET seq_page_cost = 0; SET enable_indexscan = off; SET enable_bitmapscan = off; SET jit = off; SET work_mem = '256MB';"""
    query = f"SELECT count(*) FROM nested a JOIN nested b ON a.id < b.id AND {expression} < {row['eps']!r}"
    plan = server.psql(f"{settings}\nEXPLAIN {query};")
    if "Workers Planned: 2" not in plan:
        sys.exit(f"the plan of the nested loop is not parallel:\n{plan}")
    pairs, (seconds,) = server.timed(settings, query)
    row["nested_loop"] = {"distance": name, "seconds": seconds, "pairs": int(pairs)}
    print(f"  d = {row['d']}: nested loop {seconds:.1f} s", flush=True)


def summary(row):
    """Returns the medians, rates and ratios of a measurement."""
    flop = 2.0 * row["n"] ** 2 * row["d"]
    join = statistics.median(row["join"])
    full = {g["core"]: statistics.median(g["full"]) for g in row["sgemm"]}
    tiled = {g["core"]: statistics.median(g["tiled"]) for g in row["sgemm"]}
    found = {
        "join_seconds": join, "join_gflops": flop / join / 1e9,
        "sgemm_core": min(full, key=full.get),
        "sgemm_full_gflops": flop / min(full.values()) / 1e9,
        "sgemm_tiled_gflops": flop / min(tiled.values()) / 1e9,
        "over_sgemm_full": min(full.values()) / join,
        "over_sgemm_tiled": min(tiled.values()) / join,
    }
    if "nested_loop" in row:
        found["over_nested_loop"] = row["nested_loop"]["seconds"] / join
    return found


def table(machine, rows):
    lines = ["# The join on the CPU", "",
             "Written by `bench/cpu_join/run.py`. Times are medians (minimum to maximum). Rates are 2 n n d / t.", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", "| n | d | pairs | join, s | join, GFLOPS | sgemm, GFLOPS (whole, tiled) | join / sgemm (whole, tiled) "
              "| nested loop, s | join / nested loop |", "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        s = summary(row)
        nested = row.get("nested_loop")
        lines.append(
            f"| {row['n']} | {row['d']} | {row['pairs']} | {s['join_seconds']:.3f} "
            f"({min(row['join']):.3f} to {max(row['join']):.3f}) | {s['join_gflops']:.0f} "
            f"| {s['sgemm_full_gflops']:.0f}, {s['sgemm_tiled_gflops']:.0f} ({s['sgemm_core']}) "
            f"| {s['over_sgemm_full']:.2f}, {s['over_sgemm_tiled']:.2f} "
            + (f"| {nested['seconds']:.1f} ({nested['distance']}) | {s['over_nested_loop']:.0f} |"
               if nested else "| | |"))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20000, help="number of rows")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[128, 960], help="numbers of dimensions")
    parser.add_argument("--threads", type=int, default=2, help="number of threads of the join and of sgemm")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of the join and of sgemm")
    parser.add_argument("--no-nested-loop", action="store_true", help="do not measure the nested loop")
    args = parser.parse_args()

    with private_server("NVCC=") as (server, scratch):
        program = build_sgemm(scratch)
        distance = None if args.no_nested_loop else install_distance(server, scratch)
        machine = describe_machine(server)
        rows = []
        for d in args.dimensions:
            row = measure(server, program, args.rows, d, args.threads, args.repeats)
            if distance:
                measure_nested_loop(server, row, distance)
            rows.append(row)

    write_results("cpu_join", f"{machine['processor']} {machine['processors']} cores",
                  {"machine": machine, "rows": rows}, table(machine, rows))


if __name__ == "__main__":
    main()
